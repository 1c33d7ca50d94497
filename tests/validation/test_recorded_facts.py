"""Recorded facts in, findings and failing checks out.

data/healthy.json is what the devices of a healthy lab answered (Facts.write, long lists cut to what is judged); boot_s, processors
and memory_gib of its BMCs were added by hand when they came to be read. Every other file is one fault; where `fault` names a fault
of the lab, it is as it was observed there. `changes` are made to the healthy facts (JSON pointer to new value), `findings` are the
exact [id, subject, ports] that they must give, and `failed` the subjects, per item, whose check must then fail, and no other. A
bug report from a cluster becomes one more file.
"""

import dataclasses
import importlib
import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from capacity.model import Plan
from capacity.services.telemetry import load
from infra.lab import FAULTS, firmware_image
from infra.lab.planned import from_plan
from inventory.catalog import load_catalog
from inventory.delivered.assets import asset_aliases, load_assets
from inventory.delivered.firmware import Bundle, load_bundles
from inventory.delivered.power_acts import PowerAct
from inventory.findings import Finding
from inventory.site import load_site
from inventory.site.sections.provisioning import Provisioning
from network.infiniband import subnet
from tests.plans import plan_of
from validation import infiniband
from validation.check import Outcome, check_of, of_the_planned_assets
from validation.checks import test_bmc, test_gpus
from validation.checks import test_infiniband as infiniband_checks
from validation.checks import test_nodes as nodes
from validation.diagnose import diagnose
from validation.facts import Facts, FactsError
from validation.facts.probes import Logins
from validation.facts.revoked import Tried
from validation.facts.storage import clients
from validation.facts.storage_acts import Canary, WriteRate, Writes
from validation.facts.takeover import Takeover
from validation.facts.telemetry import Drill
from validation.register import load_register
from validation.second_reading import SecondReadings

