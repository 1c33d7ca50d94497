"""The dependency groups of the commissioning steps: what has to be done before what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import MappingProxyType

import yaml

from inventory.yaml_data import LOADER

GROUPS_FILE = Path(__file__).with_name("groups.yaml")


@dataclass(frozen=True)
class Group:
    """A dependency group and the groups before it. ``halves_later``: device-side halves of its steps close in later groups."""

    id: str
    name: str
    after: tuple[str, ...]
    halves_later: bool


def read_groups(text: str) -> Mapping[str, Group]:
    """The groups of a YAML text by id, in its order. ValueError for a group after one that does not stand before it."""
    groups: dict[str, Group] = {}
    for id_, body in yaml.load(text, Loader=LOADER).items():
        group = Group(id_, body["name"], tuple(body["after"]), body.get("halves_later", False))
        if unknown := [name for name in group.after if name not in groups]:
            raise ValueError(f"group {id_}: {', '.join(unknown)} of `after` is no group that stands before it")
        groups[id_] = group
    return MappingProxyType(groups)


GROUPS = read_groups(GROUPS_FILE.read_text(encoding="utf-8"))
"""The fifteen groups of groups.yaml by id."""

DELIVERED_TO: Mapping[str, str] = {
    "facility": "D03",
    "transformer": "D03",
    "switchgear": "D03",
    "generator": "D03",
    "ups": "D03",
    "cooling": "D03",
    "gpu": "D04",
    "server": "D04",
    "switch": "D04",
    "optics": "D04",
    "rack": "D04",
    "pdu": "D04",
    "storage": "D10",
}
"""The group that cannot start without what was ordered. Storage servers are racked with the rest, but only D10 needs them."""


FACILITY_DONE = "D03 done"
ROOM = "D04 room"
"""The milestone that work of D04 in the room waits for: racking needs the room from D03, receiving and assembly do not."""
ROOM_GROUP = "D04"


@dataclass(frozen=True)
class Work:
    """An activity: its group, what else it comes after, whether it needs the room (D04), and the tranche that it works on."""

    group: str
    after: tuple[str, ...] = ()
    needs_room: bool = True
    tranche: str = ""


@dataclass(frozen=True)
class Order:
    """An order: the group that its delivery belongs to ('' for none), orders that have to arrive first, and its tranche."""

    group: str
    after: tuple[str, ...] = ()
    tranche: str = ""


def waits(activities: Mapping[str, Work], orders: Mapping[str, Order]) -> dict[str, tuple[str, ...]]:
    """What each node of a schedule waits for: the start and the end of each group, its activities, and what is ordered.

    Orders are placed after D00 and arrive before the group that they are delivered to; those of one tranche before the
    activities for that tranche and before all activities of the group that name none.
    """
    nodes: dict[str, tuple[str, ...]] = {name: ("D00 done", *order.after) for name, order in orders.items()}
    for name, work in activities.items():
        start = ROOM if work.group == ROOM_GROUP and work.needs_room else f"{work.group} start"
        parts = (
            n for n, o in orders.items() if o.group == work.group and o.tranche and work.tranche in ("", o.tranche)
        )
        nodes[name] = (start, *dict.fromkeys((*work.after, *parts)))
    for group in GROUPS:
        whole = (n for n, o in orders.items() if o.group == group and not o.tranche)
        parts = (n for n, o in orders.items() if o.group == group and o.tranche)
        nodes[f"{group} start"] = (*(f"{g} done" for g in GROUPS[group].after), *whole)
        own = (name for name, work in activities.items() if work.group == group)
        nodes[f"{group} done"] = (f"{group} start", *own, *parts)
    nodes[ROOM] = (f"{ROOM_GROUP} start", FACILITY_DONE)
    return nodes


def cycle(nodes: Mapping[str, Iterable[str]]) -> list[str]:
    """Nodes that wait for each other, each for the next one, the first again at the end; [] where there are none."""
    try:
        TopologicalSorter(nodes).prepare()
    except CycleError as error:
        found: list[str] = list(reversed(error.args[1]))
        return found
    return []
