"""Nodes of a standing lab read twice: they agree, and what changes behind our back between the readings is found."""

import pytest

from tests.standing import Standing
from validation.facts.second_reader import asked, sample, seed_of, told
from validation.facts.testinfra_facts import read_nodes
from validation.second_reading import compare

pytestmark = pytest.mark.lab

CHANGES = {
    "file /etc/slurm/slurm.conf": ("chmod 0666 /etc/slurm/slurm.conf", "chmod 0644 /etc/slurm/slurm.conf"),
    "service lldpd running": ("systemctl stop lldpd", "systemctl start lldpd"),
    "sysctl net.ipv4.conf.default.rp_filter": (
        "sysctl -w net.ipv4.conf.default.rp_filter=0",
        "sysctl -w net.ipv4.conf.default.rp_filter=2",
    ),
}
"""Item, what changes it on a node, and what mends it."""


def test_both_readers_agree_on_a_node_of_each_role_and_on_no_change_between_them(standing: Standing):
    drawn = sample(standing.plan, seed_of(standing.plan, "2026-01-02"))
    facts = standing.facts(*drawn)
    changed = next(name for name in drawn if name.startswith("gpu"))
    try:
        for change, _ in CHANGES.values():
            standing.shell(changed, change)
        again = read_nodes(standing.plan, facts, drawn)
    finally:
        for _, mend in CHANGES.values():
            standing.shell(changed, mend)
    compared = {
        name: compare(name, told(data, asked(standing.plan, name, data)), again[name])
        for name in drawn
        for data in [facts.nodes[name].data]
    }
    found = compared.pop(changed).findings
    assert [(one.id, one.subject) for one in found] == [("FACTS-DISAGREE", changed)] * len(CHANGES)
    assert all(item in one.message for item, one in zip(sorted(CHANGES), found, strict=True))
    assert {name: [one.message for one in other.findings] for name, other in compared.items()} == {
        name: [] for name in drawn if name != changed
    }
    assert all(other.agreed >= 20 for other in compared.values())
