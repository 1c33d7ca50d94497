"""Torch jobs of shipped sites: what they ask Slurm for, what each rank is told, and what their evidence says of it."""

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from capacity.model import Plan
from inventory.paths import repo_root
from inventory.site import Site, load_site
from inventory.site.sections.acceptance import Limit as SiteLimit
from network.drivers.ssh import Completed, SshHost
from tests.plans import plan_of
from tests.validation.bench import FROZEN, MADE_BY, NOW, RESTS_ON, SmallPlan, halves, numbers, proven, rests_on
from tests.validation.bench import judged_alone as judge
from tests.validation.recordings import made
from validation.checks import conftest as jobs
from validation.checks import test_training as training_checks
from validation.checks.test_burn_in import test_gpu_burn_in_ends_without_fault as burn_in_check
from validation.checks.test_gpus import test_nccl_joins_the_gpus_of_a_node_over_nvlink as nccl_check
from validation.checks.test_scheduler import test_collectives_over_all_gpu_nodes as collectives_check
from validation.collectives import links_of
from validation.evidence import Record
from validation.evidence.record import WORKLOAD, from_statement, to_statement
from validation.evidence.store import Contents, Entry, KeyOwner
from validation.facts import Answer, Facts, node_results
from validation.facts.node_results import Kept
from validation.register import Register
from validation.runners import collectives, slurm, training
from validation.runners.burn_in import BurnIn
from validation.runners.engine import Job, Launch, Load, Ran, workload_of
from validation.runners.nccl_tests import parsed
from validation.runners.slurm import Slurm

H100_NODES, H100_GPUS = 1000, 8
SHIPPED_RANKS = {"h100-1000-ib": 8, "b200-256-roce": 8, "gb300-nvl72-liquid": 4}


class Controller:
    """A slurmctld that takes every job, completes it at once, and keeps sbatch's options and the scripts."""

    name = "ctl01"

    def __init__(self) -> None:
        self.submitted: list[tuple[list[str], str]] = []

    def run(self, command: Any, *, stdin: bytes = b"", check: bool = True) -> Completed:
        words = shlex.split(command) if isinstance(command, str) else list(command)
        if words[0] == "sbatch":
            self.submitted.append((words, stdin.decode()))
            return Completed(0, "7\n", "", 0.0)
        return Completed(0, "JobId=7 JobState=COMPLETED NodeList=gpu0001 BatchHost=none\n", "", 0.0)


@pytest.fixture(scope="module")
def h100() -> Plan:
    return plan_of("h100-1000-ib")


@pytest.fixture(scope="module")
def lab() -> Plan:
    return plan_of("lab")


def scheduler_of(controller: Controller) -> Slurm:
    """A Slurm whose controller is the one in memory, which has what Slurm asks of an SshHost."""
    return Slurm(cast(SshHost, controller), {})


def submitted(plan: Plan, job: Any) -> tuple[list[str], str]:
    controller = Controller()
    job(plan, scheduler_of(controller))
    ((words, script),) = controller.submitted
    return words, script


def test_a_job_on_gpus_asks_for_all_of_them_and_one_rank_each(h100: Plan) -> None:
    words, script = submitted(h100, jobs.sweep_collectives)
    assert {f"--nodes={H100_NODES}", "--gpus-per-node=8", "--ntasks-per-node=8", "--cpus-per-task=14"} <= set(words)
    assert "--computes-on gpu" in script
    assert "--cpu-bind=cores" in script


