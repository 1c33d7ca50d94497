"""Loads of validation as JobSets on a real control plane with JobSet's own controller.

No kubelet runs: kwok plays the nodes, so a pod that succeeds is its word. What API server, scheduler, Job and JobSet controllers do
is real.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from capacity.services.platform import design
from capacity.services.platform.tenancy import loads
from capacity.services.platform.topology import HOSTNAME
from infra.kube import local
from infra.kube.controllers import JOBSET, SIMULATED, beside
from infra.toolchain import control_plane, controllers
from inventory.site.sections.software import LOADS
from network.drivers.ssh import SshHost
from tests.plans import plan_of
from validation.facts import api_calls
from validation.runners import burn_in, kubernetes
from validation.runners.engine import Launch, Load, Sight, Workload
from validation.runners.jobset import Place, jobset
from validation.runners.kubernetes import Kubernetes

pytestmark = pytest.mark.platform

WAIT_S = 120.0
"""Until something happens: two cores that other tests share."""
ADDRESSES = {f"gpu00{n}": f"10.64.1.{n}" for n in (1, 2, 3, 4)}
KEEP_RUNNING = {"pod-complete.stage.kwok.x-k8s.io/delay": "1h"}
"""Annotation of a pod that kwok does not complete."""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A control plane with JobSet and four nodes of kwok, the namespace of loads and the site's tiers."""
    programs, made = control_plane.programs(), controllers.controllers()
    if programs is None or made is None:
        pytest.skip("no controllers in the cache: run make setup-controllers")
    folder = tmp_path_factory.mktemp("plane")
    with local.running(programs, folder) as plane, beside(plane, programs, made, folder / "beside", (JOBSET,)):
        command = [str(programs / "kubectl"), "--kubeconfig", str(plane.kubeconfig)]
        tiers = [one for one in design(plan_of("lab-kubernetes")).objects if one.kind == "PriorityClass"]
        nodes = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {HOSTNAME: name}, "annotations": SIMULATED},
            }
            for name in ADDRESSES
        ]
        objects = [*(one.manifest for one in (*loads(), *tiers)), *nodes]
        run([*command, "apply", "--server-side", "-f", "-"], yaml.safe_dump_all(objects))
        run([*command, "wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={WAIT_S:g}s"])
        images = json.dumps({"status": {"images": [{"names": ["docker.io/lab/pause:1"], "sizeBytes": 1}]}})
        for name in ADDRESSES:
            run([*command, "patch", "node", name, "--subresource=status", "--type=merge", "-p", images])
        run([*command, "wait", "-n", LOADS, "--for=create", "serviceaccount/default", f"--timeout={WAIT_S:g}s"])
        yield command


def run(command: Sequence[str], stdin: str = "") -> str:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=2 * WAIT_S, check=True).stdout


@pytest.fixture
def scheduler(kubectl: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """The runner, whose calls are made here instead of on a controller; it leaves nothing behind."""
    monkeypatch.setenv("PATH", f"{Path(kubectl[0]).parent}:{os.environ['PATH']}")

    def call(calls: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        plain = json.loads(json.dumps(list(calls)))
        return api_calls.main({"kubeconfig": kubectl[-1], "budget_s": 60.0, "calls": plain})

    made = Kubernetes(call, SshHost("ctl01", "127.0.0.1", cast(Any, None)), {}, ADDRESSES, "experimentation")
    yield made
    made.close()
    until(lambda: not run([*kubectl, "get", "jobsets,jobs,pods,services", "-n", LOADS, "-o", "name"]).strip())


def until(reached: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := reached()):
        assert time.monotonic() < end
        time.sleep(0.5)
    return found


def load(nodes: int, **more: Any) -> Load:
    return Load("bringup-x", nodes, Workload("cpu", 1), burn_in.PROGRAM, (Launch(("--a",)),), limit_min=10, **more)


def test_a_load_completes_one_pod_on_each_node_and_leaves_nothing(scheduler: Kubernetes, kubectl: list[str]) -> None:
    number = scheduler.begin(load(4))
    seen: Sight = until(lambda: (one := scheduler.look(number)).nodes and one)
    job = scheduler.wait(number, WAIT_S)
    assert (job.state, scheduler.names(job.nodes), seen.restarts) == ("COMPLETED", list(ADDRESSES), 0)
    until(lambda: not run([*kubectl, "get", "jobsets,services,pods", "-n", LOADS, "-o", "name"]).strip())


def test_a_node_that_is_given_up_restarts_the_set_as_a_whole_on_the_spare_one(
    scheduler: Kubernetes, kubectl: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(some: Load, place: Any) -> dict[str, Any]:
        made = jobset(some, place)
        made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]["annotations"] = KEEP_RUNNING
        return made

    monkeypatch.setattr(kubernetes, "jobset", kept)
    number = scheduler.begin(load(3, again=True))
    before: Sight = until(lambda: (one := scheduler.look(number)).state == "RUNNING" and one)
    (spare,) = set(ADDRESSES) - set(before.nodes)
    pods = run([*kubectl, "get", "pods", "-n", LOADS, "-o", "name"]).split()
    victim = next(name for name in before.nodes if name != before.first)
    scheduler.give_up(victim)
    after: Sight = until(lambda: (one := scheduler.look(number, victim)).restarts and one.state == "RUNNING" and one)
    scheduler.back(victim)
    assert (after.restarts, after.node) == (1, "DOWN+NOT_RESPONDING")
    assert set(after.nodes) == {*before.nodes, spare} - {victim}
    assert not set(pods) & set(run([*kubectl, "get", "pods", "-n", LOADS, "-o", "name"]).split())


def test_two_loads_never_share_a_node(scheduler: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = scheduler.begin(load(3)), scheduler.begin(load(1))
    seen = until(
        lambda: (one := scheduler.look(first)).nodes and (other := scheduler.look(second)).nodes and (one, other)
    )
    assert not set(seen[0].nodes) & set(seen[1].nodes)


def test_a_node_out_of_service_takes_loads_that_are_meant_for_it_alone(scheduler: Kubernetes) -> None:
    scheduler.drain_again("gpu002", "bringup: S026.measured: 7 of 8 GPUs are there")
    assert scheduler.drain("gpu002").drained
    ordinary = scheduler.begin(load(3))
    jobs = scheduler.begin_on_each(load(1), ["gpu002"], held="x")
    meant: Sight = until(lambda: (one := scheduler.look(jobs["gpu002"])).nodes and one)
    assert meant.nodes == ("gpu002",)
    others: Sight = until(lambda: (one := scheduler.look(ordinary)).nodes and one)
    assert "gpu002" not in others.nodes
    scheduler.resume("gpu002")
    assert scheduler.nodes()["gpu002"].ready


def test_a_pod_of_each_kind_of_site_is_taken_as_it_is(scheduler: Kubernetes, kubectl: list[str]) -> None:
    """JobSet's definition does not look into pods; the API server does, with Pod Security and strict fields."""
    for workload in (Workload("cpu", 1), Workload("gpu", 8, 14)):
        some = Load("x", 1, workload, burn_in.PROGRAM, (Launch(()),), limit_min=1, folders=("/shared",))
        place = Place(7, scheduler.run, {"gpu001": "10.64.1.1"}, "docker.io/lab/pause:1", "experimentation")
        template = jobset(some, place)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            **template,
            "metadata": {**template["metadata"], "name": "tried", "namespace": LOADS},
        }
        said = run(
            [*kubectl, "create", "--dry-run=server", "--validate=strict", "-f", "-", "-o", "name"], json.dumps(pod)
        )
        assert said == "pod/tried\n"
