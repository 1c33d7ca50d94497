"""Faults drawn at random in the cabling of the lab's fabric, 1 to 16 at once: none missed, none invented, the fewest exchanges.

Every run writes what ibnetdiscover would say, which the parser and the comparison read. Half of the runs have GUIDs without order.
Many halls stand side by side in one plan and are compared at once: each is judged by its own findings.
"""

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pytest

from bench.fabric import discovered_text
from capacity.model import Plan
from inventory.findings import Finding
from network.infiniband import compare, parse
from network.infiniband.wire import FABRIC
from tests.plans import plan_of
from tests.seed import SEED

RUNS = 500
AT_ONCE = 50
KINDS = (
    "swap",
    "swap",
    "cycle",
    "cut",
    "dead switch",
    "leaf without uplinks",
    "isolated part",
    "wrong rail",
    "foreign device",
    "stale name",
    "cloned name",
    "errored link",
)
LAST = ("foreign device", "stale name", "cloned name", "errored link")
"""Kinds that are about what the cables are when all plugs are where they are."""
LIMIT = 10.0


@dataclass(frozen=True)
class Fabric:
    """One hall's planned cables, as ends; `guids` as made, in order."""

    prefix: str
    planned: dict[str, str]
    switches: frozenset[str]
    rails: dict[str, int]
    guids: dict[str, str]


@dataclass(frozen=True)
class Halls:
    """The same fabric so many times, as one plan."""

    plan: Any
    fabrics: list[Fabric]


@pytest.fixture(scope="module")
def halls() -> Halls:
    return halls_of(plan_of("lab"), AT_ONCE)


def halls_of(plan: Plan, count: int) -> Halls:
    """`count` copies of a plan's compute fabric, whose devices begin with f00, f01 and so on."""
    cables = plan.cables[plan.cables["fabric"] == FABRIC]
    devices = plan.devices[plan.devices["name"].isin({*cables["a_device"], *cables["b_device"]})]
    prefixes = [f"f{number:02}" for number in range(count)]
    ends = ["a_device", "b_device"]
    wide = type("Wide", (), {"catalog": plan.catalog, "site": plan.site})()
    wide.cables = pd.concat([cables.assign(**{end: prefix + cables[end] for end in ends}) for prefix in prefixes])
    wide.devices = pd.concat([devices.assign(name=prefix + devices["name"]) for prefix in prefixes])
    pairs = wide.cables[["a_device", "a_port", "b_device", "b_port", "rail"]].itertuples(index=False, name=None)
    planned: dict[str, dict[str, str]] = defaultdict(dict)
    rails: dict[str, dict[str, int]] = defaultdict(dict)
    for a, a_port, b, b_port, rail in pairs:
        one, other = f"{a}:{a_port}", f"{b}:{b_port}"
        planned[a[:3]] |= {one: other, other: one}
        rails[a[:3]] |= {one: int(rail), other: int(rail)}
    switches = set(wide.devices.loc[wide.devices["fabric"] == FABRIC, "name"])
    names = [*sorted(switches), *(end for ends_ in planned.values() for end in ends_ if device(end) not in switches)]
    guids = {name: f"{0x02420A00 << 32 | number * 16 + 1:016x}" for number, name in enumerate(names, 1)}
    fabrics = [
        Fabric(
            prefix,
            planned[prefix],
            frozenset(one for one in switches if one[:3] == prefix),
            rails[prefix],
            {name: guid for name, guid in guids.items() if name[:3] == prefix},
        )
        for prefix in prefixes
    ]
    return Halls(wide, fabrics)


def device(end: str) -> str:
    return end.rpartition(":")[0]


def port(end: str) -> str:
    return end.rpartition(":")[2]