@pytest.mark.parametrize(
    "said",
    [
        b'{"ranks": ',
        b'{"rate": NaN}',
        b'{"count": 36893488147419103232}',
        b"",
        b"[]",
        b'{"device": 7}',
        b'{"device": "cpu", "backend": "gloo", "world_size": 4, "ranks": [3], "rows": [], "duration_s": 1, "nodes": {"a": []}}',
    ],
)
def test_a_report_that_cannot_be_read_is_an_error_of_its_job(
    said: bytes, lab: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Job(7, "COMPLETED", "", "gpu001", "0:0", b"", 1.0)
    monkeypatch.setattr(Slurm, "wait", lambda *_, **__: done)
    kept = Kept(ranks={"gpu001": [said.decode()]})
    monkeypatch.setattr(node_results, "collect", lambda *_: kept)
    made_of = jobs.sweep_collectives(lab, scheduler_of(Controller()))
    assert made_of.report is None
    assert "gpu001: read what its ranks measured of the collectives" in made_of.error


def test_a_job_on_cpus_asks_for_one_rank_a_node_and_no_gpu(lab: Plan) -> None:
    words, script = submitted(lab, jobs.sweep_collectives)
    assert {"--nodes=4", "--ntasks-per-node=1"} <= set(words)
    assert not [word for word in words if "gpu" in word]
    assert "--computes-on cpu" in script


def test_the_training_job_asks_for_all_gpus_and_divides_its_batch(h100: Plan) -> None:
    training_limits = {key: limit for key, limit in load_site("lab").limits.items() if key.startswith("training_")}
    five = {"training_nodes": training_limits["training_nodes"].model_copy(update={"value": 5})}
    limits = {**h100.site.limits, **training_limits, **five}
    plan = dataclasses.replace(h100, site=h100.site.model_copy(update={"limits": limits}))
    controller = Controller()
    rehearsal = training.Rehearsal(plan, scheduler_of(controller), 5)
    rehearsal.start("undisturbed")
    ((words, script),) = controller.submitted
    assert {"--nodes=5", "--gpus-per-node=8", "--ntasks-per-node=8", "--requeue"} <= set(words)
    assert "--batch 40\n" in script
    assert training.batch_of(plan) % (5 * H100_GPUS) == 0


def test_the_training_on_one_gpu_asks_for_one_and_that_of_a_leaf_group_for_its_nodes(h100: Plan) -> None:
    controller = Controller()
    rehearsal = training.Rehearsal(h100, scheduler_of(controller), 4)
    for run in ("gpu", "leaf"):
        rehearsal.start(run)
    ((one, script), (leaf, _)) = controller.submitted
    assert {"--nodes=1", "--gpus-per-node=1", "--ntasks-per-node=1"} <= set(one)
    assert "--batch 4\n" in script
    assert {"--nodes=32", "--gpus-per-node=8"} <= set(leaf)
    (nodes,) = (word.removeprefix("--nodelist=").split(",") for word in leaf if word.startswith("--nodelist="))
    assert len(nodes) == 32


@pytest.mark.parametrize("site", SHIPPED_RANKS)
def test_every_shipped_site_but_the_lab_computes_on_gpus(site: str) -> None:
    workload = workload_of(plan_of(site))
    assert (workload.computes_on, workload.ranks_per_node) == ("gpu", SHIPPED_RANKS[site])
    assert workload.cores_per_rank > 0


FAKES = {
    "scontrol": 'printf "gpu0001\\ngpu0002\\n"',
    "sbcast": 'cp "$2" "$3"',
    "srun": """
tasks=1; while [ "${1#--}" != "$1" ]; do case "$1" in --ntasks=*) tasks=${1#--ntasks=};; esac; shift; done
export SLURM_NTASKS=$tasks
for SLURM_PROCID in $(seq 0 $((tasks - 1))); do
  export SLURM_PROCID SLURM_LOCALID=$((SLURM_PROCID % 8)); "$@" || exit
done""",
}
PROGRAM = """import json, os, sys
print(json.dumps({key: os.environ[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
                 | {"arguments": sys.argv[1:]}))
"""


def test_each_rank_is_told_its_number_its_gpu_and_the_first_node(
    h100: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch script of two nodes runs, with Slurm's commands played by shell scripts."""
    monkeypatch.setattr(slurm, "PYTHON", sys.executable)
    (tmp_path / "program.py").write_text(PROGRAM)
    launch = Launch(("--label", "two words"))
    script = slurm.script_of(Load("a-load", 2, workload_of(h100), tmp_path / "program.py", (launch,), limit_min=1))
    for name, text in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_JOB_ID": f"t{os.getpid()}",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "gpu[0001-0002]",
    }
    done = subprocess.run(
        ["bash"], input=script, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    ranks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(int(r["RANK"]), int(r["LOCAL_RANK"])) for r in ranks] == [(n, n % 8) for n in range(16)]
    assert {(r["WORLD_SIZE"], r["MASTER_ADDR"], r["MASTER_PORT"]) for r in ranks} == {("16", "gpu0001", "29500")}
    assert ranks[0]["arguments"] == ["--computes-on", "gpu", "--label", "two words"]
    assert not Path(f"/var/tmp/bringup-t{os.getpid()}.py").exists()


def row(
    operation: str, busbw_gb_s: float, ranks: int = 8000, span: str = "whole", group: str = "whole"
) -> dict[str, Any]:
    """A row of the sweep; no GPU was there: the figures are made up."""
    factor = 2 * (ranks - 1) / ranks if operation == "all_reduce" else 1.0
    speeds = {"algbw_mb_s": busbw_gb_s * 1e3 / factor, "busbw_mb_s": busbw_gb_s * 1e3}
    place = {"span": span, "group": group, "type": "float32", "operation": operation, "size_b": 1 << 30, "ranks": ranks}
    return {**place, **speeds, "time_us": 1.0, "slowest_rank": 17, "wrong_ranks": [], "correct": True}


# ---- judgement -------------------------------------------------------------------------------------------------------
def sweep(plan: Plan, device: str, backend: str, ranks: int) -> jobs.Sweep:
    hosts = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    on_gpus = device != "cpu"
    each = [
        {"rank": n, "host": hosts[n * len(hosts) // ranks], "device": device, "uuid": f"GPU-{n}" if on_gpus else ""}
        for n in range(ranks)
    ]
    rows = [row("all_reduce", 390.0, ranks), row("send_recv", 48.0, ranks)]
    report = {"device": device, "backend": backend, "world_size": ranks, "ranks": each, "rows": rows}
    return jobs.Sweep(Job(7, "COMPLETED", "", "", "0:0", b"{}", 1.0), report, "")


@pytest.mark.parametrize(
    ("device", "backend", "ranks", "said"),
    [
        ("NVIDIA H100 80GB HBM3", "nccl", 8000, ""),
        ("cpu", "gloo", 8000, "computed on cpu, site validation.workloads_on is gpu"),
        ("NVIDIA H100 80GB HBM3", "gloo", 8000, "the ranks talked over gloo, expected nccl"),
        ("NVIDIA H100 80GB HBM3", "nccl", 1000, "1000 ranks, expected 8000"),
    ],
)
def test_collectives_of_a_gpu_site_pass_on_all_its_gpus_only(
    h100: Plan, device: str, backend: str, ranks: int, said: str
) -> None:
    outcome = collectives_check(h100.site.name, h100, Facts(), sweep(h100, device, backend, ranks))
    assert outcome.passed is (not said)
    assert said in outcome.detail
    assert outcome.configuration[WORKLOAD]["ranks"] == ranks


def cpu_on_one(each: list[dict[str, Any]]) -> None:
    each[17] |= {"device": "cpu", "uuid": ""}


def one_gpu_twice(each: list[dict[str, Any]]) -> None:
    each[17]["uuid"] = each[16]["uuid"]


def one_silent(each: list[dict[str, Any]]) -> None:
    del each[17]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cpu_on_one, "rank 17 on gpu0003 computed on cpu, site validation.workloads_on is gpu"),
        (one_gpu_twice, "rank 16 on gpu0003 and rank 17 on gpu0003 computed on the same GPU GPU-16"),
        (one_silent, "7999 of 8000 ranks said on what they computed"),
    ],
)
def test_each_rank_must_have_computed_on_a_gpu_of_its_own(h100: Plan, harm: Any, said: str) -> None:
    made_of = sweep(h100, "NVIDIA H100 80GB HBM3", "nccl", 8000)
    assert made_of.report is not None
    harm(made_of.report["ranks"])
    outcome = collectives_check(h100.site.name, h100, Facts(), made_of)
    assert not outcome.passed
    assert said in outcome.detail


