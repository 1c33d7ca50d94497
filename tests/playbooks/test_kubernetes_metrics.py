"""Metrics of a server of a Kubernetes cluster; tests/infra/test_kubernetes_metrics.py has those of real programs."""

import datetime
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from infra.kube.certificates import CLIENT, issue
from tests.playbooks.support import load

module = load("roles/kubernetes_metrics/files/kubernetes_metrics.py")

ETCD = b"""# HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
# TYPE etcd_server_has_leader gauge
etcd_server_has_leader 1
etcd_mvcc_db_total_size_in_bytes 2.1131264e+07
etcd_server_quota_backend_bytes 4.294967296e+09
etcd_server_is_leader 1
"""
"""Some of what etcd 3.6's metrics have."""


def node(name: str, ready: str = "True", **allocatable: str) -> dict[str, Any]:
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready, "reason": "Told"}]
    return {"metadata": {"name": name}, "status": {"conditions": conditions, "allocatable": allocatable}}


def listed(*nodes: Any) -> bytes:
    return json.dumps({"kind": "NodeList", "items": nodes}).encode()


def values(samples: Any) -> dict[tuple[str, ...], float]:
    """{(name, values of its labels…): value}"""
    return {(name, *labels.values()): value for name, labels, value in samples}


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """An authority, a certificate with its key and the comment of bringup_pki, and a file that is none."""
    folder = tmp_path / "pki"
    folder.mkdir()
    authority = issue("ca", days=3650)
    client = issue("bringup:metrics", authority=authority, usages=[CLIENT], days=365)
    (folder / "ca.crt").write_bytes(authority.pem)
    (folder / "metrics.pem").write_bytes(b"# /CN=bringup:metrics  client by ca\n" + client.pem + client.key_pem)
    (folder / "broken.pem").write_text("nothing")
    (folder / "ca.key").write_bytes(authority.key_pem)
    return folder


@pytest.mark.needs("openssl")
def test_each_certificate_tells_when_it_ends(pki: Path) -> None:
    seen = {
        Path(labels["file"]).name: (labels["kind"], end) for _, labels, end in module.certificates(pki, pki / "away")
    }
    days = {name: (end - datetime.datetime.now(datetime.UTC).timestamp()) / 86400 for name, (_, end) in seen.items()}
    assert {name: kind for name, (kind, _) in seen.items()} == {
        "ca.crt": "authority",
        "broken.pem": "certificate",
        "metrics.pem": "certificate",
    }
    assert (round(days["ca.crt"]), round(days["metrics.pem"])) == (3650, 365)
    assert seen["broken.pem"][1] == 0


def test_nodes_tell_of_readiness_and_of_extended_resources_alone() -> None:
    offers = {"cpu": "8", "hugepages-2Mi": "0", "nvidia.com/gpu": "7", "rdma/shared": "1k"}
    seen = values(
        module.nodes(
            listed(node("gpu001", **offers), node("gpu002", "Unknown"), {"metadata": {"name": "gpu003"}, "status": {}})
        )
    )
    assert seen == {
        ("bringup_kubernetes_node_ready", "gpu001", "Told"): 1,
        ("bringup_kubernetes_node_offer", "gpu001", "nvidia.com/gpu"): 7,
        ("bringup_kubernetes_node_offer", "gpu001", "rdma/shared"): 1000,
        ("bringup_kubernetes_node_ready", "gpu002", "Told"): 0,
        ("bringup_kubernetes_node_ready", "gpu003", "Unknown"): 0,
    }


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"{}",
        listed(None),
        listed(node('a"b')),
        listed(node("a", **{"nvidia.com/gpu": "1.5"})),
        listed(node("a\nb 1")),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(said: bytes) -> None:
    with pytest.raises(module.AskError, match="list of nodes"):
        module.nodes(said)


