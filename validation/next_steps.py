"""Per open item, who must do what: from what is open in a verdict to one line of work each. Pure.

    todo(verdict, register)     # items by who has to act and what they do, in the order of the register

In: the judged items. Out: rows for terminal, page and JSON. The reason of an item says what is wrong; a row says who mends it.
"""

from collections.abc import Mapping
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
    "missing": "fill in and sign the form (bringup attest --template ITEM), or add the signature that the reason names",
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
    if item.kind == "attested" and item.status in _OF_ATTESTATIONS:
        roles = register.items[item.item].signers
        return " and ".join(roles) or APPROVER, _OF_ATTESTATIONS[item.status]
    if item.item in verdict.no_check:
        return APPROVERS, f"there is no check yet: {REPORT}"
    if item.kind in ("computed", "generated") and item.status == "fail":
        return PLANNER, "change what the finding names, then run the checks again"
    return _OF_CHECKS[item.status]


def todo(verdict: Verdict, register: Register) -> list[ToDo]:
    """All lines of work of a verdict in the order of the register, those of failures first."""
    rows: dict[tuple[str, str], list[str]] = {}
    failed: set[tuple[str, str]] = set()
    for item in verdict.items:
        if (key := who_and_what(item, register, verdict)) is None:
            continue
        rows.setdefault(key, []).append(item.item)
        if item.status == "fail":
            failed.add(key)
    order = sorted(rows, key=lambda key: (key not in failed, key[0] == NOBODY))
    return [ToDo(who, what, tuple(rows[who, what])) for who, what in order]
