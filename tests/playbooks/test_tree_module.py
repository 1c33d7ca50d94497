"""A rendered boot folder put in place by one call: what is written, what is removed, what is left alone."""

import base64
import io
import os
import stat
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.playbooks.support import Run, ansible, load

module: Any = load("library/bringup_tree.py")
lookup: Any = load("lookup_plugins/bringup_tree.py")
OWNED = ["seed", "plan"]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def files_below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def applied(source: Path, target: Path, *, check: bool = False, diff: bool = False) -> Any:
    tree = module.Tree(str(target), 0o644, 0o755, check=check, diff=diff)
    tree.apply(module.files_of(lookup.archive(source)), OWNED)
    return tree


RENDERED = {"boot.ipxe": "#!ipxe\n", "seed/m1/user-data": "a", "seed/m2/user-data": "b", "plan/m1.env": "A='1'\n"}


def test_files_and_directories_get_the_mode_of_the_role(tmp_path: Path) -> None:
    source = write(tmp_path / "rendered", RENDERED)
    (source / "boot.ipxe").chmod(0o600)
    before = os.umask(0o077)
    try:
        applied(source, tmp_path / "http")
    finally:
        os.umask(before)
    assert files_below(tmp_path / "http") == RENDERED
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "http", *(tmp_path / "http").rglob("*"))}
    assert all(mode == (0o755 if path.is_dir() else 0o644) for path, mode in modes.items())


def test_equal_content_changes_nothing_and_touches_no_file(tmp_path: Path) -> None:
    source = write(tmp_path / "rendered", RENDERED)
    applied(source, tmp_path / "http")
    seen = {path: path.stat() for path in (tmp_path / "http").rglob("*")}
    assert applied(source, tmp_path / "http").paths == []
    assert {path: path.stat() for path in (tmp_path / "http").rglob("*")} == seen


def test_only_folders_of_the_rendering_lose_files(tmp_path: Path) -> None:
    target = write(
        tmp_path / "http", {"images/gpu/1/root": "i", "installer/linux": "k", "ipxe.efi": "e", "seed/m9/u": "s"}
    )
    tree = applied(write(tmp_path / "rendered", RENDERED), target)
    assert str(target / "seed/m9/u") in tree.paths
    kept = {"images/gpu/1/root": "i", "installer/linux": "k", "ipxe.efi": "e"}
    assert files_below(target) == RENDERED | kept


def test_a_wrong_mode_alone_is_drift(tmp_path: Path) -> None:
    source, target = write(tmp_path / "rendered", RENDERED), tmp_path / "http"
    applied(source, target)
    (target / "plan/m1.env").chmod(0o666)
    (target / "seed/m1").chmod(0o700)
    assert applied(source, target).paths == [str(target / "seed/m1"), str(target / "plan/m1.env")]
    assert applied(source, target).paths == []


def test_a_symbolic_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a")
    target = tmp_path / "http"
    (target / "seed/m1").mkdir(parents=True)
    (target / "seed/m1/user-data").symlink_to(tmp_path / "elsewhere")
    (target / "seed/m1/other").symlink_to(tmp_path / "elsewhere")
    applied(write(tmp_path / "rendered", RENDERED | {"seed/m1/user-data": "new"}), target)
    assert (tmp_path / "elsewhere").read_text() == "a"
    assert not (target / "seed/m1/user-data").is_symlink()
    assert not (target / "seed/m1/other").exists()


TREES = st.dictionaries(
    st.sampled_from(["boot.ipxe", "seed/m1/u", "seed/m2/u", "plan/m1.env", "images/x", "plan/deep/er/x"]),
    st.text("ab\n", max_size=3),
    min_size=1,
)


