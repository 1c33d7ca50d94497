"""The verb catalog: which hardware the planner knows, each figure with its source."""

import argparse
import json
import sys
from typing import Any

from infra.cli.common import JUDGED_NO, OK, SITE_HELP, UsageError, add_verb

PIPED_COLUMNS = 240
"""Width of a table that goes to a file or a pipe: ids stay whole."""


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    catalog = add_verb(verbs, "catalog", run_catalog, "list the hardware catalogue, or show one entry with its sources")
    catalog.add_argument("action", metavar="list|show", choices=("list", "show"), help="what to do")
    catalog.add_argument(
        "entry", metavar="ID", nargs="?", help="id of the entry to show; for list: part of ids or kinds"
    )
    catalog.add_argument("--site", metavar="SITE", help=f"with the entries of this site's own; {SITE_HELP}")
    catalog.add_argument("--json", action="store_true", help="print it as JSON and nothing else")


def run_catalog(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from rich.console import Console

    from infra.values_shown import table
    from inventory.catalog import load_catalog, site_catalog
    from inventory.catalog.shown import listed, shown
    from inventory.site import find_site

    console = Console() if sys.stdout.isatty() else Console(width=PIPED_COLUMNS)
    known = site_catalog(find_site(arguments.site).parent) if arguments.site else load_catalog()
    if arguments.action == "show":
        if arguments.entry is None:
            raise UsageError("say which entry: bringup catalog show nvidia-dgx-h100")
        values = shown(known, arguments.entry)
        if arguments.json:
            print(json.dumps([asdict(one) for one in values], indent=2, ensure_ascii=False))
            return OK
        file = known.paths.get(arguments.entry)
        shown_rows = [(one.key, one.value, one.source) for one in values]
        console.print(table(str(file or arguments.entry), "key", "value", "source", rows=shown_rows))
        return OK
    wanted = arguments.entry or ""
    entries = [one for one in listed(known) if wanted in one.id or wanted in one.what]
    if arguments.json:
        broken = [{"what": one.what, "file": str(one.path), "text": one.text} for one in known.broken.values()]
        print(json.dumps({"entries": [asdict(one) for one in entries], "broken": broken}, indent=2, ensure_ascii=False))
    else:
        rows = [(one.what, one.id, one.name, "site" if one.own else "", one.unconfirmed or "") for one in entries]
        heads = ("kind", "id", "name", "from", "#not confirmed")
        console.print(table(f"{len(entries)} entries", *heads, rows=rows))
        for one in known.broken.values():
            print(f"Cannot be used: {one.text}")
    return JUDGED_NO if known.broken else OK
