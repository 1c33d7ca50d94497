"""Secrets in etcd and a restored backup: what is asked, what is wrong with an answer, and that the gate judges the same again.

etcdctl and kubectl are scripts here; tests/infra/test_etcd_restored.py has the real ones.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.plans import plan_of
from validation import from_raw, kube
from validation.checks import test_platform
from validation.checks.conftest import Told
from validation.facts import etcd_drill
from validation.facts.etcd_drill import Drill, DrillError

BOX = b"k8s:enc:secretbox:v1:bringup1:"
GOOD: dict[str, Any] = {"providers": {"secretbox": 3}, "plain": [], "clear": False, "read_back": True}
DRILL: dict[str, Any] = {
    "bytes": 4096,
    "keys": 300,
    "restored": 300,
    "same": True,
    "deleted_since_is_back": True,
    "save_s": 0.4,
    "restore_s": 2,
}


class Scripted(Drill):
    """Answers etcdctl from `stored`, an etcd in which a Secret that is made appears as `box` makes it."""

    def __init__(self, stored: dict[str, bytes], box: bytes = BOX) -> None:
        super().__init__("/nowhere", "/nowhere", "/nowhere", 2379, 30.0)
        self.stored, self.box, self.objects = stored, box, dict[str, Any]()

    def run(self, argv: Any, stdin: str = "") -> str:
        words = list(argv)
        if words[0].endswith("kubectl"):
            return self.api(words[3:], stdin)
        start, end = words[words.index("get") + 1 :][:2]
        limit = next(int(word.partition("=")[2]) for word in words if word.startswith("--limit="))
        chosen = [(key, value) for key, value in sorted(self.stored.items()) if start <= key < end][:limit]
        encoded = [{"key": b64(key.encode()), "value": b64(value)} for key, value in chosen]
        return json.dumps({"kvs": encoded} if encoded else {})

    def api(self, words: list[str], stdin: str) -> str:
        if words[0] == "create":
            made = json.loads(stdin)
            name = made["metadata"]["name"]
            self.objects[name] = made
            value = self.box + (b"?" * 40 if self.box else stdin.encode())
            self.stored[f"/registry/secrets/{made['metadata']['namespace']}/{name}"] = value
        elif words[0] == "get":
            return json.dumps(self.objects[words[2]])
        else:
            del self.objects[words[2]]
        return ""


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_every_secret_is_read_by_pages_and_the_one_made_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_drill, "PAGE", 2)
    drill = Scripted({f"/registry/secrets/a/{number}": BOX + b"x" for number in range(4)})
    assert etcd_drill.encrypted(drill, "commissioning") == GOOD | {"providers": {"secretbox": 5}}
    assert drill.objects == {}


def test_secrets_in_clear_are_counted_and_named() -> None:
    stored = {"/registry/secrets/a/old": b"k8s\x00\n", "/registry/secrets/a/cbc": b"k8s:enc:aescbc:v1:k:x"}
    said = etcd_drill.encrypted(Scripted(stored, box=b""), "commissioning")
    assert (said["providers"], said["clear"]) == ({"": 2, "aescbc": 1}, True)
    value, problems = kube.encrypted(said)
    assert value == {"secrets": 3, "encrypted": 0}
    assert len(problems) == 3
    text = "; ".join(problems)
    for part in ("1 Secrets are aescbc", "2 Secrets are in clear, such as a/old", "can be read in etcd (the role"):
        assert part in text


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"clear": None}, "etcd does not have the Secret that was made"),
        ({"read_back": False}, "the API server does not give the Secret back"),
    ],
)
def test_a_secret_that_went_astray_is_said(changed: dict[str, Any], why: str) -> None:
    assert why in " ".join(kube.encrypted(GOOD | changed)[1])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"keys": 0, "restored": 0}, "etcd holds no key of Kubernetes"),
        ({"same": False, "restored": 299}, "the restored etcd has 299 keys, the backup's revision 300"),
        ({"deleted_since_is_back": False}, "an object that was deleted after the backup is not in it"),
    ],
)
def test_a_backup_that_does_not_bring_all_back_is_said(changed: dict[str, Any], why: str) -> None:
    assert kube.restored(DRILL | changed)[1] == [why]


def test_what_cannot_be_done_is_an_error_and_no_answer(tmp_path: Path) -> None:
    request = {
        "ask": "restored",
        "namespace": "n",
        "budget_s": 5.0,
        "programs": str(tmp_path),
        "pki": "",
        "kubeconfig": "",
    }
    why = f"{tmp_path}/etcdctl is not there: the role kubernetes installs it"
    assert etcd_drill.main(request) == {"error": why}
    spent = Drill(str(tmp_path), "", "", 2379, -1.0)
    with pytest.raises(DrillError, match="kubectl: the time budget of all steps is spent"):
        spent.kubectl("version")


@pytest.mark.parametrize(
    ("item", "said"), [("P-14.applied", GOOD), ("P-15.measured", DRILL)], ids=["encrypted", "restored"]
)
def test_the_gate_judges_again_and_refuses_other_shapes(item: str, said: dict[str, Any]) -> None:
    plan = plan_of("lab-kubernetes")
    raw = json.dumps(said).encode()
    again = from_raw.computed(item, "ctl01", plan, raw)
    assert isinstance(again, from_raw.Again)
    assert again.problems == []
    for other in ({**said, next(iter(said)): "many"}, {}):
        why = from_raw.computed(item, "ctl01", plan, json.dumps(other).encode())
        assert "its value cannot be computed from its raw output" in str(why)


def test_a_controller_that_says_nothing_gives_no_pass() -> None:
    said = Told({}, 1.0, "ctl01 does not answer")
    outcome = test_platform.of_trial(kube.encrypted, said, (), "never")
    assert (outcome.passed, outcome.value, outcome.detail) == (False, None, "ctl01 does not answer")
