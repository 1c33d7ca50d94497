"""Slurm on the lab's plan, as its commands print it, and what the jobs of the checks leave on their nodes. Modelled.

The forms are those of scontrol(1), sinfo(1), squeue(1), sacct(1), sacctmgr(1) and sbatch(1); the states are what a healthy site
shows. Jobs run in no time. Their GPUs are H100 SXM as in tests/validation/test_burn_in.py.
"""

import base64
import dataclasses
import hashlib
import itertools
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capacity.model import Plan
from capacity.services.slurm import CHECK_ACCOUNT, design
from tests.validation import recordings
from tests.validation.bench import kept_by, probed
from tests.validation.test_burn_in import GPU, H100, HOUR_S, MEMORY, PRODUCTS, RANK
from validation.burn_in import PRECISIONS
from validation.checks.test_scheduler import WHOLE_STARTS
from validation.collectives import links_of
from validation.facts.separation_acts import PROBE
from validation.facts.storage_acts import READ_CANARIES, canary_sha256
from validation.runners.collectives import factor, leaves_of, rows_wanted, wanted_of
from validation.runners.slurm import ASSOCIATION_COLUMNS, ASSOCIATION_LIMITS, CLASS_COLUMNS, SEPARATOR, USAGE_COLUMNS
from validation.runners.stages import CHAIN
from validation.runners.training import CHECKPOINT_EVERY, MODEL, SLOW_MS, SLOW_RANK, SLOW_STEPS, shapes_of

NCCL_TESTS = (Path(__file__).parents[1] / "data" / "modelled" / "nccl-tests" / "all_reduce_gb200_72.txt").read_text()
OF_CEILING = 0.9
"""What the sweep reaches of what a ring allows."""
BURNT_S = 48 * HOUR_S + 60
AT = "2026-11-21T19:00:57"
LATER = "2026-11-21T19:00:58"
OVER = {"--time": "QOSMaxWallDurationPerJobLimit", "--gpus": "QOSMaxGRESPerUser"}
Sign = Callable[[str, str], str]
"""(node, message) -> its host key's signature of a result."""


@dataclasses.dataclass
class Job:
    """One submission: its options by name, its nodes, its script and user, and how often it was shown."""

    number: int
    name: str
    nodes: list[str]
    script: str
    options: dict[str, str]
    user: str
    cancelled: bool = False
    shown: int = 0

    @property
    def sign(self) -> Mapping[str, str] | None:
        """What the last step of its script asks a node to sign (node_results.Run.step)."""
        _, found, order = self.script.rpartition(
            '\nsrun --overlap --ntasks="$SLURM_NNODES" --ntasks-per-node=1 python3 -c '
        )
        if not found:
            return None
        said: Mapping[str, str] = json.loads(shlex.split(order)[1])["sign"]
        return said


