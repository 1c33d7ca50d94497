"""Configuration of the compute switches of a RoCE site: Plan -> SwitchConfig -> text, one file per switch.

    made = rendering(plan, public_key="ssh-ed25519 AAAA…")
    made.files           {"rol001.yaml": "…", …, "secrets.sh": "…", "host_routes.csv": "…"}
    made.not_covered     what the files leave to other means, in sentences

Nothing here talks to a switch; network/push.py does.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from inventory.site import Site
from network import nos, render, separation
from network.nos.cumulus import startup
from network.nos.eos import startup_config
from network.nos.model import Ipv6, Management, Model, Port, SwitchConfig
from network.nos.sonic import config_db
from network.render import Plan
from network.wiring import ipv6, lossless, rails

CABLE_STEP_M = 5
"""Cable lengths are rounded up to this, so that a switch has few PFC profiles."""


@dataclass(frozen=True)
class System:
    """How one network OS is configured.

    ``read``       the model that a configuration says, also the text that its driver gets from a switch
    ``file``       name of its configuration on the switch
    ``suffix``     what the names of its rendered files end with
    ``snmp_user``  commands that make the SNMPv3 user: {user} is filled in, passphrases are in the environment
    ``tells_lengths``  whether its configuration has the lengths of cables
    ``password``   command that sets the password of the account, where its driver logs in with one
    """

    render: Callable[[SwitchConfig], str]
    read: Callable[[str], Model]
    file: str
    suffix: str
    snmp_user: str
    password: str = ""
    tells_lengths: bool = True


SYSTEMS: Mapping[str, System] = {
    "cumulus": System(startup.render, startup.read, "startup.yaml", ".yaml", startup.SNMP_USER, startup.PASSWORD),
    "eos": System(
        startup_config.render,
        startup_config.read,
        "startup-config",
        ".cfg",
        startup_config.SNMP_USER,
        startup_config.PASSWORD,
        tells_lengths=False,
    ),
    "sonic": System(config_db.render, config_db.read, "config_db.json", ".json", config_db.SNMP_USER),
}
"""{network OS: how it is configured}."""
NEEDED = ("fabric.nos", "fabric.asn_base", "addressing.compute_loopbacks", "addressing.rails")
"""Site keys without which compute switches get no configuration."""
PUBLIC_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]{40,4000}={0,2})(?: [^\n]*)?\n?"
)


class PublicKeyError(ValueError):
    """A public key in another form than OpenSSH's."""


@dataclass(frozen=True)
class Rendering:
    """Texts by file name, and what they leave to other means."""

    files: Mapping[str, str]
    not_covered: tuple[str, ...]


def switches(plan: Plan) -> list[str]:
    """Names of the compute switches of a RoCE site, in the order of the plan; none on InfiniBand."""
    if plan.site.fabric.kind != "roce":
        return []
    devices = plan.devices
    return list(devices.loc[(devices["kind"] == "switch") & (devices["fabric"] == "compute"), "name"])


def missing_keys(site: Site) -> list[str]:
    """Those of the needed site keys that the site does not give."""
    values = {
        "fabric.nos": site.fabric.nos,
        "fabric.asn_base": site.fabric.asn_base,
        "addressing.compute_loopbacks": site.addressing.compute_loopbacks,
        "addressing.rails": site.addressing.rails,
    }
    return [key for key in NEEDED if values[key] is None]


def is_rendered(plan: Plan) -> bool:
    """Whether the site's compute switches get a configuration: a RoCE site with all needed keys, and a system that fits."""
    site = plan.site
    return (
        bool(switches(plan)) and not missing_keys(site) and lossless.runs_on_switch(site) and lossless.takes_mtu(site)
    )


def rendering(plan: Plan, public_key: str = "") -> Rendering:
    """Files of all compute switches. Without a needed key, or on InfiniBand, no files, and what is missing is said.

    `public_key` is a line of OpenSSH for the account of credentials.switch; one in another form raises PublicKeyError.
    """
    names, site = switches(plan), plan.site
    if not names:
        return Rendering({}, ())
    missing = missing_keys(site)
    if missing or site.fabric.nos is None:
        return Rendering({}, (f"compute switches: no configuration without {', '.join(missing)}",))
    if not lossless.runs_on_switch(site):
        return Rendering(
            {}, ("compute switches: fabric.nos does not run on fabric.switch_model (FABRIC-LOSSLESS-SYSTEM)",)
        )
    if not lossless.takes_mtu(site):
        return Rendering(
            {}, ("compute switches: fabric.mtu is above the largest of fabric.nos (FABRIC-LOSSLESS-SYSTEM)",)
        )
    configs = structured_configs(plan, public_key)
    system = SYSTEMS[site.fabric.nos]
    files = {f"{name}{system.suffix}": system.render(configs[name]) for name in names if name in configs}
    routes = [one.host_routes(site, plan.catalog, plan.addresses, plan.devices) for one in (rails, ipv6)]
    files["host_routes.csv"] = pd.concat([one for one in routes if len(one)] or routes[:1]).to_csv(
        index=False, lineterminator="\n"
    )
    if site.credentials_given is not None:
        files["secrets.sh"] = secrets(site, site.fabric.nos)
    return Rendering(files, tuple(_not_covered(plan, names, configs, public_key)))


