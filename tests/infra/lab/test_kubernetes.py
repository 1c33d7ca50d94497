"""What the lab of a Kubernetes site is prepared from, without building or starting anything."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from capacity.build import build
from infra.lab import base, kubernetes, net
from infra.lab.paths import LabError
from infra.lab.planned import from_plan
from infra.lab.spec import LabSpec
from infra.lab.workstation import mirror_handler
from infra.toolchain import control_plane
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.site import load_site


def spec_of(name: str) -> LabSpec:
    site = load_site(name)
    return from_plan(site, build(site), load_assets(site), load_catalog(), load_gpus(site))


@pytest.fixture(scope="module")
def spec() -> LabSpec:
    return spec_of("lab-kubernetes")


def test_gpu_nodes_run_pods_and_a_lab_of_slurm_has_no_such_node(spec: LabSpec) -> None:
    assert spec.workers == ("gpu001", "gpu002", "gpu003", "gpu004")
    assert LabSpec.from_json(spec.to_json()) == spec
    assert spec_of("lab").workers == ()


def test_a_lab_without_its_preparation_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane, "programs", lambda: None)
    with pytest.raises(LabError, match="make setup-platform"):
        kubernetes.ready("1.36.3")


def test_another_version_than_was_built_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stamp").touch()
    monkeypatch.setattr(control_plane, "programs", lambda: tmp_path)
    monkeypatch.setattr(kubernetes, "places", lambda: (tmp_path, tmp_path, ""))
    with pytest.raises(LabError, match=r"versions\.kubernetes is 1\.35\.0, the lab has 1\.36\.3"):
        kubernetes.ready("1.35.0")
    assert kubernetes.ready("1.36.3").binds[0] == f"{tmp_path}:/opt/bringup/kubernetes/bin"


def test_an_image_is_an_oci_archive_whose_digests_hold_and_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"\x7fELF")
    given = ("docker.io/lab/a:1", {"bin/program": tmp_path / "program"}, {"bin/sh": "program"}, ["/bin/sh"])
    made = kubernetes.archive(*given)
    assert kubernetes.archive(*given) == made
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        files = {one.name: held.read() for one in tar.getmembers() if (held := tar.extractfile(one))}
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    (listed,) = json.loads(files["index.json"])["manifests"]
    assert listed["annotations"]["io.containerd.image.name"] == "docker.io/lab/a:1"
    manifest = json.loads(files[f"blobs/{listed['digest'].replace(':', '/')}"])
    layer = files[f"blobs/{manifest['layers'][0]['digest'].replace(':', '/')}"]
    with tarfile.open(fileobj=io.BytesIO(layer), mode="r:gz") as tar:
        names = {one.name: one for one in tar.getmembers()}
    assert names["bin/program"].mode == 0o755
    assert names["bin/sh"].linkname == "program"
    assert names["tmp"].mode == 0o1777


def test_a_node_keeps_its_containers_over_a_power_cut_and_loses_them_by_a_new_installation(tmp_path: Path) -> None:
    options = kubernetes.node_options(tmp_path)
    assert f"--bind={tmp_path}/containerd:/var/lib/containerd" in options
    (tmp_path / "containerd" / "image").touch()
    kubernetes.node_options(tmp_path)
    assert (tmp_path / "containerd" / "image").exists()
    kubernetes.empty(tmp_path)
    assert not (tmp_path / "containerd").exists()


def test_packages_of_kubernetes_are_no_part_of_the_mirror_that_every_lab_has() -> None:
    assert "containerd" in kubernetes.wanted_packages()
    assert not {"containerd", "runc", "containernetworking-plugins"} & set(base.wanted_packages())


def test_the_mirror_serves_each_folder_under_its_name(tmp_path: Path) -> None:
    handler = mirror_handler("/debs", {"nvidia": "", "kubernetes": "/kube"})
    asked = handler.__new__(handler)
    assert asked.translate_path("/Packages") == "/debs/Packages"
    assert asked.translate_path("/kubernetes/./Packages") == "/kube/Packages"
    assert asked.translate_path("/nvidia/Packages") == "/debs/nvidia/Packages"
    assert asked.translate_path("/kubernetes/../../etc/passwd") == "/kube/etc/passwd"


def test_a_node_with_a_kubelet_gets_its_groups_below_those_of_the_lab_never_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if len(net.CGROUP_ROOTS) == 1:
        assert net.kubelet_roots() == []
        return
    monkeypatch.setattr(Path, "read_text", lambda self: "4:memory:/user/a/bringup-lab/powerd\n2:cpu:/\n0::/\n")
    roots = {str(path) for path in net.kubelet_roots()}
    assert "/sys/fs/cgroup/memory/user/a" in roots
    assert "/sys/fs/cgroup/cpu" in roots
