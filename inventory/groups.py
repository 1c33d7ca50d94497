"""The dependency groups of the commissioning steps: what has to be done before what."""

from collections.abc import Iterable, Mapping
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
"""Name of each dependency group and the groups before it: requirements section 5; validation/steps.yaml holds the steps of each."""

DELIVERED_TO: Mapping[str, str] = {
    "facility": "D03", "transformer": "D03", "switchgear": "D03", "generator": "D03", "ups": "D03", "cooling": "D03",
    "gpu": "D04", "server": "D04", "switch": "D04", "optics": "D04", "rack": "D04", "pdu": "D04", "storage": "D10",
}  # fmt: skip
"""The group that cannot start without what was ordered. Storage servers are racked with the rest, but only D10 needs them."""


def waits(
    activities: Mapping[str, tuple[str, Iterable[str]]], orders: Iterable[str], delivered_to: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """What each node of a schedule waits for: the start and the end of each group, its activities, and what is ordered.

    `activities` maps a name to its group and to what it comes after; `orders` are placed after D00 and arrive before the
    start of the group that `delivered_to` names.
    """
    nodes: dict[str, tuple[str, ...]] = dict.fromkeys(orders, ("D00 done",))
    nodes |= {name: (f"{group} start", *after) for name, (group, after) in activities.items()}
    for group, (_, before) in GROUPS.items():
        arrives = (item for item in nodes if delivered_to.get(item) == group and item not in activities)
        nodes[f"{group} start"] = (*(f"{g} done" for g in before), *arrives)
        nodes[f"{group} done"] = (f"{group} start", *(name for name, (g, _) in activities.items() if g == group))
    return nodes


def cycle(nodes: Mapping[str, Iterable[str]]) -> list[str]:
    """Nodes that wait for each other, each for the next one, the first again at the end; [] where there are none."""
    try:
        TopologicalSorter(nodes).prepare()
    except CycleError as error:
        found: list[str] = list(reversed(error.args[1]))
        return found
    return []
