"""The smallest set of values that mends, against trials that are made up."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from capacity.least import Tried, parts, with_values
from inventory.findings import Finding, Remedy
from inventory.site import Site, SiteError, load_site
from tests.first_sites import first_site

PDUS, SWITCHES, PLACES = "power.rack_pdu.per_feed", "oob.switches", "room.rpps_per_row"


def against(id_: str, **settings: int) -> Finding:
    """An error, with a remedy where settings are given: `__` stands for the point of a key."""
    ways = (Remedy({key.replace("__", "."): value for key, value in settings.items()}, ""),) if settings else ()
    return Finding(id_, "error", "r01", "", remedies=ways)


def hall(site: Site) -> Sequence[Finding]:
    """Three PDUs a feed are enough; they take nine management switches, and those two places."""
    found = [against("BANK")] if site.power.rack_pdu.per_feed < 3 else []
    if site.power.rack_pdu.per_feed > 2 and site.oob.switches < 9:
        found.append(against("PORTS", oob__switches=9))
    if site.oob.switches > 8 and site.room.rpps_per_row < 2:
        found.append(against("PLACES", room__rpps_per_row=2))
    return found


def start() -> Site:
    return with_values(load_site("lab"), {PDUS: 1, SWITCHES: 2, PLACES: 1})


def test_what_a_value_brings_is_mended_beside_it() -> None:
    assert Tried(start(), hall).least({PDUS: 3}, "BANK") == {PDUS: 3, SWITCHES: 9, PLACES: 2}


def test_a_value_that_leaves_the_finding_is_none() -> None:
    assert Tried(start(), hall).least({PDUS: 2}, "BANK") is None


def ways(id_: str, *settings: dict[str, int]) -> Finding:
    """An error with alternatives."""
    return Finding(id_, "error", "r01", "", remedies=tuple(Remedy(one, "") for one in settings))


def test_of_two_ways_that_of_fewer_values_is_taken() -> None:
    """Nine switches need two places more; rows of more racks need nothing."""

    def two_ways(site: Site) -> Sequence[Finding]:
        found = [against("BANK")] if site.power.rack_pdu.per_feed < 3 else []
        if site.power.rack_pdu.per_feed > 2 and site.oob.switches < 9 and site.room.rows < 4:
            found.append(ways("PORTS", {SWITCHES: 9}, {"room.rows": 4}))
        if site.oob.switches > 8 and site.room.rpps_per_row < 2:
            found.append(against("PLACES", room__rpps_per_row=2))
        return found

    site = with_values(start(), {"room.rows": 1})
    assert Tried(site, two_ways).least({PDUS: 3}, "BANK") == {PDUS: 3, "room.rows": 4}


def test_a_way_into_a_dead_end_leaves_the_other_one() -> None:
    def dead_end(site: Site) -> Sequence[Finding]:
        found = [against("BANK")] if site.power.rack_pdu.per_feed < 3 else []
        if site.power.rack_pdu.per_feed > 2 and site.oob.switches < 9 and site.room.rows < 4:
            found.append(ways("PORTS", {SWITCHES: 9}, {"room.rows": 4}))
        return [*found, *([against("CABLE")] if site.oob.switches > 8 else [])]

    site = with_values(start(), {"room.rows": 1})
    assert Tried(site, dead_end).least({PDUS: 3}, "BANK") == {PDUS: 3, "room.rows": 4}


def test_a_value_that_mends_alone_stands_alone() -> None:
    def switches_do(site: Site) -> Sequence[Finding]:
        found = [against("BANK")] if site.oob.switches < 9 and site.power.rack_pdu.per_feed < 3 else []
        return [
            *found,
            *([against("PORTS", oob__switches=9)] if 2 < site.power.rack_pdu.per_feed > site.oob.switches - 6 else []),
        ]

    assert Tried(start(), switches_do).least({PDUS: 3}, "BANK") == {SWITCHES: 9}


KEYS = (PDUS, SWITCHES, PLACES, "room.rows")


@given(st.sets(st.frozensets(st.sampled_from(KEYS), min_size=1)))
def test_without_any_of_its_values_a_set_does_not_mend(mending: set[frozenset[str]]) -> None:
    """Which keys have to be 9 together is drawn."""

    def drawn(site: Site) -> Sequence[Finding]:
        nine = frozenset(key for key in KEYS if value_of(site, key) == 9)
        if nine in mending:
            return []
        more = [{key: 9} for key in KEYS if key not in nine]
        return [ways("NEW", *more)] if nine else [against("BANK")]

    made = Tried(start(), drawn).least({PDUS: 9}, "BANK")
    assert made is None or frozenset(made) in mending
    assert not [part for part in parts(made or {}) if frozenset(part) in mending]


def value_of(site: Site, key: str) -> int:
    section, *names = key.split(".")
    value = getattr(site, section)
    for name in names:
        value = getattr(value, name)
    return int(value)


def test_an_error_without_a_remedy_ends_the_search() -> None:
    def dead_end(site: Site) -> Sequence[Finding]:
        return [against("CABLE")] if site.power.rack_pdu.per_feed > 1 else [against("BANK")]

    assert Tried(start(), dead_end).least({PDUS: 2}, "BANK") is None


def test_an_error_that_stood_before_is_no_new_one() -> None:
    assert Tried(start(), lambda site: [*hall(site), against("OTHER")]).least({PDUS: 3}, "BANK") == {
        PDUS: 3,
        SWITCHES: 9,
        PLACES: 2,
    }


def test_each_set_of_values_is_tried_once() -> None:
    tried: list[int] = []

    def counted(site: Site) -> Sequence[Finding]:
        tried.append(site.power.rack_pdu.per_feed)
        return hall(site)

    search = Tried(start(), counted)
    assert search.least({PDUS: 2}, "BANK") is None
    assert search.least({PDUS: 2}, "BANK") is None
    assert tried == [1, 2]


def test_nothing_is_offered_where_what_ifs_are_not_asked_for() -> None:
    assert Tried(start(), lambda site: None).least({PDUS: 3}, "BANK") is None


def test_a_value_of_a_section_that_the_site_lacks_makes_the_section() -> None:
    site = load_site("lab")
    assert site.power.network_circuit is None
    made = with_values(site, {"power.network_circuit.breaker_a": 30})
    assert made.power.circuit("network_circuit").breaker_a == 30


def test_open_sizes_are_worked_out_anew_before_a_remedy_is_offered() -> None:
    """With more PDUs, panels follow; larger transformers are needed by these alone."""
    site, kva = first_site("h100"), "electrical.transformers.kva"
    now = site.room.rpps_per_row

    def trial(changed: Site) -> Sequence[Finding]:
        found = [against("BANK")] if changed.power.rack_pdu.per_feed < 3 else []
        assert changed.electrical is not None
        small = changed.room.rpps_per_row > now and changed.electrical.transformers.kva < 9000
        return [*found, *([against("ELEMENT", electrical__transformers__kva=9000)] if small else [])]

    def sized(unchanged: Site, values: Mapping[str, Any]) -> Site:
        return with_values(unchanged, {**values, PLACES: now + 1})

    def refused(unchanged: Site, values: Mapping[str, Any]) -> Site:
        raise SiteError("hall.yaml", [])

    assert Tried(site, trial).least({PDUS: 3}, "BANK") == {PDUS: 3}
    assert Tried(site, trial, sized).least({PDUS: 3}, "BANK") == {PDUS: 3, kva: 9000}
    assert Tried(site, trial, refused).least({PDUS: 3}, "BANK") is None


def test_a_finding_of_another_subject_does_not_stand_in_the_way() -> None:
    def two(site: Site) -> Sequence[Finding]:
        left = [Finding("VOLTAGE", "error", "server", "")]
        return left if site.power.rack_pdu.per_feed > 1 else [*left, Finding("VOLTAGE", "error", "pdu", "")]

    assert Tried(start(), two).least({PDUS: 2}, "VOLTAGE") is None
    assert Tried(start(), two).least({PDUS: 2}, "VOLTAGE", "server") is None
    assert Tried(start(), two).least({PDUS: 2}, "VOLTAGE", "pdu") == {PDUS: 2}
