"""Draw the random sites of the equality report once: `python -m tests.equality.draw` writes random_sites.jsonl.xz.

The sites are what tests/capacity/random_sites.py draws with SEED, 70 like each of three shipped ones, written out as whole
site files. Each file is read back and must be the site that was drawn.
"""

import json
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from inventory.site import parse_site, whatif
from tests.capacity.random_sites import Drawn, base_of, sites
from tests.equality.records import RANDOM_SITES, write_text

SEED = 20261123
LIKE = ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")
SITES_LIKE_EACH = 70


def drawn(name: str, count: int) -> list[Drawn]:
    """So many different sites like a shipped one."""
    found: dict[tuple[str, ...], Drawn] = {}

    @seed(SEED)
    @settings(
        max_examples=2 * count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(sites(name))
    def keep(one: Drawn) -> None:
        if len(found) < count:
            found.setdefault(one.site.changes, one)

    keep()
    return list(found.values())


def text_of(one: Drawn) -> str:
    """The whole site file of a drawn site; ValueError where it would load as another site."""
    value: Any = base_of(one.base).value
    for setting in one.site.changes:
        path, new = whatif._setting(setting, value)
        value = whatif._put(value, path, new)
    text = yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True, width=120)
    if parse_site(text).slices() != one.site.slices():
        raise ValueError(f"{one!r} does not come back from its file")
    return text


def plain(value: Any) -> Any:
    """Nested values as dicts and lists."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def main() -> None:
    """Draw and write all of them."""
    providers._get_local_constants = Constants  # hypothesis draws from constants of whatever modules are imported
    lines = []
    for name in LIKE:
        for number, one in enumerate(drawn(name, SITES_LIKE_EACH), 1):
            made = {"id": f"random-{name}-{number:03d}", "seed": SEED, "files": {"site.yaml": text_of(one)}}
            lines.append(json.dumps(made, ensure_ascii=False) + "\n")
    write_text(RANDOM_SITES, "".join(lines))
    print(f"{RANDOM_SITES}: {len(lines)} sites")


if __name__ == "__main__":
    main()
