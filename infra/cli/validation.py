"""`bringup validation`: a burn-in of days that does not depend on the shell that started it, and the checks of one machine."""

import argparse
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.common import CANNOT, JUDGED_NO, OK, UsageError, add_out, add_site, add_verb, planned

if TYPE_CHECKING:
    from capacity.model import Plan
    from validation.runners.burn_in import Started
    from validation.runners.engine import Drain, Engine

SHOWS = {"Slurm": "sinfo", "Kubernetes": "kubectl describe nodes"}
CHECK = "test_gpu_burn_in_ends_without_fault"


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    text = "start the burn-in of all GPU nodes, see how far it is, collect it"
    validation = verbs.add_parser("validation", help=text, description=text[0].upper() + text[1:] + ".")
    acts = validation.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, run, text in (
        ("start", run_start, "submit the burn-in as one job on each GPU node, and return"),
        ("status", run_status, "say how far the burn-in is; exit 0 when it is over"),
        ("collect", run_collect, "judge the burn-in when it is over, and sign what it showed (S034)"),
        ("stop", run_stop, "cancel its jobs and remove what they left; nothing is recorded"),
    ):
        act = add_verb(acts, name, run, text)
        add_site(act)
        add_out(act)
        if name == "start":
            text = "only this GPU node, also one that is drained (repeatable; default: all that take jobs)"
            act.add_argument("--node", action="append", metavar="NODE", help=text)
    back = add_verb(
        acts,
        "return",
        run_return,
        "let a drained node run jobs again if what it failed has passed since; exit 1 says what is missing",
    )
    add_site(back)
    back.add_argument("node", metavar="NODE", help="the node, as the plan names it")
    add_out(back)
    drift = add_verb(
        acts, "drift", run_drift, "report what the playbooks would change now; exit 1 where something drifted (S143)"
    )
    add_site(drift)
    add_out(drift)
    drift.add_argument(
        "--every",
        metavar="TIME",
        help="run nothing; print a systemd service and timer for the management node that report so often: 30min, 6h, 1d",
    )
    here = add_verb(
        acts, "here", run_here, "run the GPU checks on this machine alone, without a scheduler; signs nothing"
    )
    here.add_argument("--out", type=Path, metavar="DIR", required=True, help="folder for what the programs write")
    here.add_argument("--seconds", type=float, default=100.0, help="length of the burn-in (default: 100)")
    here.add_argument("--faults", action="store_true", help="then run a burn-in with each fault that must be found")
    here.add_argument("--python", default=sys.executable, metavar="PATH", help="Python with torch (default: this one)")
    here.add_argument("--nccl-tests", type=Path, metavar="DIR", help="source tree of nccl-tests to build and run")
    here.add_argument(
        "--cpu",
        type=int,
        default=0,
        metavar="RANKS",
        help="compute on CPUs with so many processes: proves nothing of GPUs",
    )


def run_start(arguments: argparse.Namespace) -> int:
    from inventory.paths import var_dir
    from validation.evidence.trust import open_store
    from validation.runners import burn_in
    from validation.runners.engines import engine_of

    plan = _tested(arguments)
    folder = var_dir(plan.site.name, arguments.out)
    if (before := burn_in.started_of(folder, plan)) is not None:
        raise UsageError(
            f"a burn-in of {_nodes(len(before.jobs))} has been started and not judged: bringup validation collect "
            f"{arguments.site}, or stop to give it up"
        )
    scheduler = engine_of(plan)
    store = open_store(plan.site, folder / "evidence", plan=plan.hash).id()
    try:
        nodes, drained = _wanted(arguments, plan, scheduler)
        started = burn_in.start(plan, scheduler, nodes, drained, store=store)
    except burn_in.NodeNotFree as error:
        raise UsageError(str(error)) from None
    burn_in.keep(folder, started)
    burn_in.open_up(scheduler, started)
    hours = started.duration_s / 3600
    print(f"burn-in of {hours:g} h started on {_nodes(len(started.jobs))}, a job on each")
    for drain in drained:
        print(f"  {drain.node} takes no other jobs, and collect or stop drains it again: {drain.reason}")
    print(f"next: bringup validation status {arguments.site}")
    return OK


