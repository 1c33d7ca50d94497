"""The value of a record computed again from its raw output, with the functions that the check used.

    again = Reader(plan, folder)
    why = again.doubt(item, record)            # None, or why the raw output does not show what the record says
    why = again.limit_changed(item, record)    # None, or why plan and catalogue of today give another limit

FROM_RAW has a function for each item whose raw output holds the numbers of its value; NOT_FROM_RAW says of each other item with a
limit and a raw output why not. What a raw output holds is hostile: a collector's key may have signed anything as one.
"""

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from capacity.model import Plan
from capacity.storage.load import checkpoint_load
from inventory.delivered.assets import load_assets
from inventory.site import Site
from network.discover import Port
from network.drivers import answers
from network.drivers.answers import Line, Source
from network.drivers.errors import UnreadableAnswer, one_line
from network.drivers.redfish import LogEntry, SystemState
from network.drivers.redfish_power import PowerSupplies, Thermal
from network.drivers.switch_agent import software
from network.infiniband.subnet import guid_book
from network.infiniband.wire import FABRIC
from validation import (
    assembly,
    burn_in,
    gpu_faults,
    incast,
    infiniband,
    kube,
    kube_policy,
    link_pairs,
    notices,
    permutation,
    readings,
    sharp,
    spreading,
)
from validation import training_story as story
from validation.collectives import compared, links_of, of_node
from validation.collectives import problems as bandwidth_problems
from validation.evidence import strict
from validation.evidence.record import Record, raw_path
from validation.evidence.results import Part
from validation.facts import Facts, etcd, separation_acts, shapes
from validation.facts import incast as incast_act
from validation.facts.node_results import KeptRanks
from validation.facts.storage import clients
from validation.facts.storage_acts import PHASES, canaries_read, rates, read_by
from validation.register import Item
from validation.rejudge import MOST_NAMED, is_number
from validation.runners import collectives as sweeps
from validation.runners import control_plane, granted, lookups, platform_trials, preemption, xids
from validation.runners import nccl_tests as nvidias
from validation.runners.burn_in import gpu_nodes, joined
from validation.runners.engine import Ran, Rank, workload_of
from validation.runners.reports import training_of
from validation.runners.slurm_trials import Preemption
from validation.runners.training import Recording
from validation.storage import link_faults
from validation.training_scales import problems as slow_scales
from validation.training_scales import told as scales_told

MAX_BYTES = 256 << 20
"""Of a raw output from which a value is computed again: a burn-in of 72 h keeps a result an hour for each GPU."""
REL_TOLERANCE = 1e-9
"""Between a value and its computation from the raw output: both come from the same function, JSON keeps all digits."""
UNREADABLE = (
    UnreadableAnswer,
    story.Incomplete,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)
"""What code that expects a sound raw output raises for one that is not."""


Of = TypeVar("Of")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Again:
    """What a raw output gives: the value or those parts of it that it holds, faults in it, and the limit by plan and catalogue."""

    value: Any
    problems: Sequence[str] = ()
    limit: float | None = None


class Reader:
    """Raw outputs of an evidence folder, each computed from once.

    A raw output that many records share is read once where they follow each other; of what a node said of itself all items are
    computed when the first one asks.
    """

    def __init__(self, plan: Plan, folder: Path, assets: pd.DataFrame | None = None) -> None:
        """assets: the asset list of the plan's site, where somebody has read it."""
        self.plan, self.folder = plan, folder
        if assets is not None:
            _guids.keep(plan.site, guid_book(assets))
        self._last: tuple[str, bytes] = ("", b"")
        self._known: dict[tuple[str, str, str], Again | str] = {}
        self._parts: dict[tuple[str, str, str], Sequence[Part] | str] = {}

    def doubt(self, item: Item, record: Record) -> str | None:
        """Why a record's raw output does not show what the record says; None for an item of which nothing is computed."""
        found = self._computed(item, record)
        return found if isinstance(found, str) or found is None else unlike(record, found)

    def limit_changed(self, item: Item, record: Record) -> str | None:
        """Why the limit of a record is not what plan and catalogue give today; None for an item whose limit is not computed."""
        found = self._computed(item, record)
        if not isinstance(found, Again) or found.limit is None or _alike(record.limit, found.limit):
            return None
        return f"it was judged by {_short(record.limit)}, plan and catalogue give {found.limit:g}"

    def parts(self, item: Item, record: Record) -> Sequence[Part] | str:
        """The parts of a record's raw output that nodes have to have signed, or why that cannot be said."""
        key = (item.id, record.subject, record.raw_sha256)
        if key not in self._parts:
            raw = self._raw(record.raw_sha256)
            try:
                self._parts[key] = raw if isinstance(raw, str) else PARTS[item.id](raw)
            except UNREADABLE as error:
                said = f"its raw output does not have the parts of its nodes ({type(error).__name__}: {error})"
                self._parts[key] = one_line(said)[:300]
        return self._parts[key]

    def _computed(self, item: Item, record: Record) -> Again | str | None:
        if computation(item.id, self.plan) is None:
            return None
        key = (item.id, record.subject, record.raw_sha256)
        if key not in self._known:
            raw = self._raw(record.raw_sha256)
            for one in OF_NODE_FACTS if item.id in OF_NODE_FACTS else (item.id,):
                found = raw if isinstance(raw, str) else computed(one, record.subject, self.plan, raw)
                self._known[one, record.subject, record.raw_sha256] = found
        return self._known[key]

    def _raw(self, digest: str) -> bytes | str:
        """A raw output, or why there is none."""
        if not digest:
            return "it keeps no raw output, from which its value could be computed again"
        if digest == self._last[0]:
            return self._last[1]
        try:
            raw = strict.read(self.folder, raw_path(digest), MAX_BYTES)
        except (OSError, ValueError) as error:
            return f"its raw output cannot be read: {error}"
        if hashlib.sha256(raw).hexdigest() != digest:
            return f"{raw_path(digest)} has been changed"
        self._last = (digest, raw)
        return raw


