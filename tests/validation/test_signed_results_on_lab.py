"""Each node of a standing lab signs its own part of a load with its host key, at the end of the load."""

import dataclasses

import pytest

from capacity.model import Plan
from tests.standing import Standing
from validation.checks.conftest import SWEPT, sweep_collectives
from validation.facts.node_results import side_by_side
from validation.facts.storage_acts import checkpoint_writes
from validation.from_raw import Again, computed
from validation.runners import slurm, training
from validation.runners.training import Recording
from validation.training_story import unlike_parts

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def pinning(standing: Standing) -> Plan:
    """The plan of a site that says that it pins the host keys of its nodes: the lab made them, and known_hosts has them."""
    ssh = standing.site.credentials.ssh.model_copy(update={"host_keys": "pinned"})
    credentials = standing.site.credentials.model_copy(update={"ssh": ssh})
    site = standing.site.model_copy(update={"credentials_given": credentials})
    return dataclasses.replace(standing.plan, site=site)


def gpus(plan: Plan) -> list[str]:
    names: list[str] = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    return names


@pytest.mark.soak
def test_the_nodes_sign_their_part_of_the_collectives(standing: Standing, pinning: Plan) -> None:
    swept = sweep_collectives(pinning, slurm.connect(pinning), "a-store")
    assert swept.error == ""
    assert dict(swept.kept.unsigned) == {}
    assert sorted(swept.kept.signed) == gpus(pinning)
    found = computed("S066.measured", pinning.site.name, pinning, side_by_side(swept.kept.raw))
    assert isinstance(found, Again), found
    assert found.value["rows"] == swept.report["rows"] if swept.report else False
    left = {node: standing.shell(node, f"ls -d {SWEPT}* 2>/dev/null || true").strip() for node in gpus(pinning)}
    assert left == dict.fromkeys(gpus(pinning), "")


def test_the_nodes_sign_their_part_of_checkpoint_writes(pinning: Plan) -> None:
    found = checkpoint_writes(pinning, 1 << 20, pinning.site.storage.checkpoint.stall_s, "a-store")
    assert (found.error, dict(found.unsigned)) == ("", {})
    assert sorted(found.signed) == gpus(pinning)
    assert isinstance(computed("S124.measured", pinning.site.name, pinning, found.raw), Again)


@pytest.mark.soak
def test_the_nodes_sign_their_part_of_a_training(pinning: Plan) -> None:
    recording = training.smoke(pinning, slurm.connect(pinning), "a-store")
    assert (recording.problems, recording.unsigned) == ([], {})
    assert unlike_parts(Recording.from_json(recording.as_json())) == ""
    ran = {node for job in recording.jobs.values() for node in job["nodes"]}
    assert {one.device for one in recording.signed} == ran
    again = computed("S186.measured", pinning.site.name, pinning, recording.as_json())
    assert isinstance(again, Again), again
    assert again.problems == []
    shown = {tuple(row["names"]): row["nodes"] for row in again.value["scales"] if row["names"]}
    assert shown == {("1 GPU", "1 node"): 1, ("half",): 2, ("one leaf group", "full"): 4}
