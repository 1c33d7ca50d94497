"""First boot of a switch: what its zero-touch provisioning fetches, as it follows from its configuration.

    made = files(config, "cumulus", "http://10.77.0.9/ztp/48-b0-2d-00-00-01", image)
    made["provision.sh"], made["startup.yaml"]        texts by name; the switch fetches them below that address
    OPTION["cumulus"]                                 (239, "provision.sh"): DHCP option and the file that its URL names

Never run on a device. After NVIDIA's page "Zero Touch Provisioning - ZTP" of Cumulus Linux 5.11 (option 239, the mark
CUMULUS-AUTOPROVISIONING), SONiC's design document (doc/ztp/ztp.md: option 67, sections of ztp.json in lexical order) and Arista's
"Zero Touch Provisioning" of the EOS user manual (option 67, a script that writes the startup-config; EOS then restarts).

The account of credentials.switch gets its public key, and the account that the system is delivered with is locked: without a key,
or where both are one account, `refusal` says why the switch gets nothing. No file here holds a password.
"""

import json
import re
from collections.abc import Mapping
from hashlib import sha256

from inventory.site.sections.networks import NosImage
from network.nos.access import AccessConfig
from network.nos.cumulus import access, startup
from network.nos.eos import access as eos_access
from network.nos.eos import startup_config
from network.nos.model import Management, SwitchConfig
from network.nos.sonic import access as sonic_access
from network.nos.sonic import config_db

OPTION: Mapping[str, tuple[int, str]] = {
    "cumulus": (239, "provision.sh"),
    "eos": (67, "provision.sh"),
    "sonic": (67, "ztp.json"),
}
"""{network OS: DHCP option that names the first file by its URL, and that file}."""
DEFAULT_ACCOUNT: Mapping[str, str] = {
    "cumulus": startup.DEFAULT_ACCOUNT,
    "eos": startup_config.DEFAULT_ACCOUNT,
    "sonic": "admin",
}
"""{network OS: the account that it is delivered with}; their passwords are published."""
FETCH = "curl -fsS --retry 5 --retry-delay 5 --max-time"
FLASH = "/mnt/flash"
"""Folder that EOS boots from."""
SMALL_S, IMAGE_S = 60, 1800
"""Seconds for a file of a switch, and for an image of 1 to 2 GB over a management port of 100 Mbit/s, with room."""


def refusal(management: Management, system: str) -> str:
    """Why a switch must not be provisioned: its default login would stay. '' for a switch that may."""
    if not management.key:
        return "no public key beside the one of credentials.switch.key: the default login would stay"
    if management.user == DEFAULT_ACCOUNT[system]:
        return f"credentials.switch.user is {management.user}, the account of the factory: name another one"
    return ""


def files(config: SwitchConfig | AccessConfig, system: str, url: str, image: NosImage | None) -> dict[str, str]:
    """Texts by name. `url` is the folder that they are served from, `image` the pinned release. ValueError as `refusal` says."""
    why = refusal(config.management, system)
    if why:
        raise ValueError(f"{config.hostname}: {why}")
    if isinstance(config, AccessConfig):
        if system == "sonic":
            return _sonic(config, url, sonic_access.render(config), image)
        if system == "eos":
            text = eos_access.render(config)
            return {"provision.sh": _eos(config, url, text, image), "startup-config": text}
        text = access.render(config)
        return {"provision.sh": _cumulus(config, url, text, image), "startup.yaml": text}
    if system == "cumulus":
        text = startup.render(config)
        return {"provision.sh": _cumulus(config, url, text, image), "startup.yaml": text}
    if system == "eos":
        text = startup_config.render(config)
        return {"provision.sh": _eos(config, url, text, image), "startup-config": text}
    return _sonic(config, url, config_db.render(config), image)


def _cumulus(config: SwitchConfig | AccessConfig, url: str, text: str, image: NosImage | None) -> str:
    lines = [
        "#!/bin/bash",
        "# CUMULUS-AUTOPROVISIONING",
        *_head(config.hostname),
        "exec >>/var/log/autoprovision 2>&1",
        *(
            _installed(
                image,
                url,
                f'. /etc/lsb-release\nif [ "$DISTRIB_RELEASE" != "{image.version}" ]; then',
                "onie-install -fa -i /var/tmp/image",
            )
            if image
            else ()
        ),
        *_fetched(url, "startup.yaml", "/etc/nvue.d/bringup.yaml", text),
        "nv config replace /etc/nvue.d/bringup.yaml",
        "nv config apply --assume-yes",
        "nv config save",
        f"id {config.management.user} >/dev/null",
    ]
    return "\n".join(lines) + "\n"