def computed(item: str, subject: str, plan: Plan, raw: bytes) -> Again | str:
    """What a raw output gives for an item of which something is computed, or why it gives nothing. LookupError for another item."""
    compute = computation(item, plan)
    if compute is None:
        raise LookupError(item)
    try:
        return compute(raw, subject, plan)
    except UNREADABLE as error:
        return one_line(f"its value cannot be computed from its raw output ({type(error).__name__}: {error})")[:300]


def unlike(record: Record, found: Again) -> str | None:
    """In what a record differs from its raw output, or which fault that shows."""
    if found.problems:
        return f"it says {record.result}, its raw output shows: {'; '.join(found.problems[:MOST_NAMED])}"
    wrong = [text for _, text in zip(range(MOST_NAMED), _differences(record.value, found.value, ""), strict=False)]
    return f"it says {'; '.join(wrong)}" if wrong else None


def _differences(said: Any, found: Any, name: str) -> Iterator[str]:
    """Where a value is not what was found, part by part; parts that were not found are not looked at."""
    if isinstance(found, dict | Mapping) and found:
        has = said if isinstance(said, dict | Mapping) else {}
        for key, one in found.items():
            text = str(key)
            if text not in has:
                yield f"nothing of {f'{name}.{text}' if name else text}, its raw output gives {_short(one)}"
            elif not _equal(has[text], one):
                yield from _differences(has[text], one, f"{name}.{text}" if name else text)
    elif isinstance(found, list | tuple) and isinstance(said, list) and len(said) == len(found):
        for at, one in enumerate(found):
            if not _equal(said[at], one):
                yield from _differences(said[at], one, f"{name}.{at}" if name else str(at))
    elif not _alike(said, found):
        yield f"{name} {_short(said)}, its raw output gives {_short(found)}".lstrip()


def _equal(said: Any, found: Any) -> bool:
    """Whether plain values are of one type and equal, which nearly all are: asked first, since _alike takes longer."""
    return type(said) is type(found) and type(found) in _PLAIN and bool(said == found)


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _alike(said: Any, found: Any) -> bool:
    if is_number(found):
        return is_number(said) and math.isclose(said, found, rel_tol=REL_TOLERANCE, abs_tol=REL_TOLERANCE)
    return type(said) is type(found) and bool(said == found)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)[:60]


class _Once(Generic[Of, Made]):
    """What a function makes of the object that it was asked about last: of a plan's frame, which no cache can hold by its value."""

    def __init__(self, make: Callable[[Of], Made]) -> None:
        self._make = make
        self._last: tuple[Of, Made] | None = None

    def keep(self, of: Of, made: Made) -> None:
        """What was made of an object already."""
        self._last = (of, made)

    def __call__(self, of: Of) -> Made:
        if self._last is None or self._last[0] is not of:
            self._last = (of, self._make(of))
        return self._last[1]


def _by_switch(cables: pd.DataFrame) -> dict[str, pd.DataFrame]:
    compute = cables[cables["fabric"] == FABRIC]
    ends = pd.concat([compute["a_device"], compute["b_device"]])
    return {str(name): compute.loc[rows.unique()] for name, rows in ends.groupby(ends).groups.items()}


_at_switches = _Once(_by_switch)
"""By device of the compute fabric, the cables that end at it."""
_guids = _Once[Site, dict[str, str]](lambda site: guid_book(load_assets(site)))
"""The GUIDs of a site's asset list."""


def _json(raw: bytes) -> Any:
    """What a raw output holds; ValueError for what is no JSON, names a key twice or has numbers that are none."""
    return strict.RAW_JSON.decode(raw.decode())


# ---- answers of devices ----------------------------------------------------------------------------------------------
ENVELOPE = frozenset({"device", "channel", "data", "error"})
"""What an answer says beside what its check adds (facts.answer.Answer.raw)."""


@functools.lru_cache(maxsize=1)
def _data(raw: bytes, subject: str) -> Mapping[str, Any]:
    """The data of a device's answer; ValueError for that of another device, or for none."""
    return _answered(_json(raw), subject)


