"""A reservation with the real API server and Kueue, opened and closed by the role's program with the rights that it has.

The four nodes of the lab's plan and their pods are kwok's: no container runs.
"""

import datetime
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
import pytest
import yaml

from capacity.model import Plan
from capacity.services.cluster import RESERVATIONS_USER
from capacity.services.platform.queues import CLOSED, CLOSES, OPEN, OPENS, moment
from infra.kube.certificates import CLIENT, issue, load, private
from infra.kube.trial import Trial, gang, lasting, trial
from infra.toolchain.control_plane import programs
from infra.toolchain.controllers import controllers
from tests.capacity.services.test_reservations import reservation, reserved
from tests.playbooks.support import PLAYBOOKS
from tests.playbooks.support import load as program
from validation import kube_policy
from validation.facts import reservation_trial
from validation.facts.kueue import QUEUE

pytestmark = [pytest.mark.platform, pytest.mark.needs("kueue")]

RIGHTS = PLAYBOOKS / "roles" / "kubernetes_control_plane" / "vars" / "main.yml"
HOUR = datetime.timedelta(hours=1)
QUEUES = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
BIG, OTHER = f"{QUEUES}/reservation-big", f"{QUEUES}/services"


class Opener:
    """The role's program, asked for a time of the test's own."""

    def __init__(self, cluster: Trial, pki: Path, folder: Path) -> None:
        self.module = program("roles/kubernetes_reservations/files/kubernetes_reservations.py")
        client = issue(RESERVATIONS_USER, authority=load(pki / "ca"), usages=[CLIENT])
        private(folder / "reservations.pem", client.pem + client.key_pem)
        (folder / "ca.crt").write_bytes((pki / "ca.crt").read_bytes())
        port = urlsplit(str(cluster.http.base_url)).port
        assert port is not None
        self.api = self.module.Api(port, folder)

    def at(self, now: datetime.datetime) -> None:
        assert self.module.apply(self.api, now) == []


@pytest.fixture(scope="module")
def plan() -> Plan:
    now = datetime.datetime.now(datetime.UTC)
    return reserved(reservation("big", "vision", 16, now + HOUR))


@pytest.fixture(scope="module")
def cluster(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trial, Opener]]:
    kubernetes, made = programs(), controllers()
    assert kubernetes is not None
    assert made is not None
    folder = tmp_path_factory.mktemp("reservations")
    with trial(plan, kubernetes, made, folder) as running:
        text = jinja2.Environment(autoescape=False)
        for one in yaml.safe_load(RIGHTS.read_text())["kubernetes_rights"]:
            if one["metadata"]["name"] == "bringup-reservations":
                right = yaml.safe_load(
                    text.from_string(yaml.safe_dump(one)).render(
                        bringup_kubernetes={"reservations_user": RESERVATIONS_USER}
                    )
                )
                group, kind = right["apiVersion"], right["kind"].lower()
                plural = f"{kind[:-1]}ies" if kind.endswith("policy") else f"{kind}s"
                assert running.http.post(f"/apis/{group}/{plural}", json=right).status_code == 201
        credentials = tmp_path_factory.mktemp("credentials")
        # an API server compiles a policy a moment after it is made
        running.wait(lambda: patched(running, OTHER, {"spec": {"stopPolicy": CLOSED}}) == 422)
        yield running, Opener(running, folder / "pki", credentials)


def patched(running: Trial, path: str, body: Mapping[str, Any]) -> int:
    """The status of a patch as the role's user, tried without effect."""
    headers = {"Impersonate-User": RESERVATIONS_USER, "Content-Type": "application/merge-patch+json"}
    return running.http.patch(path, json=body, headers=headers, params={"dryRun": "All"}).status_code


def policy(cluster: Trial) -> str:
    return str(cluster.http.get(BIG).json()["spec"].get("stopPolicy"))


