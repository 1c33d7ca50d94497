"""Time of configuring compute switches: `python -m bench.switches` prints processor seconds for 640 of them, per network OS.

Configurations are those of `b200-256-roce`, repeated under other names: planning is measured by bench.plan. For each switch:
rendered, read back to the model and compared with the plan, diffed against a configuration with another MTU. Cumulus Linux is
also held against NVUE's published schema (nvueschema): every tenth switch, and the whole is estimated. Nothing is asserted.
"""

import argparse
import dataclasses
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import yaml

from capacity.build import build
from inventory.site import load_site
from inventory.yaml_data import LOADER
from network import roce
from network.nos.cumulus import startup
from network.nos.model import Model, SwitchConfig
from network.nos.sonic import config_db
from network.nos.trees import difference

SITE, COUNT, EVERY = "b200-256-roce", 640, 10
PARTS: Mapping[str, tuple[Callable[[SwitchConfig], str], Callable[[str], Model], Callable[[str], Any]]] = {
    "cumulus": (startup.render, startup.read, lambda text: yaml.load(text, Loader=LOADER)[1]["set"]),
    "sonic": (config_db.render, config_db.read, json.loads),
}
"""{network OS: how it is rendered, read back, and parsed}."""


def _repeated(configs: list[SwitchConfig], count: int) -> list[SwitchConfig]:
    return [configs[n % len(configs)] for n in range(count)]


def _all(work: Callable[[Any], Any], each: Sequence[Any]) -> list[Any]:
    return [work(one) for one in each]


def _differences(before: Sequence[Any], after: Sequence[Any]) -> list[str]:
    return [difference(one, other) for one, other in zip(before, after, strict=True)]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """(processor seconds, what it gave)."""
    began = time.process_time()
    said = work()
    return time.process_time() - began, said


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of rendering, checking and diffing compute switches.")
    parser.add_argument("--count", type=int, default=COUNT, help="switches (default: %(default)s)")
    count = parser.parse_args().count
    shipped = list(roce.structured_configs(build(load_site(SITE))).values())
    configs = [dataclasses.replace(one, hostname=f"sw{n:04}") for n, one in enumerate(_repeated(shipped, count))]
    changed = {
        one.hostname: dataclasses.replace(one, intent=dataclasses.replace(one.intent, mtu=9000)) for one in shipped
    }
    for system, (render, read, parse) in PARTS.items():
        rendered, texts = timed(partial(_all, render, configs))
        checked, models = timed(partial(_all, read, texts))
        same = models == [one.model() for one in configs]
        trees, others = _all(parse, texts), [parse(render(changed[one.hostname])) for one in _repeated(shipped, count)]
        diffed, _ = timed(partial(_differences, others, trees))
        print(
            f"{system}: {count} switches, rendered {rendered:.1f} s, read back {checked:.1f} s ({'equal' if same else 'DIFFER'}), "
            f"diffed {diffed:.1f} s, in all {rendered + checked + diffed:.1f} s"
        )
    schema = importlib.import_module(f"nvueschema.models.v{startup.VERSION.replace('.', '_')}").NvueConfig
    sample = [startup.render(one) for one in configs[::EVERY]]
    settings = [yaml.load(text, Loader=LOADER)[1]["set"] for text in sample]
    taken, _ = timed(partial(_all, partial(schema.model_validate, extra="forbid"), settings))
    print(f"cumulus: NVUE's schema, {len(sample)} switches {taken:.1f} s, so {taken * EVERY:.1f} s for {count}")


if __name__ == "__main__":
    main()
