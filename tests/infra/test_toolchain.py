import base64
import hashlib
import re
import subprocess
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infra.toolchain import golang, pulumi_cli
from infra.toolchain.paths import ToolchainError

GO_MOD = Path(pulumi_cli.__file__).parent / "go.mod"


def fake_cli(folder: Path, version: str) -> Path:
    """A folder with executables that answer `pulumi version` and nothing else."""
    folder.mkdir(parents=True)
    for name in pulumi_cli.EXECUTABLES:
        (folder / name).write_text(f"#!/bin/sh\n[ $1 = version ] && echo {version}\n")
        (folder / name).chmod(0o755)
    return folder


def test_go_mod_pins_the_version_of_the_python_sdk() -> None:
    versions = re.findall(r"github\.com/pulumi/pulumi/(?:pkg|sdk)/v3 v(\S+)", GO_MOD.read_text())
    assert versions == [pulumi_cli.sdk_version()] * 2


def test_downloaded_go_is_the_one_that_go_mod_asks_for() -> None:
    assert pulumi_cli.go_mod_version() == golang.GO_VERSION


@pytest.mark.parametrize(
    ("version", "fit"),
    [("v3.232.0", True), ("v3.272.1", True), ("v3.231.9", False), ("v4.0.0", False), ("v2.9.0", False)],
)
def test_cli_fits_when_it_is_of_the_same_major_and_not_older(
    version: str, fit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi_cli, "sdk_version", lambda: "3.232.0")
    assert pulumi_cli.fits(version) is fit


def test_fitting_cli_on_path_is_used(tmp_path: Path) -> None:
    folder = fake_cli(tmp_path / "bin", "v3.999.0")
    assert pulumi_cli.on_path(str(folder)) == pulumi_cli.Cli(folder, "PATH")


def test_old_cli_on_path_is_not_used(tmp_path: Path) -> None:
    assert pulumi_cli.on_path(str(fake_cli(tmp_path / "bin", "v3.1.0"))) is None


def test_cli_without_its_language_host_is_not_used(tmp_path: Path) -> None:
    folder = fake_cli(tmp_path / "bin", "v3.999.0")
    (folder / "pulumi-language-python").unlink()
    assert pulumi_cli.on_path(str(folder)) is None


