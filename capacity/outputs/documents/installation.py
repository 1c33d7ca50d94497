"""The documents that people build from: cable schedule and labels, outlet map, power labels, rack contents, drawings, address
plan, topology.

    documents(plan) -> {"cable-schedule.csv": text, …}      pure; equal plans give equal bytes

README.txt names the site and the plan's hash and says what each file is, since a comment in a CSV would stand where a
spreadsheet expects the headings; each drawing has a title block with them, so that a printed copy can be checked.
capacity.outputs.pdf makes them into PDF files.
"""

import json
from collections.abc import Callable

import numpy as np
import pandas as pd

from capacity.model import Plan
from capacity.outputs import readme
from capacity.outputs.documents import addressing, cooling, fabric_choice, procurement
from capacity.outputs.documents import power as electrical
from capacity.outputs.documents.upgrade import switch_upgrade
from capacity.outputs.report import drawings
from capacity.outputs.summary import fitted
from capacity.outputs.tables import csv_text
from capacity.procurement.bom import ordered_m
from capacity.procurement.cords import lengths
from network import residual
from network.wiring import ipv6
from network.wiring.single_failures import losses

TOPOLOGY_VERSION = 1
NETWORK_PURPOSES = {
    "oob": "management of switches and PDUs; operators only",
    "bmc": "server management controllers; operators only, in the out-of-band prefix",
    "provisioning": "installation and configuration of servers",
    "loopback": "in-band identity of servers and switches; scheduler, storage and job traffic",
    "link": "in-band point-to-point links between servers and leaves",
    "compute-loopback": "identity of the compute switches of a RoCE fabric",
    "rail": "links of servers to the leaves of their rails (RoCE)",
}


def documents(plan: Plan) -> dict[str, str]:
    """All documents by file name."""
    made = {
        **{name: make(plan) for name, make in _TEXTS.items()},
        **addressing.documents(plan),
        **cooling.documents(plan),
        **{name: csv_text(frame) for name, frame in procurement.tables(plan).items()},
        "storage-design.md": procurement.storage_document(plan),
        **({} if plan.elements.empty else {name: make(plan) for name, make in _SUPPLY.items()}),
        "rack-contents.csv": csv_text(rack_contents(plan)),
        **{drawn.file: drawn.svg for drawn in (*drawings.drawings(plan), *drawings.elevations(plan))},
    }
    return {**made, readme.NAME: readme.of_documents(plan, made)}


def document(plan: Plan, name: str) -> str:
    """One document of the cabling and the electrical installation, made without the others.

    It reads only the frames that it shows. KeyError for a name that is none of them, such as a document of the cooling.
    """
    return {**_TEXTS, **_SUPPLY}[name](plan)


def topology(plan: Plan) -> str:
    """Nodes, ports and edges of the compute and in-band fabrics as JSON (S036)."""
    cables = plan.cables[plan.cables["fabric"].isin(["compute", "inband"])]
    ends = set(cables["a_device"]) | set(cables["b_device"])
    nodes = plan.devices[plan.devices["name"].isin(ends)]
    data = {
        "schema_version": TOPOLOGY_VERSION,
        "site": plan.site.name,
        "plan": plan.hash,
        "nodes": nodes[["name", "kind", "role", "fabric", "model", "unit", "rail"]].to_dict("records"),
        "edges": cables[
            ["cable_id", "fabric", "stage", "a_device", "a_port", "b_device", "b_port", "rate_gbps", "rail"]
        ].to_dict("records"),
    }
    return json.dumps(data, indent=1) + "\n"


def _places(plan: Plan) -> pd.Series:
    """'r01 U12' of every placed device, by its name."""
    placed = plan.placements
    height = (" U" + placed["u_bottom"].astype(str)).where(placed["u_height"] > 0, "")
    return pd.Series((placed["rack"] + height).to_numpy(), index=placed["device"].to_numpy())


