"""Fields of attestation forms: what each may say, and what it is compared with. Pure but for reading `forms.yaml`.

    faults(item, form, subjects, began=...)      what is wrong with a form by itself: types, units, ranges, dates
    unfounded(item, form, site)                  what it lacks that item and site file ask of it: role, licence, calibration
    contradictions(form, result, ended)          what it says against the record that it stands in
    off_plan(item, form, subjects, plan, known)  where its readings are others than plan, site file or asset list have
    rows(plan, subject)                          hashes of the rows of the plan that an attestation about an asset rests on

A form is what `bringup attest` reads; a field of several assets is a mapping from asset to value.
"""

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

from inventory.site import Site
from validation.evidence.record import Result
from validation.register import Item, PlanView

Kind = Literal["number", "count", "day", "result", "serial", "text"]
OUTCOMES: Mapping[str, Result] = {"passed": "PASSED", "warned": "WARNED", "failed": "FAILED"}
EARLIEST_ZONE = timedelta(hours=14)
"""How far a day begins before UTC where it begins first: UTC+14, Kiritimati (IANA time zone database)."""
RESULT = re.compile(r"(passed|failed|not applicable)\b", re.I)
DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}")
CALIBRATED_FOR = timedelta(days=731)
"""How long before the act an instrument may have been calibrated: two years. Practice of this suite, not from a standard."""
ROW = "row."
"""What the names of inputs begin with that are a row of the plan: `row.circuits.cb-r01-a`."""
ROWS = (("circuits", "circuit"), ("racks", "name"), ("placements", "device"))
"""Frames of the plan whose rows are about one asset, and the column that names it."""
EMPTY: tuple[object, ...] = (None, "", [], {})


@dataclass(frozen=True)
class Field:
    """What a field may say: its kind, whether it is a list or has one value for each asset; bounds of numbers in their unit."""

    kind: Kind
    many: bool = False
    per_asset: bool = False
    unit: str = ""
    least: float = -math.inf
    most: float = math.inf


@functools.cache
def fields() -> Mapping[str, Field]:
    """All fields by name."""
    data = yaml.safe_load((Path(__file__).parent / "forms.yaml").read_text(encoding="utf-8"))
    each = frozenset(data["per_asset"])
    found: dict[str, Field] = {}
    for name, row in data["numbers"].items():
        found[name] = Field(
            "number", row.get("list", False), name in each, row["unit"], float(row["least"]), float(row["most"])
        )
    for name, row in data["counts"].items():
        found[name] = Field("count", False, name in each, "", row["least"], row["most"])
    lists: Sequence[tuple[str, Kind, bool]] = (
        ("days", "day", False),
        ("day_lists", "day", True),
        ("results", "result", False),
        ("serials", "serial", False),
        ("serial_lists", "serial", True),
        ("texts", "text", False),
    )
    for key, kind, many in lists:
        found |= {name: Field(kind, many, name in each) for name in data[key]}
    return found


