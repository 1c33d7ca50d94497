#!/usr/bin/python3
"""Ansible module: a tree of many small files with exact content and mode, in one round trip to the node.

`copy` of a folder costs two round trips for each file. The boot server of 1,000 servers has about 6,000.
"""

import base64
import contextlib
import io
import os
import stat
import tarfile
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_tree
short_description: A tree of many small files with exact content and mode
description:
  - Writes each file that differs next to its place, then renames it, so that a reader sees the old or the new
    content and never a part. Files that fit are left alone.
options:
  path: {description: Absolute path of the tree., type: path, required: true}
  archive:
    description: The files as a tar archive in base64, gzip-compressed or not (lookup plugin C(bringup_tree)).
    type: str
    required: true
  only_from_archive:
    description: Folders directly below C(path) that hold no other files than those of the archive. Other files there are removed.
    type: list
    elements: str
    default: []
  mode: {description: Octal mode of files., type: str, default: "0644"}
  directory_mode: {description: Octal mode of the directories that hold files of the archive., type: str, default: "0755"}
"""
RETURN = r"""
paths:
  description: What was changed (in check mode, what would be).
  type: list
  returned: always
"""


class CannotApplyError(Exception):
    """The message names the path, what was expected and what to do."""


def files_of(archive: bytes) -> dict[str, bytes]:
    """Content by path below the tree. CannotApplyError for anything but files at relative paths."""
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or member.name.startswith("/") or ".." in member.name.split("/"):
                    raise CannotApplyError(f"archive: {member.name} is no file at a relative path")
                found[os.path.normpath(member.name)] = content.read()
    except (tarfile.TarError, EOFError) as error:
        raise CannotApplyError(f"archive: expected a tar archive: {error}") from None
    return found


class Tree:
    """The tree at `path`. `paths` and `diffs` tell what was changed, or in check mode what would be."""

    def __init__(self, path: str, mode: int, directory_mode: int, *, check: bool, diff: bool) -> None:
        self.path, self.mode, self.directory_mode = path, mode, directory_mode
        self.check, self.diff = check, diff
        self.paths: list[str] = []
        self.diffs: list[dict[str, str]] = []

    def apply(self, files: dict[str, bytes], only_from_archive: list[str]) -> None:
        """Make the tree so."""
        parents = {parent for name in files for parent in parents_of(name)}
        for name in sorted(parents):
            self.directory(os.path.join(self.path, name))
        for name, content in sorted(files.items()):
            self.file(os.path.join(self.path, name), content)
        for folder in only_from_archive:
            self.remove_others(folder, files)

    def directory(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            have = os.stat(path).st_mode
            if not stat.S_ISDIR(have):
                raise CannotApplyError(f"{path}: expected a directory, found something else; move it away")
            if stat.S_IMODE(have) == self.directory_mode:
                return
        self.paths.append(path)
        if not self.check:
            os.makedirs(path, exist_ok=True)
            os.chmod(path, self.directory_mode)

    def file(self, path: str, content: bytes) -> None:
        old, old_mode = b"", None
        with contextlib.suppress(FileNotFoundError):
            have = os.lstat(path).st_mode
            if stat.S_ISDIR(have):
                raise CannotApplyError(f"{path}: expected a file, found a directory; move it away")
            if stat.S_ISREG(have):
                with open(path, "rb") as stream:
                    old, old_mode = stream.read(), stat.S_IMODE(have)
        if (old, old_mode) == (content, self.mode):
            return
        self.changed(path, described(old, old_mode), described(content, self.mode))
        if self.check:
            return
        handle, candidate = tempfile.mkstemp(prefix=".bringup-", dir=os.path.dirname(path))
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            os.chmod(candidate, self.mode)
            os.replace(candidate, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(candidate)

    def remove_others(self, folder: str, files: dict[str, bytes]) -> None:
        for parent, _, names in os.walk(os.path.join(self.path, folder)):
            for path in sorted(os.path.join(parent, name) for name in names):
                if os.path.relpath(path, self.path) not in files:
                    self.changed(path, f"{path}\n", "")
                    if not self.check:
                        os.unlink(path)

    def changed(self, path: str, before: str, after: str) -> None:
        self.paths.append(path)
        if self.diff:
            self.diffs.append({"before_header": path, "after_header": path, "before": before, "after": after})


def parents_of(name: str) -> list[str]:
    """The directories that a path needs, with the tree itself ('')."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]


def described(content: bytes, mode: int | None) -> str:
    """What a diff shows of a file: its mode, then the text; '' where there is none."""
    return "" if mode is None else f"# mode {mode:04o}\n{content.decode('utf-8', 'replace')}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "archive": {
                "type": "str",
                "required": True,
                "no_log": True,
            },  # megabytes, which neither log nor result needs
            "only_from_archive": {"type": "list", "elements": "str", "default": []},
            "mode": {"type": "str", "default": "0644"},
            "directory_mode": {"type": "str", "default": "0755"},
        },
        supports_check_mode=True,
    )
    given: dict[str, Any] = module.params
    tree = Tree(
        given["path"],
        int(given["mode"], 8),
        int(given["directory_mode"], 8),
        check=module.check_mode,
        diff=module._diff,
    )
    try:
        tree.apply(files_of(base64.b64decode(given["archive"])), given["only_from_archive"])
    except (CannotApplyError, OSError, ValueError) as error:
        module.fail_json(msg=str(error), changed=bool(tree.paths), paths=tree.paths, diff=tree.diffs)
    module.exit_json(changed=bool(tree.paths), paths=tree.paths, diff=tree.diffs)


if __name__ == "__main__":
    main()