# ---- GPUs in use -----------------------------------------------------------------------------------------------------
def asks(**limits: str) -> dict[str, Any]:
    """A container with limits of nvidia.com: gpu="2"."""
    return {"name": "a", "resources": {"limits": {f"nvidia.com/{name}": amount for name, amount in limits.items()}}}


def pod(user: Any, *containers: Any, namespace: str = "vision", before: Any = ()) -> dict[str, Any]:
    annotations = {} if user is None else {"bringup.local/user": user}
    metadata = {"name": "a", "namespace": namespace, "annotations": annotations or None}
    return {"metadata": metadata, "spec": {"containers": list(containers), "initContainers": list(before)}}


def used(*pods: Any) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in values(module.gpus_used([{"items": list(pods)}])).items()}


def test_gpus_are_counted_by_namespace_and_user_and_by_resource() -> None:
    seen = used(
        pod("alice", asks(gpu="4"), asks(gpu="4", **{"gpu.shared": "1"})),
        pod("alice", asks(gpu="2")),
        pod("bob", {"name": "a", "resources": {"limits": {"cpu": "4"}}}, {"name": "b"}),
        pod(None, asks(**{"mig-1g.10gb": "3"})),
        pod(None, asks(gpu="8"), namespace="bringup-loads"),
    )
    assert seen == {
        ("vision", "alice", "nvidia.com/gpu"): 10,
        ("vision", "alice", "nvidia.com/gpu.shared"): 1,
        ("vision", "", "nvidia.com/mig-1g.10gb"): 3,
        ("bringup-loads", "", "nvidia.com/gpu"): 8,
    }


@pytest.mark.parametrize(
    ("before", "gpus"),
    [
        ([], 2),
        ([asks(gpu="1")], 2),
        ([asks(gpu="5"), asks(gpu="4")], 5),
        ([asks(gpu="1") | {"restartPolicy": "Always"}], 3),
        ([asks(gpu="1") | {"restartPolicy": "Always"}, asks(gpu="4")], 5),
    ],
    ids=["none", "fewer", "more", "stays", "beside-one-that-stays"],
)
def test_a_pod_holds_what_it_needs_at_most(before: list[dict[str, Any]], gpus: int) -> None:
    assert used(pod("alice", asks(gpu="2"), before=before)) == {("vision", "alice", "nvidia.com/gpu"): gpus}


@pytest.mark.parametrize(
    ("amount", "count"), [("8", 8), ("1e1", 10), ("2E0", 2), ("1k", 1000), ("1Ki", 1024), ("1M", 10**6)]
)
def test_a_limit_is_read_in_each_form_that_a_user_may_give_it_in(amount: str, count: int) -> None:
    assert list(used(pod("alice", asks(gpu=amount))).values()) == [count]


def test_a_name_of_a_user_is_free_text_and_stays_one_bounded_label() -> None:
    hostile = 'a"} 1\nbringup_kubernetes_up{x="\\ é\x1b[2J\ud800'
    ((_, labels, _),) = module.gpus_used([{"items": [pod(hostile, asks(gpu="1"))]}])
    assert labels["user"] == 'a"} 1?bringup_kubernetes_up{x="\\ é?[2J?'
    text = module.render(module.gpus_used([{"items": [pod(hostile, asks(gpu="1")), pod("b" * 9999, asks(gpu="1"))]}]))
    assert 'user="a\\"} 1?bringup_kubernetes_up{x=\\"\\\\ é?[2J?"' in text
    assert len(text.splitlines()) == 3
    assert f'user="{"b" * 200}"' in text
    assert text.encode()


