"""Faults drawn at random in the cabling of the lab's fabric, 1 to 16 at once: none missed, none invented, the fewest exchanges.

Every run writes what ibnetdiscover would say, which the parser and the comparison read. Half of the runs have GUIDs without order.
"""

import random
import re
from dataclasses import dataclass

import pandas as pd
import pytest

from capacity.model import Plan
from inventory.findings import Finding
from network.infiniband import compare, parse
from tests.network.infiniband.fabrics import discovered_text, made_up_guids
from tests.plans import plan_of
from tests.seed import SEED

RUNS = 100
KINDS = ("swap", "swap", "cycle", "cut", "dead switch", "leaf without uplinks")


@dataclass(frozen=True)
class Fabric:
    """A plan's compute cables, as ends."""

    planned: dict[str, str]
    switches: frozenset[str]
    plan: Plan
    guids: dict[str, str]


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    plan = plan_of("lab")
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    pairs = list(
        zip(cables["a_device"] + ":" + cables["a_port"], cables["b_device"] + ":" + cables["b_port"], strict=True)
    )
    planned = {near: far for a, b in pairs for near, far in ((a, b), (b, a))}
    switches = frozenset(plan.devices.loc[plan.devices["fabric"] == "compute", "name"])
    return Fabric(planned, switches, plan, made_up_guids(plan))


def device(end: str) -> str:
    return end.rpartition(":")[0]


def edge(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


class Hall:
    """The fabric as it is cabled, after the faults of one seed."""

    def __init__(self, fabric: Fabric, seed: int) -> None:
        self.fabric, self.draw = fabric, random.Random(seed)
        self.there, self.dead = dict(fabric.planned), set[str]()
        self.said = [self.draw.choice(KINDS) for _ in range(self.draw.randint(1, 16))]
        for kind in self.said:
            getattr(self, kind.replace(" ", "_"))()

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
        one, two = self.plugs(2)
        self.exchange(one, two)

    def cycle(self) -> None:
        first, *others = self.plugs(self.draw.randint(3, 5))
        for other in others:
            if self.there[first] != other:
                self.exchange(first, other)

    def cut(self) -> None:
        end = self.draw.choice(sorted(self.there))
        self.there.pop(self.there.pop(end))

    def dead_switch(self) -> None:
        if not self.dead:
            self.dead.add(self.draw.choice(sorted(self.fabric.switches)))

    def leaf_without_uplinks(self) -> None:
        leaf = self.draw.choice(sorted(name for name in self.fabric.switches if name.startswith("ibl")))
        for end, far in list(self.there.items()):
            if device(end) == leaf and device(far).startswith("ibs"):
                self.there.pop(end), self.there.pop(far)

    def seen(self) -> set[tuple[str, str]]:
        """The cables with light."""
        return {edge(a, b) for a, b in self.there.items() if not {device(a), device(b)} & self.dead}

    def text(self, guids: dict[str, str]) -> str:
        """What ibnetdiscover says; adapters first, as `discovered_text` wants."""
        rows = []
        for one in sorted(self.seen()):
            a, b = sorted(one, key=lambda end: device(end) in self.fabric.switches)
            rows.append(("compute", device(a), a.rpartition(":")[2], device(b), b.rpartition(":")[2]))
        columns = ["fabric", "a_device", "a_port", "b_device", "b_port"]
        return discovered_text(type("Seen", (), {"cables": pd.DataFrame(rows, columns=columns)})(), guids, "4xHDR")

    def guids(self) -> dict[str, str]:
        known = dict(self.fabric.guids)
        if self.draw.random() < 0.5:
            values = list(known.values())
            self.draw.shuffle(values)
            known = dict(zip(known, values, strict=True))
        return known


def chains(cables: set[tuple[str, str]]) -> list[set[str]]:
    """The ends that these cables join, chain by chain."""
    found: list[set[str]] = []
    for cable in cables:
        joined = [chain for chain in found if chain & set(cable)]
        found = [chain for chain in found if chain not in joined] + [set(cable).union(*joined)]
    return found


def fewest(hall: Hall, chain: set[str], wanted: set[tuple[str, str]], seen: set[tuple[str, str]]) -> int:
    """Exchanges that a chain takes: one for each planned cable, less one where no cable is left for it."""
    planned = sum(set(cable) <= chain for cable in wanted)
    light = {end for cable in seen for end in cable}
    dark = sum(end in chain and end not in light for end in hall.fabric.planned)
    return planned - (dark == 2 or dark == 0)


def judge(hall: Hall, found: list[Finding]) -> None:
    seen, planned = hall.seen(), hall.fabric.planned
    wanted = {edge(a, b) for a, b in planned.items() if not {device(a), device(b)} & hall.dead}
    bad = {end for cable in seen ^ wanted for end in cable}
    about: set[str] = set()
    for one in found:
        if one.id == "DEVICE-SILENT":
            assert one.subject in hall.dead
            continue
        assert set(one.ports) <= bad, ("invented", one)
        about |= set(re.findall(r"\w+:\w+", one.message))
    assert {one.subject for one in found if one.id == "DEVICE-SILENT"} == hall.dead
    assert bad <= about, ("missed", bad - about)
    for one in found:
        if one.id == "TOPOLOGY-SWAPPED":
            (chain,) = (chain for chain in chains(seen ^ wanted) if set(one.ports) <= chain)
            assert set(one.ports) == chain
            assert one.numbers["exchanges"] == fewest(hall, chain, wanted - seen, seen - wanted)


def faulty(fabric: Fabric, seed: int) -> None:
    hall = Hall(fabric, seed)
    guids = hall.guids()
    found = compare.topology(fabric.plan, parse.discovery(hall.text(guids)), guids)
    try:
        judge(hall, found)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, faults {', '.join(hall.said)}: {error}") from error


def test_whatever_is_wrong_is_found_once_and_nothing_else_is(fabric: Fabric) -> None:
    for seed in range(RUNS):
        faulty(fabric, seed)


@pytest.mark.soak
def test_whatever_is_wrong_today_is_found_once_and_nothing_else_is(fabric: Fabric) -> None:
    for seed in range(SEED * 100_000, SEED * 100_000 + 20_000):
        faulty(fabric, seed)
