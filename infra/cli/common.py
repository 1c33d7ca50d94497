"""What the verbs share: exit statuses, arguments that several have, and the plan of a site."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from capacity.kept import Kept
    from capacity.model import Plan
    from inventory.site import Site

OK, JUDGED_NO, CANNOT = 0, 1, 2
EXIT_CODES = """\
exit status:
  0  done, and nothing stands against it
  1  done, and the answer is no: the plan has error findings, devices differ from it, go-live is refused
  2  not done: bad arguments or input, a device that does not answer, broken evidence
"""
SITE_HELP = "name of a shipped site, or path of a site.yaml"

PIPED_WIDTH = 4096
"""Columns of a console that is no terminal."""
Verb = Callable[[argparse.Namespace], int]


class UsageError(Exception):
    """Arguments that are well-formed but do not fit the site, such as a device that the plan does not have."""


def add_verb(verbs: Any, name: str, run: Verb, text: str) -> argparse.ArgumentParser:
    """Add a verb: `text` is its help in the list of verbs and, as a sentence, on its own page."""
    made: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(verb=run)
    return made


def add_site(arguments: argparse.ArgumentParser) -> None:
    """The site as the verb's first argument."""
    arguments.add_argument("site", metavar="SITE", help=SITE_HELP)


def add_site_option(arguments: argparse.ArgumentParser) -> None:
    """The site as an option, for verbs whose first argument is something else."""
    arguments.add_argument("--site", metavar="SITE", required=True, help=SITE_HELP)


def add_out(arguments: argparse.ArgumentParser) -> None:
    """--out, which replaces var/<site>."""
    arguments.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of this site's outputs (default: $BRINGUP_VAR/SITE or var/SITE)"
    )


def add_set(arguments: argparse.ArgumentParser, text: str) -> None:
    """--set KEY=VALUE, which changes the site."""
    arguments.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"{text}; may be repeated (rack.servers=4, service_nodes.management.count=3)",
    )


def add_from(arguments: argparse.ArgumentParser) -> None:
    """--from, which replaces the accepted state beside the site file."""
    arguments.add_argument(
        "--from",
        dest="start",
        type=Path,
        metavar="DIR",
        help="start from the accepted state in DIR, in place of the one beside the site file (docs/accepted-state.md)",
    )


def page_of(path: Path | None) -> Path | None:
    """The file of --html; UsageError for a name of another kind of file, which it would replace."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--html {path}: a page ends in .html or .htm; name it {path.name}.html")
    return path


def planned(
    reference: str, settings: Sequence[str] = (), start: Path | None = None, kept: "Kept | None" = None
) -> "Plan":
    """The plan of a site given by name or path, with the assets that were delivered for it, with changed keys, and from another
    accepted state than the one beside the site file. `kept` takes the results of its stages.
    """
    from capacity import build
    from inventory.delivered.assets import load_assets
    from inventory.site import load_site
    from inventory.site.whatif import changed

    site = changed(reference, settings, start) if settings else load_site(reference, start)
    assets = load_assets(site)
    return (
        build.planned(site, None, assets, kept)
        if site.effective.sized()
        else build.build(site, assets=assets, kept=kept)
    )


def public_key(site: "Site", of: Literal["ssh", "switch"]) -> str:
    """The line beside the private key of credentials.ssh or credentials.switch, which the site must have; '' where there is
    no such file. UsageError for a file that cannot be read.
    """
    from inventory.secrets import SecretError
    from network.drivers import credentials

    try:
        return credentials.public_key(site, of)
    except SecretError as error:
        raise UsageError(str(error)) from None


def standard_console() -> Console:
    """The console of standard output; into a pipe or a file nothing is wrapped, so that a row stays one line."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def progress_lines() -> Callable[[str], None]:
    """Progress as one line per event, with the seconds since the start."""
    began = time.monotonic()
    console = Console(highlight=False)

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {escape(text)}", soft_wrap=True)

    return say