def edge(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


@dataclass
class Hall:
    """A fabric as it is cabled, after the faults of one seed. Of a foreign device an end is 'description (GUID):1'."""

    fabric: Fabric
    seed: int
    aliens: dict[str, tuple[str, str]] = field(default_factory=dict)
    """{end of a foreign device: (its name in the text, the description that it gives)}."""
    labels: dict[str, str] = field(default_factory=dict)
    """{adapter: another one, whose description it gives}."""
    cloned: tuple[str, str] | None = None
    stolen: set[str] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)
    one_view: bool = False
    dead: str = ""
    lit: set[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.there = dict(self.fabric.planned)
        self.guids = dict(self.fabric.guids)
        if self.draw.random() < 0.5:
            values = list(self.guids.values())
            self.draw.shuffle(values)
            self.guids = dict(zip(self.guids, values, strict=True))
        self.said = [self.draw.choice(KINDS) for _ in range(self.draw.randint(1, 16))]
        for kind in sorted(self.said, key=lambda kind: LAST.index(kind) if kind in LAST else -1):
            getattr(self, kind.replace(" ", "_"))()
            self.lit = None if kind not in LAST[1:] else self.lit  # the others move no plug
        self.listed = {name: guid for name, guid in self.guids.items() if name not in (self.cloned or ())}

    # ---- faults ------------------------------------------------------------------------------------------------------
    def exchange(self, one: str, two: str) -> None:
        at_one, at_two = self.there.pop(one, None), self.there.pop(two, None)
        for end, far in ((one, at_two), (two, at_one)):
            if far is not None:
                self.there[end], self.there[far] = far, end

    def plugs(self, count: int) -> list[str]:
        """Ends of one kind whose plugs can change places: all of switches, or all of adapters."""
        side = self.draw.random() < 0.5
        ends = sorted(end for end in self.there if (device(end) in self.fabric.switches) is side)
        chosen: list[str] = []
        for end in self.draw.sample(ends, len(ends)):
            if len(chosen) < count and self.there[end] not in chosen:
                chosen.append(end)
        return chosen

    def swap(self) -> None:
        plugs = self.plugs(2)
        if len(plugs) == 2:
            self.exchange(*plugs)

    def cycle(self) -> None:
        first, *others = self.plugs(self.draw.randint(3, 5)) or [""]
        for other in others:
            if self.there[first] != other:
                self.exchange(first, other)

    def wrong_rail(self) -> None:
        ends = sorted(end for end in self.there if device(end) not in self.fabric.switches)
        one = self.draw.choice(ends)
        others = [end for end in ends if self.fabric.rails[end] != self.fabric.rails[one]]
        if others:
            self.exchange(one, self.draw.choice(others))

    def cut(self) -> None:
        end = self.draw.choice(sorted(self.there))
        self.there.pop(self.there.pop(end))

    def dead_switch(self) -> None:
        self.dead = self.dead or self.draw.choice(sorted(self.fabric.switches))

    def leaf_without_uplinks(self) -> None:
        leaf = self.draw.choice(sorted(name for name in self.fabric.switches if name[3:].startswith("ibl")))
        for end, far in list(self.there.items()):
            if device(end) == leaf and device(far)[3:].startswith("ibs"):
                self.there.pop(end), self.there.pop(far)

    def isolated_part(self) -> None:
        """A leaf and all that hangs on it, for one who looks from elsewhere."""
        self.leaf_without_uplinks()
        self.one_view = True

    def foreign_device(self) -> None:
        """A device beside the plan at a planned port, whose cable is pulled; one in three gives a planned adapter's description."""
        at = self.draw.choice(sorted(self.fabric.switches))
        near = self.draw.choice(sorted(end for end in self.fabric.planned if device(end) == at))
        if near in self.there:
            self.there.pop(self.there.pop(near))
        number = len(self.aliens) + 1
        name = f"{self.fabric.prefix}alien{number}"
        guid = f"{0x0299 << 48 | int(self.fabric.prefix[1:]) << 16 | number * 16 + 1:016x}"
        model, label = sorted(self.lit_adapters()), f"{name} mlx5_0"
        if model and self.draw.random() < 0.3:
            claimed = self.draw.choice(model)
            label = description(claimed)
            self.stolen.add(claimed)
        self.guids[f"{name}:ib0"] = guid
        self.plug_in(near, f"{name}:ib0", label)
        self.lit = None
        for end, (alien, label) in list(self.aliens.items()):  # who is not there is rightly taken for exchanged
            gone = [one for one in self.stolen - self.lit_adapters() if description(one) == label]
            if gone:
                self.stolen -= set(gone)
                del self.aliens[end]
                self.plug_in(self.there.pop(end), alien, description(alien))

    def plug_in(self, near: str, alien: str, label: str) -> None:
        end = f"{label} ({self.guids[alien]}):1"
        self.aliens[end] = (alien, label)
        self.there[near], self.there[end] = end, near

    def stale_name(self) -> None:
        """Two adapters with each other's description; the asset list has their GUIDs, so nothing is wrong."""
        lit = sorted(self.lit_adapters() - self.stolen)
        if len(lit) > 1 and not self.labels:
            one, other = self.draw.sample(lit, 2)
            self.labels = {one: other, other: one}

    def cloned_name(self) -> None:
        """Two adapters with one description, of which the asset list has no GUID."""
        lit = sorted(self.lit_adapters() - self.stolen)
        if len(lit) > 1 and not self.labels:
            one, other = self.draw.sample(lit, 2)
            self.cloned, self.labels = (one, other), {other: one}

    def errored_link(self) -> None:
        ends = sorted(end for cable in self.seen() for end in cable if end not in self.aliens)
        if ends:
            self.errors[self.draw.choice(ends)] = self.draw.randint(11, 5000)

    # ---- what is seen ------------------------------------------------------------------------------------------------
    def lit_adapters(self) -> set[str]:
        lit = {end for cable in self.seen() for end in cable}
        return {end for end in lit if end in self.fabric.planned and device(end) not in self.fabric.switches}

    def seen(self) -> set[tuple[str, str]]:
        """The cables with light, of the largest part only where one host looks."""
        if self.lit is None:
            self.lit = self._seen()
        return set(self.lit)

    def _seen(self) -> set[tuple[str, str]]:
        lit = {edge(a, b) for a, b in self.there.items() if self.dead not in (device(a), device(b))}
        if not self.one_view:
            return lit
        parts = chains({edge(node(a, self), node(b, self)) for a, b in lit})
        mine = max(parts, key=lambda part: (len(part), min(part)), default=set())
        return {cable for cable in lit if node(cable[0], self) in mine}

    def said_name(self, end: str) -> str:
        """An end as a finding has it: of adapters that share a description, that and the GUID."""
        return f"{description(self.cloned[0])} ({self.guids[end]}):1" if self.cloned and end in self.cloned else end

    def silent(self) -> set[str]:
        """Switches without any light."""
        return set(self.fabric.switches) - {device(end) for cable in self.seen() for end in cable}

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The cables with light; adapters first, as `discovered_text` wants."""
        made = []
        for one in sorted(self.seen()):
            ends = sorted(one, key=lambda end: device(end) in self.fabric.switches)
            a, b = (self.aliens[end][0] if end in self.aliens else end for end in ends)
            made.append((FABRIC, device(a), port(a), device(b), port(b)))
        return made

    def given(self) -> dict[str, str]:
        """{description: the one that is given instead}."""
        found = {description(one): description(other) for one, other in self.labels.items()}
        return found | {description(name): label for name, label in self.aliens.values()}


def text(made: Sequence[Hall]) -> str:
    """What ibnetdiscover says of halls side by side."""
    columns = ["fabric", "a_device", "a_port", "b_device", "b_port"]
    seen = type("Seen", (), {"cables": pd.DataFrame([row for hall in made for row in hall.rows()], columns=columns)})()
    said = discovered_text(seen, {name: guid for hall in made for name, guid in hall.guids.items()}, "4xHDR")
    given = {one: other for hall in made for one, other in hall.given().items()}
    return re.sub(r'"([^"\n]+ mlx5_\d)"', lambda found: f'"{given.get(found[1], found[1])}"', said)


def node(end: str, hall: Hall) -> str:
    """What an end belongs to: a switch as a whole, an adapter alone."""
    return device(end) if device(end) in hall.fabric.switches else end


def description(adapter: str) -> str:
    return f"{device(adapter)} mlx5_{port(adapter).removeprefix('ib')}"


def chains(cables: set[tuple[str, str]]) -> list[set[str]]:
    """The ends that these cables join, chain by chain."""
    found: list[set[str]] = []
    for cable in cables:
        joined = [chain for chain in found if chain & set(cable)]
        found = [chain for chain in found if chain not in joined] + [set(cable).union(*joined)]
    return found


# ---- what has to be found ---------------------------------------------------------------------------------------------
def fewest(chain: set[str], wanted: set[tuple[str, str]], seen: set[tuple[str, str]]) -> int:
    """Exchanges that a chain takes: one for each planned cable, less one where it is closed or no cable is left for one."""
    planned = {end for cable in wanted for end in cable} & chain
    light = {end for cable in seen for end in cable} & chain
    closed = planned == light
    return len(planned) // 2 - (closed or len(planned - light) == 2)


def judge(hall: Hall, found: list[Finding]) -> None:
    seen, planned, silent = hall.seen(), hall.fabric.planned, hall.silent()
    wanted = {edge(a, b) for a, b in planned.items() if not {device(a), device(b)} & silent}
    if hall.cloned:
        hidden = {cable for cable in seen if set(cable) & set(hall.cloned)}
        unclear = {end for cable in hidden for end in cable} - {hall.cloned[1]} | {hall.cloned[0]}
        wanted = {cable for cable in wanted if not set(cable) & unclear}
        seen -= hidden
    bad = {end for cable in seen ^ wanted for end in cable}
    by_id: dict[str, list[Finding]] = defaultdict(list)
    for one in found:
        by_id[one.id].append(one)
    assert {one.subject for one in by_id.pop("DEVICE-SILENT", ())} == silent
    assert {one.ports for one in by_id.pop("LINK-ERRORS", ())} == {
        (hall.said_name(end), hall.said_name(hall.there[end])) for end in hall.errors
    }
    assert {one.ports for one in by_id.pop("NODE-NAME-TWICE", ())} == ({hall.cloned[:1]} if hall.cloned else set())
    shown = {label for end, (_, label) in hall.aliens.items() if end in {e for cable in hall.seen() for e in cable}}
    stolen = {(one,) for one in hall.stolen if description(one) in shown}
    assert {one.ports for one in by_id.pop("ADAPTER-EXCHANGED", ())} == stolen
    about: set[str] = set()
    for one in (one for many in by_id.values() for one in many):
        assert one.id.startswith(("TOPOLOGY-", "LINK-DOWN")), one
        assert set(one.ports) <= bad, ("invented", one)
        about |= set(re.findall(r"\w+:\w+", one.message)) | {end for end in hall.aliens if device(end) in one.message}
    assert bad <= about, ("missed", bad - about)
    for one in by_id["TOPOLOGY-SWAPPED"]:
        (chain,) = (chain for chain in chains(seen ^ wanted) if set(one.ports) <= chain)
        assert set(one.ports) == chain
        assert one.numbers["exchanges"] == fewest(chain, wanted - seen, seen - wanted)
        rails = {hall.fabric.rails.get(end, -1) for end in chain if end[3:6] != "ibs"} - {-1}
        assert ("rail" in one.message) >= (len(rails) > 1), one


def errors_of(hall: Hall) -> dict[tuple[str, int], dict[str, int]]:
    """Counters as ibqueryerrors gives them, by GUID and port."""
    return {
        (hall.guids[node(end, hall)], 1 if node(end, hall) == end else int(port(end)[1:])): {
            "SymbolErrorCounter": count
        }
        for end, count in hall.errors.items()
    }


def faulty(halls: Halls, seeds: range) -> None:
    """Compare as many halls as the plan has, each after the faults of one seed."""
    made = [Hall(fabric, seed) for fabric, seed in zip(halls.fabrics, seeds, strict=True)]
    listed = {name: guid for hall in made for name, guid in hall.listed.items() if "alien" not in name}
    discovered = parse.discovery(text(made))
    found = compare.topology(halls.plan, discovered, listed)
    counters = {key: value for hall in made for key, value in errors_of(hall).items()}
    found += compare.errors(counters, discovered, listed, halls.plan, LIMIT, "site limits.ib_link_errors_max")
    mine: dict[str, list[Finding]] = defaultdict(list)
    for one in found:
        mine[one.subject[:3]].append(one)
    for hall in made:
        try:
            judge(hall, mine[hall.fabric.prefix])
        except AssertionError as error:
            raise AssertionError(f"seed {hall.seed}, faults {', '.join(hall.said)}: {error}") from error


def test_whatever_is_wrong_is_found_once_and_nothing_else_is(halls: Halls) -> None:
    for first in range(0, RUNS, AT_ONCE):
        faulty(halls, range(first, first + AT_ONCE))


def test_every_kind_of_fault_is_drawn_and_shows(halls: Halls) -> None:
    made = [Hall(halls.fabrics[0], seed) for seed in range(RUNS)]
    assert {kind for hall in made for kind in hall.said} == set(KINDS)
    assert {len(hall.said) for hall in made} == set(range(1, 17))
    for what in ("aliens", "cloned", "stolen", "errors", "labels", "one_view", "dead"):
        assert sum(bool(getattr(hall, what)) for hall in made) > 20, what


@pytest.mark.soak
def test_whatever_is_wrong_today_is_found_once_and_nothing_else_is(halls: Halls) -> None:
    for first in range(SEED * 100_000, SEED * 100_000 + 50_000, AT_ONCE):
        faulty(halls, range(first, first + AT_ONCE))
