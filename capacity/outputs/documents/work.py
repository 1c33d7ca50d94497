"""The work list of a comparison: what has to be done at which cage of which rack, in the order of one walk."""

from collections.abc import Callable

import pandas as pd

from capacity.model import Plan
from capacity.outputs.documents.installation import cable_labels
from inventory.findings import Finding

COLUMNS = ("step", "finding", "do", "device", "port", "rack", "u", "cage", "label", "why")
LOOK = {
    "AS-BUILT-CABLE": "as_built.csv has this cable otherwise: read its label, move it to its planned ports or correct as_built.csv",
    "AS-BUILT-PART": "as_built.csv has another part or length: read what is printed on the cable, replace it or correct the list",
    "TOPOLOGY-EXTRA": "this cable is not planned: carry it to where its label says",
    "TOPOLOGY-FOREIGN": "a device that is not planned: read its serial number, and remove it",
    "TOPOLOGY-MISSING": "no neighbour is seen: plug or replace the cable",
    "TOPOLOGY-CUT-OFF": "no link, as all cables of this bundle: look at what they share, then at both plugs",
    "LINK-DOWN": "no link: look at both plugs and transceivers, clean, replace",
    "LINK-RATE": "slower than planned: look at transceiver and speed settings",
    "LINK-ERRORS": "errors: clean both ends, then replace the cable or transceiver",
    "ADAPTER-EXCHANGED": "another adapter than listed: read its serial number",
}
"""What to do at each port of a finding that no exchange of plugs resolves."""
EXCHANGED = ("TOPOLOGY-SWAPPED", "TOPOLOGY-SHIFTED")
"""Findings that exchanges of plugs resolve, which `ports` lists in pairs."""


def work_list(plan: Plan, findings: list[Finding]) -> pd.DataFrame:
    """One row a port at which something is to be done: COLUMNS.

    Findings without a port of the plan's cables are left out. `step` counts what is done together: the two plugs of an exchange, or
    the two ends of a cable; the exchanges of one finding stay in their order. Findings are sorted by the rack of their first port,
    row after row, every second row backwards, as one walks. `label` is the label that belongs at the port (cable-labels.csv).
    """
    steps = [step for one in sorted(findings, key=_route(plan)) for step in _steps(one)]
    rows = [
        (number, id_, do, *end.rpartition(":")[::2], why)
        for number, (id_, todo, why) in enumerate(steps, 1)
        for end, do in todo
    ]
    frame = pd.DataFrame(rows, columns=["step", "finding", "do", "device", "port", "why"])
    placed = plan.placements[["device", "rack", "u_bottom"]].rename(columns={"u_bottom": "u"})
    frame = frame.merge(placed, on="device", how="left").merge(_labels(plan), on=["device", "port"], how="left")
    frame = frame[frame["rack"].notna() | frame["label"].notna()]
    frame["step"] = frame["step"].rank(method="dense").astype(int)
    for column in ("u", "cage"):
        frame[column] = frame[column].astype("Int64")
    return frame.fillna({"rack": "", "label": ""})[list(COLUMNS)].reset_index(drop=True)


def _steps(one: Finding) -> list[tuple[str, list[tuple[str, str]], str]]:
    """(finding, [(port, what to do there)], why) of each step of a finding."""
    if one.id in EXCHANGED:
        count = int(one.numbers["exchanges"])
        pairs = list(zip(one.ports[0 : 2 * count : 2], one.ports[1 : 2 * count : 2], strict=True))
        return [
            (
                one.id,
                [(x, f"exchange the plug with that of {y}"), (y, f"exchange the plug with that of {x}")],
                one.message,
            )
            for x, y in pairs
        ]
    if one.id == "TOPOLOGY-CUT-OFF":
        cables = zip(one.ports[::2], one.ports[1::2], strict=True)
        return [(one.id, [(port, LOOK[one.id]) for port in cable], one.message) for cable in cables]
    if one.id in LOOK and one.ports:
        return [(one.id, [(port, LOOK[one.id]) for port in one.ports], one.message)]
    return []


def _route(plan: Plan) -> Callable[[Finding], tuple[float, float, str, tuple[str, ...]]]:
    """Sorting key of findings: the place of the rack of their first port along the walk."""
    racks = plan.racks
    back = racks["row"] % 2 == 1
    along = racks["position"].where(~back, -racks["position"])
    rank = dict(zip(racks["name"], zip(racks["row"], along, strict=True), strict=True))
    place = dict(zip(plan.placements["device"], plan.placements["rack"], strict=True))

    def key(one: Finding) -> tuple[float, float, str, tuple[str, ...]]:
        device = one.ports[0].rpartition(":")[0] if one.ports else ""
        row, position = rank.get(place.get(device, ""), (float("inf"), 0.0))
        return float(row), float(position), device, one.ports

    return key


def _labels(plan: Plan) -> pd.DataFrame:
    """device, port, cage, label of each end of each planned cable."""
    labels = cable_labels(plan).set_index(["cable_id", "end"])["label"]
    ends = []
    for end, letter in (("a", "A"), ("b", "B")):
        found = plan.cables[["cable_id", f"{end}_device", f"{end}_port", f"{end}_cage"]]
        found = found.set_axis(["cable_id", "device", "port", "cage"], axis=1)
        label = labels.xs(letter, level="end").reindex(found["cable_id"]).to_numpy()
        ends.append(found.assign(label=label)[["device", "port", "cage", "label"]])
    return pd.concat(ends, ignore_index=True)