@pytest.mark.needs("promtool")
def test_prometheus_own_parser_takes_a_file_with_any_name_of_a_user() -> None:
    names = ['a"} 1', "back\\slash\\", "new\nline", "\u00e9\u4e2d\U0001f600", "\ud800\x00\x7f", "", "{}=,"]
    text = module.render(module.gpus_used([{"items": [pod(name, asks(gpu="1")) for name in names]}]))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=60, check=False
    )
    assert b"error while linting" not in done.stderr, done.stderr
    assert b"bringup_kubernetes_gpus_used no help text" in done.stdout + done.stderr, "it was read to its end"
    broken = text.replace("slash", "sl\\u0061sh").encode()
    done = subprocess.run(["promtool", "check", "metrics"], input=broken, capture_output=True, timeout=60, check=False)
    assert b"invalid escape sequence" in done.stderr, "another backslash would lose the whole file"


def test_of_too_many_users_the_smallest_are_counted_without_their_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "USED_MAX", 2)
    gpu = "nvidia.com/gpu"
    seen = used(*(pod(f"user{number}", asks(gpu=str(number))) for number in (1, 2, 3, 4)))
    assert seen == {("vision", "user4", gpu): 4, ("vision", "user3", gpu): 3, ("vision", "", gpu): 3}
    assert "4 accounts and users, 2 are told apart" in capsys.readouterr().err


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {},
        pod(7, asks(gpu="1")),
        pod("a", asks(gpu="1.5")),
        pod("a", asks(gpu="-1")),
        pod("a", asks(gpu="1"), namespace='a"b'),
        pod("a", asks(**{'g"': "1"})),
        pod("a", "text"),
    ],
)
def test_what_is_no_list_of_pods_is_refused(bad: Any) -> None:
    with pytest.raises(module.AskError, match="list of pods"):
        module.gpus_used([{"items": [bad]}])


def test_series_of_etcd_are_its_own_and_none_may_be_missing() -> None:
    assert values(module.of_etcd(ETCD)) == {
        ("etcd_server_has_leader",): 1,
        ("etcd_mvcc_db_total_size_in_bytes",): 21131264,
        ("etcd_server_quota_backend_bytes",): 4294967296,
    }
    with pytest.raises(module.AskError, match="etcd_server_quota_backend_bytes"):
        module.of_etcd(ETCD.replace(b"quota", b"other"))


FIRST = f"{module.PODS}&limit=500"


def page(*pods: Any, more: str = "") -> bytes:
    """A page of a PodList; more: where the next one begins."""
    return json.dumps({"metadata": {"continue": more}, "items": pods}).encode()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """{path: body} of the control plane; what is not there does not answer. And a folder of backups and one of etcd's data."""
    bodies = {
        "/readyz": b"ok",
        "/api/v1/nodes?resourceVersion=0": listed(node("gpu001")),
        FIRST: page(pod("alice", asks(gpu="8")), more="a b"),
        f"{FIRST}&continue=a%20b": page(pod("alice", asks(gpu="4"))),
        "/metrics": ETCD,
        "/healthz": b"ok",
    }

    def ask(port: int, path: str, *_: Any) -> bytes:
        if path not in bodies:
            raise module.AskError(f"port {port}{path}: refused")
        return bodies[path]

    monkeypatch.setattr(module, "ask", ask)
    monkeypatch.setattr(module, "output", lambda *argv: "failed\n" if "backup" in argv[-1] else "")
    (tmp_path / "data" / "member").mkdir(parents=True)
    (tmp_path / "backups").mkdir()
    return bodies, lambda: values(module.control_plane(tmp_path, 6443, tmp_path / "backups", tmp_path / "data"))


COMPONENTS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler")


def up(seen: dict[tuple[str, ...], float]) -> dict[str, float]:
    return {name: seen["bringup_kubernetes_up", name] for name in COMPONENTS}


def test_a_control_plane_that_answers_is_up(answers: Any) -> None:
    _, read = answers
    seen = read()
    assert up(seen) == dict.fromkeys(COMPONENTS, 1)
    assert seen["bringup_kubernetes_node_ready", "gpu001", "Told"] == 1
    assert seen["etcd_server_has_leader",] == 1
    assert seen["bringup_etcd_backup_failed",] == 1


