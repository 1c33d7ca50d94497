"""Push configurations to many switches: all are applied before any is judged, and one bad switch stops no other.

    results = push(targets(plan, assets))            # the whole fabric, judged by its BGP sessions
    result = push([target], neighbours_s=0, kept_s=20)[0]    # one switch, judged by itself

Per switch: settle what a killed push left, upload, syntax check and diff on the switch, apply under a rollback timer
that runs on the switch, judge, confirm and save. A push that is killed at any moment leaves the switch with its old
configuration, or with the new one and a running timer; pushing again takes over at once.

How a switch is judged after its configuration is applied:
  - always: a *new* connection still works, and the running configuration equals the intended one;
  - with neighbours_s > 0: within that time every BGP session is up whose far end took its configuration in this push;
  - with kept_s > 0: within that time every BGP session is up again that was up before and is still configured.
A resource engine pushes each switch on its own and in any order, so a new session's far end may come minutes later: it
uses neighbours_s=0, and sessions are judged afterwards for the fabric as a whole by a validation check.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from network import nos, oob, roce
from network.drivers.credentials import (
    HttpsCredentials,
    SshCredentials,
    switch_credentials,
    switch_https_credentials,
)
from network.drivers.errors import (
    DeviceError,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    PushRefused,
    PushRolledBack,
    Unreachable,
)
from network.drivers.parallel import at_once
from network.nos.choose import driver
from network.nos.driver import Driver
from network.nos.frr import nftables
from network.render import Plan, structured_config, switches, whole

Result = Literal["applied", "no-change", "refused", "rolled-back", "unreachable", "lost", "differs"]

OK: tuple[Result, ...] = ("applied", "no-change")
WORKERS = 8
"""A push is mostly the switch's own work; on two cores more threads gain nothing (20 switches: 10.6 s)."""
NEIGHBOURS_S = 20.0
"""BGP unnumbered over a leaf-spine lab converges in 2.6 to 4.5 s, after a restart in up to 11 s."""
CONFIRM_MARGIN_S = 30.0
"""Added to the rollback timer for the judging itself: a new connection, a diff, the confirmation."""
SILENT_S = 10.0
"""A session over which nothing passes is down by then: hold time 9 s of `frr defaults datacenter`. Part of CONFIRM_MARGIN_S."""
POLL_S = 0.3
ESTABLISHED = "Established"


@dataclass(frozen=True)
class Target:
    """One switch and the configuration it shall run. neighbours: {own port: far switch} with a BGP session."""

    name: str
    address: str
    credentials: SshCredentials | HttpsCredentials
    config: str
    mgmt_mac: str = ""
    neighbours: Mapping[str, str] = field(default_factory=dict)


@dataclass
class DevicePush:
    """What became of one switch. diff: '- line' / '+ line'; seconds: time per stage; error: why, when not ok."""

    name: str
    result: Result = "unreachable"
    diff: str = ""
    note: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    error: DeviceError | None = None

    @property
    def ok(self) -> bool:
        """Whether the switch runs the intended configuration and has saved it."""
        return self.result in OK


def targets(plan: Plan, assets: pd.DataFrame | None = None, only: Collection[str] = ()) -> list[Target]:
    """A target per in-band switch of the plan, or per name in `only`.

    assets: inventory.delivered.assets frame (index device, column mgmt_mac): what identity is compared with before a write.
    """
    credentials = switch_credentials(plan.site)
    wanted = {name: whole(plan, name) for name in only or switches(plan)}
    far = {name: {port["port"]: port["far"] for port in structured_config(plan, name)["fabric"]} for name in wanted}
    return _targets(plan, assets, credentials, wanted, far)


def compute_targets(
    plan: Plan, assets: pd.DataFrame | None = None, only: Collection[str] = (), public_key: str = ""
) -> list[Target]:
    """A target per compute switch of a RoCE site whose configuration is rendered, or per name in `only`.

    Raises ValueError where the site lacks a key that these switches need, SecretError for a credential that cannot be read.
    """
    configs = roce.structured_configs(plan, public_key)
    system = plan.site.fabric.nos
    assert system is not None  # structured_configs has refused a site without it
    over_https = nos.capabilities(system).get("interface") == "https"
    credentials = switch_https_credentials(plan.site) if over_https else switch_credentials(plan.site)
    kept = {name: config for name, config in configs.items() if not only or name in only}
    text = roce.SYSTEMS[system].render
    far = {name: {port.name: port.far for port in one.ports if port.address is None} for name, one in kept.items()}
    return _targets(plan, assets, credentials, {name: text(config) for name, config in kept.items()}, far)


