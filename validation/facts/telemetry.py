"""Telemetry: what Prometheus knows of the site, asked over SSH from each telemetry server, where alone it listens.

reads(plan, addresses)  one read per telemetry server, for gather(); data as telemetry_facts.py says it
drill(plan, …)          a fire drill of all alert rules (fire_drill.py)
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capacity.model import Plan
from capacity.services import telemetry
from inventory.site import Site
from network.drivers.answers import Source, read, reading
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import SshHost
from validation.evidence import Identity
from validation.facts.shapes import FireDrill, data_of

FACTS = Path(__file__).with_name("telemetry_facts.py").read_text()
PROMETHEUS = f"http://127.0.0.1:{telemetry.PORTS['prometheus']}"
DRILL = Path(__file__).with_name("fire_drill.py").read_text()
DRILL_SPARE_S = 60.0
"""Beyond delivery and clearing: login, and the rules' unit tests."""
QUERIES = {
    "ports": 'count by (instance, ifName) ({job="switch",ifName!=""})',
    "gpu_fields": '{job="gpu",__name__=~"DCGM_FI_.*"}',
    "gpu_cpu": 'rate(process_cpu_seconds_total{job="gpu"}[2m])',
}

RATE_WINDOW_S = 3600
"""Over which rates of ports are taken: with samples every 15 s two ends may be apart by a minute of it, 1.7 % of a link's rate."""
PORTS_OF = {
    "switch": ('job="switch",ifName!=""', "ifName"),
    "node": ('job="node",device!~"lo|veth.*|docker.*|br-.*"', "device"),
    "rail": ('job="node",device=~"rail[0-9]+"', "device"),
}
"""Whose ports are asked: which series, and their label of the port."""
COUNTERS = {
    "switch": {
        "sent": ("ifHCOutOctets",),
        "received": ("ifHCInOctets",),
        "errors": ("ifInErrors", "ifOutErrors"),
        "drops": ("ifInDiscards", "ifOutDiscards"),
        "frames": ("ifHCInUcastPkts", "ifHCOutUcastPkts"),
    },
    "node": {
        "sent": ("node_network_transmit_bytes_total",),
        "received": ("node_network_receive_bytes_total",),
        "errors": ("node_network_receive_errs_total", "node_network_transmit_errs_total"),
        "drops": ("node_network_receive_drop_total", "node_network_transmit_drop_total"),
        "frames": ("node_network_receive_packets_total", "node_network_transmit_packets_total"),
    },
    "rail": {
        "sent": ("node_ethtool_transmitted_bytes_phy",),
        "received": ("node_ethtool_received_bytes_phy",),
        "errors": ("node_ethtool_received_crc_errors_phy", "node_ethtool_transmitted_errors_phy"),
        "drops": ("node_ethtool_received_discards_phy", "node_ethtool_transmitted_discards_phy"),
        "frames": ("node_ethtool_received_packets_phy", "node_ethtool_transmitted_packets_phy"),
    },
}
"""Counters of ports: IF-MIB (RFC 2863), node_exporter's netdev, and its ethtool collector with mlx5's counters of the wire: RDMA
passes by the kernel's own. The sum of several."""

Read = Callable[[], tuple[dict[str, Any], tuple[Identity, ...]]]


def reads(plan: Plan, addresses: Mapping[tuple[str, str], str]) -> dict[str, Read]:
    """How to ask each telemetry server, by its name."""
    budget_s = plan.site.timeouts.ssh_s
    request = {
        "prometheus": PROMETHEUS,
        "queries": QUERIES,
        "series": series(plan.site.fabric.kind),
        "files": {path: hashlib.sha256(text.encode()).hexdigest() for path, text in telemetry.files(plan).items()},
    }

    def ask(name: str) -> tuple[dict[str, Any], tuple[Identity, ...]]:
        host = server_host(plan, name, addresses[name, "provisioning"], budget_s)
        source = Source(name, "ask Prometheus", "look at `systemctl status prometheus` there")
        answer = host.program(FACTS, request, operation=source.operation)
        with reading(source, "facts and errors"):
            facts, errors = dict(answer["facts"]), dict(answer["errors"])
            targets = facts.get("targets")
        if not targets:
            raise BadAnswer(
                name,
                "ask Prometheus",
                f"its targets at {request['prometheus']}",
                f"{errors.get('targets', 'none')}",
                "look at `systemctl status prometheus` there",
            )
        with reading(source, "facts and errors"):
            gpus = by_gpu(facts["queries"].pop("gpu_fields", []))
            return data_of("telemetry", name, {**facts, "gpus": gpus, "errors": errors}), ()

    return {name: lambda name=name: ask(name) for name in telemetry.servers(plan)}  # type: ignore[misc]


