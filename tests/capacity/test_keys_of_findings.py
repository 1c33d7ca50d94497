"""Site keys of findings.yaml against what the planner reads: by them `bringup explain SITE KEY` shows what a key decides."""

import pytest

from inventory.findings_registry import registry
from inventory.site import load_site
from inventory.site.explain import findings_of
from tests.capacity.reads import Read, asked_by, touches, traced

SITES = ("lab", "b200-256-roce", "gb300-nvl72-liquid")
"""RoCE and InfiniBand, air and liquid, circuits and busway."""
MOST = 10
"""Keys of one function. One that reads more plans a part of the site before it judges (POWER-TREE) or judges several things
(FABRIC-LOSSLESS-ECN), and most of them are not those of each of its findings."""


@pytest.fixture(scope="module")
def read() -> Read:
    return traced(load_site(name) for name in SITES)


def keys_of(id_: str) -> list[tuple[str, ...]]:
    return [tuple(key.split(".")) for key in registry()[id_].keys]


def test_a_finding_names_the_keys_that_the_function_reads_which_makes_it(read: Read) -> None:
    leaves, missing = read.keys(), {}
    for id_, places in asked_by().items():
        reads = [read.by_function.get(place, set()) & leaves for place in places]
        own = set().union(*(one for one in reads if len(one) <= MOST))
        if lacking := sorted(".".join(key) for key in own if not any(touches(key, named) for named in keys_of(id_))):
            missing[id_] = lacking
    assert not missing, (
        "add them to `keys` of these findings in inventory/findings.yaml, and run python -m inventory.findings_page"
    )


def test_a_finding_of_the_planner_names_no_key_that_nothing_reads(read: Read) -> None:
    leaves = read.keys() | read.whole
    wrong = {
        (id_, ".".join(named))
        for id_ in asked_by()
        for named in keys_of(id_)
        if not any(touches(key, named) for key in leaves)
    }
    assert not wrong


@pytest.mark.parametrize(
    ("key", "id_"),
    [
        ("cooling.dewpoint_c", "COOLING-COIL"),
        ("generator.start_s", "COOLING-RIDE-THROUGH"),
        ("electrical.ups_blocks.efficiency", "POWER-SWING"),
    ],
)
def test_explain_lists_findings_that_were_left_out(key: str, id_: str) -> None:
    assert id_ in findings_of(key)
