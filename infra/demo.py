"""`make demo` and `make demo-platform`: the main job on a lab, stage by stage, each by the command that a person would type.

    python -m infra.demo [--platform]      the lab with Slurm; or the one with Kubernetes, after `make setup-controllers`

In: a clone that has been set up. Out: a lab that is up, configured and validated, its reports under var/SITE, and the
rehearsal's verdict on the last screen. Full output of every command is kept in var/SITE/demo. Exit status: 0 when all
stages passed, 1 when one failed (nothing after it runs), 130 when interrupted.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.status import Status

from infra import playbook
from infra.env import environment, mitogen
from inventory.paths import repo_root, var_dir

TAIL_LINES = 30
GRACE_S = 10.0
PROGRESS_S = 5.0
Command = tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """One step of the demo. `said` finds in the output what to report; `limit_s` bounds all its commands together. `wrong` says
    what is not as it should be though every command ended with 0.
    """

    title: str
    commands: tuple[Command, ...]
    limit_s: float
    said: Callable[[str], str]
    wrong: Callable[[str], str] = lambda output: ""


def unchanged(output: str) -> str:
    """What a playbook changed, '' where it changed nothing."""
    changed = {host: counts["changed"] for host, counts in playbook.recap(output).items() if counts["changed"]}
    return f"the playbook changed something: {changed}" if changed else ""


@dataclass(frozen=True)
class Demo:
    """A site's stages, and the command that a person starts them with."""

    site: str
    command: str
    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class Ended:
    """How a stage ended: exit status of its last command (None: killed at its limit), seconds, output."""

    command: Command
    status: int | None
    seconds: float
    output: str


def matched(pattern: str) -> Callable[[str], str]:
    """A summary: the last match of `pattern` in the output, in one line."""

    def summary(output: str) -> str:
        matches = re.findall(pattern, output, flags=re.MULTILINE)
        return " ".join(matches[-1].split()) if matches else ""

    return summary


def recapped(output: str) -> str:
    """Ansible's recap, summed over all hosts."""
    return playbook.total(playbook.recap(output))


def on_slurm() -> Demo:
    """The lab, with Slurm."""
    site = "lab"
    return Demo(site, "make demo", (*from_nothing(site), *to_the_verdict(site)))


def on_kubernetes() -> Demo:
    """The lab's site with Kubernetes: its cluster, then what Pulumi declares in it, and both once more with nothing to do."""
    site = "lab-kubernetes"
    up = ("pulumi", "up", "-s", site, "--yes")
    platform = Stage(
        "Apply: the platform in the cluster",
        (("bringup", "kubeconfig", site), up),
        600.0,
        matched(r"^Resources:\n((?:^ +\S.*\n)+)"),
    )
    again = Stage(
        "Once more: nothing is changed",
        ((*up, "--expect-no-changes"), configure(site)),
        900.0,
        recapped,
        unchanged,
    )
    xids = [
        f"--{does}-xid=bringup lab {verb} --site {site} gpu-memory"
        for does, verb in (("raise", "fault"), ("repair", "repair"))
    ]
    return Demo(site, "make demo-platform", (*from_nothing(site), platform, again, *to_the_verdict(site, xids)))


def configure(site: str) -> Command:
    """The playbook for a shipped site."""
    return "ansible-playbook", "playbooks/site.yml", "-i", f"inventory/sites/{site}/site.yaml"


def from_nothing(site: str) -> tuple[Stage, ...]:
    """From no lab to nodes that are configured."""
    return (
        Stage(
            "Clear: take an earlier lab down",
            (("bringup", "lab", "down", "--site", site),),
            120.0,
            matched(r"(?:no lab .*|lab .* is down.*)$"),
        ),
        Stage("Plan", (("bringup", "plan", site),), 60.0, matched(r"^Findings: .*$")),
        Stage(
            "Build the lab, in factory state",
            (("bringup", "lab", "up", "--site", site),),
            900.0,
            matched(r"lab .* is up.*$"),
        ),
        Stage(
            "Apply: outlets, switches, servers",
            (("pulumi", "up", "-s", site, "--yes"),),
            900.0,
            matched(r"^Resources:\n((?:^ +\S.*\n)+)"),
        ),
        Stage("Configure: inside the nodes", (configure(site),), 1200.0, recapped),
    )


