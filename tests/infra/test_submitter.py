"""Who made a pod, as the API server writes it, with the real Kueue and JobSet.

The control plane, Kueue, JobSet and the platform's objects are real. Nodes and pods are kwok's: no container runs.
"""

import functools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import pytest

from capacity.services import telemetry
from capacity.services.platform import design
from capacity.services.platform.queues import LOCAL_QUEUE
from capacity.services.platform.submitter import USER
from infra.kube.trial import PAUSE, Trial, gang, lasting, trial
from infra.toolchain.control_plane import programs
from infra.toolchain.controllers import controllers
from tests.plans import plan_of
from tests.playbooks.support import load
from validation import kube_policy
from validation.facts import charged
from validation.facts.kube import path_of
from validation.facts.kueue import QUEUE
from validation.facts.shapes import Queried

pytestmark = [pytest.mark.platform, pytest.mark.needs("kueue")]

ACCOUNT, TIER = "vision", "training"
JOBS = f"/apis/batch/v1/namespaces/{ACCOUNT}/jobs"
PODS = f"/api/v1/namespaces/{ACCOUNT}/pods"
JOBSETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{ACCOUNT}/jobsets"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    kubernetes, made = programs(), controllers()
    assert kubernetes is not None
    assert made is not None
    with trial(plan_of("lab-kubernetes"), kubernetes, made, tmp_path_factory.mktemp("trial")) as one:
        # the API server reads new policies within a second, each by itself
        for path, body in ((PODS, a_pod("dry")), (JOBS, gang("dry", ACCOUNT, TIER, 1)), (JOBSETS, a_jobset("dry", ""))):
            one.wait(functools.partial(in_force, one, path, body), f"the policy of {path} is in force")
        yield one


def in_force(cluster: Trial, path: str, body: Mapping[str, Any]) -> bool:
    """Whether an object gets a user, as a dry run."""
    made = cluster.http.post(path, params={"dryRun": "All"}, json=body, headers={"Impersonate-User": "alice"})
    return bool(user_of(made.json()))


@pytest.fixture
def alice(cluster: Trial) -> Iterator[Any]:
    """Calls as a member of the account; what was made is deleted at the end."""
    made: list[str] = []

    def call(
        verb: str, path: str, body: Any, kind: Mapping[str, str] | None = None, user: str = "alice"
    ) -> httpx.Response:
        answer = cluster.http.request(verb, path, json=body, headers={"Impersonate-User": user, **(kind or {})})
        if verb == "POST" and answer.status_code == 201:
            made.append(f"{path}/{body['metadata']['name']}")
        return answer

    yield call
    for path in reversed(made):
        cluster.http.request("DELETE", path, json={"propagationPolicy": "Background", "gracePeriodSeconds": 0})
    cluster.wait(lambda: cluster.pods(ACCOUNT) == [], "no pod is left")


def user_of(one: Mapping[str, Any]) -> str | None:
    """The annotation of an object or of a pod template."""
    found: str | None = (one.get("metadata", {}).get("annotations") or {}).get(USER)
    return found