def _answered(answer: Mapping[str, Any], subject: str) -> Mapping[str, Any]:
    if lacking := ENVELOPE - set(answer):
        raise ValueError(f"the answer has no {', '.join(sorted(lacking))}")
    if answer["device"] != subject:
        raise ValueError(f"it is the answer of {str(answer['device'])[:60]}")
    if answer["error"]:
        raise ValueError(f"it is no answer: {str(answer['error'])[:100]}")
    if not isinstance(answer["data"], dict):
        raise TypeError("data is no object")
    return answer["data"]


def _part(data: Mapping[str, Any], subject: str, name: str, shape: Any) -> Any:
    """A part of a device's answer, read again as it was when it came: UnreadableAnswer where anything of it is missing."""
    return answers.read(shape, data[name], Source(subject, f"read {name}"))


@functools.lru_cache(maxsize=1)
def _of_gpus(raw: bytes, subject: str) -> Mapping[str, Any]:
    """What a node's answer says of its GPUs and packages."""
    data, source = _data(raw, subject), Source(subject, "read its GPUs")
    return {
        "gpus": shapes.gpus_of(data["gpus"], source),
        "packages": _part(data, subject, "packages", dict[Line, Line]),
    }


def _rack_pdus(raw: bytes, rack: str, plan: Plan) -> Mapping[str, Mapping[str, Any]]:
    """The data of the PDUs of a rack, whose answers stand one after the other; ValueError for other PDUs."""
    text, at = raw.decode(), 0
    found: dict[str, Mapping[str, Any]] = {}
    while at < len(text):
        answer, at = strict.RAW_JSON.raw_decode(text, at)
        at += text[at : at + 1] == "\n"
        name = answer["device"]
        found[name] = shapes.data_of("pdus", name, _answered(answer, name))
    wanted = set(plan.circuits.loc[plan.circuits["rack"] == rack, "pdu"])
    if set(found) != wanted:
        raise ValueError(f"it has answers of {', '.join(sorted(map(str, found)))[:100]}, the plan has {sorted(wanted)}")
    return found


def _crossed(raw: bytes, subject: str, plan: Plan) -> Again:
    pings = _part(_data(raw, subject), subject, "pings", list[shapes.Ping])
    return Again(readings.crossed_b(pings), readings.pings_missing(plan, subject, pings))


def _mtu(raw: bytes, subject: str, plan: Plan) -> Again:
    """The smallest MTU of the in-band ports that the plan cables."""
    data, cables = _data(raw, subject), plan.cables[plan.cables["fabric"] == "inband"]
    ports = [*cables.loc[cables["a_device"] == subject, "a_port"], *cables.loc[cables["b_device"] == subject, "b_port"]]
    of_a_switch = "ports" in data
    name, shape = ("ports", dict[Line, shapes.SwitchPort]) if of_a_switch else ("links", dict[Line, shapes.Link])
    return Again(readings.smallest_mtu(_part(data, subject, name, shape), ports))


def _offset(raw: bytes, subject: str, plan: Plan) -> Again:
    """The 99th percentile of a day's offsets, and what else the check asks of the clock."""
    data, limits = _data(raw, subject), plan.site.limits
    chrony, day = _part(data, subject, "chrony", shapes.Chrony), _part(data, subject, "clock_day", shapes.ClockDay)
    value = readings.p99_ms(day)
    return Again(
        value,
        readings.clock_faults(chrony, day, limits["time_offset_ms"].value, limits["time_offset_samples"].value),
    )


def _imbalance(raw: bytes, subject: str, plan: Plan) -> Again:
    amps = [phase["amps"] for phase in shapes.data_of("pdus", subject, _data(raw, subject))["phases"]]
    value = {"imbalance_pct": readings.imbalance_pct(amps, readings.half_line_a(plan.site))}
    more, faults = readings.balance(plan, subject, amps, float(plan.site.limits["phase_load_min_pct"].value))
    return Again(value | more, [*readings.phases_missing(plan, subject, len(amps)), *faults])


def _share(raw: bytes, subject: str, plan: Plan) -> Again:
    usable_kw = plan.circuits.set_index("pdu")["usable_kw"]
    pdus = _rack_pdus(raw, subject, plan)
    silent = [f"no reading of the whole load from {name}" for name, data in pdus.items() if not data["power_w"]]
    if silent:
        return Again({}, silent)
    return Again({name: readings.share_pct(data["power_w"], usable_kw[name] * 1000) for name, data in pdus.items()})


def _energy(raw: bytes, subject: str, plan: Plan) -> Again:
    pdus = _rack_pdus(raw, subject, plan)
    unread = [fault for name, data in pdus.items() for fault in readings.outlets_missing(plan, name, data["outlets"])]
    unread += [f"0 W at {name} is no reading" for name, data in pdus.items() if not data["power_w"]]
    whole_w = sum(data["power_w"] for data in pdus.values())
    outlets_w = sum(outlet["watts"] for data in pdus.values() for outlet in data["outlets"])
    value = {"pdus_w": round(whole_w, 1), "outlets_w": round(outlets_w, 1)}
    return Again({**value, "apart_pct": readings.apart_pct(whole_w, outlets_w)}, unread)


