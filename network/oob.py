"""Configuration of the out-of-band switches: Plan -> AccessConfig -> text, one file per switch.

    made = rendering(plan, public_key="ssh-ed25519 AAAA…")
    made.files           {"oob01.yaml": "…", …, "secrets.sh": "…"}
    made.not_covered     what the files leave to other means, in sentences

Nothing here talks to a switch. `bringup switches preview --network oob` compares one with its file; nothing pushes these files.
"""

import re
from collections.abc import Callable, Mapping

from inventory.catalog import Catalog
from network import nos
from network.nos.access import PRIORITY, ROOT_PRIORITY, AccessConfig, AccessModel, AccessPort
from network.nos.cumulus import access as cumulus
from network.nos.eos import access as eos
from network.nos.sonic import access as sonic
from network.render import Plan
from network.roce import SYSTEMS, Rendering, management, secrets
from network.wiring.oob import AGGREGATION

RENDER: Mapping[str, Callable[[AccessConfig], str]] = {
    "cumulus": cumulus.render,
    "eos": eos.render,
    "sonic": sonic.render,
}
"""{network OS: how the configuration of an out-of-band switch is written}."""
READ: Mapping[str, Callable[[str], AccessModel]] = {"cumulus": cumulus.read, "eos": eos.read, "sonic": sonic.read}
"""{network OS: what such a text says}."""
PROVISIONING = "node-provisioning"
"""Stage of the cables in the provisioning network; all others are in the management network."""


def switches(plan: Plan) -> list[str]:
    """Names of all out-of-band switches, in the order of the plan."""
    devices = plan.devices
    return list(devices.loc[(devices["kind"] == "switch") & (devices["fabric"] == "oob"), "name"])


def structured_configs(plan: Plan, public_key: str = "") -> dict[str, AccessConfig]:
    """{switch: its configuration as plain data} of all out-of-band switches with a planned address, on whose model the network OS
    runs; {} where the site names no network OS for them. PublicKeyError for a key in another form than OpenSSH's.
    """
    site, known = plan.site, set(switches(plan))
    if site.oob.nos is None:
        return {}
    own, installation = site.oob.management_vlan, site.oob.provisioning_vlan
    rows = plan.addresses[plan.addresses["network"] == "oob"]
    addresses = dict(zip(rows["device"], rows["address"], strict=True))
    ports: dict[str, list[AccessPort]] = {name: [] for name in known}
    cables = plan.cables[plan.cables["fabric"] == "oob"]
    for near, far in (("a", "b"), ("b", "a")):
        columns = [f"{near}_device", f"{near}_port", f"{far}_device", f"{far}_port", "stage"]
        for device, port, other, other_port, stage in cables[columns].itertuples(index=False, name=None):
            if device in known:
                vlan = None if other in known else installation if stage == PROVISIONING else own
                ports[device].append(AccessPort(port, other, other_port, vlan))
    made = {}
    models = dict(zip(plan.devices["name"], plan.devices["model"], strict=True))
    root = next((name for name in switches(plan) if name.startswith(AGGREGATION)), "")
    for name in switches(plan):
        if name not in addresses or not _runs_on(plan.catalog, site.oob.nos, models[name]):
            continue
        names = _ports_of(plan.catalog, models[name])
        position = {port: i for i, port in enumerate(names)}
        used = {port.name for port in ports[name]}
        made[name] = AccessConfig(
            hostname=name,
            switch_model=models[name],
            management=management(site, f"vlan{own}", addresses[name], public_key),
            management_vlan=own,
            vlans=tuple(sorted((own, installation))),
            ports=tuple(sorted(ports[name], key=lambda port: position[port.name])),
            unused=tuple(port for port in names if port not in used),
            priority=ROOT_PRIORITY if name == root else PRIORITY,
        )
    return made


def rendering(plan: Plan, public_key: str = "") -> Rendering:
    """Files of all out-of-band switches; none, and nothing said, where the site names no network OS for them."""
    system = plan.site.oob.nos
    if system is None:
        return Rendering({}, ())
    configs = structured_configs(plan, public_key)
    files = {f"{name}{SYSTEMS[system].suffix}": RENDER[system](config) for name, config in configs.items()}
    if configs and plan.site.credentials_given is not None:
        files["secrets.sh"] = secrets(plan.site, system)
    return Rendering(files, tuple(_not_covered(plan, configs, public_key)))


def _not_covered(plan: Plan, configs: Mapping[str, AccessConfig], key: str) -> list[str]:
    system, found = str(plan.site.oob.nos), []
    left = [name for name in switches(plan) if name not in configs]
    if left:
        found.append(
            f"{len(left)} out-of-band switches, first {left[0]}: {system} is not known to run on their model, or no planned address"
        )
    if not configs:
        return found
    found.append(
        f"nothing applies the files of out-of-band switches: network OS {system}, {nos.capabilities(system)['run']}"
    )
    found.append(
        "management ports of out-of-band switches: the plan has no cable there; their address is in the management VLAN"
    )
    if not key:
        found.append("SSH key of out-of-band switches: none beside credentials.switch.key, so the default login stays")
    if plan.site.oob.nos_image is None:
        found.append("release of out-of-band switches: oob.nos_image pins none, so the delivered one stays")
    return found


def _runs_on(catalog: Catalog, system: str, model: str) -> bool:
    able = nos.capabilities(system)
    if "access_models" in able:
        return model in able["access_models"]
    device = catalog.device(model)
    return device.manufacturer in able["makers"] and device.bringup.data_port_prefix == "swp"


def _ports_of(catalog: Catalog, model: str) -> list[str]:
    """All ports but the management port: those of the access network first, then uplinks that the plan does not use."""
    device = catalog.device(model)
    names = [name for one in device.interfaces if not one.mgmt_only for name in one.names()]
    return sorted(names, key=lambda name: int(re.sub(r"\D", "", name) or 0))
