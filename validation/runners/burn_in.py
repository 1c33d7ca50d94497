"""The burn-in of GPU nodes: one job of the scheduler on each node, whose results stay there until they are collected.

    started = start(plan, scheduler)            # submits and returns
    scheduler.standing(list(started.jobs.values()))
    done = collect(plan, scheduler, started)    # BurnIn: the results that each rank kept, joined

A node that dies ends its own job only. The jobs do not depend on who submitted them: what was started is kept in a file
(`keep`, `started_of`), so that another call, hours later, collects it. workloads/burnin.py says what the ranks keep.
"""

import base64
import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from inventory.paths import write_file
from network.drivers import answers
from network.drivers.answers import Line, Number, Source, Whole
from network.drivers.errors import DeviceError, UnreadableAnswer
from network.drivers.parallel import at_once
from validation.check import site_limit
from validation.evidence.mode import Identity
from validation.evidence.results import NAMESPACE, faults, head_of, signed_result
from validation.evidence.sshsig import MAX_SIGNATURE
from validation.facts.gather import HOST_KEY
from validation.host_keys import pinned_host_keys, pins_node_keys
from validation.progress import note
from validation.runners import slurm
from validation.runners.reports import BurnInResult, report_of

PROGRAM = Path(__file__).parent.parent / "workloads" / "burnin.py"
FOLDER = "/var/tmp/bringup-burn-in-"
"""Results of a job on its node, followed by the job's number."""
FILE = "burn-in.json"
SAMPLES = 40
"""Samples of a short run, at least; S034 asks for one a minute."""
READ_BUDGET_S = 60.0
"""To read what a node kept: three days of samples are a few megabytes. A choice of this program, as the two below."""
POLL_S, LONGEST_POLL_S = 1.0, 30.0
SIGN_FIX = (
    "let ssh-keygen -Y sign with /etc/ssh/ssh_host_ed25519_key work there as root, and pin that key in known_hosts"
)
TAIL_B = 4000
"""Of what a job printed: the traceback of one rank."""

READ = f"""
import base64, datetime, hashlib, json, os, pathlib, subprocess, sys
request = json.loads(sys.argv[1])
folder, out = pathlib.Path(request["folder"]), pathlib.Path(request["out"])
said = out.read_bytes()[-{TAIL_B}:].decode(errors="replace") if out.is_file() else ""
ranks = [path.read_text(errors="replace") for path in sorted(folder.glob("rank-*.json"))]
samples = folder / "samples.csv"
kept = {{"ranks": ranks, "said": said, "samples": samples.read_text(errors="replace") if samples.is_file() else ""}}
result = json.dumps(kept, indent=1).encode()
message = signature = ""
if request["sign"]:
    at = datetime.datetime.now(datetime.timezone.utc).isoformat()
    message = request["sign"]["head"] + "at " + at + "\\nsha256 " + hashlib.sha256(result).hexdigest() + "\\n"
    sign = ["ssh-keygen", "-Y", "sign", "-n", request["sign"]["namespace"], "-f", request["sign"]["key"]]
    try:
        done = subprocess.run(sign if os.getuid() == 0 else ["sudo", "-n", *sign], input=message.encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        signature = done.stdout.decode(errors="replace")
    except OSError:
        pass
print(json.dumps({{"result": base64.b64encode(result).decode(), "message": message, "signature": signature}}))
"""
"""Prints what the ranks kept and, where it is asked for, the node's signature on it: an empty one where it cannot sign."""
REMOVE = """
import json, pathlib, shutil, sys
request = json.loads(sys.argv[1])
shutil.rmtree(request["folder"], ignore_errors=True)
pathlib.Path(request["out"]).unlink(missing_ok=True)
print("true")
"""


class _Read(TypedDict):
    """What a node printed: its result in base64, and its signature on it ('' where none was asked for)."""

    result: str
    message: str
    signature: str


class _Kept(TypedDict):
    """What a node has of its job: the file of each rank, the samples, the end of what the job printed."""

    ranks: list[str]
    samples: str
    said: str


class _File(TypedDict):
    """A started burn-in in its file."""

    site: Line
    began: Number
    duration_s: Number
    jobs: dict[Line, Whole]


@dataclass(frozen=True)
class Started:
    """A burn-in under way: when it began (Unix time), how long each load runs, and the job of each node."""

    site: str
    began: float
    duration_s: float
    jobs: Mapping[str, int]