def cable_schedule(plan: Plan) -> pd.DataFrame:
    """One row a link: both ends with rack, U and cage, routed length in m, medium and part (S044).

    `order_m` is the length that is bought for it, as in the bill of materials. `piece` is the cable that carries it: links of
    one straight or splitter cable between twin-port cages have the same.
    """
    place, cables, pieces = _places(plan), plan.cables, fitted(plan)
    first = pieces.pieces["cable"].to_numpy()
    known = pieces.piece_of >= 0
    piece = np.full(len(cables), "", dtype=object)
    piece[known] = cables["cable_id"].to_numpy(dtype=object)[first[pieces.piece_of[known]]]
    ordered = pd.Series(np.nan, index=cables.index)
    ordered[known] = ordered_m(pieces.pieces["length_m"])[pieces.piece_of[known]]
    return cables.assign(
        order_m=ordered,
        a_place=cables["a_device"].map(place).fillna(""),
        b_place=cables["b_device"].map(place).fillna(""),
        piece=piece,
        **_fibre_ends(plan),
    )[
        [
            "cable_id",
            "fabric",
            "stage",
            "a_device",
            "a_port",
            "a_cage",
            "a_place",
            "b_device",
            "b_port",
            "b_cage",
            "b_place",
            "length_m",
            "order_m",
            "medium",
            "part",
            "piece",
            "rate_gbps",
            "connector",
            "polish",
            "gender",
            "polarity",
        ]
    ]


def _fibre_ends(plan: Plan) -> dict[str, pd.Series]:
    """Connector, polish, gender and polarity of each link's fibre; '' where the plugs are on the cable."""
    table = plan.catalog.media(plan.site.media.reach_table)
    fibres = {part.part: plan.catalog.fibre(part.fibre) for part in table.parts if part.fibre}
    return {
        name: plan.cables["part"].map({part: getattr(fibre, name) for part, fibre in fibres.items()}).fillna("")
        for name in ("connector", "polish", "gender", "polarity")
    }


def transceivers(plan: Plan) -> pd.DataFrame:
    """One row a transceiver: the cage that it goes into, the ports that it serves there, and its model (S045)."""
    place, cables = _places(plan), plan.cables
    found = fitted(plan)
    plugs = found.plugs[found.plugs["fibre"]]
    row, end = plugs["cable"].to_numpy(), plugs["end"].to_numpy()
    device, cage = (cables[[f"a_{what}", f"b_{what}"]].to_numpy()[row, end] for what in ("device", "cage"))
    ends = pd.concat(
        [cables[[f"{e}_device", f"{e}_cage", f"{e}_port"]].set_axis(["device", "cage", "port"], axis=1) for e in "ab"]
    )
    ports = ends.groupby(["device", "cage"], sort=False)["port"].agg(", ".join)
    known = found.known
    return (
        pd.DataFrame(
            {
                "device": device,
                "place": pd.Series(device).map(place).fillna("").to_numpy(),
                "cage": cage.astype(np.int64),
                "ports": ports.reindex(pd.MultiIndex.from_arrays([device, cage])).to_numpy(),
                "transceiver": [known[i].name for i in plugs["plug"]],
                "as": [known[i].number for i in plugs["plug"]],
                "part": [found.parts[i].part for i in plugs["part"]],
                "power_w": plugs["power_w"].to_numpy(),
            }
        )
        .sort_values(["device", "cage"], kind="stable")
        .reset_index(drop=True)
    )


def cable_labels(plan: Plan) -> pd.DataFrame:
    """Two rows a cable, one for the label at each end: what is here, where the other end goes, and of a fibre connector,
    polish, gender and polarity (S046).
    """
    schedule = cable_schedule(plan)
    named = schedule["connector"] + "/" + schedule["polish"] + " " + schedule["gender"] + " " + schedule["polarity"]
    named = named.str.replace("  ", " ")
    fibre = named.where(schedule["connector"] != "", "")
    near, far = ["a_device", "a_port", "a_place"], ["b_device", "b_port", "b_place"]
    ends = []
    for end, here, there in (("A", near, far), ("B", far, near)):
        label = (
            schedule[here[0]]
            + ":"
            + schedule[here[1]]
            + " ("
            + schedule[here[2]]
            + ") > "
            + schedule[there[0]]
            + ":"
            + schedule[there[1]]
            + " ("
            + schedule[there[2]]
            + ")"
        )
        ends.append(pd.DataFrame({"cable_id": schedule["cable_id"], "end": end, "label": label, "fibre": fibre}))
    return pd.concat(ends).sort_values(["cable_id", "end"], kind="stable").reset_index(drop=True)


def rack_contents(plan: Plan) -> pd.DataFrame:
    """Elevations of every rack as a table: one row a device, from the top down, zero-U ones last."""
    models = plan.devices.set_index("name")[["model", "role", "mass_kg", "nameplate_w"]]
    placed = plan.placements.join(models, on="device")
    placed["u_top"] = placed["u_bottom"] + placed["u_height"] - (placed["u_height"] > 0)
    placed = placed.sort_values(["rack", "u_top", "device"], ascending=[True, False, True], kind="stable")
    return placed[["rack", "u_top", "u_bottom", "u_height", "device", "role", "model", "mass_kg", "nameplate_w"]]