def to_the_verdict(site: str, options: Sequence[str] = ()) -> tuple[Stage, ...]:
    """Reports of drift, checks, and what the gate makes of them. options: of the checks."""
    return (
        Stage(
            "Report drift: two runs, as a timer makes them",
            (("bringup", "validation", "drift", site),) * 2,
            600.0,
            matched(r"^\d+ hosts, nothing drifted$"),
        ),
        Stage(
            "Validate",
            (("pytest", "validation", "--site", site, *options),),
            1200.0,
            matched(r"^=+ (.* in [\d.]+ ?s.*?) =+$"),
        ),
        Stage("Judge", (("bringup", "gate", "--site", site, "--rehearsal"),), 60.0, matched(r"^REHEARSAL.*$")),
    )


def run(stage: Stage, env: Mapping[str, str], log: Path, on_line: Callable[[str], None]) -> Ended:
    """Run the commands of a stage in order, up to the first that fails; their output goes to `log` and `on_line`."""
    began = time.monotonic()
    said: list[str] = []
    command: Command = ()
    status: int | None = 0
    with log.open("w") as file:
        for command in stage.commands:
            file.write(f"$ {shlex.join(command)}\n")
            left = stage.limit_s - (time.monotonic() - began)
            status = run_command(command, env, left, file, said, on_line)
            if status != 0:
                break
    return Ended(command, status, time.monotonic() - began, "".join(said))