def test_pods_are_listed_page_by_page(answers: Any) -> None:
    _, read = answers
    seen = read()
    assert seen["bringup_kubernetes_gpus_used", "vision", "alice", "nvidia.com/gpu"] == 12
    assert abs(seen["bringup_kubernetes_pods_listed_seconds",] - time.time()) < 60


@pytest.mark.parametrize("why", ["away", "no-list", "too-many", "too-slow"])
def test_a_list_of_pods_that_has_no_end_counts_nothing_and_leaves_the_rest(
    why: str, answers: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies, read = answers
    if why == "away":
        del bodies[f"{FIRST}&continue=a%20b"]
    elif why == "no-list":
        bodies[f"{FIRST}&continue=a%20b"] = b"[]"
    elif why == "too-many":
        monkeypatch.setattr(module, "PODS_MAX", 500)
    else:
        monkeypatch.setattr(module, "PODS_S", -1)
    seen = read()
    assert not [
        key for key in seen if key[0] in ("bringup_kubernetes_gpus_used", "bringup_kubernetes_pods_listed_seconds")
    ]
    assert up(seen) == dict.fromkeys(COMPONENTS, 1)
    assert capsys.readouterr().err.startswith("GPUs in use: ")


@pytest.mark.parametrize(
    ("away", "down"),
    [
        ("/readyz", {"kube-apiserver"}),
        ("/api/v1/nodes?resourceVersion=0", {"kube-apiserver"}),
        ("/metrics", {"etcd"}),
        ("/healthz", {"kube-controller-manager", "kube-scheduler"}),
    ],
)
def test_what_does_not_answer_is_down_and_the_rest_is_told(answers: Any, away: str, down: set[str]) -> None:
    bodies, read = answers
    del bodies[away]
    seen = read()
    assert {name for name, value in up(seen).items() if value == 0} == down
    assert any(name == "bringup_kubernetes_node_ready" for name, *_ in seen) == ("kube-apiserver" not in down)
    assert ("etcd_server_has_leader",) in seen or down == {"etcd"}
    assert ("bringup_etcd_backup_seconds",) in seen


def test_the_newest_backup_counts_and_without_any_since_when_etcd_has_data(tmp_path: Path, answers: Any) -> None:
    _, read = answers
    assert read()["bringup_etcd_backup_seconds",] == (tmp_path / "data" / "member").stat().st_mtime
    for name in ("etcd-20261130T001700.0Z.db", "etcd-20261130T041700.0Z.db"):
        (tmp_path / "backups" / name).touch()
    (tmp_path / "backups" / ".new-20261130T081700.0Z").touch()
    newest = max(path.stat().st_mtime for path in (tmp_path / "backups").glob("etcd-*"))
    assert read()["bringup_etcd_backup_seconds",] == newest


def test_a_server_of_another_kind_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(module.AskError, match="port 1/healthz"):
        module.ask(1, "/healthz")
    with pytest.raises(module.AskError):
        module.ask(1, "/healthz", tmp_path / "no-authority.crt")


def test_a_file_is_replaced_whole_and_readable_for_the_node_exporter(pki: Path, tmp_path: Path) -> None:
    path = tmp_path / "bringup-kubernetes.prom"
    path.write_text("old")
    assert module.main(["--file", str(path), "--pki", str(pki)]) == 0
    text = path.read_text()
    assert text.startswith("# TYPE bringup_certificate_end_seconds gauge\nbringup_certificate_end_seconds{file=")
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in tmp_path.glob("*prom*")] == [path.name]


def test_samples_of_a_name_stand_together() -> None:
    text = module.render([("a", {"x": 'q"\\'}, 1.0), ("b", {}, 4294967296.0), ("a", {"x": "z"}, 0.0)])
    assert text == '# TYPE a gauge\na{x="q\\"\\\\"} 1\na{x="z"} 0\n# TYPE b gauge\nb 4294967296\n'