def fabric_failures(plan: Plan) -> pd.DataFrame:
    """One row a kind of switch or bundle of the compute fabric: what the loss of one takes (network.residual); no rows without
    a fat tree.
    """
    rates = plan.cables.loc[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "node-leaf"), "rate_gbps"]
    found = list(residual.losses(plan.tree)) if plan.tree is not None and len(rates) else []
    half_gbps = len(rates) / 2 * float(rates.max()) if len(rates) else 0.0
    return pd.DataFrame(
        {
            "lost": [loss.kind for loss in found],
            "of": [loss.count for loss in found],
            "endpoints_cut_off": [loss.endpoints for loss in found],
            "bisection_left_pct": [round(100 * loss.share, 3) for loss in found],
            "bisection_left_gbps": [round(half_gbps * loss.share, 1) for loss in found],
        }
    )


def outlet_map(plan: Plan) -> pd.DataFrame:
    """One row a cord: supply, outlet, feed, phase, connector and length in m (S087)."""
    used = plan.outlets[plan.outlets["device"] != ""]
    metres = lengths(used, plan.outlets, plan.placements, plan.racks, plan.catalog)
    return used.assign(length_m=metres)[
        ["device", "psu", "rack", "feed", "pdu", "outlet", "phase", "bank", "connector", "load_w", "length_m"]
    ]


def networks(plan: Plan) -> pd.DataFrame:
    """One row a network: prefix, purpose, addresses in use and room left (S053)."""
    addressing = plan.site.addressing
    prefix = {
        "oob": addressing.oob,
        "bmc": addressing.oob,
        "provisioning": addressing.provisioning,
        "loopback": addressing.loopbacks,
        "link": addressing.links,
        "compute-loopback": addressing.compute_loopbacks,
        "rail": addressing.rails,
    }
    wider = {
        "bmc": addressing.bmc_ipv6,
        "loopback": addressing.loopbacks_ipv6,
        "link": addressing.links_ipv6,
        "compute-loopback": addressing.compute_loopbacks_ipv6,
        "rail": addressing.rails_ipv6,
    }
    second = ipv6.addresses(plan.site, plan.catalog, plan.addresses)
    rows = [
        (name, str(net), NETWORK_PURPOSES[name], int(used.get(name, 0)), net.num_addresses)
        for nets, given in ((prefix, plan.addresses), (wider, second))
        for used in (given.groupby("network", sort=False).size(),)
        for name, net in nets.items()
        if net is not None
    ]
    return pd.DataFrame(rows, columns=["network", "prefix", "purpose", "addresses", "prefix_size"])


_TEXTS: dict[str, Callable[[Plan], str]] = {
    "topology.json": topology,
    "cable-schedule.csv": lambda plan: csv_text(cable_schedule(plan)),
    "transceivers.csv": lambda plan: csv_text(transceivers(plan)),
    "cable-labels.csv": lambda plan: csv_text(cable_labels(plan)),
    "outlet-map.csv": lambda plan: csv_text(outlet_map(plan)),
    "power-labels.csv": lambda plan: csv_text(electrical.power_labels(plan.outlets, plan.circuits, plan.elements)),
    "network-failures.csv": lambda plan: csv_text(losses(plan.cables, plan.devices)),
    "fabric-failures.csv": lambda plan: csv_text(fabric_failures(plan)),
    "fabric-options.csv": lambda plan: csv_text(fabric_choice.options(plan)),
    "fabric-decision.md": fabric_choice.decision,
    "switch-upgrade.csv": lambda plan: csv_text(switch_upgrade(plan)),
    "networks.csv": lambda plan: csv_text(networks(plan)),
    "addresses.csv": lambda plan: csv_text(ipv6.both(plan.site, plan.catalog, plan.addresses)),
}
_SUPPLY: dict[str, Callable[[Plan], str]] = {
    "panel-schedule.csv": lambda plan: csv_text(electrical.panel_schedule(plan)),
    "lockout-sheets.csv": lambda plan: csv_text(electrical.lockout_sheets(plan)),
}
"""Documents of the supply above the rack circuits; none where the site does not plan it."""
