"""Notices of jobs and nodes, with a real API server and a real Kueue: the program of the role with the user and the rights that it
has, and the trial of acceptance, which hears them.

The control plane and Kueue are real. The four nodes of the lab's plan and their pods are kwok's: no container runs.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from capacity.services.cluster import NOTICES_USER
from capacity.services.platform.topology import OUT_OF_SERVICE
from infra.kube.certificates import CLIENT, issue, load, private
from infra.kube.trial import Trial, lasting, trial
from infra.toolchain.control_plane import programs
from infra.toolchain.controllers import controllers
from network.drivers.errors import BadAnswer
from tests.plans import plan_of
from tests.playbooks.support import PLAYBOOKS
from tests.playbooks.support import load as program
from validation import notices
from validation.facts import notices as facts
from validation.facts.kube import NODES

pytestmark = [pytest.mark.platform, pytest.mark.needs("kueue")]

MERGE = {"Content-Type": "application/merge-patch+json"}
RIGHTS = PLAYBOOKS / "roles" / "kubernetes_control_plane" / "vars" / "main.yml"
DRILL = Path(facts.__file__).with_name("notices_drill.py")
PORT = 39098
ROUND_S = 1.0


def give_rights(cluster: Trial) -> None:
    """Those that the role gives the program's user."""
    for one in yaml.safe_load(RIGHTS.read_text())["kubernetes_rights"]:
        if one["metadata"]["name"] == "bringup-notices":
            text = jinja2.Environment(autoescape=False).from_string(json.dumps(one))
            right = json.loads(text.render(bringup_kubernetes={"notices_user": NOTICES_USER}))
            path = f"/apis/rbac.authorization.k8s.io/v1/{right['kind'].lower()}s"
            assert cluster.http.post(path, json=right).status_code == 201


def on_controller(request: Mapping[str, Any]) -> Any:
    """notices_drill.py as a controller runs it, but for SSH."""
    done = subprocess.run(
        [sys.executable, "-I", str(DRILL), json.dumps(request)], capture_output=True, text=True, timeout=30, check=True
    )
    said = json.loads(done.stdout)
    if "error" in said:
        raise BadAnswer("ctl01", request["act"], "an answer", said["error"], "none")
    return said


class Rounds:
    """The program, round after round, as its timer starts it."""

    def __init__(self, cluster: Trial, folder: Path, pki: Path) -> None:
        self.module = program("roles/kubernetes_notices/files/kubernetes_notices.py")
        client = issue(NOTICES_USER, authority=load(pki / "ca"), usages=[CLIENT])
        folder.mkdir()
        private(folder / "notices.pem", client.pem + client.key_pem)
        (folder / "ca.crt").write_bytes((pki / "ca.crt").read_bytes())
        drill = {"account": "commissioning", "url": f"http://127.0.0.1:{PORT}/"}
        (folder / "notices.json").write_text(json.dumps({"accounts": {}, "names": [], "drill": drill}))
        self.argv = [
            *(f"--config={folder / 'notices.json'}", f"--state={folder / 'state.json'}", f"--pki={folder}"),
            *(f"--metrics={folder / 'notices.prom'}", f"--api-port={cluster.http.base_url.port}"),
        ]
        self.folder, self.stop, self.codes = folder, threading.Event(), list[int]()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        while not self.stop.wait(ROUND_S):
            self.codes.append(self.module.main(self.argv))

    def __enter__(self) -> "Rounds":
        self.thread.start()
        return self

    def __exit__(self, *given: object) -> None:
        self.stop.set()
        self.thread.join(30)


def test_each_event_of_a_real_kueue_is_told_once_and_the_trial_hears_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes, made, plan = programs(), controllers(), plan_of("lab-kubernetes")
    assert kubernetes is not None
    assert made is not None
    monkeypatch.setattr(facts, "NOTICES_DRILL", f"http://127.0.0.1:{PORT}/")
    with trial(plan, kubernetes, made, tmp_path / "cluster") as cluster:
        give_rights(cluster)

        def call(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            """As over SSH. kwok is told which pods end: it runs no container whose probe fails."""
            told = []
            for one in calls:
                if one["verb"] == "POST" and one["path"].endswith("/jobs"):
                    ends = one["body"]["metadata"]["name"] == facts.ENDS
                    one = {**one, "body": lasting(one["body"], *([1] if ends else []))}
                told.append(one)
            return cluster.answers(told)

        def two_rounds() -> None:
            before = len(sending.codes)
            cluster.wait(lambda: len(sending.codes) > before + 1, "two rounds are over")

        def back() -> str:
            """A node gets the taint of its health check, and loses it."""
            path = f"{NODES}/gpu004"
            taint = {"key": OUT_OF_SERVICE, "value": "unfit", "effect": "NoSchedule"}
            for taints in ([taint], []):
                done = cluster.http.patch(path, content=json.dumps({"spec": {"taints": taints}}), headers=MERGE)
                assert done.status_code == 200, done.text
                two_rounds()
            return "gpu004"

        with Rounds(cluster, tmp_path / "sender", tmp_path / "cluster" / "pki") as sending:
            cluster.wait(lambda: (sending.folder / "state.json").exists(), "the first round is over")
            said = {"notices": facts.ask(plan, call, on_controller, back, sleep=lambda s: time.sleep(min(s, 3.0)))}
        assert set(sending.codes) == {0}
        value, problems = notices.told(said, plan)
        assert problems == []
        assert value["events"] == 4
        assert [(one["event"], one["job"] or one["node"], one["reason"]) for one in said["notices"]["heard"]] == [
            ("node-return", "gpu004", ""),
            *sorted([("end", facts.ENDS, "Succeeded"), ("fail", facts.FAILS, "Failed")]),
            ("requeue", facts.HOLDS, "Preempted"),
        ]
        assert cluster.pods("commissioning") == []
        assert capsys.readouterr().err == ""
        state = json.loads((sending.folder / "state.json").read_text())
        assert state["waiting"] == []
        # nothing else may be asked by this user
        for path in ("/api/v1/pods", "/api/v1/secrets", "/apis/batch/v1/jobs", f"{NODES}/gpu001"):
            with pytest.raises(sending.module.AskError, match="status 403"):
                sending.module.ask(cluster.http.base_url.port, path, sending.folder)
