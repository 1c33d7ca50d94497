"""Data files that come with the program, read by libyaml where PyYAML has it: a tenth of the time of PyYAML's own parser.

What was read is kept as JSON in the folder `__pycache__` beside the file, as Python keeps the bytecode of modules: reading that
takes a tenth of libyaml's time. It counts while the file has the same size and time of change. Where it cannot be written, or
Python is told to write no bytecode, nothing is kept. JSON holds data only: a file that somebody put there runs nothing.

Not for what people hand in: libyaml takes no care of hostile nesting (inventory/site/yaml_source.py does), and `handed_in` reads
small files of theirs.
"""

import contextlib
import json
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import yaml

from inventory.paths import read_file, repo_root, write_file

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_BYTES = 64 << 20
FORM = 1
"""Form of what is kept; another number makes what was kept before count no longer."""


class _HandedIn(yaml.SafeLoader):
    """PyYAML's own reader, for which a value that its tag cannot have is a fault of the text: `rack_u: !!int`."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            kind = node.tag.removeprefix("tag:yaml.org,2002:")
            said = f"{node.value!r} is no value of the tag {kind}" if isinstance(node, yaml.ScalarNode) else str(error)
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None


def handed_in(text: str) -> Any:
    """The content of a text that somebody wrote. yaml.YAMLError, which names the place, when it cannot be read."""
    try:
        return yaml.load(text, Loader=_HandedIn)
    except RecursionError:
        raise yaml.YAMLError("too deeply nested") from None


def read_data(path: Path) -> Any:
    """The content of a file. OSError, UnicodeDecodeError or yaml.YAMLError when it cannot be read."""
    if not path.is_relative_to(repo_root()):
        return _read(path)
    status = os.stat(path)
    stamp = [FORM, status.st_size, status.st_mtime_ns]
    kept = kept_at(path)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(kept.read_bytes())
        if isinstance(found, dict) and found.get("of") == stamp:
            return found["is"]
    content = _read(path)
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            text = json.dumps({"of": stamp, "is": content})
            if json.loads(text)["is"] == content:  # no dates, no keys that are numbers
                write_file(kept, text)
    return content


def kept_at(path: Path) -> Path:
    """Where the content of a file is kept."""
    return Path(cache_from_source(f"{path}.py")).with_suffix(".json")


def _read(path: Path) -> Any:
    return yaml.load(read_file(path, MAX_BYTES).decode("utf-8"), Loader=LOADER)
