"""How the playbook is called on the demo's nodes, and what they get before it."""

import json
import re

import pytest

from infra.metal import demo
from infra.metal.accepted import SKIPPED, command, device_files
from inventory.paths import repo_root
from inventory.yaml_data import read_data


def test_the_playbook_runs_on_the_named_hosts_without_plays_that_the_demo_has_no_devices_for() -> None:
    argv = command("lab-metal", ["ctl01", "gpu001"])
    assert argv[argv.index("--limit") + 1] == "ctl01,gpu001"
    assert json.loads(argv[argv.index("--extra-vars") + 1])["slurm_health_mounts"] == []


def test_each_tag_that_is_left_out_is_one_of_the_playbook() -> None:
    plays = read_data(repo_root() / "playbooks" / "site.yml")
    tags = {tag for play in plays for tag in play.get("tags", ())}
    assert set(SKIPPED) <= tags


def test_a_node_gets_a_device_file_for_each_gpu_and_keeps_them() -> None:
    said = device_files(8)
    assert "seq 0 7" in said
    assert "/etc/tmpfiles.d/simulated-gpus.conf" in said
    assert said.endswith("ls /dev/nvidia7")


def test_each_name_of_a_check_that_the_demo_judges_by_is_that_of_one_check() -> None:
    """Another check that pytest's -k finds, or none, would make the count of the demo wrong."""
    texts = [path.read_text() for path in (repo_root() / "validation/checks").glob("test_*.py")]
    items = {}
    for name in (*demo.NODE_CHECKS, demo.MIRROR_CHECK, demo.SITE_CHECK):
        found = [
            item
            for text in texts
            for item, function in re.findall(r'@check\(\s*"([^"]+)"[^@]*?\ndef (test_\w+)', text)
            if name in function
        ]
        assert len(found) == 1, (name, found)
        items[name] = found[0]
    assert {"S019.applied", "S142.applied", "S142.generated", "S032.applied"} <= {*items.values()}


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("===== 19 passed, 359 deselected, 2 warnings in 158.60s (0:02:38) =====\n19 records signed\n", 19),
        ("2 failed, 17 passed, 359 deselected in 158.60s", 17),
        ("17 passed, 2 skipped, 359 deselected in 9.1s", 17),
        ("378 deselected in 2.00s", 0),
        ("", 0),
    ],
)
def test_what_passed_is_read_from_the_last_line_of_the_runner(said: str, number: int) -> None:
    assert demo.passed(said) == number
