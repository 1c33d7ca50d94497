"""From check to exit status: storage writes that nodes signed reach go-live, and no attack on them does."""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.signer import CryptoSigner

from capacity.build import build
from inventory.site import Site
from tests.validation.bench import signature
from tests.validation.test_channels_to_go_live import (
    Metal,
    collected,
    judged,
    modelled,
    pinning,
    statuses,
    who_freezes,
)
from validation import gate, plugin
from validation.check import Outcome, check_of
from validation.checks import test_storage
from validation.evidence import Identity
from validation.evidence.results import NAMESPACE, RUN, Place, message_of, signed_result
from validation.facts.node_results import side_by_side
from validation.facts.storage_acts import Writes, rates
from validation.register import Register
from validation.verdict import GATE_ITEM

ITEM, SERVERS = "S124.measured", "S020.observed"
FIRST, SECOND = "ab" * 16, "cd" * 16
Signed = Callable[..., Writes]
Harm = Callable[[Outcome, Metal], Outcome]


def part(seconds: float) -> str:
    times = {"size_b": 1 << 40, "own": {"began": 1.0, "ended": 1.0 + seconds}, "shared": {"began": 9.0, "ended": 9.5}}
    return json.dumps(times)


def nodes_of(metal: Metal) -> list[str]:
    return list(metal.plan.devices.loc[metal.plan.devices["role"] == "gpu", "name"])


def signed(
    metal: Metal,
    node: str,
    text: str,
    *,
    by: str = "",
    about: str = "",
    place: str = "",
    store: str = "",
    nonce: str = FIRST,
) -> Identity:
    digest = hashlib.sha256(text.encode()).hexdigest()
    at = datetime.now(UTC).isoformat()
    where = Place(place or metal.plan.site.name, store or metal.store)
    message = message_of(where, about or node, "storage-1", nonce, at, digest)
    return signed_result(node, message, signature(message, metal.keys[by or node], NAMESPACE))


def writes(metal: Metal, nonce: str = FIRST, seconds: float = 0.5) -> Writes:
    """What the nodes wrote and signed."""
    parts = dict.fromkeys(nodes_of(metal), part(seconds))
    own, one = rates(parts)
    said = {node: signed(metal, node, text, nonce=nonce) for node, text in parts.items()}
    raw = side_by_side({node: text.encode() for node, text in parts.items()})
    return Writes(own, one, "", raw, said, configuration={RUN: {"id": "storage-1", "nonce": nonce}})


@dataclasses.dataclass(frozen=True)
class Asked:
    """Modelled devices of which all servers were asked, and what was collected of them."""

    metal: Metal
    out: Path


@pytest.fixture(scope="module")
def asked(
    real_site: Site,
    register: Register,
    people: Mapping[str, CryptoSigner],
    signer: CryptoSigner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Asked]:
    """What the servers answered before any writes: each test goes on with a copy of its own."""
    folder = tmp_path_factory.mktemp("asked")
    items = {name: register.items[name] for name in (SERVERS, ITEM, GATE_ITEM)}
    items[SERVERS] = dataclasses.replace(items[SERVERS], subjects=("servers",))
    cut = dataclasses.replace(register, items=items)
    site = pinning(real_site, signer, folder)
    with pytest.MonkeyPatch.context() as patch:
        approvers = who_freezes(people, patch)
        metal = modelled(build(site), folder, patch)
        for module in (gate, plugin):
            patch.setattr(module, "register_for", lambda site: cut)
        patch.setattr(test_storage, "_copies", lambda plan, facts: 1)
        out = folder / "out"
        metal.store = collected(site, out, signer, cut, approvers, [SERVERS]).id()
        yield Asked(metal, out)


@pytest.fixture
def metal(asked: Asked) -> Metal:
    return asked.metal