@dataclass(frozen=True)
class BurnIn:
    """Results of a burn-in.

    report: {"nodes": {node: its ranks, gpus, xids, telemetry_error, device, duration_s}}, see validation/burn_in.py. errors: why
    a node has no result or did not end well. seconds: how long each job ran, as Slurm says. raw: what each node kept.
    signed: each node's signature on that, on a site that pins host keys; unsigned: why a node of such a site has none that holds.
    """

    jobs: Mapping[str, int]
    report: Mapping[str, Any]
    errors: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    raw: Mapping[str, bytes] = field(default_factory=dict)
    signed: Mapping[str, Identity] = field(default_factory=dict)
    unsigned: Mapping[str, str] = field(default_factory=dict)


# ---- run -------------------------------------------------------------------------------------------------------------
def gpu_nodes(plan: Plan) -> list[str]:
    """Names of the GPU nodes."""
    names: list[str] = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    return names


def start(plan: Plan, scheduler: slurm.Slurm) -> Started:
    """Submit the load of all GPU nodes, in the site's length. DeviceError where the scheduler does not take it."""
    duration_s = 3600 * float(site_limit(plan.site, "burn_in_run_h").value)
    spare_s = float(site_limit(plan.site, "job_start_s").value)
    sample_s = max(1.0, min(60.0, duration_s / SAMPLES))
    workload = slurm.workload_of(plan)
    arguments = [
        "--duration-s",
        f"{duration_s:g}",
        "--sample-s",
        f"{sample_s:g}",
        "--results",
        f"{FOLDER}$SLURM_JOB_ID",
    ]
    script = slurm.carried_script(PROGRAM, arguments, workload)
    limit_min = max(1, math.ceil((duration_s + 2 * spare_s) / 60))
    options = (*workload.options(1), "--exclusive", "--no-requeue", "--job-name=bringup-burn-in", f"--time={limit_min}")
    return Started(plan.site.name, time.time(), duration_s, scheduler.start_on_each(script, gpu_nodes(plan), *options))


def running(standing: Mapping[int, slurm.Standing], started: Started) -> list[str]:
    """Nodes whose job is not over."""
    return [node for node, job in started.jobs.items() if job in standing and not standing[job].ended]


def run(plan: Plan, scheduler: slurm.Slurm) -> BurnIn:
    """Start the load of all GPU nodes, wait for its end and collect it. Jobs that outlive their time are cancelled."""
    try:
        started = start(plan, scheduler)
    except DeviceError as error:
        return BurnIn({}, {"nodes": {}}, dict.fromkeys(gpu_nodes(plan), str(error)))
    budget_s = started.duration_s + 3 * float(site_limit(plan.site, "job_start_s").value)
    began = time.monotonic()
    while (waited := time.monotonic() - began) < budget_s:
        scheduler.nap(min(LONGEST_POLL_S, max(POLL_S, waited / 100)))
        with suppress(DeviceError):  # slurmctld may restart; asked again until the budget is spent
            left = running(scheduler.standing(list(started.jobs.values())), started)
            if not left:
                break
            note(f"burn-in on {len(left)} of {len(started.jobs)} nodes")
    else:
        with suppress(DeviceError):
            scheduler.cancel(*started.jobs.values())
    done = collect(plan, scheduler, started)
    remove(scheduler, started)
    return done


def collect(plan: Plan, scheduler: slurm.Slurm, started: Started) -> BurnIn:
    """What the nodes of a burn-in kept, however far it is. A node that does not answer, and a job that did not end well, is in
    `errors`; nothing is removed."""
    errors: dict[str, str] = {}
    try:
        standing = scheduler.standing(list(started.jobs.values()))
    except DeviceError as error:
        standing, errors = {}, dict.fromkeys(started.jobs, str(error))
    pins = pins_node_keys(plan)
    keys = pinned_host_keys(plan) if pins else {}
    found = at_once(
        started.jobs, lambda node: _read(scheduler, node, started.jobs[node], plan.site.name if pins else "")
    )
    nodes, raw, signed, unsigned = {}, {}, {}, {}
    ranks = slurm.workload_of(plan).ranks_per_node
    for number, (node, job) in enumerate(started.jobs.items()):
        answer, stands = found[node], standing.get(job)
        if isinstance(answer, DeviceError):
            errors[node] = str(answer)
            continue
        answer, raw[node], given = answer
        ended_well = stands is not None and stands.state == "COMPLETED"
        if stands and not ended_well:
            said = answers.text(answer["said"][-400:]).strip()
            errors[node] = f"job {job} is {stands.state} {stands.reason} after {stands.seconds:.0f} s: {said}"
        try:
            nodes[node] = joined(answer["ranks"], number * ranks, Source(node, "read the results of the burn-in"))
        except UnreadableAnswer as error:
            errors.setdefault(node, str(error))
        if pins:
            digest = hashlib.sha256(raw[node]).hexdigest()
            if why := faults(given, plan.site.name, node, digest, datetime.now(UTC), keys.get(node, frozenset())):
                unsigned[node] = f"{why}. Fix: {SIGN_FIX}"
            else:
                signed[node] = given
    seconds = {node: standing[job].seconds for node, job in started.jobs.items() if job in standing}
    return BurnIn(dict(started.jobs), {"nodes": nodes}, errors, seconds, raw, signed, unsigned)