def _supplies(raw: bytes, subject: str, plan: Plan) -> Again:
    supplies = _part(_data(raw, subject), subject, "power_supplies", PowerSupplies)
    row = plan.devices[plan.devices["name"] == subject].iloc[0]
    psu = plan.catalog.device(str(row["model"])).bringup.psu
    faults = readings.supply_faults(
        supplies,
        rating_w=psu.rating_w if psu else 0,
        nominal_v=plan.site.server.supplies.input_v,
        tolerance_pct=float(plan.site.limits["psu_input_tolerance_pct"].value),
    )
    value = {"healthy": len(readings.healthy(supplies["psus"])), "supplies": supplies["psus"]}
    return Again(value, faults, int(row["psu_count"]))


def _version(raw: bytes, subject: str, plan: Plan) -> Again:
    said, compute = _data(raw, subject), plan.site.fabric.nos
    if "sys_descr" in said and compute:  # the answer of a compute switch's SNMP agent
        agent = shapes.data_of("agents", subject, said)
        seen, pin = software(compute, agent["sys_descr"]), plan.site.versions.get(compute)
    else:
        seen, pin = _part(said, subject, "version", Line), plan.site.versions.get(plan.site.inband.nos)
    return Again(seen, [] if seen == pin else [f"runs {seen}, pinned {pin}"])


def _neighbours(raw: bytes, subject: str, plan: Plan) -> Again:
    """What LLDP says, and what of it is not as planned. Of an InfiniBand switch, which has no LLDP, its links in the subnet as a
    host sees it.
    """
    fabrics = dict(zip(plan.devices["name"], plan.devices["fabric"], strict=True))
    if fabrics.get(subject) != "compute" or plan.site.fabric.kind != "ib":
        lldp = _part(_data(raw, subject), subject, "lldp", dict[Line, Port])
        unjudged = _json(raw)["not_judged"]
        faults = readings.neighbour_faults(plan, subject, lldp, unjudged)
        value = {"neighbours": lldp, "not_judged": unjudged}
        return Again(value, [f"{one.id} {one.subject}: {one.message}" for one in faults])
    cables = _at_switches(plan.cables).get(subject, plan.cables[:0])
    links, faults = infiniband.links_of_part(plan, subject, cables, _guids(plan.site), raw)
    return Again({"links": links}, [f"{one.id} {one.subject}: {one.message}" for one in faults])


def _storage_links(raw: bytes, subject: str, plan: Plan) -> Again:
    said = _data(raw, subject)
    links = _part(said, subject, "links", dict[Line, shapes.Link])
    data = {"storage": shapes.storage_of(said["storage"], Source(subject, "read storage")), "links": links}
    server = data["storage"].get("server", {})
    value = {"listening": server.get("listening"), "clients": server.get("clients")}
    return Again(value, link_faults(plan, subject, data))


def _gpus(judge: Callable[[Plan, str, Mapping[str, Any]], gpu_faults.Found]) -> Callable[[bytes, str, Plan], Again]:
    """What a step says of a node's GPUs, judged again from all that the node said."""

    def again(raw: bytes, subject: str, plan: Plan) -> Again:
        found = judge(plan, subject, _of_gpus(raw, subject))
        return Again(found.value, found.problems)

    return again


def _self_test(raw: bytes, subject: str, plan: Plan) -> Again:
    data = _data(raw, subject)
    state = _part(data, subject, "state", SystemState)
    said = {"state": state, "event_log": _part(data, subject, "event_log", list[LogEntry])}
    return Again(*readings.self_test(plan, subject, said))


def _adapters(raw: bytes, subject: str, plan: Plan) -> Again:
    """Every link between a switch and the adapters that the plan hangs on it, as mlxlink says at the adapter, and the ends of
    switches that their drivers read.
    """
    said, faults = _json(raw), []
    cables = readings.adapter_cables(plan, subject)
    for host, port, rate in cables[["a_device", "a_port", "rate_gbps"]].itertuples(index=False, name=None):
        end = f"{host}:{port}"
        found = readings.link_faults(said[end], host, rate, plan.site) if end in said else ["was not asked"]
        faults += [f"{end} {fault}" for fault in found]
    far = link_pairs.soaked(plan, subject, said)
    return Again({"links": len(cables), "ends_of_switches": far.timed, "faults": 0}, [*faults, *far.problems])


def _pairs(raw: bytes, subject: str, plan: Plan) -> Again:
    """Both ends of each planned link of a switch, compared again."""
    found = link_pairs.judge(plan, subject, _json(raw))
    return Again(found.value, found.problems)


def _incast(judge: Callable[[Plan, Mapping[str, Any]], incast.Found]) -> Callable[[bytes, str, Plan], Again]:
    """What an incast showed, from the counters of all ends on its way."""

    def again(raw: bytes, subject: str, plan: Plan) -> Again:
        said = _json(raw)
        wanted = incast_act.planned(plan)
        if wanted is None or said["incast"] != json.loads(json.dumps(asdict(wanted))):
            return Again({}, ["its senders, cables or ports are not those of the plan"])
        lost = [end for end in incast_act.ends(wanted) for at in ("before", "later") if end not in said[at]]
        lost += [end for end, told in said["later"].items() if set(told) != set(said["before"].get(end, ()))]
        if lost:
            return Again({}, [f"counters are missing at {', '.join(dict.fromkeys(lost[:MOST_NAMED]))}"])
        found = judge(plan, said)
        return Again(found.value, found.problems)

    return again