def gpus_of(node: str) -> Facts:
    """Facts of a node whose GPU of rank 17 is in slot 2."""
    gpu = {"uuid": "GPU-17", "name": "NVIDIA H100 80GB HBM3", "module_id": 2, "serial": "S17", "error": ""}
    return Facts(nodes={node: Answer(node, "ssh", data={"gpus": {"devices": [gpu], "driver": "550", "error": ""}})})


def with_limit(plan: Plan, pct: float) -> Plan:
    limit = plan.site.limits["burn_in_power_pct"].model_copy(update={"value": pct})
    limits = {**plan.site.limits, "collectives_busbw_pct": limit}
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": limits}))


def without_limit(plan: Plan) -> Plan:
    limits = {name: limit for name, limit in plan.site.limits.items() if name != "collectives_busbw_pct"}
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": limits}))


def judged(plan: Plan, *rows: dict[str, Any]) -> Any:
    made_of = sweep(plan, "NVIDIA H100 80GB HBM3", "nccl", 8000)
    assert made_of.report is not None
    made_of.report["rows"] = list(rows)
    return collectives_check(plan.site.name, plan, gpus_of("gpu0003"), made_of)


def test_wrong_results_are_named_with_node_slot_and_serial(h100: Plan) -> None:
    wrong = {**row("all_gather", 300.0), "wrong_ranks": [17], "correct": False}
    outcome = judged(h100, row("all_reduce", 390.0), wrong)
    assert not outcome.passed
    assert outcome.detail == (
        "gpu0003 slot 2, serial S17: 1 wrong results, first all_gather float32 1073741824 B (whole)"
    )