def _wanted(arguments: argparse.Namespace, plan: "Plan", scheduler: "Engine") -> "tuple[list[str], list[Drain]]":
    """(nodes to load, those of them that are drained); without names all that take jobs, and the others are told."""
    from validation.runners import burn_in

    if named := arguments.node:
        gpu = burn_in.gpu_nodes(plan)
        if unknown := [node for node in named if node not in gpu]:
            raise UsageError(f"{unknown[0]} is no GPU server of {plan.site.name}; they are {gpu[0]} to {gpu[-1]}")
        nodes = list(dict.fromkeys(named))
        return nodes, burn_in.drains(scheduler, nodes)
    nodes, others = burn_in.in_service(plan, scheduler)
    for node, state in others.items():
        print(f"left out: {node} is {state}; a drained one: bringup validation start {arguments.site} --node {node}")
    if not nodes:
        raise UsageError(f"no GPU node takes jobs: {SHOWS[scheduler.title]} shows why")
    return nodes, []


def run_status(arguments: argparse.Namespace) -> int:
    from validation.runners import burn_in

    scheduler, started, *_ = _under_way(arguments)
    standing = scheduler.standing(list(started.jobs.values()))
    left = burn_in.running(standing, started)
    by_state: dict[str, list[str]] = {}
    for node, job in started.jobs.items():
        by_state.setdefault(standing[job].state if job in standing else f"unknown to {scheduler.title}", []).append(
            node
        )
    longest_h = max((one.seconds for one in standing.values()), default=0.0) / 3600
    print(f"burn-in of {started.duration_s / 3600:g} h, the longest has run for {longest_h:.2f} h")
    for state, nodes in sorted(by_state.items()):
        print(f"  {state}: {_nodes(len(nodes))} ({_shown(nodes)})")
    print(f"next: bringup validation {'status' if left else 'collect'} {arguments.site}")
    return JUDGED_NO if left else OK


def run_here(arguments: argparse.Namespace) -> int:
    from validation import here
    from validation.supported_gpus import ONLY_NVIDIA

    ranks = arguments.cpu or here.gpus_of_this_machine(arguments.python)
    if not ranks and here.amd_gpus_of_this_machine():
        raise UsageError(
            f"the GPUs of this machine are AMD's (driver amdgpu): {ONLY_NVIDIA}; --cpu 2 tries the programs on CPUs"
        )
    if not ranks:
        raise UsageError(f"{arguments.python} finds no GPU here through NVML; --cpu 2 runs the programs on CPUs")
    computes_on = "cpu" if arguments.cpu else "gpu"
    wanted = here.Wanted(
        arguments.out.resolve(),
        arguments.python,
        ranks,
        arguments.seconds,
        arguments.faults,
        computes_on,
        arguments.nccl_tests,
    )
    done = here.run(wanted, lambda text: print(text, flush=True))
    for text in done["not_shown"]:
        print(f"not shown by one GPU: {text}")
    print(f"kept: {arguments.out}")
    return JUDGED_NO if any(one["result"] == "failed" for one in done["stages"]) else OK


def run_collect(arguments: argparse.Namespace) -> int:
    from inventory.paths import repo_root
    from inventory.site import find_site
    from validation.runners import burn_in

    scheduler, started, _, plan = _under_way(arguments)
    left = burn_in.running(scheduler.standing(list(started.jobs.values())), started)
    if left and burn_in.overdue(plan, started):
        print(f"cancelled on {_shown(left)}: every job should have ended by now")
        left = burn_in.give_up(plan, scheduler, started)
    if left:
        print(
            f"the burn-in still runs on {len(left)} of {len(started.jobs)} nodes: bringup validation status",
            file=sys.stderr,
        )
        return JUDGED_NO
    command = [sys.executable, "-m", "pytest", "validation", "-k", CHECK, "--site", str(find_site(arguments.site))]
    command += ["--out", str(arguments.out.resolve())] if arguments.out else []
    sys.stdout.flush()
    done = subprocess.run(command, cwd=repo_root(), check=False)
    return done.returncode if done.returncode in (OK, JUDGED_NO) else CANNOT


