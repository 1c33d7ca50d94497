"""Every check that the register has, asked of modelled devices in a run of the real plugin, up to GO-LIVE.

tests/validation/whole_site.py answers below the drivers. What is not in the run stands in NOT_RUN, with its reason.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from securesystemslib.signer import CryptoSigner

from inventory.delivered.assets import asset_aliases
from inventory.paths import repo_root
from inventory.site import Site
from inventory.site.sections.acceptance import AttestRole
from tests.validation import whole_site
from tests.validation.test_channels_to_go_live import attach, judged, parts, pinning, statuses, who_freezes
from validation import freeze, gate, plugin
from validation.check import check_of
from validation.evidence import Entry
from validation.evidence.channels import Channel, _rules
from validation.evidence.store import Contents, Store
from validation.from_raw import Reader
from validation.program import checked_items, checks_of_items
from validation.register import Register, load_register, of_platform
from validation.runners import burn_in, slurm
from validation.verdict import GATE_ITEM, Verdict

LISTED: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "data" / "not_in_go_live.yaml").read_text())
CHECKED = {item for item in checked_items() if of_platform(item)} | checks_of_items("slurm").keys()
"""Without items that are checked with Kubernetes alone (S164), which this site closes as those without a check."""
NOT_RUN: dict[str, str] = LISTED["not_run"]
OF_KUBERNETES = "site key scheduler.kind is slurm, the step needs kubernetes"
ELSEWHERE: dict[str, str] = LISTED["not_on_this_site"] | {item: OF_KUBERNETES for item in CHECKED if of_platform(item)}
FEWER: dict[str, dict[str, str]] = LISTED["fewer_subjects"]


@dataclasses.dataclass
class Went:
    """The run of all checks, and what the gate says of it. The log is read once, and judged again as often as a test asks."""

    site: Site
    register: Register
    devices: whole_site.WholeSite
    store: Store
    status: int
    said: dict[str, Any]

    @functools.cached_property
    def contents(self) -> Contents:
        return self.store.verify()

    @functools.cached_property
    def reader(self) -> Reader:
        return Reader(dataclasses.replace(self.devices.plan, site=self.site), self.store.path)

    @functools.cached_property
    def host_keys(self) -> Mapping[str, frozenset[str]]:
        return gate.pinned_host_keys(self.reader.plan)

    @functools.cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each device of the plan."""
        devices = self.reader.plan.devices
        return dict(zip(devices["name"], devices["kind"], strict=True))

    def judge(
        self,
        entries: Iterable[Entry] | None = None,
        *,
        contents: Contents | None = None,
        site: Site | None = None,
        host_keys: Mapping[str, frozenset[str]] | None = None,
        reader: Reader | None = None,
    ) -> Verdict:
        """The verdict on other entries, keys or another site file than those of the run."""
        contents = contents or self.contents
        if entries is not None:
            contents = dataclasses.replace(contents, entries=tuple(entries))
        plan = dataclasses.replace(self.reader.plan, site=site) if site else self.reader.plan
        return gate.judge(
            self.register,
            plan,
            contents,
            [],
            datetime.now(UTC),
            asset_ids=asset_aliases(self.devices.assets, plan.gpus),
            host_keys=self.host_keys if host_keys is None else host_keys,
            from_raw=reader or self.reader,
        )


def cut_to_the_run(register: Register) -> Register:
    """The register with the items that the run has, and the gate's own."""
    items = {item: register.items[item] for item in CHECKED if item not in {*NOT_RUN, *ELSEWHERE}}
    fewer = {item: dataclasses.replace(items[item], subjects=(said["select"],)) for item, said in FEWER.items()}
    return dataclasses.replace(register, items={**items, **fewer, GATE_ITEM: register.items[GATE_ITEM]})


