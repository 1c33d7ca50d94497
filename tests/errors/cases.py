"""The cases of this folder: ``<fault>.yaml`` beside ``<fault>.txt``, the exact message that it must give.

A case file gives only the sections that it breaks. What it does not give is appended from ``_valid.yaml``, below its
last line, so that the lines named in a message are lines of the case file. ``# without: KEY`` leaves a section out and
``# alone`` appends nothing.

    python -m tests.errors.update    writes the .txt files anew; review the diff
"""

import re
from pathlib import Path

from inventory.site import SiteError, parse_site

FOLDER = Path(__file__).parent
TOP_LEVEL_KEY = re.compile(r"^([a-z_]+):", re.MULTILINE)


def case_names() -> list[str]:
    """Names of all cases, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.stem.startswith("_"))


def sections(text: str) -> dict[str, str]:
    """The top-level sections of a site file's text, by key."""
    starts = [match.start() for match in TOP_LEVEL_KEY.finditer(text)]
    chunks = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return {chunk.split(":", 1)[0]: chunk for chunk in chunks}


def whole_text(name: str) -> str:
    """The text of a case, completed from the valid site."""
    text = (FOLDER / f"{name}.yaml").read_bytes().decode("utf-8", errors="surrogateescape")
    if re.search(r"^# alone$", text, re.MULTILINE):
        return text
    left_out = set(re.findall(r"^# without: (\S+)$", text, re.MULTILINE)) | set(TOP_LEVEL_KEY.findall(text))
    valid = sections((FOLDER / "_valid.yaml").read_text(encoding="utf-8"))
    return text + "".join(chunk for key, chunk in valid.items() if key not in left_out)


def message(name: str) -> str:
    """The message that a case gives; AssertionError if it is accepted."""
    try:
        parse_site(whole_text(name), f"{name}.yaml")
    except SiteError as error:
        return f"{error}\n"
    raise AssertionError(f"{name}.yaml is accepted; it should be refused")
