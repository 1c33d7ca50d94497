"""What the subnet managers of a site are to be told: plan and GUIDs in, configuration files out. Pure.

    managers(plan)                 -> ["ctl01", "sto01"], the master first
    render(plan, guids, "ctl01")   -> {"/etc/opensm/opensm.conf": "…", …}

Every manager gets the same files but for its own port and priority, so that a standby which takes over routes and
partitions as the master did. `guids` maps a switch to its node GUID and DEVICE:PORT to the GUID of that adapter's port,
16 hex digits each (inventory.delivered.assets).

Partitions: in the default partition (P_Key 0x7fff) the managers are full members and all other ports limited ones, so
that hosts reach the subnet manager and no host another one. GPU servers are full members of `compute` (0x8001), which
the managers are not in: jobs name it (NCCL_IB_PKEY), service nodes stay out of it (S053).

Quality of service: service level 0 is the bulk traffic of jobs on virtual lane 0, service level 1 is for what must not
wait behind it, on virtual lane 1 with high priority. A fat tree needs no lanes against deadlock.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from network.render import Plan

CONFIG = "/etc/opensm/opensm.conf"
PARTITIONS = "/etc/opensm/partitions.conf"
ROOTS = "/etc/opensm/root_guids.conf"
UNIT_FILE = "/etc/systemd/system/opensm.service"
UNIT = "opensm.service"
LOG = "/var/log/opensm.log"
PACKAGES = ("opensm", "infiniband-diags")
"""Also in playbooks/packages.yaml, for mirrors."""

HIGHEST_PRIORITY = 15
"""IBA specification 1.4, 14.4.1: SM priority 0 to 15; the manager with the highest one is the master."""
DEFAULT_PKEY, FULL_MEMBER = 0x7FFF, 0x8000
COMPUTE_PKEY = 0x0001
SERVICE_LEVELS = 16
BULK_LEVEL = 0
"""Service level of the traffic of jobs."""
VIRTUAL_LANE = {1: 1}
"""Virtual lane of each service level; 0 for all that are not named."""
DATA_LANES = 2
WEIGHT = 64
"""Of a lane within its own priority, in units of 64 bytes (IBA 7.6.9); with one lane in each it changes nothing."""
HIGH_LIMIT = 1
"""High-priority traffic, in units of 4 KiB, that may go before a low-priority packet gets its turn (IBA 7.6.9.2)."""
POLLING_MS, POLLING_RETRIES = 1000, 3
"""A standby asks the master this often and takes over after so many failures: 3 to 5 s instead of opensm's 40 s."""
ROUTING = ("ftree", "updn")
"""ftree, and where the tree is broken up/down, which is free of deadlock as well; opensm's own last resort is not."""


class MissingGuidsError(ValueError):
    """The asset list does not know the GUIDs that a subnet manager must be told; the message names the first ones."""


def managers(plan: Plan) -> list[str]:
    """Hosts that run a subnet manager, the master first; none on Ethernet."""
    return [str(device) for device in plan.cables.loc[plan.cables["stage"] == "manager-leaf", "a_device"]]


def guid_book(assets: pd.DataFrame) -> dict[str, str]:
    """{switch or DEVICE:PORT: GUID} of an asset frame (index device, column guid)."""
    return {str(device): str(guid) for device, guid in assets["guid"].items() if guid}


def manager_port(plan: Plan, host: str) -> str:
    """DEVICE:PORT that a manager's host has in the compute fabric; KeyError when it runs none."""
    rows = plan.cables[(plan.cables["stage"] == "manager-leaf") & (plan.cables["a_device"] == host)]
    if rows.empty:
        raise KeyError(f"{host} runs no subnet manager; these do: {', '.join(managers(plan)) or 'none'}")
    return f"{host}:{rows.iloc[0]['a_port']}"


def root_switches(plan: Plan) -> list[str]:
    """Switches of the highest tier."""
    compute = plan.devices[(plan.devices["kind"] == "switch") & (plan.devices["fabric"] == "compute")]
    top = next(role for role in ("core", "spine", "leaf") if role == "leaf" or (compute["role"] == role).any())
    return compute.loc[compute["role"] == top, "name"].tolist()


def compute_ports(plan: Plan) -> list[str]:
    """DEVICE:PORT of every adapter of the GPU servers in the fabric."""
    rows = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "node-leaf")]
    return (rows["a_device"] + ":" + rows["a_port"]).tolist()