@pytest.fixture(scope="module")
def went(
    real_site: Site,
    register: Register,
    signer: CryptoSigner,
    people: dict[str, CryptoSigner],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Went]:
    """One freeze, one run of `pytest validation` with all its fixtures, one judgement."""
    folder, cut = tmp_path_factory.mktemp("whole"), cut_to_the_run(register)
    site = whole_site.delivered(real_site, folder)
    site = whole_site.with_limits(whole_site.with_credentials(pinning(site, signer, folder), folder))
    with pytest.MonkeyPatch.context() as patch:
        approvers = who_freezes(people, patch)
        made = whole_site.WholeSite(site)
        (folder / "known_hosts").write_text(made.known_hosts())
        attach(made, patch)
        whole_site.guarded(patch, made.services)
        whole_site.in_no_time(patch)
        whole_site.with_ansible(patch, made)
        whole_site.with_a_client(patch, folder / "bin", made)
        for module in (gate, plugin):
            patch.setattr(module, "register_for", lambda site: cut)
        patch.setattr(plugin, "load_site", lambda name: site)
        out = folder / "out"
        store = plugin.Session(site, out, signer).store
        frozen = freeze.frozen_today(made.plan, cut)
        for name, key in approvers.items():
            freeze.sign(site, store, frozen, name, key, datetime.now(UTC))
        began_days_ago(made, out, store.id())
        whole_site.with_reports_of_drift(made, out)
        whole_site.with_power_acts(made, out)
        run_all(patch, folder, out, cut)
        status, said = judged(site, out)
        yield Went(site, cut, made, store, status, said)


def began_days_ago(made: whole_site.WholeSite, out: Path, store: str) -> None:
    """A burn-in that `bringup validation start` has begun and that is over: the run collects it."""
    plan = made.plan
    started = burn_in.start(plan, slurm.connect(plan), store=store)
    burn_in.keep(out, dataclasses.replace(started, began=started.began - 3 * 86400))


def run_all(patch: pytest.MonkeyPatch, folder: Path, out: Path, cut: Register) -> None:
    """`pytest validation` in this process, with the checks of the register's items alone."""
    patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    patch.delenv("PYTEST_ADDOPTS", raising=False)
    (folder / "pytest.ini").write_text("[pytest]\n")
    root = repo_root()
    own = ["-c", str(folder / "pytest.ini"), "--rootdir", str(root), "--confcutdir", str(root)]
    quiet = ["-q", "-rf", "--tb=line", "-p", "no:cacheprovider"]
    pytest.main(
        [str(root / "validation" / "checks"), "--site", "lab", "--out", str(out), *own, *quiet], [OnlyThese(cut)]
    )


class OnlyThese:
    """Leaves the checks of other items out of a run: their fixtures ask devices that are not modelled."""

    def __init__(self, register: Register) -> None:
        self.register = register

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Collector, name: str, obj: object
    ) -> list[pytest.Item] | None:
        made = check_of(obj) if callable(obj) else None
        return None if made is None or made.item in self.register.items else []


def test_all_checks_of_the_run_reach_go_live(went: Went) -> None:
    assert {one["id"]: one["detail"] for one in went.said["items"] if one["status"] != "pass"} == {}
    assert (went.status, went.said["verdict"], went.said["mode"]) == (0, "GO-LIVE", "real")
    assert not went.devices.off, "every outlet is on again"


def test_each_item_with_a_check_is_in_the_run_or_listed_with_a_reason(went: Went) -> None:
    passed = {item for item, status in statuses(went.said).items() if status == "pass"} - {GATE_ITEM}
    assert passed | set(NOT_RUN) | set(ELSEWHERE) == CHECKED
    assert not passed & {*NOT_RUN, *ELSEWHERE}
    assert all(len(why) > 20 for why in [*NOT_RUN.values(), *(said["because"] for said in FEWER.values())])
    site, whole = went.site, load_register(platform=True)
    assert {item: whole.not_applicable(whole.items[item], site) for item in ELSEWHERE} == ELSEWHERE


def judged_without(went: Went, items: Collection[str]) -> Verdict:
    """The verdict on the log without the records of these items."""
    return went.judge(one for one in went.contents.entries if one.record.item not in items)


def open_items(verdict: Verdict) -> dict[str, str]:
    return {one.item: one.status for one in verdict.items if one.status != "pass" and one.item != GATE_ITEM}


# -- one check, channel or key less --------------------------------------------------------------------------------------
@pytest.mark.parametrize("at_once", [12, pytest.param(1, marks=pytest.mark.soak)])
def test_with_any_check_less_there_is_no_go_live(went: Went, at_once: int) -> None:
    """The records of so many items are left out, and nothing else is: in a soak each item alone."""
    assert open_items(went.judge()) == {}
    items = sorted(set(went.register.items) - {GATE_ITEM})
    for first in range(0, len(items), at_once):
        left_out = items[first : first + at_once]
        verdict = judged_without(went, left_out)
        found = open_items(verdict)
        assert {item: found.get(item) in ("missing", "fail") for item in left_out} == dict.fromkeys(left_out, True)
        assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1), left_out


