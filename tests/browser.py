"""Pages in headless Chromium: what one shows on a screen of some width, measured by a script in the page around it.

    shown(text, script, folder, width_px)     # what the script returns of the page's document, as plain data
    picture(text, folder, width_px)           # a PNG of it
    printed(text, folder)                     # its PDF

The page itself runs no script: it stands in a frame, and the script that looks into it is the test's.
"""

import contextlib
import functools
import html
import http.server
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BUDGET_S = 300
"""A browser starts in seconds; on a machine that other tests keep busy it takes more."""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)
AROUND = """<!doctype html><meta charset="utf-8"><title>around</title><body style="margin: 0">
<iframe id="frame" src="page.html" style="border: 0; width: {width_px}px; height: {height_px}px"></iframe>
<script>
document.getElementById("frame").addEventListener("load", event => {{
  const page = event.target.contentDocument;
  let found;
  try {{ found = {{said: (page => {{ {script} }})(page)}}; }} catch (error) {{ found = {{error: String(error)}}; }}
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(found);
  document.body.replaceChildren(told);
}});
</script>
"""


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The folder at an address: files of one folder are strangers to each other in a browser."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _chromium(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    call = ["chromium", *FLAGS, f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(call, check=True, capture_output=True, text=True, timeout=BUDGET_S)


def shown(text: str, script: str, folder: Path, width_px: int, height_px: int = 900) -> Any:
    """What `script`, the body of a function of `page` (its document), returns. Fails for a script that fails and for what the
    console of the browser says.
    """
    (folder / "page.html").write_text(text)
    (folder / "around.html").write_text(AROUND.format(script=script, width_px=width_px, height_px=height_px))
    with _served(folder) as address:
        done = _chromium(folder, "--dump-dom", f"{address}/around.html")
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    said = json.loads(html.unescape(found[1]))
    assert "error" not in said, said
    assert not (console := [line for line in done.stderr.splitlines() if "CONSOLE" in line]), console
    return said["said"]


def picture(text: str, folder: Path, width_px: int, height_px: int = 900) -> Path:
    """A PNG of the top of the page, at least 500 px wide: Chromium makes no narrower window."""
    (folder / "page.html").write_text(text)
    path = folder / "page.png"
    _chromium(folder, f"--window-size={width_px},{height_px}", f"--screenshot={path}", (folder / "page.html").as_uri())
    return path


def printed(text: str, folder: Path) -> Path:
    """The page on paper."""
    (folder / "page.html").write_text(text)
    path = folder / "page.pdf"
    _chromium(folder, f"--print-to-pdf={path}", (folder / "page.html").as_uri())
    return path
