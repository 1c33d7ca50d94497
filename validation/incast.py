"""What an incast showed of a fabric's lossless class (facts/incast.py): S055 and S056. Pure.

    found = lossless(plan, said)        # nothing of the class is dropped, marks come before pauses, pauses end with the load
    found = marked(plan, said)          # only the planned priority and queue carried the load, notifications their own

A counter that began anew in between, or an end that was not read, is a fault: nothing is taken for granted.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capacity.model import Plan
from network.counters import increase
from network.lossless import Intent
from network.wiring import lossless as wiring
from validation.facts import incast
from validation.facts.incast import Incast

OTHER_SHARE = 0.01
"""Of all packets on the way, most that may be of other priorities: sessions, LLDP and ARP, a few a second beside millions."""
PRIORITIES = range(8)
RATE = re.compile(r"^\s*[0-9]+\s+[0-9]+\s+[0-9.]+\s+([0-9.]+)\s+[0-9.]+\s*$", re.MULTILINE)
"""Row of ib_write_bw: #bytes #iterations BW peak, BW average, MsgRate."""
SWITCH_WORDS = ("sent", "marked", "dropped", "pauses_sent", "pauses_received")
SERVER_WORDS = ("sent", "received", "pauses_sent", "pauses_received", "dropped")


@dataclass(frozen=True)
class Found:
    """The verdict on one incast."""

    value: dict[str, Any]
    problems: list[str]


@dataclass(frozen=True)
class _Rose:
    """By how much each counter of each end rose from before the load until it had settled, and from its end on."""

    wanted: Incast
    intent: Intent
    whole: Mapping[str, Mapping[str, int]]
    settled: Mapping[str, Mapping[str, int]]

    def of(self, end: str, word: str, number: int) -> int:
        return self.whole[end].get(f"{word}/{number}", 0)

    def is_switch(self, end: str) -> bool:
        return end.partition(":")[0] in self.wanted.ports


def _read(plan: Plan, said: Mapping[str, Any]) -> tuple[_Rose | None, list[str]]:
    """Counters of all ends, and why they are not known or the load did not run."""
    wanted, intent = incast.planned(plan), wiring.intent(plan.site)
    if wanted is None or intent is None:
        return None, ["the plan gives its rails no addresses (site addressing.rails, fabric.nos, fabric.asn_base)"]
    problems = [f"{name}: {why}" for name, why in said["errors"].items()]
    if "before" not in said:
        return None, problems or ["it was not run"]
    for flow in wanted.flows:
        printed = said["flows"].get(f"{flow.server}:{flow.rail}")
        if printed is not None and not RATE.search(printed):
            problems.append(
                f"{flow.server}:{flow.rail} sent nothing: {printed.strip()[-200:] or 'ib_write_bw printed nothing'}"
            )
        elif printed is None and flow.server not in said["errors"]:
            problems.append(f"{flow.server}:{flow.rail} is not in the load")
    whole: dict[str, dict[str, int]] = {}
    settled: dict[str, dict[str, int]] = {}
    for end in incast.ends(wanted):
        readings = [said[when].get(end) for when in ("before", "after", "later")]
        words = SWITCH_WORDS if end.partition(":")[0] in wanted.ports else SERVER_WORDS
        if None in readings:
            problems.append(f"{end} was not read")
            continue
        before, after, later = readings
        lacking = [word for word in words if not any(name.startswith(f"{word}/") for name in later)]
        lacking += sorted({*before} - {*later})
        if lacking:
            problems.append(f"{end} does not count {', '.join(lacking)}")
            continue
        rose = {name: increase(before.get(name, 0), number) for name, number in later.items()}
        if anew := sorted(name for name, (_, began) in rose.items() if began):
            problems.append(f"{end}: {', '.join(anew)} began anew during the load")
        whole[end] = {name: amount for name, (amount, _) in rose.items()}
        settled[end] = {name: number - after.get(name, 0) for name, number in later.items()}
    missing = set(incast.ends(wanted)) - set(whole)
    return (None if missing else _Rose(wanted, intent, whole, settled)), problems


