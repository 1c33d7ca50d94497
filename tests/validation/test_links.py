"""Links by the adapters at their ends, on modelled answers of mlxlink."""

import dataclasses
from pathlib import Path

import pytest

from capacity.model import Plan
from inventory.site.sections.acceptance import Limit
from network.drivers.answers import Source
from tests.plans import plan_of
from validation.check import Outcome
from validation.checks import test_links as links
from validation.facts import Answer, Facts
from validation.facts.shapes import machine_of

NDR = (Path(__file__).parents[1] / "data/modelled/mlxlink/ndr.json").read_text()
SOURCE = Source("gpu001", "read facts: machine")


def with_limits(plan: Plan) -> Plan:
    given = {
        "link_ber_max": Limit(value=1e-15, unit="errors/bit", source="test"),
        "link_raw_ber_max": Limit(value=2.4e-4, unit="errors/bit", source="test"),
    }
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": {**plan.site.limits, **given}}))


ROCE = with_limits(plan_of("b200-256-roce"))
NAMES = links.names_of_devices(ROCE)
TEXT = NDR.replace("IB-NDR", "400G")


def facts(plan: Plan, text: str = TEXT, **texts: str) -> Facts:
    """Servers whose adapters all say the same, and of `texts` ({server: text}) rail0 another."""
    made = {}
    for host in plan.devices.loc[plan.devices["role"] == "gpu", "name"]:
        said = {f"rail{rail}": texts.get(host, text) if rail == 0 else text for rail in range(8)}
        machine = machine_of({"container": "", "errors": {}, "links": said}, SOURCE)
        made[host] = Answer(host, "ssh", data={"machine": machine})
    return Facts(nodes=made)


def judged(found: Facts, switch: str = "rol001") -> Outcome:
    return links.test_links_are_up_and_without_errors_for_long_enough(switch, ROCE, found, NAMES)


def test_links_as_planned_pass_and_the_time_is_named() -> None:
    outcome = judged(facts(ROCE))
    assert (outcome.passed, outcome.value) == (True, {"links": 32, "faults": 0})
    assert "7500 s" in outcome.detail


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("LinkUp", "Polling"), "is Active, Polling"),
        (TEXT[:300], "cannot be read"),
        ("mlxlink: exit status 1", "cannot be read"),
    ],
)
def test_a_link_that_is_not_as_planned_is_named_with_both_ends(text: str, words: str) -> None:
    outcome = judged(facts(ROCE, gpu007=text))
    assert not outcome.passed
    assert outcome.detail.startswith("gpu007:rail0 (at rol001:swp4s0) ")
    assert words in outcome.detail


def test_a_server_that_was_not_read_fails_the_switch() -> None:
    found = facts(ROCE)
    lost = Answer("gpu003", "ssh", error="gpu003: no answer")
    outcome = judged(dataclasses.replace(found, nodes={**found.nodes, "gpu003": lost}))
    assert "gpu003:rail0 (at rol001:swp2s0) is not known: gpu003: no answer" in outcome.detail


def test_a_switch_without_adapters_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="links between switches"):
        judged(facts(ROCE), "ros001")


def test_devices_of_an_infiniband_site_are_known_by_the_names_of_the_catalogue() -> None:
    plan = plan_of("lab")
    assert links.names_of_devices(plan)["gpu001"]["mlx5_3"] == "gpu001:ib3"
