"""`bringup:network:SwitchConfig`: the running configuration of one switch.

Inputs:
    site: name or path of the site; switch: its name; nos: network OS (a folder of network/nos); address; mgmt_mac
    config: the rendered configuration
    drift: lines by which the switch differs from `config`, always [] in what is wanted; a refresh fills it with
        '+ line' (on the switch, not intended) and '- line' (intended, not on the switch)
Output `pushed`: the lines that the last push changed.

A push runs under a rollback timer on the switch: it is confirmed over a new connection, and only when every BGP session
that was up before and is still configured is up again. Sessions that are new need their other end, which may be
configured later: the checks judge those. Deleting the resource puts the factory configuration back; the management
port is never part of a configuration (network/nos/frr/driver.py).
"""

import time
from collections.abc import Callable
from typing import Protocol

import jinja2

from infra.provider.fleet import Reach, line
from infra.provider.resource import Applied, Data
from infra.provider.sites import Sites, limit
from inventory.secrets import SecretError
from network import nos
from network.drivers.credentials import SshCredentials
from network.drivers.errors import DeviceError, PushRolledBack, compare_identity
from network.nos.frr.driver import Switch, SwitchFacts

ROLLBACK_S = 60.0
"""Default of the site's limit rollback_s: how long the switch waits for the confirmation of a push."""
CONFIRM_SPARE_S = 20.0
"""Part of that time which stays for the confirmation itself: a reconnect (15 s at most) and one command."""
POLL_S = 0.5


class SwitchDriver(Protocol):
    """What this resource needs of a network OS's `Switch`."""

    def connect(self) -> None: ...

    def close(self) -> None: ...

    def facts(self) -> SwitchFacts: ...

    def compare(self, config: str) -> str: ...

    def neighbours(self) -> dict[str, str]: ...

    def saved(self) -> bool: ...

    def load(self, config: str) -> str: ...

    def commit(self, confirm_s: int) -> None: ...

    def confirm(self) -> None: ...

    def rollback(self) -> None: ...

    def save(self) -> None: ...


def connect_switch(credentials: SshCredentials, inputs: Data) -> Switch:
    """The SSH driver of the switch's network OS; it compares the management MAC before its first write."""
    return nos.driver(inputs["nos"])(inputs["switch"], inputs["address"], credentials, mgmt_mac=inputs["mgmt_mac"])


class SwitchConfig:
    """Resource type; see the module's text."""

    token = "bringup:network:SwitchConfig"
    outputs = frozenset({"pushed"})
    key = "switch"

    def __init__(self, sites: Sites, reach: Reach,
                 connect: Callable[[SshCredentials, Data], SwitchDriver] = connect_switch) -> None:
        self._sites, self._reach, self._connect = sites, reach, connect

    def check(self, inputs: Data) -> list[tuple[str, str]]:
        """The network OS must be known, the configuration not empty."""
        wrong = []
        try:
            nos.folder(inputs["nos"])
        except ValueError as error:
            wrong.append(("nos", str(error)))
        if not inputs["config"].strip():
            wrong.append(("config", f"{inputs['switch']}: the rendered configuration is empty"))
        if inputs["drift"]:
            wrong.append(("drift", "is observed, never wanted"))
        return wrong

    def preview(self, inputs: Data, state: Data | None) -> list[str]:
        name = inputs["switch"]
        if self._reach.closed():
            return [f"{name}: devices of this site do not answer; not asked: the whole configuration will be pushed"]
        try:
            difference = self._reach.ask(name, lambda: self._compare(inputs))
        except (DeviceError, SecretError) as error:
            return [f"not reachable, the whole configuration will be pushed: {line(name, error)}"]
        return [f"{name} {text}" for text in difference.splitlines()]

    def apply(self, inputs: Data, state: Data | None) -> Applied:
        changed = self._push(inputs, inputs["config"])
        return Applied(inputs | {"drift": [], "pushed": changed},
                       changed=[f"{inputs['switch']} {text}" for text in changed])

    def read(self, state: Data) -> Applied:
        name = state["switch"]
        try:
            difference = self._compare(state)
        except (DeviceError, SecretError) as error:
            return Applied(state, [line(name, error)])
        return Applied(state | {"drift": seen_from_intent(difference)})

    def delete(self, state: Data) -> list[str]:
        template = (nos.folder(state["nos"]) / "factory.j2").read_text()
        factory = jinja2.Template(template, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
        try:
            self._push(state, factory.render(hostname=state["switch"]), sessions=False)
        except (DeviceError, SecretError) as error:
            return [line(state["switch"], error)]
        return []

    def _compare(self, inputs: Data) -> str:
        """The driver's difference between the switch, whose identity is compared first, and `config`."""
        switch = self._connect(self._sites.switch(inputs["site"]), inputs)
        try:
            compare_identity(inputs["switch"], {"mgmt_mac": inputs["mgmt_mac"]}, {"mgmt_mac": switch.facts().mgmt_mac})
            return switch.compare(inputs["config"])
        finally:
            switch.close()

    def _push(self, inputs: Data, config: str, sessions: bool = True) -> list[str]:
        """Bring the switch to `config`; returns the lines that changed. sessions: whether BGP must come back."""
        rollback_s = limit(self._sites.get(inputs["site"]), "rollback_s", ROLLBACK_S)
        switch = self._connect(self._sites.switch(inputs["site"]), inputs)
        try:
            difference = switch.load(config)
            if not difference:
                if not switch.saved():
                    switch.save()
                return []
            before = established(switch) if sessions else set()
            switch.commit(int(rollback_s))
            switch.connect()
            lost = self._still_down(switch, before, rollback_s - CONFIRM_SPARE_S)
            if lost:
                switch.rollback()
                raise PushRolledBack(
                    inputs["switch"], "keep BGP sessions", f"{', '.join(sorted(before))} established",
                    f"{', '.join(sorted(lost))} down after {rollback_s - CONFIRM_SPARE_S:g} s",
                    "the earlier configuration is back; compare both ends of these links")
            switch.confirm()
            return difference.splitlines()
        finally:
            switch.close()

    def _still_down(self, switch: SwitchDriver, before: set[str], budget_s: float) -> set[str]:
        """Sessions of `before` that are configured and do not come back within the budget."""
        deadline = time.monotonic() + budget_s
        while True:
            now = switch.neighbours()
            down = {peer for peer in before if now.get(peer, "Established") != "Established"}
            if not down or time.monotonic() > deadline:
                return down
            time.sleep(POLL_S)


def established(switch: SwitchDriver) -> set[str]:
    """The neighbours whose BGP session is up."""
    return {peer for peer, state in switch.neighbours().items() if state == "Established"}


def seen_from_intent(difference: str) -> list[str]:
    """A driver's difference ('- line' goes, '+ line' comes with a push) as drift: the same lines, signs turned."""
    turned = {"-": "+", "+": "-"}
    return [turned[text[0]] + text[1:] for text in difference.splitlines()]
