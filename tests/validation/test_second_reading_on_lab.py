"""Nodes of a standing lab read twice: they agree, and what changes behind our back between the readings is found."""

import pytest

from tests.standing import Standing
from validation.facts.second_reader import asked, sample, seed_of, told
from validation.facts.testinfra_facts import read_nodes
from validation.second_reading import compare

pytestmark = pytest.mark.lab


def test_both_readers_agree_on_a_node_of_each_role(standing: Standing):
    drawn, facts = sample(standing.plan, seed_of(standing.plan, "2026-01-02")), standing.facts()
    again = read_nodes(standing.plan, facts, drawn)
    compared = {
        name: compare(name, told(data, asked(standing.plan, name, data)), again[name])
        for name in drawn
        for data in [facts.nodes[name].data]
    }
    assert {name: [found.message for found in one.findings] for name, one in compared.items()} == {
        name: [] for name in drawn
    }
    assert all(one.agreed >= 20 for one in compared.values())


@pytest.mark.parametrize(
    ("item", "change", "mend"),
    [
        (
            "sysctl net.ipv4.conf.default.rp_filter",
            "sysctl -w net.ipv4.conf.default.rp_filter=0",
            "sysctl -w net.ipv4.conf.default.rp_filter=2",
        ),
        ("service lldpd running", "systemctl stop lldpd", "systemctl start lldpd"),
        ("file /etc/slurm/slurm.conf", "chmod 0666 /etc/slurm/slurm.conf", "chmod 0644 /etc/slurm/slurm.conf"),
    ],
)
def test_what_changes_between_the_readings_is_one_finding(standing: Standing, item: str, change: str, mend: str):
    facts = standing.facts()
    data = facts.nodes["gpu002"].data
    try:
        standing.shell("gpu002", change)
        again = read_nodes(standing.plan, facts, ["gpu002"])["gpu002"]
    finally:
        standing.shell("gpu002", mend)
    compared = compare("gpu002", told(data, asked(standing.plan, "gpu002", data)), again)
    (found,) = compared.findings
    assert (found.id, found.subject) == ("FACTS-DISAGREE", "gpu002")
    assert item in found.message