def test_with_any_one_subject_less_its_item_is_missing(went: Went) -> None:
    """Of each item another asset at a time, until each had its turn: never all but one."""
    subjects: dict[str, list[str]] = {}
    for one in went.contents.entries:
        subjects.setdefault(one.record.item, []).append(one.record.subject)
    for turn in range(max(map(len, subjects.values()))):
        left_out = {(item, names[turn]) for item, names in subjects.items() if turn < len(names)}
        verdict = went.judge(e for e in went.contents.entries if (e.record.item, e.record.subject) not in left_out)
        lacking = {(i.item, s.subject) for i in verdict.items for s in i.subjects if s.status in ("missing", "fail")}
        assert left_out <= lacking


def rule_of(said: Any) -> Channel | None:
    return _rules().channels.get(said.channel)


def seen_as(went: Went, said: Any) -> tuple[str, str] | None:
    """The device and what the ledger counts once: the group of the channel, and which neighbour saw it."""
    rule, name = rule_of(said), said.device.partition(":")[0]
    if rule is None or rule.group not in _rules().kinds.get(went.kinds.get(name, ""), {}):
        return None
    return name, f"{rule.group} {said.observer}" if rule.group == "neighbour" else rule.group


def channels_of(went: Went) -> dict[str, list[str]]:
    """By device what it was seen by, in what the whole run collected."""
    found: dict[str, set[str]] = {}
    for said in {one for entry in went.contents.entries for one in parts(entry)}:
        if seen := seen_as(went, said):
            found.setdefault(seen[0], set()).add(seen[1])
    return {name: sorted(channels) for name, channels in found.items()}


def only_by(went: Went, left: Mapping[str, Collection[str]]) -> list[Entry]:
    """The log in which the devices of ``left`` were seen by these channels alone.

    A device that the log still names by no channel says nothing that counts, and is named as touched.
    """

    @functools.cache
    def silent(said: Any) -> Any:
        seen = seen_as(went, said)
        if seen is None or seen[0] not in left or seen[1] in left[seen[0]]:
            return said
        return dataclasses.replace(said, channel="taken away", signature="", message="")

    def changed(entry: Entry) -> Entry:
        record = entry.record
        identities, channels = (tuple(map(silent, found)) for found in (record.identities, record.channels))
        return dataclasses.replace(entry, record=dataclasses.replace(record, identities=identities, channels=channels))

    return [changed(entry) for entry in went.contents.entries]


def resting_on(went: Went, names: Collection[str]) -> set[tuple[str, str]]:
    """Items and subjects whose records touched one of these devices."""
    touched = {}
    for entry in went.contents.entries:
        if entry.record.kind in ("applied", "measured", "observed"):
            touched[entry.record.item, entry.record.subject] = {
                one.device.partition(":")[0] for one in entry.record.identities
            }
    return {key for key, devices in touched.items() if devices & set(names)}


def proven(verdict: Verdict) -> set[tuple[str, str]]:
    return {
        (one.item, subject.subject) for one in verdict.items for subject in one.subjects if subject.status == "pass"
    }


def test_with_any_two_channels_of_a_device_nothing_that_rests_on_it_counts(went: Went) -> None:
    """All servers, switches and PDUs of the run at once, pair by pair, until each pair of each device had its turn."""
    pairs = {name: list(itertools.combinations(found, 2)) for name, found in channels_of(went).items()}
    assert {went.kinds[name] for name in pairs} == {"server", "switch", "pdu"}
    assert min(map(len, pairs.values())) >= 3, "each device has three channels at least"
    rest = resting_on(went, pairs)
    for turn in range(max(map(len, pairs.values()))):
        verdict = went.judge(only_by(went, {name: found[turn % len(found)] for name, found in pairs.items()}))
        assert not proven(verdict) & rest, turn
        assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)


CHALLENGES = {"server": "operating system", "switch": "operating system", "pdu": "power at the mapped outlet"}
"""Of each kind the group with the challenge that all of its devices in the run answered."""


