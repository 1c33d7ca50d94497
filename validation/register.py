"""The step register: what has to be proven, for which assets, by which kind of evidence (``steps.yaml``).

    register = load_register()                      # the 195 steps, of every site
    register = register_for(site)                   # and the platform's, on a site with Kubernetes (``platform_steps.yaml``)
    register.items["S034.measured"]                 # one evidence item: a step and a kind
    register.subjects(item, plan)                   # the assets that need evidence for it
    register.not_applicable(item, site)             # why it does not apply to a site, or None

Pure: reads only these two files, once. The groups of steps are those of inventory/groups.yaml.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.findings import Finding
from inventory.groups import GROUPS, Group
from inventory.site import Site
from inventory.site.sections.acceptance import known_limits
from inventory.yaml_data import read_data
from validation.evidence.record import KINDS, Kind

STEPS_FILE = Path(__file__).parent / "steps.yaml"
PLATFORM_FILE = STEPS_FILE.with_name("platform_steps.yaml")
PLATFORM = "P-"
"""How ids of the platform's steps begin. They are counted apart from those of ``steps.yaml``."""
WITHOUT_NODES = (("computed", "generated"), ("capacity", "inventory"))
"""Kinds of items, and folders of their steps, that the plan alone answers."""
ANY = "any"
MUST = ("at least", "at most", "below", "equal")
SAFETY_ROLE = "safety-officer"


class RegisterError(Exception):
    """``steps.yaml`` contradicts itself; the message names the step or item."""


class PlanView(Protocol):
    """What the register and the gate need of a plan (``capacity.build.Plan`` has it)."""

    @property
    def site(self) -> Site: ...
    @property
    def findings(self) -> Sequence[Finding]: ...
    @property
    def hash(self) -> str: ...
    @property
    def hashes(self) -> Mapping[str, str]: ...
    @property
    def devices(self) -> pd.DataFrame: ...
    @property
    def racks(self) -> pd.DataFrame: ...
    @property
    def circuits(self) -> pd.DataFrame: ...


@dataclass(frozen=True)
class Condition:
    """One way for a step to apply: the site's ``key`` has one of ``values`` (empty: any value at all), and ``also`` holds."""

    key: str
    values: tuple[object, ...]
    also: "Condition | None" = None


@dataclass(frozen=True)
class Selector:
    """Rows of a plan frame whose columns have one of the listed values, named by ``column``; no frame: the site. Where no
    row has them, the rows of ``otherwise``. Nothing where fewer than ``least`` are named, or on a site where ``when`` does not
    hold.
    """

    frame: str | None
    where: Mapping[str, tuple[str, ...]]
    column: str
    otherwise: Mapping[str, tuple[str, ...]]
    when: Condition | None = None
    least: int = 0


@dataclass(frozen=True)
class Floor:
    """A minimum that a site may only raise, by its limit ``site_limit``.

    ``quantity``  ``duration_h`` (how long the run took, hours) or ``value`` (the record's value, in ``unit``)
    """

    quantity: str
    minimum: float
    unit: str
    site_limit: str
    source: str


@dataclass(frozen=True)
class LimitFloor:
    """A bound that a step states for a limit of the site: ``least`` or ``most``, the other one is None."""

    site_limit: str
    least: float | None
    most: float | None
    unit: str
    source: str

    def holds(self, value: float) -> bool:
        """Whether a site may judge by this value."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


@dataclass(frozen=True)
class Judged:
    """The numbers of a record that its check compares with a limit, so that the gate compares them again (rejudge.py).

    ``values``     paths into the record's value: keys with dots between, ``*`` for each part, '' for the value itself
    ``must``       ``at least``, ``at most``, ``below`` or ``equal``
    ``limits``     sources of the limit, one of which a record must name: ``site limits.KEY``, ``site KEY``, ``plan NAME`` for
                   one that plan and catalogue give (from_raw.py), or the step
    ``constants``  limits that the step itself states, by that source
    """

    values: tuple[str, ...]
    must: str
    limits: tuple[str, ...]
    constants: Mapping[str, float]


@dataclass(frozen=True)
class FewerChannels:
    """Devices, picked by a selector, that cannot show three independent channels: ``because`` of what, and the ``proof`` that they
    get instead, which the ``items`` hold.
    """

    select: str
    because: str
    proof: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One commissioning step. ``title_on`` has its title on sites where another condition of ``applies`` holds."""

    id: str
    title: str
    phase: str
    folder: str
    applies: str
    group: str
    title_on: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """One evidence item: a step and a kind of evidence.

    ``subjects``         selectors whose assets each need evidence
    ``signers``          for attested items: roles that must sign, each with another person's key
    ``form``             for attested items: fields that the form must hold
    ``max_age_days``     None: fresh until an input changes
    ``closes_later``     the device-side half of a planned or physical step, not a prerequisite of later groups
    ``lab_exercisable``  whether the embedded lab can exercise it in a rehearsal; ``lab_reason`` says why not
    ``lab_subjects``     the part of ``subjects`` that the lab can exercise (empty: all), ``lab_reason`` why only these
    ``limits``           what the step states about limits of the site: evidence that a laxer one judged counts for no go-live
    ``partial``          the part of its step that its check does not cover, so that it counts for no go-live; '' for none
    ``judged``           the number and the limit that the gate compares again; None: its check compares none, or several
    """

    id: str
    step: str
    kind: Kind
    group: str
    subjects: tuple[str, ...]
    signers: tuple[str, ...]
    form: tuple[str, ...]
    max_age_days: float | None
    floor: Floor | None
    closes_later: bool
    waivable: bool
    lab_exercisable: bool
    lab_reason: str
    lab_subjects: tuple[str, ...]
    partial: str = ""
    limits: tuple[LimitFloor, ...] = ()
    judged: Judged | None = None

    def signers_on(self, site: Site) -> tuple[str, ...]:
        """Roles whose signatures the item needs on a site, each by another key.

        A safety item, which the safety officer signs, needs a role twice where the site asks for its second signer.
        """
        roles = site.attest.roles
        twice = {role for role in self.signers if role in roles and roles[role].second_signer}
        return tuple(
            role for role in self.signers for _ in range(2 if role in twice and SAFETY_ROLE in self.signers else 1)
        )


