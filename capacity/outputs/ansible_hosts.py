"""Ansible's hosts, groups and variables of a site, computed from its plan.

    python -m capacity.outputs.ansible_hosts PATH     as JSON, for the inventory plugin (playbooks/inventory_plugins/bringup.py)

Out: every server of the plan; groups by role (gpu, controller, storage, …), compute (all that runs jobs), nvidia (those of
     a site that pins NVIDIA's driver), kubernetes (controllers and compute of a site of Kubernetes, else empty) and rack_<name>.
     There is no second list of hosts. No variable holds a secret.
"""

import gc
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from capacity.build import build
from capacity.model import Plan
from capacity.services import slurm, telemetry
from capacity.services.boot import boot_server
from capacity.services.cluster import NOTICES_DRILL, ClusterError, cluster, notices_from
from capacity.services.platform.sharing import offers
from capacity.sizes import load_site
from capacity.storage.load import shared
from inventory.catalog import Catalog, CatalogError
from inventory.catalog.devices import DeviceType
from inventory.delivered.assets import AssetError, load_assets
from inventory.delivered.firmware import Bundle, BundleError, load_bundles
from inventory.gpu_stack import load_stack, nccl_settings
from inventory.paths import var_dir
from inventory.secrets import SecretError, reference_path, site_path
from inventory.site import Site, SiteError
from network import roce_host
from network.infiniband.subnet import compute_ports, guid_book
from network.wiring import ipv6

LLDP_HOLD = 4  # msgTxHold, IEEE 802.1AB-2016 9.2.5.6: what was said holds for four intervals

REFUSED = 3
"""Exit status of a site without an inventory. stderr says why."""


class NoInventoryError(Exception):
    """A site whose nodes the playbooks cannot configure. The message says why."""


@dataclass(frozen=True)
class Hosts:
    """What Ansible gets: variables of all hosts, variables per host, groups per host."""

    common: dict[str, Any]
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)


def records(frame: Any) -> Iterator[dict[str, Any]]:
    """Rows of a pandas frame as plain Python values."""
    for row in frame.to_dict("records"):
        yield {key: value.item() if hasattr(value, "item") else value for key, value in row.items()}