def series(kind: str) -> dict[str, dict[str, str]]:
    """What is asked of ports, for telemetry_facts.py: rates, samples in the window and counters that began anew in it."""
    found: dict[str, dict[str, str]] = {}
    for owner in ("switch", "node", *(["rail"] if kind == "roce" else [])):
        selected, label = PORTS_OF[owner]
        names = COUNTERS[owner]
        window = f"{{{selected}}}[{RATE_WINDOW_S}s]"
        asked = {name: " + ".join(f"rate({one}{window})" for one in given) for name, given in names.items()}
        asked["samples"] = f"count_over_time({names['received'][0]}{window})"
        asked["resets"] = f"resets({names['received'][0]}{window}) > 0"
        if owner == "switch":
            asked |= {"up": f"ifOperStatus{{{selected}}}", "mbps": f"ifHighSpeed{{{selected}}}"}
        found |= {f"{owner}_{name}": {"query": text, "label": label} for name, text in asked.items()}
    return found


def by_gpu(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """{UUID: {instance, fields}}: which DCGM fields each GPU reports, from which server."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        labels = row["labels"]
        gpu = found.setdefault(labels["UUID"], {"instance": labels["instance"], "fields": []})
        gpu["fields"].append(labels["__name__"])
    return {uuid: {**gpu, "fields": sorted(gpu["fields"])} for uuid, gpu in found.items()}


def server_host(plan: Plan, name: str, address: str, budget_s: float) -> SshHost:
    """A telemetry server as it is logged in to."""
    return SshHost(name, address, node_credentials(plan.site), budget_s)


@dataclass(frozen=True)
class Drill:
    """A fire drill: per alert its severity and seconds to delivery and to the all-clear (None: never came), the unit tests
    of the rules on that server, or what went wrong."""

    server: str
    alerts: Mapping[str, Mapping[str, Any]]
    unit_tests: Mapping[str, Any]
    error: str = ""


def drill(plan: Plan, address: str, stamp: int) -> Drill:
    """Let every rule fire once on the first telemetry server, for devices that do not exist, and wait for the all-clear.

    `address` is that server's in the provisioning network; `stamp` (a time) makes the names of the devices new.
    """
    server, rules = telemetry.servers(plan)[0], telemetry.load(plan.site)
    deliver_s = float(telemetry.limit(plan.site, "alert_delivery_s").value)
    host = server_host(plan, server, address, 2 * deliver_s + DRILL_SPARE_S)
    try:
        said = host.program(DRILL, drill_request(plan.site, rules, stamp), operation="fire drill")
        answer = read(FireDrill, said, Source(server, "fire drill", "run python3 on the server by hand"))
    except DeviceError as error:
        return Drill(server, {}, {}, str(error))
    return Drill(server, answer["alerts"], answer["unit_tests"])


def drill_request(site: Site, rules: tuple[telemetry.Rule, ...], stamp: int) -> dict[str, Any]:
    """What fire_drill.py is asked: every rule has a device of its own, so that no drill disturbs another's."""
    deliver_s = float(telemetry.limit(site, "alert_delivery_s").value)
    subject = {rule.alert: f"{telemetry.DRILL}-{stamp}-{rule.alert}" for rule in rules}
    return {
        "folder": telemetry.METRICS,
        "port": telemetry.DRILL_PORT,
        "series": [
            {
                "name": one.name,
                "labels": {k: subject[rule.alert] if v == telemetry.DRILL else v for k, v in one.labels.items()},
                "values": one.values,
                "step": one.step,
            }
            for rule in rules
            for one in rule.drill
        ],
        "expect": {
            rule.alert: {"subject": subject[rule.alert], "clears": telemetry.clears_in_a_drill(rule, site)}
            for rule in rules
        },
        "interval_s": telemetry.interval_s(site),
        "deliver_s": deliver_s,
        "tests": telemetry.RULE_TESTS,
    }
