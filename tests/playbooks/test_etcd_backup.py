"""Backups of etcd: made whole or not at all, thinned out, and brought back beside what was there.

etcdctl and etcdutl are scripts of the test; tests/infra/test_etcd_restored.py does the same with the real ones.
"""

from pathlib import Path

import pytest

from tests.playbooks.support import load

module = load("roles/kubernetes_control_plane/files/etcd_backup.py")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """`etcdctl … snapshot save FILE` writes FILE; `etcdutl snapshot status FILE` fails for a file that says broken."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "etcdctl").write_text('#!/bin/sh\nfor last in "$@"; do :; done\ncp "$(dirname "$0")/content" "$last"\n')
    (folder / "etcdutl").write_text(
        "#!/bin/sh\n"
        'grep -q broken "$3" && { echo "snapshot is corrupt" >&2; exit 1; }\n'
        'if [ "$2" = restore ]; then for word in "$@"; do case $word in\n'
        '  --data-dir=*) mkdir "${word#*=}" && cp "$3" "${word#*=}/db";; esac; done\n'
        '  echo "$@" >"$(dirname "$0")/told"; fi\n'
    )
    for name in ("etcdctl", "etcdutl"):
        (folder / name).chmod(0o755)
    (folder / "content").write_text("whole")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "backups"
    made.mkdir()
    return made


def save(programs: Path, folder: Path, keep: int = 5) -> Path:
    return Path(module.save(programs, folder, keep, "https://127.0.0.1:2379", "/pki"))


def test_a_backup_is_the_owners_alone_and_nothing_is_left_beside_it(programs: Path, folder: Path) -> None:
    path = save(programs, folder)
    assert [one.name for one in folder.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_newest_are_kept(programs: Path, folder: Path) -> None:
    made = [save(programs, folder, keep=2) for _ in range(4)]
    assert module.backups(folder) == made[-2:]


def test_one_that_cannot_be_read_is_none_and_costs_no_earlier_one(programs: Path, folder: Path) -> None:
    first = save(programs, folder, keep=1)
    (programs / "content").write_text("broken")
    with pytest.raises(module.BackupError, match="snapshot is corrupt"):
        save(programs, folder, keep=1)
    assert list(folder.iterdir()) == [first]


def test_a_restore_sets_aside_what_was_there_and_raises_the_revision(
    programs: Path, folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "etcd"
    data.mkdir()
    (data / "db").write_text("before")
    aside = module.restore(programs, save(programs, folder), data, ["--name=ctl01"])
    assert (data / "db").read_text() == "whole"
    assert (Path(aside) / "db").read_text() == "before"
    told = (programs / "told").read_text()
    assert "--bump-revision=1000000000 --mark-compacted --name=ctl01" in told


def test_a_backup_that_cannot_be_read_leaves_the_data_as_it_is(programs: Path, folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "etcd"
    data.mkdir()
    (folder / "etcd-1.db").write_text("broken")
    with pytest.raises(module.BackupError, match="corrupt"):
        module.restore(programs, folder / "etcd-1.db", data, [])
    assert [one.name for one in tmp_path.glob("etcd*")] == ["etcd"]


def test_a_backup_that_is_not_there_is_named_with_those_that_are(
    programs: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = save(programs, folder)
    asked = ["restore", f"--programs={programs}", f"--file={folder}/none.db", f"--data={tmp_path}/etcd"]
    assert module.main(asked) == 1
    assert f"none.db: no such backup; the newest beside it: {known.name}" in capsys.readouterr().err


def test_without_the_programs_the_role_that_brings_them_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(module.BackupError, match="role kubernetes installs it"):
        save(tmp_path / "nowhere", folder)
