"""Verbs that compute from the site file: env, schema, plan, optimise, render. No root, no devices, any OS."""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.common import (
    CANNOT,
    JUDGED_NO,
    OK,
    UsageError,
    add_from,
    add_out,
    add_set,
    add_site,
    add_verb,
    page_of,
    planned,
    public_key,
    standard_console,
)
from inventory.paths import write_file

if TYPE_CHECKING:
    from capacity.accepted import Standing
    from capacity.model import Plan
    from inventory.site import Site

COMPUTE = "compute"
"""Folder of the compute switches' files, within that of a rendering."""
OOB = "oob"
"""That of the out-of-band switches."""


def add(verbs: Any) -> None:
    """Add the verbs to the command line."""
    env = add_verb(
        verbs, "env", run_env, 'print exports for pulumi, ansible-playbook and pytest; use: eval "$(bringup env)"'
    )
    env.add_argument(
        "--mitogen", action="store_true", help="let Ansible use mitogen's strategy: the same tasks, faster"
    )

    schema = add_verb(verbs, "schema", run_schema, "print the JSON Schema of the site file, for editors")
    schema.add_argument(
        "--catalog", action="store_true", help="of the files of the hardware catalogue instead (docs/catalog.md)"
    )
    schema.add_argument("--out", type=Path, metavar="FILE", help="write it to FILE instead")

    plan = add_verb(verbs, "plan", run_plan, "compute the plan of a site: frames, findings and a report")
    add_site(plan)
    plan.add_argument("--json", action="store_true", help="print the summary as JSON and nothing else")
    plan.add_argument("--html", type=Path, metavar="FILE", help="the report's file (default: DIR/plan/report.html)")
    add_set(plan, "what-if: plan the site with this key changed, in a folder of its own")
    plan.add_argument(
        "--sensitivity",
        action="store_true",
        help="also plan each assumption at both ends of its plausible range, and rank them by what they change",
    )
    plan.add_argument(
        "--fix", action="store_true", help="also find the fewest changes of the site file after which no error is left"
    )
    plan.add_argument(
        "--write", action="store_true", help="with --fix: write them into the site file, whose comments stay"
    )
    plan.add_argument(
        "--record", action="store_true", help="also sign the evidence of every computed and generated item of the plan"
    )
    add_from(plan)
    add_out(plan)

    optimise = add_verb(
        verbs,
        "optimise",
        run_optimise,
        "plan every combination of some keys, rank what can be built, say what rules out the rest",
    )
    add_site(optimise)
    optimise.add_argument(
        "--over",
        default="",
        metavar="KEY=VALUES,…",
        help="keys with ranges or lists: rack.servers=2..6,power.rack_circuit.breaker_a=60,80",
    )
    optimise.add_argument(
        "--maximise",
        choices=("servers", "gpus"),
        help="how many fit: the largest server.count without an error finding, for each combination of --over",
    )
    optimise.add_argument(
        "--free",
        default="",
        metavar="KEY,…",
        help="with --maximise: stated sizes that may follow the count, as oob.switches,inband.leaves",
    )
    optimise.add_argument(
        "--by",
        default="cost,power,racks,date",
        metavar="CRITERIA",
        help="order of the criteria (default: %(default)s)",
    )
    add_set(optimise, "change this key in every option")
    optimise.add_argument("--json", action="store_true", help="print all options as JSON and nothing else")

    render = add_verb(
        verbs, "render", run_render, "write switch configurations, schedules, labels, drawings and sheets to print"
    )
    add_site(render)
    render.add_argument("--device", metavar="NAME", help="print the configuration of this switch instead")
    add_from(render)
    add_out(render)


def run_env(arguments: argparse.Namespace) -> int:
    from infra import env

    env.prepare()
    sys.stdout.write(env.script(env.exports(os.environ) | (env.mitogen() if arguments.mitogen else {})))
    return OK


def run_schema(arguments: argparse.Namespace) -> int:
    from inventory.catalog import shown
    from inventory.site import json_schema

    made = shown.json_schema() if arguments.catalog else json_schema()
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if arguments.out:
        write_file(arguments.out, text)
    else:
        sys.stdout.write(text)
    return OK


