"""All-reduce with and without reduction in the switches, on what ranks of a made plan tell; no fabric with SHARP was recorded."""

import copy
import dataclasses
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from capacity.model import Plan
from inventory.site import Site
from network.drivers.errors import UnreadableAnswer
from network.drivers.ssh import SshHost
from tests.plans import plan_of
from tests.validation.bench import swept_in_network
from tests.validation.test_rejudge import planned_for
from tests.validation.test_workloads import Controller
from validation import sharp
from validation.checks import conftest as jobs
from validation.runners import collectives as sweeps
from validation.runners.burn_in import gpu_nodes
from validation.runners.slurm import Slurm

Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module")
def plan(real_site: Site) -> Plan:
    return planned_for(dataclasses.replace(plan_of("lab"), site=real_site), "S058.measured")


@pytest.fixture(scope="module")
def healthy(plan: Plan) -> Ranks:
    return sweeps.ranks_of(swept_in_network(gpu_nodes(plan)))


def test_a_gain_by_reduction_in_the_switches_passes(plan: Plan, healthy: Ranks) -> None:
    found = sharp.judge(plan, healthy)
    assert found.problems == []
    # 8 * 10^9 B in 400 us, times 2 x 31/32 of 32 ranks; without it 500 us
    assert found.value["with_gb_s"] == pytest.approx(8e9 / 400e-6 / 1e9 * 2 * 31 / 32, rel=1e-6)
    assert found.value["gain"] == 1.25
    assert (found.value["plugin"], found.value["algorithms"]) == ("SHARP", ["COLLNET_DIRECT"])


def of(asked: str, ranks: Ranks) -> Ranks:
    return [rank for rank in ranks if rank["in_network"]["asked"] == asked]


def slow(ranks: Ranks) -> None:
    for rank in of("on", ranks):
        rank["spans"][0]["time_us"] = [600.0] * 4


def no_plugin(ranks: Ranks) -> None:
    for rank in of("on", ranks):
        if rank["host"] == "gpu002":
            rank["in_network"]["plugin"] = ""


def no_channel(ranks: Ranks) -> None:
    for rank in of("on", ranks):
        if rank["host"] == "gpu003":
            rank["in_network"]["channels"] = 0


def rings(ranks: Ranks) -> None:
    told = of("on", ranks)[0]["in_network"]["algorithms"]
    told[max(told, key=int)] = ["RING"]


def silent(ranks: Ranks) -> None:
    of("on", ranks)[0]["in_network"]["algorithms"] = {}


def both(ranks: Ranks) -> None:
    of("off", ranks)[5]["in_network"]["channels"] = 2


def wrong(ranks: Ranks) -> None:
    of("on", ranks)[9]["spans"][0]["wrong"] = [1]


def shorter(ranks: Ranks) -> None:
    for rank in of("off", ranks):
        rank["iterations"] = 2


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (slow, "gains nothing"),
        (no_plugin, "NCCL loads no CollNet plugin on gpu002"),
        (no_channel, "NCCL connects no channel through its CollNet plugin on gpu003"),
        (rings, "NCCL ran the largest messages by RING, not in the switches"),
        (silent, "NCCL does not say by which algorithm"),
        (both, "the sweep without reduction in the switches used it too (gpu001)"),
        (wrong, "rank 9 on gpu002: 1 wrong results"),
        (shorter, "off: rank 0 on gpu001 tells of"),
    ],
)
def test_what_does_not_show_a_gain_fails(plan: Plan, healthy: Ranks, spoil: Callable[[Ranks], None], said: str) -> None:
    ranks = copy.deepcopy(healthy)
    spoil(ranks)
    assert [problem for problem in sharp.judge(plan, ranks).problems if said in problem]


def test_a_sweep_that_is_missing_cannot_be_judged(plan: Plan, healthy: Ranks) -> None:
    with pytest.raises(UnreadableAnswer, match="ranks measured with reduction off"):
        sharp.judge(plan, of("on", healthy))


def test_both_sweeps_are_one_job_that_measures_the_largest_all_reduce(plan: Plan) -> None:
    controller = Controller()
    jobs.sweep_in_network(plan, Slurm(cast(SshHost, controller), {}))
    ((_, script),) = controller.submitted
    assert script.count("--operations all_reduce ") == script.count("--spans whole --in-network") == 2
    assert script.index("--in-network on") < script.index("--in-network off")
    assert "MASTER_PORT=29500" in script
    assert "MASTER_PORT=29501" in script
    assert script.index("--in-network off") < len(script) - len("--in-network off")


NCCL_LOG = """gpu001:7:9 [0] NCCL INFO NET/Plugin: Loaded collnet plugin SHARP (v8)
gpu001:7:9 [0] NCCL INFO CollNet 00/0 : 0 [receive] via COLLNET/SHARP/0/GDRDMA
gpu001:7:9 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA
gpu001:7:9 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
gpu001:7:9 [0] NCCL INFO AllReduce: 8589934592 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{Lo..Hi}={0..15}
gpu001:7:9 [0] NCCL INFO AllReduce: 8589934592 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}
gpu001:7:9 [0] NCCL INFO AllGather: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
"""
"""Modelled after the messages in NCCL's plugin/net/net_v8.cc, transport/coll_net.cc and enqueue.cc."""


@pytest.mark.needs("torch")
def test_reduction_in_the_switches_is_read_from_nccls_log() -> None:
    from validation.workloads import collectives

    assert collectives.in_network(NCCL_LOG, "on") == {
        "asked": "on",
        "plugin": "SHARP",
        "channels": 2,
        "algorithms": {"4": ["TREE"], "8589934592": ["COLLNET_DIRECT", "NVLS"]},
    }
    assert collectives.in_network("", "off") == {"asked": "off", "plugin": "", "channels": 0, "algorithms": {}}


def test_what_ranks_tell_of_it_is_typed() -> None:
    ((text, *_), *_) = swept_in_network(["gpu001"]).values()
    told = json.loads(text)
    told["in_network"]["channels"] = "many"
    with pytest.raises(UnreadableAnswer, match="channels"):
        sweeps.ranks_of({"gpu001": [json.dumps(told)]})
