"""What the ends of a plan's links say when all is well, in the words of ethtool, Prometheus and ibdiagnet. All modelled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capacity.model import Plan
from network.infiniband.compare import identify, planes
from network.infiniband.wire import on_the_wire
from validation import link_pairs
from validation.facts import Answer, Facts
from validation.facts.telemetry import series
from validation.infiniband import discovered

MODELLED = Path(__file__).parents[1] / "data" / "modelled"
NDR = (MODELLED / "mlxlink" / "ndr.json").read_text()
SAID = {name: (MODELLED / "ethtool" / f"{name}.txt").read_text() for name in ("link", "fec", "module", "statistics")}
SENT_B_S, HOUR_SAMPLES = 1e9, 3600
"""What each end sends and receives; with a sample a second, which is more often than any site asks."""


def ethtool_texts(rate_gbps: float) -> dict[str, str]:
    """ethtool's words of a port at this rate."""
    return {**SAID, "link": SAID["link"].replace("200000Mb/s", f"{rate_gbps * 1000:.0f}Mb/s")}


def database_row(rate_gbps: float) -> dict[str, str]:
    """A port of this rate in SONiC's databases, by the fields of tests/data/modelled/sonic."""
    every = json.loads((MODELLED / "sonic" / "databases.json").read_text())
    port, module, bounds, rates = (
        every[number][key]
        for number, key in (
            ("0", "PORT_TABLE:Ethernet8"),
            ("6", "TRANSCEIVER_DOM_SENSOR|Ethernet8"),
            ("6", "TRANSCEIVER_DOM_THRESHOLD|Ethernet8"),
            ("2", "RATES:oid:0x1000000000013"),
        )
    )
    fields = {name: port[name] for name in ("oper_status", "lanes", "fec")}
    light = {name: value for name, value in module.items() if name.startswith("rx")}
    bers = {name: value for name, value in rates.items() if name.startswith("FEC")}
    return {**fields, **light, **bounds, **bers, "speed": f"{rate_gbps * 1000:.0f}"}


def ports(plan: Plan, fabric: str) -> dict[str, float]:
    """{'DEVICE:PORT': Gb/s} of both ends of each cable of a fabric."""
    found: dict[str, float] = {}
    cables = plan.cables[plan.cables["fabric"] == fabric]
    columns = ["a_device", "a_port", "b_device", "b_port", "rate_gbps"]
    for a_device, a_port, b_device, b_port, rate in cables[columns].itertuples(index=False, name=None):
        found |= {f"{a_device}:{a_port}": rate, f"{b_device}:{b_port}": rate}
    return found


def kernel(plan: Plan, device: str, names: list[str] | None = None) -> dict[str, dict[str, str]]:
    """The part `ethtool` of a machine's facts: its in-band ports, or those of `names`."""
    mine = {end.partition(":")[2]: rate for end, rate in ports(plan, "inband").items() if end.startswith(f"{device}:")}
    return {port: ethtool_texts(rate) for port, rate in mine.items() if names is None or port in names}


def telemetry_series(plan: Plan) -> dict[str, dict[str, dict[str, float]]]:
    """The part `series` of what a telemetry server says: every port sends and receives as much as the others."""
    kind = plan.site.fabric.kind
    values = {"errors": 0.0, "drops": 0.0, "frames": 1e6, "samples": HOUR_SAMPLES, "up": 1.0}
    values |= {"sent": SENT_B_S, "received": SENT_B_S}
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in series(kind)}
    switches = set(plan.devices.loc[plan.devices["kind"] == "switch", "name"])
    for fabric in ("inband", *(["compute"] if kind == "roce" else [])):
        for end, rate in ports(plan, fabric).items():
            device, _, port = end.partition(":")
            owner = "switch" if device in switches else "node" if fabric == "inband" else "rail"
            for name, one in {**values, "mbps": rate * 1000}.items():
                if f"{owner}_{name}" in found:
                    found[f"{owner}_{name}"].setdefault(device, {})[port] = one
    return found


def of_inband(plan: Plan, switch: str) -> dict[str, Any]:
    """What a check keeps of both ends of the links of an in-band switch."""
    said = {"queries": {}, "series": telemetry_series(plan)}
    kinds = dict(zip(plan.devices["name"], plan.devices["kind"], strict=True))
    machines = {
        name: Answer(name, "ssh", data={"machine": {"container": "", "errors": {}, "ethtool": kernel(plan, name)}})
        for name in {end.partition(":")[0] for end in ports(plan, "inband")}
    }
    facts = Facts(
        nodes={name: one for name, one in machines.items() if kinds[name] == "server"},
        switches={name: one for name, one in machines.items() if kinds[name] == "switch"},
        telemetry={"mgm01": Answer("mgm01", "prometheus", data=said)},
    )
    return link_pairs.asked(plan, switch, link_pairs.Seen(facts, {}, {}, {}))


def diagnosed(plan: Plan, view: Answer, guids: Mapping[str, str], *, began: float, words: int) -> dict[str, Any]:
    """What ibdiagnet writes of a fabric that was discovered: every port has counted this many words of four bytes, each way."""
    found, wire = discovered(view), on_the_wire(plan)
    rates = ports(plan, "compute")
    made: dict[str, Any] = {"began": began, "ended": began + 2, "sharp_am": "active"}
    made |= {"ends": {}, "adaptive": {}, "out_of_order": {}, "counters": {}, "trees": {}}
    for end, each in planes(found, identify(found, guids, wire), wire).items():
        for known, port in each:
            place = f"{max(known)}/{port}"
            made["ends"][place] = {
                "state": "ACT",
                "physical": "LINK UP",
                "rate_gbps": rates[end] / len(each),
                "lanes": 4,
                "fec": "RS_FEC",
                "raw_ber": 2e-9,
                "effective_ber": 1.5e-254,
            }
            counted = {
                "sent": words,
                "received": words,
                "receive_errors": 0,
                "symbol_errors": 0,
                "discards": 0,
                "downed": 0,
            }
            made["counters"][place] = counted
    return made


def adapter(rate: str) -> str:
    """mlxlink's words of an adapter: 'IB-HDR' or '400G'."""
    return json.dumps(json.loads(NDR.replace("IB-NDR", rate)))
