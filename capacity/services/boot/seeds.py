"""cloud-init's NoCloud seed of one server: name, address, login by public key. No secret: host keys are made at first boot.

The node prints the public half of its host key on its console (cloud-init, module keys_to_console), where the BMC shows it:
`console_keys` reads it there, so that the first login needs no trust on first use.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from capacity.model import Plan
from capacity.services.boot.images import Image
from capacity.services.boot.intents import BootError
from network.roce import PUBLIC_KEY

KEY_TYPES = ("ed25519",)
_KEYS = re.compile(
    r"-----BEGIN SSH HOST KEY KEYS-----\s(.*?)-----END SSH HOST KEY KEYS-----", flags=re.DOTALL | re.MULTILINE
)
_KEY = re.compile(r"\b(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+) ([A-Za-z0-9+/]+={0,2})(?= |$)", flags=re.MULTILINE)


def seed(plan: Plan, host: Mapping[str, str], public_key: str, writing: str = "") -> dict[str, str]:
    """Files of the seed by name. `host` is a row of Intents.hosts; `public_key` a line of authorized_keys, '' for none; `writing`
    that of writing_id(), where an image is written.
    """
    device = host["device"]
    instance = "-".join(filter(None, (plan.site.name, device, writing)))
    return {
        "meta-data": _yaml({"instance-id": instance, "local-hostname": device}),
        "user-data": "#cloud-config\n" + _yaml(user_data(plan, device, public_key)),
        "network-config": _yaml(network(plan, host)),
    }


def writing_id(image: Image, serials: Sequence[str], consents: Mapping[str, str]) -> str:
    """What a writing is known by, 12 hex digits: the image, the drives, and what is consented to. The boot server serves no seed
    once more that a server was written with, so each writing has its own.
    """
    written = [image.version, image.parts["root"].sha256, [*serials], sorted(consents.items())]
    return hashlib.sha256(json.dumps(written).encode()).hexdigest()[:12]


def user_data(plan: Plan, device: str, public_key: str) -> dict[str, Any]:
    """The cloud-config of one server."""
    login = plan.site.credentials_given.ssh.user if plan.site.credentials_given else "root"
    keys = [authorized(public_key)] if public_key else []
    user: dict[str, Any] = {"name": login, "lock_passwd": True, "ssh_authorized_keys": keys}
    if login != "root":
        user |= {"shell": "/bin/bash", "sudo": "ALL=(ALL) NOPASSWD:ALL"}
    return {
        "hostname": device,
        "preserve_hostname": False,
        "disable_root": login != "root",
        "ssh_pwauth": False,
        "ssh_deletekeys": True,
        "ssh_genkeytypes": list(KEY_TYPES),
        "ssh": {"emit_keys_to_console": True},
        "users": [user],
    }


def network(plan: Plan, host: Mapping[str, str]) -> dict[str, Any]:
    """Network configuration, version 2: the provisioning port by its MAC, with the planned address."""
    port: dict[str, Any] = {
        "match": {"macaddress": host["mac"]},
        "set-name": host["interface"],
        "dhcp4": False,
        "addresses": [host["address"]],
    }
    if plan.site.addressing.dns:
        port["nameservers"] = {"addresses": [str(server) for server in plan.site.addressing.dns]}
    return {"version": 2, "ethernets": {host["interface"]: port}}


def authorized(public_key: str) -> str:
    """A line of authorized_keys without its comment. BootError for what is no public key of OpenSSH."""
    match = PUBLIC_KEY.fullmatch(public_key)
    if match is None:
        raise BootError("public key of credentials.ssh: expected one line of OpenSSH, 'ssh-ed25519 AAAA... comment'")
    return " ".join(match.groups())


def console_keys(text: str) -> tuple[str, ...]:
    """Public host keys that a node printed on its console at its last first boot ('type base64' each); () for none."""
    blocks = _KEYS.findall(text.replace("\r", ""))
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(blocks[-1])) if blocks else ()


def _yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, default_flow_style=False, width=1000))