class Cluster:
    """slurmctld and slurmdbd of a plan, and its jobs."""

    def __init__(self, plan: Plan, sign: Sign) -> None:
        self.plan, self.sign_as, self.design = plan, sign, design(plan, plan.catalog)
        self.jobs: dict[int, Job] = {}
        self.numbers = itertools.count(7)
        self.reserved: dict[str, dict[str, str]] = {}

    # -- commands on the controller --------------------------------------------------------------------------------------
    def command(self, text: str, stdin: bytes) -> tuple[int, str, str] | None:
        """(exit status, output, errors) of a command; None for one that is not Slurm's."""
        words = shlex.split(text)
        if words[:1] == ["runuser"]:
            return self.sbatch(words[4:], stdin.decode(), words[2])
        if words[:1] == ["sbatch"]:
            return self.sbatch(words, stdin.decode(), "root")
        if text.startswith("set -u; script=$(mktemp)"):
            return self.on_each(text, stdin.decode())
        said = self.said(words, text)
        return None if said is None else (0, said, "")

    def said(self, words: Sequence[str], text: str) -> str | None:
        """What a command that succeeds prints."""
        match words:
            case ["sinfo", "-N", *_]:
                gpu = self.design.gpu_type
                lines = (
                    f"{one.name}|idle|{one.cpus}|{one.memory_mib}|gpu:{gpu}:{one.gpus}" for one in self.design.nodes
                )
                return "\n".join(lines) + "\n"
            case ["sinfo", "-h", *_]:
                return "all|up\n"
            case ["scontrol", "show", "config"]:
                return "".join(f"{key} = {value}\n" for key, value in self.config().items())
            case ["scontrol", "show", "hostnames", names]:
                return names.replace(",", "\n") + "\n"
            case ["scontrol", "-o", "show", "job", number]:
                return self.show(self.jobs[int(number)])
            case ["scontrol", "create", "reservation", *wanted]:
                said = dict(one.split("=", 1) for one in wanted)
                nodes = said["Nodes"].split(",")
                fields = {"ReservationName": said["ReservationName"], "StartTime": AT, "Nodes": said["Nodes"]}
                fields |= {"NodeCnt": str(len(nodes)), "Users": said["Users"], "State": "INACTIVE"}
                self.reserved[said["ReservationName"]] = fields
                return ""
            case ["scontrol", "--oneliner", "show", "reservation", name]:
                return " ".join(f"{key}={value}" for key, value in self.reserved.get(name, {}).items())
            case ["scontrol", "delete", wanted]:
                self.reserved.pop(wanted.removeprefix("ReservationName="), None)
                return ""
            case ["scancel", *numbers]:
                for number in numbers:
                    self.jobs[int(number)].cancelled = True
                return ""
            case ["squeue", "--noheader", "--states=all", *_]:
                return "".join(f"{job.number}|{self.state(job)}|2-00:01:30|None\n" for job in self.jobs.values())
            case ["squeue", *_]:
                return ""
            case ["sacct", *options]:
                wanted = next(one for one in options if one.startswith("--jobs=")).removeprefix("--jobs=")
                rows = [self.usage(self.jobs[int(number)]) for number in wanted.split(",")]
                return "".join("|".join(row[key] for key in USAGE_COLUMNS) + "\n" for row in rows)
            case ["sh", "-c", script] if "sacctmgr" in script:
                return self.accounting()
            case ["sh", "-c", script] if "show topology" in script:
                return "".join(f"{one.name} {' '.join(one.nodes)}\n" for one in self.design.switches if one.nodes)
        return None

    def config(self) -> dict[str, str]:
        return WHOLE_STARTS | {
            "PreemptType": "preempt/qos",
            "PreemptMode": "REQUEUE",
            "JobRequeue": "1",
            "AccountingStorageEnforce": "associations,limits,qos",
            "AccountingStorageTRES": "cpu,mem,energy,node,billing,gres/gpu",
        }

    def accounting(self) -> str:
        classes = []
        for one in self.design.qos:
            row = dict.fromkeys(CLASS_COLUMNS, "")
            row |= {"Name": one.name, "Priority": str(one.priority), "Preempt": ",".join(one.preempts)}
            row |= {"GraceTime": f"00:{one.grace_s // 60:02d}:{one.grace_s % 60:02d}", "Flags": "DenyOnLimit"}
            if one.max_wall_min is not None:
                row["MaxWall"] = (
                    f"{one.max_wall_min // 1440}-{one.max_wall_min // 60 % 24:02d}:{one.max_wall_min % 60:02d}:00"
                )
            row["GrpTRES"] = "" if one.max_gpus is None else f"gres/gpu={one.max_gpus}"
            row["MaxTRESPU"] = "" if one.max_gpus_per_user is None else f"gres/gpu={one.max_gpus_per_user}"
            classes.append(row)
        columns = (*ASSOCIATION_COLUMNS, *ASSOCIATION_LIMITS)
        rows = []
        for account in self.design.accounts:
            row = dict.fromkeys(columns, "") | {"Cluster": self.design.cluster, "Account": account.name}
            row |= {"ParentName": account.parent, "Share": str(account.shares), "QOS": ",".join(account.qos)}
            rows.append(row | {"GrpTRES": "" if account.max_gpus is None else f"gres/gpu={account.max_gpus}"})
            rows += [row | {"User": user, "ParentName": "", "GrpTRES": ""} for user in account.users]
        first = "".join("|".join(row[key] for key in CLASS_COLUMNS) + "\n" for row in classes)
        return f"{first}{SEPARATOR}\n" + "".join("|".join(row[key] for key in columns) + "\n" for row in rows)

    # -- jobs ------------------------------------------------------------------------------------------------------------
    def sbatch(self, words: Sequence[str], script: str, user: str) -> tuple[int, str, str]:
        options = dict(re.findall(r"--([a-z-]+)=(\S+)", " ".join(words)))
        if int(options.get("gpus-per-node", 0)) > max(one.gpus for one in self.design.nodes):
            return 1, "", "sbatch: error: Requested node configuration is not available"
        if why := self.over(options):
            return 1, "", f"sbatch: error: {why}"
        names = [one.name for one in self.design.nodes]
        chosen = options["nodelist"].split(",") if "nodelist" in options else names[: int(options.get("nodes", 1))]
        job = Job(next(self.numbers), options.get("job-name", ""), chosen, script, options, user)
        self.jobs[job.number] = job
        return 0, f"{job.number}\n", ""

    def over(self, options: Mapping[str, str]) -> str:
        """Slurm's name for the limit of its class that a submission breaks."""
        for one in self.design.qos:
            if options.get("qos") == one.name and one.max_wall_min and int(options.get("time", 0)) > one.max_wall_min:
                return OVER["--time"]
        return ""

    def on_each(self, text: str, script: str) -> tuple[int, str, str]:
        """The loop of Slurm.start_on_each: a job on each of the nodes that it names."""
        found = re.search(r"for node in (.*?); do job=\$\((sbatch .*?) --nodelist=", text)
        assert found is not None
        lines = []
        for node in shlex.split(found[1]):
            _, number, _ = self.sbatch([*shlex.split(found[2]), f"--nodelist={node}"], script, "root")
            lines.append(f"{node} {number}")
        return 0, "".join(lines), ""

    def state(self, job: Job) -> str:
        others = {one.name: one for one in self.jobs.values() if one.number > job.number}
        match job.name:
            case "bringup-stage-fails":
                return "FAILED"
            case "bringup-stage-never":
                return "CANCELLED"
            case "bringup-victim":
                return "COMPLETED" if "bringup-urgent" in others else "RUNNING"
            case "bringup-other":
                return "PENDING" if self.reserved else "RUNNING"
            case "bringup-half-2":
                first = next(one for one in self.jobs.values() if one.name == "bringup-half-1")
                return "RUNNING" if first.cancelled else "PENDING"
            case "bringup-urgent" | "bringup-owner" | "bringup-half-1":
                return "RUNNING"
        return "COMPLETED"

    def show(self, job: Job) -> str:
        state = self.state(job)
        fields = {"JobId": str(job.number), "JobName": job.name, "JobState": state, "ExitCode": "0:0", "Restarts": "0"}
        fields |= {"SubmitTime": AT, "StartTime": LATER, "NumNodes": str(len(job.nodes)), "BatchHost": job.nodes[0]}
        fields |= {"NodeList": ",".join(job.nodes), "Reason": "Resources" if state == "PENDING" else "None"}
        if job.name == "bringup-victim" and state == "COMPLETED":
            fields["Restarts"] = "1"
        return " ".join(f"{key}={value}" for key, value in fields.items())

    def usage(self, job: Job) -> dict[str, str]:
        gpus = int(job.options.get("gpus-per-node", 0)) * len(job.nodes)
        said = {
            "JobIDRaw": str(job.number),
            "User": job.user,
            "Account": CHECK_ACCOUNT,
            "QOS": job.options.get("qos", ""),
        }
        return said | {
            "State": "COMPLETED",
            "ElapsedRaw": "4",
            "AllocTRES": f"cpu=1,gres/gpu={gpus},node={len(job.nodes)}",
        }

    # -- what jobs leave on their nodes ----------------------------------------------------------------------------------
    def output(self, number: int) -> str:
        """What a job printed."""
        job = self.jobs[number]
        if job.name == "bringup-grants":
            return "".join(json.dumps({"host": node, "visible": "0", "allowed": [0]}) + "\n" for node in job.nodes)
        stage = job.name.removeprefix("bringup-stage-")
        if stage in CHAIN:
            before = CHAIN[CHAIN.index(stage) - 1] if stage != CHAIN[0] else ""
            took = f"{stage} took {hashlib.sha256(before.encode()).hexdigest()}\n" if before else ""
            return f"{took}{stage} made {hashlib.sha256(stage.encode()).hexdigest()}\n"
        return "checkpoint 21\nresumed 21\n" if job.name == "bringup-victim" else ""

    def result(self, node: str, request: Mapping[str, Any]) -> Any:
        """What workloads/sign_result.py prints on a node."""
        if request["do"] == "remove":
            return True
        if request["do"] == "run":
            if request["program"] == READ_CANARIES:
                asked = request["request"]
                read = {name: canary_sha256(asked["nonce"], name) for name in asked["names"]}
                return self.signed(node, json.dumps({"nonce": asked["nonce"], "read": read}).encode(), request["sign"])
            if request["program"] == PROBE:
                told = {"nonce": request["request"]["nonce"], "unsent": {}, **probed(request["request"]["probes"])}
                return self.signed(node, json.dumps(told).encode(), request["sign"])
            times = {"size_b": request["request"]["size_b"], "own": {"began": 1.0, "ended": 1.001}}
            text = json.dumps(times | {"shared": {"began": 2.0, "ended": 2.001}}).encode()
            return self.signed(node, text, request["sign"])
        job = self.jobs[int(request["folder"].rsplit("-", 1)[1])]
        ranks: Mapping[str, Callable[[Job, str], list[str]]] = {
            "bringup-collectives": self.swept,
            "bringup-burn-in": self.burnt_in,
        }
        texts = ranks.get(job.name, self.trained)(job, node)
        table = NCCL_TESTS if job.name == "bringup-collectives" and node == job.nodes[0] else ""
        return self.signed(node, kept_by(texts, table), job.sign) | {"said": ""}

    def signed(self, node: str, result: bytes, order: Mapping[str, str] | None) -> dict[str, str]:
        said = {"result": base64.b64encode(result).decode(), "message": "", "signature": ""}
        if order is None:
            return said
        message = order["message"]
        words = {"DEVICE": node, "TIME": datetime.now(UTC).isoformat(), "SHA256": hashlib.sha256(result).hexdigest()}
        for word, text in words.items():
            message = message.replace(word, text)
        return said | {"message": message, "signature": self.sign_as(node, message)}

    def uuids(self, node: str) -> list[str]:
        gpus = self.plan.gpus
        return [str(one) for one in gpus.loc[gpus["device"] == node, "uuid"]]

    def swept(self, job: Job, node: str) -> list[str]:
        """What each rank of the collectives on a node keeps: all groups reach the same part of what a ring allows."""
        links = links_of(self.plan)
        assert links is not None
        per_node, nodes = len(self.uuids(node)), job.nodes
        wanted = wanted_of(self.plan)
        leaf = next(names for names in leaves_of(self.plan) if node in names)
        members = {"node": [node], "leaf": leaf, "whole": nodes}
        found = []
        for local, uuid in enumerate(self.uuids(node)):
            spans = []
            for span, group, size in wanted.spans[node]:
                rows = rows_wanted(wanted.sizes, size)
                times = [
                    row["size_b"]
                    * factor(row["operation"], size)
                    / (OF_CEILING * links.ceiling(row["operation"], size)["ring"].busbw_gb_s * 1e3)
                    for row in rows
                ]
                leads = local == 0 and node == members[span][0]
                spans.append(
                    {"span": span, "group": group, "size": size, "time_us": times, "wrong": []}
                    | ({"rows": rows} if leads else {})
                )
            rank = {"schema_version": 3, "rank": nodes.index(node) * per_node + local, "host": node, "device": H100}
            rank |= {"uuid": uuid, "backend": "nccl", "torch": "2.9", "world_size": len(nodes) * per_node}
            found.append(json.dumps(rank | {"iterations": 20, "transports": {"P2P": 16}, "spans": spans}))
        return found

    def burnt_in(self, job: Job, node: str) -> list[str]:
        """What each rank of the burn-in keeps: 48 hours at the power cap, nothing wrong."""
        gpus = self.plan.gpus[self.plan.gpus["device"] == node]
        told = [
            {**GPU, "uuid": uuid, "serial": serial, "slot": int(slot)}
            for uuid, serial, slot in gpus[["uuid", "serial", "slot"]].itertuples(index=False, name=None)
        ]
        products = {name: dict(PRODUCTS) for name in PRECISIONS["gpu"]}
        found = []
        for local, uuid in enumerate(self.uuids(node)):
            rank = {**RANK, "rank": local, "uuid": uuid, "memory": MEMORY, "precisions": products}
            watch = {"gpus": told, "xids": [], "telemetry_error": ""} if local == 0 else None
            found.append(
                json.dumps(
                    {"device": H100, "took_s": BURNT_S, "phase": "fp64", "ended": True, "rank": rank, "watch": watch}
                )
            )
        return found

    # -- training --------------------------------------------------------------------------------------------------------
    def trained(self, job: Job, node: str) -> list[str]:
        """The events of the ranks of a training on a node."""
        run = job.name.removeprefix("bringup-training-")
        ranks = self.training(run).items()
        return [text for rank, (host, text) in ranks if host == node and rank >= 0]

    def training(self, run: str) -> dict[int, tuple[str, str]]:
        """By rank its node and the lines that it wrote in a run that nothing disturbed; a step takes as long at any scale."""
        nodes = next(job.nodes for job in self.jobs.values() if job.name == f"bringup-training-{run}")
        shape = shapes_of(self.plan)[run]
        placed = [(node, uuid) for node in nodes for uuid in self.uuids(node)[: shape.per_node]]
        slow = SLOW_STEPS[0] if run == "undisturbed" else shape.steps + 1
        late_s = SLOW_MS / 1e3
        tokens_per_s = shape.batch * MODEL["length"] / recordings.step_event(0, 0, 1, 0.0)["step_s"]
        found = {}
        for rank, (node, uuid) in enumerate(placed):
            start = recordings.start_event(rank, 0, 800.0, [host for host, _ in placed], shape.steps, shape.batch)
            start |= {"device": H100, "backend": "nccl", "uuid": uuid}
            part = "compute_s" if rank == SLOW_RANK else "communication_s"
            usual = recordings.step_event(rank, 0, 1, 0.0)[part]
            lines = [start, recordings.resume_event(rank, 0, 800.0)]
            for step in range(1, shape.steps + 1):
                more = {"tokens_per_s": tokens_per_s} | (
                    {part: usual + late_s} if slow <= step <= SLOW_STEPS[1] else {}
                )
                lines.append(recordings.step_event(rank, 0, step, 800.0 + step / 10, **more))
                if rank == 0 and step % CHECKPOINT_EVERY == 0:
                    lines.append(recordings.checkpoint_event(0, step, 800.0 + step / 10))
            lines.append(recordings.end_event(rank, 0, 807.0))
            found[rank] = (node, "".join(json.dumps(line) + "\n" for line in lines))
        return found

    def metrics(self) -> str:
        """What `tail -v` prints of the metrics of all runs."""
        runs = [job.name.removeprefix("bringup-training-") for job in self.jobs.values() if "-training-" in job.name]
        return "\n".join(
            f"==> {run}/metrics/rank-{rank:05d}.jsonl <==\n{text}"
            for run in runs
            for rank, (_, text) in self.training(run).items()
        )