DATA = Path(__file__).parent / "data"
HEALTHY = DATA / "healthy.json"
CASES = sorted(path for path in DATA.glob("*.json") if path != HEALTHY)
CHECK_MODULES = (
    "test_infiniband",
    "test_bmc",
    "test_fabric",
    "test_gpus",
    "test_nodes",
    "test_power",
    "test_storage",
    "test_telemetry",
)
ACTS = ("identify_leds", "logins", "canaries", "checkpoint_writes")
DRILL = Drill(
    "mgm01",
    {rule.alert: {"severity": rule.severity, "delivered_s": 10.3, "cleared_s": 4.9} for rule in load(load_site("lab"))},
    {"status": 0, "output": "SUCCESS"},
)
"""The fixtures of the checks that act on devices are answered here as a healthy site would."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def with_changes(recorded: Any, changes: dict[str, Any]) -> Any:
    """The recording with the values at these JSON pointers (RFC 6901) replaced; KeyError where a pointer leads nowhere."""
    for pointer, value in changes.items():
        *folders, last = pointer.split("/")[1:]
        place = recorded
        for name in folders:
            place = place[int(name) if isinstance(place, list) else name]
        key = int(last) if isinstance(place, list) else last
        if isinstance(place, dict) and key not in place:
            raise KeyError(pointer)
        place[key] = value
    return recorded


@pytest.fixture(scope="module", params=CASES, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    """Each recording; tests of one recording run after each other."""
    return request.param


@pytest.fixture(scope="module")
def facts(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """Facts of the recording, read once for all tests of it."""
    return read(tmp_path_factory.mktemp(path.stem), json.loads(path.read_text())["changes"])


@pytest.fixture(scope="module")
def judged(plan: Plan, facts: Facts) -> list[tuple[str, str, Outcome]]:
    """Judgements of the recording, made once for all tests of it."""
    return list(judgements(plan, facts))


def read(tmp_path: Path, changes: dict[str, Any]) -> Facts:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(with_changes(json.loads(HEALTHY.read_text()), changes)))
    return Facts.read(path)


def without_part(facts: Facts, kind: str, device: str, part: str) -> Facts:
    """The facts without one part of what a device said."""
    answers = dict(getattr(facts, kind))
    data = {name: value for name, value in answers[device].data.items() if name != part}
    answers[device] = dataclasses.replace(answers[device], data=data)
    changed: dict[str, Any] = {kind: answers}
    return dataclasses.replace(facts, **changed)


def judgements(plan: Plan, facts: Facts) -> Iterator[tuple[str, str, Outcome]]:
    """(item, subject, outcome) of every check that judges facts, for every subject that the plugin would ask."""
    known = asset_aliases(load_assets(plan.site), plan.gpus)
    managers, guids = subnet.managers(plan), subnet.guid_book(load_assets(plan.site))
    acts = {
        "guids": guids,
        "operator_keys": ("SHA256:operator",),
        "cabling": cabling(plan, guids, facts),
        "takeover": Takeover(
            managers[0], managers[1], seconds=4.5, sent=100, links_before=132, links_after=132, restored=True
        ),
        "identify_leds": {name: answer.error for name, answer in facts.bmcs.items()},
        "last_power_acts": {
            name: PowerAct(name, answer.data["identity"]["serial"], "On", "Off", "On", 1.0)
            for name, answer in facts.bmcs.items()
            if not answer.error
        },
        "logins": {
            name: Logins(answer.error or "refused", answer.error or "refused") for name, answer in facts.nodes.items()
        },
        "revoked_keys": {
            name: Tried(answer.error) if answer.error else Tried("", "accepted", "refused", "bringup-a", "refused")
            for name, answer in facts.nodes.items()
        },
        "canaries": canaries(plan, facts),
        "checkpoint_writes": checkpoint_writes(plan, facts),
        "fire_drill": DRILL,
        "second_readings": SecondReadings("none drawn"),
        "installed": {},
        "bundles": load_bundles(plan.site),
    }
    for check, item, subjects in asked(plan):
        wanted = inspect.signature(check).parameters
        for subject in subjects:
            given: dict[str, Any] = {"subject": subject, "plan": plan, "facts": facts, **acts}
            outcome = check(**{name: given[name] for name in wanted})
            yield item, subject, of_the_planned_assets(outcome, known)


_FIRST_COMPARISON: list[tuple[Plan, object, list[Finding]]] = []
"""Plan, inputs and findings of the first comparison of cables. Most recordings have the same inputs."""


def cabling(plan: Plan, guids: Mapping[str, str], facts: Facts) -> list[Finding]:
    """Differences between planned and discovered compute cables."""
    dark = {name for name, answer in facts.nodes.items() if answer.error}
    inputs = (guids, facts.subnets, dark)
    for planned, before, found in _FIRST_COMPARISON:
        if planned is plan and before == inputs:
            return found
    found = infiniband.topology(plan, guids, facts, dark)
    _FIRST_COMPARISON[:] = _FIRST_COMPARISON[:1] or [(plan, inputs, found)]
    return found


_ASKED: list[tuple[Plan, list[tuple[Callable[..., Outcome], str, list[str]]]]] = []
"""The last plan, and what `asked` gave for it."""


def asked(plan: Plan) -> list[tuple[Callable[..., Outcome], str, list[str]]]:
    """Every check that judges facts, its item, and its subjects in the plan; selected once for all recordings of a plan."""
    if not _ASKED or _ASKED[0][0] is not plan:
        _ASKED[:] = [(plan, list(_selected(plan)))]
    return _ASKED[0][1]


def _selected(plan: Plan) -> Iterator[tuple[Callable[..., Outcome], str, list[str]]]:
    register = load_register()
    for check in checks():
        mark = check_of(check)
        assert mark is not None
        if mark.item == "S151.measured":
            continue  # a job on GPUs, which is skipped where they do not compute
        subjects = list(register.subjects(register.items[mark.item], plan))
        if mark.only:
            able = {name for selector in mark.only for name in register.select(selector, plan)}
            subjects = [name for name in subjects if name in able]
        yield check, mark.item, subjects


def unserved(plan: Plan, facts: Facts) -> dict[str, str]:
    """Per client of the shared file system: why it gets no answer, or ''."""
    errors = {}
    for name in clients(plan):
        node = facts.nodes[name]
        seen = {} if node.error else node.data["storage"]
        usage = seen.get("usage", {})
        full = "" if usage.get("free_b", 1) else "No space left on device"
        errors[name] = node.error or seen.get("error") or usage.get("error") or full
    return errors


def canaries(plan: Plan, facts: Facts) -> dict[str, Canary]:
    """The canaries of a site whose storage answers as the facts say."""
    errors = unserved(plan, facts)
    well = [name for name, error in errors.items() if not error]
    return {
        name: Canary(error) if error else Canary(read={other: "" for other in well if other != name}, cleaned=True)
        for name, error in errors.items()
    }


def checkpoint_writes(plan: Plan, facts: Facts) -> Writes:
    """Writes of a site whose storage answers as the facts say; a node without an answer spoils the measurement."""
    silent = [name for name, error in unserved(plan, facts).items() if error]
    rate = WriteRate(clients=4, bytes=64 * 1024**2, seconds=0.25)
    return Writes(error=f"no answer from {', '.join(silent)}") if silent else Writes(rate, rate)


def checks() -> list[Callable[..., Outcome]]:
    modules = [importlib.import_module(f"validation.checks.{name}") for name in CHECK_MODULES]
    return [f for module in modules for f in vars(module).values() if hasattr(f, "__check__")]


def failed_of(judgements: Iterable[tuple[str, str, Outcome]]) -> dict[str, list[str]]:
    """The subjects, per item, whose check fails."""
    found = defaultdict(list)
    for item, subject, outcome in judgements:
        if not outcome.passed:
            found[item].append(subject)
    return dict(found)


def failing(plan: Plan, facts: Facts) -> dict[str, list[str]]:
    return failed_of(judgements(plan, facts))


def test_a_healthy_lab_has_no_finding_and_no_failing_check(plan, tmp_path):
    facts = read(tmp_path, {})
    assert diagnose(plan, load_assets(plan.site), facts) == []
    assert failing(plan, facts) == {}


def test_a_fault_gives_exactly_these_findings(plan, facts, path):
    case = json.loads(path.read_text())
    found = diagnose(plan, load_assets(plan.site), facts)
    assert [[f.id, f.subject, list(f.ports)] for f in found] == case["findings"]
    assert all(f.severity == "error" for f in found)


def test_a_fault_fails_exactly_these_checks(judged, path):
    assert failed_of(judged) == json.loads(path.read_text())["failed"]


def test_every_failing_check_says_what_it_saw(judged):
    for item, subject, outcome in judged:
        assert outcome.detail.strip(), (item, subject)
        json.dumps(outcome.value, allow_nan=False)


@pytest.mark.parametrize(
    ("part", "failed"),
    [
        ("units", {"S032.applied": "could not be read", "S144.applied": "its services could not be read: "}),
        ("listening", {"S032.applied": "could not be read"}),
        ("packages", {"S032.applied": "could not be read"}),
        ("links", {"S032.applied": "could not be read", "S053.applied": "its addresses could not be read: "}),
    ],
)
def test_a_part_that_a_node_could_not_read_fails_its_checks_with_the_reason(plan, tmp_path, part, failed):
    why = f"RuntimeError: {part}: exit status 124: no end within 8 s"
    recorded = json.loads(HEALTHY.read_text())
    data = recorded["nodes"]["mgm01"]["data"]
    del data[part]
    data["errors"][part] = why
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(recorded))
    facts = Facts.read(path)
    guids = subnet.guid_book(load_assets(plan.site))
    outcomes = {
        "S032.applied": nodes.test_base_system_has_pinned_versions("mgm01", plan, facts, SecondReadings(""), {}),
        "S053.applied": nodes.test_node_has_its_addresses_and_cannot_reach_management("mgm01", plan, facts, guids),
        "S144.applied": nodes.test_time_source_is_configured("mgm01", plan, facts),
    }
    assert {item for item, outcome in outcomes.items() if not outcome.passed} == set(failed)
    for item, said in failed.items():
        assert said in outcomes[item].detail
        assert why in outcomes[item].detail
    assert diagnose(plan, load_assets(plan.site), facts) == []


def test_a_switch_whose_lldpd_is_dead_is_one_finding_and_fails_its_own_cables_alone(plan, tmp_path):
    """The others do not see it any more; what it says of itself is judged as ever."""
    facts, said = read(tmp_path, {}), "leaf01: read LLDP neighbours: expected an answer of lldpcli, saw exit status 1"
    switches = {
        name: dataclasses.replace(answer, data=unseeing(answer.data)) for name, answer in facts.switches.items()
    }
    data = {**facts.switches["leaf01"].data, "lldp": {}, "lldp_error": said, "lldp_error_kind": "BadAnswer"}
    switches["leaf01"] = dataclasses.replace(facts.switches["leaf01"], data=data)
    facts = dataclasses.replace(facts, switches=switches)
    found = diagnose(plan, load_assets(plan.site), facts)
    assert [(f.id, f.subject, f.message) for f in found] == [("DEVICE-SILENT", "leaf01", f"{said}.")]
    assert failing(plan, facts) == {"S062.measured": ["leaf01"]}


def unseeing(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a switch says once its entries of leaf01 have timed out."""
    lost = {"far": "", "far_port": "", "age_s": 0, "ttl_s": 0}
    ports = {name: port | lost if port["far"] == "leaf01" else port for name, port in data["lldp"].items()}
    return {**data, "lldp": ports}