def run_command(
    command: Command,
    env: Mapping[str, str],
    limit_s: float,
    log: TextIO,
    said: list[str],
    on_line: Callable[[str], None],
) -> int | None:
    """Exit status of one command, None when it was killed at its limit with all that it had started."""
    process = subprocess.Popen(
        command,
        cwd=repo_root(),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        end_group(process)

    timer = threading.Timer(limit_s, expire)
    timer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            said.append(line)
            on_line(line.rstrip())
        status = process.wait()
    except KeyboardInterrupt:
        end_group(process)
        raise
    finally:
        timer.cancel()
    return None if expired.is_set() else status


def end_group(process: "subprocess.Popen[str]") -> None:
    """End a command and all that it started: a chance to tidy up, then SIGKILL for what is left of its group."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGINT)
        process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def show_failure(console: Console, stage: Stage, ended: Ended, log: Path, rest: Sequence[Stage], anew: str) -> None:
    """The failing command, its last words, and how to go on by hand."""
    how = f"did not finish within {stage.limit_s:.0f} s" if ended.status is None else f"exit status {ended.status}"
    if ended.status == 0:
        how = stage.wrong(ended.output)
    for line in ended.output.splitlines()[-TAIL_LINES:]:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"\n[bold red]{escape(stage.title)} failed[/bold red]: {how}", highlight=False)
    console.print(
        f"  command: {shlex.join(ended.command)}\n  output:  {log}", markup=False, highlight=False, soft_wrap=True
    )
    console.print(
        'Go on by hand after: source .venv/bin/activate && eval "$(bringup env)"', markup=False, highlight=False
    )
    following = [shlex.join(command) for later in rest for command in later.commands]
    for command in (shlex.join(ended.command), *following):
        console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"or start over with: {anew}", highlight=False)


def training_line(story: Mapping[str, Any]) -> str:
    """The story of the training run that lost a node, in one line."""
    stages = story["stages"]
    return (
        f"training: {story['victim']} lost its power, {story['first_by']} noticed after {stages['noticed']:.0f} s, "
        f"{story['spare']} took over after {stages['resumed']:.0f} s, {story['lost_steps']} steps done twice, "
        f"{'the same' if story['equal'] else 'OTHER'} bits in the end"
    )


def show_verdict(console: Console, verdict: Mapping[str, Any], seconds: float) -> None:
    """The last screen: verdict, counts, where the pages are."""
    site = verdict["site"]
    reports = var_dir(site)
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in verdict["counts"].items())
    style = "green" if verdict["exit_code"] == 0 else "red"
    story = verdict.get("training")
    lines = [
        f"[bold {style}]{verdict['verdict']}[/bold {style}]  site {site}, evidence: {verdict['mode']}",
        counts,
        *([training_line(story)] if story else []),
        f"verdict: {reports / 'reports' / 'rehearsal.html'}",
        f"plan:    {reports / 'plan' / 'report.html'}",
        f"whole demo: {seconds:.0f} s. The lab is up; take it down with: bringup lab down --site {site}",
    ]
    console.print(Panel("\n".join(lines), title="Verdict", title_align="left"), highlight=False, soft_wrap=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; see the module's text for the exit status."""
    arguments = argparse.ArgumentParser(prog="python -m infra.demo", description=__doc__.partition("\n")[0])
    arguments.add_argument("--platform", action="store_true", help="the lab's site with Kubernetes")
    demo = on_kubernetes() if arguments.parse_args(argv).platform else on_slurm()
    console = Console(highlight=False)
    if os.geteuid() != 0:
        console.print(f"The demo builds the lab, which needs root on Linux. Without root:\n  bringup plan {demo.site}")
        return 1
    began = time.monotonic()
    env = environment() | mitogen()
    logs = var_dir(demo.site) / "demo"
    logs.mkdir(parents=True, exist_ok=True)
    todo = demo.stages
    for number, stage in enumerate(todo, start=1):
        console.print(f"[bold]\\[{number}/{len(todo)}] {escape(stage.title)}[/bold]")
        for command in stage.commands:
            console.print(f"  $ {shlex.join(command)}", style="dim", markup=False, soft_wrap=True)
        log = logs / f"{number}-{re.split('[^a-z]', stage.title.lower())[0]}.log"
        with console.status("  …") as status, Progress(console) as progress:
            ended = run(stage, env, log, partial(show_line, status, progress))
        if ended.status != 0 or stage.wrong(ended.output):
            show_failure(console, stage, ended, log, todo[number:], demo.command)
            return 1
        console.print(f"  [green]✓[/green] {ended.seconds:.1f} s  {escape(stage.said(ended.output))}", soft_wrap=True)
    verdict = json.loads((var_dir(demo.site) / "reports" / "rehearsal.json").read_text())
    show_verdict(console, verdict, time.monotonic() - began)
    return 0


class Progress:
    """What a long stage does and waits for, as a line every few seconds where no spinner shows it (no terminal)."""

    def __init__(self, console: Console, every_s: float = PROGRESS_S) -> None:
        self.console, self.every_s = console, every_s
        self.began, self.task, self.newest = time.monotonic(), "", ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def __enter__(self) -> "Progress":
        if not self.console.is_terminal:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def see(self, line: str) -> str:
        """Take a line of output; returns what to show: Ansible's task stays in sight while its hosts answer."""
        text = line.strip().rstrip("*").rstrip()
        if text.startswith(("TASK [", "RUNNING HANDLER [", "PLAY [")):
            self.task, self.newest = text, text
        elif text:
            answer = self.task and re.match(r"(ok|changed|skipping|failed|fatal): ", text)
            self.newest = f"{self.task} {text}" if answer else text
        return self.newest

    def _speak(self) -> None:
        while not self._over.wait(self.every_s):
            said = f"  {time.monotonic() - self.began:.0f} s  {self.newest}"
            self.console.print(said, style="dim", markup=False, soft_wrap=True)


def show_line(status: Status, progress: Progress, line: str) -> None:
    """The newest line of output beside the spinner, cut to the terminal's width."""
    if shown := progress.see(line):
        status.update(f"  {escape(shown[: max(status.console.width - 8, 20)])}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