def joined(files: Sequence[str], first: int, source: Source) -> dict[str, Any]:
    """The results of a node's ranks as one; `first` is added to their numbers. UnreadableAnswer where there are none, or odd ones.

    duration_s is the shortest time of a rank whose load came to its end without error, of all ranks where none did.
    """
    results = [report_of(BurnInResult, text.encode(), source) for text in files]
    if not results:
        raise source.unreadable("results of at least one rank", "none")
    whole = [one for one in results if one["ended"] and not one["rank"]["error"]] or results
    watches = [one["watch"] for one in results if one["watch"] is not None]
    watch = watches[0] if watches else {"gpus": [], "xids": [], "telemetry_error": "nobody watched"}
    ranks = [
        {
            **one["rank"],
            "rank": first + one["rank"]["rank"],
            **{key: one[key] for key in ("ended", "phase", "took_s")},
        }
        for one in results
    ]
    return {
        "device": results[0]["device"],
        "duration_s": min(one["took_s"] for one in whole),
        "ranks": ranks,
        **watch,
    }


def remove(scheduler: slurm.Slurm, started: Started) -> None:
    """Remove what the jobs left on their nodes; a node that does not answer keeps it."""
    at_once(started.jobs, lambda node: _on(scheduler, node, REMOVE, started.jobs[node]))


def _read(scheduler: slurm.Slurm, node: str, job: int, site: str) -> Any:
    """(what the node kept, its bytes, its signature) or the DeviceError; `site`: for which the node signs, '' for no signature."""
    sign = {"head": head_of(site, node), "namespace": NAMESPACE, "key": HOST_KEY} if site else None
    said = _on(scheduler, node, READ, job, sign=sign)
    if isinstance(said, DeviceError):
        return said
    source = Source(node, "read the results of the burn-in")
    try:
        told: Any = answers.read(_Read, said, source)
        try:
            result = base64.b64decode(told["result"], validate=True)
        except ValueError:
            raise source.unreadable("a result in base64", told["result"][:40]) from None
        kept = answers.read(_Kept, answers.load(result, source), source)
        return kept, result, signed_result(node, told["message"][:MAX_SIGNATURE], told["signature"][:MAX_SIGNATURE])
    except UnreadableAnswer as error:
        return error


def _on(scheduler: slurm.Slurm, node: str, program: str, job: int, **more: Any) -> Any:
    """What the program printed on the node, as JSON; its DeviceError where it did not get done."""
    try:
        request = {"folder": f"{FOLDER}{job}", "out": slurm.OUTPUT.replace("%j", str(job)), **more}
        operation = "read the results of the burn-in"
        return scheduler.hosts[node].program(program, request, budget_s=READ_BUDGET_S, operation=operation)
    except DeviceError as error:
        return error


# ---- a burn-in that outlives its caller ------------------------------------------------------------------------------
class UnreadableRunError(Exception):
    """The file of a started burn-in is not what `keep` wrote."""


def keep(folder: Path, started: Started) -> Path:
    """Write what was started into the site's folder of outputs; the file."""
    return write_file(folder / "validation" / FILE, json.dumps(asdict(started), indent=1) + "\n", durable=True)


def started_of(folder: Path, plan: Plan) -> Started | None:
    """The burn-in that was started and not judged yet; None if there is none. UnreadableRunError names the file and what to do."""
    path = folder / "validation" / FILE
    if not path.is_file():
        return None
    source = Source(str(path), "read the burn-in that was started")
    try:
        told: Any = answers.read(_File, answers.load(path.read_text(errors="replace"), source), source)
    except (UnreadableAnswer, OSError) as error:
        raise UnreadableRunError(f"{error}; set the file aside, then start the burn-in again") from None
    if told["site"] != plan.site.name or not set(told["jobs"]) <= set(gpu_nodes(plan)):
        raise UnreadableRunError(
            f"{path}: a burn-in of {told['site']} with nodes that the plan does not have; set the file aside, then start "
            "the burn-in again"
        )
    return Started(told["site"], told["began"], told["duration_s"], told["jobs"])


def forget(folder: Path, scheduler: slurm.Slurm, started: Started) -> None:
    """The burn-in was judged: remove its results from the nodes, and its file."""
    remove(scheduler, started)
    (folder / "validation" / FILE).unlink(missing_ok=True)
