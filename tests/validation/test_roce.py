"""Adapters as servers tell of them, judged against the plan. The answers are made from what the plan wants: nothing here was read
from an adapter."""

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import yaml

from capacity.model import Plan
from capacity.services.telemetry import ports as planned_ports
from inventory.delivered.assets import load_assets
from inventory.yaml_data import LOADER
from network import roce as fabric_roce
from network.drivers.answers import Source
from network.drivers.errors import Unreachable
from network.nos.cumulus import startup
from network.nos.driver import SwitchFacts
from network.nos.model import SwitchConfig
from network.roce_host import wanted
from tests.network import dual_stack
from tests.plans import plan_of
from validation import diagnose, roce, roce_ends
from validation.checks import test_fabric as fabric
from validation.checks import test_roce as checks
from validation.checks import test_telemetry as telemetry
from validation.facts import Answer, Facts
from validation.facts.shapes import machine_of
from validation.from_raw import FROM_RAW, Again

PLAN = dual_stack.plan()
WANTED = wanted(PLAN)["gpu001"]
ADAPTIVE = dataclasses.replace(
    PLAN,
    site=PLAN.site.model_copy(update={"fabric": PLAN.site.fabric.model_copy(update={"load_balancing": "adaptive"})}),
)
SOURCE = Source("gpu001", "read facts: machine")


def healthy() -> dict[str, Any]:
    """What a server tells whose adapters are as planned, with DOCA-OFED's driver."""
    rails = {
        rail["name"]: {
            "pci": f"0000:{rail['rail']:02x}:00.0",
            "netdev": rail["name"],
            "rdma": rail["name"],
            "values": {key: json.dumps(value, sort_keys=True) for key, value in rail["settings"].items()},
            "unread": {},
        }
        for rail in WANTED["rails"]
    }
    return {"error": "", "rails": rails}


def found(said: dict[str, Any], names: tuple[str, ...] = roce.LOSSLESS + roce.MARKED) -> list[str]:
    whole = machine_of({"container": "", "errors": {}, "roce": said}, SOURCE)
    return list(roce.faults(whole["roce"], WANTED, names))


def changed(setting: str, value: Any) -> dict[str, Any]:
    said = healthy()
    said["rails"]["rail5"]["values"][setting] = json.dumps(value)
    return said


def test_every_setting_belongs_to_one_item_and_adapters_as_planned_have_no_fault() -> None:
    every = set(wanted(ADAPTIVE)["gpu001"]["rails"][0]["settings"])
    ours = every - {"arp_ignore", "arp_announce", "rp_filter", "accept_ra_ipv6"}
    assert set(roce.LOSSLESS) | set(roce.MARKED) | set(roce.ANY_PATH) == ours
    assert len(roce.LOSSLESS) + len(roce.MARKED) + len(roce.ANY_PATH) == len(ours)
    assert found(healthy()) == []


@pytest.mark.parametrize("setting", [*roce.LOSSLESS, *roce.MARKED])
def test_another_value_of_any_setting_is_named_with_its_rail(setting: str) -> None:
    (fault,) = found(changed(setting, "something else"))
    assert fault.startswith(f'rail5: {setting} is "something else", planned ')