@dataclass(frozen=True)
class Register:
    """All of ``steps.yaml``, checked; with all of ``platform_steps.yaml`` on a site that has Kubernetes."""

    steps: Mapping[str, Step]
    items: Mapping[str, Item]
    groups: Mapping[str, Group]
    applies: Mapping[str, tuple[Condition, ...]]
    selectors: Mapping[str, Selector]
    roles: Mapping[str, str]
    phases: Mapping[str, str]
    fewer_channels: tuple[FewerChannels, ...] = ()

    def planned(self, item: Item) -> bool:
        """Whether the plan alone answers an item, without facts from devices."""
        kinds, folders = WITHOUT_NODES
        return item.kind in kinds and self.steps[item.step].folder in folders

    def exercised_items(self) -> frozenset[str]:
        """Ids of the items that a rehearsal on the embedded lab judges; each needs a check that claims it."""
        return frozenset(item.id for item in self.items.values() if item.lab_exercisable)

    def subjects(
        self, item: Item, plan: PlanView, *, lab: bool = False, selected: Mapping[str, list[str]] | None = None
    ) -> list[str]:
        """Names of the assets that need evidence for the item, in plan order; ``lab``: only those the lab can exercise.

        An empty list means that the plan has no such asset. ``selected`` is ``select_all(plan)``, for many items.
        """
        names = item.lab_subjects if lab and item.lab_subjects else item.subjects
        found = selected if selected is not None else {n: _select(self.selectors[n], plan) for n in names}
        return list(dict.fromkeys(name for selector in names for name in found[selector]))

    def select_all(self, plan: PlanView) -> dict[str, list[str]]:
        """The assets that each selector picks from a plan."""
        return {name: _select(selector, plan) for name, selector in self.selectors.items()}

    def select(self, selector: str, plan: PlanView) -> list[str]:
        """Names of the assets that one selector picks from the plan; KeyError for an unknown selector."""
        return _select(self.selectors[selector], plan)

    def title(self, item: Item, site: Site) -> str:
        """The title of an item's step in the words of this site: a RoCE site has no UFM."""
        step = self.steps[item.step]
        said = (step.title_on[name] for name in step.title_on if any(_holds(one, site) for one in self.applies[name]))
        return next(said, step.title)

    def not_applicable(self, item: Item, site: Site) -> str | None:
        """Why the item does not apply to the site, naming the site key that causes it; None if it does."""
        conditions = self.applies[self.steps[item.step].applies]
        if not conditions or any(_holds(condition, site) for condition in conditions):
            return None
        first = conditions[0]
        while first.also and _fits(first, site):
            first = first.also
        wanted = " or ".join(_yaml(value) for value in first.values) or "set"
        found = site_value(site, first.key)
        return f"site key {first.key} is {'not set' if found is None else _yaml(found)}, the step needs {wanted}"