def test_the_links_of_the_plan_give_the_ceilings_that_evidence_shows(h100: Plan) -> None:
    outcome = judged(without_limit(h100), row("all_reduce", 390.0), row("send_recv", 48.0))
    assert outcome.passed, outcome.detail
    assert outcome.value["links"] == {"domains": 1000, "gpus": 8, "nic_gb_s": 50.0, "nvlink_gb_s": 450.0}
    reduce, send = outcome.value["expected"]
    assert (reduce["busbw_gb_s"], reduce["ceilings"]["ring"]) == (390.0, {"busbw_gb_s": 400.0, "bound_by": "NICs"})
    assert send["ceilings"]["ring"]["busbw_gb_s"] == 50.0
    assert "bus bandwidth not judged: limits.collectives_busbw_pct is not set" in outcome.detail
    assert "nccl-tests not installed" in outcome.detail


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((row("all_reduce", 390.0), row("send_recv", 48.0)), ""),
        (
            (row("all_reduce", 300.0), row("send_recv", 48.0)),
            "all_reduce reaches 300.0 GB/s, 85 % of a ring's 400.0 GB/s",
        ),
        (
            (row("all_reduce", 390.0), row("send_recv", 25.0)),
            "send_recv reaches 25.0 GB/s, 85 % of a ring's 50.0 GB/s (NICs) are 42.5 GB/s, slowest at gpu0003 slot 2, serial S17",
        ),
        ((row("all_reduce", 700.0),), "all_reduce reaches 700.0 GB/s and the planned NICs allow 400.4 GB/s"),
        (
            (row("all_reduce", 390.0), row("all_reduce", 300.0, 8, "node", "gpu0003")),
            "all_reduce in gpu0003 reaches 300.0 GB/s, 85 % of a ring's 480.0 GB/s (NVLink) are 408.0 GB/s, slowest at gpu0003 ",
        ),
        (
            (row("all_reduce", 390.0), row("all_reduce", 250.0, 256, "leaf", "leaf group 3")),
            "all_reduce in leaf group 3 reaches 250.0 GB/s, 85 % of a ring's 400.0 GB/s",
        ),
        ((row("all_reduce", 390.0), row("all_reduce", 470.0, 8, "node", "gpu0003")), ""),
        ((row("send_recv", 48.0),), "no all-reduce over the whole job was measured"),
    ],
)
def test_bus_bandwidth_is_judged_by_what_the_planned_links_allow(
    h100: Plan, rows: tuple[dict[str, Any], ...], said: str
) -> None:
    outcome = judged(with_limit(h100, 85.0), *rows)
    assert outcome.passed is (not said)
    assert said in outcome.detail


def test_the_trays_of_an_nvl72_are_one_nvlink_domain() -> None:
    plan = plan_of("gb300-nvl72-liquid")
    links = links_of(plan)
    assert links is not None
    assert links.gpus == 72
    assert links.domains == int(plan.devices.loc[plan.devices["role"] == "gpu", "nvlink_domain"].nunique())


