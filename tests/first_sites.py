"""The sites of a few lines that `bringup new` writes for each reference design, and their plans, made once per test process."""

import functools

from capacity.build import build
from capacity.model import Plan
from capacity.sizes import complete
from inventory.site import Site, parse_site
from inventory.site.new import Wanted, site_text

FIRST = {
    "h100": Wanted("first-h100", gpu="h100", fabric="ib", servers=64, power_kw=1200),
    "b200": Wanted("first-b200", gpu="b200", fabric="roce", gpus=256),
    "gb300": Wanted("first-gb300", gpu="gb300", fabric="ib", racks=8, cooling="liquid"),
    "mi355x": Wanted("first-mi355x", gpu="mi355x", fabric="roce", gpus=128),
}
"""What is asked for, by a short name: 512 H100, 256 B200, eight GB300 racks, 128 MI355X."""


def text_of(name: str) -> str:
    """The site file."""
    return site_text(FIRST[name])


@functools.cache
def first_site(name: str) -> Site:
    """The site with its sizes worked out."""
    return complete(parse_site(text_of(name), f"{FIRST[name].name}/site.yaml"))


@functools.cache
def first_plan(name: str) -> Plan:
    """Its plan."""
    return build(first_site(name))
