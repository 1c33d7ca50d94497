"""`bringup:network:SwitchConfig`: the running configuration of one switch.

Inputs:
    site: name or path of the site; switch: its name; nos: network OS (a folder of network/nos); address; mgmt_mac
    config: the rendered configuration
    drift: lines by which the switch differs from `config`, always [] in what is wanted; a refresh fills it with
        '+ line' (on the switch, not intended) and '- line' (intended, not on the switch)
Output `pushed`: the lines that the last push changed.

A push (network/push.py) runs under a rollback timer on the switch: it is confirmed over a new connection, and only when
every BGP session that was up before and is still configured is up again. Sessions that are new need their other end,
which may be configured later: the checks judge those. Deleting the resource puts the factory configuration back; the management
port is never part of a configuration (network/nos/frr/driver.py).
"""

from collections.abc import Callable
from typing import Protocol

import jinja2

from infra.provider.fleet import Reach, line
from infra.provider.resource import Applied, Data, RefusedError
from infra.provider.shapes import OfHost, observed_only
from infra.provider.sites import Sites, limit
from inventory.secrets import SecretError
from network import nos
from network.drivers.credentials import SshCredentials
from network.drivers.errors import compare_identity
from network.nos.choose import driver
from network.nos.driver import Driver, SwitchFacts
from network.push import NEIGHBOURS_S, DevicePush, Target, push


class SwitchDriver(Protocol):
    """What this resource needs of a network OS's `Switch`."""

    def close(self) -> None: ...

    def facts(self) -> SwitchFacts: ...

    def compare(self, config: str) -> str: ...


class Push(Protocol):
    """Pushes one switch: its target, its network OS, and for how long its sessions may take to come back."""

    def __call__(self, target: Target, os_name: str, kept_s: float) -> DevicePush: ...


def connect_switch(credentials: SshCredentials, inputs: Data) -> Driver:
    """The driver of the switch's network OS; it compares the management MAC before its first write."""
    return driver(inputs["nos"])(inputs["switch"], inputs["address"], credentials, mgmt_mac=inputs["mgmt_mac"])


def push_one(target: Target, os_name: str, kept_s: float) -> DevicePush:
    """One switch, judged by itself."""
    return push([target], os_name=os_name, neighbours_s=0, kept_s=kept_s)[0]


class SwitchConfig(OfHost):
    """Resource type; see the module's text."""

    token = "bringup:network:SwitchConfig"
    key = "switch"
    everything = "the whole configuration will be pushed"

    def __init__(
        self,
        sites: Sites,
        reach: Reach,
        connect: Callable[[SshCredentials, Data], SwitchDriver] = connect_switch,
        push: Push = push_one,
    ) -> None:
        super().__init__(sites, reach)
        self._connect, self._push_one = connect, push

    def check(self, inputs: Data) -> list[tuple[str, str]]:
        """The network OS must be known, the configuration not empty."""
        wrong = []
        try:
            nos.folder(inputs["nos"], "factory.j2")
        except ValueError as error:
            wrong.append(("nos", str(error)))
        if not inputs["config"].strip():
            wrong.append(("config", f"{inputs['switch']}: the rendered configuration is empty"))
        return wrong + observed_only(inputs)

    def apply(self, inputs: Data, state: Data | None) -> Applied:
        kept_s = limit(self._sites.get(inputs["site"]), "bgp_converge_s", NEIGHBOURS_S)
        pushed = self._push(inputs, inputs["config"], kept_s)
        if not pushed.ok:
            raise RefusedError(reason(pushed))
        return self._applied(inputs, pushed.diff.splitlines())

    def delete(self, state: Data) -> list[str]:
        template = (nos.folder(state["nos"]) / "factory.j2").read_text()
        factory = jinja2.Template(template, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
        try:
            pushed = self._push(state, factory.render(hostname=state["switch"]), kept_s=0)
        except SecretError as error:
            return [line(state["switch"], error)]
        return [] if pushed.ok else [reason(pushed)]

    def _compare(self, inputs: Data) -> list[str]:
        """The driver's difference between the switch, whose identity is compared first, and `config`."""
        switch = self._connect(self._sites.switch(inputs["site"]), inputs)
        try:
            compare_identity(inputs["switch"], {"mgmt_mac": inputs["mgmt_mac"]}, {"mgmt_mac": switch.facts().mgmt_mac})
            return switch.compare(inputs["config"]).splitlines()
        finally:
            switch.close()

    def _drift(self, changes: list[str]) -> list[str]:
        return seen_from_intent(changes)

    def _push(self, inputs: Data, config: str, kept_s: float) -> DevicePush:
        credentials = self._sites.switch(inputs["site"])
        target = Target(inputs["switch"], inputs["address"], credentials, config, inputs["mgmt_mac"])
        return self._push_one(target, inputs["nos"], kept_s)


def reason(pushed: DevicePush) -> str:
    """Why a push failed and what became of the switch, as one line."""
    texts = dict.fromkeys([str(pushed.error or ""), pushed.note])
    return line(pushed.name, RefusedError("; ".join(text for text in texts if text) or pushed.result))


def seen_from_intent(difference: list[str]) -> list[str]:
    """A driver's difference ('- line' goes, '+ line' comes with a push) as drift: the same lines, signs turned."""
    turned = {"-": "+", "+": "-"}
    return [turned[text[0]] + text[1:] for text in difference]