def test_wrong_values_of_nccl_tests_fail_the_sweep(h100: Plan) -> None:
    table = (repo_root() / "tests/data/modelled/nccl-tests/all_reduce_gb200_72.txt").read_text()
    made_of = sweep(h100, "NVIDIA H100 80GB HBM3", "nccl", 8000)
    for text, said in (
        (table, ""),
        (table.replace("834.57      0", "834.57      3"), "nccl-tests count 3 wrong values"),
    ):
        seen = dataclasses.replace(made_of, nccl_tests=parsed(text))
        outcome = collectives_check(h100.site.name, h100, Facts(), seen)
        assert outcome.passed is (not said)
        assert said in outcome.detail


def test_the_sweep_spans_node_leaf_group_and_whole_and_tries_nccl_tests(h100: Plan, lab: Plan) -> None:
    _, script = submitted(h100, jobs.sweep_collectives)
    assert "--spans node,leaf,whole" in script
    assert "all_reduce_perf --minbytes 8 --maxbytes 8589934592" in script
    assert [len(names) for names in collectives.leaves_of(h100)] == [32] * 31 + [8]
    assert "all_reduce_perf" not in submitted(lab, jobs.sweep_collectives)[1]


def test_the_labs_collectives_pass_on_cpus_and_the_evidence_names_it(lab: Plan) -> None:
    outcome = collectives_check("lab", lab, Facts(), sweep(lab, "cpu", "gloo", 4))
    assert outcome.passed, outcome.detail
    assert outcome.configuration == {WORKLOAD: {"workloads_on": "cpu", "device": "cpu", "backend": "gloo", "ranks": 4}}


@pytest.mark.parametrize(("site", "device", "passes"), [("lab", "cpu", True), ("lab", "NVIDIA H100", False)])
def test_training_counts_where_the_site_says_that_it_computes(site: str, device: str, passes: bool, lab: Plan) -> None:
    recording = made()
    for run in recording.metrics.values():
        for events in run.values():
            events[0]["device"] = device
    outcome = training_checks.test_training_loss_reaches_its_target_at_each_scale(site, lab, recording, Facts())
    assert outcome.passed is passes
    assert ("site validation.workloads_on is cpu" in outcome.detail) is not passes
    assert outcome.configuration[WORKLOAD]["device"] == device


def test_a_burn_in_on_cpus_fails_on_a_site_with_gpus(h100: Plan) -> None:
    products = {"rounds": 9, "wrong_products": 0, "digest": "", "first_gflops": 1.0, "last_gflops": 1.0}
    memory = {"total_b": 8, "tested_b": 8, "sets": 1, "patterns": {}, "first_wrong": None}
    rank = {"rank": 0, "device": "cpu", "uuid": "", "rounds": 9, "wrong_products": 0, "wrong_words": 0, "error": ""}
    rank |= {"memory": memory, "precisions": {"fp32": products}, "not_supported": []}
    node = {"ranks": [rank], "gpus": [], "xids": [], "telemetry_error": ""}
    name = str(h100.devices.loc[h100.devices["role"] == "gpu", "name"].iloc[0])
    report = {"nodes": {name: {**node, "device": "cpu", "duration_s": 80 * 3600}}}
    job = BurnIn({name: 7}, report, {}, {name: 1.0})
    silent = {"devices": [], "count": 0, "driver": "550", "error": "", "xids": []}
    facts = Facts(nodes={name: Answer(name, "ssh", data={"gpus": silent})})
    outcome = burn_in_check(name, h100, facts, job)
    assert not outcome.passed
    assert "computed on cpu, site validation.workloads_on is gpu" in outcome.detail
    assert "1 ranks loaded the node, expected 8" in outcome.detail


def test_the_configuration_survives_the_log() -> None:
    record = Record(
        step="S066",
        kind="measured",
        subject="lab",
        result="PASSED",
        started=NOW,
        ended=NOW,
        tool="t",
        tool_version="1",
        configuration=Ran("cpu", "gloo", 4).configuration(),
        inputs={"site.fabric": "ab" * 32},
    )
    again, _ = from_statement(json.loads(json.dumps(to_statement(record))))
    assert again.configuration == record.configuration
    assert again.inputs == record.inputs


