"""freeze: two approvers sign what a site goes live with: accepted state, register, limits, catalogue entries, program."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.cli.common import OK, add_out, add_site, add_verb, planned, standard_console
from infra.cli.evidence import add_key


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    freeze = add_verb(
        verbs,
        "freeze",
        run_freeze,
        "sign as one of two approvers what the site goes live with: accepted state, register, limits, program",
    )
    add_site(freeze)
    freeze.add_argument("--as", dest="name", metavar="NAME", help="your name; without it nothing is signed, only shown")
    add_key(freeze, required=False)
    add_out(freeze)


def run_freeze(arguments: argparse.Namespace) -> int:
    from infra.cli.common import UsageError
    from inventory.paths import var_dir
    from validation.evidence.keys import signer_from
    from validation.evidence.trust import open_store, recorder_of
    from validation.freeze import frozen_today, seen, sign
    from validation.register import register_for

    if bool(arguments.name) != bool(arguments.key):
        raise UsageError("signing needs both --as NAME and --key REFERENCE; leave both out to see what would be frozen")
    plan = planned(arguments.site)
    now = frozen_today(plan, register_for(plan.site))
    recorder = recorder_of(plan.site) if arguments.key else None
    store = open_store(
        plan.site, var_dir(plan.site.name, arguments.out) / "evidence", plan=plan.hash, recorder=recorder
    )
    console = standard_console()
    for line in seen(plan.site, store, now):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if arguments.key:
        key = signer_from(arguments.key, Path.cwd())
        said = sign(plan.site, store, now, arguments.name, key, datetime.now(UTC))
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    return OK
