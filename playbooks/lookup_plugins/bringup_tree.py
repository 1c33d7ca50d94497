"""Ansible lookup: a folder of this machine as a tar archive in base64, for the module bringup_tree.

The archive passes through memory several times, so a folder with more than MOST_BYTES is refused: images are no part of it.
"""

import base64
import io
import tarfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = r"""
name: bringup_tree
short_description: Folder as a compressed tar archive in base64
options:
  _terms: {description: Folders of this machine., required: true}
"""

MOST_BYTES = 64 << 20
"""About 25 times what `bringup boot render` writes for 1,000 servers."""


def archive(folder: Path) -> bytes:
    """The files below a folder, gzip-compressed. ValueError for too many bytes; OSError where it cannot be read."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    if not paths:
        raise ValueError("no files: bringup boot render writes them")
    total = sum(path.stat().st_size for path in paths)
    if total > MOST_BYTES:
        raise ValueError(f"{total} bytes, at most {MOST_BYTES}: keep images out of it")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as tar:
        for path in paths:
            content = path.read_bytes()
            member = tarfile.TarInfo(str(path.relative_to(folder)))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        made = []
        for folder in terms:
            try:
                made.append(base64.b64encode(archive(Path(folder))).decode())
            except (ValueError, OSError) as error:
                raise AnsibleError(f"{folder}: {error}") from None
        return made
