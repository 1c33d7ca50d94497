"""The build of what runs beside Kubernetes from its modules, with a Go compiler and a kubectl of the test's own."""

import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from infra.toolchain import control_plane, controllers
from infra.toolchain.paths import ToolchainError
from inventory.site import load_site

ALL = (*controllers.PROGRAMS, controllers.DEVICE_PLUGIN, controllers.COREDNS, *controllers.TOOLKIT)
GO = """#!/bin/sh
case "$1" in
mod)
  dir="$GOMODCACHE/$4"; mkdir -p "$dir"
  case "$4" in {sums} esac
  printf '{{"Dir": "%s", "Sum": "%s"}}' "$dir" "{altered}$sum"; exit;;
list) printf 'one\\ntwo\\n'; exit;;
esac
echo one >&2
mkdir -p "$GOCACHE" && touch "$GOCACHE/one"
{fails}
while [ "$1" != -o ]; do shift; done
echo "built with cgo $CGO_ENABLED" > "$2"; chmod 755 "$2"
"""
KUBECTL = '#!/bin/sh\nprintf "kind: Of\\nname: %s\\n" "${2##*/}"\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(controllers, "cache_dir", lambda: tmp_path / "cache")
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setattr(control_plane, "programs", lambda: tmp_path)
    use(tmp_path, monkeypatch)
    return tmp_path / "cache"


def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str = "", altered: str = "") -> None:
    sums = " ".join(f"{one.pinned}) sum={one.hash};;" for one in ALL)
    go = tmp_path / "go"
    go.write_text(GO.format(sums=sums, fails=fails, altered=altered))
    go.chmod(0o755)
    monkeypatch.setattr(controllers, "ensure_go", lambda cache, version: go)


def quiet(what: str, share: float) -> None: ...


def test_every_module_is_pinned_by_an_exact_version_and_a_hash() -> None:
    for one in ALL:
        assert re.fullmatch(r"v\d+\.\d+\.\d+", one.version), one.name
        assert re.fullmatch(r"h1:[A-Za-z0-9+/]{43}=", one.hash), one.name


def test_a_build_ends_in_the_cache_with_programs_and_manifests(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert controllers.controllers() is None
    assert controllers.device_plugin() is None
    assert controllers.container_toolkit() is None
    made = controllers.ensure(quiet)
    assert controllers.controllers() == made
    assert (made / "bin" / "kueue").read_text() == "built with cgo 0\n"
    plugin = controllers.device_plugin()
    assert plugin is not None
    assert plugin.read_text() == "built with cgo 1\n", "it loads NVIDIA's library, which is C"
    coredns = controllers.coredns()
    assert coredns is not None
    assert coredns.read_text() == "built with cgo 0\n"
    toolkit = controllers.container_toolkit()
    assert toolkit is not None
    assert {path.name for path in toolkit.iterdir()} == {"nvidia-container-runtime", "nvidia-ctk"}
    names = {one.name for one in controllers.PROGRAMS}
    assert {one.name for one in (made / "bin").iterdir()} == names
    assert {one.stem for one in (made / "manifests").iterdir()} == names
    kwok = (made / "manifests" / "kwok.yaml").read_text()
    assert [line for line in kwok.splitlines() if line == "---"] == ["---"] * 3, "a document per folder"
    assert not (cache / "build-controllers").exists()
    use(tmp_path, monkeypatch, fails="exit 9")
    assert controllers.ensure(quiet) == made, "a second run builds nothing"


def test_the_lab_has_the_toolkit_that_its_site_pins() -> None:
    pinned = load_site("lab-kubernetes").versions["container-toolkit"]
    assert {one.version for one in controllers.TOOLKIT} == {f"v{pinned}"}


def test_the_toolkit_is_built_where_the_others_are_there(cache: Path) -> None:
    controllers.ensure(quiet)
    toolkit = controllers.container_toolkit()
    assert toolkit is not None
    shutil.rmtree(toolkit.parent)
    assert not controllers.all_there()
    controllers.ensure(quiet)
    assert controllers.all_there()


def test_a_module_with_another_hash_is_refused_before_anything_is_built(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path, monkeypatch, altered="x")
    with pytest.raises(
        ToolchainError, match=r"sigs\.k8s\.io/kwok@v0\.8\.0: expected h1:.*, got xh1:.*Nothing of it was used"
    ):
        controllers.ensure(quiet)
    assert controllers.controllers() is None
    assert not (cache / "build-controllers" / "objects").exists()


def test_a_failed_build_keeps_what_was_compiled_and_leaves_no_programs(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path, monkeypatch, fails="echo 'no space left' >&2; exit 1")
    with pytest.raises(ToolchainError, match="no space left"):
        controllers.ensure(quiet)
    assert controllers.controllers() is None
    assert [one.name for one in (cache / "build-controllers" / "objects").iterdir()] == ["one"]


def test_without_kubernetes_it_says_what_comes_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane, "programs", lambda: None)
    with pytest.raises(ToolchainError, match="make setup-platform first"):
        controllers.ensure(quiet)


def test_a_full_disk_is_said_before_anything_is_downloaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(3 * 10**9))
    with pytest.raises(
        ToolchainError, match=rf"3\.0 GB are free, the build needs {controllers.DISK_GB} GB.*BRINGUP_CACHE"
    ):
        controllers.ensure(quiet)


def test_time_disk_and_memory_are_said_first(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert controllers.main(["--check"]) == 1
    assert controllers.main([]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert re.search(r"minutes of processor time.*GB of disk.*GB of memory", first)
    assert all(one.name in first for one in ALL)
    assert controllers.main(["--check"]) == 0