@pytest.fixture
def record(asked: Asked, signer: CryptoSigner, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Judge these writes beside what the servers answered; (exit status, status of S124, why) of the gate."""
    site, out = asked.metal.plan.site, tmp_path / "out"
    shutil.copytree(asked.out, out)
    check = check_of(test_storage.test_checkpoint_writes_reach_the_computed_rate)
    assert check is not None

    def run(*each: tuple[Writes, Harm | None], after: Callable[[Path], None] | None = None) -> tuple[int, str, str]:
        session = plugin.Session(site, out, signer)
        for given, harm in each:
            session.begin(check, site.name)
            session.flush()
            outcome = test_storage.test_checkpoint_writes_reach_the_computed_rate(
                site.name, session.plan, session.facts, given
            )
            session.settle(check, site.name, harm(outcome, asked.metal) if harm else outcome, datetime.now(UTC), set())
            session.flush()
        if after:
            after(out / "evidence")
        status, data = judged(site, out)
        found = next((one for one in data.get("items", []) if one["id"] == ITEM), {"detail": str(data)})
        return status, statuses(data).get(ITEM, "") if "items" in data else "", found["detail"]

    return run


def test_writes_that_every_node_signed_reach_go_live(record: Callable[..., Any], metal: Metal) -> None:
    assert record((writes(metal), None))[:2] == (0, "pass")


def with_signatures(outcome: Outcome, *changed: Identity) -> Outcome:
    """The outcome with these signatures in the place of those of the same devices."""
    devices = {one.device for one in changed}
    kept = [one for one in outcome.identities if not (one.channel == "result-signature" and one.device in devices)]
    return dataclasses.replace(outcome, identities=(*kept, *changed))


def edited_value(outcome: Outcome, metal: Metal) -> Outcome:
    value: Any = outcome.value
    faster = {**value["shared file"], "gb_s": 1e6}
    return dataclasses.replace(outcome, value={**value, "shared file": faster})


def edited_part(outcome: Outcome, metal: Metal) -> Outcome:
    """Part, value and digest fit together, and the record is signed by the collector; the node's key was not there."""
    parts = {**dict.fromkeys(nodes_of(metal), part(0.5)), "gpu001": part(0.4)}
    value: Any = outcome.value
    own, one = (rate.plain() for rate in rates(parts))
    raw = side_by_side({node: text.encode() for node, text in parts.items()})
    return dataclasses.replace(outcome, raw=raw, value={**value, "file per process": own, "shared file": one})


def key_of_another(outcome: Outcome, metal: Metal) -> Outcome:
    return with_signatures(outcome, signed(metal, "gpu002", part(0.5), by="gpu001"))


def part_of_another(outcome: Outcome, metal: Metal) -> Outcome:
    return with_signatures(outcome, signed(metal, "gpu002", part(0.5), about="gpu001", by="gpu001"))


def another_site(outcome: Outcome, metal: Metal) -> Outcome:
    return with_signatures(outcome, signed(metal, "gpu002", part(0.5), place="other"))


def another_store(outcome: Outcome, metal: Metal) -> Outcome:
    return with_signatures(outcome, signed(metal, "gpu002", part(0.5), store="cd" * 16))


def another_run(outcome: Outcome, metal: Metal) -> Outcome:
    return with_signatures(outcome, signed(metal, "gpu002", part(0.5), nonce=SECOND))


def no_run(outcome: Outcome, metal: Metal) -> Outcome:
    return dataclasses.replace(outcome, configuration={})


@pytest.mark.parametrize(
    ("harm", "status", "why"),
    [
        (edited_value, "fail", "it says shared file.gb_s 1e+06, its raw output gives"),
        (edited_part, "unproven", "gpu001 did not sign its result with its host key: it was signed for another result"),
        (key_of_another, "unproven", "gpu002 did not sign its result with its host key: no pinned host key of gpu002"),
        (part_of_another, "unproven", "gpu002 did not sign its result with its host key: it was signed for gpu001"),
        (another_site, "unproven", "it was signed for gpu002 of the site other"),
        (another_store, "unproven", "it was signed for the evidence store cdcdcdcd, not for"),
        (another_run, "unproven", "gpu002 did not sign its result with its host key: it was signed for another run"),
        (no_run, "unproven", "it does not say of which run it is"),
    ],
)
def test_attacks_on_what_nodes_signed_end_with_1(
    record: Callable[..., Any], metal: Metal, harm: Harm, status: str, why: str
) -> None:
    exit_status, found, detail = record((writes(metal), harm))
    assert (exit_status, found) == (1, status)
    assert why in detail


def test_a_replayed_run_does_not_replace_a_failure(record: Callable[..., Any], metal: Metal) -> None:
    """The first run passed, the second one failed; the signed parts of the first come again."""
    slow = writes(metal, SECOND, seconds=1e9)
    exit_status, found, detail = record((writes(metal), None), (slow, None), (writes(metal), None))
    assert (exit_status, found, "file per process" in detail) == (1, "fail", True)
    new = writes(metal, "ef" * 16)
    assert record((new, None))[:2] == (0, "pass")


def test_a_raw_file_that_was_edited_is_broken_evidence(record: Callable[..., Any], metal: Metal) -> None:
    raw = writes(metal).raw
    digest = hashlib.sha256(raw).hexdigest()

    def harm(evidence: Path) -> None:
        (evidence / "raw" / digest[:2] / digest).write_bytes(raw.replace(b"1.5", b"1.4"))

    assert record((writes(metal), None), after=harm)[0] == 2
