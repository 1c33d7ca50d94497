"""GPUs that are an account's own, with the real Kueue: others use them, and give them back to work of the lowest tier.

The control plane and Kueue are real. The four nodes of the lab's plan and their pods are kwok's: no container runs.
"""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from infra.kube.trial import gang, trial
from infra.toolchain.control_plane import programs
from infra.toolchain.controllers import controllers
from inventory.site.sections.software import SchedulerAccount
from tests.plans import plan_of

pytestmark = [pytest.mark.platform, pytest.mark.needs("kueue")]

ACCOUNTS = (SchedulerAccount(name="notebooks", min_gpus=8), SchedulerAccount(name="research"))


def asking(name: str, account: str, tier: str) -> dict[str, Any]:
    """A job of one pod with all GPUs of a node, which also asks for CPUs and memory."""
    made = gang(name, account, tier, 1)
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", "memory": "1Gi"}
    return made


def test_an_account_gets_its_own_gpus_back_from_a_higher_tier_and_no_more(tmp_path: Path) -> None:
    kubernetes, made, plan = programs(), controllers(), plan_of("lab-kubernetes")
    assert kubernetes is not None
    assert made is not None
    scheduler = plan.site.scheduler.model_copy(update={"accounts": ACCOUNTS})
    plan = dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler}))
    highest, lowest = plan.site.tiers[0], plan.site.tiers[-1]
    with trial(plan, kubernetes, made, tmp_path) as cluster:
        for number in range(4):
            cluster.create(asking(f"all-{number}", "research", highest))
        cluster.wait(lambda: len(cluster.running("research")) == 4, "research has all four nodes")
        cluster.create(asking("own", "notebooks", lowest))
        cluster.wait(lambda: len(cluster.running("notebooks", "own")) == 1, "notebooks has its own node")
        assert len(cluster.running("research")) == 3
        cluster.create(asking("more", "notebooks", lowest))
        cluster.wait(
            lambda: cluster.condition("notebooks", "more", "QuotaReserved").get("status") == "False",
            "Kueue has looked at the second job",
        )
        assert cluster.pods("notebooks", "more") == []
        assert len(cluster.running("research")) == 3