def test_of_a_table_only_the_rows_that_differ_are_shown() -> None:
    table = {str(dscp): dscp // 8 for dscp in range(64)}
    (fault,) = found(changed("dscp_priority", table))
    assert fault.count("planned") == roce.MOST_SHOWN
    assert "8 is 1, planned 0" in fault
    assert "and 50 more" in fault


def test_what_only_nvidias_driver_has_is_left_open_and_nothing_else_is() -> None:
    assert found(changed("roce_np", None)) == []
    assert roce.not_judged(changed("roce_np", None), roce.LOSSLESS) == ["roce_np"]
    assert found(changed("pfc", None)) != []


def test_a_missing_rail_a_wrong_name_and_what_cannot_be_read_are_named() -> None:
    said = healthy()
    del said["rails"]["rail2"]
    said["rails"]["rail3"]["rdma"] = "mlx5_3"
    said["rails"]["rail4"]["unread"]["pfc"] = "dcb is not installed"
    said["rails"]["rail6"]["values"]["pfc"] = "{"
    assert found(said, ("pfc",)) == [
        "rail2: the server does not tell of it",
        "rail3: its interface is rail3 and its RDMA device mlx5_3",
        "rail4: pfc could not be read: dcb is not installed",
        "rail6: pfc was not told",
    ]


def test_a_server_without_the_program_and_one_whose_rails_are_unclear_say_what_to_do() -> None:
    assert found({}) == ["roce_host.py is not on the server: run the playbooks (role roce)"]
    unclear = "rail0: PCIe leaves open which adapter is nearest to GPU 0"
    assert found({"error": unclear, "rails": {}}) == [unclear]


def facts(said: dict[str, Any]) -> Facts:
    machine = machine_of({"container": "", "errors": {}, "roce": said}, SOURCE)
    return Facts(nodes={"gpu001": Answer("gpu001", "ssh", data={"machine": machine})})


CHECKS: list[Callable[..., Any]] = [
    checks.test_adapters_have_one_lossless_class,
    checks.test_adapters_mark_rocev2_as_planned,
]
NO_LINKS = roce_ends.Links(0, (), ())


@pytest.mark.parametrize("check", CHECKS)
def test_the_checks_pass_on_adapters_as_planned_and_name_what_is_not(check: Callable[..., Any]) -> None:
    outcome = check("gpu001", PLAN, facts(healthy()), wanted(PLAN), NO_LINKS)
    assert (outcome.passed, "not judged" in outcome.detail) == (True, False)
    said = changed("pfc", [False] * 8)
    said["rails"]["rail5"]["values"]["default_roce_tos"] = '"0"'
    outcome = check("gpu001", PLAN, facts(said), wanted(PLAN), NO_LINKS)
    assert not outcome.passed
    assert "rail5: " in outcome.detail


def test_a_driver_without_a_switch_of_ecn_is_said_in_the_verdict() -> None:
    outcome = checks.test_adapters_have_one_lossless_class(
        "gpu001", PLAN, facts(changed("roce_rp", None)), wanted(PLAN), NO_LINKS
    )
    assert outcome.passed
    assert "not judged, its driver does not show them: roce_rp" in outcome.detail


def test_a_site_that_gives_rails_no_addresses_fails_with_the_keys() -> None:
    outcome = checks.test_adapters_have_one_lossless_class("gpu001", PLAN, facts(healthy()), {}, NO_LINKS)
    assert not outcome.passed
    assert "site addressing.rails" in outcome.detail


gather = import_module("validation.facts.gather")
CONFIGS = fabric_roce.structured_configs(PLAN)
SWITCH_CHECKS: list[Callable[..., Any]] = [
    checks.test_switches_have_one_lossless_class,
    checks.test_switches_take_the_marks_as_planned,
]


def nvue(text: str) -> str:
    """A rendered file as the driver of Cumulus Linux reads it back: modelled, without header and with sorted keys."""
    return str(yaml.safe_dump([{"set": yaml.load(text, Loader=LOADER)[1]["set"]}], sort_keys=True))


def told(config: SwitchConfig) -> Answer:
    data = {"running": nvue(startup.render(config)), "diff": "", "saved": True, "neighbours": {}}
    return Answer(config.hostname, "https", data=data)


TOLD = {name: told(config) for name, config in CONFIGS.items() if name in ("rol001", "rol002", "ros001")}


def both(said: dict[str, Any] | None = None, **configs: SwitchConfig) -> Facts:
    """gpu001 and three switches, as planned but for what is given."""
    other = {name: told(config) for name, config in configs.items()}
    return dataclasses.replace(facts(said or healthy()), roce_switches={**TOLD, **other})


def with_intent(name: str, **values: Any) -> SwitchConfig:
    return dataclasses.replace(CONFIGS[name], intent=dataclasses.replace(CONFIGS[name].intent, **values))


@pytest.mark.parametrize("check", SWITCH_CHECKS)
def test_a_switch_as_planned_passes_and_one_with_another_class_fails(check: Callable[..., Any]) -> None:
    models = fabric_roce.models(PLAN)
    outcome = check("rol001", PLAN, both(), models, NO_LINKS)
    assert (outcome.passed, "both ends of 0 links alike" in outcome.detail) == (True, True)
    wrong = with_intent("rol001", priority=4, dscp=34)
    outcome = check("rol001", PLAN, both(rol001=wrong), models, NO_LINKS)
    assert not outcome.passed
    assert outcome.detail.startswith(("lossless: lacks ", "priorities: lacks (26, 3); has (34, 4)"))


@pytest.mark.parametrize("check", SWITCH_CHECKS)
def test_a_switch_that_says_something_else_and_one_without_a_plan_are_told(check: Callable[..., Any]) -> None:
    other = Facts(roce_switches={"rol001": Answer("rol001", "https", data={"running": "- set: {}\n"})})
    assert "none of this suite" in check("rol001", PLAN, other, fabric_roce.models(PLAN), NO_LINKS).detail
    assert "no answer of it" in check("rol001", PLAN, Facts(), {}, NO_LINKS).detail


def test_ends_that_are_alike_have_no_difference_and_silent_ones_are_named() -> None:
    said = roce_ends.links(PLAN, both())
    assert said.differences == ()
    assert (
        said.compared == 2 + 2 * 16
    )  # two rails of gpu001, and the trunks of two leaves to the one spine that was read
    assert (said.by_device["gpu001"], said.by_device["rol001"]) == (2, 17)
    assert [end for end in said.unread_from("gpu001", PLAN) if ":" not in end] == [f"rol00{n}" for n in range(3, 9)]


@pytest.mark.parametrize(
    ("values", "step", "text"),
    [
        ({"priority": 4}, "S055", "PFC on priority 3 and priority 4"),
        ({"dscp": 34}, "S056", "DSCP 26 has priority 3 and 0"),
        ({"mtu": 4200}, "S056", "MTU 9000 and 4200"),
        (
            {"cnp_dscp": 40},
            "S056",
            "notifications are sent with DSCP 48, which has no priority of its own at the switch",
        ),
    ],
)
def test_a_leaf_that_is_set_otherwise_is_named_with_the_link(values: dict[str, Any], step: str, text: str) -> None:
    said = roce_ends.links(PLAN, both(rol001=with_intent("rol001", **values)))
    end = next(port for port in CONFIGS["rol001"].ports if port.far == "gpu001")
    assert f"gpu001:rail0 and rol001:{end.name}: {text}" in said.of("gpu001", step)
    assert said.of("rol002", "S055") == []


@pytest.mark.parametrize(
    ("setting", "value", "step", "text"),
    [
        ("pfc", [False] * 8, "S055", "PFC on none and priority 3"),
        ("roce_rp", {"3": "0"}, "S055", "ECN off and on"),
        ("default_roce_tos", "0", "S056", "RoCE is sent with DSCP 0, which has no priority without loss at the switch"),
        ("addresses", ["10.76.9.9/31"], "S056", "addresses 10.76.9.9/31 and 10.76.32.0/31"),
        ("route_rail", {"gateway": "10.76.0.8"}, "S056", "gateway 10.76.0.8 and address 10.76.32.0/31"),
        ("addresses_ipv6", ["fd00::9/127"], "S056", "addresses fd00::9/127 and fd00:76:0:2000::/127"),
        ("addresses_ipv6", [], "S056", "addresses none and fd00:76:0:2000::/127"),
        ("route_rail_ipv6", {}, "S056", "gateway none and address fd00:76:0:2000::/127"),
    ],
)
def test_an_adapter_that_is_set_otherwise_is_named_with_the_link(
    setting: str, value: Any, step: str, text: str
) -> None:
    said = healthy()
    said["rails"]["rail1"]["values"][setting] = json.dumps(value)
    (found,) = roce_ends.links(PLAN, both(said)).of("gpu001", step)
    assert (found.startswith("gpu001:rail1 and rol002:"), found.partition(": ")[2]) == (True, text)


def test_what_a_driver_does_not_show_is_no_difference() -> None:
    said = healthy()
    for one in said["rails"].values():
        one["values"] |= {"roce_rp": "null", "cnp_dscp": "null"}
    assert roce_ends.links(PLAN, both(said)).differences == ()
    unmarked = dataclasses.replace(with_intent("ros001", congestion_control="pfc_only"), ecn=None)
    assert roce_ends.links(PLAN, both(rol001=dataclasses.replace(CONFIGS["rol001"], ecn=None))).differences == ()
    assert roce_ends.links(PLAN, both(ros001=unmarked)).differences == ()  # the switch's own check says it


def test_one_finding_names_the_device_that_all_differing_links_share() -> None:
    said = healthy()
    for one in said["rails"].values():
        one["values"]["mtu"] = "9500"
    found = roce_ends.findings(PLAN, both(said, ros001=with_intent("ros001", priority=4)), ())
    assert sorted(
        (one.subject, one.numbers["links"], one.message.partition(": ")[2].partition(". Fix")[0]) for one in found
    ) == [
        ("gpu001", 2, "MTU 9500 and 9216"),
        ("ros001", 32, "PFC on priority 3 and priority 4; DSCP 26 has priority 3 and 4"),
    ]
    assert {one.id for one in found} == {"FABRIC-LINK-ENDS"}
    assert roce_ends.findings(PLAN, both(said), {"gpu001"}) == []


def test_a_rail_that_tells_half_is_left_to_its_own_check() -> None:
    said = healthy()
    del said["rails"]["rail0"]["values"]["pfc"]
    said["rails"]["rail1"]["values"]["addresses"] = "[]"
    assert {"gpu001:rail0", "gpu001:rail1"} <= set(roce_ends.links(PLAN, both(said)).unread)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("addresses", '["x"]'),
        ("addresses", "[null]"),
        ("mtu", "1e999"),
        ("pfc", "[" * 100_000),
        ("pfc", '"falsefalse"'),
        ("route_rail", '{"gateway": ""}'),
        ("addresses_ipv6", '["10.76.32.1/31"]'),
        ("addresses_ipv6", "[3.5]"),
        ("route_rail_ipv6", '["x"]'),
    ],
)
def test_what_no_server_can_mean_leaves_the_other_links_compared(setting: str, text: str) -> None:
    said = healthy()
    said["rails"]["rail1"]["values"][setting] = text
    links = roce_ends.links(PLAN, both(said))
    assert (links.by_device["gpu001"], "gpu001:rail1" in links.unread) == (1, True)