def parse_register(data: Mapping[str, Any]) -> Register:
    """The register of parsed YAML. RegisterError for an unknown group, selector, role, key or kind."""
    applies = {name: tuple(_condition(c) for c in conditions) for name, conditions in data["applies"].items()}
    selectors = {
        name: Selector(
            s.get("frame"),
            _values(s, "where"),
            s.get("column", ""),
            _values(s, "otherwise"),
            _condition(s["when"]) if "when" in s else None,
            int(s.get("least", 0)),
        )
        for name, s in data["selectors"].items()
    }
    steps: dict[str, Step] = {}
    items: dict[str, Item] = {}
    for raw in data["steps"]:
        step = Step(
            str(raw["id"]),
            str(raw["title"]),
            str(raw["phase"]),
            str(raw["folder"]),
            str(raw["applies"]),
            str(raw["group"]),
            dict(raw.get("title_on", {})),
        )
        if step.id in steps:
            raise RegisterError(f"step {step.id} is listed twice")
        _known([step.group], GROUPS, f"step {step.id}: group")
        _known([step.phase], data["phases"], f"step {step.id}: phase")
        _known([step.applies], applies, f"step {step.id}: applies")
        _known(step.title_on, applies, f"step {step.id}: title_on")
        steps[step.id] = step
        for position, entry in enumerate(raw["items"]):
            item = _item(data, step, position, entry)
            _known((*item.subjects, *item.lab_subjects), selectors, f"item {item.id}: subjects")
            _known(item.signers, data["roles"], f"item {item.id}: signers")
            if item.id in items:
                raise RegisterError(f"item {item.id} is listed twice")
            items[item.id] = item
    _known(data["not_waivable"], steps, "not_waivable")
    fewer = tuple(_fewer_channels(one, selectors, items) for one in data.get("fewer_channels", ()))
    return Register(steps, items, GROUPS, applies, selectors, data["roles"], data["phases"], fewer)


def _fewer_channels(
    data: Mapping[str, Any], selectors: Mapping[str, Selector], items: Mapping[str, Item]
) -> FewerChannels:
    if set(data) != {"select", "because", "proof", "items"}:
        raise RegisterError("each of fewer_channels has the keys select, because, proof and items")
    _known([data["select"]], selectors, "fewer_channels: select")
    _known(data["items"], items, f"fewer_channels {data['select']}: items")
    return FewerChannels(data["select"], str(data["because"]), str(data["proof"]), tuple(data["items"]))


def _item(data: Mapping[str, Any], step: Step, position: int, entry: Mapping[str, Any]) -> Item:
    group, kind = GROUPS[step.group], entry["kind"]
    if kind not in KINDS or entry["id"] != f"{step.id}.{kind}":
        raise RegisterError(f"item {entry['id']} of step {step.id} has the kind {kind!r}")
    unknown = set(entry) - {
        "id",
        "kind",
        "subjects",
        "signers",
        "form",
        "max_age_days",
        "floor",
        "limits",
        "lab_exercisable",
        "lab_subjects",
        "partial",
        "judged",
    }
    if unknown:
        raise RegisterError(f"item {entry['id']}: unknown keys {', '.join(sorted(unknown))}")
    if (kind == "attested") != bool(entry.get("signers")):
        raise RegisterError(f"item {entry['id']}: attested items, and only they, name their signers")
    lab = entry["lab_exercisable"]
    subset = entry.get("lab_subjects", {})
    reason = subset.get("reason", "") if lab is True else lab["reason"]
    if (lab is not True or subset) and not reason:
        raise RegisterError(f"item {entry['id']}: what the lab cannot exercise needs a reason")
    partial = entry.get("partial", "")
    if "partial" in entry and (not isinstance(partial, str) or not partial.strip()):
        raise RegisterError(f"item {entry['id']}: partial names the part of the step that its check does not cover")
    floor = entry.get("floor")
    return Item(
        id=entry["id"],
        step=step.id,
        kind=kind,
        group=step.group,
        subjects=_listed(entry["subjects"]),
        signers=tuple(entry.get("signers", ())),
        form=(*data["form"], *entry.get("form", ())) if kind == "attested" else (),
        max_age_days=entry.get("max_age_days", data["max_age_days"][kind]),
        floor=floor
        and Floor(floor["quantity"], float(floor["min"]), floor.get("unit", "h"), floor["site_limit"], floor["source"]),
        closes_later=group.halves_later and position > 0 and kind in ("applied", "measured", "observed"),
        waivable=step.id not in data["not_waivable"] and floor is None,
        lab_exercisable=lab is True,
        lab_reason=reason,
        lab_subjects=_listed(subset.get("select", ())),
        partial=partial,
        limits=tuple(_limit_floor(entry["id"], one) for one in entry.get("limits", ())),
        judged=_judged(entry["judged"], step.id, entry["id"]) if "judged" in entry else None,
    )