def a_pod(name: str, gpus: int = 1, **metadata: Any) -> dict[str, Any]:
    container = {"name": "a", "image": PAUSE, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"priorityClassName": TIER, "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def a_jobset(name: str, user: str) -> dict[str, Any]:
    """Two Jobs of one pod each with four GPUs; each template names a user."""
    templates = []
    for job in ("leader", "workers"):
        spec = lasting(gang(job, ACCOUNT, TIER, 1, gpus=4))["spec"]
        spec["template"]["metadata"]["annotations"][USER] = user
        templates.append({"name": job, "template": {"spec": {key: spec[key] for key in spec if key != "suspend"}}})
    metadata = {"name": name, "namespace": ACCOUNT, "labels": {QUEUE: LOCAL_QUEUE}, "annotations": {USER: user}}
    body = {"suspend": True, "replicatedJobs": templates}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": body}


def templates(jobset: Mapping[str, Any]) -> list[str | None]:
    return [user_of(one["template"]["spec"]["template"]) for one in jobset["spec"]["replicatedJobs"]]


@pytest.mark.parametrize("given", [{}, {"annotations": {USER: "bob", "kept": "yes"}}], ids=["none", "another"])
def test_a_pod_carries_the_user_who_made_it_whatever_it_names(given: dict[str, Any], alice: Any) -> None:
    made = alice("POST", PODS, a_pod("own", **given)).json()
    assert user_of(made) == "alice"
    assert made["metadata"]["annotations"].get("kept") == given.get("annotations", {}).get("kept")


def test_a_later_change_of_a_pod_is_undone_and_another_annotation_stays(alice: Any, cluster: Trial) -> None:
    alice("POST", PODS, a_pod("own"))
    assert (
        alice("PATCH", f"{PODS}/own", {"metadata": {"annotations": {USER: "bob", "more": "1"}}}, MERGE).status_code
        == 200
    )
    removed = [{"op": "remove", "path": f"/metadata/annotations/{USER.replace('/', '~1')}"}]
    assert alice("PATCH", f"{PODS}/own", removed, JSON_PATCH).status_code == 200
    assert alice("PATCH", f"{PODS}/own", {"metadata": {"annotations": None}}, MERGE).status_code == 200
    live = cluster.http.get(f"{PODS}/own").json()
    assert user_of(live) == "alice"


def test_a_pod_from_before_the_policy_is_of_nobody_and_stays_so(alice: Any, cluster: Trial) -> None:
    """A controller makes it, as far as the policy sees."""
    groups = {"Impersonate-Group": "system:masters", "Impersonate-User": "system:old"}
    assert cluster.http.post(PODS, json=a_pod("old"), headers=groups).status_code == 201
    try:
        alice("PATCH", f"{PODS}/old", {"metadata": {"annotations": {USER: "bob"}}}, MERGE)
        assert user_of(cluster.http.get(f"{PODS}/old").json()) == ""
    finally:
        cluster.http.request("DELETE", f"{PODS}/old", json={"gracePeriodSeconds": 0})


def test_pods_of_a_job_that_kueue_starts_carry_who_made_the_job(alice: Any, cluster: Trial) -> None:
    job = gang("train", ACCOUNT, TIER, 2)
    job["metadata"]["annotations"] = {USER: "bob"}
    job["spec"]["template"]["metadata"]["annotations"][USER] = "bob"
    made = alice("POST", JOBS, job).json()
    assert (user_of(made), user_of(made["spec"]["template"])) == ("alice", "alice")
    cluster.wait(lambda: len(cluster.running(ACCOUNT, "train")) == 2, "the gang runs")
    assert {user_of(pod) for pod in cluster.running(ACCOUNT, "train")} == {"alice"}
    (pod, _) = cluster.running(ACCOUNT, "train")
    alice("PATCH", f"{PODS}/{pod['metadata']['name']}", {"metadata": {"annotations": {USER: "bob"}}}, MERGE)
    assert {user_of(one) for one in cluster.running(ACCOUNT, "train")} == {"alice"}


def test_a_job_that_waits_cannot_be_given_to_somebody_else(alice: Any, cluster: Trial) -> None:
    job = gang("waits", ACCOUNT, TIER, 9)  # more than the account may hold
    assert alice("POST", JOBS, job).status_code == 201
    change = {"metadata": {"annotations": {USER: "bob"}}}
    answer = alice("PATCH", f"{JOBS}/waits", {**change, "spec": {"template": change}}, MERGE)
    assert answer.status_code == 200, answer.text
    live = cluster.job(ACCOUNT, "waits")
    assert (user_of(live), user_of(live["spec"]["template"])) == ("alice", "alice")


def test_pods_of_a_jobset_carry_who_made_it_and_a_change_of_a_waiting_one_is_undone(alice: Any, cluster: Trial) -> None:
    answer = alice("POST", JOBSETS, a_jobset("set", "bob"))
    assert answer.status_code == 201, answer.text
    assert (user_of(answer.json()), templates(answer.json())) == ("alice", ["alice", "alice"])
    cluster.wait(lambda: len(cluster.running(ACCOUNT)) == 2, "both Jobs of the set run")
    assert {user_of(pod) for pod in cluster.running(ACCOUNT)} == {"alice"}
    large = a_jobset("large", "bob")
    for one in large["spec"]["replicatedJobs"]:
        one["template"]["spec"] |= {"parallelism": 9, "completions": 9}
    assert alice("POST", JOBSETS, large).status_code == 201

    def changed() -> int:
        live = cluster.http.get(f"{JOBSETS}/large").json()
        live["metadata"]["annotations"][USER] = "bob"
        live["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["metadata"]["annotations"][USER] = "bob"
        answer = alice("PUT", f"{JOBSETS}/large", live)
        assert answer.status_code in (200, 409), answer.text
        return int(answer.status_code)

    cluster.wait(lambda: changed() == 200, "no controller has changed the set meanwhile")
    live = cluster.http.get(f"{JOBSETS}/large").json()
    assert (user_of(live), templates(live)) == ("alice", ["alice", "alice"])


def test_the_trial_of_acceptance_finds_the_job_charged_to_who_made_it(cluster: Trial) -> None:
    """API server, Kueue and the collector's count are real. The test plays exporter, Prometheus and time: a list counts at once."""
    plan, metrics = plan_of("lab-kubernetes"), load("roles/kubernetes_metrics/files/kubernetes_metrics.py")
    interval_s, seconds = telemetry.interval_s(plan.site), [0.0, 0.0]

    def call(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        made = [one for one in calls if one["verb"] == "POST" and one["path"].endswith("/jobs")]
        return cluster.answers([{**one, "body": lasting(one["body"])} if one in made else one for one in calls])

    def prometheus(request: Mapping[str, Any]) -> Queried:
        ((name, text),) = request["queries"].items()
        (user,) = re.findall('user="(.+?)"', text)
        pods = cluster.http.get(metrics.PODS).json()
        used = {labels["account"]: value for _, labels, value in metrics.gpus_used([pods]) if labels["user"] == user}
        value = charged.GPUS * seconds[1] if "sum_over_time" in text else used.get("commissioning", 0.0) * interval_s
        return {"queries": {name: [{"labels": {}, "value": value}] if value else []}, "ranges": {}}

    def sleep(taken_s: float) -> None:
        time.sleep(min(taken_s, 1.0))
        seconds[0] += taken_s
        seconds[1] += taken_s if prometheus({"queries": {"now": f'user="{charged.USER}"'}})["queries"]["now"] else 0.0

    said = charged.ask(plan, call, prometheus, sleep, lambda: seconds[0])
    objects = {one.key: cluster.http.get(path_of(one)).json() for one in design(plan).objects if not one.partial}
    value, problems = kube_policy.charged({"charged": said, "objects": objects}, plan)
    assert problems == []
    assert (value["gpus"], value["seen_s"]) == (2, 0)