def _permuted(raw: bytes, subject: str, plan: Plan) -> Again:
    """What a permutation showed of adaptive routing, from the counters of uplinks and adapters."""
    judge = permutation.judge if plan.site.fabric.kind == "ib" else spreading.judge
    found = judge(plan, _json(raw))
    return Again(found.value, found.problems)


def _air(raw: bytes, subject: str, plan: Plan) -> Again:
    data = _data(raw, subject)
    supplies, thermal = _part(data, subject, "power_supplies", PowerSupplies), _part(data, subject, "thermal", Thermal)
    return Again(*assembly.air({"power_supplies": supplies, "thermal": thermal}))


# ---- jobs and runs ---------------------------------------------------------------------------------------------------
def _recap(raw: bytes, subject: str, plan: Plan) -> Again:
    """The counts of a node in the recap that ansible-playbook prints last."""
    found = _recaps(raw).get(subject, [])
    if len(found) != 1:
        raise ValueError(f"{len(found)} recaps of {subject}")
    return Again(found[0])


@functools.lru_cache(maxsize=1)
def _recaps(raw: bytes) -> Mapping[str, Sequence[Mapping[str, int]]]:
    """Each recap of each node in what ansible-playbook printed."""
    row = re.compile(r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)\b", re.MULTILINE)
    found: dict[str, list[Mapping[str, int]]] = {}
    for node, *counts in row.findall(raw.decode(errors="replace")):
        named = zip(("ok", "changed", "unreachable", "failed"), map(int, counts), strict=True)
        found.setdefault(node, []).append(dict(named))
    return found


def _preempted(raw: bytes, subject: str, plan: Plan) -> Again:
    seen = Preemption.from_json(raw)
    return Again({"start_s": seen.start_s, "restarts": seen.restarts}, seen.faults)


def _burn_in(raw: bytes, subject: str, plan: Plan) -> Again:
    """Hours and faults of one node's samples. What only a comparison with other nodes shows is not among them."""
    files = _json(raw)["ranks"]
    if not isinstance(files, list) or not all(isinstance(text, str) for text in files):
        raise TypeError("ranks is no list of texts")
    node = joined(files, 0, Source(subject, "read the results of the burn-in"))
    keys = ("drift_pct", "outlier_c", "power_pct")
    limits = burn_in.Limits(*(plan.site.limits[f"burn_in_{key}"].value for key in keys))
    model = str(plan.devices.loc[plan.devices["name"] == subject, "model"].iloc[0])
    gpus, ranks = plan.catalog.device(model).bringup.gpus, workload_of(plan).ranks_per_node
    found = burn_in.problems({"nodes": {subject: node}}, subject, gpus, limits, ranks)
    return Again({"hours": readings.hours(node["duration_s"])}, found)


def _side_by_side(raw: bytes) -> Mapping[str, str]:
    """The parts of the nodes in a joined raw output (node_results.side_by_side)."""
    parts = _json(raw)["parts"]
    if not isinstance(parts, dict) or not parts or not all(isinstance(text, str) for text in parts.values()):
        raise TypeError("parts is no object of texts")
    return parts


def _absent(texts: Mapping[str, str], plan: Plan) -> list[str]:
    """The GPU nodes of the plan that have no part, as a fault."""
    absent = sorted(set(gpu_nodes(plan)) - set(texts))
    return [f"not in the job: {', '.join(absent)}"] if absent else []


def _writes(raw: bytes, subject: str, plan: Plan) -> Again:
    """The rates of all nodes together, and the rate that the plan asks for."""
    texts = _side_by_side(raw)
    value = {phase: rate.plain() for phase, rate in zip(PHASES, rates(texts), strict=True)}
    return Again(value, _absent(texts, plan), checkpoint_load(plan.site).write_gb_s)


def _canaries(raw: bytes, subject: str, plan: Plan) -> Again:
    """What a node read of the canaries of others: their content follows from the run's nonce."""
    texts = _side_by_side(raw)
    if set(texts) != {subject}:
        raise ValueError(f"it is what {', '.join(sorted(texts))[:100]} read")
    read, wanted = canaries_read(texts[subject].encode(), subject), read_by(clients(plan), subject)
    faults = [f"canary of {name}: {what}" for name, what in read.items() if what]
    strangers, unread = sorted(set(read) - set(wanted)), [name for name in wanted if name not in read]
    faults += [f"{', '.join(strangers)} has no canary for {subject}"] if strangers else []
    faults += [f"canary of {', '.join(unread[:MOST_NAMED])}: nothing was read"] if unread else []
    return Again({"canaries": len(read)}, faults if read else ["no other node's canary was read"])


