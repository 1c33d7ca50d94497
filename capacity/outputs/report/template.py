"""Templates of the HTML pages, with their style sheet."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from capacity.outputs.report import sheets

HERE = Path(__file__).parent


@cache
def environment() -> Environment:
    """Templates of HTML pages; other layers extend `page.html.j2` through their own loader."""
    made = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.globals["css"] = Markup((HERE / "page.css").read_text() + sheets.picture_style())
    return made
