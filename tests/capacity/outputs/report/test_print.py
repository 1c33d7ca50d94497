"""The report on paper: Chromium prints it with every closed table open."""

import html
import re
import subprocess
from pathlib import Path

import pytest

from capacity.outputs.report import page
from tests import browser
from tests.plans import plan_of

CLOSED = re.compile(r"<details(?![^>]*\bopen\b).*?</details>", re.S)
CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.S)


def printed(text: str, folder: Path) -> str:
    """The text of the page as a browser prints it, without spaces."""
    call = ["pdftotext", "-layout", str(browser.printed(text, folder)), "-"]
    read = subprocess.run(call, check=True, capture_output=True, timeout=60)
    return re.sub(r"\s+", "", read.stdout.decode())


def figures(text: str) -> set[str]:
    """Numbers with a decimal point in closed tables that stand nowhere else on the page."""
    elsewhere = CLOSED.sub("", text)
    cells = {html.unescape(cell) for part in CLOSED.findall(text) for cell in CELL.findall(part)}
    return {cell for cell in cells if re.fullmatch(r"[\d,]+\.\d+", cell) and cell not in elsewhere}


@pytest.mark.needs("chromium", "pdftotext")
def test_the_report_prints_with_its_tables_open(tmp_path: Path) -> None:
    text = page.render(plan_of("lab"))
    wanted = figures(text)
    assert len(wanted) > 10
    on_paper = printed(text, tmp_path)
    assert not {one for one in wanted if one not in on_paper}