@pytest.mark.parametrize(
    ("ran", "status"), [(Ran("NVIDIA H100", "nccl", 16), "pass"), (Ran("cpu", "gloo", 2), "unproven")]
)
def test_a_workload_on_cpus_never_counts_at_go_live(
    register: Register, real_site: Site, signer: Any, people: Any, ran: Ran, status: str
) -> None:
    plan, now = SmallPlan(real_site), datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
    record = Record(
        step="S066",
        kind="measured",
        subject="lab",
        result="PASSED",
        started=now,
        ended=now,
        tool="t",
        tool_version="1",
        configuration={**ran.configuration(), **MADE_BY, **rests_on("lab", proven("gpu001"))},
        identities=proven("gpu001"),
        inputs=RESTS_ON,
        **numbers(register.items["S066.measured"], plan.site),
    )
    entry = Entry(record, frozenset({signer.public_key.keyid}), 1, "real")
    approvers = [people[role].public_key.keyid for role in ("approver", "second approver")]
    owners = {key: KeyOwner("approver", key) for key in approvers}
    owners[signer.public_key.keyid] = KeyOwner("collector", "collector")
    contents = Contents((entry,), halves(FROZEN, *approvers), owners=owners)
    verdict = judge(register, plan, contents, (), now)
    (item,) = [item for item in verdict.items if item.item == "S066.measured"]
    assert item.status == status, item.detail


# ---- NCCL of one node ------------------------------------------------------------------------------------------------
NCCL_LOG = """gpu001:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
gpu001:7:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
gpu001:7:9 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
gpu001:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
gpu001:7:9 [0] NCCL INFO Connected all rings
"""
"""Modelled after the messages in NCCL's transport/p2p.cc, shm.cc and net.cc; no GPU was there to record."""


def on_node(h100: Plan, told: dict[str, Any] | None, limit: bool = True) -> Any:
    """S151.measured of the first node of a sweep over all GPUs, whose node report is `told`."""
    done = sweep(h100, "NVIDIA H100 80GB HBM3", "nccl", 8000)
    assert done.report is not None
    name = done.report["ranks"][0]["host"]
    done.report["nodes"] = {name: told} if told else {}
    limits = {**h100.site.limits, "collectives_busbw_pct": SiteLimit(value=80, unit="%", source="of the test")}
    plan = (
        dataclasses.replace(h100, site=h100.site.model_copy(update={"limits": limits}))
        if limit
        else without_limit(h100)
    )
    facts = Facts(nodes={name: Answer(name, "ssh", data={"gpus": {"devices": [], "error": "", "error_kind": ""}})})
    return nccl_check(name, plan, facts, done)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"busbw_mb_s": 470000.0, "transports": {"P2P": 384, "NET/IB": 64}}, ""),
        (
            {"busbw_mb_s": 200000.0, "transports": {"P2P": 384}},
            "reaches 200.0 GB/s, 80 % of NVLink's 480.0 GB/s are 384.0 GB/s",
        ),
        ({"busbw_mb_s": 470000.0, "transports": {"NET/IB": 64}}, "connected the GPUs over NET/IB and not over NVLink"),
        ({"busbw_mb_s": 470000.0, "transports": {"P2P": 8, "SHM": 2}}, "2 channels run over host memory"),
        ({"busbw_mb_s": 470000.0, "transports": {"P2P": 8, "NET/Socket": 4}}, "4 channels run over sockets"),
        ({"busbw_mb_s": 470000.0, "transports": {}}, "does not say over what"),
        ({"busbw_mb_s": None, "transports": {"P2P": 8}}, "no all-reduce of the node's own GPUs"),
        (None, "no all-reduce of the node's own GPUs"),
    ],
)
def test_nccl_of_a_node_must_use_nvlink_and_reach_its_part_of_it(
    told: dict[str, Any] | None, said: str, h100: Plan
) -> None:
    outcome = on_node(h100, told)
    assert outcome.passed is (not said), outcome.detail
    assert said in outcome.detail


def test_without_a_limit_what_a_node_must_reach_is_not_known(h100: Plan) -> None:
    outcome = on_node(h100, {"busbw_mb_s": 470000.0, "transports": {"P2P": 8}}, limit=False)
    assert not outcome.passed
    assert "limits.collectives_busbw_pct is not set" in outcome.detail


@pytest.mark.needs("torch")
def test_transports_are_counted_from_nccls_log() -> None:
    from validation.workloads import collectives

    assert collectives.transports(NCCL_LOG) == {"P2P": 2, "SHM": 1, "NET/IB": 1}