def _eos(config: SwitchConfig | AccessConfig, url: str, text: str, image: NosImage | None) -> str:
    """The account gets a password that the switch draws and nobody knows, since EOS makes none without."""
    version = re.escape(image.version) if image else ""
    check = f'if ! FastCli -p 15 -c "show version" | grep -qE "Software image version: {version}( |$)"; then'
    boot = f"echo SWI=flash:/bringup.swi >{FLASH}/boot-config"
    installed = _installed(image, url, check, boot) if image else []
    lines = [
        "#!/bin/bash",
        *_head(config.hostname),
        "set -o pipefail",
        *(line.replace("/var/tmp/image", f"{FLASH}/bringup.swi") for line in installed),
        *_fetched(url, "startup-config", f"{FLASH}/bringup-config", text),
        "drawn=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \\n')",
        f'echo "username {config.management.user} privilege 15 role network-admin secret 0 $drawn" |',
        f"    cat - {FLASH}/bringup-config >{FLASH}/startup-config",
        f"rm {FLASH}/bringup-config",
    ]
    return "\n".join(lines) + "\n"


def _sonic(config: SwitchConfig | AccessConfig, url: str, text: str, image: NosImage | None) -> dict[str, str]:
    management = config.management
    user, home = management.user, f"/home/{management.user}"
    account = [
        "#!/bin/bash",
        *_head(config.hostname),
        f"id {user} >/dev/null 2>&1 || useradd --create-home --shell /bin/bash --groups sudo,docker {user}",
        f"install -d -m 700 -o {user} -g {user} {home}/.ssh",
        f"echo '{management.key_type} {management.key} bringup' >{home}/.ssh/authorized_keys",
        f"chown {user}:{user} {home}/.ssh/authorized_keys",
        f"chmod 600 {home}/.ssh/authorized_keys",
        f"echo '{user} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/bringup",
        "chmod 440 /etc/sudoers.d/bringup",
        f"passwd --lock {DEFAULT_ACCOUNT['sonic']}",
        f"usermod --expiredate 1 {DEFAULT_ACCOUNT['sonic']}",
        f"passwd --status {DEFAULT_ACCOUNT['sonic']} | grep -q '^{DEFAULT_ACCOUNT['sonic']} L '",
    ]
    made = {"account.sh": "\n".join(account) + "\n", "config_db.json": text}
    sections: dict[str, object] = {
        "02-account": _plugin(url, "account"),
        "03-configdb-json": {
            "url": {"source": f"{url}/config_db.json", "destination": "/etc/sonic/config_db.json"},
            "halt-on-failure": True,
        },
    }
    if image:
        check = f'if ! sonic-installer list | grep -qxF "Current: SONiC-OS-{image.version}"; then'
        script = [
            "#!/bin/bash",
            *_head(config.hostname),
            *_installed(image, url, check, "sonic-installer install -y /var/tmp/image"),
        ]
        made["image.sh"] = "\n".join(script) + "\n"
        sections["01-image"] = {**_plugin(url, "image"), "reboot-on-success": True}
    made["ztp.json"] = json.dumps({"ztp": dict(sorted(sections.items()))}, indent=2) + "\n"
    return made


def _plugin(url: str, name: str) -> dict[str, object]:
    """A section of ztp.json that runs a script of ours; what comes after it waits for its success."""
    plugin = {"url": {"source": f"{url}/{name}.sh", "destination": f"/var/run/ztp/plugins/{name}"}}
    return {"plugin": plugin, "halt-on-failure": True}


def _head(hostname: str) -> list[str]:
    return [f"# First boot of {hostname}, written by `bringup boot render`. Never run on a device.", "set -eu"]


def _fetched(url: str, name: str, path: str, text: str) -> list[str]:
    """Lines that fetch a file and compare its content with what was rendered."""
    digest = sha256(text.encode()).hexdigest()
    return [f"{FETCH} {SMALL_S} -o {path} {url}/{name}", f"echo '{digest}  {path}' | sha256sum --check --quiet"]


def _installed(image: NosImage, url: str, check: str, install: str) -> list[str]:
    """Lines that install the pinned image where another release runs, after comparing its content with the pin."""
    server = url.split("/ztp/")[0]
    return [
        check,
        f"    {FETCH} {IMAGE_S} -o /var/tmp/image {server}/images/nos/{image.file}",
        f"    echo '{image.sha256}  /var/tmp/image' | sha256sum --check --quiet",
        f"    {install}",
        *(["    reboot", "    exit 0"] if install.startswith("onie-install") else []),
        "fi",
    ]
