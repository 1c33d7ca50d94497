"""The dependency groups of the commissioning steps: what has to be done before what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "D00": ("decisions and models", ()),
    "D01": ("long-lead commitments", ("D00",)),
    "D02": ("facility design detail", ("D00",)),
    "D03": ("facility build and safety", ("D01", "D02")),
    "D04": ("receive, assemble, rack, cable", ("D01", "D02")),
    "D05": ("management plane", ("D03", "D04")),
    "D06": ("node base stack", ("D05",)),
    "D07": ("fabric bring-up", ("D05",)),
    "D08": ("telemetry", ("D05",)),
    "D09": ("node acceptance", ("D03", "D06", "D08")),
    "D10": ("storage bring-up", ("D06", "D07")),
    "D11": ("fabric acceptance", ("D07", "D09")),
    "D12": ("scheduler and user services", ("D06", "D10")),
    "D13": ("cluster acceptance", ("D11", "D12")),
    "D14": ("readiness and go-live", ("D13",)),
}
"""Name of each dependency group and the groups before it; validation/steps.yaml holds the steps of each."""

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
    for group, (_, before) in GROUPS.items():
        whole = (n for n, o in orders.items() if o.group == group and not o.tranche)
        parts = (n for n, o in orders.items() if o.group == group and o.tranche)
        nodes[f"{group} start"] = (*(f"{g} done" for g in before), *whole)
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