def test_a_device_that_could_not_be_pinged_fails_the_node_that_should_have(plan, tmp_path):
    (pdu, *_) = json.loads(HEALTHY.read_text())["nodes"]["gpu003"]["data"]["silent"]
    changes = {"/nodes/gpu003/data/silent/0": {**pdu, "error": "ping: exit status 127"}}
    assert failing(plan, read(tmp_path, changes)) == {"S053.applied": ["gpu003"]}


def test_a_factory_login_that_nobody_tried_is_no_refused_one(plan, tmp_path):
    facts = without_part(read(tmp_path, {}), "bmcs", "gpu002", "factory_login_refused")
    assert failing(plan, facts) == {"S017.applied": ["gpu002"]}


ON = {"enabled": True, "in_force": True, "mode": "DeployedMode"}
TPM = {"kind": "TPM2_0", "state": "Enabled", "firmware": "7.2"}


@pytest.mark.parametrize(("asked", "seen", "said"), [
    ({}, {}, ""),
    ({"secure_boot": True}, {"secure_boot": ON, "tpms": []}, ""),
    ({"secure_boot": True}, {}, "could not be read: they were not asked for"),
    ({"secure_boot": True}, {"boot_trust_unread": "HTTP 500"}, "could not be read: HTTP 500"),
    ({"secure_boot": True}, {"secure_boot": None, "tpms": []}, "its BMC shows none: update its firmware"),
    ({"secure_boot": False}, {"secure_boot": ON, "tpms": []}, "must be off, SecureBootEnable is True"),
    ({"secure_boot": True}, {"secure_boot": {**ON, "in_force": False}, "tpms": []}, "from the next boot on, not in this one"),
    ({"encrypt": "tpm2"}, {"secure_boot": None, "tpms": [TPM]}, ""),
    ({"encrypt": "tpm2"}, {"secure_boot": None, "tpms": []}, "by a TPM 2.0, its BMC shows none"),
    ({"encrypt": "tpm2"}, {"secure_boot": None, "tpms": [{**TPM, "kind": "TPM1_2"}]}, "its BMC shows TPM1_2 Enabled"),
    ({"encrypt": "tpm2"}, {"secure_boot": None, "tpms": [{**TPM, "state": "Disabled"}]}, "its BMC shows TPM2_0 Disabled"),
])  # fmt: skip
def test_secure_boot_and_tpm_are_as_the_site_asks(asked, seen, said):
    faults = test_bmc.boot_trust_faults(Provisioning(**asked), seen)
    assert len(faults) == bool(said)
    assert said in "".join(faults)


