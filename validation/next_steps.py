"""Per open item, who must do what: from what is open in a verdict to one line of work each. Pure.

    todo(verdict, register)     # items by who has to act and what they do, in the order of the register

In: the judged items. Out: rows for terminal, page and JSON. The reason of an item says what is wrong; a row says who mends it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from validation.register import Register
from validation.verdict import CLOSED, GATE_ITEM, ItemVerdict, Status, Verdict

COLLECTOR = "who runs the checks"
SITE_TEAM = "who runs the site"
PLANNER = "who writes the site file"
APPROVERS = "two approvers"
APPROVER = "an approver"
NOBODY = "nobody"
BLOCKS_A_REHEARSAL: frozenset[Status] = frozenset({"fail", "missing", "stale"})
RUN = "run the checks: pytest validation --site SITE"
REPORT = "have it measured, then sign the report: bringup waive ITEM --site SITE --external-report FILE (see --help)"
ENDED_RUN = (
    "see whether the run still goes on (bringup validation status SITE shows a burn-in), else repeat what began and never ended: "
    "pytest validation --site SITE"
)
PIN_DEVICES = (
    "write the device's ed25519 host key, as its console or installer shows it, into known_hosts (for a server: bringup boot enrol "
    "SITE SERVER FILE) and set credentials.ssh.host_keys and credentials.switch.host_keys to pinned, then run the checks again"
)
PLAN_ERRORS = (
    "change the site file by the Fix of each error (bringup plan SITE), or have it waived: bringup waive ID --site SITE"
)
FREEZE = "sign a freeze, each of the two: bringup freeze SITE --as NAME --key KEY"
FREEZE_ANEW = (
    "see what is another than frozen (bringup freeze SITE) and restore it, or freeze anew, each of the two: "
    "bringup freeze SITE --as NAME --key KEY"
)
_OF_CHECKS: Mapping[Status, tuple[str, str]] = {
    "fail": (SITE_TEAM, "do what the reason says, then run the checks again"),
    "missing": (COLLECTOR, RUN),
    "stale": (COLLECTOR, "run the checks again, because their inputs have changed or they are too old"),
    "out_of_order": (COLLECTOR, "close the earlier groups first, then run the checks again"),
    "unproven": (SITE_TEAM, "do what the reason says; a device needs three channels, one of them a challenge"),
    "simulated": (
        COLLECTOR,
        "do what the reason says: pin the key of the collector, or run the checks on real devices",
    ),
    "assumed": (PLANNER, "write the values that the reason names into the site file, or add their keys to confirmed"),
    "partial": (APPROVERS, REPORT),
}
_OF_ATTESTATIONS: Mapping[Status, str] = {
    "fail": "repair what was found, then sign a new form: bringup attest FORM --site SITE --key KEY",
    "missing": "fill in and sign the form (bringup attest --template ITEM), or add the signature that the reason names "
    "(bringup attest --countersign FILE)",
    "stale": "inspect again and sign a new form, because its subject has changed or it is too old",
    "out_of_order": "close the earlier groups first, then sign a new form: bringup attest FORM --site SITE --key KEY",
}


@dataclass(frozen=True)
class ToDo:
    """One line of work: who acts, what they do, and the items that it closes."""

    who: str
    what: str
    items: tuple[str, ...]


def who_and_what(item: ItemVerdict, register: Register, verdict: Verdict) -> tuple[str, str] | None:
    """Who has to act on an item and what they do; None where it blocks nothing."""
    if item.status in CLOSED or item.status == "not_exercised":
        return None
    if verdict.rehearsal and item.status not in BLOCKS_A_REHEARSAL:
        return None
    if item.item == GATE_ITEM:
        return NOBODY, "it closes by itself with all steps before it"
    needs = verdict.needs
    signers = needs.signers.get(item.item, register.items[item.item].signers)
    if item.kind == "attested" and (unpinned := [role for role in dict.fromkeys(signers) if role in needs.roles]):
        return PLANNER, pin_role(unpinned[0], needs.roles[unpinned[0]])
    if item.kind == "attested" and item.status in _OF_ATTESTATIONS:
        return people(signers) or APPROVER, _OF_ATTESTATIONS[item.status]
    if item.item in needs.never_ended and item.status == "fail":
        return COLLECTOR, ENDED_RUN
    if item.status == "unproven" and any(
        one.subject in needs.devices for one in item.subjects if one.status == "unproven"
    ):
        return SITE_TEAM, PIN_DEVICES
    if item.item in verdict.no_check:
        return APPROVERS, f"there is no check yet: {REPORT}"
    if item.kind in ("computed", "generated") and item.status == "fail":
        return PLANNER, "change what the finding names, then run the checks again"
    return _OF_CHECKS[item.status]


def people(roles: Sequence[str]) -> str:
    """The roles that sign, each once: 'electrician and safety_officer (2 people)'."""
    counted = Counter(roles)
    return " and ".join(role if count == 1 else f"{role} ({count} people)" for role, count in counted.items())


def pin_role(role: str, keys: int) -> str:
    """How a role gets the keys that it lacks."""
    one = "the key of its holder" if keys == 1 else f"{keys} keys, each of another holder,"
    return (
        f"pin {one} for {role}: ssh-keygen -t ed25519 -f KEY makes one, ssh-keygen -lf KEY.pub prints its fingerprint for "
        f"attest.roles.{role}.keys"
    )


def _of_the_whole(verdict: Verdict) -> list[ToDo]:
    """Lines of work that close no single item: errors of the plan, the freeze, keys that everything rests on."""
    needs, found = verdict.needs, []
    if verdict.errors:
        named = tuple(dict.fromkeys(f"{error.id} {error.subject}" for error in verdict.errors))
        found.append(ToDo(PLANNER, PLAN_ERRORS, named))
    if verdict.rehearsal:
        return found
    attested = {role for roles in needs.signers.values() for role in roles}
    found += [
        ToDo(PLANNER, pin_role(role, keys), (GATE_ITEM,)) for role, keys in needs.roles.items() if role not in attested
    ]
    if needs.freeze:
        found.append(ToDo(APPROVERS, FREEZE if needs.freeze == "none" else FREEZE_ANEW, (GATE_ITEM,)))
    return found


def todo(verdict: Verdict, register: Register) -> list[ToDo]:
    """All lines of work of a verdict: errors of the plan, keys and freeze first, then items in the order of the register, those of
    failures before others."""
    rows: dict[tuple[str, str], list[str]] = {}
    failed: set[tuple[str, str]] = set()
    for item in verdict.items:
        if (key := who_and_what(item, register, verdict)) is None:
            continue
        rows.setdefault(key, []).append(item.item)
        if item.status == "fail":
            failed.add(key)
    order = sorted(rows, key=lambda key: (key not in failed, key[0] == NOBODY))
    return [*_of_the_whole(verdict), *(ToDo(who, what, tuple(rows[who, what])) for who, what in order)]