def _separated(raw: bytes, subject: str, plan: Plan) -> Again:
    """What every server reached of what the matrix allows and denies."""
    texts, planned = _side_by_side(raw), separation_acts.probes(plan)
    absent = [f"not asked: {name}" for name in planned if name not in texts]
    found = [
        fault
        for name, text in texts.items()
        for fault in separation_acts.faults(plan, name, text.encode(), planned.get(name, {}))
    ]
    return Again(separation_acts.counted(plan, planned), [*absent, *found])


def _kept(texts: Mapping[str, str]) -> dict[str, Any]:
    """By node what it keeps of a job: the files of its ranks, and what lies beside them."""
    found = {}
    for node, text in texts.items():
        source = Source(node, "read what it keeps of a job")
        found[node] = answers.read(KeptRanks, answers.load(text, source), source)
    return found


def _sweep(raw: bytes, subject: str, plan: Plan) -> Again:
    """The whole sweep joined again. Faults: GPU nodes without a part, ranks that are not as planned, wrong results, bandwidths that
    NICs and NVLink of plan and catalogue do not allow, or of which they allow much more."""
    texts = _side_by_side(raw)
    kept = _kept(texts)
    ranks = sweeps.ranks_of({node: one["ranks"] for node, one in kept.items()})
    report = sweeps.joined(ranks, Source(subject, "join what the ranks of the collectives measured"))
    workload, each = workload_of(plan), tuple(map(Rank.of, report["ranks"]))
    links = links_of(plan) if workload.computes_on == "gpu" else None
    least = plan.site.limits.get("collectives_busbw_pct")
    samples = {node: one["samples"] for node, one in kept.items()}
    faults = [
        *_absent(texts, plan),
        *workload.mismatches(len(gpu_nodes(plan)), Ran(report["device"], report["backend"], len(each), each), "nccl"),
        *sweeps.unlike(sweeps.wanted_of(plan), ranks, gpu_nodes(plan)),
        *bandwidth_problems(links, each, report["rows"], Facts(), float(least.value) if least else None),
        *(compared(nvidias.printed(samples))[0] if links else []),
        *(
            [
                f"{rank['host']}: NCCL does not say over what it connected"
                for rank in ranks
                if links and not rank["transports"]
            ]
        ),
    ]
    value = {key: report[key] for key in ("world_size", "backend", "device", "rows")}
    return Again({**value, "all_reduce_mb_s": readings.all_reduce_mb_s(report["rows"])}, faults)


def _in_network(raw: bytes, subject: str, plan: Plan) -> Again:
    """All-reduce with and without reduction in the switches, joined again. GPU nodes without a part are faults."""
    texts = _side_by_side(raw)
    ranks = sweeps.ranks_of({node: one["ranks"] for node, one in _kept(texts).items()})
    found = sharp.judge(plan, ranks)
    return Again(found.value, [*_absent(texts, plan), *found.problems])


def _nvlink(raw: bytes, subject: str, plan: Plan) -> Again:
    """The NCCL of one node by itself, from its own part."""
    ranks = sweeps.ranks_of({subject: _kept({subject: raw.decode()})[subject]["ranks"]})
    told = sweeps.of_one_node(ranks, subject, Source(subject, "read its collectives"))
    least_pct = float(plan.site.limits["collectives_busbw_pct"].value)
    found, least = of_node(links_of(plan), told, workload_of(plan).ranks_per_node, least_pct)
    value = {"busbw_gb_s": told["busbw_mb_s"] / 1e3, "transports": told["transports"]}
    silent = [
        f"NCCL of rank {rank['rank']} does not say over what it connected" for rank in ranks if not rank["transports"]
    ]
    faults = [*sweeps.unlike(sweeps.wanted_of(plan), ranks, [subject]), *found, *silent]
    return Again(value, faults, None if least is None else round(least, 3))


@functools.lru_cache(maxsize=1)
def _recording(raw: bytes) -> Recording:
    """A recording of a training; UnreadableAnswer where anything is missing that a run writes."""
    said = _json(raw)
    training_of(said, Source("the training", "read its recording"))
    return Recording(**said)


Told = Callable[[Recording, Plan], tuple[Any, Sequence[str]]]
"""What a recording tells for an item: the value, and what is wrong."""


def _training(item: str, told: Told) -> Callable[[bytes, str, Plan], Again]:
    """What an item says of a training, where its runs are those of the plan and all of their ranks wrote all that they have to."""

    def again(raw: bytes, subject: str, plan: Plan) -> Again:
        recording = _recording(raw)
        if missing := story.unplanned(plan, recording, item):
            return Again({}, missing)
        return Again(*told(recording, plan))

    return again