@given(TREES, TREES)
@settings(max_examples=25, deadline=None)
def test_check_mode_foretells_what_is_done_and_does_nothing(
    tmp_path_factory: Any, old: dict[str, str], new: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    target, source = write(folder / "http", old), write(folder / "rendered", new)
    foretold = applied(source, target, check=True)
    assert files_below(target) == old
    assert applied(source, target).paths == foretold.paths
    kept = {name: text for name, text in old.items() if name.split("/")[0] not in OWNED}
    assert files_below(target) == kept | new
    assert applied(source, target).paths == []


def test_a_diff_names_each_file_with_what_it_was_and_will_be(tmp_path: Path) -> None:
    target = write(tmp_path / "http", {"plan/m1.env": "A='0'\n", "seed/m9/u": "s"})
    tree = applied(write(tmp_path / "rendered", RENDERED), target, check=True, diff=True)
    diffs = {diff["after_header"]: (diff["before"], diff["after"]) for diff in tree.diffs}
    plan = str(target / "plan/m1.env")
    assert diffs[plan] == ("# mode 0644\nA='0'\n", "# mode 0644\nA='1'\n")
    assert diffs[str(target / "boot.ipxe")] == ("", "# mode 0644\n#!ipxe\n")
    assert diffs[str(target / "seed/m9/u")][1] == ""


def packed(member: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(member)
    return out.getvalue()


@pytest.mark.parametrize("name", ["/etc/passwd", "seed/../../x", "link"])
def test_an_archive_reaches_nothing_outside_the_tree(name: str) -> None:
    member = tarfile.TarInfo(name)
    member.type = tarfile.SYMTYPE if name == "link" else tarfile.REGTYPE
    with pytest.raises(module.CannotApplyError, match=f"archive: {name} is no file at a relative path"):
        module.files_of(packed(member))
    with pytest.raises(module.CannotApplyError, match="expected a tar archive"):
        module.files_of(b"no archive")


def test_a_folder_that_was_not_rendered_or_holds_images_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(ValueError, match="no files: bringup boot render"):
        lookup.archive(tmp_path)
    monkeypatch.setattr(lookup, "MOST_BYTES", 3)
    with pytest.raises(ValueError, match="4 bytes, at most 3: keep images out of it"):
        lookup.archive(write(tmp_path, {"image": "1234"}))


def role(folder: Path, *arguments: str) -> Run:
    """The role's own task file on this machine: from folder/rendered into folder/root, as playbooks/boot.yml does it."""
    book, hosts = folder / "book.yml", folder / "hosts.ini"
    include = {"name": "boot_server", "tasks_from": "rendered.yml"}
    given_to = {"boot_server_folder": str(folder / "rendered"), "boot_server_root": str(folder / "root")}
    tasks = [{"ansible.builtin.include_role": include}]
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "vars": given_to, "tasks": tasks}]))
    hosts.write_text(f"node ansible_connection=local ansible_python_interpreter={sys.executable}\n")
    options = {"ANSIBLE_INVENTORY_ENABLED": "ini"}
    done = ansible("ansible-playbook", str(book), "-i", str(hosts), *arguments, var=folder, options=options)
    return Run(done.returncode, done.stdout + done.stderr, {})


def test_the_role_foretells_puts_in_place_and_then_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "rendered/http", RENDERED)
    write(tmp_path / "root/http", {"seed/m9/u": "s", "ipxe.efi": "e"})
    foretold = role(tmp_path, "--check", "--diff")
    assert "changed=1 " in foretold.output, foretold.output
    assert f"{tmp_path}/root/http/plan/m1.env" in foretold.output
    assert files_below(tmp_path / "root/http") == {"seed/m9/u": "s", "ipxe.efi": "e"}
    assert "changed=1 " in role(tmp_path).output
    assert files_below(tmp_path / "root/http") == RENDERED | {"ipxe.efi": "e"}
    again = role(tmp_path, "-vvv")
    assert "changed=0 " in again.output, again.output
    assert base64.b64encode(lookup.archive(tmp_path / "rendered/http")).decode() not in again.output