def test_own_link_on_path_does_not_count_as_the_machines_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi_cli, "tools_dir", lambda: tmp_path)
    assert pulumi_cli.on_path(str(fake_cli(tmp_path / "pulumi" / "bin", "v3.999.0"))) is None


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone that has no CLI yet, an empty PATH, and a host of the installer that does not answer."""

    def refuse(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(pulumi_cli, "pulumi_link", lambda: tmp_path / "tools" / "pulumi")
    monkeypatch.setattr(pulumi_cli, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def built_by_a_fake(target: Path, progress: pulumi_cli.Progress) -> Path:
    scratch = target.parent / "scratch"
    target.parent.mkdir(exist_ok=True)
    fake_cli(scratch / "bin", f"v{pulumi_cli.sdk_version()}")
    pulumi_cli.finish(scratch, target, "built")
    return target


def test_unreachable_installer_leads_to_a_build_and_the_second_clone_uses_its_result(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{clone}:/bin:/usr/bin")
    monkeypatch.setattr(pulumi_cli, "on_path", lambda: None)
    monkeypatch.setattr(pulumi_cli, "build", built_by_a_fake)
    assert pulumi_cli.ensure(lambda *_: None).origin == "built"

    def never(*_: Any) -> Path:
        raise AssertionError("built a second time")

    monkeypatch.setattr(pulumi_cli, "build", never)
    (clone / "tools" / "pulumi").unlink()
    cli = pulumi_cli.ensure(lambda *_: None)
    assert (cli.bin / "pulumi").resolve().is_relative_to(clone / "cache")


def test_cli_of_an_earlier_sdk_is_not_taken_for_installed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = clone / "tools" / "pulumi"
    fake_cli(folder / "bin", "v3.1.0")
    (folder / "origin").write_text("3.1.0 built\n")
    assert pulumi_cli.installed() is None


def test_cli_built_from_other_sources_is_not_taken_for_installed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = built_by_a_fake(clone / "cache" / pulumi_cli.built_name(), lambda *_: None)
    pulumi_cli.link_to(target)
    assert pulumi_cli.installed() is not None
    monkeypatch.setattr(pulumi_cli, "source_hash", lambda: "changed")
    assert pulumi_cli.installed() is None


def test_build_result_of_a_wrong_version_is_refused(tmp_path: Path) -> None:
    fake_cli(tmp_path / "scratch" / "bin", "v3.1.0")
    with pytest.raises(ToolchainError, match="got v3.1.0"):
        pulumi_cli.finish(tmp_path / "scratch", tmp_path / "target", "built")
    assert not (tmp_path / "target").exists()


def test_failing_command_shows_its_last_words() -> None:
    with pytest.raises(ToolchainError, match=r"(?s)failed \(3\).*out of disk"):
        pulumi_cli.run(["/bin/sh", "-c", "echo out of disk >&2; exit 3"], limit_s=10.0)


def test_hanging_command_is_ended_by_its_budget() -> None:
    with pytest.raises(ToolchainError, match=r"did not finish within 0 s"):
        pulumi_cli.run(["/bin/sleep", "60"], limit_s=0.2)


def module_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_module_hash_is_that_of_the_checksum_database(tmp_path: Path) -> None:
    # The definition, spelled out: base64 of SHA-256 over "<sha256 of file>  <name>\n", sorted by name.
    listing = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in [("a", b"1"), ("b", b"2")]
    )
    expected = "h1:" + base64.b64encode(hashlib.sha256(listing.encode()).digest()).decode()
    assert golang.module_hash(module_zip(tmp_path / "m.zip", {"b": b"2", "a": b"1"})) == expected


def test_download_with_another_hash_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang, "fetch_module", lambda version, path: module_zip(path, {"bin/go": b"evil"}))
    with pytest.raises(ToolchainError, match="expected h1:MkNv.*, got h1:"):
        golang.download_go("linux-amd64", tmp_path / "go")
    assert list(tmp_path.iterdir()) == []


def test_architecture_without_a_pinned_hash_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="install Go >= "):
        golang.download_go("linux-riscv64", tmp_path / "go")


def test_unreachable_proxy_is_named(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "https://goproxy.example/mirror,direct")
    with pytest.raises(ToolchainError, match=r"https://goproxy\.example/mirror/golang\.org.*no route to host"):
        golang.fetch_module("v0.0.1-go1.25.8.linux-amd64", clone / "go.zip")


@pytest.mark.parametrize(
    ("goproxy", "expected"),
    [
        ("", ["https://proxy.golang.org"]),
        ("https://a.example/|http://b.example,direct", ["https://a.example", "http://b.example"]),
        ("off", []),
    ],
)
def test_proxies_are_taken_from_goproxy_in_order(goproxy: str, expected: list[str]) -> None:
    assert golang.proxies(goproxy) == expected


@pytest.mark.parametrize(
    ("reported", "new_enough"), [("go1.25.8", True), ("go1.26", True), ("go1.19.8", False), ("devel +abc", False)]
)
def test_go_on_path_is_used_when_new_enough(
    reported: str, new_enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text(f"#!/bin/sh\necho '{reported}'\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    downloads: list[Path] = []
    monkeypatch.setattr(golang, "download_go", lambda target, root, version: downloads.append(root))
    used = golang.ensure_go(tmp_path / "cache")
    assert (used == go) is new_enough
    assert bool(downloads) is not new_enough


@pytest.mark.skipif(pulumi_cli.installed() is None, reason="no Pulumi CLI of our own: run make setup")
def test_installed_cli_answers_with_the_sdks_version() -> None:
    cli = pulumi_cli.installed()
    assert cli is not None
    run = subprocess.run([cli.bin / "pulumi", "version"], capture_output=True, text=True, timeout=30, check=True)
    assert pulumi_cli.fits(run.stdout)
