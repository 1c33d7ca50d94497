"""GPUs of a configured lab: the hardware in the nodes, the driver that the role installed, and what the two say."""

from pathlib import Path

import pytest

from infra.lab.paths import LabPaths
from tests.standing import Standing
from validation.checks.test_gpus import gpu_identities
from validation.evidence.mode import classify

pytestmark = pytest.mark.lab

NODES = ("gpu001", "gpu002", "gpu003", "gpu004")


def test_every_listed_gpu_answers_through_the_installed_driver(standing: Standing):
    nodes = standing.facts(*NODES).nodes
    for name in NODES:
        reading = nodes[name].data["gpus"]
        listed = standing.plan.gpus[standing.plan.gpus["device"] == name]
        assert (reading["error"], reading["driver"]) == ("", standing.site.versions["driver"])
        assert [gpu["serial"] for gpu in reading["devices"]] == listed["serial"].tolist()
        assert all(gpu["persistence"] for gpu in reading["devices"])
        assert classify(gpu_identities(nodes[name])) == "simulated"


def test_nodes_have_the_device_files_and_this_machine_has_none(standing: Standing):
    for name in NODES:
        assert len(standing.shell(name, "ls /dev/nvidia[0-7] /dev/nvidiactl").split()) == 9
    assert standing.shell("ctl01", "ls /dev").find("nvidia") == -1
    assert LabPaths(standing.name).hardware("gpu001").is_dir()
    if not Path("/proc/driver/nvidia").exists():
        assert list(Path("/dev").glob("nvidia*")) == []


def test_a_node_cannot_change_its_hardware(standing: Standing):
    said = standing.shell("gpu001", "echo lost=1 >>/run/bringup-lab-hardware/gpu/gpu0 2>&1 || echo refused")
    assert said.strip().endswith("refused")