def test_an_address_that_is_none_is_a_difference_and_no_error() -> None:
    odd = next(port for port in CONFIGS["rol001"].ports if port.far == "gpu001")
    model = CONFIGS["rol001"].model()
    addresses = frozenset((port, "10.76.0.0/99" if port == odd.name else text) for port, text in model.addresses)
    ends = roce_ends._of_switches({"rol001": dataclasses.replace(model, addresses=addresses)})
    assert ends[f"rol001:{odd.name}"].address == ""


def test_a_compute_switch_runs_its_configuration_with_all_its_sessions() -> None:
    up = {port.name: "Established" for port in CONFIGS["rol001"].ports if port.address is None}

    def judge(**data: Any) -> Any:
        data = {**TOLD["rol001"].data, "neighbours": up, **data}
        return fabric.test_compute_leaf_is_configured(
            "rol001", PLAN, Facts(roce_switches={"rol001": Answer("rol001", "https", data=data)})
        )

    assert (judge().passed, judge().detail) == (True, "as rendered, saved, 32 sessions up")
    assert "differs: - interface swp1s0 link mtu 1500" in judge(diff="- interface swp1s0 link mtu 1500").detail
    assert "not saved" in judge(saved=False).detail
    assert "no BGP session on swp17s0" in judge(neighbours={**up, "swp17s0": "Idle"}).detail
    assert "no answer of it" in fabric.test_compute_spine_reaches_every_leaf("ros001", PLAN, Facts()).detail