def test_its_jobs_wait_take_what_is_theirs_and_are_over_at_its_end(plan: Plan, cluster: tuple[Trial, Opener]) -> None:
    running, opener = cluster
    (one,) = plan.site.scheduler.reservations
    highest, lowest = plan.site.tiers[0], plan.site.tiers[-1]
    opener.at(one.start - HOUR)
    assert policy(running) == CLOSED
    for number in range(4):
        running.create(
            gang(f"all-{number}", "services" if not number else "research", "inference" if not number else highest, 1)
        )
    running.wait(
        lambda: len(running.running("research")) + len(running.running("services")) == 4, "all nodes are taken"
    )
    made = gang("large", "vision", lowest if lowest != "inference" else highest, 2)
    made["metadata"]["labels"][QUEUE] = "big"
    running.create(made)
    running.wait(
        lambda: "is inactive" in running.condition("vision", "large", "QuotaReserved").get("message", ""),
        "Kueue says why it waits",
    )
    assert running.pods("vision") == []
    opener.at(one.start)
    assert policy(running) == OPEN
    running.wait(lambda: len(running.running("vision", "large")) == 2, "the owner's job runs on both nodes")
    # Kueue may evict more than it needs, and admits these again at once
    running.wait(
        lambda: len(running.running("research")) + len(running.running("services")) == 2, "the others have what is left"
    )
    opener.at(one.end)
    assert policy(running) == CLOSED
    running.wait(lambda: running.pods("vision", "large") == [], "the owner's job is evicted")
    running.wait(
        lambda: len(running.running("research")) + len(running.running("services")) == 4, "the others have all again"
    )
    for namespace in ("research", "services", "vision"):
        running.delete_all(namespace)


def test_what_opens_it_may_change_nothing_else(cluster: tuple[Trial, Opener]) -> None:
    running, _ = cluster
    user = {"Impersonate-User": RESERVATIONS_USER}
    assert patched(running, BIG, {"metadata": {"labels": {CLOSES: "20990101T000000Z"}}}) == 422
    assert patched(running, BIG, {"metadata": {"annotations": {"a": "b"}}}) == 422
    assert patched(running, OTHER, {"spec": {"stopPolicy": CLOSED}}) == 422
    assert patched(running, BIG, {"spec": {"stopPolicy": "Hold"}}) == 200
    assert patched(running, BIG, {"spec": {"cohort": "vision"}}) == 422
    assert patched(running, BIG, {"spec": {"queueingStrategy": "StrictFIFO"}}) == 422
    assert patched(running, BIG, {"spec": {"admissionChecks": ["somebodys"]}}) == 422
    for verb, path in (("GET", BIG), ("DELETE", BIG), ("GET", "/api/v1/nodes")):
        assert running.http.request(verb, path, headers=user).status_code == 403, (verb, path)


def test_the_trial_of_acceptance_finds_it_as_it_should_be(plan: Plan, cluster: tuple[Trial, Opener]) -> None:
    """With the program beside it as its timer runs it, once in a while."""
    running, opener = cluster
    over = threading.Event()

    def call(calls: Sequence[Mapping[str, Any]]) -> list[Any]:
        """kwok ends pods at once that do not say how long they run."""
        return running.answers(
            [
                {**one, "body": lasting(one["body"])} if one.get("body", {}).get("kind") == "Job" else one
                for one in calls
            ]
        )

    def rounds() -> None:
        while not over.wait(5):
            opener.at(datetime.datetime.now(datetime.UTC))

    beside = threading.Thread(target=rounds)
    beside.start()
    try:
        said: dict[str, Any] = {"reservation": reservation_trial.ask(plan, call)}
    finally:
        over.set()
        beside.join()
    value, problems = kube_policy.window(said, plan)
    assert problems == [], said
    assert value["node"]
    assert kube_policy.reservations(said, plan)[1] == []
    left = running.http.get(QUEUES, params={"labelSelector": OPENS}).json()["items"]
    assert [one["metadata"]["name"] for one in left] == ["reservation-big"]
    assert left[0]["metadata"]["labels"][OPENS] == moment(plan.site.scheduler.reservations[0].start)
