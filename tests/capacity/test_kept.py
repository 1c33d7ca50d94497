"""Kept results of stages: which change of a site a stage is run again for."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pytest

from capacity.kept import Kept, Stage, unwatched
from capacity.least import with_values
from inventory.findings import Finding
from inventory.site import Site, load_site, parse_site
from inventory.site.new import Wanted, site_text
from inventory.site.whatif import Base

Read = Callable[[Any], object]
"""What a stage of these tests does with a site."""


class Counted:
    """A stage that reads the site in one way and counts its runs."""

    def __init__(self, read: Read) -> None:
        self.read, self.runs = read, 0

    def __call__(self, site: Site, catalog: Any, built: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
        self.runs += 1
        return {"value": self.read(site)}, []


def runs(read: Read, *settings: str, site: str = "h100-1000-ib") -> int:
    """Runs of a stage for a shipped site and then for the site with changed keys."""
    return runs_of(read, Base.read(site), *settings)


def runs_of(read: Read, base: Base, *settings: str) -> int:
    """`runs` of any site."""
    stage, kept = Counted(read), Kept()
    one: Stage = stage
    for planned in (base.site, base.changed(list(settings))):
        kept.run(one, planned, planned.catalog, {})
    return stage.runs


def first_site() -> Site:
    """64 servers in ten lines: its sizes are open."""
    return parse_site(site_text(Wanted("first", gpu="h100", fabric="ib", servers=64)))


@pytest.mark.parametrize(
    ("read", "setting"),
    [
        (lambda site: site.power.derating, "power.pue=1.3"),
        (lambda site: site.power.rack_pdu.model, "power.rack_pdu.per_feed=2"),
        (lambda site: site.cooling.air.rise_k, "cooling.air.leakage_pct=11"),
        (lambda site: site.room.row_pitch_m, "power.pue=1.3"),
        (lambda site: site.model_copy(update={"power": site.power}).room.rows, "power.pue=1.3"),
        (lambda site: site.effective.origin(("power", "derating")), "power.pue=1.3"),
        (lambda site: site.effective.open, "power.derating=0.7"),
        (lambda site: site.effective.sized(), "power.derating=0.7"),
    ],
)
def test_a_key_beside_those_that_are_read_runs_no_stage_again(read: Read, setting: str) -> None:
    assert runs(read, setting) == 1


@pytest.mark.parametrize(
    ("read", "setting"),
    [
        (lambda site: site.power.pue, "power.pue=1.3"),
        (lambda site: site.power.rack_pdu.per_feed, "power.rack_pdu.per_feed=2"),
        (lambda site: site.power.circuit("rack_circuit").breaker_a, "power.rack_circuit.breaker_a=80"),
        (lambda site: site.power.model_copy(update={"pue": 1.9}).derating, "power.derating=0.7"),
        (lambda site: site.power.model_dump()["derating"], "power.derating=0.7"),
        (lambda site: dict(site.power)["derating"], "power.derating=0.7"),
        (lambda site: vars(site.power)["derating"], "power.derating=0.7"),
        (lambda site: repr(site.power), "power.derating=0.7"),
        (lambda site: site.power == load_site("h100-1000-ib").power, "power.derating=0.7"),
        (lambda site: load_site("h100-1000-ib").power == site.power, "power.derating=0.7"),
        (lambda site: site.model_copy(update={"room": site.room}).power.pue, "power.pue=1.3"),
        (lambda site: site.cooling.plant is None, "cooling.plant=null"),
        (lambda site: site.cooling.plant is not None and site.cooling.plant.water_c, "cooling.plant=null"),
        (lambda site: site.service_nodes[0].count, "service_nodes.management.count=3"),
        (lambda site: site.model_dump()["power"]["pue"], "power.pue=1.3"),
        (lambda site: site.effective.value["power"]["pue"], "power.pue=1.3"),
    ],
)
def test_a_key_that_is_read_alone_or_with_its_section_runs_the_stage_again(read: Read, setting: str) -> None:
    assert runs(read, setting) == 2


@pytest.mark.parametrize(
    ("read", "setting"),
    [
        (lambda site: site.effective.origin(("power", "derating")), "power.derating=0.7"),
        (lambda site: site.effective.open, "inband.leaves=4"),
        (lambda site: site.effective.sized(), "inband.leaves=4"),
        (lambda site: site.effective.sized(), "electrical.transformers.kva=1500"),
    ],
)
def test_an_origin_or_an_open_size_that_is_asked_for_runs_the_stage_again(read: Read, setting: str) -> None:
    given = first_site()
    base = Base(given, given.given, "first")
    assert runs_of(read, base, setting) == 2
    assert runs_of(read, base, "cooling.air.rise_k=11") == 1


def test_what_a_what_if_asks_of_origins_runs_the_stage_that_tries_it_again() -> None:
    given = first_site()
    base = Base(given, given.given, "first")
    assert runs_of(trying(lambda site: site.effective.open, Kept()), base, "inband.leaves=4") == 2
    assert runs_of(trying(lambda site: site.effective.open, Kept()), base, "power.pue=1.3", "inband.leaves=2") == 2


def test_a_section_that_is_watched_equals_one_that_is_not() -> None:
    plain, found = load_site("h100-1000-ib"), list[bool]()

    def read(site: Site) -> None:
        found.extend((site.power == plain.power, plain.power == site.power, site.power == site.power.model_copy()))
        found.append(site.power != plain.power)

    Kept().run(Counted(read), load_site("h100-1000-ib"), plain.catalog, {})
    assert found == [True, True, True, False]


def test_a_section_in_a_result_can_be_read_when_its_stage_is_over() -> None:
    site, kept = load_site("h100-1000-ib"), Kept()
    added, _ = kept.run(Counted(lambda watched: watched.power), site, site.catalog, {})
    assert added["value"].rack_pdu.per_feed == site.power.rack_pdu.per_feed
    assert added["value"] == site.power


def trying(read: Read, trials: Kept) -> Read:
    """A stage that tries the site with another derating: another stage reads the changed site, and its result is kept too."""

    def inner(site: Site, catalog: Any, built: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
        return {"value": read(site)}, []

    def tried(site: Site) -> object:
        changed = with_values(unwatched(site), {"power.derating": 0.5})
        return trials.run(inner, changed, changed.catalog, {})[0]["value"]

    return tried


@pytest.mark.parametrize(
    ("read", "setting", "times"),
    [
        (lambda site: site.power.pue, "power.pue=1.3", 2),
        (lambda site: site.power.pue, "room.row_pitch_m=4", 1),
        (lambda site: site.power.model_dump()["pue"], "power.pue=1.3", 2),
        (lambda site: repr(site.given), "room.row_pitch_m=4", 2),
    ],
)
def test_what_is_read_in_a_what_if_runs_the_stage_that_tries_it_again(read: Read, setting: str, times: int) -> None:
    assert runs(trying(read, Kept()), setting) == times


def test_a_what_if_that_was_kept_counts_for_each_stage_that_asks_for_it() -> None:
    trials = Kept()
    assert runs(trying(lambda site: site.power.pue, trials), "room.row_pitch_m=4") == 1
    assert runs(trying(lambda site: site.power.pue, trials), "power.pue=1.3") == 2


def test_what_a_what_if_reads_of_earlier_stages_counts() -> None:
    site, kept, trials, seen = load_site("h100-1000-ib"), Kept(), Kept(most=2), list[str]()

    def inner(site: Site, catalog: Any, built: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
        return {"value": built["earlier"]}, []

    def outer(site: Site, catalog: Any, built: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
        seen.append(trials.run(inner, unwatched(site), catalog, {**built})[0]["value"])
        return {}, []

    for earlier in ("one", "two", "two"):
        kept.run(outer, site, site.catalog, {"earlier": earlier})
    assert seen == ["one", "two"]


def test_of_few_kept_results_the_one_that_was_asked_for_last_stays() -> None:
    base, stage, kept = Base.read("h100-1000-ib"), Counted(lambda site: site.power.pue), Kept(most=2)
    one: Stage = stage
    for pue in ("1.3", "1.4", "1.3", "1.5", "1.3"):
        site = base.changed([f"power.pue={pue}"])
        kept.run(one, site, site.catalog, {})
    assert stage.runs == 3


def test_of_two_kept_results_the_later_one_is_found_again() -> None:
    site, kept = load_site("lab"), Kept(most=2)
    frames = [pd.DataFrame({"name": ["a"]}), pd.DataFrame({"name": ["b"]})]
    made: list[str] = []

    def stage(site: Site, catalog: Any, built: Any) -> tuple[Any, list[Finding]]:
        made.append(built["racks"]["name"].iloc[0])
        return {"count": len(made)}, []

    given = (frames[0], frames[1], frames[1], frames[0])
    counts = [kept.run(stage, site, site.catalog, {"racks": frame})[0]["count"] for frame in given]
    assert counts == [1, 2, 2, 1]
    assert made == ["a", "b"]


@pytest.mark.parametrize(("asks", "runs_of_stage"), [(True, 2), (False, 1)])
def test_a_result_without_what_ifs_is_none_with_them_where_they_are_asked_for(asks: bool, runs_of_stage: int) -> None:
    made: list[bool] = []

    def stage(site: Site, catalog: Any, built: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
        made.append(bool(built.get("trials")) if asks else False)
        return {}, []

    site, kept = load_site("lab"), Kept()
    for trials in (None, object(), object()):
        kept.run(stage, site, site.catalog, {"trials": trials})
    assert len(made) == runs_of_stage