def test_what_the_site_file_accepts_is_no_finding(plan, tmp_path):
    sudo = ["/etc/sudoers.d/x: %wheel ALL=(ALL) ALL"]
    ports = ["tcp/22", "tcp/6818", "tcp/9100", "tcp/9400", "tcp/9256"]
    changes = {"/nodes/gpu001/data/sudo": sudo, "/nodes/gpu001/data/listening": ports}
    facts = read(tmp_path, changes)
    assert failing(plan, facts) == {"S032.applied": ["gpu001"], "S147.applied": ["gpu001"]}
    words = (f"sudo rule {sudo[0]}", "port tcp/9256")
    validation = plan.site.validation.model_copy(update={"accepted_access": words})
    accepting = dataclasses.replace(plan, site=plan.site.model_copy(update={"validation": validation}))
    assert failing(accepting, facts) == {}


@pytest.mark.parametrize("part", ["users", "keys", "sudo"])
def test_access_that_could_not_be_read_is_not_clean(plan, tmp_path, part):
    facts = without_part(read(tmp_path, {}), "nodes", "gpu001", part)
    outcome = nodes.test_only_keys_log_in("gpu001", plan, facts, ("SHA256:operator",))
    assert not outcome.passed
    assert f"{part} could not be read" in outcome.detail


