"""Every check that the register has, asked of modelled devices in a run of the real plugin, up to GO-LIVE.

tests/validation/whole_site.py answers below the drivers. What is not in the run stands in NOT_RUN, with its reason.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from securesystemslib.signer import CryptoSigner

from inventory.delivered.assets import asset_aliases
from inventory.paths import repo_root
from inventory.site import Site
from tests.validation import whole_site
from tests.validation.test_channels_to_go_live import attach, judged, pinning, statuses, who_freezes
from validation import freeze, gate, plugin
from validation.check import check_of
from validation.evidence import Entry
from validation.evidence.store import Store
from validation.from_raw import Reader
from validation.program import checked_items
from validation.register import Register
from validation.runners import burn_in, slurm
from validation.verdict import GATE_ITEM, Verdict

LISTED: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "data" / "not_in_go_live.yaml").read_text())
NOT_RUN: dict[str, str] = LISTED["not_run"]
ELSEWHERE: dict[str, str] = LISTED["not_on_this_site"]
FEWER: dict[str, dict[str, str]] = LISTED["fewer_subjects"]
BATCHES = 6
"""So many judgements leave each item out once."""


@dataclasses.dataclass
class Went:
    """The run of all checks, and what the gate says of it."""

    site: Site
    register: Register
    devices: whole_site.WholeSite
    store: Store
    status: int
    said: dict[str, Any]


def cut_to_the_run(register: Register) -> Register:
    """The register with the items that the run has, and the gate's own."""
    items = {item: register.items[item] for item in checked_items() if item not in {*NOT_RUN, *ELSEWHERE}}
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
        whole_site.with_a_client(patch, folder / "bin")
        for module in (gate, plugin):
            patch.setattr(module, "load_register", lambda: cut)
        patch.setattr(plugin, "load_site", lambda name: site)
        out = folder / "out"
        store = plugin.Session(site, out, signer).store
        for name, key in approvers.items():
            freeze.sign(site, store, freeze.frozen_today(site, cut), name, key, datetime.now(UTC))
        began_days_ago(made, out)
        run_all(patch, folder, out, cut)
        status, said = judged(site, out)
        yield Went(site, cut, made, store, status, said)


def began_days_ago(made: whole_site.WholeSite, out: Path) -> None:
    """A burn-in that `bringup validation start` has begun and that is over: the run collects it."""
    plan = made.plan
    started = burn_in.start(plan, slurm.connect(plan))
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


def test_each_item_with_a_check_is_in_the_run_or_listed_with_a_reason(went: Went, register: Register) -> None:
    passed = {item for item, status in statuses(went.said).items() if status == "pass"} - {GATE_ITEM}
    assert passed | set(NOT_RUN) | set(ELSEWHERE) == checked_items()
    assert not passed & {*NOT_RUN, *ELSEWHERE}
    assert all(len(why) > 20 for why in [*NOT_RUN.values(), *(said["because"] for said in FEWER.values())])
    site = went.site
    assert {item: register.not_applicable(register.items[item], site) for item in ELSEWHERE} == ELSEWHERE


def judged_without(went: Went, items: Collection[str]) -> Verdict:
    """The verdict on the log without the records of these items."""
    contents, plan = went.store.verify(), dataclasses.replace(went.devices.plan, site=went.site)
    left = tuple(one for one in contents.entries if one.record.item not in items)
    known, pinned = asset_aliases(went.devices.assets, plan.gpus), gate.pinned_host_keys(plan)
    contents = dataclasses.replace(contents, entries=left)
    reader = Reader(plan, went.store.path)
    return gate.judge(
        went.register, plan, contents, [], datetime.now(UTC), asset_ids=known, host_keys=pinned, from_raw=reader
    )


@pytest.mark.parametrize("place", range(BATCHES))
def test_an_item_whose_check_did_not_run_is_missing(went: Went, place: int) -> None:
    items = sorted(set(went.register.items) - {GATE_ITEM})[place::BATCHES]
    verdict = judged_without(went, items)
    assert {one.item for one in verdict.items if one.status in ("missing", "fail")} >= set(items)
    assert verdict.word == "NO GO-LIVE"


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
    "one canary less": Edit("S130.applied", "gpu002", one_less, {"canaries": 4}, "unproven", f"gpu002 {UNSIGNED}"),
    "a canary that was not read": Edit(
        "S130.applied", "gpu002", unread, {}, "fail", "canary of gpu001: read Input/output"
    ),
    "another number": Edit("S130.applied", "gpu002", leave, {"canaries": 9}, "fail", "its raw output gives 5"),
    "exchanged cables": Edit("S062.measured", "leaf01", swapped, {}, "fail", "TOPOLOGY-SWAPPED"),
    "a cable that is not seen": Edit("S062.measured", "leaf01", dark, {}, "fail", "TOPOLOGY-MISSING"),
    "storage on all addresses": Edit(
        "S125.applied", "sto01", on_all_addresses, {}, "fail", "listens at *:24007, outside"
    ),
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
    contents, plan = went.store.verify(), dataclasses.replace(went.devices.plan, site=went.site)

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

    contents = dataclasses.replace(contents, entries=tuple(map(edited, contents.entries)))
    verdict = gate.judge(
        went.register,
        plan,
        contents,
        [],
        datetime.now(UTC),
        asset_ids=asset_aliases(went.devices.assets, plan.gpus),
        host_keys=gate.pinned_host_keys(plan),
        from_raw=Reader(plan, went.store.path),
    )
    found = next(one for one in verdict.items if one.item == edit.item)
    assert (verdict.exit_code, found.status) == (1, edit.status), found.detail
    assert edit.why in found.detail


@pytest.mark.parametrize("kind", ["computed", "generated", "applied", "measured", "observed"])
def test_with_one_check_less_there_is_no_go_live(went: Went, kind: str) -> None:
    item = next(item for item in went.register.items if item.endswith(kind) and item != GATE_ITEM)
    verdict = judged_without(went, [item])
    assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)
    assert next(one.status for one in verdict.items if one.item == item) in ("missing", "fail")