def structured_configs(plan: Plan, public_key: str = "") -> dict[str, SwitchConfig]:
    """{switch: its configuration as plain data} of all compute switches whose addresses are planned.

    Raises ValueError where the site lacks a needed key, PublicKeyError for a key in another form than OpenSSH's.
    """
    site, names = plan.site, switches(plan)
    intent, split = lossless.intent(site), rails.rails_of(site, plan.catalog)
    loopbacks, prefix = site.addressing.compute_loopbacks, site.addressing.rails
    if intent is None or split is None or loopbacks is None or prefix is None or missing_keys(site):
        raise ValueError(f"site {site.name}: compute switches need {', '.join(missing_keys(site))}")
    devices = plan.devices.set_index("name").loc[names]
    hops = 2 * devices["role"].nunique() - 1  # up through every tier and down again
    figures = lossless.figures(site, hops, plan.cables)
    by_network = {
        network: dict(zip(zip(rows["device"], rows["interface"], strict=True), rows["address"], strict=True))
        for network, rows in plan.addresses.groupby("network", sort=False)
    }
    second = ipv6.addresses(site, plan.catalog, plan.addresses)
    beside = dict(zip(zip(second["device"], second["interface"], strict=True), second["address"], strict=True))
    ports = _ports(plan, names, by_network.get(rails.RAIL, {}), beside)
    limit = site.limits.get("bfd_detect_s")
    parents = breakouts(plan.catalog.device(site.fabric.switch_model).data_port_names())
    managed_by = {device: (port, address) for (device, port), address in by_network.get("oob", {}).items()}
    made: dict[str, SwitchConfig] = {}
    if split.units < 1:
        return made
    for name, role, unit, rail, asn in devices[["role", "unit", "rail", "asn"]].itertuples(name=None):
        loopback = by_network.get(rails.LOOPBACK, {}).get((name, "lo"))
        if loopback is None or name not in managed_by or unit >= split.units:
            continue
        made[name] = SwitchConfig(
            hostname=name,
            switch_model=site.fabric.switch_model,
            asn=int(asn),
            loopback=loopback,
            loopbacks=str(loopbacks),
            rails=str(prefix),
            leaf_length=split.leaf(0, 0).prefixlen,
            aggregate=str(split.leaf(int(unit), int(rail))) if role == "leaf" and rail >= 0 else "",
            ports=tuple(ports[name]),
            breakouts=parents,
            management=management(site, *managed_by[name], public_key),
            intent=intent,
            ecn=figures.ecn.get(name) if figures is not None and intent.marks else None,
            bfd_ms=int(limit.value * 1000 / render.BFD_MISSED) if limit else None,
            permits=separation.at_ports(site, "compute"),
            drained=name in site.fabric.maintenance,
            ipv6=_ipv6(site, beside.get((name, "lo")), int(unit), int(rail) if role == "leaf" else -1),
        )
    return made


def _ipv6(site: Site, loopback: str | None, unit: int, rail: int) -> Ipv6 | None:
    """The IPv6 part of a switch; `rail` -1 for one without a prefix of its own."""
    split = rails.rails_of_ipv6(site)
    if loopback is None or split is None:
        return None
    aggregate = str(split.leaf(unit, rail)) if rail >= 0 else ""
    return Ipv6(loopback, str(site.addressing.compute_loopbacks_ipv6), str(split.prefix), aggregate)


def models(plan: Plan) -> dict[str, Model]:
    """{switch: what its system has to say when it is read back}; {} on InfiniBand and where a needed key is missing."""
    site = plan.site
    if not is_rendered(plan):
        return {}
    lengths = SYSTEMS[str(site.fabric.nos)].tells_lengths
    configs = structured_configs(plan).items()
    return {name: one.model() if lengths else one.model().without_lengths() for name, one in configs}


def secrets(site: Site, system_name: str) -> str:
    """Commands that set what no file of this network OS may contain, with the values taken from the environment."""
    given = site.credentials_given
    if given is None:
        return ""
    system = SYSTEMS[system_name]
    wanted = {"SNMP_AUTH": given.snmp.auth, "SNMP_PRIV": given.snmp.priv}
    commands = [system.snmp_user.format(user=shlex.quote(given.snmp.user))]
    if given.switch.password is not None and system.password:
        wanted["SWITCH_PASSWORD"] = given.switch.password
        commands.insert(0, system.password.format(user=shlex.quote(given.switch.user)))
    when = "before" if system_name == "eos" else "after"  # EOS's file removes the account that it is delivered with
    lines = [
        "#!/bin/sh",
        f"# Run on each switch {when} {system.file} is in place, with these variables in the environment:",
        *(f"#   {name}  {_on_one_line(reference)}" for name, reference in wanted.items()),
        "# Never run on a device.",
        "set -eu",
        ": " + " ".join('"${' + name + ':?}"' for name in wanted),
        *commands,
    ]
    return "\n".join(lines) + "\n"