def links_of(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Per server its in-band links, in the order of its ports: own and leaf side of each /31, and of each /127 of IPv6."""
    found = plan.addresses[plan.addresses["network"] == "link"]
    second = ipv6.addresses(plan.site, plan.catalog, found)
    beside = dict(zip(zip(second["device"], second["interface"], strict=True), second["address"], strict=True))
    columns = [found[name].tolist() for name in ("device", "interface", "address", "peer_device", "peer_interface")]
    by_port = {(device, interface): address for device, interface, address, _, _ in zip(*columns, strict=True)}
    links: dict[str, list[dict[str, Any]]] = {}
    for device, interface, address, leaf, port in zip(*columns, strict=True):
        links.setdefault(device, []).append(
            {
                "interface": interface,
                "address": address,
                "leaf": leaf,
                "port": port,
                "leaf_address": by_port[leaf, port].partition("/")[0],
                **_ipv6_of(beside, (device, interface), (leaf, port)),
            }
        )
    return {device: sorted(own, key=lambda link: link["interface"]) for device, own in links.items()}


def _ipv6_of(beside: dict[tuple[str, str], str], own: tuple[str, str], leaf: tuple[str, str]) -> dict[str, str]:
    """The second addresses of a link's ends; none where the site has no IPv6."""
    if own not in beside:
        return {}
    return {"address_ipv6": beside[own], "leaf_address_ipv6": beside[leaf].partition("/")[0]}


def oob_legs_of(plan: Plan, servers: set[str]) -> dict[str, dict[str, str]]:
    """Interface and addresses (with prefix length) in the out-of-band network of each server that has a leg there."""
    found = plan.addresses[(plan.addresses["network"] == "oob") & plan.addresses["device"].isin(servers)]
    legs = {}
    for row in records(found):
        second = ipv6.beside_management(plan.site, row["address"])
        beside = {"address_ipv6": second} if second else {}
        legs[row["device"]] = {"interface": row["interface"], "address": row["address"], **beside}
    return legs


def slurm_of(plan: Plan, catalog: Catalog, addresses: dict[str, str]) -> dict[str, Any]:
    """What the Slurm roles write: the design of the plan, each node with its in-band address, and the checks' users.

    `held` are the items of acceptance that have to pass before a node returns, by part of the health check. Where workloads compute
    on CPUs nothing proves the GPUs, so none is held.
    """
    design = slurm.design(plan, catalog).plain()
    design["nodes"] = [{**node, "address": addresses[node["name"]]} for node in design["nodes"]]
    users = [{"name": name, "uid": uid} for name, uid in slurm.CHECK_USERS.items()]
    held = {"gpus": "S026.measured"} if plan.site.validation.workloads_on == "gpu" else {}
    return {**design, "check_account": slurm.CHECK_ACCOUNT, "check_users": users, "held": held}


def storage_of(plan: Plan) -> dict[str, Any]:
    """The shared file system: kind, source, mount_point, volume, servers."""
    found = asdict(shared(plan.site, plan.devices))
    return {**found, "servers": list(found["servers"])}


def nvidia_of(site: Site) -> dict[str, Any]:
    """NVIDIA's packages with their pins, and the repositories that nodes must be told of; {} where no driver is pinned."""
    stack, key = load_stack(), site.os.key
    try:
        packages = stack.packages(key, site.versions)
    except LookupError as error:
        raise NoInventoryError(f"{site.path}: versions: {error}") from None
    repositories = stack.repositories_of[key] if packages and site.os.nvidia_packages == "official" else []
    return {"packages": packages, "repositories": repositories} if packages else {}


def repositories_of(site: Site) -> list[dict[str, Any]]:
    """The site's own package repositories, each with the path of its key on this machine."""
    return [
        {
            "name": repository.name,
            "uris": repository.url,
            "suites": list(repository.suites),
            "components": list(repository.components),
            "key": str(site_path(repository.key, site.dir)),
        }
        for repository in site.os.repositories
    ]


def nccl_of(site: Site, server: DeviceType) -> dict[str, str]:
    """What /etc/nccl.conf says on a server."""
    return nccl_settings(server, bool(site.fabric.subnet_managers), roce_host.class_of(site))


def adapter_hosts_of(plan: Plan) -> set[str]:
    """Servers with a port in an InfiniBand compute fabric."""
    if plan.site.fabric.kind != "ib":
        return set()
    cables = plan.cables
    attached = (cables["fabric"] == "compute") & cables["stage"].isin(["node-leaf", "manager-leaf"])
    return set(cables.loc[attached, "a_device"])


def adapter_settings_of(plan: Plan, bundles: Mapping[str, Bundle], assets: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """By server in the InfiniBand compute fabric whose model's bundle sets its adapters: the settings, and the GUIDs of its planned
    adapters, as far as assets.csv has them.
    """
    model = plan.devices.set_index("name")["model"]
    guids = guid_book(assets)
    ports = compute_ports(plan) if plan.site.fabric.kind == "ib" else []
    found: dict[str, dict[str, Any]] = {}
    for port in ports:
        server = port.partition(":")[0]
        bundle = bundles.get(model[server])
        if bundle is None or not bundle.adapter_settings:
            continue
        wanted = found.setdefault(server, {"settings": dict(bundle.adapter_settings), "guids": []})
        wanted["guids"] += [guids[port]] if port in guids else []
    return found


def references_of(plan: Plan) -> dict[str, str]:
    """References to the secrets that roles resolve at the moment of use (lookup bringup_secret), and their folder."""
    credentials = plan.site.credentials
    alerts = {"alert_webhook": credentials.alerts.webhook} if credentials.alerts else {}
    return {
        "folder": str(plan.site.dir),
        "snmp_auth": credentials.snmp.auth,
        "snmp_priv": credentials.snmp.priv,
        **alerts,
        **({"slurmdbd": credentials.slurmdbd.password} if credentials.slurmdbd else {}),
    }


def cluster_of(plan: Plan) -> dict[str, Any]:
    """The Kubernetes cluster, and which of its controllers tells of events."""
    return replace(cluster(plan), notices_from=notices_from(plan)).plain()


def notices_of(plan: Plan) -> dict[str, Any]:
    """What the role kubernetes_notices writes, with references in the place of URLs; {} where nobody is told anything."""
    given = plan.site.credentials.notifications
    if given is None or not notices_from(plan):
        return {}
    return {
        "accounts": dict(given.accounts),
        "others": {name: one for name in ("default", "operators") if (one := getattr(given, name))},
        "names": [account.name for account in plan.site.scheduler.accounts],
        "drill": {"account": slurm.CHECK_ACCOUNT, "url": NOTICES_DRILL},
    }


def telemetry_of(plan: Plan) -> dict[str, Any]:
    """What the telemetry roles write, as the plan says it."""
    asked = telemetry.targets(plan)
    return {
        "bringup_telemetry": {
            "files": telemetry.files(plan, asked),
            "metrics": telemetry.METRICS,
            "retention_d": telemetry.limit(plan.site, "telemetry_retention_d").value,
        },
        "bringup_scrapes": {
            "targets": len(asked),
            "slowest_interval_s": telemetry.slowest_interval_s(plan.site),
        },
        "bringup_snmp": {"modules": telemetry.snmp.modules(plan.site), "auth": telemetry.snmp.auth(plan.site)},
        "bringup_alertmanager": telemetry.alertmanager(plan.site),
    }


def hosts_of(plan: Plan, catalog: Catalog) -> Hosts:
    """The inventory of a plan. Pure."""
    site = plan.site
    servers = list(records(plan.devices.loc[plan.devices["kind"] == "server", ["name", "role", "model"]]))
    rack_of = dict(zip(plan.placements["device"].tolist(), plan.placements["rack"].tolist(), strict=True))
    addresses = plan.addresses[plan.addresses["network"].isin(["provisioning", "loopback"])]
    address_of = {
        (device, network): address.partition("/")[0]
        for device, network, address in zip(
            *(addresses[name].tolist() for name in ("device", "network", "address")), strict=True
        )
    }
    second = ipv6.addresses(site, plan.catalog, plan.addresses[plan.addresses["network"] == "loopback"])
    loopback_ipv6 = {
        device: text.partition("/")[0] for device, text in zip(second["device"], second["address"], strict=True)
    }
    given = (site.addressing.loopbacks_ipv6, site.addressing.links_ipv6)
    second_prefixes = [prefix for prefix in given if prefix is not None]
    links = links_of(plan)
    legs = oob_legs_of(plan, {row["name"] for row in servers})
    loopbacks = [{"name": row["name"], "address": address_of[row["name"], "loopback"]} for row in servers]
    of_role = {row["name"]: row["role"] for row in servers}
    controllers = [item for item in loopbacks if of_role[item["name"]] == "controller"]
    lldp_max_age = site.limits.get("lldp_max_age_s")
    hosts = Hosts(
        common={
            "ansible_user": site.credentials.ssh.user,
            "ansible_ssh_private_key_file": str(reference_path(site.credentials.ssh.key, site.dir)),
            "ansible_ssh_common_args": shlex.join(
                f"-o{option}"
                for option in (
                    f"UserKnownHostsFile={site_path(site.credentials.ssh.known_hosts, site.dir)}",
                    "StrictHostKeyChecking=yes",
                    "IdentitiesOnly=yes",
                )
            ),
            "ansible_python_interpreter": "/usr/bin/python3",
            "bringup_site": site.name,
            "bringup_plan_hash": plan.hash,
            "bringup_os": {"name": site.os.name, "version": site.os.version},
            "bringup_versions": dict(site.versions),
            "bringup_repositories": repositories_of(site),
            "bringup_slurm_packages": site.scheduler.packages,
            "bringup_nvidia": nvidia_of(site),
            "bringup_mtu": site.inband.mtu,
            "bringup_inband_prefixes": [str(site.addressing.loopbacks), str(site.addressing.links)],
            **(
                {"bringup_inband_prefixes_ipv6": [str(prefix) for prefix in second_prefixes]} if second_prefixes else {}
            ),
            "bringup_provisioning_prefix": str(site.addressing.provisioning),
            "bringup_ntp": [str(address) for address in site.addressing.ntp],
            "bringup_dns": [str(address) for address in site.addressing.dns],
            "bringup_time_servers": [address_of[item["name"], "provisioning"] for item in controllers],
            "bringup_hosts": loopbacks,
            "bringup_controllers": controllers,
            "bringup_storage": storage_of(plan),
            **(
                {"bringup_kubernetes": cluster_of(plan), "bringup_notices": notices_of(plan)}
                if site.scheduler.kind == "kubernetes"
                else {}
            ),
            "bringup_slurm": slurm_of(plan, catalog, {item["name"]: item["address"] for item in loopbacks}),
            "bringup_limits": {name: limit.value for name, limit in site.limits.items()},
            "bringup_references": references_of(plan),
            **({"bringup_lldp_interval_s": max(1, int(lldp_max_age.value / LLDP_HOLD))} if lldp_max_age else {}),
        }
    )
    infiniband, roce = adapter_hosts_of(plan), roce_host.wanted(plan)
    shared = {name: asdict(one) for name, one in offers(plan).items()} if site.scheduler.kind == "kubernetes" else {}
    for row in servers:
        name = row["name"]
        hosts.hosts[name] = {
            "ansible_host": address_of[name, "provisioning"],
            "bringup_role": row["role"],
            "bringup_model": row["model"],
            "bringup_rack": rack_of[name],
            "bringup_loopback": address_of[name, "loopback"],
            **({"bringup_loopback_ipv6": loopback_ipv6[name]} if name in loopback_ipv6 else {}),
            "bringup_links": links.get(name, []),
            "bringup_oob": legs.get(name, {}),
            **(
                {"bringup_nccl": nccl_of(site, catalog.device(row["model"]))}
                if row["role"] in slurm.COMPUTE_ROLES
                else {}
            ),
        }
        groups = [row["role"], f"rack_{rack_of[name]}".replace("-", "_")]
        if row["role"] in slurm.COMPUTE_ROLES:
            groups += ["compute", *(["nvidia"] if hosts.common["bringup_nvidia"] else [])]
        if "bringup_kubernetes" in hosts.common and row["role"] in ("controller", *slurm.COMPUTE_ROLES):
            groups.append("kubernetes")
        if name in shared:
            hosts.hosts[name]["bringup_gpu_sharing"] = shared[name]
        groups += ["infiniband"] if name in infiniband else []
        if name in roce:
            groups.append("roce")
            hosts.hosts[name]["bringup_roce"] = roce[name]
        for group in groups:
            hosts.groups.setdefault(group, []).append(name)
    for name in hosts.groups.get("management", [])[:1]:
        folder = var_dir(site.name)
        hosts.hosts[name]["bringup_boot"] = {
            "folder": str(folder / "boot"),
            "images": str(folder / "images"),
            "address": str(boot_server(plan)),
        }
    if watching := telemetry.servers(plan):
        told = telemetry_of(plan)
        hosts.groups["telemetry"] = list(watching)
        for name in watching:
            hosts.hosts[name] |= told
    return hosts


def without_a_role(plan: Plan) -> str:
    """Why the playbooks cannot configure the nodes: no role installs the driver of their GPUs' maker. '' where they can."""
    gpu = plan.catalog.gpus[plan.site.gpu.sku]
    if gpu.manufacturer == "NVIDIA":
        return ""
    maker = gpu.manufacturer
    return (
        f"{maker} {gpu.model} (site gpu.sku: {gpu.slug}): no role here installs {maker}'s driver, and no check reads its GPUs. "
        "Planning, purchase and drawings work; configure the nodes by other means."
    )


def read(path: str) -> Hosts:
    """The inventory of a site file, or of the shipped site of that name.

    SiteError, CatalogError, SecretError, ClusterError, BundleError, AssetError or NoInventoryError where it has none.
    """
    site = load_site(path)
    plan = build(site)
    if refusal := without_a_role(plan):
        raise NoInventoryError(refusal)
    hosts = hosts_of(plan, plan.catalog)
    for name, wanted in adapter_settings_of(plan, load_bundles(site), load_assets(site)).items():
        hosts.hosts[name]["bringup_adapter_settings"] = wanted
    return hosts


def main() -> int:
    """The hosts as one JSON object on stdout; REFUSED with the message alone on stderr where there are none."""
    gc.disable()  # with it a third more processor time and no less memory, as at 2,000 servers
    try:
        hosts = read(sys.argv[1])
    except (SiteError, CatalogError, SecretError, ClusterError, BundleError, AssetError, NoInventoryError) as error:
        sys.stderr.write(str(error))
        return REFUSED
    json.dump(vars(hosts), sys.stdout)
    gc.freeze()  # Python would look through all libraries and frames at exit (decision 0337)
    return 0


if __name__ == "__main__":
    sys.exit(main())