def access_targets(
    plan: Plan, assets: pd.DataFrame | None = None, only: Collection[str] = (), public_key: str = ""
) -> list[Target]:
    """A target per out-of-band switch whose configuration is rendered, or per name in `only`, to compare with; nothing pushes them.

    SecretError for a credential that cannot be read.
    """
    system = plan.site.oob.nos
    if system is None:
        return []
    over_https = nos.capabilities(system).get("interface") == "https"
    credentials = switch_https_credentials(plan.site) if over_https else switch_credentials(plan.site)
    configs = oob.structured_configs(plan, public_key).items()
    texts = {name: oob.RENDER[system](config) for name, config in configs if not only or name in only}
    return _targets(plan, assets, credentials, texts, {name: {} for name in texts})


def _targets(
    plan: Plan,
    assets: pd.DataFrame | None,
    credentials: SshCredentials | HttpsCredentials,
    configs: Mapping[str, str],
    neighbours: Mapping[str, Mapping[str, str]],
) -> list[Target]:
    addresses = plan.addresses
    management = addresses[addresses["network"] == "oob"].set_index("device")
    found = []
    for name, config in configs.items():
        mac = "" if assets is None or name not in assets.index else str(assets.at[name, "mgmt_mac"] or "")
        found.append(
            Target(
                name=name,
                address=str(management.at[name, "address"]).split("/")[0],
                credentials=credentials,
                config=config,
                mgmt_mac=mac,
                neighbours=neighbours[name],
            )
        )
    return found


def preview(target: Target, os_name: str = "frr") -> str:
    """The switch's real diff against the target: '- line' / '+ line', '' for none. Raises DeviceError.

    `untested(os_name)` says what to show beside it.
    """
    with _switch(target, os_name) as switch:
        return switch.compare(target.config)


def untested(os_name: str) -> str:
    """'never run on a device' for a network OS whose driver was not, else ''."""
    return str(nos.capabilities(os_name).get("run", ""))


def push(
    wanted: Iterable[Target],
    *,
    os_name: str = "frr",
    neighbours_s: float = NEIGHBOURS_S,
    kept_s: float = 0.0,
    workers: int = WORKERS,
) -> list[DevicePush]:
    """Bring every switch to its configuration; one result per target, in their order. Raises nothing per device."""
    runs = [_Run(target, _switch(target, os_name), kept_s) for target in wanted]
    rounds = math.ceil(len(runs) / workers)
    stage_s = max((run.switch.apply_s for run in runs), default=0.0)
    timer_s = math.ceil(max(neighbours_s, kept_s) + CONFIRM_MARGIN_S + stage_s * rounds)
    at_once(runs, lambda run: run.stage(timer_s), workers)
    took = {run.target.name for run in runs if run.armed or run.push.result == "no-change"}
    armed = [run for run in runs if run.armed]
    at_once(armed, lambda run: run.judge(took, neighbours_s), workers)
    at_once([run for run in armed if run.push.result == "lost"], lambda run: run.after_loss(timer_s), workers)
    for run in runs:
        run.switch.close()
    return [run.push for run in runs]


def _switch(target: Target, os_name: str) -> Driver:
    return driver(os_name)(target.name, target.address, target.credentials, mgmt_mac=target.mgmt_mac)


