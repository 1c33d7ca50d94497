"""GPUs of pods: what is asked for, what pods may say, and what is wrong with it."""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from capacity.model import Plan
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from tests.plans import plan_of
from validation import from_raw, kube
from validation.runners import granted
from validation.runners.kubernetes import Kubernetes
from validation.runners.trial_pods import TRIED
from validation.workloads import granted as in_pod

NODE = "gpu001"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


def grant(asked: int, first: int = 0, **changed: Any) -> dict[str, Any]:
    """What a pod says that has the GPUs from `first` on."""
    minors = list(range(first, first + asked))
    uuids = [f"GPU-{minor}" for minor in minors]
    times = {"began": "2026-11-29T07:00:10Z", "ended": "2026-11-29T07:00:31Z"}
    driver = ["libcuda.so", "libnvidia-ml.so"] if asked else []
    said = {"asked": asked, "uuids": uuids, "seen": minors, "opened": minors, "driver": driver}
    rdma = {"rdma": ["uverbs0", "uverbs1"] if asked else [], "rdma_of_node": ["uverbs0", "uverbs1"]}
    return {**said, **rdma, "may_pin": "unlimited", **times, "why": "", **changed}


GOOD = {"rest": grant(7), "one": grant(1, 7), "none": grant(0)}


def test_pods_that_share_all_gpus_of_a_node_pass(plan: Plan) -> None:
    assert kube.granted(GOOD, plan, NODE) == ({"gpus": 8, "pods": 2}, [])
    assert kube.none_granted(GOOD) == ({"gpus": 0}, [])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"one": grant(1, 3)}, "two pods have the same GPU"),
        ({"one": grant(1, 7, uuids=["GPU-0"])}, "two pods have the same GPU"),
        ({"one": grant(1, 7, opened=list(range(8)))}, "one: asked for 1 GPUs and has 8 GPUs to open"),
        ({"one": grant(1, 7, seen=[])}, "one: it sees no GPU and may open /dev/nvidia7"),
        ({"rest": grant(7, uuids=[])}, "rest: asked for 7 GPUs and has 0 UUIDs"),
        (
            {"one": grant(1, 7, driver=["libnvidia-ml.so"])},
            "one: the runtime nvidia did not put libcuda.so of the driver",
        ),
        ({"one": grant(1, 7, rdma=["uverbs0"])}, "one: it lacks 1 of the 2 RDMA devices of its node"),
        ({"one": grant(1, 7, may_pin="8388608")}, "one: it may pin 8388608 bytes, RDMA needs no limit"),
        (
            {"rest": grant(7, why="0/4 nodes are available: 4 Insufficient nvidia.com/gpu")},
            "rest: 0/4 nodes are available",
        ),
        ({"rest": grant(6)}, "7 GPUs were asked for, planned 8"),
        ({"rest": grant(8), "one": grant(0)}, "one pod asked for all GPUs"),
        ({"one": grant(1, 7, began="2026-11-29T07:00:31Z")}, "did not run at the same time"),
    ],
)
def test_what_is_wrong_with_grants_is_said(changed: dict[str, Any], why: str, plan: Plan) -> None:
    assert any(why in one for one in kube.granted(GOOD | changed, plan, NODE)[1])


@pytest.mark.parametrize("part", ["uuids", "seen", "opened", "driver", "rdma"])
def test_a_pod_without_a_grant_may_have_nothing(part: str) -> None:
    has: dict[str, Any] = {part: [1] if part in ("seen", "opened") else ["GPU-1"]}
    value, problems = kube.none_granted({"none": grant(0) | has})
    assert (value, len(problems)) == ({"gpus": 0 if part in ("driver", "rdma") else 1}, 1)


def test_rdma_is_asked_for_where_the_node_and_its_fabric_have_it(plan: Plan) -> None:
    without = {"rdma": [], "rdma_of_node": [], "may_pin": "8388608"}
    assert kube.granted({trial: one | without for trial, one in GOOD.items()}, plan, NODE)[1] == []
    roce = replace(plan, site=plan.site.model_copy(update={"fabric": SimpleNamespace(kind="roce")}))
    none = {trial: one | {"rdma": []} for trial, one in GOOD.items()}
    assert kube.granted(none, roce, NODE)[1] == []
    assert kube.granted(none, plan, NODE)[1] != []


