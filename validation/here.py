"""The GPU checks on this machine alone, without a scheduler: for a server on a bench, and to see that each fault is found.

    done = run(Wanted(out=Path("out"), python="/opt/bringup/venv/bin/python", ranks=8, seconds=100, faults=True))
    done["stages"]      # [{"stage", "result": passed, failed or not exercised, "said", "seconds"}]

Stages: what NVML says, nvidia-smi's own report, burn-in, collectives, a short training run, nccl-tests where they are installed,
and with `faults` a burn-in for each fault that must be found. Every stage has a time budget, none stops the others, and what the
programs wrote stays in the folder. Nothing is signed: evidence comes from `pytest validation` on the whole site.
"""

import contextlib
import functools
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.paths import write_file
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from validation import burn_in as verdict
from validation.facts.shapes import gpus_of
from validation.runners import collectives as sweeps
from validation.runners.burn_in import joined
from validation.runners.nccl_tests import parsed
from validation.runners.reports import CollectivesPrinted, report_of

WORKLOADS = Path(__file__).parent / "workloads"
GPU_FACTS = Path(__file__).parent / "facts" / "gpu_facts.py"
AMD_DRIVER = Path("/sys/module/amdgpu")
"""There where Linux has loaded AMD's GPU driver."""
SPARE_S = 60.0
"""Beside the time that a program is told to run: imports, matrices, the end."""
FAULT_S = 20.0
"""Length of a burn-in with a fault."""
STALL_S = 5.0
"""After which a device hangs, with the fault that hangs: ten batches. This and the times below are choices of this program."""
CPU_PRECISIONS, GPU_PRECISIONS = 2, 6
"""Precisions of burnin.py: each has its part of the time."""
KILL_AFTER_S = 6.0
GRACE_S = 5.0
FAULTS: Mapping[str, tuple[str, int]] = {
    "flipped-bit": ("are wrong", 1),
    "always-wrong": ("differ from those of", 3),
    "delay": ("slower in", 1),
    "hang": ("it hangs", 1),
    "killed": ("did not come to its end", 1),
    "stopped": ("did not come to its end", 1),
}
"""Fault -> (what the burn-in says of it, least number of ranks that show it)."""
ALONE: Mapping[str, tuple[str, ...]] = {
    "a GPU that is always wrong in the same way: it takes three to compare": ("S034.measured",),
    "exchange between GPUs: peer access, copies and send/recv in one node": ("S066.measured", "S151.measured"),
    "NVLink, its errors and its width": ("S034.measured", "S151.measured"),
    "NVSwitch and Fabric Manager": ("S148.applied", "S151.measured"),
    "bus bandwidth of collectives, and the transports of NCCL": ("S063.measured", "S066.measured", "S151.measured"),
    "collectives over two nodes, a leaf group and the whole": ("S063.measured", "S066.measured"),
    "rails: which GPU sends over which adapter": ("S024.attested", "S066.measured"),
    "the fabric and GPUDirect RDMA": ("S064.measured", "S065.measured"),
    "a training on several scales, its stragglers and its loss of a node": (
        "S179.measured",
        "S186.measured",
        "S188.measured",
    ),
    "jobs that wait until all their GPUs are free": ("S159.measured",),
}
"""What a machine with one GPU cannot show, and the items of the register that need it; docs/checks.md has the same."""


@dataclass(frozen=True)
class Wanted:
    """What to run. ranks: one a GPU. seconds: length of the burn-in. nccl_tests: a source tree to build, None for none."""

    out: Path
    python: str
    ranks: int
    seconds: float
    faults: bool = False
    computes_on: str = "gpu"
    nccl_tests: Path | None = None

    @property
    def limits(self) -> verdict.Limits:
        """The planning figures of step S034 (inventory/references/limits-and-roles.yaml); on CPUs, which share their cores with
        everything else, only what a fault makes counts as slower."""
        return verdict.Limits(drift_pct=5 if self.computes_on == "gpu" else 70, outlier_c=15, power_pct=95)


