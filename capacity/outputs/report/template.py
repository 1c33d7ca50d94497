"""Templates of the HTML pages, with their style sheet."""

import contextlib
import sys
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from capacity.outputs.report import sheets
from inventory.paths import write_file

HERE = Path(__file__).parent


class Bytecode(BytecodeCache):
    """Templates as Python keeps its own modules: compiled, in the folder `__pycache__` here, as long as their text is the same."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what is kept; Jinja compares it with the template's text."""
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError), _kept_at(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep it, unless Python is told to write no bytecode or the folder cannot be written."""
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                write_file(_kept_at(bucket), bucket.bytecode_to_string())


def _kept_at(bucket: Bucket) -> Path:
    return Path(cache_from_source(str(HERE / f"{bucket.key}.py"))).with_suffix(".template")


@cache
def environment() -> Environment:
    """Templates of HTML pages; other layers extend `page.html.j2` through their own loader."""
    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        bytecode_cache=Bytecode(),
    )
    made.globals["css"] = Markup((HERE / "page.css").read_text() + sheets.picture_style())
    return made