def _value(rose: _Rose | None, said: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    rates = [float(found[1]) for text in said.get("flows", {}).values() if (found := RATE.search(text))]
    value: dict[str, Any] = {"senders": len(rates), "gb_s": round(sum(rates) / 8, 3), "faults": len(problems)}
    if rose is None:
        return value
    switches = [end for end in rose.whole if rose.is_switch(end)]
    queue, priority = rose.intent.traffic_class, rose.intent.priority
    return value | {
        "marked": sum(rose.of(end, "marked", queue) for end in switches),
        "pauses": sum(rose.of(end, "pauses_sent", priority) for end in switches),
        "dropped": sum(rose.of(end, "dropped", queue) for end in switches),
    }


# ---- S055 ------------------------------------------------------------------------------------------------------------
def lossless(plan: Plan, said: Mapping[str, Any]) -> Found:
    """Whether the class lost nothing while its port was overloaded, and why."""
    rose, problems = _read(plan, said)
    if rose is not None:
        problems += [
            *_drops(rose),
            *_congested(rose),
            *_other_pauses(rose),
            *_storm(rose),
            *_watchdog(rose),
            *_both_ends(rose),
        ]
        if rose.intent.congestion_control == "dcqcn":
            problems += _order(rose.intent, said["samples"])
    return Found(_value(rose, said, problems), problems)


def _drops(rose: _Rose) -> Iterator[str]:
    for end in rose.whole:
        number = rose.intent.traffic_class if rose.is_switch(end) else rose.intent.priority
        if dropped := rose.of(end, "dropped", number):
            yield f"{end} dropped {dropped} packets of the class"


def _congested(rose: _Rose) -> Iterator[str]:
    """Without a mark or a pause nothing shows that the port was overloaded: a load that is too small loses nothing anyway."""
    switches = [end for end in rose.whole if rose.is_switch(end)]
    marked = sum(rose.of(end, "marked", rose.intent.traffic_class) for end in switches)
    paused = sum(rose.of(end, "pauses_sent", rose.intent.priority) for end in switches)
    if not marked + paused:
        yield "no switch marked a packet or paused a sender: the load did not overload a port, so nothing was shown"
    elif rose.intent.marks and not marked:
        yield f"switches sent {paused} pauses and marked nothing: ECN does not act"


def _other_pauses(rose: _Rose) -> Iterator[str]:
    for end in rose.whole:
        others = [n for n in PRIORITIES if n != rose.intent.priority and rose.of(end, "pauses_sent", n)]
        if others:
            yield f"{end} paused {', '.join(f'priority {n}' for n in others)}, which is not the class without loss"


def _storm(rose: _Rose) -> Iterator[str]:
    """Pauses that go on without load: the port that sends them stops its peer for no reason."""
    for end, counters in rose.settled.items():
        if (more := counters.get(f"pauses_sent/{rose.intent.priority}", 0)) > 0:
            yield f"{end} sent {more} pauses after the load had ended"


def _watchdog(rose: _Rose) -> Iterator[str]:
    """A watchdog that took a queue for stuck dropped or held its packets. Only some systems count it."""
    for end in rose.whole:
        if storms := rose.of(end, "storms", rose.intent.traffic_class):
            yield f"the PFC watchdog of {end} fired {storms} times on the class"


def _both_ends(rose: _Rose) -> Iterator[str]:
    """A pause that the other end does not count was lost or not understood. Both were read without load, so they are equal."""
    for a, b in rose.wanted.cables:
        for source, destination in ((a, b), (b, a)):
            sent = rose.of(source, "pauses_sent", rose.intent.priority)
            received = rose.of(destination, "pauses_received", rose.intent.priority)
            if sent != received:
                yield f"{source} sent {sent} pauses, {destination} received {received}"


def _order(intent: Intent, samples: list[Any]) -> Iterator[str]:
    """With DCQCN a queue marks before it pauses, so that senders slow down first."""
    if not samples:
        yield "the receiver's leaf was not read during the load"
        return
    first = samples[0][1]
    names = (f"marked/{intent.traffic_class}", f"pauses_sent/{intent.priority}")
    rises = [
        next((at for at, counters in samples if counters.get(name, 0) > first.get(name, 0)), None) for name in names
    ]
    marks, pauses = rises
    if pauses is not None and (marks is None or marks > pauses):
        when = "not at all" if marks is None else f"{marks:g} s"
        yield f"the receiver's leaf paused senders after {pauses:g} s and marked {when}: marks have to come first"


# ---- S056 ------------------------------------------------------------------------------------------------------------
def marked(plan: Plan, said: Mapping[str, Any]) -> Found:
    """Whether the load had the planned priority and queue at adapters, leaf and spines, and notifications theirs."""
    rose, problems = _read(plan, said)
    if rose is not None:
        problems += [*_priorities(rose), *_crossed(rose), *_notified(rose)]
    return Found(_value(rose, said, problems), problems)


def _priorities(rose: _Rose) -> Iterator[str]:
    intent = rose.intent
    for end in rose.whole:
        planned = intent.traffic_class if rose.is_switch(end) else intent.priority
        words = ("sent",) if rose.is_switch(end) else ("sent", "received")
        for word in words:
            each = {number: rose.of(end, word, number) for number in PRIORITIES}
            others = {n: amount for n, amount in each.items() if n not in (planned, intent.cnp_class) and amount}
            if sum(others.values()) > OTHER_SHARE * sum(each.values()):
                shown = ", ".join(f"{amount} with {n}" for n, amount in others.items())
                yield f"{end} {word} {shown}, {each[planned]} with {planned} as planned"


def _crossed(rose: _Rose) -> Iterator[str]:
    """Whether the load was seen where it had to pass: at each sender, the receiver, its leaf, and the spines."""
    intent, wanted = rose.intent, rose.wanted
    for flow in wanted.flows:
        if not rose.of(f"{flow.server}:{flow.rail}", "sent", intent.priority):
            yield f"{flow.server}:{flow.rail} sent nothing with priority {intent.priority}"
    receiver = f"{wanted.receiver}:{wanted.rail}"
    if not rose.of(receiver, "received", intent.priority):
        yield f"{receiver} received nothing with priority {intent.priority}"
    leaf_end = next(b for a, b in wanted.cables if a == receiver)
    if not rose.of(leaf_end, "sent", intent.traffic_class):
        yield f"{leaf_end} sent nothing from queue {intent.traffic_class}"
    leaf = leaf_end.partition(":")[0]
    trunks = [(a, b) for a, b in wanted.cables if rose.is_switch(a) and leaf in (_device(a), _device(b))]
    downward = [a if _device(b) == leaf else b for a, b in trunks]
    if downward and not sum(rose.of(end, "sent", intent.traffic_class) for end in downward):
        yield f"no switch above {leaf} sent it anything from queue {intent.traffic_class}"


def _device(end: str) -> str:
    return end.partition(":")[0]


def _notified(rose: _Rose) -> Iterator[str]:
    """Congestion notifications leave the receiver with their own priority."""
    receiver, cnp = f"{rose.wanted.receiver}:{rose.wanted.rail}", rose.intent.cnp_class
    told = rose.whole[receiver].get("notified", 0)
    if told and rose.of(receiver, "sent", cnp) < told:
        yield f"{receiver} notified senders {told} times and sent {rose.of(receiver, 'sent', cnp)} packets with priority {cnp}"
