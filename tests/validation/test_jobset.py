"""Loads as JobSets, and the program of their pods: what each pod is given, and how it starts its ranks."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.services.platform import design
from capacity.services.platform.sharing import GPU_RESOURCE
from capacity.services.platform.topology import OUT_OF_SERVICE
from inventory.site.sections.software import LOADS
from tests.plans import plan_of
from validation.evidence.results import Place as Store
from validation.facts.node_results import Run
from validation.runners import jobset
from validation.runners.engine import Beside, Launch, Load, Workload
from validation.runners.jobset import COUNT, JOB, RUN, Place

pytestmark = pytest.mark.clock

NODES = {"gpu001": "10.0.0.1", "gpu002": "10.0.0.2", "gpu003": "10.0.0.3"}
CPU, GPU = Workload("cpu", 1), Workload("gpu", 8, 14)
PROGRAM = """
import json, os, sys
keys = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
said = {key: os.environ[key] for key in keys} | {"cpus": len(os.sched_getaffinity(0)), "arguments": sys.argv[1:]}
folder = os.path.expandvars(sys.argv[sys.argv.index("--results") + 1])
os.makedirs(folder, exist_ok=True)
print("rank", os.environ["RANK"], flush=True)
with open(f"{folder}/rank-{os.environ['RANK']}.json", "w") as file:
    json.dump(said, file)
"""


def load(workload: Workload = CPU, nodes: int = 3, *, program: Path | str = "/shared/training.py", **more: Any) -> Load:
    arguments = ("--results", "/var/tmp/bringup-x-{job}")
    return Load("bringup-x", nodes, workload, program, (Launch(arguments),), limit_min=7, **more)


def place(**more: Any) -> Place:
    given_: dict[str, Any] = {
        "number": 123456789,
        "run": "bringup-abc",
        "candidates": NODES,
        "image": "docker.io/lab/pause:1",
        "priority": "experimentation",
    }
    return Place(**given_ | more)


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return found


def container_of(made: dict[str, Any]) -> dict[str, Any]:
    (one,) = pod_of(made)["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def order_of(made: dict[str, Any]) -> dict[str, Any]:
    """The order as the pod's program reads it, after what Kubernetes does to a command."""
    found: dict[str, Any] = json.loads(expanded(container_of(made)["command"][3]))
    return found


def expanded(text: str) -> str:
    """A word of a command as the kubelet passes it on, without variables
    (k8s.io/kubernetes 1.36.3, third_party/forked/golang/expansion)."""
    return re.sub(r"\$\$|\$\(([^)]*)\)", lambda found: "$" if found[0] == "$$" else f"<{found[1]}>", text)


def test_one_indexed_job_has_a_pod_on_each_node_and_starts_anew_as_a_whole() -> None:
    made = jobset.jobset(load(again=True), place())
    (replicated,) = made["spec"]["replicatedJobs"]
    job = replicated["template"]["spec"]
    assert (job["completionMode"], job["parallelism"], job["completions"], job["backoffLimit"]) == ("Indexed", 3, 3, 0)
    assert made["spec"]["failurePolicy"]["maxRestarts"] > 0
    assert made["metadata"]["namespace"] == LOADS
    assert made["metadata"]["labels"] == {RUN: "bringup-abc", JOB: "123456789", COUNT: "3"}


@pytest.mark.parametrize("again", [False, None])
def test_a_load_that_may_not_start_anew_has_no_restart(again: bool | None) -> None:
    assert jobset.jobset(load(again=again), place())["spec"]["failurePolicy"]["maxRestarts"] == 0


def test_pods_on_gpus_get_all_of_a_node_and_its_rdma_devices_and_pods_on_cpus_neither() -> None:
    gpu, cpu = (container_of(jobset.jobset(load(workload), place())) for workload in (GPU, CPU))
    assert gpu["resources"]["limits"] == {GPU_RESOURCE: "8"}
    assert gpu["securityContext"]["privileged"]
    assert "resources" not in cpu
    assert not cpu["securityContext"]["privileged"]
    assert {"/etc/nccl.conf", "/etc/libibverbs.d"} <= {one["mountPath"] for one in gpu["volumeMounts"]}


def test_of_the_node_a_pod_may_write_where_results_are_kept_and_on_shared_storage_alone() -> None:
    made = jobset.jobset(load(folders=("/shared",)), place())
    volumes = {one["name"]: one for one in pod_of(made)["spec"]["volumes"]}
    written = {
        one["mountPath"]
        for one in container_of(made)["volumeMounts"]
        if not one.get("readOnly") and "hostPath" in volumes[one["name"]]
    }
    assert written == {"/var/tmp", "/shared"}


