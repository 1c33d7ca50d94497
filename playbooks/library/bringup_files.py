#!/usr/bin/python3
"""Ansible module: a set of files with exact content, owner and mode, in one round trip to the node.

`template` and `copy` cost two to three round trips for each file; a node has about fifteen.
"""

import base64
import contextlib
import grp
import os
import pwd
import stat
import subprocess
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_files
short_description: Directories and files with exact content, owner and mode
description:
  - Writes each file next to its place, validates it there, then renames it, so that a reader sees the old or the new
    content and never a part. Nothing is written when content, owner, group and mode already fit.
options:
  directories:
    description: Directories that must exist, in order.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: path, required: true}
      owner: {description: User., type: str, default: root}
      group: {description: Group., type: str, default: root}
      mode: {description: Octal mode., type: str, default: "0755"}
  files:
    description: Files that must exist with this content.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: path, required: true}
      content: {description: The whole content; this or C(content_base64)., type: str}
      content_base64: {description: The whole content for files that are not text., type: str}
      owner: {description: User., type: str, default: root}
      group: {description: Group., type: str, default: root}
      mode: {description: Octal mode., type: str, default: "0644"}
      validate:
        description: Command that must exit 0 before the file goes live; the word C(%s) stands for the new file.
        type: list
        elements: str
        default: []
"""
RETURN = r"""
paths:
  description: What was changed (in check mode, what would be).
  type: list
  returned: always
"""

VALIDATE_BUDGET_S = 30
NOT_THERE = -1  # an owner that check mode finds missing, since its package is not installed yet


class CannotApplyError(Exception):
    """The message names the path, what was expected and what to do."""


def number(kind: str, name: str, *, path: str, check: bool) -> int:
    """The uid or gid of `name`; NOT_THERE in check mode when it does not exist (yet)."""
    try:
        return pwd.getpwnam(name).pw_uid if kind == "user" else grp.getgrnam(name).gr_gid
    except KeyError:
        if check:
            return NOT_THERE
        raise CannotApplyError(f"{path}: {kind} {name} does not exist; is its package installed?") from None


def validate(argv: list[str], candidate: str, path: str, *, check: bool) -> None:
    """Runs the validator on the candidate file. Check mode does without one that is not installed yet."""
    command = [candidate if word == "%s" else word for word in argv]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=VALIDATE_BUDGET_S, check=False)
    except FileNotFoundError:
        if check:
            return
        raise CannotApplyError(f"{path}: validator {command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise CannotApplyError(f"{path}: validator {command[0]} took over {VALIDATE_BUDGET_S} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().replace(candidate, path)
        raise CannotApplyError(f"{path}: {command[0]} refuses the new content, the old stays: {said}")


def apply_directory(spec: dict[str, Any], *, check: bool) -> bool:
    path, mode = spec["path"], int(spec["mode"], 8)
    uid = number("user", spec["owner"], path=path, check=check)
    gid = number("group", spec["group"], path=path, check=check)
    try:
        have = os.stat(path)
    except FileNotFoundError:
        have = None
    if have is not None:
        if not stat.S_ISDIR(have.st_mode):
            raise CannotApplyError(f"{path}: expected a directory, found something else; move it away")
        if (have.st_uid, have.st_gid, stat.S_IMODE(have.st_mode)) == (uid, gid, mode):
            return False
    if not check:
        os.makedirs(path, exist_ok=True)
        os.chown(path, uid, gid)
        os.chmod(path, mode)
    return True


def describe(content: bytes, owner: int, group: int, mode: int) -> str:
    """What a diff shows: ownership and mode, then the text."""
    return f"# uid {owner} gid {group} mode {mode:04o}\n{content.decode('utf-8', 'replace')}"


def content_of(spec: dict[str, Any]) -> bytes:
    if spec["content"] is not None:
        return str(spec["content"]).encode()
    return base64.b64decode(spec["content_base64"], validate=True)


def apply_file(spec: dict[str, Any], *, check: bool) -> dict[str, str] | None:
    """Makes one file so. Returns None when it already was, else Ansible's diff."""
    path, mode, content = spec["path"], int(spec["mode"], 8), content_of(spec)
    uid = number("user", spec["owner"], path=path, check=check)
    gid = number("group", spec["group"], path=path, check=check)
    before = ""
    try:
        have = os.lstat(path)
    except FileNotFoundError:
        have = None
    if have is not None:
        if stat.S_ISDIR(have.st_mode):
            raise CannotApplyError(f"{path}: expected a file, found a directory; move it away")
        if stat.S_ISREG(have.st_mode):
            with open(path, "rb") as stream:
                old = stream.read()
            if (old, have.st_uid, have.st_gid, stat.S_IMODE(have.st_mode)) == (content, uid, gid, mode):
                return None
            before = describe(old, have.st_uid, have.st_gid, stat.S_IMODE(have.st_mode))
    parent = os.path.dirname(path)
    where = parent if os.path.isdir(parent) and not check else None  # check mode leaves no trace, not even for a moment
    if where is None and not check:
        raise CannotApplyError(f"{path}: the directory {parent} does not exist; is its package installed?")
    handle, candidate = tempfile.mkstemp(prefix=".bringup-", dir=where)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(candidate, mode)
        if not check:
            os.chown(candidate, uid, gid)
        if spec["validate"]:
            validate(spec["validate"], candidate, path, check=check)
        if not check:
            os.replace(candidate, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(candidate)
    return {"before_header": path, "after_header": path, "before": before, "after": describe(content, uid, gid, mode)}


def main() -> None:
    common = {
        "path": {"type": "path", "required": True},
        "owner": {"type": "str", "default": "root"},
        "group": {"type": "str", "default": "root"},
    }
    module = AnsibleModule(
        argument_spec={
            "directories": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {**common, "mode": {"type": "str", "default": "0755"}},
            },
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    **common,
                    "mode": {"type": "str", "default": "0644"},
                    "content": {"type": "str"},
                    "content_base64": {"type": "str"},
                    "validate": {"type": "list", "elements": "str", "default": []},
                },
                "mutually_exclusive": [["content", "content_base64"]],
                "required_one_of": [["content", "content_base64"]],
            },
        },
        supports_check_mode=True,
    )
    paths: list[str] = []
    diffs: list[dict[str, str]] = []
    try:
        for spec in module.params["directories"]:
            if apply_directory(spec, check=module.check_mode):
                paths.append(spec["path"])
        for spec in module.params["files"]:
            diff = apply_file(spec, check=module.check_mode)
            if diff is not None:
                paths.append(spec["path"])
                diffs.append(diff)
    except (CannotApplyError, OSError) as error:
        module.fail_json(msg=str(error), changed=bool(paths), paths=paths, diff=diffs)
    module.exit_json(changed=bool(paths), paths=paths, diff=diffs)


if __name__ == "__main__":
    main()