def test_a_controller_whose_systemd_hangs_still_has_its_findings(plan, tmp_path):
    facts = read(tmp_path, {"/nodes/ctl01/data/units": {}, "/nodes/ctl01/data/slurm/answers": False})
    (found,) = diagnose(plan, load_assets(plan.site), facts)
    assert (found.id, found.subject) == ("SCHEDULER-SILENT", "ctl01")


def test_a_package_is_compared_as_the_playbooks_do(plan, tmp_path):
    """They install the pinned upstream version to the letter: what is repacked from it or comes before it is another."""

    def judged(version: str, *names: str) -> Outcome:
        facts = read(tmp_path, {f"/nodes/{name}/data/packages/chrony": version for name in names})
        return nodes.test_base_system_has_pinned_versions("gpu003", plan, facts, SecondReadings(""), {})

    alike = ("gpu001", "gpu002", "gpu003", "gpu004")
    for version in ("4.3+ds-2", "4.3~rc1-1", "4.4-1"):
        assert judged(version, *alike).detail == f"chrony {version}, pinned 4.3"
    assert judged("1:4.3-1", *alike).passed
    alone = judged("1:4.3-1", "gpu003")
    assert (alone.passed, alone.detail) == (
        False,
        "packages differ from 3 gpu nodes: chrony 1:4.3-1 for 4.3-2+deb12u3",
    )
    assert judged("1:4.3-1", "gpu004").passed, "the one that differs is named, and no other"


def test_a_site_that_pulumi_installs_wants_a_record_of_each_server(plan: Plan, tmp_path: Path) -> None:
    provisioning = plan.site.provisioning.model_copy(update={"installed_by": "pulumi"})
    by_pulumi = dataclasses.replace(plan, site=plan.site.model_copy(update={"provisioning": provisioning}))
    outcome = nodes.test_base_system_has_pinned_versions(
        "gpu003", by_pulumi, read(tmp_path, {}), SecondReadings(""), {}
    )
    assert (outcome.passed, outcome.detail) == (
        False,
        "no record says which image was installed: bringup boot collect lab",
    )


def without(plan: Plan, key: str) -> Plan:
    limits = {name: limit for name, limit in plan.site.limits.items() if name != key}
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": limits}))


def test_without_a_limit_no_error_of_a_link_is_judged_and_the_check_names_what_is_missing(plan, tmp_path):
    case = json.loads((DATA / "ib-link-errors.json").read_text())
    facts, guids = read(tmp_path, case["changes"]), subnet.guid_book(load_assets(plan.site))
    bare = without(plan, "ib_link_errors_max")
    assert [f.id for f in infiniband.errors(plan, guids, facts)] == ["LINK-ERRORS"]
    assert infiniband.errors(bare, guids, facts) == []
    takeover = Takeover("mgm01", "ctl01", seconds=4.5, sent=100, links_before=132, links_after=132, restored=True)
    with pytest.raises(KeyError, match=r"site\.yaml: limits\.ib_link_errors_max is missing"):
        infiniband_checks.test_standby_subnet_manager_takes_over("lab", bare, facts, guids, takeover)


def test_every_fault_of_the_lab_has_a_recording():
    recorded = {case["fault"][0] for case in (json.loads(path.read_text()) for path in CASES) if "fault" in case}
    # strip-marker hides a device's nature, and nothing is wrong with the device; update-hangs shows in an update alone, and
    # gpu-memory in what a node offers on Kubernetes (P-12).
    assert recorded == set(FAULTS) - {"strip-marker", "update-hangs", "gpu-memory"}


def test_facts_come_back_from_their_file_as_they_were(tmp_path):
    facts = Facts.read(HEALTHY)
    assert Facts.read(facts.write(tmp_path)) == facts


