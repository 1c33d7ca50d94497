"""How the playbook is called on the demo's nodes, and what they get before it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from infra.metal import demo
from infra.metal.accepted import SKIPPED, command
from inventory.paths import repo_root
from inventory.yaml_data import read_data


def test_the_playbook_runs_on_the_named_hosts_without_plays_that_the_demo_has_no_devices_for() -> None:
    argv = command(Path("site.yaml"), ["ctl01", "gpu001"])
    assert argv[argv.index("--limit") + 1] == "ctl01,gpu001"
    assert json.loads(argv[argv.index("--extra-vars") + 1])["node_check_mounts"] == []


def test_each_tag_that_is_left_out_is_one_of_the_playbook() -> None:
    plays = read_data(repo_root() / "playbooks" / "site.yml")
    tags = {tag for play in plays for tag in play.get("tags", ())}
    assert set(SKIPPED) <= tags


def test_each_name_of_a_check_that_the_demo_judges_by_is_that_of_one_check() -> None:
    """Another check that pytest's -k finds, or none, would make the count of the demo wrong."""
    texts = [path.read_text() for path in (repo_root() / "validation/checks").glob("test_*.py")]
    items = {}
    for name in (*demo.NODE_CHECKS, *demo.FAULT_CHECKS, demo.SITE_CHECK):
        found = [
            item
            for text in texts
            for item, function in re.findall(r'@check\(\s*"([^"]+)"[^@]*?\ndef (test_\w+)', text)
            if name in function
        ]
        assert len(found) == 1, (name, found)
        items[name] = found[0]
    assert {"S019.applied", "S142.applied", "S142.generated", "S032.applied"} <= {*items.values()}
    assert {items[name] for name in demo.BUILT_CHECKS} == {"S018.measured", "S022.measured", "S027.observed"}


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("===== 19 passed, 359 deselected, 2 warnings in 158.60s (0:02:38) =====\n19 records signed\n", 19),
        ("2 failed, 17 passed, 359 deselected in 158.60s", 17),
        ("17 passed, 2 skipped, 359 deselected in 9.1s", 17),
        ("waiting 4 s: facts\n...\n3 passed, 377 deselected, 2 warnings in 67.25s (0:01:07)\n", 3),
        ("378 deselected in 2.00s", 0),
        ("", 0),
    ],
)
def test_what_passed_is_read_from_the_last_line_of_the_runner(said: str, number: int) -> None:
    assert demo.passed(said) == number


CHECKS_FAILED = "S018.measured gpu001: no drive has the serial number S2\n3 failed, 378 deselected in 9.10s\n"


@pytest.mark.parametrize(
    ("said", "words", "why"),
    [
        (CHECKS_FAILED, ["serial number S2"], None),
        (CHECKS_FAILED, ["serial number S2", "has a link of x0"], "without a word of has a link of x0"),
        (CHECKS_FAILED.replace("3 failed", "1 passed, 2 failed"), ["serial number S2"], "3 checks were to fail"),
        (CHECKS_FAILED.replace("3 failed", "2 failed, 1 skipped"), ["serial number S2"], "3 checks were to fail"),
        ("1 error in 2.00s\n", [], "3 checks were to fail"),
    ],
)
def test_a_server_built_otherwise_is_refused_by_all_of_its_checks_in_their_words(
    said: str, words: list[str], why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log := tmp_path / "built.log").write_text(said)
    monkeypatch.setattr(demo, "checked", lambda *given: (1, said.strip().splitlines()[-1], log))
    none: Any = None
    if why is None:
        demo.refused(none, none, "gpu001", demo.BUILT_CHECKS, words)
        return
    with pytest.raises(demo.DemoError, match=why):
        demo.refused(none, none, "gpu001", demo.BUILT_CHECKS, words)
