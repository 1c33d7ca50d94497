"""GUIDs of a discovered fabric as lines of assets.csv, with what is not proven as findings. Pure: plan, discovery and list in.

    imported(plan, parse.discovery(text), assets)   -> Imported, whose file is assets.csv with the proven GUIDs

What the list has stays. A switch or adapter that it does not have yet gets a line with its GUID and without a serial.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pandas as pd

from inventory.delivered.assets import ASSETS_FILE, COLUMNS
from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.tables import csv_text
from network.infiniband import wire
from network.infiniband.binding import MARGIN, Binding, Choice, bind
from network.infiniband.parse import Discovery
from network.infiniband.subnet import guid_book


class Plan(wire.Plan, Protocol):
    """What is needed beside names and cables: where each device stands."""

    @property
    def placements(self) -> pd.DataFrame: ...


def imported(plan: Plan, found: Discovery, assets: pd.DataFrame) -> Imported:
    """The list with the GUIDs that the cables prove. ValueError for a plan without InfiniBand switches."""
    if plan.site.fabric.kind != "ib":
        raise ValueError("the plan has no InfiniBand switches: there are no GUIDs to bind")
    made = bind(plan, found, guid_book(assets))
    proven = {name: guid for guid, name in {**made.switches, **made.adapters}.items()}
    table = assets.reset_index().reindex(columns=list(COLUMNS), fill_value="")
    book: dict[str, dict[Any, str]] = {str(row["device"]): row for row in table.to_dict("records")}
    new = 0
    for name, guid in sorted(proven.items()):
        row = book.setdefault(name, dict.fromkeys(COLUMNS, "") | {"device": name})
        new += not row["guid"]
        row["guid"] = guid
    places = _places(plan)
    rows = pd.DataFrame(
        [(name, *places.get(name.partition(":")[0], ("", 0)), guid) for name, guid in sorted(proven.items())],
        columns=["device", "rack", "u", "guid"],
    )
    nodes = found.nodes["kind"].isin(["switch", "adapter"]).sum()
    summary = f"{nodes} switches and adapters, {len(proven)} bound by cables or listed, {new} GUIDs are new"
    files = {ASSETS_FILE: csv_text(pd.DataFrame(list(book.values()), columns=list(COLUMNS)))} if new else {}
    return Imported(rows, summary, tuple(_findings(made, places)), files)


def _places(plan: Plan) -> dict[str, tuple[str, int]]:
    """{device: (rack, lowest U)}."""
    columns = ["device", "rack", "u_bottom"]
    return {
        str(name): (str(rack), int(u)) for name, rack, u in plan.placements[columns].itertuples(index=False, name=None)
    }


def _findings(made: Binding, places: Mapping[str, tuple[str, int]]) -> Iterable[Finding]:
    groups: dict[tuple[str, ...], list[Choice]] = defaultdict(list)
    for choice in made.choices:
        groups[choice.places].append(choice)
    for names, choices in sorted(groups.items()):
        yield _choice(names, choices, places)
    if made.few:
        words = {"names": some(sorted(made.few.values())), "needed": MARGIN}
        fixes = [remedy(fix="cables"), remedy(fix="label-one", place=_at(min(made.few.values()), places))]
        yield finding(
            "IMPORT-GUID-CHOICE", ASSETS_FILE, case="few", words=words, remedies=fixes, switches=len(made.few)
        )
    if made.single:
        hosts = {end.rpartition(":")[0] for end in made.single.values()}
        words = {"names": some(sorted(made.single.values())), "needed": MARGIN}
        yield finding(
            "IMPORT-GUID-CHOICE",
            ASSETS_FILE,
            case="adapters",
            words=words,
            remedies=[remedy(fix="names", hosts=len(hosts))],
            adapters=len(made.single),
        )
    devices = [row for row in made.against if _names_the_host(row[2], row[1])]
    if len(devices) >= MARGIN:
        words = {"names": some(f"{said} at {place}" for _, place, said, _ in devices)}
        yield finding(
            "IMPORT-GUID-AGAINST",
            ASSETS_FILE,
            case="devices",
            words=words,
            remedies=[remedy(fix="catalogue"), remedy(fix="look-devices", place=_at(devices[0][1], places))],
            adapters=len(devices),
        )
    else:
        devices = []
    for guid, place, said, kind in [row for row in made.against if row not in devices]:
        fixes = [remedy(fix="look", place=_at(place, places)), *([remedy(fix="list")] if kind == "list" else [])]
        words = {"guid": guid, "place": place, "said": said}
        yield finding("IMPORT-GUID-AGAINST", place.partition(":")[0], case=kind, words=words, remedies=fixes)


def _names_the_host(said: str, place: str) -> bool:
    """Whether a description names another port of the host at whose place its adapter is."""
    found = wire.ADAPTER_LABEL.match(said)
    host = place.rpartition(":")[0]
    return bool(host) and found is not None and bool(found["device"]) and found["host"].partition(".")[0] == host


def _choice(names: Sequence[str], choices: Sequence[Choice], places: Mapping[str, tuple[str, int]]) -> Finding:
    """One finding for all parts that fit the same places, with the cheapest way to tell them apart.

    Each part hangs on one switch, so one label each tells, and the last of as many parts as places is what is left.
    """
    switches = [guid for choice in choices for guid in choice.guids]
    firsts = [choice.guids[0] for choice in choices]
    labels = max(1, len(choices) - (len(choices) == len(names)))
    fixes = (
        [remedy(fix="label-one" if labels == 1 else "labels", place=_at(names[0], places), labels=labels)]
        if names
        else []
    )
    return finding(
        "IMPORT-GUID-CHOICE",
        ASSETS_FILE,
        case="switches" if names else "nowhere",
        words={"guids": some(firsts), "names": some(names)},
        remedies=[*fixes, remedy(fix="cables")] if names else [remedy(fix="site")],
        switches=len(switches),
        parts=len(choices),
    )


def _at(name: str, places: Mapping[str, tuple[str, int]]) -> str:
    """'ibl001 (r03 U40)'."""
    rack, u = places.get(name.partition(":")[0], ("", 0))
    return f"{name} ({rack} U{u})" if rack else name
