"""Time of configuring compute switches: `python -m bench.switches` prints processor seconds for 640 of them, per network OS.

Configurations are those of `b200-256-roce`, repeated under other names: planning is measured by bench.plan. For each switch:
rendered, read back to the model and compared with the plan, diffed against a configuration with another MTU (not Arista EOS:
there the switch makes the difference). Two checkers of others stand beside, asked for every tenth switch, the whole estimated:
NVUE's published schema (nvueschema), and Arista's AVD (pyavd, where `make setup` has put it into .tools/avd), which validates and
renders: the ratio is how many times as long that takes as rendering and reading back here. Nothing is asserted.
"""

import argparse
import dataclasses
import importlib
import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import yaml

from capacity.build import build
from infra.toolchain import avd
from inventory.site import load_site
from inventory.site.whatif import changed
from inventory.yaml_data import LOADER
from network import roce
from network.nos.cumulus import startup
from network.nos.eos import startup_config
from network.nos.model import Model, SwitchConfig
from network.nos.sonic import config_db
from network.nos.trees import difference

SITE, COUNT, EVERY = "b200-256-roce", 640, 10
EOS = ["fabric.switch_model=arista-7060x6-64pe", "fabric.nos=eos", f"fabric.mtu={startup_config.MTU_MAX}"]
"""What the site says instead for EOS."""


@dataclasses.dataclass(frozen=True)
class Part:
    """How one network OS is rendered, read back and parsed, and the site's settings. parse: None where the switch diffs."""

    render: Callable[[SwitchConfig], str]
    read: Callable[[str], Model]
    parse: Callable[[str], Any] | None
    settings: Sequence[str] = ()


PARTS: Mapping[str, Part] = {
    "cumulus": Part(startup.render, startup.read, lambda text: yaml.load(text, Loader=LOADER)[1]["set"]),
    "sonic": Part(config_db.render, config_db.read, json.loads),
    "eos": Part(startup_config.render, startup_config.read, None, EOS),
}


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


def _of_children(work: Callable[[], Any]) -> float:
    """Processor seconds of the programs that `work` has run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _system(system: str, part: Part, count: int) -> tuple[list[SwitchConfig], float]:
    """The configurations of `count` switches, and the seconds that rendering and reading back took; prints the line of a system."""
    site = changed(SITE, part.settings) if part.settings else load_site(SITE)
    shipped = list(roce.structured_configs(build(site)).values())
    configs = [dataclasses.replace(one, hostname=f"sw{n:04}") for n, one in enumerate(_repeated(shipped, count))]
    rendered, texts = timed(partial(_all, part.render, configs))
    checked, models = timed(partial(_all, part.read, texts))
    wanted = [one.model() if part.parse else one.model().without_lengths() for one in configs]
    diffed = 0.0
    if part.parse:
        other = {
            one.hostname: part.parse(
                part.render(dataclasses.replace(one, intent=dataclasses.replace(one.intent, mtu=9000)))
            )
            for one in shipped
        }
        others = [other[one.hostname] for one in _repeated(shipped, count)]
        diffed, _ = timed(partial(_differences, others, _all(part.parse, texts)))
    print(
        f"{system}: {count} switches, rendered {rendered:.1f} s, read back {checked:.1f} s "
        f"({'equal' if models == wanted else 'DIFFER'}), "
        + (
            f"diffed {diffed:.1f} s, in all {rendered + checked + diffed:.1f} s"
            if part.parse
            else "diffed by the switch"
        )
    )
    return configs, rendered + checked


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of rendering, checking and diffing compute switches.")
    parser.add_argument("--count", type=int, default=COUNT, help="switches (default: %(default)s)")
    count = parser.parse_args().count
    made = {system: _system(system, part, count) for system, part in PARTS.items()}
    schema = importlib.import_module(f"nvueschema.models.v{startup.VERSION.replace('.', '_')}").NvueConfig
    sample = [startup.render(one) for one in made["cumulus"][0][::EVERY]]
    settings = [yaml.load(text, Loader=LOADER)[1]["set"] for text in sample]
    taken, _ = timed(partial(_all, partial(schema.model_validate, extra="forbid"), settings))
    print(f"cumulus: NVUE's schema, {len(sample)} switches {taken:.1f} s, so {taken * EVERY:.1f} s for {count}")
    if not avd.AVD.exists():
        print("eos: no pyavd in .tools/avd: make setup")
        return
    configs, own = made["eos"]
    trees = [startup_config.structured(one) for one in configs[::EVERY]]
    alone = _of_children(lambda: avd.checked([]))
    taken = _of_children(lambda: avd.checked(trees)) - alone
    print(
        f"eos: pyavd, {len(trees)} switches validated and rendered {taken:.1f} s, so {taken * EVERY:.1f} s for {count}: "
        f"{taken * EVERY / own:.1f} times as long"
    )


if __name__ == "__main__":
    main()