@dataclass(frozen=True)
class Ended:
    """A stage: passed, failed or not exercised, and what is to be said of it."""

    result: str
    said: str


def run(wanted: Wanted, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Run all stages and write summary.json; its content."""
    wanted.out.mkdir(parents=True, exist_ok=True)
    stages: list[tuple[str, Callable[[], Ended]]] = [
        ("facts", lambda: facts(wanted)),
        ("nvidia-smi", lambda: smi(wanted)),
        ("burn-in", lambda: burn(wanted)),
        ("collectives", lambda: collectives(wanted)),
        ("training", lambda: training(wanted)),
        ("nccl-tests", lambda: nccl(wanted)),
    ]
    if wanted.faults:
        stages += [(f"fault: {name}", functools.partial(fault, wanted, name)) for name in FAULTS]
    told = []
    for name, stage in stages:
        began = time.monotonic()
        try:
            ended = stage()
        except (OSError, UnreadableAnswer, subprocess.SubprocessError) as error:
            ended = Ended("failed", f"{type(error).__name__}: {answers.line(str(error))}")
        seconds = round(time.monotonic() - began, 1)
        told.append({"stage": name, "result": ended.result, "said": ended.said, "seconds": seconds})
        say(f"{name}: {ended.result}; {ended.said} ({seconds:g} s)")
    summary = {
        "host": socket.gethostname(),
        "ranks": wanted.ranks,
        "computes_on": wanted.computes_on,
        "stages": told,
        "not_shown": list(ALONE) if wanted.ranks == 1 else [],
    }
    write_file(wanted.out / "summary.json", json.dumps(summary, indent=1) + "\n")
    return summary


def gpus_of_this_machine(python: str) -> int:
    """How many GPUs NVML has here; 0 where this Python cannot ask it."""
    try:
        return len(_reading(python)[0]["devices"])
    except (OSError, KeyError, UnreadableAnswer, subprocess.SubprocessError):
        return 0


def amd_gpus_of_this_machine() -> bool:
    """Whether Linux has loaded AMD's driver here."""
    return AMD_DRIVER.exists()


def _reading(python: str) -> tuple[dict[str, Any], str]:
    """What gpu_facts.py reads here, typed and as it was printed."""
    done = subprocess.run([python, str(GPU_FACTS)], capture_output=True, text=True, timeout=SPARE_S, check=False)
    source = Source("this machine", "read the GPUs' facts")
    return gpus_of(answers.load(done.stdout, source), source), done.stdout


# ---- stages ----------------------------------------------------------------------------------------------------------
def facts(wanted: Wanted) -> Ended:
    """What NVML says of the GPUs."""
    reading, said = _reading(wanted.python)
    write_file(wanted.out / "gpu_facts.json", said)
    if reading["error"]:
        result = "not exercised" if wanted.computes_on == "cpu" else "failed"
        return Ended(result, f"{reading['error_kind']}: {reading['error']}")
    silent = [str(one["index"]) for one in reading["devices"] if one["error"]]
    if silent or len(reading["devices"]) != wanted.ranks:
        return Ended("failed", f"{len(reading['devices'])} GPUs, expected {wanted.ranks}; without an answer: {silent}")
    return Ended("passed", f"{len(reading['devices'])} GPUs, driver {reading['driver']}")


def smi(wanted: Wanted) -> Ended:
    """nvidia-smi's report, kept as it is."""
    if (program := shutil.which("nvidia-smi")) is None:
        return Ended("not exercised", "nvidia-smi is not installed")
    done = subprocess.run([program, "-q"], capture_output=True, text=True, timeout=SPARE_S, check=False)
    write_file(wanted.out / "nvidia-smi-q.txt", done.stdout)
    return Ended("failed" if done.returncode else "passed", f"{len(done.stdout.splitlines())} lines kept")


def burn(wanted: Wanted) -> Ended:
    """The burn-in, judged as S034 does but for its length."""
    status, problems = _burnt(wanted, "burn-in", [str(WORKLOADS / "burnin.py")], wanted.seconds)
    problems += [f"exit status {status}"] if status else []
    return Ended("failed" if problems else "passed", "; ".join(problems) or f"{wanted.seconds:g} s, no fault")


def fault(wanted: Wanted, name: str) -> Ended:
    """A burn-in with a fault in rank 0: passes when the burn-in says of rank 0's GPU what it is."""
    says, least = FAULTS[name]
    if wanted.ranks < least:
        return Ended("not exercised", f"it takes {least} GPUs to show")
    precisions = GPU_PRECISIONS if wanted.computes_on == "gpu" else CPU_PRECISIONS
    after_s = FAULT_S / precisions / 2
    signals = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
    program = [str(WORKLOADS / "burnin.py")]
    if name not in signals:
        program = [str(WORKLOADS / "burnin_faults.py"), name, "0", f"{after_s:g}"]
    stall = ("--stall-s", f"{STALL_S:g}") if name == "hang" else ()
    _, problems = _burnt(wanted, f"fault-{name}", program, FAULT_S, signals.get(name), stall)
    found = [text for text in problems if says in text and (wanted.ranks == 1 or "rank 0" in text or "slot" in text)]
    if found:
        return Ended("passed", f"found: {found[0]}")
    return Ended("failed", f"not found; the burn-in says: {'; '.join(problems) or 'no fault'}")


def collectives(wanted: Wanted) -> Ended:
    """All collectives among the ranks of this machine."""
    if wanted.ranks < 2:
        return Ended("not exercised", "one GPU has nobody to talk to")
    arguments = [str(WORKLOADS / "collectives.py"), "--sizes", "8,65536,4194304", "--computes-on", wanted.computes_on]
    status, out = _ranks(wanted, "collectives", arguments, 3 * SPARE_S)
    source = Source("this machine", "read the report of the collectives")
    report = sweeps.joined(report_of(CollectivesPrinted, out.encode(), source)["ranks"], source)
    wrong = sum(not row["correct"] for row in report["rows"])
    best = max((row["busbw_mb_s"] for row in report["rows"] if row["operation"] == "all_reduce"), default=0.0)
    said = f"{len(report['rows'])} measurements over {report['backend']}, all-reduce up to {best / 1e3:.2f} GB/s"
    bad = status or wrong or not report["rows"]
    return Ended("failed" if bad else "passed", f"{said}, {wrong} wrong, exit status {status}" if bad else said)


def training(wanted: Wanted) -> Ended:
    """Thirty steps of the training program, with checkpoints."""
    folder = wanted.out / "training"
    shutil.rmtree(folder, ignore_errors=True)
    arguments = [
        str(WORKLOADS / "training.py"),
        "--checkpoints",
        str(folder / "checkpoints"),
        "--metrics",
        str(folder / "metrics"),
        "--steps",
        "30",
        "--batch",
        str(math.ceil(24 / wanted.ranks) * wanted.ranks),
        "--computes-on",
        wanted.computes_on,
    ]
    status, _ = _ranks(wanted, "training", arguments, 2 * SPARE_S)
    kept = sorted(path.name for path in (folder / "checkpoints").glob("step-*.json"))
    if status or not kept:
        return Ended("failed", f"exit status {status}, checkpoints: {', '.join(kept) or 'none'}; see training.err")
    return Ended("passed", f"30 steps, newest checkpoint {kept[-1]}")


def nccl(wanted: Wanted) -> Ended:
    """NVIDIA's all_reduce_perf: installed, or built from the given source tree."""
    program = shutil.which("all_reduce_perf")
    if program is None and wanted.nccl_tests is not None and wanted.computes_on == "gpu":
        make = ["make", "-C", str(wanted.nccl_tests), "-j4"]
        done = subprocess.run(make, capture_output=True, text=True, timeout=5 * SPARE_S, check=False)
        write_file(wanted.out / "nccl-tests-build.txt", done.stdout + done.stderr)
        program = str(wanted.nccl_tests / "build" / "all_reduce_perf")
    if program is None or not os.access(program, os.X_OK):
        return Ended("not exercised", "all_reduce_perf is neither installed nor built")
    command = [program, "-b", "8", "-e", "1G", "-f", "2", "-g", str(wanted.ranks)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * SPARE_S, check=False)
    write_file(wanted.out / "all_reduce_perf.txt", done.stdout + done.stderr)
    read = parsed(done.stdout)
    if done.returncode or read is None or read.wrong:
        wrong = read.wrong if read else "unknown"
        return Ended("failed", f"exit status {done.returncode}, wrong values: {wrong}; see all_reduce_perf.txt")
    return Ended("passed", f"all-reduce busbw up to {read.best_busbw_gb_s:.1f} GB/s")


# ---- processes -------------------------------------------------------------------------------------------------------
def _burnt(
    wanted: Wanted,
    name: str,
    program: Sequence[str],
    seconds: float,
    send: signal.Signals | None = None,
    more: Sequence[str] = (),
) -> tuple[int, list[str]]:
    """(exit status, what the burn-in says is wrong) of one burn-in; `send` goes to rank 0 after some seconds."""
    folder = wanted.out / name
    shutil.rmtree(folder, ignore_errors=True)
    arguments = [*program, "--duration-s", f"{seconds:g}", "--sample-s", "1", "--keep-s", "2", *more]
    arguments += ["--results", str(folder), "--computes-on", wanted.computes_on]
    status, _ = _ranks(wanted, name, arguments, seconds + SPARE_S, send, folder / "rank-0.json")
    files = [path.read_text(errors="replace") for path in sorted(folder.glob("rank-*.json"))]
    host = socket.gethostname()
    node = joined(files, 0, Source("this machine", "read the results of the burn-in"))
    if wanted.computes_on == "cpu":  # nothing of GPUs is judged
        node |= {"gpus": [], "telemetry_error": ""}
    gpus = 0 if wanted.computes_on == "cpu" else wanted.ranks
    return status, verdict.problems({"nodes": {host: node}}, host, gpus, wanted.limits, wanted.ranks)


def _ranks(
    wanted: Wanted,
    name: str,
    arguments: Sequence[str],
    budget_s: float,
    send: signal.Signals | None = None,
    begun: Path | None = None,
) -> tuple[int, str]:
    """(worst exit status, standard output) of a program, one process a rank; all are gone when it returns.

    `send` goes to rank 0 some seconds after the file `begun` is there. When a rank ends badly, the others get a moment, as with
    srun --kill-on-bad-exit.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    out, err = wanted.out / f"{name}.out", wanted.out / f"{name}.err"
    end, sent, bad_since = time.monotonic() + budget_s, send is None, math.inf
    began = math.inf
    with out.open("w") as said, err.open("w") as errors:
        processes = [
            subprocess.Popen(
                [wanted.python, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=errors,
                start_new_session=True,
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(wanted.ranks),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "OMP_NUM_THREADS": "1",
                },
            )
            for rank in range(wanted.ranks)
        ]
        try:
            while any(one.poll() is None for one in processes):
                now = time.monotonic()
                if begun is not None and begun.exists():
                    began = min(began, now)
                if send is not None and not sent and now - began > KILL_AFTER_S:
                    processes[0].send_signal(send)
                    sent = True
                    if send == signal.SIGSTOP:  # it will not end by itself
                        end = min(end, began + FAULT_S + GRACE_S)
                if any(one.returncode for one in processes):
                    bad_since = min(bad_since, now)
                if now > end or now - bad_since > GRACE_S:
                    break
                time.sleep(0.1)
        finally:
            for one in processes:
                if one.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(one.pid, signal.SIGKILL)
                one.wait()
    status = next((one.returncode for one in processes if one.returncode), 0)
    return status, out.read_text(errors="replace")