def test_facts_of_another_schema_are_refused(tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps({**json.loads(HEALTHY.read_text()), "schema_version": 99}))
    with pytest.raises(FactsError, match=f"{path}: schema_version 99, this program reads 1"):
        Facts.read(path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema_version": 1}', '{"schema_version": 1, "pdus": {"p": {}}}']
)
def test_a_file_that_holds_no_facts_is_named(tmp_path, text):
    path = tmp_path / "facts.json"
    path.write_text(text)
    with pytest.raises(FactsError, match=f"{path}: no recorded facts, or cut short: "):
        Facts.read(path)


def test_a_file_of_facts_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FactsError, match=f"{tmp_path / 'none.json'}: recorded facts cannot be read: No such file"):
        Facts.read(tmp_path / "none.json")


def bundle(**packages: dict[str, str]) -> Bundle:
    """A bundle of the lab's GPU nodes, with a package for each name: its items and their versions."""
    image = {"file": "x.bin", "sha256": "0" * 64}
    steps = [
        {"name": name, "image": image, "versions": versions, "takes_effect": "at_once", "budget_min": 1}
        for name, versions in packages.items()
    ]
    return Bundle.model_validate({"bundle": "1.4.1", "model": "lab-gpu-node", "source": "this test", "packages": steps})


def test_firmware_of_gpus_and_of_the_rest_is_judged_by_the_bundle_of_the_model(plan: Plan, tmp_path: Path) -> None:
    facts = read(tmp_path, {})
    inventory = facts.bmcs["gpu001"].data["firmware"]
    runs = {"BMC": inventory["BMC"], "BIOS": inventory["BIOS"]}
    bundles = {"lab-gpu-node": bundle(BMC={"BMC": runs["BMC"]}, BIOS={"BIOS": "9.9"}, HGX={"HGX_FW_GPU_*": "96.00"})}
    server = test_bmc.test_bmc_is_set_up("gpu001", plan, facts, bundles)
    assert server.detail == f"BIOS {runs['BIOS']}, bundle 1.4.1 (BIOS) has 9.9"
    gpus = test_gpus.test_gpu_firmware_has_pinned_release("gpu001", plan, facts, bundles)
    assert gpus.detail.startswith("HGX_FW_GPU_SXM_1 96.00.89.00.01, bundle 1.4.1 (HGX) has 96.00; HGX_FW_GPU_SXM_2 ")
    assert "HGX_FW_NVSwitch_3 1.0.0 is in no package of bundle 1.4.1: say which version was qualified" in gpus.detail
    assert "BIOS" not in gpus.detail
    assert cast(dict[str, Any], gpus.value)["bundle"] == ["HGX"]
    same = {"lab-gpu-node": bundle(BMC={"BMC": runs["BMC"]}, BIOS={"BIOS": runs["BIOS"]})}
    good = test_bmc.test_bmc_is_set_up("gpu001", plan, facts, same)
    assert good.passed
    assert cast(dict[str, Any], good.value)["certificate"] == "signed by credentials.bmc.ca"


def test_firmware_of_the_baseboard_is_proven_by_a_bundle_and_by_what_the_bmc_lists(plan: Plan, tmp_path: Path) -> None:
    def said(facts: Facts, bundles: Mapping[str, Bundle]) -> Outcome:
        return test_gpus.test_gpu_firmware_has_pinned_release("gpu001", plan, facts, bundles)

    facts, shipped = read(tmp_path, {}), load_bundles(plan.site)
    good = said(facts, shipped)
    assert (good.passed, good.detail.split("; ")[-1]) == (True, "as in the bundle: HGX baseboard")
    without = said(facts, {})
    assert not without.passed
    assert without.detail.startswith(
        "no firmware bundle of lab-gpu-node says what its GPUs and their baseboard run: write"
    )
    firmware = "/bmcs/gpu001/data/firmware"
    other = said(read(tmp_path, {f"{firmware}/HGX_FW_NVSwitch_2": "0.9"}), shipped)
    assert (other.passed, other.detail) == (
        False,
        "HGX_FW_NVSwitch_2 0.9, bundle lab 1 (HGX baseboard) has 1.0.0",
    )
    inventory = facts.bmcs["gpu001"].data["firmware"]
    gpus_alone = {item: runs for item, runs in inventory.items() if "HGX" not in item or "GPU" in item}
    of_gpus = {"lab-gpu-node": bundle(GPUs={"HGX_FW_GPU_*": "96.00.89.00.01"})}
    bare = said(read(tmp_path, {firmware: gpus_alone}), of_gpus)
    assert (bare.passed, bare.detail) == (
        False,
        "the BMC lists no firmware of the GPU baseboard (NVSwitch, FPGA or HMC)",
    )
    silent = said(read(tmp_path, {"/bmcs/gpu001/error": "no answer"}), shipped)
    assert (silent.passed, silent.detail) == (False, "its BMC lists no firmware: no answer")


