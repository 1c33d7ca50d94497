"""A node of a standing lab that was drained for its burn-in runs it again and stays out of service."""

import time

import pytest

from tests.standing import Standing
from validation.runners import burn_in, slurm

pytestmark = [pytest.mark.lab, pytest.mark.soak]

NODE = "gpu002"
WHY = "bringup: S034.measured: rank 0: 3 wrong products"
BUDGET_S = 180


def bringup(standing: Standing, *words: str, check: bool = True) -> tuple[int, str]:
    """`bringup validation ACTION SITE ...`; (exit status, what it said)."""
    act, *rest = words
    done = standing.run("bringup", "validation", act, str(standing.site.path), *rest, check=check)
    return done.returncode, done.stdout + done.stderr


def test_a_drained_node_is_loaded_alone_and_drained_again_as_before(standing: Standing) -> None:
    scheduler = slurm.connect(standing.plan)
    scheduler.drain_again(NODE, WHY)
    try:
        before = scheduler.drain(NODE)
        assert (before.drained, before.reason) == (True, WHY)
        status, said = bringup(standing, "return", NODE, check=False)
        assert status == 1, said
        bringup(standing, "start", "--node", NODE)
        assert scheduler.reservation(burn_in.RESERVATION)["Nodes"] == NODE
        end = time.monotonic() + BUDGET_S
        while bringup(standing, "status", check=False)[0] and time.monotonic() < end:
            time.sleep(2)
        status, said = bringup(standing, "collect", check=False)
        assert status == 0, said
        assert scheduler.reservation(burn_in.RESERVATION) == {}
        assert scheduler.drain(NODE) == before
        assert "1 passed" in said, said
        status, said = bringup(standing, "return", NODE, check=False)
        assert (status, "simulated GPUs compute nothing" in said) == (1, True), said
    finally:
        scheduler.release(burn_in.RESERVATION)
        if not scheduler.nodes()[NODE].ready:
            scheduler.resume(NODE)
