"""A permutation over parallel paths of a RoCE fabric: every adapter at two leaves writes to one at the other leaf (S057).

    said = run(plan, wanted)        # wanted: facts.permutation.planned; plain data, which validation/spreading.py judges

Counters of the leaves' uplinks are read by the driver of their system before and after, and sequence errors at every adapter. There
is no second run without adaptive routing: that would be another configuration. It disturbs jobs that run meanwhile.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from inventory.secrets import SecretError
from network import roce
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.credentials import public_key
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once
from network.nos.choose import driver
from network.push import Target, compute_targets
from network.roce_host import wanted as rails_wanted
from network.wiring import lossless
from validation.facts.incast import (
    FIRST_PORT,
    LOAD,
    READS_NO_QUEUES,
    READY_S,
    SECONDS,
    SPARE_S,
    Counted,
    Hosts,
    Sent,
    switch_counters,
)
from validation.facts.permutation import ASKED_AGAIN, Permutation


def run(plan: Plan, wanted: Permutation) -> dict[str, Any]:
    """{"permutation", "sent": {uplink: packets of the class}, "resent": {adapter: packets}, "flows": {adapter: what it printed},
    "errors": {device: why}}; only errors where something could not be read.
    """
    system, intent = str(plan.site.fabric.nos), lossless.intent(plan.site)
    addresses = addresses_of(plan)
    lacking = [end for end in wanted.ends if end not in addresses]
    if intent is None or lacking:
        return {"errors": dict.fromkeys(lacking or wanted.ends, "the plan gives it no address")}
    if not hasattr(driver(system), "queue_counters"):
        return {"errors": dict.fromkeys(wanted.uplinks, READS_NO_QUEUES.format(system))}
    try:
        targets = compute_targets(plan, load_assets(plan.site), list(wanted.uplinks), public_key(plan.site, "switch"))
    except (SecretError, roce.PublicKeyError, ValueError) as error:
        return {"errors": {name: str(error) for name in wanted.uplinks}}
    act = _Act(system, {one.name: one for one in targets}, Hosts(plan), wanted, addresses, intent.traffic_class)
    errors: dict[str, str] = {}
    before = act.counted(errors)
    flows = {} if errors else act.loaded(errors)
    after = {} if errors else act.counted(errors)
    if errors:
        return {"errors": errors}
    rose = [{name: late - before[part][name] for name, late in after[part].items()} for part in ("sent", "resent")]
    return {"permutation": asdict(wanted), "sent": rose[0], "resent": rose[1], "flows": flows, "errors": {}}


def addresses_of(plan: Plan) -> dict[str, str]:
    """{'SERVER:RAIL': its address}."""
    return {
        f"{server}:{rail['name']}": str(rail["settings"]["addresses"][0]).partition("/")[0]
        for server, one in rails_wanted(plan).items()
        for rail in one["rails"]
    }


class _Act:
    """What the run is made with."""

    def __init__(
        self,
        system: str,
        targets: Mapping[str, Target],
        hosts: Hosts,
        wanted: Permutation,
        addresses: Mapping[str, str],
        queue: int,
    ) -> None:
        self._system, self._targets, self._hosts, self._wanted = system, targets, hosts, wanted
        self._addresses, self._queue = addresses, queue
        self._rails: dict[str, list[str]] = {}
        for end in wanted.ends:
            server, _, rail = end.partition(":")
            self._rails.setdefault(server, []).append(rail)

    def counted(self, errors: dict[str, str]) -> dict[str, dict[str, int]]:
        """Packets of the class that each uplink sent, and those that each adapter was asked for again."""

        def of(name: str) -> dict[str, dict[str, int]] | DeviceError:
            try:
                if name in self._wanted.uplinks:
                    ports = [end.partition(":")[2] for end in self._wanted.uplinks[name]]
                    return switch_counters(self._system, self._targets[name], ports)
                said = self._hosts.ask(name, {"do": "count", "rails": self._rails[name]}, SPARE_S)
                counters: Any = answers.read(Counted, said, Source(name, LOAD))["counters"]
            except DeviceError as error:
                return error
            return dict(counters)

        sent: dict[str, int] = {}
        resent: dict[str, int] = {}
        for name, said in at_once([*self._wanted.uplinks, *self._rails], of).items():
            if isinstance(said, DeviceError):
                errors[name] = str(said)
                continue
            found, word = (sent, f"sent/{self._queue}") if name in self._wanted.uplinks else (resent, ASKED_AGAIN)
            for port, counters in said.items():
                if word in counters:
                    found[f"{name}:{port}"] = counters[word]
                else:
                    errors[f"{name}:{port}"] = f"it does not count {word}"
        return {"sent": sent, "resent": resent}

    def loaded(self, errors: dict[str, str]) -> dict[str, str]:
        """Let all ends write at once; what each printed."""
        whole_s = READY_S + SECONDS + SPARE_S

        def receive(server: str) -> DeviceError | None:
            """The rails of a server wait each for its sender."""
            try:
                for_all = [end for end in self._wanted.ends if end.partition(":")[0] == server]
                with ThreadPoolExecutor(len(for_all)) as each:
                    list(each.map(self._receive, for_all, [whole_s] * len(for_all)))
            except DeviceError as error:
                return error
            return None

        def send(flow: tuple[str, str]) -> str | DeviceError:
            (server, _, rail), receiver = flow[0].partition(":"), flow[1]
            request = {"do": "send", "rail": rail, "source": self._addresses[flow[0]], "seconds": SECONDS}
            request |= {
                "target": self._addresses[receiver],
                "port": self._port(receiver),
                "budget_s": SECONDS + SPARE_S,
            }
            try:
                told: Any = answers.read(
                    Sent, self._hosts.ask(server, request, whole_s + SPARE_S), Source(server, LOAD)
                )
            except DeviceError as error:
                return error
            good = told["status"] == 0
            return str(told["printed"]) if good else f"exit status {told['status']}: {told['printed'][-300:]}"

        flows = list(self._wanted.flows)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(at_once, list(self._rails), receive, len(self._rails))
            time.sleep(READY_S)
            told = at_once(flows, send, len(flows))
            ended = waiting.result()
        errors |= {server: str(why) for server, why in ended.items() if why is not None}
        errors |= {flow[0].partition(":")[0]: str(said) for flow, said in told.items() if isinstance(said, DeviceError)}
        return {flow[0]: str(said) for flow, said in told.items() if not isinstance(said, DeviceError)}

    def _receive(self, end: str, whole_s: float) -> None:
        server, _, rail = end.partition(":")
        request = {"do": "receive", "rail": rail, "ports": [self._port(end)], "seconds": SECONDS, "budget_s": whole_s}
        self._hosts.ask(server, request, whole_s + SPARE_S)

    def _port(self, receiver: str) -> int:
        """A TCP port of its own for each receiving end: a server has several."""
        return FIRST_PORT + self._wanted.ends.index(receiver)