def run_drift(arguments: argparse.Namespace) -> int:
    from inventory.paths import repo_root, var_dir
    from inventory.site import find_site
    from validation import drift_reports
    from validation.runners import ansible

    path = find_site(arguments.site)
    out = ["--out", str(arguments.out.resolve())] if arguments.out else []
    if arguments.every is not None:
        every_s = _seconds(arguments.every)
        command = [sys.executable, "-m", "infra.cli", "validation", "drift", str(path), *out]
        print(drift_reports.timer(path, planned(arguments.site).site.name, every_s, command, repo_root()), end="")
        return OK
    plan = planned(arguments.site)
    began = datetime.now(UTC)
    drift = ansible.drift(plan.site)
    found = drift_reports.report(plan, drift, began, datetime.now(UTC))
    written = drift_reports.write(var_dir(plan.site.name, arguments.out), found)
    for line in found.changes:
        files = f" ({', '.join(line['files'])})" if line["files"] else ""
        print(f"{line['host']}: {line['role']}: {line['task']}{files}")
    for failed in drift.failures:  # why stands here alone: a message may quote what was refused
        why = " ".join(str(failed.get("message", "")).split())[:200]
        print(f"{failed['host']}: failed: {failed['role']}: {failed['task']}: {why}")
    print(f"report: {written}")
    if drift.error:
        print(drift.error, file=sys.stderr)
        return CANNOT
    drifted = found.drifted()
    print(
        f"{len(drifted)} of {len(found.hosts)} hosts drifted"
        if drifted
        else f"{len(found.hosts)} hosts, nothing drifted"
    )
    return JUDGED_NO if drifted else OK


def _seconds(text: str) -> int:
    """Seconds of a time like 30min, 6h or 1d. UsageError for another text, or less than ten minutes or more than a month."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})(min|h|d)", text)
    seconds = int(found[1]) * {"min": 60, "h": 3600, "d": 86400}[found[2]] if found else 0
    if not 600 <= seconds <= 31 * 86400:
        raise UsageError(f"--every {text}: expected a time from 10min to 31d, such as 30min, 6h or 1d")
    return seconds


def run_return(arguments: argparse.Namespace) -> int:
    from inventory.paths import var_dir
    from validation import gate
    from validation.evidence.store import LAB_ROLE
    from validation.return_to_service import why_not
    from validation.runners.engines import engine_of

    plan = _tested(arguments)
    gpu = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    if arguments.node not in gpu:
        raise UsageError(f"{arguments.node} is no GPU server of {plan.site.name}; they are {gpu[0]} to {gpu[-1]}")
    scheduler = engine_of(plan)
    drain = scheduler.drain(arguments.node)
    rehearsal = plan.site.credentials.evidence.role == LAB_ROLE
    folder = var_dir(plan.site.name, arguments.out)
    verdict, contents = gate.judge_with_log(plan.site, folder, datetime.now(UTC), rehearsal=rehearsal)
    if missing := why_not(drain, contents, verdict):
        for text in missing:
            print(text, file=sys.stderr)
        return JUDGED_NO
    now = scheduler.drain(arguments.node)
    if now != drain:  # reading the evidence takes a while
        print(
            f"{arguments.node} is {now.state} now ({now.reason}), since {now.since:%Y-%m-%d %H:%M %Z}: it was drained again "
            "meanwhile, so run this command again",
            file=sys.stderr,
        )
        return JUDGED_NO
    scheduler.resume(arguments.node)
    print(f"{arguments.node} runs jobs again; it was drained since {drain.since:%Y-%m-%d %H:%M %Z}: {drain.reason}")
    return OK


def run_stop(arguments: argparse.Namespace) -> int:
    from validation.runners import burn_in

    scheduler, started, folder, _ = _under_way(arguments)
    scheduler.cancel(*started.jobs.values())
    burn_in.forget(folder, scheduler, started)
    print(f"burn-in on {_nodes(len(started.jobs))} cancelled")
    return OK


def _tested(arguments: argparse.Namespace) -> "Plan":
    """The plan of the site that is asked about; UsageError where the checks cannot test its GPUs."""
    from validation.supported_gpus import why_not_tested

    plan = planned(arguments.site)
    if reason := why_not_tested(plan.site):
        raise UsageError(reason)
    return plan


def _nodes(count: int) -> str:
    return f"{count} {'node' if count == 1 else 'nodes'}"


def _shown(nodes: list[str]) -> str:
    return ", ".join(nodes[:8]) + (f" and {len(nodes) - 8} more" if len(nodes) > 8 else "")


def _under_way(arguments: argparse.Namespace) -> "tuple[Engine, Started, Path, Plan]":
    """(scheduler, what was started, folder of outputs, plan); UsageError where nothing was."""
    from inventory.paths import var_dir
    from validation.runners import burn_in
    from validation.runners.engines import engine_of

    plan = _tested(arguments)
    folder = var_dir(plan.site.name, arguments.out)
    started = burn_in.started_of(folder, plan)
    if started is None:
        raise UsageError(f"no burn-in has been started: bringup validation start {arguments.site}")
    return engine_of(plan), started, folder, plan
