"""The build of Kubernetes from its modules, with a Go compiler of the test's own."""

import re
from collections import namedtuple
from pathlib import Path

import pytest

from infra.toolchain import control_plane, golang
from infra.toolchain.paths import ToolchainError

GO = """#!/bin/sh
if [ "$1" = list ]; then printf 'one\\ntwo\\n'; exit; fi
echo one >&2
mkdir -p "$GOCACHE" && touch "$GOCACHE/one"
{fails}
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho Kubernetes v{version}\\n' > "$2"; chmod 755 "$2"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(control_plane, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str = "", version: str = "") -> None:
    go = tmp_path / "go"
    go.write_text(GO.format(fails=fails, version=version or control_plane.version()))
    go.chmod(0o755)
    monkeypatch.setattr(control_plane, "ensure_go", lambda cache, version: go)


def test_the_module_and_the_compiler_are_pinned() -> None:
    source = (control_plane.SOURCE / "go.mod").read_text()
    least = re.search(r"^go (\S+)$", source, re.M)
    assert least is not None
    assert golang.parse_version(control_plane.GO_VERSION) >= golang.parse_version(least[1])
    assert control_plane.GO_VERSION in golang.TOOLCHAIN_HASHES
    sums = (control_plane.SOURCE / "go.sum").read_text()
    assert f"k8s.io/kubernetes v{control_plane.version()} h1:" in sums
    staging = re.findall(r"=> k8s\.io/\S+ v(\S+)$", source, re.M)
    assert set(staging) == {f"0.{control_plane.version().partition('.')[2]}"}, "published parts of the same release"


def test_a_build_ends_in_the_cache_with_a_link_per_program(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path, monkeypatch)
    assert control_plane.programs() is None
    said: list[str] = []
    made = control_plane.ensure(lambda what, share: said.append(what))
    assert control_plane.programs() == made
    assert {one.name for one in made.iterdir()} == {*control_plane.PROGRAMS, control_plane.BINARY}
    assert (made / "etcd").resolve() == (made / control_plane.BINARY).resolve()
    assert not (cache / "build-kubernetes").exists()
    assert said[-1] == "compiling Go packages"
    use(tmp_path, monkeypatch, fails="exit 9")
    assert control_plane.ensure(lambda what, share: None) == made, "a second run builds nothing"


def test_a_failed_build_keeps_what_was_compiled_and_leaves_no_programs(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path, monkeypatch, fails="echo 'no space left' >&2; exit 1")
    with pytest.raises(ToolchainError, match="no space left"):
        control_plane.ensure(lambda what, share: None)
    assert control_plane.programs() is None
    assert [one.name for one in (cache / "build-kubernetes" / "objects").iterdir()] == ["one"]


def test_a_binary_of_another_version_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path, monkeypatch, version="0.0.0-master")
    with pytest.raises(ToolchainError, match=r"expected Kubernetes v1\..*says Kubernetes v0\.0\.0-master"):
        control_plane.ensure(lambda what, share: None)
    assert control_plane.programs() is None


def test_a_full_disk_is_said_before_anything_is_downloaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(3 * 10**9))
    with pytest.raises(ToolchainError, match=r"3\.0 GB are free, the build needs 5 GB.*BRINGUP_CACHE"):
        control_plane.ensure(lambda what, share: None)


def test_time_disk_and_memory_are_said_first(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(tmp_path, monkeypatch)
    assert control_plane.main(["--check"]) == 1
    assert control_plane.main([]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert re.search(r"12 minutes of processor time.*5 GB of disk.*3 GB of memory", first)
    assert control_plane.main(["--check"]) == 0