def _limit_floor(item: str, given: Mapping[str, Any]) -> LimitFloor:
    key, bounds = str(given["limit"]), set(given) & {"min", "max"}
    if len(bounds) != 1 or set(given) - bounds != {"limit", "source"}:
        raise RegisterError(f"item {item}: each of limits has the keys limit, source, and either min or max")
    if key not in known_limits():
        raise RegisterError(f"item {item}: limits name {key!r}, which inventory/limits.yaml does not have")
    least, most = (float(given[name]) if name in given else None for name in ("min", "max"))
    return LimitFloor(key, least, most, str(known_limits()[key]["unit"]), str(given["source"]))


def _judged(data: Mapping[str, Any], step: str, item: str) -> Judged:
    """The `judged` of an item; RegisterError for an unknown key, comparison or source."""
    _known(data, ("value", "must", "limit"), f"item {item}: judged")
    _known([data["must"]], MUST, f"item {item}: judged.must")
    given = data["limit"]
    constants = {step: float(given)} if isinstance(given, int | float) else {}
    sources = (step,) if constants else _listed(given)
    if odd := [one for one in sources if one != step and not one.startswith(("site ", "plan "))]:
        raise RegisterError(
            f"item {item}: judged.limit {', '.join(odd)} is neither 'site KEY', 'plan NAME' nor a number"
        )
    return Judged(_listed(data["value"]), data["must"], sources, constants)


def of_platform(step_or_item: str) -> bool:
    """Whether a step or item is one of the platform's."""
    return step_or_item.startswith(PLATFORM)


@functools.cache
def load_register(*, platform: bool = False) -> Register:
    """The shipped register; with the platform's steps after the others where these apply."""
    data = read_data(STEPS_FILE)
    if platform:
        more = read_data(PLATFORM_FILE)
        data = {**data, **{key: {**data[key], **more[key]} for key in ("applies", "phases")}}
        data["steps"] = [*(_on_platform(step, more["others"]) for step in data["steps"]), *more["steps"]]
    return parse_register(data)


def _on_platform(step: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """A step of ``steps.yaml`` with what the platform's file says of its items."""
    return {**step, "items": [{**item, **others.get(item["id"], {})} for item in step["items"]]}


def register_for(site: Site) -> Register:
    """The shipped register of a site."""
    return load_register(platform=site.scheduler.kind == "kubernetes")


def exercised_items() -> frozenset[str]:
    """Ids of the shipped register's items that the embedded lab exercises."""
    return load_register().exercised_items()


def _select(selector: Selector, plan: PlanView) -> list[str]:
    if selector.when and not _holds(selector.when, plan.site):
        return []
    if selector.frame is None:
        return [plan.site.name]
    frame: pd.DataFrame = getattr(plan, selector.frame)
    rows = _rows(frame, selector.where)
    if not rows.any() and selector.otherwise:
        rows = _rows(frame, selector.otherwise)
    names = [str(name) for name in frame[selector.column][rows].unique()]
    return names if len(names) >= selector.least else []


def _rows(frame: pd.DataFrame, where: Mapping[str, tuple[str, ...]]) -> npt.NDArray[np.bool_]:
    """Which rows have one of the values in each of the columns. No column but these is touched: a gate asks dozens of times."""
    rows = np.ones(len(frame), dtype=np.bool_)
    for column, values in where.items():
        rows &= frame[column].isin(values).to_numpy(dtype=np.bool_)
    return rows


def _values(selector: Mapping[str, Any], key: str) -> dict[str, tuple[str, ...]]:
    return {column: tuple(values) for column, values in selector.get(key, {}).items()}


def _condition(data: Mapping[str, Any]) -> Condition:
    also = _condition(data["and"]) if "and" in data else None
    return Condition(data["key"], () if data["is"] == ANY else tuple(data["is"]), also)


def _holds(condition: Condition, site: Site) -> bool:
    return _fits(condition, site) and (condition.also is None or _holds(condition.also, site))


def _fits(condition: Condition, site: Site) -> bool:
    found = site_value(site, condition.key)
    return found is not None and (not condition.values or found in condition.values)


def site_value(site: object, key: str) -> object:
    """The value of a dotted site key such as ``fabric.kind``; None where a part of the path is not set."""
    found: object = site
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
        if found is None:
            return None
    return found


@functools.lru_cache(maxsize=65536)
def natural(name: str) -> tuple[object, ...]:
    """Sort key that puts ``leaf2`` before ``leaf10``."""
    parts = re.split(r"(\d+)", name)  # digits at odd places; as texts, for int() refuses thousands of them
    return tuple((len(part.lstrip("0")), part.lstrip("0")) if at % 2 else part for at, part in enumerate(parts))


def _listed(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _known(names: Iterable[str], known: Iterable[str], place: str) -> None:
    if missing := [name for name in names if name not in known]:
        raise RegisterError(f"{place}: unknown {', '.join(missing)}")


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
