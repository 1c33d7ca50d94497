"""Verbs that compute from the site file: env, schema, plan, render. No root, no devices, any OS."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from infra.cli.common import JUDGED_NO, OK, UsageError, add_out, add_site, add_verb, planned


def add(verbs: Any) -> None:
    """Add the verbs to the command line."""
    add_verb(verbs, "env", run_env, 'print exports for pulumi, ansible-playbook and pytest; use: eval "$(bringup env)"')

    schema = add_verb(verbs, "schema", run_schema, "print the JSON Schema of the site file, for editors")
    schema.add_argument("--out", type=Path, metavar="FILE", help="write it to FILE instead")

    plan = add_verb(verbs, "plan", run_plan, "compute the plan of a site: frames, findings and a report")
    add_site(plan)
    plan.add_argument("--json", action="store_true", help="print the summary as JSON and nothing else")
    plan.add_argument("--html", type=Path, metavar="FILE", help="the report's file (default: DIR/plan/report.html)")
    add_out(plan)

    render = add_verb(
        verbs, "render", run_render, "write switch configurations, cable and power labels, address and cable lists"
    )
    add_site(render)
    render.add_argument("--device", metavar="NAME", help="print the configuration of this switch instead")
    add_out(render)


def run_env(arguments: argparse.Namespace) -> int:
    from infra import env

    env.prepare()
    sys.stdout.write(env.script(env.exports(os.environ)))
    return OK


def run_schema(arguments: argparse.Namespace) -> int:
    from inventory.site import json_schema

    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    if arguments.out:
        arguments.out.write_text(text)
    else:
        sys.stdout.write(text)
    return OK


def run_plan(arguments: argparse.Namespace) -> int:
    from capacity import report
    from infra import screens
    from inventory.paths import var_dir

    plan = planned(arguments.site)
    folder = var_dir(plan.site.name, arguments.out) / "plan"
    plan.write(folder)
    page = report.write(plan, arguments.html or folder / "report.html")
    if arguments.json:
        print(json.dumps(plan.summary(), indent=2, ensure_ascii=False))
    else:
        screens.show_plan(Console(), plan, page)
    return JUDGED_NO if any(finding.severity == "error" for finding in plan.findings) else OK


def run_render(arguments: argparse.Namespace) -> int:
    from capacity.documents import documents
    from inventory.paths import var_dir
    from network.render import render, switches

    plan = planned(arguments.site)
    known = switches(plan)
    if arguments.device:
        if arguments.device not in known:
            raise UsageError(f"{plan.site.name} has no in-band switch {arguments.device!r}; it has {', '.join(known)}")
        sys.stdout.write(render(plan, arguments.device))
        return OK
    folder = var_dir(plan.site.name, arguments.out) / "render"
    folder.mkdir(parents=True, exist_ok=True)
    for switch in known:
        (folder / f"{switch}.conf").write_text(render(plan, switch))
    written = documents(plan)
    for name, text in written.items():
        (folder / name).write_text(text)
    print(f"{len(known)} switch configurations and {len(written)} documents in {folder}: {', '.join(written)}")
    return OK
