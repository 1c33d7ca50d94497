"""Rack elevations.

In: the plan's `racks`, `placements`, `devices` and `circuits` frames. Out: SVG text and, for racks that hold the same things at
the same heights, one elevation with the list of racks that it stands for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from capacity.outputs.report import svg

U_PX = 11
RACK_PX = 168
GUTTER_PX = 26
PDU_PX = 9


@dataclass(frozen=True)
class Elevation:
    """One picture and the racks it shows. `nameplate_kw` and `mass_kg` are of one such rack (the heaviest)."""

    racks: tuple[str, ...]
    svg: str
    nameplate_kw: float
    measured_kw: float
    mass_kg: float
    used_u: int
    height_u: int


class Placed(NamedTuple):
    """One device in its rack; a rack PDU has no height. `note` is its role, of a power shelf its feed; `busbar` is -1
    for a device on no DC busbar.
    """

    device: str
    kind: str
    role: str
    model: str
    u_bottom: float
    u_height: float
    busbar: int
    note: str


def contents(
    devices: pd.DataFrame, placements: pd.DataFrame, racks: pd.DataFrame, circuits: pd.DataFrame
) -> dict[str, list[Placed]]:
    """Contents of each rack, from the bottom up."""
    known = devices[["name", "kind", "role", "model", "busbar"]]
    feed = "feed " + known["name"].map(circuits.set_index("pdu")["feed"])
    known = known.assign(note=known["role"].where(known["kind"] != "shelf", feed))
    placed = placements.merge(known, left_on="device", right_on="name", how="left", validate="1:1").sort_values(
        ["u_bottom", "device"]
    )
    found: dict[str, list[Placed]] = {rack: [] for rack in racks["name"]}
    for rack, row in zip(placed["rack"], placed[list(Placed._fields)].itertuples(index=False, name=None), strict=True):
        found[rack].append(Placed(*row))
    return found


def kinds(held: dict[str, list[Placed]]) -> list[list[str]]:
    """Racks that hold the same models at the same heights, together; the most frequent kind first."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for rack, things in held.items():
        alike.setdefault(tuple((t.u_bottom, t.u_height, t.role, t.model) for t in things), []).append(rack)
    return sorted(alike.values(), key=len, reverse=True)


def shown(held: dict[str, list[Placed]], alike: Sequence[Sequence[str]], count: int) -> list[Sequence[str]]:
    """The first `count` of these kinds, and behind them for each role that none of them shows the first kind that does."""
    chosen = list(alike[:count])
    seen = {thing.role for names in chosen for thing in held[names[0]]}
    for names in alike[count:]:
        roles = {thing.role for thing in held[names[0]]}
        if not roles <= seen:
            chosen.append(names)
            seen |= roles
    return chosen


def elevations(held: dict[str, list[Placed]], alike: Sequence[Sequence[str]], racks: pd.DataFrame) -> list[Elevation]:
    """One elevation for each of these groups of alike racks, all to one scale."""
    info = racks.set_index("name")
    beside = max((_beside(held[names[0]]) for names in alike), default=0)
    out = []
    for names in alike:
        rows = info.loc[list(names)]
        drawn = _elevation(held[names[0]], int(rows["height_u"].iloc[0]), names[0], beside)
        out.append(
            Elevation(
                racks=tuple(names),
                svg=drawn,
                nameplate_kw=float(rows["nameplate_kw"].max()),
                measured_kw=float(rows["measured_kw"].max()),
                mass_kg=float(rows["mass_kg"].max()),
                used_u=int(rows["used_u"].max()),
                height_u=int(rows["height_u"].iloc[0]),
            )
        )
    return out


def _beside(held: Sequence[Placed]) -> int:
    """Strips that are drawn beside a rack: its PDUs; a busbar takes the room of two."""
    return max(sum(thing.kind == "pdu" for thing in held), 2 * any(thing.kind == "shelf" for thing in held))


def _elevation(held: Sequence[Placed], height_u: int, rack: str, beside: int) -> str:
    """Front view of one rack: U numbers on the left, devices at their heights, on the right rack PDUs as strips or the
    DC busbar as a line with a stub to each power shelf; `beside` strips have room there.
    """
    strips = [thing.device for thing in held if thing.kind == "pdu"]
    shelves = [thing for thing in held if thing.kind == "shelf"]
    inner = RACK_PX - 6
    width = GUTTER_PX + RACK_PX + 4 + (PDU_PX + 3) * beside
    top = 6
    bottom = top + height_u * U_PX
    body = [svg.element("rect", x=GUTTER_PX, y=top - 3, width=RACK_PX, height=height_u * U_PX + 6, rx=3, cls="frame")]
    for unit in range(1, height_u + 1):
        if unit == 1 or unit % 5 == 0:
            body.append(svg.text(GUTTER_PX - 5, bottom - (unit - 0.5) * U_PX + 3.5, unit, cls="u-number"))
    for device, kind, role, model, u_bottom, u_height, _, note in held:
        if kind == "pdu" or u_height <= 0:
            continue
        y = bottom - (u_bottom - 1 + u_height) * U_PX
        words = f"{device}: {model}, U{u_bottom:g}" + (f" to U{u_bottom + u_height - 1:g}" if u_height > 1 else "")
        body.append(
            svg.element(
                "rect",
                svg.title(words),
                x=GUTTER_PX + 3,
                y=y + 0.7,
                width=inner,
                height=u_height * U_PX - 1.4,
                rx=1.5,
                cls=f"role-{role}",
            )
        )
        body.append(svg.text(GUTTER_PX + 10, y + u_height * U_PX / 2 + 3.5, device, cls="on-device"))
        if u_height >= 1:
            body.append(svg.text(GUTTER_PX + RACK_PX - 9, y + u_height * U_PX / 2 + 3.5, note, cls="on-device end"))
    if shelves:
        body += _busbar([thing for thing in held if thing.busbar >= 0], bottom)
    for k, strip in enumerate(strips):
        x = GUTTER_PX + RACK_PX + 5 + k * (PDU_PX + 3)
        body.append(
            svg.element(
                "rect",
                svg.title(f"{strip}: rack PDU"),
                x=x,
                y=top,
                width=PDU_PX,
                height=height_u * U_PX,
                rx=2,
                cls="role-rack_pdu",
            )
        )
        letter = strip.rsplit("-", 1)[-1].upper()
        body.append(svg.text(x + PDU_PX / 2, top + height_u * U_PX / 2, letter, cls="on-box"))
    return svg.picture(width, bottom + 8, f"Elevation of rack {rack}", body, "rack")


def _busbar(fed: Sequence[Placed], bottom: float) -> list[str]:
    """The DC busbar behind what it feeds, and a stub to each power shelf; `bottom` is the y of the rack's floor."""

    def middle(thing: Placed) -> float:
        return bottom - (thing.u_bottom - 1 + thing.u_height / 2) * U_PX

    right, x = GUTTER_PX + RACK_PX, GUTTER_PX + RACK_PX + 10
    ends = [middle(thing) for thing in fed]
    stubs = [(right, middle(thing), x, middle(thing)) for thing in fed if thing.kind == "shelf"]
    lines = [(x, min(ends), x, max(ends)), *stubs]
    half = (min(ends) + max(ends)) / 2
    words = svg.text(0, 0, "DC busbar", cls="upright", transform=f"translate({x + 11} {half:.1f}) rotate(-90)")
    return [svg.element("path", svg.title("DC busbar"), d=svg.segments(lines), cls="busbar"), words]
