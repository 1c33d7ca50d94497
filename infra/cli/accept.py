"""accept: keep the values and the allocation of a plan beside the site file, for later plans to start from."""

import argparse
import json
from typing import Any

from infra.cli.common import JUDGED_NO, OK, UsageError, add_site, add_verb, planned


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    accept = add_verb(
        verbs,
        "accept",
        run_accept,
        "keep the plan's values and allocation beside the site file; later plans start from them",
    )
    add_site(accept)
    accept.add_argument(
        "--despite",
        action="append",
        default=[],
        metavar="ID",
        help="accept although this error finding stands; may be repeated",
    )
    accept.add_argument(
        "--take",
        action="append",
        default=[],
        metavar="KEY",
        help="take today's value of an accepted key; may be repeated",
    )
    accept.add_argument(
        "--as-built",
        action="store_true",
        help="take the ends of cables that as_built.csv records in place of the planned ones",
    )


def run_accept(arguments: argparse.Namespace) -> int:
    from importlib.metadata import version

    from capacity.accepted import files_of, write
    from capacity.as_built import AsBuiltError, kept_as_built
    from capacity.build import build
    from capacity.sizes import complete
    from inventory.delivered.as_built import AS_BUILT_FILE
    from inventory.site.accepted import MANIFEST
    from inventory.site.loading import without_accepted

    plan = planned(arguments.site)
    site = plan.site
    if arguments.take:
        unknown = [key for key in arguments.take if tuple(key.split(".")) not in site.effective.superseded]
        if unknown:
            changed = ", ".join(".".join(map(str, path)) for path in site.effective.superseded) or "none is"
            raise UsageError(f"--take {unknown[0]}: not an accepted value that is another today ({changed})")
        plan = build(complete(without_accepted(site, [tuple(key.split(".")) for key in arguments.take])))
    if arguments.as_built:
        try:
            plan, moved = kept_as_built(plan, lambda folder: planned(arguments.site, start=folder))
        except AsBuiltError as problem:
            raise UsageError(f"--as-built: {problem}") from None
        if moved:
            print(f"as built: {moved} cables where {AS_BUILT_FILE} records them")
    against = sorted({one.id for one in plan.findings if one.severity == "error"} - set(arguments.despite))
    if against:
        print(
            f"not accepted: {', '.join(against)} stand against the plan (bringup plan {arguments.site}); --despite ID accepts them"
        )
        return JUDGED_NO
    files = files_of(plan, version("bringup"), arguments.despite)
    folder = write(site.dir, files)
    print(f"wrote {folder}\naccepted state {json.loads(files[MANIFEST])['hash']}: commit the folder with the site file")
    return OK
