"""What the boot server has heard from servers and what it serves to them, read over SSH.

Both are asked for by many servers at the same time and change slowly: an answer holds for `FRESH_S`.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from capacity.services.boot import collected
from capacity.services.boot.life import Report
from capacity.services.boot.starting import Offer, OfferError, parse_offer
from infra.boot.collect import spool_of
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost

PLANS = "/srv/bringup/boot/http/plan"
"""Folder of the plans of servers, as the role boot_server serves them (boot_server_root)."""
LIST_PLANS = f'cd {PLANS} && for file in *.env; do [ -f "$file" ] && echo "== $file" && cat -- "$file"; done; true'
FRESH_S = 5.0
PROBE = "/usr/local/sbin/bringup-dhcp-probe"
"""The role boot_server installs it (playbooks/library/bringup_dhcp_probe.py)."""
LOOK = f'[ -x {PROBE} ] || exit 0; if [ "$(id -u)" = 0 ]; then exec {PROBE} "$1"; else exec sudo -n {PROBE} "$1"; fi'
LOOK_FRESH_S = 60.0
"""An unknown MAC asks once a minute at most: dnsmasq logs each."""

_OTHER = re.compile(r"[0-9.]{7,15} \(([0-9a-f:]{17}|MAC unknown)\)")

Value = TypeVar("Value")


class Shared(Generic[Value]):
    """A value that many threads ask for; it is made anew once it is older than `fresh_s`. An error is raised to each that asks."""

    def __init__(self, make: Callable[[], Value], fresh_s: float = FRESH_S) -> None:
        self._make, self._fresh_s = make, fresh_s
        self._lock = threading.Lock()
        self._value: list[Value] = []
        self._at = 0.0

    def get(self) -> Value:
        """The value. Raises what making it raises."""
        with self._lock:
            if not self._value or time.monotonic() - self._at >= self._fresh_s:
                self._value = [self._make()]
                self._at = time.monotonic()
            return self._value[0]


class BootServer:
    """The boot server of a site."""

    def __init__(self, host: SshHost, fresh_s: float = FRESH_S, look_fresh_s: float = LOOK_FRESH_S) -> None:
        self._host = host
        self._others = Shared(self._look, look_fresh_s)
        self._spool = Shared(lambda: collected.read(spool_of(host, absent=""), host.name), fresh_s)
        self._offers = Shared(self._read_offers, fresh_s)

    def reports(self) -> Mapping[str, Sequence[Report]]:
        """By MAC with hyphens what servers reported, in order. DeviceError where the boot server cannot be read."""
        return self._spool.get().reports

    def offers(self) -> Mapping[str, Offer]:
        """By MAC with hyphens what is served. DeviceError where the boot server cannot be read."""
        return self._offers.get()

    def others(self) -> str:
        """DHCP servers of others on the segment, with address and MAC; '' for none, and where the boot server has no probe.
        DeviceError where it cannot be asked.
        """
        return self._others.get()

    def _look(self) -> str:
        said = self._host.run(["sh", "-c", LOOK, "sh", self._host.address], check=True).out
        return parse_others(said, self._host.name)

    def _read_offers(self) -> dict[str, Offer]:
        return parse_offers(self._host.run(LIST_PLANS, check=True).out, self._host.name)


def parse_others(text: str, where: str) -> str:
    """Who answers an unknown MAC, by the output of PROBE. BadAnswer for anything else."""
    if not text.strip():
        return ""
    try:
        found = [f"{one['server']} ({one['mac'] or 'MAC unknown'})" for one in json.loads(text)]
        known = all(_OTHER.fullmatch(one) for one in found)
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise BadAnswer(where, f"run {PROBE}", "a JSON list of DHCP servers", text.strip()[:100], "playbooks/boot.yml")
    return f"DHCP is answered by {', '.join(found)} as well" if found else ""


def parse_offers(text: str, where: str) -> dict[str, Offer]:
    """By MAC the plans in the output of LIST_PLANS. BadAnswer names the file that is none."""
    found = {}
    for part in text.split("== ")[1:]:
        name, _, plan = part.partition("\n")
        mac = name.strip().removesuffix(".env")
        try:
            found[mac] = parse_offer(plan)
        except OfferError as error:
            raise BadAnswer(
                where,
                f"read {PLANS}/{name.strip()}",
                "the plan of one server",
                str(error),
                "bringup boot render, then playbooks/boot.yml",
            ) from None
    return found