def test_the_bundle_of_the_lab_has_its_image_and_is_what_its_servers_run(plan: Plan) -> None:
    (package,) = load_bundles(plan.site)["lab-gpu-node"].packages
    assert package.image.fault() == ""
    brings = firmware_image.read(package.image.path.read_bytes(), "lab-gpu-node")
    spec = from_plan(plan.site, plan, load_assets(plan.site), load_catalog(), plan.gpus)
    for server in (one for one in spec.servers if one.gpus):
        listed = {item: runs for item, runs in server.components if item.startswith("HGX_")}
        assert listed == brings
        assert (package.behind(listed), package.absent(listed)) == ({}, [])


ACT = PowerAct("gpu001", "SIM-GPU001", "On", "Off", "On", 1.0)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (ACT, ""),
        (None, "no power action is recorded"),
        (dataclasses.replace(ACT, serial="OTHER"), "the recorded power action was of serial OTHER, this is SIM-GPU001"),
        (dataclasses.replace(ACT, before="PoweringOn"), "the recorded power action led from PoweringOn to On"),
    ],
)
def test_the_power_button_is_proven_by_an_action_that_the_power_state_followed(act: PowerAct | None, said: str) -> None:
    found = test_bmc.power_act_faults("gpu001", act, "SIM-GPU001")
    assert len(found) == bool(said)
    assert all(fault.startswith(said) and "bringup bmc restart SITE --server gpu001" in fault for fault in found)


@pytest.mark.parametrize(
    ("boot_s", "started_at", "act", "start"),
    [
        (61.5, None, None, (61.5, "")),
        (None, 63.5, ACT, (62.5, "")),
        (
            901,
            None,
            None,
            (901, "its start took 901.0 s, limit 900 s"),
        ),
        (
            None,
            5000.0,
            ACT,
            (4999.0, "its start took 4,999.0 s from the recorded power-on (if it started again since, run"),
        ),
        (None, None, ACT, (None, "how long its start took is not known, its BMC does not tell: run")),
        (None, 63.5, None, (None, "how long its start took is not known")),
        (None, 0.5, ACT, (None, "how long its start took is not known")),
        (None, 63.5, dataclasses.replace(ACT, reset="ForceOff", after="Off"), (None, "how long its start took")),
    ],
)
def test_a_start_is_timed_by_the_bmc_or_from_the_recorded_power_on(
    boot_s: float | None, started_at: float | None, act: PowerAct | None, start: tuple[float | None, str]
) -> None:
    node = {} if started_at is None else {"started_at": started_at}
    took_s, said = test_bmc.start_of("gpu001", {"state": {"boot_s": boot_s}}, node, act, 900)
    assert took_s == start[0]
    assert said.startswith(start[1])
    assert bool(said) == bool(start[1])


@pytest.mark.parametrize(
    ("pointer", "value", "said"),
    [
        ("/bmcs/gpu001/data/state/processors", 1, "1 processors, planned 2"),
        ("/bmcs/gpu001/data/state/processors", None, "the BMC does not tell its processors, planned 2"),
        ("/bmcs/gpu001/data/state/memory_gib", 0.5, "0.5 GiB of memory, planned 1 GiB"),
        ("/nodes/gpu001/data/gpus/devices", [], "its system finds 0 GPUs, planned 8"),
        ("/nodes/gpu001/data/links", {}, "its system finds no port eth1, eth2"),
        ("/bmcs/gpu001/data/state/boot_s", 90.5, "its start took 90.5 s, limit 90 s"),
    ],
)
def test_a_start_with_less_than_planned_is_named(
    plan: Plan, tmp_path: Path, pointer: str, value: object, said: str
) -> None:
    facts = read(tmp_path, {pointer: value})
    assert test_bmc.test_server_has_completed_its_self_test("gpu001", plan, facts, {}).detail == said
