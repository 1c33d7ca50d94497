"""Images of the controllers for the lab's nodes: what is in them, and where they go."""

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from infra.kube import dns
from infra.kube.manifests import SOURCES, image, image_name
from infra.lab import kubernetes
from infra.lab.paths import LabError
from infra.setup import controllers as setup
from infra.toolchain import controllers
from inventory.site import load_site

SHELL = Path(shutil.which("sh") or "/bin/sh")


def opened(archive: bytes) -> tuple[str, dict[str, Any], set[str]]:
    """(name, configuration, paths of files) of an image archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {one.name: held.read() for one in tar.getmembers() if (held := tar.extractfile(one))}

    def blob(one: Any) -> bytes:
        return files[f"blobs/{one['digest'].replace(':', '/')}"]

    (listed,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(listed))
    with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0])), mode="r:gz") as tar:
        paths = {one.name for one in tar.getmembers() if one.isfile()}
    return listed["annotations"]["io.containerd.image.name"], json.loads(blob(manifest["config"]))["config"], paths


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs in place of the built ones, and a folder for images."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "images").mkdir()
    for name in ("kueue", "jobset", "nvidia-device-plugin", "coredns"):
        shutil.copy(SHELL, tmp_path / "bin" / name)
    monkeypatch.setattr(controllers, "controllers", lambda: tmp_path)
    monkeypatch.setattr(controllers, "device_plugin", lambda: tmp_path / "bin" / "nvidia-device-plugin")
    monkeypatch.setattr(controllers, "coredns", lambda: tmp_path / "bin" / "coredns")
    monkeypatch.setattr(kubernetes, "ensure", lambda say: None)
    monkeypatch.setattr(kubernetes, "places", lambda: (tmp_path / "images", tmp_path, ""))
    return tmp_path


def archives(built: Path) -> dict[str, bytes]:
    return setup.archives(built, built / "bin" / "nvidia-device-plugin", built / "bin" / "coredns")


def test_images_have_the_names_that_the_labs_site_gives_them(built: Path) -> None:
    registry = load_site("lab-kubernetes").scheduler.registry
    made = archives(built)
    assert {opened(one)[0] for one in made.values()} == {
        *(image(source, registry) for source in SOURCES),
        image_name(dns.IMAGE, registry),
    }


def test_a_controller_runs_as_nobody_and_the_device_plugin_has_its_libraries(built: Path) -> None:
    made = archives(built)
    _, settings, paths = opened(made["kueue.tar"])
    assert (settings["User"], settings["Entrypoint"], paths) == ("65532:65532", ["/manager"], {"manager"})
    _, settings, paths = opened(made["k8s-device-plugin.tar"])
    assert "User" not in settings, "it writes into the kubelet's folder"
    assert "BRINGUP_NVML_HARDWARE=/driver-root/run/bringup-lab-hardware/gpu" in settings["Env"]
    assert "bin/nvidia-device-plugin" in paths
    assert any(Path(one).name.startswith("libc.so") for one in paths)


def test_images_are_written_where_they_differ_and_not_again(built: Path) -> None:
    said: list[str] = []
    setup.add_images(said.append)
    assert said == [f"image {name}.tar" for name in ("kueue", "jobset", "k8s-device-plugin", "coredns")]
    assert {one.name for one in (built / "images").iterdir()} == {one.removeprefix("image ") for one in said}
    setup.add_images(said.append)
    assert len(said) == 4


def test_without_the_programs_it_says_what_to_run(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "device_plugin", lambda: None)
    with pytest.raises(LabError, match="run make setup-controllers"):
        setup.add_images(print)