def structured_config(plan: Plan, guids: Mapping[str, str], host: str) -> dict[str, Any]:
    """Everything that one manager's files say, as plain data: guid, priority, roots, partitions {name: (P_Key, GUIDs)}.

    Raises MissingGuidsError when the asset list lacks a GUID that has to be named.
    """
    order, roots, members = managers(plan), root_switches(plan), compute_ports(plan)
    ports = [manager_port(plan, manager) for manager in order]
    missing = [name for name in (*ports, *roots, *members) if name not in guids]
    if missing:
        raise MissingGuidsError(
            f"assets.csv of site {plan.site.name} has no GUID of {', '.join(missing[:8])}"
            f"{f' and {len(missing) - 8} more' if len(missing) > 8 else ''}: add what was delivered"
        )
    return {
        "guid": guids[manager_port(plan, host)],
        "priority": HIGHEST_PRIORITY - order.index(host),
        "roots": [guids[name] for name in roots],
        "partitions": {
            "Default": (DEFAULT_PKEY, [guids[port] for port in ports]),
            "compute": (COMPUTE_PKEY, [guids[port] for port in members]),
        },
    }


def expected_pkeys(plan: Plan) -> dict[str, set[int]]:
    """{DEVICE:PORT: P_Keys that its table must hold}, {} without subnet managers; the top bit means full membership."""
    if not managers(plan):
        return {}
    hosts = {manager_port(plan, host): {DEFAULT_PKEY | FULL_MEMBER} for host in managers(plan)}
    return hosts | {port: {DEFAULT_PKEY, COMPUTE_PKEY | FULL_MEMBER} for port in compute_ports(plan)}


def expected_lanes() -> list[int]:
    """The virtual lane of each service level, as every port must have it."""
    return [VIRTUAL_LANE.get(level, 0) for level in range(SERVICE_LEVELS)]


def expected_arbitration() -> dict[str, dict[int, int]]:
    """{'low' or 'high': {virtual lane: weight}}, lanes of weight 0 left out."""
    high = set(VIRTUAL_LANE.values())
    return {
        "low": {lane: WEIGHT for lane in range(DATA_LANES) if lane not in high},
        "high": {lane: WEIGHT for lane in range(DATA_LANES) if lane in high},
    }


def render(plan: Plan, guids: Mapping[str, str], host: str) -> dict[str, str]:
    """{path: text} of everything that the subnet manager on `host` reads, its systemd unit included."""
    config = structured_config(plan, guids, host)
    return {
        CONFIG: _options(plan.site.name, config),
        PARTITIONS: "".join(_partition(name, key, members) for name, (key, members) in config["partitions"].items()),
        ROOTS: "".join(f"0x{guid}\n" for guid in config["roots"]),
        UNIT_FILE: UNIT_TEXT,
    }


def _options(site: str, config: Mapping[str, Any]) -> str:
    arbitration = expected_arbitration()
    options = {
        "guid": f"0x{config['guid']}",
        "sm_priority": config["priority"],
        "routing_engine": ",".join(ROUTING),
        "root_guid_file": ROOTS,
        "partition_config_file": PARTITIONS,
        "qos": "TRUE",
        "qos_max_vls": DATA_LANES,
        "qos_high_limit": HIGH_LIMIT,
        "qos_vlarb_high": _weights(arbitration["high"]),
        "qos_vlarb_low": _weights(arbitration["low"]),
        "qos_sl2vl": ",".join(map(str, expected_lanes())),
        "sminfo_polling_timeout": POLLING_MS,
        "polling_retry_number": POLLING_RETRIES,
        "log_file": LOG,
        # Without it the log stays in a buffer, and nobody sees which routing engine is in use.
        "force_log_flush": "TRUE",
    }
    head = f"# Subnet manager of site {site}. Written by `pulumi up`; changes by hand are drift.\n"
    return head + "".join(f"{key} {value}\n" for key, value in options.items())


def _weights(weights: Mapping[int, int]) -> str:
    return ",".join(f"{lane}:{weights.get(lane, 0)}" for lane in range(DATA_LANES))


def _partition(name: str, key: int, members: Sequence[str]) -> str:
    """One GUID a line: opensm cuts longer lines, and then makes everybody a full member of one default partition."""
    everybody = "ALL=limited, ALL_SWITCHES=full" if key == DEFAULT_PKEY else ""
    return f"{name}=0x{key:04x}:\n{_lines([*([everybody] if everybody else []), *(f'0x{m}=full' for m in members)])};\n"


def _lines(members: Iterable[str]) -> str:
    return ",\n".join(members)


UNIT_TEXT = f"""\
[Unit]
Description=Subnet manager of the InfiniBand compute fabric
After=network.target rdma-load-modules@infiniband.service
StartLimitIntervalSec=0

[Service]
ExecStart=opensm -F {CONFIG}
CacheDirectory=opensm
Restart=on-failure
RestartSec=2

[Install]
WantedBy=multi-user.target
"""
"""In /etc, so that it replaces the unit of the same name that Debian's package brings, which starts with defaults."""