class Spoken:
    """A driver whose switch runs what it is asked about, over a connection that breaks for one of them."""

    def __init__(self, name: str, address: str, credentials: Any, *, mgmt_mac: str = "") -> None:
        self.name = name

    def __enter__(self) -> "Spoken":
        if self.name == "rol002":
            raise Unreachable(self.name, "connect", "an HTTPS server", "none", "look at its power")
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def facts(self) -> SwitchFacts:
        return SwitchFacts(self.name, "48:b0:2d:00:00:01", "5.16.0", "", {"swp1s0": ("up", 9216)})

    def get(self) -> str:
        return str(TOLD["rol001"].data["running"])

    def compare(self, config: str) -> str:
        return "" if self.name in config else "- another switch"

    def saved(self) -> bool:
        return True

    def neighbours(self) -> dict[str, str]:
        return {"swp17s0": "Established"}


def test_compute_switches_are_read_back_by_the_driver_of_their_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "driver", lambda system: {"cumulus": Spoken}[system])
    monkeypatch.setattr("network.push.switch_https_credentials", lambda site: None)
    monkeypatch.setattr(gather, "public_key", lambda site, of: "")
    targets = gather._roce_switches(PLAN, load_assets(PLAN.site))
    answers = {target.device: gather._ask(target) for target in targets}
    assert len(answers) == 10
    assert (answers["rol001"].data["diff"], answers["rol001"].data["ports"]["swp1s0"]["mtu"]) == ("", 9216)
    assert [(one.channel, one.serial, one.enrolled) for one in answers["rol001"].identities] == [
        ("https", "48:b0:2d:00:00:01", "")
    ]
    assert answers["rol002"].error_kind == "Unreachable"
    assert sum(not one.error for one in answers.values()) == 9


