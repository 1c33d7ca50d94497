"""`bringup lab …`: the embedded lab. Root on Linux."""

import argparse
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from infra.cli.common import OK, SITE_HELP, Verb, add_verb, planned, progress_lines, standard_console

if TYPE_CHECKING:
    from inventory.site import Site

DEFAULT_LAB = "lab"


def add(verbs: Any) -> None:
    """Add `lab` and its actions to the command line."""
    text = "build and operate virtual hardware for a site (root on Linux)"
    lab = verbs.add_parser("lab", help=text, description=text[0].upper() + text[1:] + ".")
    actions = lab.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Verb, help_text: str) -> argparse.ArgumentParser:
        made = add_verb(actions, name, run, help_text)
        what = (
            SITE_HELP
            if name in ("up", "save", "restore")
            else "name of the lab (that of its site), or path of the site.yaml"
        )
        made.add_argument("--site", metavar="SITE", default=DEFAULT_LAB, help=f"{what} (default: {DEFAULT_LAB})")
        return made

    action("up", run_up, "start the site's virtual hardware in factory state; clears the remains of a crash first")
    action("down", run_down, "stop it and remove everything of it but the shared cache")
    status = action("status", run_status, "say what runs, device by device")
    status.add_argument("--json", action="store_true", help="print all that is known as JSON")
    shell = action("exec", run_exec, "run a command as root on a switch or a running node, as from its console")
    shell.add_argument("device", metavar="DEVICE", help="name of the switch or node, as in the plan")
    shell.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER, help="what to run (default: a shell)")
    fault = action("fault", run_fault, "break something on purpose; without NAME, say what there is to break")
    fault.add_argument("fault", metavar="NAME", nargs="?", help="what goes wrong")
    fault.add_argument("target", metavar="TARGET", nargs="*", help="device, port or outlet (default: one of the lab's)")
    repair = action(
        "repair", run_repair, "undo all faults, the latest first, or the one that was injected with these words"
    )
    repair.add_argument("fault", metavar="NAME", nargs="?", default="", help="what went wrong (default: all)")
    repair.add_argument("target", metavar="TARGET", nargs="*", help="as it was given to fault")
    action("save", run_save, "set the lab aside as it is configured, for `restore`; its servers boot once")
    action("restore", run_restore, "start the lab as it was saved for this plan and these playbooks, in seconds")


def lab_name(reference: str) -> str:
    """Name of a lab: the reference itself, unless it is a path to the site file that the lab was built from."""
    from inventory.site import load_site

    return load_site(reference).name if "/" in reference or reference.endswith(".yaml") else reference


def run_up(arguments: argparse.Namespace) -> int:
    from infra import lab, stack
    from infra.lab.up import up

    plan = planned(arguments.site)
    was_up = lab.is_up(plan.site.name)
    up(plan.site, plan, progress_lines())
    if not was_up:
        stack.start_over(plan.site.name)
        start_evidence_over(plan.site)
    return OK


def run_save(arguments: argparse.Namespace) -> int:
    from infra.lab import snapshot

    plan = planned(arguments.site)
    snapshot.save(plan.site.name, snapshot.key(plan.site, plan), progress_lines())
    return OK


def run_restore(arguments: argparse.Namespace) -> int:
    from infra import stack
    from infra.lab import snapshot

    plan = planned(arguments.site)
    snapshot.restore(plan.site, plan, snapshot.key(plan.site, plan), progress_lines())
    stack.start_over(plan.site.name)
    start_evidence_over(plan.site)
    return OK


def start_evidence_over(site: "Site") -> None:
    """Set aside what the key of another lab recorded: today's key does not verify it."""
    from inventory.paths import var_dir
    from validation.evidence.trust import set_aside_another_labs

    if aside := set_aside_another_labs(site, var_dir(site.name) / "evidence", datetime.now(UTC)):
        progress_lines()(f"the evidence of an earlier lab is now in {aside}")


def run_down(arguments: argparse.Namespace) -> int:
    from infra import lab

    lab.down(lab_name(arguments.site), progress_lines())
    return OK


def run_status(arguments: argparse.Namespace) -> int:
    from infra import lab, screens

    state = lab.status(lab_name(arguments.site))
    if arguments.json:
        print(json.dumps(state, indent=2))
    else:
        screens.show_lab(standard_console(), state)
    return OK


def run_exec(arguments: argparse.Namespace) -> int:
    from infra import lab

    argv = lab.exec_argv(lab_name(arguments.site), arguments.device, arguments.command or ["/bin/sh"])
    os.execvp(argv[0], argv)


def run_fault(arguments: argparse.Namespace) -> int:
    from infra import lab, screens

    if arguments.fault is None:
        screens.show_faults(standard_console(), lab.FAULTS)
    else:
        print(lab.fault(lab_name(arguments.site), arguments.fault, arguments.target))
    return OK


def run_repair(arguments: argparse.Namespace) -> int:
    from infra import lab

    undone = lab.repair(lab_name(arguments.site), arguments.fault, arguments.target)
    for what in undone:
        print(f"undone: {what}")
    if not undone:
        print("no fault to undo")
    return OK
