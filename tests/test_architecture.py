"""docs/architecture.md tells where a change belongs; what it names exists."""

import re

import pytest

from inventory.paths import repo_root

PAGE = (repo_root() / "docs" / "architecture.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| (\d+) \| (.+?) \| `([^`]+)` \|$", PAGE, flags=re.MULTILINE)


def test_the_page_has_twenty_examples() -> None:
    assert [int(number) for number, _, _ in EXAMPLES] == list(range(1, 21))


@pytest.mark.parametrize(("change", "place"), [(change, place) for _, change, place in EXAMPLES])
def test_the_place_of_a_change_exists(change: str, place: str) -> None:
    assert (repo_root() / place).exists(), f"{change}: {place} does not exist"


def test_every_folder_and_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:inventory|network|capacity|validation|infra|playbooks|tests)/[\w./-]*)`", PAGE))
    named |= set(re.findall(r"^    ((?:[a-z]+/)+)  ", PAGE, flags=re.MULTILINE))
    assert len(named) > 20
    assert sorted(path for path in named if not (repo_root() / path).exists()) == []
