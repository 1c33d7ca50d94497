"""Every way to get a site file wrong that this folder knows gives exactly the message beside it."""

import pytest

from inventory.site import parse_site
from tests.errors.cases import FOLDER, case_names, message


def test_the_site_behind_the_cases_is_valid() -> None:
    assert parse_site((FOLDER / "_valid.yaml").read_text(encoding="utf-8")).name == "errors"


@pytest.mark.parametrize("name", case_names())
def test_message(name: str) -> None:
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert message(name) == expected, (
        "if the new message is better: python -m tests.errors.update, then review the diff"
    )


@pytest.mark.parametrize("name", case_names())
def test_every_problem_says_where_and_what_to_do(name: str) -> None:
    text = message(name)
    head, *blocks = text.split("\n\n")
    assert head.startswith(f"{name}.yaml: ")
    assert len(blocks) == int(head.split()[1])
    for block in blocks:
        assert "\n  do:       " in block, block


def test_no_expected_message_is_left_without_its_case() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == case_names()