def least_of(went: Went) -> dict[str, list[str]]:
    """By device three of its channels, one of them a challenge: the least by which it can be proven."""
    found = {}
    for name, channels in channels_of(went).items():
        challenge = CHALLENGES[went.kinds[name]]
        others = [one for one in channels if one != challenge and not one.startswith("link at")]
        second = [one for one in others[1:] if not (went.kinds[name] == "server" and one.startswith("neighbour"))]
        found[name] = [challenge, others[0], (second or others[1:])[0]]
    return found


def test_three_channels_with_a_challenge_reach_go_live_and_one_device_with_two_does_not(went: Went) -> None:
    """The least that each device can have; then one device at a time has one channel less."""
    least = least_of(went)
    assert open_items(went.judge(only_by(went, least))) == {}
    for turn, (name, found) in enumerate(least.items()):
        lacking = found[turn % len(found)]
        verdict = went.judge(only_by(went, {**least, name: [one for one in found if one != lacking]}))
        assert not proven(verdict) & resting_on(went, [name]), (name, lacking)
        assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)


def test_without_the_host_key_of_any_one_device_there_is_no_go_live(went: Went) -> None:
    """The pin of one device is taken away after the run: what was read over its session proves nothing any more."""
    least = least_of(went)
    entries = only_by(went, least)
    logged_in = {name for name in least if went.kinds[name] != "pdu"}
    assert logged_in <= set(went.host_keys)
    for name in sorted(logged_in):
        keys = {one: found for one, found in went.host_keys.items() if one != name}
        verdict = went.judge(entries, host_keys=keys)
        assert not proven(verdict) & resting_on(went, [name]), name
        assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1), name


@pytest.mark.parametrize("role", ["collector", "recorder", "approver"])
def test_without_any_one_key_of_a_role_there_is_no_go_live(went: Went, role: str) -> None:
    holder = went.site.attest.roles[role]
    for key in holder.keys:
        left = tuple(one for one in holder.keys if one != key)
        roles = {**went.site.attest.roles, role: AttestRole(title=holder.title, keys=left)}
        site = went.site.model_copy(update={"attest": went.site.attest.model_copy(update={"roles": roles})})
        verdict = went.judge(site=site)
        assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)
        if role == "collector":
            assert not proven(verdict)


# -- a collector that edits what nodes said ------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Edit:
    """A raw output that the collector changes, and the value that it writes beside it; it signs both."""

    item: str
    subject: str
    change: Callable[[dict[str, Any]], None]
    value: Mapping[str, Any]
    status: str
    why: str


def of_another(raw: dict[str, Any]) -> None:
    """What gpu001 read in the place of what gpu002 read."""
    raw["parts"] = {"gpu001": raw["parts"].pop("gpu002")}


def one_less(raw: dict[str, Any]) -> None:
    """A canary that gpu002 could not read is left out."""
    said = json.loads(raw["parts"]["gpu002"])
    said["read"].pop("gpu001")
    raw["parts"]["gpu002"] = json.dumps(said)


def unread(raw: dict[str, Any]) -> None:
    said = json.loads(raw["parts"]["gpu002"])
    said["read"]["gpu001"] = "Input/output error"
    raw["parts"]["gpu002"] = json.dumps(said)


def faster(raw: dict[str, Any]) -> None:
    """nccl-tests of the first node."""
    said = json.loads(raw["parts"]["gpu001"])
    assert "834.57      0" in said["samples"]
    said["samples"] = said["samples"].replace("834.57      0", "934.57      0")
    raw["parts"]["gpu001"] = json.dumps(said)


def wrong_values(raw: dict[str, Any]) -> None:
    said = json.loads(raw["parts"]["gpu001"])
    said["samples"] = said["samples"].replace("834.57      0", "834.57      3")
    raw["parts"]["gpu001"] = json.dumps(said)


def swapped(raw: dict[str, Any]) -> None:
    """Two cables of leaf01 are exchanged, and all other devices are said to be down."""
    ports = raw["data"]["lldp"]
    ports["swp1"], ports["swp2"] = ports["swp2"], ports["swp1"]
    raw["not_judged"] = sorted({port["far"] for port in ports.values()})


def dark(raw: dict[str, Any]) -> None:
    """Nothing is seen at a port, and nobody was said to be down."""
    raw["data"]["lldp"]["swp1"] |= {"far": "", "far_port": ""}


def on_all_addresses(raw: dict[str, Any]) -> None:
    raw["data"]["storage"]["server"]["listening"] = ["*:24007"]