def day_of(value: object) -> date | None:
    """The day that a field states, None for what is none."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) and DAY.fullmatch(value) else None
    except ValueError:
        return None


def hint(name: str, subjects: Sequence[str]) -> str:
    """What a person is told of a field in an empty form."""
    field = fields().get(name)
    if field is None:
        return name.replace("_", " ")
    words = {
        "number": f"number in {field.unit}, {field.least:g} to {field.most:g}",
        "count": f"whole number from {field.least:g} on",
        "day": "YYYY-MM-DD",
        "result": "passed, failed or not applicable, and what was seen",
        "serial": "serial number as the label has it",
        "text": name.replace("_", " "),
    }
    told = f"list: {words[field.kind]}" if field.many else words[field.kind]
    return f"{told}, one for each: {{{subjects[0]}: , ...}}" if field.per_asset and len(subjects) > 1 else told


def began(site: Site) -> date | None:
    """The first day of a site: schedule.start_date, else that of its first quote; None where neither is known.

    `bringup attest` and the gate ask for it. A site that began earlier says so in schedule.start_date.
    """
    return site.schedule.start_date or min((lead.as_of for lead in site.leadtimes.values()), default=None)


def faults(item: Item, form: Mapping[str, Any], subjects: Sequence[str], first_day: date | None = None) -> list[str]:
    """What is wrong with the fields of a form that are filled in: one text each.

    ``first_day`` is that of the site: no act lies before it.
    """
    found: list[str] = []
    for name in (*item.form, *(extra for extra in ("calibration", "expiry") if extra in form)):
        field, value = fields().get(name), form.get(name)
        if field is None or value in EMPTY:
            continue
        for where, one in _values(name, field, value, subjects, found):
            if why := _wrong(field, one):
                found.append(f"{where} {str(one)[:60]!r} {why}")
    return [*dict.fromkeys(found), *_together(form, first_day)]


def unfounded(item: Item, form: Mapping[str, Any], site: Site) -> list[str]:
    """What a form lacks that its item and the site file ask of whoever fills it in: a role of the item, licence, calibration."""
    found = []
    role = form.get("role")
    if role not in (None, *item.signers):
        found.append(f"role is {role!r}; {item.id} is signed by {', '.join(item.signers)}")
    holder = site.attest.roles.get(str(role))
    if role and holder is None:
        found.append(f"the site file has no role {role!r} under attest.roles")
    if holder and holder.licence and form.get("licence") in EMPTY:
        found.append(f"licence is empty; the site file asks for it: {holder.licence}")
    if form.get("instrument") and form.get("calibration") in EMPTY:
        found.append("calibration of the instrument is empty")
    return found


def contradictions(form: Mapping[str, Any], result: Result, ended: datetime) -> list[str]:
    """What a form says against the record that it stands in: one text each.

    ``result`` is that of the record, ``ended`` the moment at which it was signed first: no act lies after it.
    """
    found = []
    if result_of(form) != result:
        found.append(f"its form says {str(form.get('outcome'))[:60]!r}, its result {result}")
    act = day_of(form.get("date"))
    if act and ahead(act, ended):
        found.append(f"date {act} lies after the signature of {ended:%Y-%m-%d}")
    return found


def result_of(form: Mapping[str, Any]) -> Result | None:
    """The result that the outcome of a form means, None for what is no outcome."""
    outcome = form.get("outcome")
    return OUTCOMES.get(outcome) if isinstance(outcome, str) else None


def ahead(day: date, now: datetime) -> bool:
    """Whether a day has begun nowhere on Earth at a moment."""
    return day > (now.astimezone(UTC) + EARLIEST_ZONE).date()


def _values(
    name: str, field: Field, value: object, subjects: Sequence[str], found: list[str]
) -> Iterator[tuple[str, object]]:
    """Each single value of a field, with the place where it stands."""
    by_asset: Iterable[tuple[str, object]] = ((name, value),)
    if field.per_asset and (len(subjects) > 1 or isinstance(value, Mapping)):
        if not isinstance(value, Mapping) or set(map(str, value)) != set(subjects):
            found.append(
                f"{name}: expected one value for each of {', '.join(subjects[:5])}: {{{subjects[0]}: ..., ...}}"
            )
            return
        by_asset = ((f"{name} of {asset}", one) for asset, one in value.items())
    for where, one in by_asset:
        if field.many and isinstance(one, list):
            yield from ((where, each) for each in one)
        else:
            yield where, one


def _wrong(field: Field, value: object) -> str:
    """Why a single value is none of its field, '' if it is."""
    if field.kind in ("number", "count"):
        whole = type(value) is int
        unit = f" {field.unit}" if field.unit else ""
        expected = f"expected a number{' in' + unit if unit else ''}, {field.least:g} to {field.most:g}"
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # NaN differs from itself
            return expected
        if field.kind == "count" and not whole:
            return f"expected a whole number from {field.least:g} on"
        return "" if field.least <= value <= field.most else f"is outside {field.least:g} to {field.most:g}{unit}"
    if field.kind == "day":
        return "" if day_of(value) else "is not a date of the form YYYY-MM-DD"
    if field.kind == "result":
        told = isinstance(value, str) and RESULT.match(value) is not None
        return "" if told else "does not begin with passed, failed or not applicable"
    if field.kind == "serial":
        if isinstance(value, int):
            return "expected a serial number in quotes: YAML reads it as a number, and drops leading zeros"
        return (
            "" if isinstance(value, str) and SERIAL.fullmatch(value) else "expected a serial number as the label has it"
        )
    lines = value if isinstance(value, list) else list(value.values()) if isinstance(value, Mapping) else [value]
    good = all(isinstance(one, str | int | float | date) and str(one).strip() for one in lines)
    return "" if good and all(str(one).isprintable() for one in lines) else "expected one line of printable text"


def _together(form: Mapping[str, Any], first_day: date | None) -> list[str]:
    """What fields say against each other."""
    found = []
    act, calibrated, expiry = (day_of(form.get(name)) for name in ("date", "calibration", "expiry"))
    if act and first_day and act < first_day:
        found.append(
            f"date {act} lies before the first day of the site, {first_day}. Fix: the right date, or an earlier schedule.start_date"
        )
    if act and calibrated and calibrated > act:
        found.append(f"calibration {calibrated} lies after the act on {act}")
    if act and calibrated and act - calibrated > CALIBRATED_FOR:
        found.append(f"calibration {calibrated} is more than {CALIBRATED_FOR.days} days before the act on {act}")
    if act and expiry and expiry < act:
        found.append(f"expiry {expiry} lies before the act on {act}")
    bad = [
        name
        for name, field in fields().items()
        if field.kind == "result" and str(form.get(name, "")).casefold().startswith("failed")
    ]
    if bad and result_of(form) in ("PASSED", "WARNED"):
        found.append(f"outcome is {form['outcome']}, and {', '.join(bad)} failed")
    numbers = {name: form.get(name) for name in ("drop_kpa", "pressure_kpa", "mismatches", "sample_size")}
    for less, more in (("drop_kpa", "pressure_kpa"), ("mismatches", "sample_size")):
        one, other = numbers[less], numbers[more]
        if isinstance(one, int | float) and isinstance(other, int | float) and one > other:
            found.append(f"{less} {one} is more than {more} {other}")
    return found


def of_subject(form: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """A form with the values of one asset."""
    return {
        name: value[subject]
        if (field := fields().get(name)) and field.per_asset and isinstance(value, Mapping) and subject in value
        else value
        for name, value in form.items()
    }


# -- comparison with plan, site file and asset list ------------------------------------------------------------------------
Compare = Callable[[Any, str, PlanView, Collection[str]], str]
"""(value, subject, plan, identifiers of the subject) -> what it should be, '' where it is or nothing is known."""


def _breaker(value: Any, subject: str, plan: PlanView, known: Collection[str]) -> str:
    wanted = _cell(plan, "circuits", "circuit", subject, "breaker_a")
    return "" if wanted is None or float(value) == float(wanted) else f"the plan has a breaker of {wanted:g} A"


def _unit(value: Any, subject: str, plan: PlanView, known: Collection[str]) -> str:
    wanted = _cell(plan, "placements", "device", subject, "u_bottom")
    return "" if wanted is None or int(value) == int(wanted) else f"the plan places it at U{int(wanted)}"


def _listed(value: Any, subject: str, plan: PlanView, known: Collection[str]) -> str:
    good = not known or str(value).casefold() in {one.casefold() for one in known}
    return "" if good else "assets.csv does not list it for this device"


def _autonomy(value: Any, subject: str, plan: PlanView, known: Collection[str]) -> str:
    wanted = plan.site.ups.autonomy_min
    return "" if value >= wanted else f"ups.autonomy_min of the site file is {wanted:g} min"


def _margin(value: Any, subject: str, plan: PlanView, known: Collection[str]) -> str:
    wanted = plan.site.ups.margin_s
    return "" if value >= wanted else f"ups.margin_s of the site file is {wanted:g} s"


def _start(value: Any, subject: str, plan: PlanView, known: Collection[str]) -> str:
    wanted = plan.site.generator.start_s
    return "" if wanted is None or value <= wanted else f"generator.start_s of the site file is {wanted:g} s"


COMPARED: Mapping[tuple[str, str], Compare] = {
    ("S013.attested", "chassis_serial"): _listed,
    ("S015.attested", "chassis_serial"): _listed,
    ("S049.attested", "serial"): _listed,
    ("S049.attested", "rack_unit"): _unit,
    ("S050.attested", "serial"): _listed,
    ("S050.attested", "rack_unit"): _unit,
    ("S078.attested", "autonomy_min"): _autonomy,
    ("S081.attested", "start_s"): _start,
    ("S081.attested", "ride_through_margin_s"): _margin,
    ("S085.attested", "rating_a"): _breaker,
}
"""Readings of a passed form that the plan, the site file or the asset list states."""


def off_plan(
    item: Item,
    form: Mapping[str, Any],
    subjects: Sequence[str],
    plan: PlanView,
    known: Mapping[str, Collection[str]],
) -> list[str]:
    """Readings of a form that has no `faults` which are others than planned or listed; a failed form is not compared."""
    if result_of(form) not in ("PASSED", "WARNED"):
        return []
    found = []
    for subject in subjects:
        own = of_subject(form, subject)
        for name in item.form:
            compare = COMPARED.get((item.id, name))
            if compare and (why := compare(own[name], subject, plan, known.get(subject, ()))):
                found.append(f"{name} of {subject} is {own[name]}, and {why}")
    return found


def _cell(plan: PlanView, frame: str, column: str, subject: str, wanted: str) -> Any:
    rows = getattr(plan, frame, None)
    if rows is None or wanted not in rows:
        return None
    found = rows.loc[rows[column] == subject, wanted]
    return None if found.empty else found.iloc[0]


def rows(plan: PlanView, subject: str) -> dict[str, str]:
    """By input name, the SHA-256 of each row of the plan that is about one asset: its circuit, its rack, its place."""
    return RowsOfAssets(plan).of(subject)


class RowsOfAssets:
    """`rows` of many assets: each frame is searched once for all of them."""

    def __init__(self, plan: PlanView) -> None:
        self._plan = plan
        self._known: dict[str, dict[str, str]] = {}

    def of(self, subject: str) -> dict[str, str]:
        """As `rows`."""
        if subject not in self._known:
            self._known[subject] = {
                f"{ROW}{frame}.{subject}": _row_hash(table.iloc[positions[subject]])
                for frame, table, positions in self._searched
                if subject in positions
            }
        return self._known[subject]

    @functools.cached_property
    def _searched(self) -> list[tuple[str, pd.DataFrame, Mapping[Any, npt.NDArray[np.intp]]]]:
        """Each frame with the positions of its rows by asset."""
        tables = ((frame, column, getattr(self._plan, frame, None)) for frame, column in ROWS)
        return [
            (frame, table, table.groupby(column, sort=False).indices)
            for frame, column, table in tables
            if table is not None and column in table
        ]


def _row_hash(mine: pd.DataFrame) -> str:
    # Six decimals, as frame_hash of capacity.model: the last bit of an addition is no change of the plan.
    data = json.dumps(mine.round(6).to_dict("records"), sort_keys=True, default=str).encode()
    return hashlib.sha256(data).hexdigest()