class _Run:
    """One switch on its way through the push."""

    def __init__(self, target: Target, switch: Driver, kept_s: float) -> None:
        self.target, self.switch, self.kept_s = target, switch, kept_s
        self.push = DevicePush(target.name)
        self.up_before: set[str] = set()
        self.armed, self.applied_at = False, 0.0

    def stage(self, timer_s: int) -> None:
        """Up to applied, with the switch's own timer running; or to 'no-change', or to what went wrong."""
        self._guarded("stage", lambda: self._stage(timer_s))

    def _stage(self, timer_s: int) -> None:
        self.switch.connect()
        self.push.diff = self.switch.load(self.target.config)
        if not self.push.diff:
            if not self.switch.saved():
                self.switch.save()
                self.push.note = "the running configuration was not saved; saved now"
            self.push.result = "no-change"
            return
        if self.kept_s > 0:
            self.up_before = {peer for peer, state in self.switch.neighbours().items() if state == ESTABLISHED}
        self.armed, self.applied_at = True, time.monotonic()
        self.switch.commit(timer_s)

    def judge(self, took: Collection[str], neighbours_s: float) -> None:
        """Confirm a switch that is manageable, runs the intended lines and has its sessions; roll back any other."""
        self._guarded("judge", lambda: self._judge(took, neighbours_s))

    def _judge(self, took: Collection[str], neighbours_s: float) -> None:
        self.switch.connect()
        remains = self.switch.compare(self.target.config)
        if nftables.TABLE in self.push.diff and (neighbours_s > 0 or self.kept_s > 0):
            time.sleep(max(0.0, self.applied_at + SILENT_S - time.monotonic()))  # a new filter may have cut a session
        down = [] if remains else self._sessions_down(took, neighbours_s) or self._sessions_lost()
        if remains or down:
            self.switch.rollback()
            self.armed = False
            seen = f"lines that differ: {remains}" if remains else f"sessions down on {', '.join(down)}"
            raise PushRolledBack(
                self.target.name,
                "judge configuration",
                "the intended configuration and its BGP sessions",
                seen,
                "check the cables and the far ends of these ports; the earlier configuration is back",
            )
        self.switch.confirm()
        self.armed, self.push.result = False, "applied"

    def _sessions_down(self, took: Collection[str], neighbours_s: float) -> list[str]:
        """Ports whose session is not up when the time is over, of those whose far end took its configuration."""
        wanted = {port for port, far in self.target.neighbours.items() if far in took}
        end = time.monotonic() + neighbours_s
        while neighbours_s > 0:
            states = self.switch.neighbours()
            down = sorted(port for port in wanted if states.get(port) != ESTABLISHED)
            if not down:
                self.push.note = f"{len(wanted)} neighbours up"
            if not down or time.monotonic() > end:
                return down
            time.sleep(POLL_S)
        return []

    def _sessions_lost(self) -> list[str]:
        """Sessions that were up before, are still configured and have not come back within kept_s."""
        end = time.monotonic() + self.kept_s
        while self.up_before:
            states = self.switch.neighbours()
            lost = sorted(peer for peer in self.up_before if states.get(peer, ESTABLISHED) != ESTABLISHED)
            if not lost or time.monotonic() > end:
                return lost
            time.sleep(POLL_S)
        return []

    def after_loss(self, timer_s: int) -> None:
        """The switch stopped answering after its configuration was applied: wait for its timer and look again."""
        time.sleep(max(0.0, self.applied_at + timer_s + 3 - time.monotonic()))

        def look() -> None:
            self.switch.connect()
            self.push.result = "rolled-back" if self.switch.runs_previous() else "differs"
            self.push.note = "stopped answering after apply; its own timer put the earlier configuration back"

        self._guarded("after_loss", look)

    def _guarded(self, stage: str, step: Callable[[], None]) -> None:
        """Run a step; a DeviceError becomes the result of this switch and never reaches the others."""
        began = time.monotonic()
        try:
            step()
        except DeviceError as error:
            self.push.error, self.push.note = error, str(error)
            self.push.result = self._result_of(error)
            if isinstance(error, (PushRefused, PushRolledBack)):
                self.armed = False
        self.push.seconds[stage] = round(time.monotonic() - began, 2)

    def _result_of(self, error: DeviceError) -> Result:
        if isinstance(error, PushRolledBack):
            return "rolled-back"
        if isinstance(error, (PushRefused, IdentityMismatch)) and not self.armed:
            return "refused"
        if isinstance(error, (Unreachable, DeviceTimeout, LoginRefused, IdentityMismatch)):
            return "lost" if self.armed else "unreachable"
        return "differs"
