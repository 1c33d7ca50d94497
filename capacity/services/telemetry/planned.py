"""The plan as metrics in Prometheus' text format, so that a rule can compare what is seen with what should be.

bringup_planned_target{job, instance}                       1 per target of targets.py
bringup_planned_port{instance, ifName, far, far_port}       1 per cabled port of a switch that is asked
bringup_planned_outlet{instance, outlet, far, psu}          1 per outlet that feeds a device
bringup_planned_gpus{instance}                              number of GPUs per GPU server
"""

import json
from collections.abc import Iterable, Mapping

import pandas as pd

from capacity.model import Plan
from capacity.services.telemetry import targets as asked

HELP = {
    "bringup_planned_target": "Exporters and devices that the plan wants asked.",
    "bringup_planned_port": "Cabled ports of the switches, with the far end of the cable.",
    "bringup_planned_outlet": "Outlets that feed a device, with the supply.",
    "bringup_planned_gpus": "GPUs per server.",
}


def planned(plan: Plan) -> str:
    """All metrics of the plan, as a file for the textfile collector."""
    rows: dict[str, Iterable[tuple[Mapping[str, str], int]]] = {
        "bringup_planned_target": _ones(asked.targets(plan)[["job", "instance"]]),
        "bringup_planned_port": _ones(ports(plan)),
        "bringup_planned_outlet": _ones(outlets(plan)),
        "bringup_planned_gpus": _gpus(plan),
    }
    lines = []
    for name, series in rows.items():
        lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{_labels(labels)}}} {value}" for labels, value in series]
    return "\n".join(lines) + "\n"


def ports(plan: Plan) -> pd.DataFrame:
    """Cabled ports of the switches that are asked: columns instance, ifName, far, far_port."""
    names = set(asked.switches(plan)["name"])
    near = plan.cables[["a_device", "a_port", "b_device", "b_port"]]
    ends = pd.DataFrame(
        {
            "instance": pd.concat([near["a_device"], near["b_device"]], ignore_index=True),
            "ifName": pd.concat([near["a_port"], near["b_port"]], ignore_index=True),
            "far": pd.concat([near["b_device"], near["a_device"]], ignore_index=True),
            "far_port": pd.concat([near["b_port"], near["a_port"]], ignore_index=True),
            "fabric": pd.concat([plan.cables["fabric"]] * 2, ignore_index=True),
        }
    )
    ends = ends[ends["instance"].isin(names) & (ends["fabric"] != "oob")]
    return ends.drop(columns="fabric").sort_values(["instance", "ifName"], ignore_index=True)


def outlets(plan: Plan) -> pd.DataFrame:
    """Outlets that feed a device: columns instance, outlet, far, psu."""
    used = plan.outlets[plan.outlets["device"] != ""]
    return pd.DataFrame({"instance": used["pdu"], "outlet": used["outlet"], "far": used["device"], "psu": used["psu"]})


def _gpus(plan: Plan) -> list[tuple[dict[str, str], int]]:
    catalog = plan.catalog
    servers = plan.devices.loc[plan.devices["role"] == "gpu", ["name", "model"]].itertuples(index=False, name=None)
    return [({"instance": str(name)}, int(catalog.device(str(model)).bringup.gpus or 0)) for name, model in servers]


def _ones(frame: pd.DataFrame) -> list[tuple[dict[str, str], int]]:
    return [({str(k): str(v) for k, v in row.items()}, 1) for row in frame.to_dict("records")]


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in labels.items())