def test_without_a_password_no_switch_is_asked_and_one_finding_says_what_the_site_lacks() -> None:
    targets = gather._roce_switches(PLAN, load_assets(PLAN.site))
    asked = {target.device: gather._ask(target) for target in targets}
    assert {answer.error_kind for answer in asked.values()} == {"LoginNotGiven"}
    (found,) = diagnose.silences(Facts(roce_switches=asked), ())
    assert (found.id, found.subject) == ("LOGIN-NOT-GIVEN", "compute")
    assert "10 compute switches were not asked: log in" in found.message
    assert "credentials.switch: no password and ca" in found.message
    assert gather._roce_switches(plan_of("lab"), load_assets(PLAN.site)) == []


AGENT = {"sys_descr": "Cumulus-Linux 5.9.1 (Linux Kernel 6.1.50-2)", "serial": "MT2134X01234", "model": "SN5600"}


def switches(sys_descr: str = AGENT["sys_descr"], **rest: Any) -> Facts:
    return Facts(agents={"rol001": Answer("rol001", "snmp", data={**AGENT, "sys_descr": sys_descr}, **rest)})


def pinned(**versions: str) -> Plan:
    return dataclasses.replace(PLAN, site=PLAN.site.model_copy(update={"versions": {**PLAN.site.versions, **versions}}))


def test_a_compute_switch_runs_the_pinned_version() -> None:
    outcome = fabric.test_compute_switch_software_has_pinned_version("rol001", pinned(cumulus="5.9.1"), switches())
    assert (outcome.passed, outcome.value, outcome.identities) == (True, "5.9.1", ())
    assert outcome.raw is not None
    assert FROM_RAW["S061.applied"](outcome.raw, "rol001", pinned(cumulus="5.9.1")) == Again("5.9.1", [])
    assert FROM_RAW["S061.applied"](outcome.raw, "rol001", pinned(cumulus="5.9.2")).problems


@pytest.mark.parametrize(
    ("versions", "facts", "detail"),
    [
        ({"cumulus": "5.9.2"}, switches(), "runs 5.9.1, pinned 5.9.2"),
        ({}, switches(), "runs 5.9.1, and the site pins no version of cumulus. Fix: versions.cumulus"),
        ({"cumulus": "5.9.1"}, switches("Linux rol001 6.1"), "its agent names no version of cumulus: Linux rol001 6.1"),
        ({"cumulus": "5.9.1"}, switches(error="rol001: no answer"), "rol001: no answer"),
    ],
)
def test_another_version_and_none_are_told(versions: dict[str, str], facts: Facts, detail: str) -> None:
    outcome = fabric.test_compute_switch_software_has_pinned_version("rol001", pinned(**versions), facts)
    assert (outcome.passed, outcome.detail) == (False, detail)


def counters(switch: str, ports: list[str], age_s: float = 5.0) -> Facts:
    """What Prometheus says of one switch that reports counters of these ports."""
    target = {"job": "switch", "instance": switch, "health": "up", "age_s": age_s, "error": ""}
    rows = [{"labels": {"instance": switch, "ifName": port}, "value": 1.0} for port in ports]
    return Facts(
        telemetry={"mgm01": Answer("mgm01", "prometheus", data={"targets": [target], "queries": {"ports": rows}})}
    )


def test_counters_of_compute_switches_are_judged_with_their_split_ports() -> None:
    ports = planned_ports(PLAN)
    cabled = ports.loc[ports["instance"] == "rol001", "ifName"].tolist()
    ask = partial(telemetry.test_every_planned_port_has_fresh_counters_and_none_is_unknown, "rol001", PLAN)
    assert ask(counters("rol001", [*cabled, "eth0", "lo", "swp64"])).passed
    assert ask(counters("rol001", cabled[1:])).detail == f"no counters of planned ports {cabled[0]}"
    assert "does not have: swp65" in ask(counters("rol001", [*cabled, "swp65"])).detail
    assert "s old" in ask(counters("rol001", cabled, age_s=1e6)).detail
