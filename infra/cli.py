"""The `bringup` command: what neither `pulumi` nor `ansible-playbook` nor `pytest` is for.

This module parses arguments, calls one library function per verb and shows what it returned; it decides nothing. The
libraries are imported by the verb that needs them, so that `bringup env` and `--help` answer at once.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from capacity.plan import Plan

OK, JUDGED_NO, CANNOT = 0, 1, 2
EXIT_CODES = """\
exit status:
  0  done, and nothing stands against it
  1  done, and the answer is no: the plan has error findings, devices differ from it, go-live is refused
  2  not done: bad arguments or input, a device that does not answer, broken evidence
"""
SITE_HELP = "name of a shipped site, or path of a site.yaml"
DEFAULT_LAB = "lab"


def expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose text is meant for the person at the keyboard; anything else is a bug and keeps its traceback."""
    from infra.lab.paths import LabError
    from infra.toolchain.paths import ToolchainError
    from inventory.assets import AssetError
    from inventory.catalog import CatalogError
    from inventory.secrets import SecretError
    from inventory.site import SiteError
    from network.drivers.errors import DeviceError
    from validation.evidence.keys import SigningKeyError
    from validation.evidence.store import IntegrityError

    return (
        SiteError, CatalogError, AssetError, SecretError, DeviceError, LabError, ToolchainError, SigningKeyError,
        IntegrityError, UsageError,
    )  # fmt: skip


class UsageError(Exception):
    """Arguments that are well-formed but do not fit the site, such as a device that the plan does not have."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status (see EXIT_CODES)."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.verb(arguments)
        sys.stdout.flush()
    except expected_errors() as error:
        print(f"bringup: {error}", file=sys.stderr)
        return CANNOT
    except BrokenPipeError:  # `bringup schema | head`
        sys.stderr.close()
        return OK
    except KeyboardInterrupt:
        return 130
    return status


# --- Arguments ------------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="bringup",
        description="Plan an AI training cluster from one site file, look at what stands, and judge its evidence.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)

    verb(verbs, "env", run_env, 'print exports for pulumi, ansible-playbook and pytest; use: eval "$(bringup env)"')

    schema = verb(verbs, "schema", run_schema, "print the JSON Schema of the site file, for editors")
    schema.add_argument("--out", type=Path, metavar="FILE", help="write it to FILE instead")

    plan = verb(verbs, "plan", run_plan, "compute the plan of a site: frames, findings and a report")
    add_site(plan)
    plan.add_argument("--json", action="store_true", help="print the summary as JSON and nothing else")
    plan.add_argument("--html", type=Path, metavar="FILE", help="the report's file (default: DIR/plan/report.html)")
    add_out(plan)

    render = verb(
        verbs, "render", run_render, "write the configuration of every in-band switch, as Pulumi will push it"
    )
    add_site(render)
    render.add_argument("--device", metavar="NAME", help="print the configuration of this switch instead")
    add_out(render)

    add_lab(verbs)
    return top


def verb(
    verbs: Any, name: str, run: Callable[[argparse.Namespace], int], text: str, **options: Any
) -> argparse.ArgumentParser:
    """Add a verb: `text` is its help in the list and on its own page."""
    made: argparse.ArgumentParser = verbs.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter, **options,
    )  # fmt: skip
    made.set_defaults(verb=run)
    return made


def add_site(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("site", metavar="SITE", help=SITE_HELP)


def add_out(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of this site's outputs (default: $BRINGUP_VAR/SITE or var/SITE)"
    )


def add_lab(verbs: Any) -> None:
    """`bringup lab …`: the embedded lab."""
    text = "build and operate virtual hardware for a site (root on Linux)"
    lab = verbs.add_parser("lab", help=text, description=text[0].upper() + text[1:] + ".")
    actions = lab.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Callable[[argparse.Namespace], int], help_text: str) -> argparse.ArgumentParser:
        made = verb(actions, name, run, help_text)
        what = SITE_HELP if name == "up" else "name of the lab (that of its site), or path of the site.yaml"
        made.add_argument("--site", metavar="SITE", default=DEFAULT_LAB, help=f"{what} (default: {DEFAULT_LAB})")
        return made

    action("up", run_lab_up, "start the site's virtual hardware in factory state; clears the remains of a crash first")
    action("down", run_lab_down, "stop it and remove everything of it but the shared cache")
    action("status", run_lab_status, "say what runs, device by device").add_argument(
        "--json", action="store_true", help="print it as JSON"
    )
    shell = action("exec", run_lab_exec, "run a command as root on a switch or a running node, as from its console")
    shell.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="command and arguments (default: a shell)"
    )


# --- Verbs ----------------------------------------------------------------------------------------------------------


def run_env(arguments: argparse.Namespace) -> int:
    import os

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


def planned(reference: str) -> "Plan":
    """The plan of a site given by name or path, with the assets that were delivered for it."""
    from capacity.plan import build
    from inventory.assets import load_assets
    from inventory.site import load_site

    site = load_site(reference)
    return build(site, assets=load_assets(site))


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
    print(f"{len(known)} switch configurations in {folder}")
    return OK


def run_lab_up(arguments: argparse.Namespace) -> int:
    from infra import lab

    plan = planned(arguments.site)
    lab.up(plan.site, plan, progress_lines())
    return OK


def run_lab_down(arguments: argparse.Namespace) -> int:
    from infra import lab

    lab.down(lab_name(arguments.site), progress_lines())
    return OK


def run_lab_status(arguments: argparse.Namespace) -> int:
    from infra import lab, screens

    state = lab.status(lab_name(arguments.site))
    if arguments.json:
        print(json.dumps(state, indent=2))
    else:
        screens.show_lab(Console(), state)
    return OK


def run_lab_exec(arguments: argparse.Namespace) -> int:
    import os

    from infra import lab

    command = arguments.command or ["/bin/sh"]
    argv = lab.exec_argv(lab_name(arguments.site), arguments.device, command)
    os.execvp(argv[0], argv)


def lab_name(reference: str) -> str:
    """Name of a lab: the reference itself, unless it is a path to the site file that the lab was built from."""
    from inventory.site import load_site

    return load_site(reference).name if "/" in reference or reference.endswith(".yaml") else reference


def progress_lines() -> Callable[[str], None]:
    """Progress as one line per event, with the seconds since the start."""
    began = time.monotonic()
    console = Console(highlight=False)

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {escape(text)}", soft_wrap=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
