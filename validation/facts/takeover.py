"""An act that proves a setting and leaves no trace: the master subnet manager is stopped, the standby takes over, and the
master is put back.

While nobody manages the subnet, the standby's host asks every adapter port by LID without end. These datagrams go the
way of all traffic, through the forwarding tables of the switches, so each that stays without answer is traffic lost.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from capacity.model import Plan
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError, DeviceTimeout
from network.infiniband import parse, subnet
from network.infiniband.manager import READ_BUDGET_S, ManagerHost
from validation.facts.gather import address_of

WATCH_BUDGET_S = 60.0
RESTORE_BUDGET_S = 90.0
POLL_S = 0.5


@dataclass(frozen=True)
class Takeover:
    """What was seen. seconds: from the stop of the master until the standby said that it is the master.

    sent, lost: datagrams by LID meanwhile. links: links found before and after. restored: the master is master again.
    error: why there was nothing to see, or what is not as it was.
    """

    master: str = ""
    standby: str = ""
    seconds: float = 0.0
    sent: int = 0
    lost: tuple[str, ...] = ()
    links_before: int = 0
    links_after: int = 0
    restored: bool = False
    error: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """Plain data, for evidence."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


class Host(Protocol):
    """What the act needs of a host with a subnet manager (network.infiniband.manager.ManagerHost has it)."""

    def read(self) -> dict[str, Any]: ...

    def fabric(self) -> dict[str, Any]: ...

    def watch(self, lids: Sequence[int], budget_s: float) -> dict[str, Any]: ...

    def stop(self) -> None: ...

    def start(self) -> None: ...


def take_over(plan: Plan) -> Takeover:
    """Act on the plan's first two subnet managers. Never raises for a device: the error is in the answer."""
    names = subnet.managers(plan)
    if len(names) < 2:
        return Takeover(error=f"the plan has {len(names)} subnet managers; a failover needs two")
    credentials = node_credentials(plan.site)
    hosts = [
        ManagerHost(name, address_of(plan, name, "provisioning"), credentials, budget_s=READ_BUDGET_S)
        for name in names[:2]
    ]
    return observe(names[0], hosts[0], names[1], hosts[1])


def observe(master: str, master_host: Host, standby: str, standby_host: Host) -> Takeover:
    """Stop, watch, look, restore. The master is started again whatever happened."""
    try:
        before = _state(standby_host)
        if before.get("state") != "STANDBY":
            return Takeover(
                master,
                standby,
                error=f"{standby} is {before.get('state', 'no manager')}, not STANDBY: nothing was stopped",
            )
        found = parse.discovery(standby_host.fabric()["ibnetdiscover"])
    except (DeviceError, ValueError) as error:
        return Takeover(master, standby, error=f"nothing was stopped: {error}")
    lids = found.nodes.loc[found.nodes["kind"] == "adapter", "lid"].tolist()
    watched = _Background(lambda: standby_host.watch(lids, WATCH_BUDGET_S))
    seen: dict[str, Any] = {}
    wrong, after, began = "", 0, time.monotonic()
    try:
        master_host.stop()
        began = time.monotonic()
        seen = watched.result(WATCH_BUDGET_S + READ_BUDGET_S)
        seconds = time.monotonic() - began
        after = len(parse.discovery(standby_host.fabric()["ibnetdiscover"]).links)
    except (DeviceError, ValueError) as problem:
        wrong, seconds = str(problem), time.monotonic() - began
    finally:
        restored, not_restored = _restore(master, master_host)
    if not wrong and not seen.get("master"):
        wrong = f"{standby} did not become master within {WATCH_BUDGET_S:g} s"
    return Takeover(
        master,
        standby,
        round(seconds, 2),
        int(seen.get("sent", 0)),
        tuple(seen.get("lost", ())),
        len(found.links),
        after,
        restored,
        "; ".join(filter(None, (wrong, not_restored))),
    )


def _restore(name: str, host: Host) -> tuple[bool, str]:
    """Start the master and wait until it has the subnet back: (whether it has, why not)."""
    end = time.monotonic() + RESTORE_BUDGET_S
    try:
        host.start()
        while _state(host).get("state") != "MASTER":
            if time.monotonic() > end:
                return False, f"{name} was started again and is not master after {RESTORE_BUDGET_S:g} s"
            time.sleep(POLL_S)
    except (DeviceError, ValueError) as problem:
        return False, f"{name} was not put back: {problem}; run `pulumi up`"
    return True, ""


def _state(host: Host) -> Mapping[str, Any]:
    text = host.read()["manager"]["own"]
    return parse.subnet_manager(text) if text else {}


class _Background:
    """A call in a thread; `result` waits for it, and raises what it raised."""

    def __init__(self, call: Callable[[], dict[str, Any]]) -> None:
        self._outcome: list[dict[str, Any] | DeviceError] = []
        self._thread = threading.Thread(target=self._work, args=(call,), daemon=True)
        self._thread.start()

    def _work(self, call: Callable[[], dict[str, Any]]) -> None:
        try:
            self._outcome.append(call())
        except DeviceError as error:
            self._outcome.append(error)

    def result(self, budget_s: float) -> dict[str, Any]:
        self._thread.join(budget_s)
        if not self._outcome:
            raise DeviceTimeout(
                "standby", "watch the takeover", f"an end within {budget_s:g} s", "none", "look at its console"
            )
        outcome = self._outcome[0]
        if isinstance(outcome, DeviceError):
            raise outcome
        return outcome
