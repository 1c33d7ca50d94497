"""The documents that people build from: cable schedule and labels, outlet map, power labels, address plan, topology.

    documents(plan) -> {"cable-schedule.csv": text, …}      pure; equal plans give equal bytes

Each CSV begins with a comment line that names the site and the plan's hash, so that a printed copy can be checked.
"""

import json

import pandas as pd

from capacity import purchase_documents
from capacity.cooling import documents as cooling
from capacity.plan import Plan
from capacity.power import documents as electrical
from capacity.report import one_line

TOPOLOGY_VERSION = 1
NETWORK_PURPOSES = {
    "oob": "management of switches and PDUs; operators only",
    "bmc": "server management controllers; operators only, in the out-of-band prefix",
    "provisioning": "installation and configuration of servers",
    "loopback": "in-band identity of servers and switches; scheduler, storage and job traffic",
    "link": "in-band point-to-point links between servers and leaves",
}


def documents(plan: Plan) -> dict[str, str]:
    """All documents by file name."""
    return {
        "topology.json": topology(plan),
        "cable-schedule.csv": _csv(plan, cable_schedule(plan)),
        "cable-labels.csv": _csv(plan, cable_labels(plan)),
        "outlet-map.csv": _csv(plan, outlet_map(plan)),
        "power-labels.csv": _csv(plan, power_labels(plan)),
        "networks.csv": _csv(plan, networks(plan)),
        "addresses.csv": _csv(plan, plan.addresses),
        **cooling.documents(plan),
        **{name: _csv(plan, frame) for name, frame in purchase_documents.tables(plan).items()},
        "storage-design.md": purchase_documents.storage_document(plan),
        **_electrical(plan),
    }


def _electrical(plan: Plan) -> dict[str, str]:
    """Documents of the supply above the rack circuits; none where the site does not plan it."""
    if plan.elements.empty:
        return {}
    return {
        "panel-schedule.csv": _csv(plan, electrical.panel_schedule(plan)),
        "lockout-sheets.csv": _csv(plan, electrical.lockout_sheets(plan)),
        "one-line.svg": one_line.document(plan),
    }


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
        "edges": cables[["cable_id", "fabric", "stage", "a_device", "a_port", "b_device", "b_port", "rate_gbps", "rail"]]
        .to_dict("records"),
    }  # fmt: skip
    return json.dumps(data, indent=1) + "\n"


def _places(plan: Plan) -> pd.Series:
    """'r01 U12' of every placed device, by its name."""
    placed = plan.placements
    height = (" U" + placed["u_bottom"].astype(str)).where(placed["u_height"] > 0, "")
    return pd.Series((placed["rack"] + height).to_numpy(), index=placed["device"].to_numpy())


def cable_schedule(plan: Plan) -> pd.DataFrame:
    """One row a cable: both ends with rack and U, routed length in m, medium and part (S044)."""
    place = _places(plan)
    cables = plan.cables
    return cables.assign(
        a_place=cables["a_device"].map(place).fillna(""), b_place=cables["b_device"].map(place).fillna("")
    )[["cable_id", "fabric", "stage", "a_device", "a_port", "a_place", "b_device", "b_port", "b_place",
       "length_m", "medium", "part", "rate_gbps"]]  # fmt: skip


def cable_labels(plan: Plan) -> pd.DataFrame:
    """Two rows a cable, one for the label at each end: what is here and where the other end goes (S046)."""
    schedule = cable_schedule(plan)
    near, far = ["a_device", "a_port", "a_place"], ["b_device", "b_port", "b_place"]
    ends = []
    for end, here, there in (("A", near, far), ("B", far, near)):
        label = (
            schedule[here[0]] + ":" + schedule[here[1]] + " (" + schedule[here[2]] + ") > "
            + schedule[there[0]] + ":" + schedule[there[1]] + " (" + schedule[there[2]] + ")"
        )  # fmt: skip
        ends.append(pd.DataFrame({"cable_id": schedule["cable_id"], "end": end, "label": label}))
    return pd.concat(ends).sort_values(["cable_id", "end"], kind="stable").reset_index(drop=True)


def outlet_map(plan: Plan) -> pd.DataFrame:
    """One row a cord: supply, outlet, feed, phase and connector (S087)."""
    used = plan.outlets[plan.outlets["device"] != ""]
    return used[["device", "psu", "rack", "feed", "pdu", "outlet", "phase", "bank", "connector", "load_w"]]


def power_labels(plan: Plan) -> pd.DataFrame:
    """One row a label: each cord with its outlet and source circuit, each PDU with its circuit and panel, and each
    element above the circuits (S089).
    """
    circuit = plan.circuits.set_index("pdu")["circuit"]
    used = outlet_map(plan)
    cords = pd.DataFrame(
        {
            "at": used["device"] + " PSU " + used["psu"].astype(str),
            "label": used["pdu"] + " outlet " + used["outlet"].astype(str) + ", feed " + used["feed"] + ", circuit "
            + used["pdu"].map(circuit),
        }
    )  # fmt: skip
    panels = plan.elements.set_index("name")["upstream"].reindex(plan.circuits["circuit"]).fillna("")
    panel = pd.Series((", panel " + panels).where(panels != "", "").to_numpy(), index=plan.circuits.index)
    pdus = pd.DataFrame(
        {
            "at": plan.circuits["pdu"],
            "label": plan.circuits["circuit"] + ", feed " + plan.circuits["feed"] + ", "
            + plan.circuits["breaker_a"].map("{:g}".format) + " A" + panel,
        }
    )  # fmt: skip
    return pd.concat([cords, pdus, electrical.element_labels(plan)], ignore_index=True)


def networks(plan: Plan) -> pd.DataFrame:
    """One row a network: prefix, purpose, addresses in use and room left (S053)."""
    addressing = plan.site.addressing
    prefix = {
        "oob": addressing.oob,
        "bmc": addressing.oob,
        "provisioning": addressing.provisioning,
        "loopback": addressing.loopbacks,
        "link": addressing.links,
    }
    used = plan.addresses.groupby("network", sort=False).size()
    rows = [
        (name, str(prefix[name]), NETWORK_PURPOSES[name], int(used.get(name, 0)), prefix[name].num_addresses)
        for name in NETWORK_PURPOSES
    ]
    return pd.DataFrame(rows, columns=["network", "prefix", "purpose", "addresses", "prefix_size"])


def _csv(plan: Plan, frame: pd.DataFrame) -> str:
    return f"# site {plan.site.name}, plan {plan.hash}\n" + frame.to_csv(index=False, lineterminator="\n")
