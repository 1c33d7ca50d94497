"""How the playbook is called on the demo's nodes, and what they get before it."""

import json

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
