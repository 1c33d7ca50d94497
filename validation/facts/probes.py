"""Short acts that prove a setting and leave no trace: identity LEDs on and back, logins that must be refused."""

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from inventory.site import Site
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once
from validation.facts.gather import address_of, bmc_factory

LOGIN_BUDGET_S = 15
DENIED = re.compile(r"Permission denied \(([^)]*)\)")
"""ssh's last words when the server refused: in brackets the methods that the server would go on with (RFC 4252, 5.1)."""
PASSWORD_METHODS = {"password", "keyboard-interactive"}


def servers(plan: Plan) -> list[str]:
    """Names of all servers of the plan."""
    return plan.devices.loc[plan.devices["kind"] == "server", "name"].tolist()


def identify_leds(plan: Plan) -> dict[str, str]:
    """Set every server's identity LED to the other state, read it back, and put it back. '' or what went wrong."""
    bmc_of = bmc_factory(plan, load_assets(plan.site))

    def blink(name: str) -> str:
        try:
            bmc = bmc_of(name)
            before = bool(bmc.state()["led_on"])
            try:
                bmc.led(not before)
                seen = bmc.state()["led_on"]
            finally:
                bmc.led(before)
        except DeviceError as error:
            return str(error)
        return "" if seen is (not before) else f"{name}: identify LED set to {not before}, reads back {seen}"

    return at_once(servers(plan), blink)


@dataclass(frozen=True)
class Logins:
    """How a node met two logins that must fail: 'refused', or what happened instead.

    `password` is judged by what the server offers: without a terminal OpenSSH's client never sends a password, so that a
    server that would have taken one also ends with "Permission denied".
    """

    password: str
    unknown_key: str


def logins(plan: Plan) -> dict[str, Logins]:
    """Ask every node for a login without a key, and try one with a freshly made key."""
    credentials = node_credentials(plan.site)
    with throwaway_key("unknown to every node") as key:
        common = _common(credentials.known_hosts)
        with_password = {
            **common,
            "PreferredAuthentications": "password,keyboard-interactive",
            "PubkeyAuthentication": "no",
        }
        unknown = with_key(credentials.known_hosts, key)

        def both(name: str) -> Logins:
            target = f"{credentials.user}@{address_of(plan, name, 'provisioning')}"
            return Logins(_password_login(attempt(target, with_password)), key_login(attempt(target, unknown)))

        return at_once(servers(plan), both)


@contextlib.contextmanager
def throwaway_key(comment: str) -> Iterator[Path]:
    """A freshly made key of SSH, gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key_ed25519"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(key)]
        subprocess.run(command, check=True, timeout=LOGIN_BUDGET_S)
        yield key


def with_key(known_hosts: Path, key: Path) -> dict[str, str]:
    """Options of ssh for a login with this key alone."""
    return {**_common(known_hosts), "IdentityFile": str(key), "PreferredAuthentications": "publickey"}


def _common(known_hosts: Path) -> dict[str, str]:
    return {
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "ConnectTimeout": "5",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "ControlMaster": "no",
        "ControlPath": "none",
    }


def fingerprints(site: Site) -> tuple[str, ...]:
    """Fingerprint ('SHA256:…') of the key that the site logs in to its nodes with; () where ssh-keygen cannot tell it.

    A private key in OpenSSH's form tells its fingerprint without its passphrase (ssh-keygen(1), -l).
    """
    told = subprocess.run(
        ["ssh-keygen", "-l", "-E", "sha256", "-f", str(node_credentials(site).key)],
        capture_output=True,
        text=True,
        timeout=LOGIN_BUDGET_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return tuple(re.findall(r"SHA256:[A-Za-z0-9+/]+", told.stdout)) if told.returncode == 0 else ()


def _password_login(said: str) -> str:
    """'refused' when the server's list of methods has none that takes a password."""
    listed = DENIED.search(said)
    if not listed:
        return said
    offered = sorted(PASSWORD_METHODS & set(listed[1].split(",")))
    return f"the server offers {', '.join(offered)}" if offered else "refused"


def key_login(said: str) -> str:
    """'refused' where the server refused, else what was said."""
    return "refused" if DENIED.search(said) else said


def attempt(target: str, options: dict[str, str]) -> str:
    """'accepted', or what ssh said last."""
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    try:
        done = subprocess.run(
            ["ssh", "-F", "/dev/null", *words, target, "true"],
            capture_output=True,
            text=True,
            timeout=LOGIN_BUDGET_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {LOGIN_BUDGET_S} s"
    if done.returncode == 0:
        return "accepted"
    return (done.stderr.strip().splitlines() or ["no message"])[-1]