def _on_one_line(text: str) -> str:
    """For a comment of a shell script: characters that end a line, and other unprintable ones, are replaced."""
    return "".join(c if c.isprintable() else "?" for c in text)


def management(site: Site, port: str, address: str, public_key: str) -> Management:
    """The management interface of a switch, with what the site gives for all of them. PublicKeyError as `rendering` says."""
    user, key_type, key = "", "", ""
    if public_key and site.credentials_given is not None:
        match = PUBLIC_KEY.fullmatch(public_key)
        if match is None:
            raise PublicKeyError(
                "public key of credentials.switch: expected one line of OpenSSH, 'ssh-ed25519 AAAA... comment'"
            )
        user, (key_type, key) = site.credentials_given.switch.user, match.groups()
    addressing = site.addressing
    return Management(
        port=port,
        address=address,
        ntp=tuple(map(str, addressing.ntp)),
        dns=tuple(map(str, addressing.dns)),
        syslog=tuple(map(str, addressing.syslog)),
        user=user,
        key_type=key_type,
        key=key,
    )


def _ports(
    plan: Plan, names: list[str], addresses: Mapping[tuple[str, str], str], beside: Mapping[tuple[str, str], str]
) -> dict[str, list[Port]]:
    """Cabled ports of each switch, in the order of its ports. A server's port is one with an address; `beside`: those of IPv6."""
    position = {p: i for i, p in enumerate(plan.catalog.device(plan.site.fabric.switch_model).data_port_names())}
    compute = plan.cables[plan.cables["fabric"] == "compute"]
    made: dict[str, list[Port]] = {name: [] for name in names}
    for near, far in (("a", "b"), ("b", "a")):
        columns = [f"{near}_device", f"{near}_port", f"{far}_device", f"{far}_port", "stage", "length_m"]
        for device, port, other, other_port, stage, length in compute[columns].itertuples(index=False, name=None):
            if device not in made:
                continue
            address = addresses.get((device, port))
            if stage == "node-leaf" and address is None:
                continue
            steps = max(1, -(-float(length) // CABLE_STEP_M))
            cable_m = int(steps) * CABLE_STEP_M
            made[device].append(Port(port, other, other_port, address, cable_m, beside.get((device, port))))
    for ports in made.values():
        ports.sort(key=lambda one: position[one.name])
    return made


def breakouts(names: list[str]) -> dict[str, int]:
    """{cage port: number of ports that it is split into}, from names like swp1s0; empty for whole ports."""
    found: dict[str, int] = {}
    for name in names:
        match = re.fullmatch(r"([a-z]+[0-9]+)s[0-9]+", name)
        if match:
            found[match[1]] = found.get(match[1], 0) + 1
    return found


def _not_covered(plan: Plan, names: list[str], configs: Mapping[str, SwitchConfig], key: str) -> list[str]:
    site, found = plan.site, []
    assert site.fabric.nos is not None
    run = nos.capabilities(site.fabric.nos)["run"]
    if nos.has_driver(site.fabric.nos):
        found.append(f"driver of network OS {site.fabric.nos}: {run}; `bringup switches preview` asks the switches")
    else:
        found.append(f"nothing applies these files: network OS {site.fabric.nos}, {run}")
    left = [name for name in names if name not in configs]
    if left:
        found.append(f"{len(left)} switches without a planned address, first {left[0]} (ADDRESSING-EXHAUSTED)")
    if site.fabric.nos == "sonic":
        found.append(
            "accounts and SSH keys: config_db has no table for them, so the default login stays until `bringup boot render` ends it"
        )
        found.append("management address: the port asks DHCP, since SONiC's models refuse an address without a gateway")
        found.append("base MAC: loaded by `config reload -l`, since the plan knows none")
    elif site.fabric.nos == "eos":
        found.append(
            "account of credentials.switch: by `bringup boot render`, or secrets.sh before the file is loaded by hand"
        )
        found.append("headroom of the ports: EOS has no line for cable lengths and decides it itself")
    if site.fabric.nos != "sonic" and not key:
        found.append("SSH key: no public key beside the one of credentials.switch.key, so the default login stays")
    if not site.addressing.syslog:
        found.append("syslog: the site gives no addressing.syslog")
    if site.credentials_given is None:
        found.append("SNMPv3: the site gives no credentials")
    else:
        found.append("SNMPv3 passphrases: secrets.sh sets them from the environment")
    if any(config.ecn is None and config.intent.marks for config in configs.values()):
        found.append("ECN thresholds: see the findings FABRIC-LOSSLESS-BUFFER and FABRIC-LOSSLESS-UNKNOWN")
    outside = [a for a in (*site.addressing.ntp, *site.addressing.dns) if a not in site.addressing.oob]
    if outside:
        found.append(f"route from the management network to {', '.join(sorted({str(a) for a in outside}))}")
    found.append(
        "adapters of the servers: playbooks/site.yml sets them (role roce); host_routes.csv is for other means"
    )
    found.append("image and first boot of the switches: `bringup boot render`; licence")
    return found
