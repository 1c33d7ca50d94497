"""A node signs its part of a result for itself alone, and at go-live nothing else counts where host keys are pinned."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner

from inventory.site import Site
from tests.plans import plan_of
from tests.validation import recordings
from tests.validation.bench import (
    ASSETS,
    DIGEST,
    FROZEN,
    HOST_KEY,
    HOST_KEYS,
    NOW,
    STORE,
    SmallPlan,
    answered,
    halves,
    judged_alone,
    kept_by,
    proven,
    public_of,
    rests_on,
    signature,
    swept,
    with_parts,
)
from validation.approvals import STATE
from validation.evidence import Entry, Identity, Record
from validation.evidence.channels import NAMESPACE as CHALLENGE
from validation.evidence.record import raw_path
from validation.evidence.results import NAMESPACE, RUN, Place, message_of, signed_result, why_unsigned
from validation.evidence.store import Contents, KeyOwner
from validation.facts.node_results import side_by_side
from validation.from_raw import Again, Reader, computed
from validation.register import Register
from validation.runners.training import Recording, settings_of
from validation.verdict import approved

ITEM = "S034.measured"
KEYS = frozenset({public_of(HOST_KEY)})
NONCE = "ab" * 16
PLACE = Place("lab", STORE)
OF_RUN = {RUN: {"id": "a-run", "nonce": NONCE}}


def said(
    device: str = "gpu001",
    *,
    about: str = "",
    site: str = "lab",
    store: str = STORE,
    nonce: str = NONCE,
    sha256: str = DIGEST,
    at: Any = NOW,
    key: Ed25519PrivateKey = HOST_KEY,
    namespace: str = NAMESPACE,
) -> Identity:
    message = message_of(Place(site, store), about or device, "a-run", nonce, at.isoformat(), sha256)
    return signed_result(device, message, signature(message, key, namespace))


def of_an_earlier_version() -> Identity:
    """A signature that holds, in the form that named no store."""
    at = NOW.isoformat()
    message = f"bringup result 2\nsite lab\ndevice gpu001\nrun a-run\nnonce {NONCE}\nat {at}\nsha256 {DIGEST}\n"
    return signed_result("gpu001", message, signature(message, HOST_KEY, NAMESPACE))


def record(*identities: Identity, **changes: Any) -> Record:
    given: dict[str, Any] = {"raw_sha256": DIGEST, "identities": identities, "configuration": OF_RUN, **changes}
    return Record("S034", "measured", "gpu001", "PASSED", NOW - timedelta(hours=49), NOW, "test", "1", **given)


def test_a_nodes_own_signature_on_its_result_counts() -> None:
    assert why_unsigned(record(said()), PLACE, {"gpu001": KEYS}) == ""


@pytest.mark.parametrize(
    ("identities", "why"),
    [
        ((), "did not sign"),
        ((said("gpu002"),), "did not sign"),
        ((said("gpu001", about="gpu002"),), "signed for gpu002"),
        ((said(site="other"),), "of the site other"),
        ((said(store="cd" * 16),), "signed for the evidence store cdcdcdcd"),
        ((of_an_earlier_version(),), "names no evidence store"),
        ((said(nonce="cd" * 16),), "another run (a-run)"),
        ((said(sha256="cd" * 32),), "another result"),
        ((said(key=Ed25519PrivateKey.generate()),), "no pinned host key"),
        ((said(namespace=CHALLENGE),), "no pinned host key"),
        ((answered("gpu001"),), "did not sign"),
        ((dataclasses.replace(answered("gpu001"), channel="result-signature"),), "no signed result"),
        ((dataclasses.replace(said(), signature=""),), "no pinned host key"),
        ((dataclasses.replace(said(), message=""),), "no signed result"),
        ((said(at=NOW - timedelta(days=8)),), "it was signed at"),
        ((said(at=NOW + timedelta(hours=1)),), "it was signed at"),
        ((said(at=NOW.replace(tzinfo=None)),), "time zone"),
        ((said(at=NOW.replace(year=9999)),), "year"),
    ],
)
def test_what_the_node_did_not_sign_for_itself_counts_for_nothing(identities: tuple[Identity, ...], why: str) -> None:
    assert why in why_unsigned(record(*identities), PLACE, {"gpu001": KEYS})


def test_a_result_without_raw_output_is_not_signed() -> None:
    assert "another result" in why_unsigned(record(said(), raw_sha256=""), PLACE, {"gpu001": KEYS})


def test_a_node_without_a_pinned_key_signs_nothing() -> None:
    assert "no pinned host key" in why_unsigned(record(said()), PLACE, {})


def with_s034(contents: Contents, *more: Identity, devices: tuple[str, ...] = ("gpu001", "gpu002")) -> Contents:
    """The contents with each S034 record about the raw output that its node signed."""

    def changed(entry: Entry) -> Entry:
        one = entry.record
        if one.item != ITEM or one.subject not in devices or one.result == "FAILED":
            return entry
        signed = more or (said(one.subject, at=one.ended),)
        made = dataclasses.replace(
            one,
            raw_sha256=DIGEST,
            identities=(*one.identities, *signed),
            configuration={**one.configuration, **OF_RUN},
        )
        return dataclasses.replace(entry, record=made)

    return dataclasses.replace(contents, entries=tuple(changed(entry) for entry in contents.entries))


@pytest.fixture(scope="module")
def real_contents(
    real_site: Site,
    passing: Callable[..., list[Record]],
    signer: CryptoSigner,
    people: dict[str, CryptoSigner],
) -> Contents:
    """Evidence of devices for every item, signed by the collector and under a freeze."""
    key = signer.public_key.keyid
    made = [Entry(one, frozenset({key}), 1, one.mode) for one in passing(SmallPlan(real_site))]
    approvers = [people[role].public_key.keyid for role in ("approver", "second approver")]
    owners = {key: KeyOwner("collector", "collector")} | {one: KeyOwner("approver", "x") for one in approvers}
    return Contents(tuple(made), halves(FROZEN, *approvers), owners=owners, head_signers=frozenset({key}), store=STORE)


@pytest.fixture
def pinning(real_site: Site) -> SmallPlan:
    """A real site that pins the host keys of its servers."""
    ssh = real_site.credentials.ssh.model_copy(update={"host_keys": "pinned"})
    credentials = real_site.credentials.model_copy(update={"ssh": ssh})
    return SmallPlan(real_site.model_copy(update={"credentials_given": credentials}))


def status(register: Register, plan: SmallPlan, contents: Contents, **rest: Any) -> tuple[str, str]:
    verdict = judged_alone(register, plan, contents, (), NOW, **rest)
    found = next(one for one in verdict.items if one.item == ITEM)
    return found.status, found.detail


def test_the_gate_asks_each_node_for_its_signature(
    register: Register, pinning: SmallPlan, real_contents: Contents
) -> None:
    found, detail = status(register, pinning, real_contents)
    assert (found, "it does not say of which run it is" in detail) == ("unproven", True)
    assert status(register, pinning, with_s034(real_contents))[0] == "pass"
    found, detail = status(register, pinning, with_s034(real_contents, devices=("gpu001",)))
    assert (found, "gpu002: it does not say of which run" in detail) == ("unproven", True)


def test_a_part_that_one_node_signed_about_another_counts_for_nothing(
    register: Register, pinning: SmallPlan, real_contents: Contents
) -> None:
    """gpu002 signs, with a key that is pinned for it alone, a result that says it is of gpu001."""
    key = Ed25519PrivateKey.generate()
    keys = {**HOST_KEYS, "gpu002": KEYS | {public_of(key)}}
    at = NOW - timedelta(hours=1)
    rekeyed = [
        dataclasses.replace(
            entry,
            record=dataclasses.replace(
                entry.record,
                configuration={**entry.record.configuration, **rests_on("gpu002", entry.record.identities, keys)},
            ),
        )
        if (entry.record.item, entry.record.subject) == (ITEM, "gpu002")
        else entry
        for entry in real_contents.entries
    ]
    log = dataclasses.replace(real_contents, entries=tuple(rekeyed))
    signed = with_s034(log, said("gpu002", at=at, key=key), devices=("gpu002",))
    assert "gpu001: it does not say of which run" in status(register, pinning, signed, host_keys=keys)[1]
    contents = with_s034(signed, said("gpu001", at=at, key=key), devices=("gpu001",))
    found, detail = status(register, pinning, contents, host_keys=keys)
    assert (found, "no pinned host key of gpu001" in detail) == ("unproven", True)


def test_an_unsigned_pass_does_not_replace_a_counting_failure(
    register: Register, pinning: SmallPlan, real_contents: Contents
) -> None:
    failed = next(e for e in real_contents.entries if (e.record.item, e.record.subject) == (ITEM, "gpu001"))
    first = dataclasses.replace(
        failed, line=0, record=dataclasses.replace(failed.record, result="FAILED", detail="bad")
    )
    contents = dataclasses.replace(real_contents, entries=(first, *real_contents.entries))
    assert status(register, pinning, contents)[0] == "fail"
    assert status(register, pinning, with_s034(contents))[0] == "pass"


def test_a_site_of_first_use_keys_goes_on_as_before(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    assert status(register, SmallPlan(real_site), real_contents)[0] == "pass"


def test_a_rehearsal_asks_for_no_signature(register: Register, pinning: SmallPlan, real_contents: Contents) -> None:
    assert "did not sign" not in status(register, pinning, real_contents, rehearsal=True)[1]


def test_a_run_counts_once(register: Register, pinning: SmallPlan, real_contents: Contents) -> None:
    """The collector writes the signed result of an earlier run again, in a later line."""
    signed = with_s034(real_contents)
    again = [dataclasses.replace(one, line=5) for one in signed.entries if one.record.item == ITEM]
    replayed = dataclasses.replace(signed, entries=(*signed.entries, *again))
    assert status(register, pinning, replayed)[0] == "pass"
    failed = [
        dataclasses.replace(one, line=4, record=dataclasses.replace(one.record, result="FAILED", detail="bad"))
        for one in again
    ]
    replayed = dataclasses.replace(signed, entries=(*signed.entries, *failed, *again))
    assert status(register, pinning, replayed) == ("fail", "gpu001: bad (and 1 more of 2)")
    only = tuple(one for one in signed.entries if one.record.item != ITEM)
    replayed = dataclasses.replace(signed, entries=(*only, *failed, *again))
    assert status(register, pinning, replayed)[0] == "fail"


# ---- loads on several nodes: their parts side by side --------------------------------------------------------------------
NODES = ["gpu001", "gpu002"]
JOINED_ITEM = "S066.measured"
NODE_KEYS = {node: Ed25519PrivateKey.generate() for node in NODES}
KEYS_OF = {**HOST_KEYS, **{node: HOST_KEYS[node] | {public_of(key)} for node, key in NODE_KEYS.items()}}
PARTS = {node: kept_by(texts) for node, texts in swept(NODES).items()}
AT = NOW - timedelta(hours=1)


def part(node: str, content: bytes, **changes: Any) -> Identity:
    digest = hashlib.sha256(content).hexdigest()
    return said(node, **{"sha256": digest, "at": AT, "key": NODE_KEYS[node], **changes})


RAW = side_by_side(PARTS)
SIGNED = [part(node, content) for node, content in PARTS.items()]
FASTER = {node: kept_by(texts) for node, texts in swept(NODES, time_us=5.0).items()}


@dataclasses.dataclass
class Bench:
    """A site that pins host keys, its log, and a folder of raw outputs."""

    register: Register
    plan: SmallPlan
    contents: Contents
    folder: Path
    reader: Reader | None = None
    judged_contents: Contents | None = None

    def judged(
        self,
        raw: bytes,
        signed: Sequence[Identity],
        value: Mapping[str, Any] | None = None,
        *,
        run: Mapping[str, Any] = OF_RUN,
        more: Sequence[Entry] = (),
        item: str = JOINED_ITEM,
    ) -> tuple[int, str, str]:
        """(exit status, status of the item, why) with a record about this raw output; the value is what it gives unless given."""
        path = self.folder / raw_path(hashlib.sha256(raw).hexdigest())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        lab = plan_of("lab")
        gpus = lab.devices[~lab.devices["name"].isin(["gpu003", "gpu004"])]
        two = lab.site.limits["training_nodes"].model_copy(update={"value": 2})
        site = self.plan.site.model_copy(update={"limits": {**self.plan.site.limits, "training_nodes": two}})
        plan = dataclasses.replace(lab, site=site, devices=gpus)
        found = computed(item, "lab", plan, raw)
        own = found.value if isinstance(found, Again) else {}
        limit = found.limit if isinstance(found, Again) else None
        changes: dict[str, Any] = {"value": json.loads(json.dumps(own if value is None else value)), "raw": raw}
        changes |= {} if limit is None else {"limit": limit}

        def changed(entry: Entry) -> Entry:
            one = entry.record
            if one.item != item:
                return entry
            seen = (*(two for node in NODES for two in proven(node)), *signed)
            configuration = {**one.configuration, **run, **rests_on("lab", seen, KEYS_OF)}
            made = dataclasses.replace(one, identities=seen, configuration=configuration, **changes)
            return dataclasses.replace(entry, record=made)

        entries = (*map(changed, self.contents.entries), *more)
        contents = dataclasses.replace(self.contents, entries=entries)
        reader = self.reader = Reader(plan, self.folder)
        self.judged_contents = contents
        verdict = judged_alone(self.register, self.plan, contents, (), NOW, host_keys=KEYS_OF, from_raw=reader)
        found_item = next(one for one in verdict.items if one.item == item)
        return verdict.exit_code, found_item.status, found_item.detail


@pytest.fixture
def bench(register: Register, pinning: SmallPlan, real_contents: Contents, tmp_path: Path) -> Bench:
    return Bench(register, pinning, real_contents, tmp_path)


def test_a_joined_result_counts_with_the_signature_of_each_of_its_nodes(bench: Bench) -> None:
    assert bench.judged(RAW, SIGNED)[1:] == ("pass", "1 of 1")


@pytest.mark.parametrize(
    ("signed", "why"),
    [
        ([], "gpu001 did not sign its result with its host key"),
        (SIGNED[:1], "gpu002 did not sign its result with its host key"),
        (
            [SIGNED[0], part("gpu002", PARTS["gpu002"], key=NODE_KEYS["gpu001"])],
            "no pinned host key of gpu002 signed it",
        ),
        ([SIGNED[0], part("gpu001", PARTS["gpu002"])], "gpu002 did not sign"),
        ([SIGNED[0], part("gpu001", PARTS["gpu002"], about="gpu002")], "gpu002 did not sign"),
        (
            [SIGNED[0], part("gpu002", PARTS["gpu001"])],
            "gpu002 did not sign its result with its host key: it was signed for another",
        ),
        ([SIGNED[0], part("gpu002", PARTS["gpu002"], nonce="cd" * 16)], "it was signed for another run"),
        ([SIGNED[0], part("gpu002", PARTS["gpu002"], site="other")], "gpu002 of the site other"),
        ([SIGNED[0], part("gpu002", PARTS["gpu002"], at=NOW - timedelta(days=9))], "it was signed at"),
        ([SIGNED[0], part("gpu002", PARTS["gpu002"], namespace=CHALLENGE)], "no pinned host key of gpu002"),
    ],
    ids=[
        "no signature",
        "one of two",
        "key of another node",
        "part of another node",
        "another name",
        "another part",
        "another run",
        "another site",
        "old",
        "another purpose",
    ],
)
def test_a_part_that_its_node_did_not_sign_is_unproven_by_name(
    bench: Bench, signed: Sequence[Identity], why: str
) -> None:
    status, word, detail = bench.judged(RAW, signed)
    assert (status, word) == (1, "unproven")
    assert why in detail


def test_edited_parts_with_mended_digest_and_value_are_unproven(bench: Bench) -> None:
    """The collector's key signs the record anew, with the value that the edited parts give; the nodes' keys are not there."""
    status, word, detail = bench.judged(side_by_side({**PARTS, "gpu001": FASTER["gpu001"]}), SIGNED)
    assert (status, word) == (1, "unproven")
    assert "gpu001 did not sign its result with its host key: it was signed for another result" in detail


def test_an_edited_value_is_a_failure(bench: Bench) -> None:
    joined = computed(JOINED_ITEM, "lab", plan_of("lab"), side_by_side(PARTS))
    assert not isinstance(joined, str), joined
    value = json.loads(json.dumps(joined.value))
    status, word, detail = bench.judged(RAW, SIGNED, value={**value, "all_reduce_mb_s": 1e6})
    assert (status, word) == (1, "fail")
    assert "it says all_reduce_mb_s 1e+06, its raw output gives" in detail


def test_a_node_that_is_left_out_is_a_failure(bench: Bench) -> None:
    one = {"gpu001": kept_by(swept(["gpu001"], per_node=2)["gpu001"])}
    status, word, detail = bench.judged(side_by_side(one), [part("gpu001", one["gpu001"])])
    assert (status, word) == (1, "fail")
    assert "not in the job: gpu002" in detail


def test_a_joined_run_counts_once(bench: Bench) -> None:
    first = next(one for one in bench.contents.entries if one.record.item == JOINED_ITEM)
    used = dataclasses.replace(
        first.record, configuration={**first.record.configuration, **OF_RUN}, result="FAILED", detail="bad"
    )
    status, word, detail = bench.judged(RAW, SIGNED, more=[dataclasses.replace(first, line=0, record=used)])
    assert (status, word) == (1, "fail")
    status, word, detail = bench.judged(RAW, SIGNED, run={RUN: {"id": "x", "nonce": ["a"]}})
    assert (status, word, "it does not say of which run it is" in detail) == (1, "unproven", True)


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"parts": {}}', b'{"parts": {"gpu001": 3}}', b"[" * 100_000])
def test_a_raw_output_without_parts_shows_no_signed_part(bench: Bench, raw: bytes) -> None:
    digest = hashlib.sha256(raw).hexdigest()
    (bench.folder / raw_path(digest)).parent.mkdir(parents=True)
    (bench.folder / raw_path(digest)).write_bytes(raw)
    record = next(one.record for one in bench.contents.entries if one.record.item == JOINED_ITEM)
    reader = Reader(plan_of("lab"), bench.folder)
    said = reader.parts(bench.register.items[JOINED_ITEM], dataclasses.replace(record, raw=raw))
    assert "does not have the parts of its nodes" in str(said)


# ---- storage and training -------------------------------------------------------------------------------------------------
def written(seconds: float) -> dict[str, bytes]:
    """What the nodes print of their checkpoint writes."""
    times = {"size_b": 1 << 40, "own": {"began": 1.0, "ended": 1.0 + seconds}, "shared": {"began": 9.0, "ended": 9.5}}
    return {node: json.dumps(times).encode() for node in NODES}


def test_writes_count_with_the_signature_of_each_node(bench: Bench) -> None:
    writes = written(0.5)
    signed = [part(node, content) for node, content in writes.items()]
    assert bench.judged(side_by_side(writes), signed, item="S124.measured")[1:] == ("pass", "1 of 1")
    status, word, detail = bench.judged(side_by_side(writes), signed[:1], item="S124.measured")
    assert (status, word, "gpu002 did not sign" in detail) == (1, "unproven", True)
    faster = {**writes, "gpu002": written(0.1)["gpu002"]}
    status, word, detail = bench.judged(side_by_side(faster), signed, item="S124.measured")
    assert (status, word, "gpu002 did not sign its result with its host key: it was signed for another" in detail) == (
        1,
        "unproven",
        True,
    )


def trained(made: Recording) -> tuple[Recording, list[Identity]]:
    """A recording of gpu001 and gpu002 alone, with what both sign."""
    smoke = Recording.from_json(made.as_json().decode().replace('"gpu004"', '"gpu001"'))
    smoke.metrics = {
        run: {rank: one for rank, one in smoke.metrics[run].items() if rank != "2"} for run in smoke.metrics
    }
    for run in ("interrupted", "half"):  # half of two nodes is one
        smoke.metrics.pop(run)
        smoke.jobs.pop(run)
    smoke.metrics["full"] = recordings.at_scale(NODES, 815.0)
    smoke.jobs["full"]["nodes"] = NODES
    starts = [
        one for ranks in smoke.metrics.values() for told in ranks.values() for one in told if one["event"] == "start"
    ]
    for start in starts:
        start["hosts"] = [host for host in start["hosts"] if host in NODES]
        start["world_size"] = len(start["hosts"])
    smoke.jobs["undisturbed"]["nodes"], smoke.gpu_nodes, smoke.settings = NODES, NODES, settings_of(2)
    smoke.outage, smoke.states, smoke.sightings = {}, [], []
    smoke = with_parts(smoke)
    return smoke, [part(node, text.encode()) for run in smoke.parts.values() for node, text in run.items()]


TRAINED_ITEM = "S186.measured"


def test_a_training_counts_with_the_signatures_of_the_nodes_of_each_run(bench: Bench) -> None:
    smoke, signed = trained(recordings.made())
    assert bench.judged(smoke.as_json(), signed, item=TRAINED_ITEM)[1:] == ("pass", "1 of 1")
    for left in range(len(signed)):
        some = [*signed[:left], *signed[left + 1 :]]
        status, word, detail = bench.judged(smoke.as_json(), some, item=TRAINED_ITEM)
        assert (status, word, "did not sign its result with its host key" in detail) == (1, "unproven", True)


def test_edited_losses_are_unproven_whether_or_not_the_parts_are_edited_too(bench: Bench) -> None:
    smoke, signed = trained(recordings.made())
    edited = Recording.from_json(smoke.as_json().replace(b'"loss": 0.8,', b'"loss": 0.7,'))
    edited.parts.update(smoke.parts)
    status, word, detail = bench.judged(edited.as_json(), signed, item=TRAINED_ITEM)
    assert (status, word) == (1, "unproven")
    assert "attempt 0 is not what gpu001 signed" in detail
    status, word, detail = bench.judged(with_parts(edited).as_json(), signed, item=TRAINED_ITEM)
    assert (status, word) == (1, "unproven")
    assert "gpu001 did not sign its result with its host key: it was signed for another result" in detail


def test_a_training_without_parts_is_unproven(bench: Bench) -> None:
    smoke, signed = trained(recordings.made())
    bare = dataclasses.replace(smoke, parts={})
    status, word, detail = bench.judged(bare.as_json(), signed, item=TRAINED_ITEM)
    assert (status, word, "no node signed rank 0, attempt 0" in detail) == (1, "unproven", True)


def test_approvals_are_about_joined_results_too(bench: Bench) -> None:
    """What counts at the approval is what counts at the gate: both read the parts."""
    assert bench.judged(RAW, SIGNED)[1] == "pass"

    def records(reader: Reader | None) -> int:
        said = approved(
            bench.register,
            bench.plan,
            bench.judged_contents or bench.contents,
            (),
            NOW,
            asset_ids=ASSETS,
            host_keys=KEYS_OF,
            from_raw=reader,
        )
        return int(said.configuration[STATE]["records"])

    assert records(bench.reader) == records(None) + 1
