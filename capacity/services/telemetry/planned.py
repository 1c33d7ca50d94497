"""The plan as metrics in Prometheus' text format, so that a rule can compare what is seen with what should be.

bringup_planned_target{job, instance}                       1 per target of targets.py
bringup_planned_port{instance, ifName, far, far_port}       1 per cabled port of a switch that is asked
bringup_planned_outlet{instance, outlet, far, psu}          1 per outlet that feeds a device
bringup_planned_gpus{instance}                              number of GPUs per GPU server

On a site of Kubernetes also:
bringup_planned_kubernetes{instance, part}                  1 per controller (part control-plane) and per node (part node)
bringup_planned_offer{instance, resource}                   what each node offers pods of the resource of its GPUs
"""

import functools
import json

import pandas as pd

from capacity.model import Plan
from capacity.services.cluster import cluster
from capacity.services.platform.sharing import offers
from capacity.services.telemetry import targets as asked

HELP = {
    "bringup_planned_target": "Exporters and devices that the plan wants asked.",
    "bringup_planned_port": "Cabled ports of the switches, with the far end of the cable.",
    "bringup_planned_outlet": "Outlets that feed a device, with the supply.",
    "bringup_planned_gpus": "GPUs per server.",
    "bringup_planned_kubernetes": "Controllers and nodes of the Kubernetes cluster.",
    "bringup_planned_offer": "What each node offers pods of the resource of its GPUs.",
}


def planned(plan: Plan, wanted: pd.DataFrame) -> str:
    """All metrics of the plan, as a file for the textfile collector. `wanted`: the targets of the plan."""
    gpus = _gpus(plan)
    rows = {
        "bringup_planned_target": (wanted[["job", "instance"]], None),
        "bringup_planned_port": (ports(plan), None),
        "bringup_planned_outlet": (outlets(plan), None),
        "bringup_planned_gpus": (gpus[["instance"]], gpus["gpus"].tolist()),
        **(_kubernetes(plan) if plan.site.scheduler.kind == "kubernetes" else {}),
    }
    lines = []
    for name, (labels, values) in rows.items():
        lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge"]
        shown = _labels(labels)
        lines += [f"{name}{{{text}}} {value}" for text, value in zip(shown, values or [1] * len(shown), strict=True)]
    return "\n".join(lines) + "\n"


def ports(plan: Plan, switch: str | None = None) -> pd.DataFrame:
    """Cabled ports of the switches that are asked, or of one of them: columns instance, ifName, far, far_port."""
    names, cables = set(asked.switches(plan)["name"]), plan.cables
    if switch is not None:
        names &= {switch}
        cables = cables[(cables["a_device"] == switch) | (cables["b_device"] == switch)]
    near = cables[["a_device", "a_port", "b_device", "b_port"]]
    ends = pd.DataFrame(
        {
            "instance": pd.concat([near["a_device"], near["b_device"]], ignore_index=True),
            "ifName": pd.concat([near["a_port"], near["b_port"]], ignore_index=True),
            "far": pd.concat([near["b_device"], near["a_device"]], ignore_index=True),
            "far_port": pd.concat([near["b_port"], near["a_port"]], ignore_index=True),
            "fabric": pd.concat([cables["fabric"]] * 2, ignore_index=True),
        }
    )
    ends = ends[ends["instance"].isin(names) & (ends["fabric"] != "oob")]
    return ends.drop(columns="fabric").sort_values(["instance", "ifName"], ignore_index=True)


def outlets(plan: Plan) -> pd.DataFrame:
    """Outlets that feed a device: columns instance, outlet, far, psu."""
    used = plan.outlets[plan.outlets["device"] != ""]
    return pd.DataFrame({"instance": used["pdu"], "outlet": used["outlet"], "far": used["device"], "psu": used["psu"]})


def _gpus(plan: Plan) -> pd.DataFrame:
    """GPUs of each GPU server: columns instance, gpus."""
    servers = plan.devices.loc[plan.devices["role"] == "gpu", ["name", "model"]]
    of_model = {model: int(plan.catalog.device(str(model)).bringup.gpus or 0) for model in servers["model"].unique()}
    return pd.DataFrame({"instance": servers["name"], "gpus": servers["model"].map(of_model)})


def _kubernetes(plan: Plan) -> dict[str, tuple[pd.DataFrame, list[int] | None]]:
    """Labels and values of what only a site of Kubernetes has, by name."""
    made, offered = cluster(plan), offers(plan)
    parts = {"control-plane": made.controllers, "node": made.nodes}
    members = [{"instance": one.name, "part": part} for part, several in parts.items() for one in several]
    of_nodes = [{"instance": name, "resource": one.resource} for name, one in offered.items()]
    return {
        "bringup_planned_kubernetes": (pd.DataFrame(members), None),
        "bringup_planned_offer": (pd.DataFrame(of_nodes), [one.count for one in offered.values()]),
    }


def _labels(frame: pd.DataFrame) -> list[str]:
    """The labels of each row, as Prometheus writes them."""
    quoted = functools.lru_cache(None)(lambda value: json.dumps(str(value), ensure_ascii=False))
    columns = [[f"{key}={quoted(value)}" for value in frame[key].tolist()] for key in frame.columns]
    return [",".join(cells) for cells in zip(*columns, strict=True)]
