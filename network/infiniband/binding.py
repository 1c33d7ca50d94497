"""Which GUID is which planned switch or adapter, by the structure of the cables alone. Pure: plan and discovery in, names out.

    made = bind(plan, parse.discovery(text), guids)
    made.switches     {GUID: planned switch}
    made.adapters     {GUID: 'DEVICE:PORT'}
    made.choices      parts of the fabric that several places fit
    made.few          {GUID: the place that too few cables say}
    made.against      what speaks against a place: (GUID, place by its cables, what says otherwise, 'name' or 'list')

Ports are numbered: who is at port 3 of a known switch is the switch that the plan has there, if the cable ends at the port that
the plan names. So a part of the fabric, joined by trunk cables, hangs on one switch. `bind` tries each planned switch in the place
of the one with most cables and follows the cables. A place is taken only if every other one explains at least MARGIN cables
fewer, and a switch of it is bound only if MARGIN paths of agreeing cables that share none lead to it. A false binding takes MARGIN
wrong cables that say the same false thing. A hall that is cabled in part is bound as far as its cables prove it.

An adapter has one cable: two servers whose plugs are exchanged on one leaf look like the plan. It is bound where something
else says the same: its description names the planned port, or MARGIN adapters at least that name the same host, whatever its name,
are at places of one planned server.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from network.infiniband.parse import Discovery
from network.infiniband.wire import ADAPTER_LABEL, FABRIC, INSIDE, Plan, Wire, on_the_wire

MARGIN = 3
"""Cables that agree and share no cable of their paths: an exchange of two plugs makes two wrong cables, one fewer."""
ROUNDS = 2
"""How often the votes of all cables are counted anew after the cables have been followed once."""

Far = tuple[str, int]
"""(switch, port number) at the far end of a cable, or (DEVICE:PORT, 0)."""


@dataclass(frozen=True)
class Choice:
    """Switches that hang together, by GUID, the one with most cables first; `places`: what that first one may be."""

    guids: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True)
class Binding:
    """What `bind` proves, and what it leaves open; see the module.

    ``single``  {GUID: place} of adapters of which only their one cable says where they are
    """

    switches: Mapping[str, str] = field(default_factory=dict)
    adapters: Mapping[str, str] = field(default_factory=dict)
    choices: Sequence[Choice] = ()
    few: Mapping[str, str] = field(default_factory=dict)
    single: Mapping[str, str] = field(default_factory=dict)
    against: Sequence[tuple[str, str, str, str]] = ()


@dataclass(frozen=True)
class _Seen:
    """The discovered fabric: {switch: {port number: (far node, far port number)}}; adapters are nodes that are no key of it."""

    links: Mapping[str, Mapping[int, Far]]
    guid: Mapping[str, str]
    label: Mapping[str, str]


def bind(plan: Plan, found: Discovery, guids: Mapping[str, str]) -> Binding:
    """The planned names of discovered GUIDs. guids: those that the asset list has; they are taken as they are."""
    wire = on_the_wire(plan)
    planned, seen = _planned(plan, wire), _seen(found)
    listed = {guid: name for name, guid in guids.items()}
    fixed = {key: listed[guid] for key, guid in seen.guid.items() if key in seen.links and guid in listed}
    fixed = {key: name for key, name in fixed.items() if name in planned}
    bound: dict[str, str] = {}
    choices: list[Choice] = []
    few: dict[str, str] = {}
    for part in _parts(seen):
        anchors = {key: fixed[key] for key in part if key in fixed}
        at, options = _place(part, anchors, planned, seen, {*planned} - {*fixed.values()})
        if len(options) != 1:
            choices.append(Choice(tuple(seen.guid[key] for key in part), tuple(options)))
            continue
        proven = _proven([*anchors] or part[:1], at, planned, seen, whole=bool(anchors))
        bound |= {key: at[key] for key in proven}
        few |= {seen.guid[key]: name for key, name in at.items() if key not in proven}
    twice = {name for name, times in Counter(bound.values()).items() if times > 1}
    against: list[tuple[str, str, str, str]] = []
    for key, name in sorted(bound.items()):
        said = wire.switch(seen.label[key])
        if key not in fixed and (name in guids or (said and said != name)):
            against.append((seen.guid[key], name, guids.get(name) or said, "list" if name in guids else "name"))
    left = {*planned} - {*bound.values()} - {*fixed.values()}
    choices = [Choice(choice.guids, tuple(place for place in choice.places if place in left)) for choice in choices]
    wrong = {guid for guid, *_ in against}
    bound = {key: name for key, name in bound.items() if seen.guid[key] not in wrong and name not in twice}
    adapters, single, more = _adapters(bound, planned, seen, wire, guids)
    return Binding(
        {seen.guid[key]: name for key, name in bound.items()}, adapters, choices, few, single, [*against, *more]
    )


def _planned(plan: Plan, wire: Wire) -> dict[str, dict[int, Far]]:
    """{planned switch: {port number: (far switch, its port number) or (DEVICE:PORT, 0)}}."""
    number = {switch: {port: n for n, port in ports.items()} for switch, ports in wire.ports.items()}
    made: dict[str, dict[int, Far]] = {switch: {} for switch in wire.ports}
    cables = plan.cables[plan.cables["fabric"] == FABRIC]
    columns = ["a_device", "a_port", "b_device", "b_port"]
    for a, a_port, b, b_port in cables[columns].itertuples(index=False, name=None):
        for near, port, far, far_port in ((a, a_port, b, b_port), (b, b_port, a, a_port)):
            if near in number and port in number[near]:
                ours = number.get(far, {}).get(far_port)
                made[near][number[near][port]] = (far, ours) if ours else (f"{far}:{far_port}", 0)
    return made


def _seen(found: Discovery) -> _Seen:
    """Systems of several ASICs are one switch, by the GUID of the system; nodes inside a switch are left out."""
    chips = Counter(found.systems.values())
    guid: dict[str, str] = {}
    label: dict[str, str] = {}
    unit: dict[str, str] = {}
    switches = []
    for key, its_guid, kind, its_label, _ in found.nodes.itertuples(index=False, name=None):
        if kind != "switch" and INSIDE.search(its_label):
            continue
        system = found.systems.get(key, "")
        unit[key] = system if kind == "switch" and chips[system] > 1 else key
        guid.setdefault(unit[key], system if unit[key] == system else its_guid)
        label.setdefault(unit[key], its_label)
        if kind == "switch":
            switches.append(unit[key])
    links: dict[str, dict[int, Far]] = {key: {} for key in switches}
    for key, port, far, far_port in found.links[["key", "port", "far_key", "far_port"]].itertuples(
        index=False, name=None
    ):
        if unit.get(key) in links and far in unit:
            links[unit[key]].setdefault(port, (unit[far], far_port))
    return _Seen(links, guid, label)


def _parts(seen: _Seen) -> list[list[str]]:
    """Switches that trunk cables join, largest part first; of each the switch with most trunk cables first."""
    left, parts = set(seen.links), []
    trunks = {key: sum(far in seen.links for far, _ in ports.values()) for key, ports in seen.links.items()}
    for start in sorted(seen.links):
        if start not in left:
            continue
        part, next_ = {start}, [start]
        while next_:
            joined = {far for far, _ in seen.links[next_.pop()].values() if far in seen.links} - part
            part |= joined
            next_ += joined
        left -= part
        parts.append(sorted(part, key=lambda key: (-trunks[key], key)))
    return sorted(parts, key=lambda part: -len(part))


def _place(
    part: Sequence[str],
    anchors: Mapping[str, str],
    planned: Mapping[str, Mapping[int, Far]],
    seen: _Seen,
    free: Iterable[str],
) -> tuple[dict[str, str], list[str]]:
    """({switch: place} by the best place of the part's first switch, places of that one which explain nearly as many cables)."""
    seed = part[0]
    if anchors:
        return _follow(dict(anchors), part, planned, seen), [anchors.get(seed, "")]
    at_once = {place: _explained(seed, place, planned, seen) for place in free}
    # What the seed's own cables say of most places is enough to leave them out.
    limit = max(at_once.values(), default=0) - MARGIN
    tries = {place: _follow({seed: place}, part, planned, seen) for place, here in at_once.items() if here > limit}
    agreeing = {place: _agreeing(at, planned, seen) for place, at in tries.items()}
    most = max(agreeing.values(), default=0)
    options = sorted(place for place, count in agreeing.items() if count > most - MARGIN)
    best = max(options, key=lambda place: agreeing[place], default="")
    return tries.get(best, {}), options if most > 0 else sorted(free)


def _explained(key: str, place: str, planned: Mapping[str, Mapping[int, Far]], seen: _Seen) -> int:
    """Cables of a switch that end at such a port as the plan has there."""
    return sum(_fits(planned[place].get(port), far, seen) for port, far in seen.links[key].items())


def _fits(wanted: Far | None, there: Far, seen: _Seen) -> bool:
    """Whether a cable leads to a port of the number that the plan has there, or to an adapter as planned."""
    return wanted is not None and wanted[1] == (there[1] if there[0] in seen.links else 0)


def _follow(
    at: dict[str, str], part: Sequence[str], planned: Mapping[str, Mapping[int, Far]], seen: _Seen
) -> dict[str, str]:
    """{switch: place} of a part by the votes of its cables, from the switches in `at`, whose places stay."""
    fixed, edge = dict(at), list(at)
    while edge:
        votes: dict[str, Counter[str]] = defaultdict(Counter)
        for key in edge:
            for far, place in _votes(key, at[key], planned, seen):
                if far not in at:
                    votes[far][place] += 1
        edge = _take(at, votes, set(at.values()))
    for _ in range(ROUNDS):
        votes = defaultdict(Counter)
        for key, name in at.items():
            for far, place in _votes(key, name, planned, seen):
                votes[far][place] += 1
        at = dict(fixed)
        _take(at, {key: count for key, count in votes.items() if key not in fixed}, set(fixed.values()))
    return at


def _votes(key: str, place: str, planned: Mapping[str, Mapping[int, Far]], seen: _Seen) -> Iterable[tuple[str, str]]:
    """(far switch, the place that a cable gives it) of each trunk cable that ends at a port of the planned number."""
    wanted = planned[place]
    for port, (far, far_port) in seen.links[key].items():
        name, number = wanted.get(port, ("", 0))
        if number and number == far_port and far in seen.links:
            yield far, name


def _take(at: dict[str, str], votes: Mapping[str, Counter[str]], taken: set[str]) -> list[str]:
    """Give each switch the place with most votes, the surest switch first; each place once. The switches that got one."""
    made = []
    ranked = sorted(
        ((-count.most_common(1)[0][1], key, count) for key, count in votes.items()), key=lambda row: row[:2]
    )
    for _, key, count in ranked:
        name = next((name for name, _ in count.most_common() if name not in taken), None)
        if name is not None:
            at[key] = name
            taken.add(name)
            made.append(key)
    return made


def _right(at: Mapping[str, str], planned: Mapping[str, Mapping[int, Far]], seen: _Seen) -> Iterable[tuple[str, str]]:
    """Both switches of each trunk cable that is as planned, from each end, and (switch, '') of each adapter at a planned port."""
    for key, name in at.items():
        for port, (far, far_port) in seen.links[key].items():
            wanted = planned[name].get(port)
            if wanted is None:
                continue
            if far not in seen.links:
                if not wanted[1]:
                    yield key, ""
            elif at.get(far) == wanted[0] and wanted[1] == far_port:
                yield key, far


def _agreeing(at: Mapping[str, str], planned: Mapping[str, Mapping[int, Far]], seen: _Seen) -> int:
    """Cables that are as planned if the switches are at these places."""
    both, single = 0, 0
    for _, far in _right(at, planned, seen):
        both, single = (both + 1, single) if far else (both, single + 1)
    return both // 2 + single


def _proven(
    start: Sequence[str], at: Mapping[str, str], planned: Mapping[str, Mapping[int, Far]], seen: _Seen, whole: bool
) -> set[str]:
    """Switches to which MARGIN paths of agreeing cables lead that share none, and of which fewer cables say otherwise.

    whole: the first ones are known otherwise; else the only one is proven with the first that is joined with it so.
    """
    near: dict[str, Counter[str]] = {key: Counter() for key in at}
    for key, far in _right(at, planned, seen):
        if far:
            near[key][far] += 1
    trunks = {key: sum(far in seen.links for far, _ in seen.links[key].values()) for key in at}
    sane = {key for key in at if 2 * sum(near[key].values()) > trunks[key]}
    proven = {key for key in start if key in at and (whole or key in sane)}
    tried: set[str] = set()
    left = sane - proven
    while left and proven:
        beside = {key for key in left if sum(near[key][far] for far in proven) >= MARGIN}
        if not beside:
            untried = sorted(left - tried, key=lambda key: (-sum(near[key].values()), key))
            if not untried:
                break
            tried.add(untried[0])
            beside = {untried[0]} if _paths(proven, untried[0], near) >= MARGIN else set()
            tried -= tried if beside else set()
        proven |= beside
        left -= beside
    return proven if whole or len(proven) > 1 else set()


def _paths(sources: set[str], target: str, near: Mapping[str, Counter[str]]) -> int:
    """Paths from a set of switches to another one that share no cable, MARGIN at most (Ford and Fulkerson)."""
    flow: Counter[tuple[str, str]] = Counter()
    for found in range(MARGIN):
        came: dict[str, str] = {target: ""}
        next_, end = [target], ""
        while next_ and not end:
            later = []
            for key in next_:
                for far, cables in near[key].items():
                    if far not in came and cables - flow[key, far] > 0:
                        came[far] = key
                        if far in sources:
                            end = far
                            break
                        later.append(far)
                if end:
                    break
            next_ = later
        if not end:
            return found
        while (back := came[end]) != "":
            flow[back, end] += 1
            flow[end, back] -= 1
            end = back
    return MARGIN


def _adapters(
    bound: Mapping[str, str],
    planned: Mapping[str, Mapping[int, Far]],
    seen: _Seen,
    wire: Wire,
    guids: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str], list[tuple[str, str, str, str]]]:
    """(proven, of one cable only, what speaks against a place) of the adapters at bound switches, by GUID."""
    places = {
        far: end
        for key, name in bound.items()
        for port, (far, _) in seen.links[key].items()
        for end, number in [planned[name].get(port, ("", 1))]
        if not number and far not in seen.links
    }
    hosts: dict[str, Counter[str]] = defaultdict(Counter)
    says = {key: ADAPTER_LABEL.match(seen.label[key]) for key in seen.label if key not in seen.links}
    known = Counter(said["host"] for said in says.values() if said and said["device"])
    for key, end in places.items():
        if (said := says.get(key)) and said["device"]:
            hosts[said["host"]][_host(end)] += 1
    winners = {
        host: best
        for host, votes in hosts.items()
        for best, count in votes.most_common(1)
        if count >= MARGIN and 2 * count > known[host]
    }
    shared = {place for place, times in Counter(winners.values()).items() if times > 1}
    names = Counter(name for key in says if (name := wire.adapter(seen.label[key])))
    proven, single, against = {}, {}, []
    for key, end in sorted(places.items()):
        guid, said = seen.guid[key], says.get(key)
        called = wire.adapter(seen.label[key])
        if guids.get(end) == guid:
            continue
        if guid in guids.values() or end in guids:
            against.append((guid, end, guids.get(end) or next(n for n, g in guids.items() if g == guid), "list"))
        elif called and (called != end or names[called] > 1):
            against.append((guid, end, seen.label[key], "name"))
        elif called or (
            said
            and winners.get(said["host"]) == _host(end)
            and _host(end) not in shared
            and wire.devices.get(_host(end), {}).get(said["device"], end) == end
        ):
            proven[guid] = end
        else:
            single[guid] = end
    return proven, single, against


def _host(end: str) -> str:
    return end.rpartition(":")[0]
