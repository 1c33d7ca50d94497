"""GUIDs bound to planned switches and adapters by the structure of the cables: all that is proven, and nothing else."""

import random
from collections import Counter

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.infiniband import binding, parse
from network.infiniband.binding import bind
from network.infiniband.wire import FABRIC, on_the_wire
from tests.plans import plan_of

LEAVES = {f"ibl{number:03}" for number in range(1, 9)}


class Hall:
    """The lab's compute fabric as it is cabled: plugs that can be exchanged or pulled, and GUIDs without order."""

    def __init__(self, seed=0):
        self.plan = plan_of("lab")
        self.draw = random.Random(seed)
        cables = self.plan.cables[self.plan.cables["fabric"] == FABRIC]
        columns = ["a_device", "a_port", "b_device", "b_port"]
        self.ends: dict[tuple[str, str], tuple[str, str]] = {}
        for a, a_port, b, b_port in cables[columns].itertuples(index=False, name=None):
            self.ends |= {(a, a_port): (b, b_port), (b, b_port): (a, a_port)}
        self.wire = on_the_wire(self.plan)
        self.number = {
            (switch, port): number for switch, ports in self.wire.ports.items() for number, port in ports.items()
        }
        nodes = sorted({self.name(end) for end in self.ends})
        numbers = self.draw.sample(range(1, 1 << 40), len(nodes))
        self.guid = {name: f"{0x0002C90 << 36 | number:016x}" for name, number in zip(nodes, numbers, strict=True)}
        self.label = dict.fromkeys(nodes, "")

    def name(self, end):
        return end[0] if end[0] in self.wire.ports else f"{end[0]}:{end[1]}"

    def device(self, name):
        """The RDMA device that Linux has for an adapter."""
        host = name.partition(":")[0]
        return next((device for device, end in self.wire.devices[host].items() if end == name), "mlx5_0")

    def exchange(self, one, other):
        at_one, at_other = self.ends.pop(one, None), self.ends.pop(other, None)
        if at_one == other or at_one is None or at_other is None:
            self.ends |= {near: far for near, far in ((one, at_one), (other, at_other)) if far is not None}
            return
        self.ends |= {one: at_other, at_other: one, other: at_one, at_one: other}

    def pull(self, keep):
        self.ends = {near: far for near, far in self.ends.items() if keep(near[0], far[0])}

    def named(self, prefix):
        """Hosts give themselves names: their own as planned, or others."""
        for name in self.label:
            if ":" in name:
                self.label[name] = f"{prefix}{name.partition(':')[0]} {self.device(name)}"

    def found(self):
        nodes, links = {}, []
        for near, far in self.ends.items():
            name, port = self.name(near), self.number.get(near, 1)
            kind = "adapter" if ":" in name else "switch"
            guid = self.guid[name]
            nodes[guid] = (guid, guid, kind, self.label[name], 0)
            links.append((guid, port, self.guid[self.name(far)], self.number.get(far, 1), 200.0))
        frames = pd.DataFrame
        return parse.Discovery(
            frames(list(nodes.values()), columns=list(parse.NODE_COLUMNS)),
            frames(links, columns=list(parse.LINK_COLUMNS)),
        )

    def bound(self, guids=None):
        return bind(self.plan, self.found(), guids or {})

    def false(self, made):
        """What is bound and is something else."""
        return {(guid, name) for guid, name in {**made.switches, **made.adapters}.items() if self.guid[name] != guid}

    def places(self, guids):
        return {name for name, guid in self.guid.items() if guid in guids}


def test_all_switches_of_a_cabled_hall_are_bound_by_their_cables():
    hall = Hall()
    made = hall.bound()
    assert {guid: name for name, guid in hall.guid.items() if ":" not in name} == made.switches
    assert (made.choices, made.few, made.against) == ([], {}, [])


def test_adapters_without_a_name_are_of_one_cable_and_not_bound():
    hall = Hall()
    made = hall.bound()
    assert made.adapters == {}
    assert {name: guid for guid, name in made.single.items()} == {n: g for n, g in hall.guid.items() if ":" in n}


@pytest.mark.parametrize("prefix", ["", "install-"])
def test_adapters_that_name_one_host_are_bound_together(prefix):
    hall = Hall()
    hall.named(prefix)
    made = hall.bound()
    servers = {name: guid for name, guid in hall.guid.items() if name.startswith("gpu") and ":" in name}
    assert {name: guid for guid, name in made.adapters.items() if name.startswith("gpu")} == servers
    assert hall.false(made) == set()