@pytest.mark.parametrize("item", ["P-06.measured", "P-07.measured"])
def test_the_gate_judges_again_from_the_raw_output(item: str, plan: Plan) -> None:
    again = from_raw.computed(item, NODE, plan, json.dumps(GOOD).encode())
    assert isinstance(again, from_raw.Again)
    assert again.problems == []
    others: list[dict[str, Any]] = [{}, {"none": {}}, {"none": grant(0) | {"seen": "all"}}]
    for other in others:
        found = from_raw.computed(item, NODE, plan, json.dumps(other).encode())
        assert isinstance(found, str) or found.problems


class Api:
    """Pods that end at once: each says what `said` makes of it."""

    def __init__(
        self, changed: Mapping[str, Any] | None = None, status: int = 201, architecture: str = "amd64"
    ) -> None:
        self.changed, self.status, self.architecture = changed or {}, status, architecture
        self.pods, self.deleted = list[dict[str, Any]](), list[str]()

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [self.answer(one) for one in calls]

    def answer(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        body: Any = None
        if "/nodes/" in call["path"]:
            body = {
                "status.images": [{"names": ["registry.k8s.io/pause:3.10.1"]}],
                "status.nodeInfo": {"architecture": self.architecture},
            }
        elif call["verb"] == "POST":
            self.pods.append(call["body"])
            body = {"metadata.name": "x"} if self.status == 201 else {"message": "exceeded quota"}
            return {"status": self.status, "body": body, "error": ""}
        elif call["verb"] == "DELETE":
            self.deleted.append(call["path"])
            body = {"kind": "PodList"}
        else:
            body = {"items": [self.shown(one) for one in self.pods]}
        return {"status": 200, "body": body, "error": ""}

    def shown(self, made: Mapping[str, Any]) -> dict[str, Any]:
        said = json.dumps({"uuids": ["GPU-0"], "seen": [0], "opened": [0]})
        ended = {"message": said, "startedAt": "2026-11-29T07:00:10Z", "finishedAt": "2026-11-29T07:00:31Z"}
        return {
            "metadata.name": made["metadata"]["name"],
            "status.phase": "Succeeded",
            "status.message": None,
            "status.conditions": [],
            "status.containerStatuses": [{"state": {"terminated": ended}}],
            **self.changed,
        }


def ended_saying(message: str) -> dict[str, Any]:
    """A pod that ended with this message, which nobody believes to have a form."""
    times = {"startedAt": "2026-11-29T07:00:10Z", "finishedAt": "2026-11-29T07:00:31Z"}
    return {"status.containerStatuses": [{"state": {"terminated": {"message": message, **times}}}]}


def tried(api: Api, plan: Plan) -> dict[str, dict[str, granted.Grant]]:
    host = cast(SshHost, type("Controller", (), {"name": "ctl01"})())
    return granted.try_grants(plan, Kubernetes(api, host, {}, {}, "training"))


def test_three_pods_of_each_node_ask_for_all_its_gpus_and_are_deleted(plan: Plan) -> None:
    api = Api()
    said = tried(api, plan)
    assert {name: [one["asked"] for one in of.values()] for name, of in said.items()} == {
        name: [7, 1, 0] for name in said
    }
    assert len(said) == 4
    assert said[NODE]["one"]["uuids"] == ["GPU-0"]
    for one in api.pods:
        (container,) = one["spec"]["containers"]
        assert container["securityContext"]["privileged"] is False
        assert container["image"] == "registry.k8s.io/pause:3.10.1"
        assert one["spec"]["runtimeClassName"] == "nvidia"
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    labels = {one["metadata"]["labels"][TRIED] for one in api.pods}
    assert [path.rpartition("%3D")[2] for path in api.deleted] == list(labels)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"status.phase": "Failed", "status.message": "Pod was active longer than deadline"}, "longer than deadline"),
        (
            {
                "status.phase": "Failed",
                "status.conditions": [{"status": "False", "message": "Insufficient nvidia.com/gpu"}],
                "status.containerStatuses": None,
            },
            "Insufficient nvidia.com/gpu",
        ),
        ({"status.containerStatuses": [{"state": {"terminated": {"message": "no json"}}}]}, "cannot be read"),
        ({"status.containerStatuses": [{"state": {"terminated": {"message": "[]"}}}]}, "cannot be read"),
        ({"status.containerStatuses": 3}, "cannot be read"),
        (ended_saying("[" * 8000), "cannot be read"),
        (ended_saying('{"uuids": [["GPU-0"]]}'), "cannot be read"),
        (ended_saying('{"seen": "all"}'), "cannot be read"),
    ],
)
def test_a_pod_that_does_not_say_it_gives_the_reason(changed: dict[str, Any], why: str, plan: Plan) -> None:
    said = tried(Api(changed), plan)
    assert why in said[NODE]["rest"]["why"]
    assert why in kube.granted(said[NODE], plan, NODE)[1][0]