def run_plan(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.markup import escape

    from capacity.accepted import load_standing
    from capacity.kept import Kept
    from capacity.outputs.files import MANIFEST, write_manifest, write_plan
    from capacity.outputs.report import page as report
    from capacity.outputs.summary import summarise
    from capacity.remedies import proved
    from infra import screens
    from infra.cli import assumptions
    from inventory.paths import var_dir

    for option, given in (("--set", arguments.settings), ("--from", arguments.start)):
        if arguments.record and given:
            raise UsageError(
                f"evidence is about the site as its file says, never about a what-if: leave out {option} or --record"
            )
    if arguments.write and (not arguments.fix or arguments.settings or arguments.start):
        raise UsageError(
            "--write goes with --fix, and not with --set or --from: it writes what mends the site as its file says"
        )
    chosen, kept = page_of(arguments.html), Kept(most=2)
    plan = planned(arguments.site, arguments.settings, arguments.start, kept)
    if arguments.fix:
        return fix(plan, arguments)
    with Console(stderr=True).status("Trying remedies") as line:
        plan = proved(plan, kept, lambda text: line.update(f"Trying {escape(text)}"))
    folder = var_dir(plan.site.name, arguments.out) / "plan"
    if arguments.settings:
        folder = folder.parent / "what-if" / what_if_name(arguments.settings)
    written = [path for name, path in write_plan(plan, folder).items() if name != MANIFEST]
    written.append(write_purchase(plan, folder))
    standing = load_standing(plan.site)
    if standing is not None:
        written.append(write_growth(standing, plan, folder))
    found = assumptions.studied(plan, folder, arguments.sensitivity)
    if found is not None:
        written.append(folder / assumptions.FILE)
    page = report.write(plan, chosen or folder / "report.html", found.by_key() if found else ())
    write_manifest(plan, folder, written if chosen else [*written, page])
    if arguments.json:
        summary = summarise(plan) | {"assumptions": assumptions.as_dict(plan, found)}
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    else:
        if plan.site.changes:
            standard_console().print(
                f"What-if, not the site's plan: {', '.join(plan.site.changes)}", style="yellow", markup=False
            )
        screens.show_plan(standard_console(), plan, page)
        if standing is not None:
            screens.show_growth(standard_console(), standing, plan)
        if found is not None and arguments.sensitivity:
            screens.show_sensitivity(standard_console(), found)
        screens.show_what_matters(standard_console(), plan, assumptions.as_dict(plan, found), arguments.site)
    status = JUDGED_NO if any(finding.severity == "error" for finding in plan.findings) else OK
    return max(status, record(arguments)) if arguments.record else status


def fix(plan: "Plan", arguments: argparse.Namespace) -> int:
    """Show what mends the plan, and write it where that is asked for; the status is that of the site file afterwards."""
    from rich.console import Console

    from capacity.remedies import fixes, stands_against
    from infra import screens
    from inventory.site.edit import edited

    console = Console(stderr=True)
    with console.status("Applying remedies") as status:
        found = fixes(plan, lambda text: status.update(f"Applying {text}"))
    site, after = plan.site, found.plan.site
    if arguments.json:
        left = stands_against(found.plan)
        print(json.dumps({"settings": found.settings, "left": left}, indent=2, ensure_ascii=False, default=str))
    else:
        screens.show_fixes(standard_console(), plan, found)
    if not arguments.write or not found.settings:
        return JUDGED_NO if stands_against(plan) else OK
    write_file(site.path, edited(site.path.read_text(encoding="utf-8-sig"), site.given, after.given))
    console.print(f"wrote {site.path}", markup=False)
    return JUDGED_NO if stands_against(found.plan) else OK


def what_if_name(settings: Sequence[str]) -> str:
    """Name of the folder of a what-if: its settings, or a hash of them where they are no name of a file."""
    name = ",".join(sorted(settings))
    return name if re.fullmatch(r"[\w.,=+-]{1,100}", name) else hashlib.sha256(name.encode()).hexdigest()[:16]


def write_growth(standing: "Standing", plan: "Plan", folder: Path) -> Path:
    """What happens to each device, cable and transceiver, as a table beside the frames."""
    from capacity.accepted import growth
    from capacity.outputs.documents.installation import transceivers

    found = growth(standing, plan.frames(), transceivers(plan))
    return write_file(folder / "growth.csv", found.to_csv(index=False, lineterminator="\n"))


def write_purchase(plan: "Plan", folder: Path) -> Path:
    """The bill of materials as a workbook, beside the frames."""
    from capacity.outputs import workbook

    return write_file(folder / "purchase.xlsx", workbook.purchase(plan))


def record(arguments: argparse.Namespace) -> int:
    """Run the checks that need no device, and sign what they say; the exit status of that run."""
    from inventory.paths import repo_root
    from inventory.site import find_site

    command = [
        sys.executable,
        "-m",
        "pytest",
        "validation",
        "-q",
        "--planned",
        "--site",
        str(find_site(arguments.site)),
    ]
    if arguments.out:
        command += ["--out", str(arguments.out.resolve())]
    sys.stdout.flush()
    done = subprocess.run(command, cwd=repo_root(), stdout=sys.stderr if arguments.json else None, check=False)
    return done.returncode if done.returncode in (OK, JUDGED_NO) else CANNOT


def run_optimise(arguments: argparse.Namespace) -> int:
    from capacity.whatif import optimise
    from infra import screens
    from inventory.site.whatif import Base, axes

    if arguments.maximise:
        return run_maximise(arguments)
    if not arguments.over:
        raise UsageError("optimise needs --over KEY=VALUES, or --maximise servers")
    by = tuple(arguments.by.split(","))
    unknown = sorted(set(by) - set(optimise.CRITERIA))
    if unknown:
        raise UsageError(f"--by knows {', '.join(optimise.CRITERIA)}, not {', '.join(unknown)}")
    result = optimise.explore(Base.read(arguments.site), axes(arguments.over), arguments.settings, by)
    if arguments.json:
        print(
            json.dumps(
                {"ranked": result.ranked.to_dict("records"), "ruled_out": result.ruled_out.to_dict("records")}, indent=2
            )
        )
    else:
        screens.show_options(standard_console(), result)
    return OK if len(result.ranked) else JUDGED_NO


def run_maximise(arguments: argparse.Namespace) -> int:
    import dataclasses

    from capacity.whatif.maximise import maximise
    from infra import screens
    from inventory.site.whatif import Base, axes, combinations

    base = Base.read(arguments.site)
    free = tuple(filter(None, arguments.free.split(",")))
    choices = list(combinations(axes(arguments.over))) if arguments.over else [()]
    found = [maximise(base, [*arguments.settings, *chosen], free) for chosen in choices]
    found.sort(key=lambda one: -getattr(one, arguments.maximise))
    if arguments.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
    else:
        screens.show_most(standard_console(), found)
    return OK if found[0].servers else JUDGED_NO


def run_render(arguments: argparse.Namespace) -> int:
    from capacity.outputs.documents.installation import documents
    from capacity.outputs.files import write_manifest
    from capacity.outputs.pdf import prints
    from capacity.services.platform.text import manifests
    from inventory.paths import var_dir
    from network import nos, oob, roce, separation
    from network.render import render, render_filter, switches

    plan = planned(arguments.site, start=arguments.start)
    known = switches(plan)
    try:
        key = _switch_key(plan.site)
        compute, access = roce.rendering(plan, key), oob.rendering(plan, key)
    except roce.PublicKeyError as error:
        raise UsageError(str(error)) from None
    if arguments.device:
        if arguments.device in known:
            sys.stdout.write(render(plan, arguments.device))
            return OK
        own = {name.rpartition(".")[0]: text for name, text in {**compute.files, **access.files}.items()}
        rendered = [name for name in (*roce.switches(plan), *oob.switches(plan)) if name in own]
        if arguments.device not in rendered:
            others = ", ".join([*known, *rendered])
            raise UsageError(f"{plan.site.name} has no configuration of a switch {arguments.device!r}; it has {others}")
        sys.stdout.write(own[arguments.device])
        return OK
    folder = var_dir(plan.site.name, arguments.out) / "render"
    paths = [write_file(folder / f"{switch}.conf", render(plan, switch)) for switch in known]
    paths += [write_file(folder / f"{switch}.nft", render_filter(plan, switch)) for switch in known]
    tracker = nos.folder(plan.site.inband.nos, "uplinks.sh").glob("uplinks.*")
    paths += [write_file(folder / file.name, file.read_text()) for file in sorted(tracker)]
    paths.append(
        write_file(folder / "separation.csv", separation.matrix(plan.site).to_csv(index=False, lineterminator="\n"))
    )
    papers: dict[str, str | bytes] = {**documents(plan), **prints(plan)}
    paths += [write_file(folder / name, content) for name, content in papers.items()]
    paths += [write_file(folder / COMPUTE / name, text) for name, text in compute.files.items()]
    paths += [write_file(folder / OOB / name, text) for name, text in access.files.items()]
    if plan.site.scheduler.kind == "kubernetes":
        paths.append(write_file(folder / "platform.yaml", manifests(plan)))
        print(f"Objects of the Kubernetes platform, for kubectl apply --server-side, in {paths[-1]}")
    manifest = write_manifest(plan, folder, paths)
    names = ", ".join([*papers, manifest.name])
    print(f"Uplink tracking, for each leaf as docs/network-boot.md says: uplinks.sh and uplinks.service in {folder}")
    print(f"Filters of {len(known)} switches (*.nft) after the matrix of networks in {folder / 'separation.csv'}")
    print(f"{len(known)} switch configurations and {len(papers)} documents in {folder}: {names}")
    if compute.files:
        print(f"{len(compute.files)} files of the compute switches in {folder / COMPUTE}: {', '.join(compute.files)}")
    if access.files:
        print(f"{len(access.files)} files of the out-of-band switches in {folder / OOB}: {', '.join(access.files)}")
    if not_covered := (*compute.not_covered, *access.not_covered):
        print("Not covered:\n" + "\n".join(f"  - {one}" for one in not_covered))
    return OK


def _switch_key(site: "Site") -> str:
    """The public key that opens switches; '' where the site has none, or configures no such switches."""
    return public_key(site, "switch") if site.credentials_given and (site.fabric.nos or site.oob.nos) else ""