def _metrics(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    return story.metrics_pct(recording, "undisturbed"), ()


def _delays(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    seen = story.delay_seen_pct(recording, "undisturbed")
    return {str(rank): {"delay_seen_pct": share} for rank, share in seen.items()}, ()


def _stragglers(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    named, slow = story.stragglers(recording, "undisturbed"), recording.settings["slow"]
    right = named.get("-".join(map(str, slow["steps"]))) == slow["rank"]
    return named, [] if right else [f"rank {slow['rank']} was slowed, named are {named or 'nobody'}"]


def _series(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    faults = [*story.series_faults(recording), *story.silent_detectors(recording)]
    return {"runs": sorted(recording.metrics)}, faults


def _checkpoints(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    found = story.checkpoints(recording)
    return found, [f"{found['failed']} checkpoints failed"] if found["failed"] else []


def _scales(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    found = scales_told(plan, recording)
    return found, slow_scales(plan, found)


def _recovery(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    told = story.tell(recording)
    value = {"stages": told.stages, "lost_steps": told.lost_steps, "finals": told.finals}
    return {**value, "alone_off_pct": story.alone_off_pct(recording)}, story.unrecovered(plan, recording, told)


def _anew(recording: Recording, plan: Plan) -> tuple[Any, Sequence[str]]:
    return story.started_anew(recording)


OF_TRAINING: Mapping[str, Told] = {
    "P-11.measured": _anew,
    "S176.measured": _metrics,
    "S177.observed": _series,
    "S179.measured": _delays,
    "S179.observed": _stragglers,
    "S181.measured": _checkpoints,
    "S186.measured": _scales,
    "S188.measured": _recovery,
}
"""By item about a training, what its recording tells."""


Judge = Callable[[Mapping[str, Any], Plan], kube.Judged]
JudgeNode = Callable[[Mapping[str, Any], Plan, str], kube.Judged]


def _kube(judge: Judge, *parts: str) -> Callable[[bytes, str, Plan], Again]:
    """Parts of what an API server said, judged as their check did."""

    def again(raw: bytes, subject: str, plan: Plan) -> Again:
        said = _json(raw)
        return Again(*judge({part: said[part] for part in parts}, plan))

    return again


def _kube_node(judge: JudgeNode, *parts: str) -> Callable[[bytes, str, Plan], Again]:
    """The same about one node."""

    def again(raw: bytes, subject: str, plan: Plan) -> Again:
        return _kube(lambda said, plan: judge(said, plan, subject), *parts)(raw, subject, plan)

    return again


OF_TRIALS: Mapping[str, tuple[Any, Callable[[Any, str, Plan], kube.Judged]]] = {
    "P-03.measured": (preemption.Preempted, lambda said, subject, plan: kube.preempted(said, plan)),
    "P-06.measured": (dict[str, granted.Grant], lambda said, subject, plan: kube.granted(said, plan, subject)),
    "P-07.measured": (dict[str, granted.Grant], lambda said, subject, plan: kube.none_granted(said)),
    "P-08.measured": (control_plane.Served, lambda said, subject, plan: kube.served_on(said, plan)),
    "P-09.measured": (control_plane.Kept, lambda said, subject, plan: kube.nothing_lost(said)),
    "P-10.measured": (platform_trials.Stopped, lambda said, subject, plan: kube.kubelet_stopped(said)),
    "P-12.measured": (xids.Less, lambda said, subject, plan: kube.one_gpu_less(said, plan, subject)),
    "P-13.measured": (platform_trials.ByHand, lambda said, subject, plan: kube.by_hand(said, plan)),
    "P-14.applied": (etcd.Encrypted, lambda said, subject, plan: kube.encrypted(said)),
    "P-15.measured": (etcd.Restored, lambda said, subject, plan: kube.restored(said)),
    "P-17.measured": (platform_trials.Unfit, lambda said, subject, plan: kube.node_unfit(said)),
    "P-19.measured": (lookups.Lookup, lambda said, subject, plan: kube.api_server_found(said)),
}
"""By item about a trial of the platform, the shape of what it gave and how its check judges that."""


def _of_trial(shape: Any, judge: Callable[[Any, str, Plan], kube.Judged]) -> Callable[[bytes, str, Plan], Again]:
    def again(raw: bytes, subject: str, plan: Plan) -> Again:
        said = answers.read(shape, _json(raw), Source(subject, "try the platform"))
        return Again(*judge(said, subject, plan))

    return again


FROM_RAW: Mapping[str, Callable[[bytes, str, Plan], Again]] = {
    **{item: _of_trial(*of) for item, of in OF_TRIALS.items()},
    "P-01.measured": _kube(kube.gangs, "halves"),
    "P-02.measured": _kube(kube.one_block, "block"),
    "P-04.measured": _kube(kube.held_to_quotas, "trials", "quotas"),
    "P-05.measured": _kube(kube.who_may, "rights"),
    "P-13.applied": _kube(kube.objects, "objects"),
    "P-16.applied": _kube_node(kube.node, "nodes"),
    "P-18.measured": _kube(kube.reclaimed, "reclaim"),
    "S007.applied": _gpus(gpu_faults.firmware),
    "S020.observed": _supplies,
    "S026.measured": _gpus(gpu_faults.installed),
    "S027.observed": _gpus(gpu_faults.power),
    "S029.measured": _gpus(gpu_faults.links),
    "S030.observed": _air,
    "S031.measured": _self_test,
    "S033.applied": _gpus(gpu_faults.stack),
    "S047.measured": _adapters,
    "S034.measured": _burn_in,
    "S054.applied": _mtu,
    "S054.measured": _crossed,
    "S055.measured": _incast(incast.lossless),
    "S056.measured": _incast(incast.marked),
    "S057.measured": _permuted,
    "S058.measured": _in_network,
    "S061.applied": _version,
    "S062.measured": _neighbours,
    "S066.measured": _sweep,
    "S068.measured": _separated,
    "S086.observed": _share,
    "S088.observed": _imbalance,
    "S124.measured": _writes,
    "S125.applied": _storage_links,
    "S130.applied": _canaries,
    "S143.applied": _recap,
    "S144.observed": _offset,
    "S148.applied": _gpus(gpu_faults.cuda),
    "S151.applied": _gpus(gpu_faults.nccl),
    "S151.measured": _nvlink,
    "S160.measured": _preempted,
    "S170.observed": _pairs,
    "S171.observed": _energy,
    **{item: _training(item, told) for item, told in OF_TRAINING.items()},
}
"""By item, how its value is computed from the raw output of its check, with the functions that the check uses."""


ON_KUBERNETES: Mapping[str, Callable[[bytes, str, Plan], Again]] = {
    "S156.applied": _kube_node(kube_policy.registered, "nodes", "hardware"),
    "S157.applied": _kube(kube_policy.enforced, "objects", "trials", "quotas"),
    "S158.applied": _kube_node(kube_policy.allotted, "nodes", "grants", "too_many"),
    "S159.applied": _kube(kube_policy.placed_whole, "objects", "nodes"),
    "S159.measured": _kube(kube.gangs, "halves"),
    "S160.applied": _kube(kube_policy.preemption, "objects"),
    "S160.measured": _of_trial(*OF_TRIALS["P-03.measured"]),
    "S162.applied": _kube(kube_policy.reservations, "reservation"),
    "S162.measured": _kube(kube_policy.window, "reservation"),
    "S163.applied": _kube(kube_policy.charged, "objects", "charged"),
    "S164.applied": _kube(notices.set_up, "files"),
    "S164.measured": _kube(notices.told, "notices"),
}
"""The same for items whose check on a site with Kubernetes is another one. It replaces that of FROM_RAW there."""


def computation(item: str, plan: Plan) -> Callable[[bytes, str, Plan], Again] | None:
    """How the value of an item is computed on the site of a plan; None where it is not."""
    own = ON_KUBERNETES if plan.site.scheduler.kind == "kubernetes" else {}
    return own.get(item) or FROM_RAW.get(item)


def _digests(raw: bytes) -> list[Part]:
    return [(node, hashlib.sha256(text.encode()).hexdigest()) for node, text in _side_by_side(raw).items()]


def _trained(raw: bytes) -> list[Part]:
    """What nodes signed of a training; ValueError where the events that are judged are others."""
    recording = _recording(raw)
    if why := story.unlike_parts(recording):
        raise ValueError(why)
    parts = [part for run in recording.parts.values() for part in run.items()]
    if not parts:
        raise ValueError("it has none")
    return [(node, hashlib.sha256(text.encode()).hexdigest()) for node, text in parts]


PARTS: Mapping[str, Callable[[bytes], Sequence[Part]]] = {
    "P-11.measured": _trained,
    "S058.measured": _digests,
    "S066.measured": _digests,
    "S068.measured": _digests,
    "S124.measured": _digests,
    "S130.applied": _digests,
    "S176.measured": _trained,
    "S177.observed": _trained,
    "S179.measured": _trained,
    "S179.observed": _trained,
    "S181.measured": _trained,
    "S186.measured": _trained,
    "S188.measured": _trained,
}
"""By joined item (evidence.results), the parts of a raw output that nodes have to have signed, each with its node."""
OF_GPUS = (
    "S007.applied",
    "S026.measured",
    "S027.observed",
    "S029.measured",
    "S033.applied",
    "S148.applied",
    "S151.applied",
)
"""Items of FROM_RAW that are about the GPUs of a node."""
OF_NODE_FACTS = (*OF_GPUS, "S054.applied", "S054.measured", "S125.applied", "S144.observed")
"""Items of FROM_RAW whose raw output is the same answer of a node."""
OF_THE_WHOLE_NODE = (
    "the limit is a release or a word, judged by rules over the whole answer of the node, and by plan and catalogue"
)
NOT_FROM_RAW: Mapping[str, str] = {
    "S003.observed": "the raw output is the loggers' files as they came, one after the other: nothing says where one ends",
    "S032.applied": OF_THE_WHOLE_NODE,
    "S059.observed": "the age of a counter is that at the moment of the question, which the raw output does not have",
    "S060.applied": "the seconds of a takeover are the program's own clock; the raw output is the fabric afterwards",
    "S141.applied": OF_THE_WHOLE_NODE,
    "S142.applied": "the limit is a word: the SHA-256 of the image that was built",
    "S159.measured": "the value has no number that is compared with the limit, which is a time budget",
    "S165.measured": "the value has no number that is compared with the limit, which is a time budget",
    "S167.observed": "the age of a reading is that at the moment of the question, which the raw output does not have",
}
"""Items with a limit and a raw output whose value is not computed again, and why."""