def no_server(raw: dict[str, Any]) -> None:
    """What listens and from where clients come is left out."""
    raw["data"]["storage"].pop("server")


def two_phases(raw: dict[str, Any]) -> None:
    raw["data"]["phases"] = raw["data"]["phases"][:2]


def half_a_link(raw: dict[str, Any]) -> None:
    raw["data"]["gpus"]["devices"][2]["pcie"]["width"] = 8


def another_gpu(raw: dict[str, Any]) -> None:
    raw["data"]["gpus"]["devices"][2]["serial"] = "SIM-GPU-9999"


def another_toolkit(raw: dict[str, Any]) -> None:
    raw["data"]["gpus"]["cuda_toolkits"] = {"12.0": "12.0"}


def backwards(raw: dict[str, Any]) -> None:
    for one in raw["data"]["thermal"]["temperatures"]:
        one["celsius"] = 60 - one["celsius"]


def warned(raw: dict[str, Any]) -> None:
    raw["data"]["event_log"] += [{"id": "9", "created": "", "severity": "Critical", "message": "Fan 1 failed"}]


def leave(raw: dict[str, Any]) -> None:
    """Nothing is changed but the value."""


UNSIGNED = "did not sign its result with its host key: it was signed for another result"
EDITS = {
    "canaries of another node": Edit("S130.applied", "gpu002", of_another, {}, "fail", "it is what gpu001 read"),
    "one canary less": Edit(
        "S130.applied", "gpu002", one_less, {"canaries": 4}, "fail", "canary of gpu001: nothing was read"
    ),
    "a canary that was not read": Edit(
        "S130.applied", "gpu002", unread, {}, "fail", "canary of gpu001: read Input/output"
    ),
    "another number": Edit("S130.applied", "gpu002", leave, {"canaries": 9}, "fail", "its raw output gives 5"),
    "exchanged cables": Edit("S062.measured", "leaf01", swapped, {}, "fail", "TOPOLOGY-SWAPPED"),
    "a cable that is not seen": Edit("S062.measured", "leaf01", dark, {}, "fail", "TOPOLOGY-MISSING"),
    "storage on all addresses": Edit(
        "S125.applied", "sto01", on_all_addresses, {}, "fail", "listens at *:24007, outside"
    ),
    "storage that does not say what listens": Edit(
        "S125.applied", "sto01", no_server, {"listening": None, "clients": None}, "fail", "no storage daemon listens"
    ),
    "a phase less": Edit("S088.observed", "pdu-r01-a", two_phases, {}, "fail", "2 of 3 phases were read"),
    "a narrow PCIe link": Edit("S029.measured", "gpu001", half_a_link, {}, "fail", "its raw output shows"),
    "another GPU": Edit("S026.measured", "gpu001", another_gpu, {}, "fail", "SIM-GPU-9999"),
    "another toolkit": Edit("S033.applied", "gpu001", another_toolkit, {}, "fail", "CUDA toolkits {'12.0': '12.0'}"),
    "air the wrong way": Edit("S030.observed", "gpu001", backwards, {}, "fail", "fans that blow the other way"),
    "an event in the log": Edit("S031.measured", "gpu001", warned, {}, "fail", "first: Fan 1 failed"),
    "nccl-tests": Edit("S066.measured", "lab", faster, {}, "unproven", f"gpu001 {UNSIGNED}"),
    "wrong values": Edit("S066.measured", "lab", wrong_values, {}, "fail", "nccl-tests count 3 wrong values"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_output_of_a_node_is_caught(went: Went, edit: Edit) -> None:
    def edited(entry: Entry) -> Entry:
        one = entry.record
        if (one.item, one.subject) != (edit.item, edit.subject):
            return entry
        raw = json.loads(went.store.raw(one.raw_sha256))
        edit.change(raw)
        value = {**one.value, **edit.value} if isinstance(one.value, Mapping) else one.value
        record = dataclasses.replace(one, raw=json.dumps(raw).encode(), value=value)
        went.store.keep(record.raw or b"")
        return dataclasses.replace(entry, record=record)

    verdict = went.judge(map(edited, went.contents.entries))
    found = next(one for one in verdict.items if one.item == edit.item)
    assert (verdict.exit_code, found.status) == (1, edit.status), found.detail
    assert edit.why in found.detail
