"""Which remedies count as cheaper."""

import pytest

from inventory.findings import finding, remedy
from inventory.remedy_costs import kind_of, kinds, rank
from inventory.site.explain import schema_keys


def test_a_remedy_costs_what_its_dearest_key_does() -> None:
    assert rank(["oob.switches", "room.rows"]) == rank(["room.rows"]) > rank(["oob.switches"])


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("cooling.supply_c", "set-points"),
        ("cooling.air.units", "plant"),
        ("server.count", "less"),
        ("ups.scope", "statements"),
    ],
)
def test_a_key_belongs_to_the_longest_section_that_names_it(key: str, kind: str) -> None:
    assert kind_of(key) == kind


def test_every_key_of_the_site_file_has_a_kind() -> None:
    assert {kind_of(key) for key in schema_keys()} == set(kinds())


def test_what_is_named_is_a_key_of_the_site_file_once() -> None:
    named = [name for names in kinds().values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= set(schema_keys())


def test_alternatives_of_site_keys_stand_by_cost_and_words_keep_their_place() -> None:
    made = finding(
        "SPACE-ROOM",
        "room",
        limit=4.0,
        racks=5.0,
        remedies=[remedy({"server.count": 8}), remedy({"room.rows": 3}), remedy({"oob.switches": 4})],
    )
    assert [list(one.settings) for one in made.remedies] == [["oob.switches"], ["room.rows"], ["server.count"]]
