"""Single failures of the supply: only what a failure changes is worked out, against every element of every failure."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from capacity.build import build
from capacity.model.frames import with_python_strings
from capacity.power.operation import load_step
from capacity.power.upstream import redistribution, single_failures, switching
from capacity.power.upstream.network import Network
from inventory.site import Site, load_site
from inventory.site.whatif import changed
from tests.capacity.random_sites import Drawn, sites
from tests.seed import SEED

SHIPPED = ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")


def networks(site: Site) -> list[tuple[Network, pd.DataFrame, single_failures.Study]]:
    """What the plan of `site` studies, and what it finds: the supply and its waves of burn-in."""
    found: list[tuple[Network, pd.DataFrame, single_failures.Study]] = []
    study = single_failures.study

    def spy(net: Network, circuits: pd.DataFrame) -> single_failures.Study:
        found.append((net, circuits, study(net, circuits)))
        return found[-1][2]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_failures, "study", spy)
        build(site)
    return found


def every_element(net: Network) -> np.ndarray[Any, Any]:
    """kW of every element (columns) with everything in order, then after each single failure: the whole tree each time."""
    tree, base = net.tree, net.base_kw()
    size = len(tree.elements)
    names, _, (failure, element) = single_failures.single_failures(tree)
    failed = np.zeros((1 + len(names), size), dtype=bool)
    failed[1 + failure, element] = True
    lives, chosen = switching.alive(tree, failed)
    panel_kw = np.tile(np.bincount(tree.panel_of, base, minlength=size).astype(float), (len(failed), 1))
    for row in range(1, len(failed)):
        dead = np.flatnonzero(~lives[row, tree.panel_of])
        out = redistribution.redistribute(net, np.zeros(len(dead), dtype=np.int64), dead, 1)
        np.add.at(panel_kw[row], tree.panel_of[out.touched_circuit], out.touched_kw - base[out.touched_circuit])
    return switching.element_loads(net, lives, chosen, np.maximum(panel_kw, 0.0))


def judge(net: Network, study: single_failures.Study) -> None:
    loads, limit = every_element(net), net.tree.elements["limit_kw"].to_numpy(dtype=float)
    assert study.normal_kw == pytest.approx(loads[0], abs=1e-5)
    assert study.worst_kw == pytest.approx(loads.max(axis=0), abs=1e-5)
    names = ["", *study.frame["failure"]]
    case = [names.index(name) for name in study.worst_case]
    assert loads[case, np.arange(len(case))] == pytest.approx(study.worst_kw, abs=1e-5)
    used = np.where(limit > 0, loads / np.maximum(limit, 1e-9), 0.0)[1:]
    frame = study.frame.head(len(used))
    assert frame["worst_pct"].to_numpy() == pytest.approx(used.max(axis=1) * 100, abs=2e-3)
    at = {name: row for row, name in enumerate(net.tree.elements["name"])}
    for row, name in enumerate(frame["worst_element"]):
        top = used[row].max()
        assert (used[row, at[name]] if name else 0.0) == pytest.approx(top, abs=1e-6)
        assert not name or at[name] == int((used[row] > top - 1e-8).argmax()), "the first of equal ones"


@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_failure_does_not_change_is_as_it_was(name: str) -> None:
    supply, *waves = networks(load_site(name))
    for net, _, study in [supply, *waves[:1]]:
        judge(net, study)


UNHURRIED = settings(
    database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(UNHURRIED, max_examples=2, derandomize=True)
@given(st.sampled_from(SHIPPED).flatmap(sites))
def test_the_same_holds_on_random_sites(drawn: Drawn) -> None:
    for net, _, study in networks(drawn.site)[:1]:
        judge(net, study)


@pytest.mark.soak
@settings(UNHURRIED, max_examples=50)
@seed(SEED)
@given(st.sampled_from(SHIPPED).flatmap(sites))
def test_the_same_holds_on_other_random_sites(drawn: Drawn) -> None:
    for net, _, study in networks(drawn.site)[:1]:
        judge(net, study)


def test_failures_in_small_parts_are_those_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net, circuits, whole = networks(load_site("b200-256-roce"))[0]
    monkeypatch.setattr(single_failures, "DEAD_CIRCUITS", 7)
    parts = with_python_strings(single_failures.study)(net, circuits)  # as `build` calls it
    pd.testing.assert_frame_equal(parts.frame, whole.frame)
    assert parts.worst_kw == pytest.approx(whole.worst_kw)
    assert parts.circuit_worst_kw == pytest.approx(whole.circuit_worst_kw)
    assert (parts.worst_case == whole.worst_case).all()
    assert (parts.circuit_worst_case == whole.circuit_worst_case).all()


def test_the_load_step_of_training_has_the_worst_of_every_element() -> None:
    site = load_site("h100-1000-ib")
    net, _, study = networks(site)[0]
    kw, case = single_failures.worst(net)
    assert kw == pytest.approx(study.worst_kw)
    assert (case == study.worst_case).all()
    assert load_step.steps(site, net).kw.max() > 0


def test_a_dgx_h100_on_three_supplies_goes_on_at_reduced_performance() -> None:
    """Three of six supplies on each of two feeds: the loss of one leaves 3 x 3,300 W, less than the nameplate of 10,200 W."""
    two = ["power.feeds=[A, B]", "server.psu.split_by_feed={A: 3, B: 3}", "server.count=32", "electrical.rooms={}"]
    plan = build(changed("h100-1000-ib", [*two, "electrical.waves=null"]))
    frame = plan.failures.set_index("failure")
    room = frame[frame["kind"] == "room"].iloc[0]
    assert (room["servers_lost"], room["servers_reduced"]) == (0, 32)
    assert (room["supplies_left"], room["left_w"], room["needed_w"]) == (3, 9900, 10200)
    said = [f for f in plan.findings if f.id in ("POWER-FAILURE", "POWER-FEED-LOSS")]
    assert {f.severity for f in said} == {"warning"}
    assert max(f.numbers.get("servers_reduced", 0) for f in said) == 32
    assert frame["servers_lost"].max() == 0
