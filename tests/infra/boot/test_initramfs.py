"""The archive that a kernel unpacks: readable by cpio, the same bytes for the same entries, nothing outside its root."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.boot.initramfs import File, Link, archive


@pytest.mark.needs("cpio")
def test_cpio_reads_it_back(tmp_path: Path) -> None:
    made = archive({"bin/sh": Link("busybox"), "bin/busybox": File(b"#!ELF" * 100, 0o755), "etc/a": File(b"x")})
    subprocess.run(["cpio", "-i", "-d", "--quiet"], input=made, cwd=tmp_path, check=True)
    assert (tmp_path / "bin/busybox").read_bytes() == b"#!ELF" * 100
    assert (tmp_path / "bin/busybox").stat().st_mode & 0o777 == 0o755
    assert str((tmp_path / "bin/sh").readlink()) == "busybox"


@given(st.dictionaries(st.sampled_from([f"f{n}" for n in range(9)]), st.binary(max_size=30), min_size=2))
def test_the_order_of_entries_does_not_matter(contents: dict[str, bytes]) -> None:
    entries = {name: File(data) for name, data in contents.items()}
    assert archive(entries) == archive(dict(reversed(entries.items())))


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ""])
def test_a_path_outside_the_root_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path within an initramfs"):
        archive({path: File(b"")})


def test_a_path_that_is_file_and_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="'bin' is a file and a folder"):
        archive({"bin": Link("usr/bin"), "bin/sh": Link("busybox")})