def test_plugs_of_two_servers_exchanged_on_one_leaf_bind_neither():
    hall = Hall()
    hall.named("install-")
    hall.exchange(("gpu001", "ib3"), ("gpu002", "ib3"))
    made = hall.bound()
    assert not {"gpu001:ib3", "gpu002:ib3"} & set(made.adapters.values())
    assert {"gpu001:ib2", "gpu002:ib2"} <= set(made.adapters.values())


def test_a_planned_name_at_the_place_of_another_is_said_and_not_bound():
    hall = Hall()
    hall.named("")
    hall.exchange(("gpu001", "ib3"), ("gpu002", "ib3"))
    made = hall.bound()
    assert {(place, kind) for _, place, _, kind in made.against} == {("gpu001:ib3", "name"), ("gpu002:ib3", "name")}
    assert hall.false(made) == set()


def test_leaves_without_uplinks_are_a_choice_among_the_leaves():
    hall = Hall()
    hall.pull(lambda a, b: {a[:3], b[:3]} != {"ibl", "ibs"})
    made = hall.bound()
    assert made.switches == {}
    assert len(made.choices) == 8
    assert all(set(choice.places) <= LEAVES and len(choice.places) > 1 for choice in made.choices)


def test_half_a_hall_binds_what_is_cabled_and_leaves_the_other_half_open():
    hall = Hall()
    later = {"ibl007", "ibl008"}
    hall.pull(lambda a, b: not ({a, b} & later and {a[:3], b[:3]} == {"ibl", "ibs"}))
    made = hall.bound()
    assert hall.places(made.switches) == {*hall.wire.ports} - later
    assert [set(choice.places) for choice in made.choices] == [later, later]
    assert hall.places({guid for choice in made.choices for guid in choice.guids}) == later


def test_one_label_that_is_read_settles_a_choice_of_two():
    hall = Hall()
    later = {"ibl007", "ibl008"}
    hall.pull(lambda a, b: not ({a, b} & later and {a[:3], b[:3]} == {"ibl", "ibs"}))
    made = hall.bound({"ibl007": hall.guid["ibl007"]})
    assert made.switches[hall.guid["ibl007"]] == "ibl007"
    assert [choice.places for choice in made.choices] == [("ibl008",)]


def test_a_leaf_with_two_uplinks_is_too_little_to_go_by():
    hall = Hall()
    hall.pull(lambda a, b: not ("ibl003" in (a, b) and {"ibs003", "ibs004"} & {a, b}))
    made = hall.bound()
    assert made.few == {hall.guid["ibl003"]: "ibl003"}
    assert hall.guid["ibl003"] not in made.switches


def test_a_listed_guid_at_the_place_of_another_is_said():
    hall = Hall()
    made = hall.bound({"ibl003": "f" * 16})
    assert (hall.guid["ibl003"], "ibl003", "f" * 16, "list") in made.against
    assert hall.guid["ibl003"] not in made.switches


def test_planes_of_a_switch_are_one_switch_by_the_guid_of_its_system():
    hall = Hall()
    found = hall.found()
    key = hall.guid["ibl003"]
    doubled = found.nodes[found.nodes["key"] == key].assign(key="second", guid="second")
    found = parse.Discovery(pd.concat([found.nodes, doubled]), found.links, {key: "ab" * 8, "second": "ab" * 8})
    assert bind(hall.plan, found, {}).switches["ab" * 8] == "ibl003"


@settings(max_examples=150)
@given(
    st.integers(0, 10**9),
    st.integers(0, 12),
    st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7]),
    st.sampled_from(["", "install-", None, "cloned"]),
)
def test_never_a_false_binding(seed, exchanges, cut, names):
    hall = Hall(seed)
    if names is not None:
        hall.named("" if names == "cloned" else names)
    if names == "cloned":
        one, other = hall.draw.sample(["gpu001", "gpu002", "gpu003", "gpu004"], 2)
        for name in hall.label:
            if name.startswith(f"{other}:"):
                hall.label[name] = hall.label[f"{one}:{name.partition(':')[2]}"]
    for _ in range(exchanges):
        pool = sorted(hall.ends)
        if hall.draw.random() < 0.5:  # nearby plugs are those that people exchange
            switch = hall.draw.choice(sorted(hall.wire.ports))
            pool = [end for end in pool if end[0] == switch]
        if len(pool) > 1:
            hall.exchange(*hall.draw.sample(pool, 2))
    gone = {end for end in sorted(hall.ends) if hall.draw.random() < cut}
    hall.ends = {near: far for near, far in hall.ends.items() if near not in gone and far not in gone}
    assert hall.false(hall.bound()) == set()


def test_paths_that_share_a_cable_count_once():
    near = {"a": Counter(b=5), "b": Counter(a=5, c=2), "c": Counter(b=2)}
    assert binding._paths({"a"}, "b", near) == 3
    assert binding._paths({"a"}, "c", near) == 2
