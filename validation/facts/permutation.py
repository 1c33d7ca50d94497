"""A permutation over parallel paths of an InfiniBand fabric: every adapter at two leaves writes to one at the other leaf, first
on a service level that is routed adaptively, then on one that is not (S057).

    wanted = planned(plan)                          # who writes to whom, and the leaves' links to higher switches
    said = run(plan, wanted, known)                 # plain data, which validation/permutation.py judges

All of a leaf's traffic crosses to the other leaf, so that its uplinks have to carry it: routed by destination alone some carry much
and others nothing. It disturbs jobs that run meanwhile, so it comes after all other acts that share the fabric.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from capacity.model import Plan
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once
from network.infiniband.manager import COUNTERS_ALONE, ManagerHost
from network.infiniband.wire import FABRIC
from validation.facts.gather import address_of, diagnosed
from validation.facts.incast import FIRST_PORT, LOAD, READY_S, SECONDS, SPARE_S, Counted, Hosts, Sent

RUNS = ("adaptive", "static")


@dataclass(frozen=True)
class Permutation:
    """``flows`` (sending end, receiving end), each end once on either side; ``uplinks`` {leaf: its ends of links to higher
    switches}. Ends are 'DEVICE:PORT' of the plan."""

    flows: tuple[tuple[str, str], ...]
    uplinks: Mapping[str, tuple[str, ...]]

    @property
    def ends(self) -> list[str]:
        """Every adapter that takes part."""
        return [sender for sender, _ in self.flows]


def planned(plan: Plan) -> Permutation | None:
    """The first two leaves with GPU servers; None where the plan has no two leaves with links to higher switches."""
    gpus = set(plan.devices.loc[plan.devices["role"] == "gpu", "name"])
    cables = plan.cables[plan.cables["fabric"] == FABRIC]
    at: dict[str, list[str]] = {}
    hosts = cables[(cables["stage"] == "node-leaf") & cables["a_device"].isin(gpus)]
    for host, port, leaf in hosts[["a_device", "a_port", "b_device"]].itertuples(index=False, name=None):
        at.setdefault(leaf, []).append(f"{host}:{port}")
    uplinks = {leaf: ends for leaf in at if (ends := _uplinks(plan, leaf))}
    if len(uplinks) < 2:
        return None
    one, other = list(uplinks)[:2]
    count = min(len(at[one]), len(at[other]))
    # one further, so that no server writes to itself where both leaves have the same servers
    flows = [
        (sources[n], targets[(n + 1) % count])
        for sources, targets in ((at[one], at[other]), (at[other], at[one]))
        for n in range(count)
    ]
    return Permutation(tuple(flows), {leaf: uplinks[leaf] for leaf in (one, other)}) if count > 1 else None


def _uplinks(plan: Plan, leaf: str) -> tuple[str, ...]:
    cables = plan.cables[(plan.cables["fabric"] == FABRIC) & (plan.cables["stage"] == "leaf-spine")]
    ends = [cables.loc[cables[f"{side}_device"] == leaf, f"{side}_port"] for side in ("a", "b")]
    return tuple(sorted(f"{leaf}:{port}" for each in ends for port in each))


@dataclass(frozen=True)
class Known:
    """What has to be known before: the host that reads the fabric, by run the service level, by adapter's end its RDMA device, by
    uplink for each of its planes the 'GUID/port' by which the subnet may know it."""

    manager: str
    levels: Mapping[str, int]
    devices: Mapping[str, str]
    places: Mapping[str, list[list[str]]]


def run(plan: Plan, wanted: Permutation, known: Known) -> dict[str, Any]:
    """Both runs: {"permutation", "levels": {run: service level}, "runs": {run: {"sent": {uplink: words of 4 B}, "resent": {adapter:
    packets}, "flows": {adapter: what it printed}}}, "errors": {device: why}}; only errors where something could not be read.
    """
    fabric = _Fabric(plan, wanted, Hosts(plan), known)
    runs, errors = dict[str, Any](), dict[str, str]()
    for name in RUNS:
        runs[name] = fabric.loaded(known.levels[name], errors)
        if errors:
            return {"errors": errors}
    return {"permutation": asdict(wanted), "levels": dict(known.levels), "runs": runs, "errors": {}}


@dataclass(frozen=True)
class _Fabric:
    """What the runs are made with."""

    plan: Plan
    wanted: Permutation
    hosts: Hosts
    known: Known

    def loaded(self, level: int, errors: dict[str, str]) -> dict[str, Any]:
        """One run on a service level; why something is not known goes to `errors`."""
        before = self._counted(errors)
        if errors:
            return {}
        flows = self._load(level, errors)
        after = self._counted(errors)
        if errors:
            return {}
        rose = [{name: late - before[part][name] for name, late in after[part].items()} for part in ("sent", "resent")]
        return {"sent": rose[0], "resent": rose[1], "flows": flows}

    def _counted(self, errors: dict[str, str]) -> dict[str, dict[str, int]]:
        """Words that each uplink sent, and packets that each adapter was asked for again."""
        name, site = self.known.manager, self.plan.site
        manager = ManagerHost(name, address_of(self.plan, name, "provisioning"), node_credentials(site))
        said = diagnosed(manager, site.timeouts.infiniband_s, options=COUNTERS_ALONE)
        if "error" in said:
            errors[name] = str(said["error"])
            return {}
        counted: Mapping[str, Mapping[str, int]] = said["counters"]
        sent: dict[str, int] = {}
        for end, planes in self.known.places.items():
            none: Mapping[str, int] = {}
            each = [next((counted[one] for one in plane if one in counted), none) for plane in planes]
            if not all("sent" in one for one in each):
                errors[end] = "ibdiagnet does not say what it sent"
                continue
            sent[end] = sum(one["sent"] for one in each)
        return {"sent": sent, "resent": self._resent(errors)}

    def _resent(self, errors: dict[str, str]) -> dict[str, int]:
        mine: dict[str, list[str]] = {}
        for end in self.wanted.ends:
            mine.setdefault(end.partition(":")[0], []).append(end)

        def of(host: str) -> dict[str, int] | DeviceError:
            try:
                said = self.hosts.ask(
                    host, {"do": "count", "rails": [self.known.devices[end] for end in mine[host]]}, SPARE_S
                )
                counted: Any = answers.read(Counted, said, Source(host, LOAD))["counters"]
            except DeviceError as error:
                return error
            each: dict[str, Any] = {end: counted.get(self.known.devices[end], {}) for end in mine[host]}
            return {end: one[ASKED_AGAIN] for end, one in each.items() if ASKED_AGAIN in one}

        found: dict[str, int] = {}
        for host, said in at_once(list(mine), of).items():
            if isinstance(said, DeviceError):
                errors[host] = str(said)
            else:
                errors |= {end: f"its driver does not count {ASKED_AGAIN}" for end in mine[host] if end not in said}
                found |= said
        return found

    def _load(self, level: int, errors: dict[str, str]) -> dict[str, str]:
        """Let all ends write at once; what each printed."""
        whole_s = READY_S + SECONDS + SPARE_S

        def request(end: str, do: str, **more: Any) -> dict[str, Any]:
            about = {"do": do, "rail": self.known.devices[end], "level": level, "seconds": SECONDS}
            return {**about, **more}

        def receive(flow: tuple[str, str]) -> DeviceError | None:
            try:
                asked = request(flow[1], "receive", ports=[self._port(flow[1])], budget_s=whole_s)
                self.hosts.ask(flow[1].partition(":")[0], asked, whole_s + SPARE_S)
            except DeviceError as error:
                return error
            return None

        def send(flow: tuple[str, str]) -> str | DeviceError:
            sender, receiver = flow
            target = address_of(self.plan, receiver.partition(":")[0], "provisioning")
            asked = request(sender, "send", target=target, port=self._port(receiver), budget_s=SECONDS + SPARE_S)
            try:
                said = self.hosts.ask(sender.partition(":")[0], asked, whole_s + SPARE_S)
                told: Any = answers.read(Sent, said, Source(sender.partition(":")[0], LOAD))
            except DeviceError as error:
                return error
            return (
                str(told["printed"])
                if told["status"] == 0
                else f"exit status {told['status']}: {told['printed'][-300:]}"
            )

        flows = list(self.wanted.flows)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(at_once, flows, receive, len(flows))  # each waits for its sender
            time.sleep(READY_S)
            told = at_once(flows, send, len(flows))
            ended = waiting.result()
        errors |= {flow[1].partition(":")[0]: str(why) for flow, why in ended.items() if why is not None}
        errors |= {flow[0].partition(":")[0]: str(said) for flow, said in told.items() if isinstance(said, DeviceError)}
        return {flow[0]: str(said) for flow, said in told.items() if not isinstance(said, DeviceError)}

    def _port(self, receiver: str) -> int:
        """A TCP port of its own for each receiving end: a server may have several."""
        return FIRST_PORT + self.wanted.ends.index(receiver)


ASKED_AGAIN = "packet_seq_err"
"""Counter of mlx5: sequence errors that a receiver reported, each of which sends packets again."""