def test_a_pod_has_its_nodes_programs_at_another_place_alone(plan: Plan) -> None:
    api = Api(architecture="arm64")
    tried(api, plan)
    (container,) = api.pods[0]["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": "usr", "mountPath": "/host/usr", "readOnly": True}]
    libraries = "/host/usr/lib/aarch64-linux-gnu"
    assert container["command"][:4] == [
        f"{libraries}/ld-linux-aarch64.so.1",
        "--library-path",
        libraries,
        "/host/usr/bin/python3",
    ]


def test_a_node_of_another_architecture_is_named(plan: Plan) -> None:
    api = Api(architecture="riscv64")
    with pytest.raises(BadAnswer, match="a node of amd64 or arm64.*riscv64"):
        tried(api, plan)
    assert api.pods == []


def test_uuids_are_the_names_of_mounts_and_libraries_those_of_the_pods_own_folders(tmp_path: Path) -> None:
    assert in_pod.given(tmp_path / "nothing") == []
    (tmp_path / "given").mkdir()
    for name in ("GPU-1", "MIG-2", "imex"):
        (tmp_path / "given" / name).touch()
    assert in_pod.given(tmp_path / "given") == ["GPU-1", "MIG-2"]
    (tmp_path / "lib" / "x86_64-linux-gnu").mkdir(parents=True)
    assert in_pod.libraries(tmp_path / "lib") == []
    (tmp_path / "lib" / "x86_64-linux-gnu" / "libcuda.so.580.95.05").touch()
    assert in_pod.libraries(tmp_path / "lib") == ["libcuda.so"]


def test_rdma_devices_are_found_by_name_and_the_limit_of_pinned_memory_is_said(tmp_path: Path) -> None:
    for name in ("uverbs1", "uverbs0", "rdma_cm"):
        (tmp_path / name).touch()
    assert in_pod.verbs(tmp_path) == ["uverbs0", "uverbs1"]
    assert in_pod.may_pin() == "unlimited" or in_pod.may_pin().isdigit()


def test_pods_that_are_refused_are_an_error_and_none_is_left(plan: Plan) -> None:
    api = Api(status=403)
    with pytest.raises(BadAnswer, match="exceeded quota"):
        tried(api, plan)
    assert len(api.deleted) == 1


def test_device_files_of_gpus_are_told_from_others() -> None:
    class File:
        def __init__(self, mode: int, major: int, minor: int) -> None:
            self.status = type("Status", (), {"st_mode": mode, "st_rdev": os.makedev(major, minor)})

        def stat(self) -> Any:
            return self.status

    class Folder:
        def glob(self, pattern: str) -> list[File]:
            assert pattern == "nvidia*"
            device = stat.S_IFCHR
            others = [File(device, 195, 255), File(device, 235, 0), File(stat.S_IFREG, 195, 1)]
            return [*others, File(device, 195, 7), File(device, 195, 0)]

    assert in_pod.seen(cast(Path, Folder())) == [0, 7]


@pytest.mark.parametrize(("error", "opened"), [(None, True), (1, False), (13, False), (6, True), (19, True)])
def test_only_what_the_kernel_refuses_counts_as_closed(
    error: int | None, opened: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EPERM and EACCES close; ENXIO and ENODEV are a GPU that is let through and has no driver behind it."""
    made: list[tuple[int, int]] = []

    def mknod(path: Path, mode: int, device: int) -> None:
        made.append((os.major(device), os.minor(device)))
        path.touch()

    real = os.open

    def open_(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if error and flags & os.O_NONBLOCK:
            raise OSError(error, "no")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "mknod", mknod)
    monkeypatch.setattr(os, "open", open_)
    assert in_pod.may_open(3, str(tmp_path)) is opened
    assert made == [(195, 3)]
    assert not list(tmp_path.iterdir())