def test_the_host_key_is_mounted_only_where_nodes_sign() -> None:
    for signed in (True, False):
        run = Run(Store("lab", "store"), "x-1", "nonce", signed)
        made = jobset.jobset(load(results="/var/tmp/bringup-x-{job}", run=run), place())
        paths = {one["mountPath"]: one for one in container_of(made)["volumeMounts"]}
        assert ("/etc/ssh/ssh_host_ed25519_key" in paths) is signed
        assert bool(order_of(made)["sign"]) is signed
        if signed:
            assert paths["/etc/ssh/ssh_host_ed25519_key"]["readOnly"]


def test_each_load_has_its_nodes_for_itself() -> None:
    spec = pod_of(jobset.jobset(load(), place()))["spec"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == list(NODES)
    (apart,) = spec["affinity"]["podAntiAffinity"][required]
    (selected,) = apart["labelSelector"]["matchExpressions"]
    assert selected["key"] in pod_of(jobset.jobset(load(), place()))["metadata"]["labels"]


def test_only_loads_of_nodes_out_of_service_run_there() -> None:
    drained = pod_of(jobset.jobset(load(nodes=1), place(drained=True)))["spec"]
    assert {one["key"] for one in drained["tolerations"]} == {OUT_OF_SERVICE, "node.kubernetes.io/unschedulable"}
    assert "tolerations" not in pod_of(jobset.jobset(load(), place()))["spec"]


def test_ranks_follow_the_plan_where_every_candidate_gets_a_pod() -> None:
    told = order_of(jobset.jobset(load(), place()))
    assert (told["nodes"], told["master"], told["count"]) == (list(NODES), "10.0.0.1", 3)


def test_ranks_follow_the_job_and_meet_at_a_service_where_a_node_is_spare() -> None:
    some = load(nodes=2)
    assert jobset.needs_rendezvous(some, NODES)
    told = order_of(jobset.jobset(some, place(rendezvous="10.96.1.2")))
    assert (told["nodes"], told["master"], told["count"]) == ([], "10.96.1.2", 2)
    made = jobset.service(5, "bringup-abc", [29500])
    labels = pod_of(jobset.jobset(some, place(number=5)))["metadata"]["labels"]
    assert made["spec"]["selector"].items() - labels.items() == {(jobset.INDEX, "0")}  # the Job adds this one


@given(st.text(max_size=60), st.integers(1, 8))
def test_arguments_reach_the_ranks_as_they_are(text: str, ranks: int) -> None:
    text = text.replace("{job}", "")
    some = Load("x", 1, Workload("gpu", ranks), "/shared/a b.py", (Launch(("--label", text)),), limit_min=1)
    told = order_of(jobset.jobset(some, place()))
    assert told["launches"][0]["arguments"] == ["--computes-on", "gpu", "--label", text]
    assert (told["program"], told["ranks"]) == ("/shared/a b.py", ranks)


def test_the_largest_shipped_site_fits_the_command_line_of_a_container() -> None:
    plan = plan_of("h100-1000-ib")
    names = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    program = Path(jobset.__file__).parent.parent / "workloads" / "collectives.py"
    some = Load("x", 1000, GPU, program, (Launch(("--leaf", " ".join(names))),), limit_min=1)
    candidates = {name: f"10.0.{number // 250}.{number % 250}" for number, name in enumerate(names)}
    words = container_of(jobset.jobset(some, place(candidates=candidates)))["command"]
    # MAX_ARG_STRLEN of Linux: 32 pages (execve(2))
    assert max(len(word) for word in words) < 32 * 4096


def test_nobody_but_administrators_starts_pods_in_the_namespace_of_loads() -> None:
    objects = design(plan_of("lab-kubernetes")).objects
    (space,) = [one for one in objects if (one.kind, one.name) == ("Namespace", LOADS)]
    assert dict(space.labels)["pod-security.kubernetes.io/enforce"] == "privileged"
    assert {one.kind for one in objects if one.namespace == LOADS} == {"NetworkPolicy", "LocalQueue"}
    for one in objects:
        if one.kind == "Namespace" and one.name != LOADS:
            assert dict(one.labels)["pod-security.kubernetes.io/enforce"] == "baseline"


# ---- the program of a pod ---------------------------------------------------------------------------------------------
def given_to(order: dict[str, Any], tmp_path: Path, node: str, index: int) -> tuple[list[str], dict[str, str]]:
    told = {**order, "python": sys.executable, "output": str(tmp_path / "out-{job}")}
    text = json.dumps(told).replace("/var/tmp/", f"{tmp_path}/")
    environment = {
        "PATH": os.environ["PATH"],
        "NODE": node,
        "HOST_IP": f"10.0.0.{index + 1}",
        "JOB_COMPLETION_INDEX": str(index),
        "BRINGUP_JOB": "7",
    }
    return [sys.executable, str(jobset.POD), text], environment


def ran(order: dict[str, Any], tmp_path: Path, node: str, index: int = 0) -> subprocess.CompletedProcess[str]:
    command, environment = given_to(order, tmp_path, node, index)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def local_order(tmp_path: Path, program: str, workload: Workload = CPU, nodes: int = 3, **more: Any) -> dict[str, Any]:
    file = tmp_path / "program.py"
    file.write_text(program)
    return order_of(jobset.jobset(load(workload, nodes, program=str(file), **more), place(rendezvous="10.96.1.2")))


def test_each_rank_is_told_its_number_and_where_the_ranks_meet(tmp_path: Path) -> None:
    order = local_order(tmp_path, PROGRAM, Workload("cpu", 2))
    for node in ("gpu002", "gpu001"):
        done = ran(order, tmp_path, node, index=list(NODES).index(node))
        assert done.returncode == 0, done.stderr
    kept = {path.name: json.loads(path.read_text()) for path in (tmp_path / "bringup-x-7").iterdir()}
    assert sorted(kept) == [f"rank-{number}.json" for number in range(4)]
    third = kept["rank-2.json"]
    assert (third["LOCAL_RANK"], third["WORLD_SIZE"], third["MASTER_ADDR"], third["MASTER_PORT"]) == (
        *("0", "6"),
        *("10.0.0.1", "29500"),
    )
    assert third["arguments"] == ["--computes-on", "cpu", "--results", f"{tmp_path}/bringup-x-7"]
    assert sorted((tmp_path / "out-7").read_text().split("\n"))[1:] == [f"rank {number}" for number in range(4)]


def test_with_a_spare_node_the_index_counts_and_node_0_meets_the_others_at_its_own_address(tmp_path: Path) -> None:
    order = local_order(tmp_path, PROGRAM, nodes=2)
    assert ran(order, tmp_path, "gpu003", index=0).returncode == 0
    assert ran(order, tmp_path, "gpu001", index=1).returncode == 0
    met = [json.loads((tmp_path / "bringup-x-7" / f"rank-{n}.json").read_text())["MASTER_ADDR"] for n in (0, 1)]
    assert met == ["10.0.0.1", "10.96.1.2"]


def test_a_carried_program_runs(tmp_path: Path) -> None:
    file = tmp_path / "carried.py"
    file.write_text("print('carried $HOME {}')")
    order = order_of(jobset.jobset(load(nodes=1, program=file), place(candidates={"gpu001": "10.0.0.1"})))
    done = ran(order, tmp_path, "gpu001")
    assert (done.returncode, done.stdout) == (0, "carried $HOME {}\n")


def test_a_rank_that_fails_ends_the_others_and_gives_its_status(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\nif os.environ['LOCAL_RANK'] == '1':\n    sys.exit('rank 1 is broken')\ntime.sleep(600)\n"
    )
    began = time.monotonic()
    done = ran(local_order(tmp_path, program, Workload("cpu", 2)), tmp_path, "gpu001")
    assert (done.returncode, time.monotonic() - began < 60) == (1, True)
    assert "rank 1 is broken" in (tmp_path / "out-7").read_text()


def test_a_rank_that_is_killed_fails_the_pod(tmp_path: Path) -> None:
    done = ran(local_order(tmp_path, "import os; os.kill(os.getpid(), 9)"), tmp_path, "gpu001")
    assert done.returncode == 128 + signal.SIGKILL


def test_a_pod_that_is_ended_takes_its_ranks_with_it(tmp_path: Path) -> None:
    program = f"import os, time\nopen('{tmp_path}/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    command, environment = given_to(local_order(tmp_path, program), tmp_path, "gpu001", 0)
    with subprocess.Popen(command, env=environment) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_runs_beside_the_ranks_runs_on_node_0_alone_and_fails_nothing(tmp_path: Path) -> None:
    beside = Beside(("sh", "-c", "echo measured; exit 3"), 8, "/var/tmp/beside-{job}")
    order = local_order(tmp_path, PROGRAM, beside=beside)
    assert ran(order, tmp_path, "gpu002").returncode == 0
    assert not (tmp_path / "beside-7").exists()
    done = ran(order, tmp_path, "gpu001")
    assert (done.returncode, (tmp_path / "beside-7").read_text()) == (0, "measured\n")
    assert "sh failed: 3" in done.stdout
    absent = local_order(tmp_path, PROGRAM, beside=Beside(("no-such-program",), 8, "/var/tmp/absent"))
    assert ran(absent, tmp_path, "gpu001").returncode == 0


def test_each_rank_has_cores_of_its_own_where_the_node_has_enough(tmp_path: Path) -> None:
    cpus = len(os.sched_getaffinity(0))
    order = local_order(tmp_path, PROGRAM, Workload("gpu", 1, 10_000))
    assert ran(order, tmp_path, "gpu001").returncode == 0
    assert json.loads((tmp_path / "bringup-x-7" / "rank-0.json").read_text())["cpus"] == cpus
