"""Burn-in as a job on each node: submitted, looked at and collected by other calls than the one that started it."""

import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from infra import cli
from inventory.site import load_site
from network.drivers.credentials import SshCredentials
from network.drivers.errors import BadAnswer, DeviceError, DeviceTimeout
from network.drivers.ssh import Completed, SshHost
from tests.plans import plan_of
from validation.facts import node_results
from validation.runners import burn_in, slurm
from validation.runners.burn_in import Started
from validation.runners.engine import Standing
from validation.runners.slurm import Slurm, seconds_of

SBATCH = """
for word; do case $word in --nodelist=*) node=${word#--nodelist=};; esac; last=$word; done
[ "$node" != "$REFUSED" ] || { echo "sbatch: error: invalid node" >&2; exit 1; }
cp "$last" "$STATE/script"; printf '%s\\n' "$*" >>"$STATE/submitted"
echo $(( 40 + $(wc -l <"$STATE/submitted") ))
"""
SCONTROL = r"""
echo "$*" >>"$STATE/scontrolled"
case "$*" in
  *"show node"*)
    node=${!#}
    if [ -e "$STATE/drain-$node" ]; then
      state=$(cat "$STATE/state-$node" 2>/dev/null || echo IDLE+DRAIN)
      echo "NodeName=$node State=$state Reason=$(cat "$STATE/drain-$node")"
    else echo "NodeName=$node State=IDLE"; fi;;
  *"show reservation"*) cat "$STATE/reservation" 2>/dev/null;;
  "create reservation"*) echo "$*" >"$STATE/reservation";;
  "delete "*) rm -f "$STATE/reservation";;
  *State=RESUME) node=${2#NodeName=}; rm "$STATE/drain-$node";;
  *State=DRAIN*) node=${2#NodeName=}; echo "${4#Reason=} [root@2026-11-26T18:00:00]" >"$STATE/drain-$node";;
esac
"""
SINFO = r"""
for node in gpu001 gpu002 gpu003 gpu004; do
  if [ -e "$STATE/drain-$node" ]; then echo "$node|drained|8|1000|gpu:8"; else echo "$node|idle|8|1000|gpu:8"; fi
done
"""
WHY = "bringup: S034.measured: GPU 3: wrong products"
RESULT: dict[str, Any] = {
    "device": "cpu",
    "took_s": 9.0,
    "phase": "end",
    "ended": True,
    "rank": {
        "rank": 0,
        "device": "cpu",
        "uuid": "",
        "rounds": 9,
        "wrong_products": 0,
        "wrong_words": 0,
        "memory": {"total_b": 8, "tested_b": 8, "sets": 1, "patterns": {}, "first_wrong": None},
        "precisions": {},
        "not_supported": [],
        "error": "",
    },
    "watch": {"gpus": [], "xids": [], "telemetry_error": "no NVML"},
}


class Local(SshHost):
    """Runs commands here, with Slurm's commands from a folder of scripts."""

    env: dict[str, str]

    def __init__(self, name: str, user: str = "root") -> None:
        self.name, self.budget_s = name, 20.0
        self.credentials = SshCredentials(user, Path("key"), Path("known_hosts"))

    def run(
        self, command: str | Sequence[str], *, stdin: bytes = b"", check: bool = True, budget_s: float | None = None
    ) -> Completed:
        text = command if isinstance(command, str) else shlex.join(command)
        done = subprocess.run(
            ["bash", "-c", text], input=stdin, env=self.env, capture_output=True, timeout=60, check=False
        )
        if check and done.returncode:
            raise BadAnswer(self.name, text[:20], "exit status 0", done.stderr.decode(), "run it by hand")
        return Completed(done.returncode, done.stdout.decode(), done.stderr.decode(), 0.1)


class Dead(Local):
    """A node that has lost its power."""

    def run(self, command: Any, **rest: Any) -> Completed:
        raise DeviceTimeout(self.name, "log in", "an answer within 20 s", "none", "look at the node")


@pytest.fixture(scope="module")
def lab() -> Plan:
    return plan_of("lab")


@pytest.fixture
def scheduler(lab: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """A Slurm of scripts; squeue says what STATE/queue has, sacct what STATE/accounts has."""
    commands = {
        "sbatch": SBATCH,
        "squeue": 'cat "$STATE/queue"',
        "sacct": 'cat "$STATE/accounts"',
        "scancel": 'echo "$@" >>"$STATE/cancelled"',
        "scontrol": SCONTROL,
        "sinfo": SINFO,
    }
    for name, text in commands.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("queue", "accounts", "submitted"):
        (tmp_path / name).touch()
    Local.env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "STATE": str(tmp_path), "REFUSED": "none"}
    monkeypatch.setattr(burn_in, "FOLDER", f"{tmp_path}/results-")
    for module in (slurm, burn_in):
        monkeypatch.setattr(module, "OUTPUT", f"{tmp_path}/%j.out")
    return Slurm(Local("ctl01"), {name: Local(name) for name in burn_in.gpu_nodes(lab)})


def ended(tmp_path: Path, jobs: dict[str, int], **states: str) -> None:
    """All jobs are over: COMPLETED but for those that are named."""
    (tmp_path / "queue").write_text("")
    rows = [f"{job}|root|root|normal|{states.get(node, 'COMPLETED')}|9|cpu=1" for node, job in jobs.items()]
    (tmp_path / "accounts").write_text("\n".join(rows) + "\n")
    for node, job in jobs.items():
        if states.get(node) != "NODE_FAIL":
            folder = tmp_path / f"results-{job}"
            folder.mkdir()
            (folder / "rank-0.json").write_text(json.dumps(RESULT))
            (folder / "samples.csv").write_text("time_s,uuid\n1.0,GPU-1\n")
            (tmp_path / f"{job}.out").write_text("what it said\n")


def test_each_node_gets_a_job_of_its_own_with_all_its_gpus(scheduler: Slurm, tmp_path: Path) -> None:
    h100 = plan_of("h100-1000-ib")
    nodes = burn_in.gpu_nodes(h100)[:3]
    plan = h100.__class__(**{**h100.__dict__, "devices": h100.devices[h100.devices["name"].isin(nodes)]})
    started = burn_in.start(plan, scheduler)
    assert started.jobs == dict(zip(nodes, (41, 42, 43), strict=True))
    assert started.duration_s == 72 * 3600
    lines = (tmp_path / "submitted").read_text().splitlines()
    for node, line in zip(nodes, lines, strict=True):
        assert {"--nodes=1", "--gpus-per-node=8", "--exclusive", f"--nodelist={node}"} <= set(line.split())
    script = (tmp_path / "script").read_text()
    assert "--duration-s 259200 --sample-s 60 --results" in script


def test_a_refused_node_is_named_and_the_jobs_before_it_are_cancelled(
    lab: Plan, scheduler: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Local.env, "REFUSED", "gpu003")
    with pytest.raises(BadAnswer, match="gpu003 refused sbatch: error: invalid node"):
        burn_in.start(lab, scheduler)
    assert (tmp_path / "cancelled").read_text() == "41 42\n"
    done = burn_in.run(lab, scheduler)
    assert set(done.errors) == set(burn_in.gpu_nodes(lab))


def test_a_node_that_dies_costs_its_own_result_only(lab: Plan, scheduler: Slurm, tmp_path: Path) -> None:
    started = burn_in.start(lab, scheduler)
    jobs = dict(started.jobs)
    ended(tmp_path, jobs, gpu002="NODE_FAIL", gpu003="TIMEOUT")
    scheduler.hosts = {**scheduler.hosts, "gpu002": Dead("gpu002")}
    assert burn_in.running(scheduler.standing(list(jobs.values())), started) == []
    done = burn_in.collect(lab, scheduler, started)
    assert sorted(done.report["nodes"]) == ["gpu001", "gpu003", "gpu004"]
    assert done.errors["gpu002"].startswith("gpu002: log in: expected an answer")
    assert done.errors["gpu003"] == f"job {jobs['gpu003']} is TIMEOUT  after 9 s: what it said"
    assert done.seconds["gpu001"] == 9.0
    assert "GPU-1" in json.loads(done.kept.raw["gpu001"])["samples"]
    assert [rank["rank"] for node in done.report["nodes"].values() for rank in node["ranks"]] == [0, 2, 3]


@pytest.fixture
def pinned(lab: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The lab with pinned host keys: gpu001 and gpu002 have keys of their own, which their ssh-keygen signs with here."""
    keygen = shutil.which("ssh-keygen") or pytest.skip("ssh-keygen is not installed")
    addresses = {
        device: address.split("/")[0]
        for device, network, address in lab.addresses[["device", "network", "address"]].itertuples(index=False)
        if network == "provisioning"
    }
    known = []
    for node in ("gpu001", "gpu002"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / node)], check=True)
        known.append(f"{addresses[node]} {(tmp_path / f'{node}.pub').read_text()}")
    (tmp_path / "known_hosts").write_text("".join(known))
    monkeypatch.setattr(node_results, "HOST_KEY", str(tmp_path / "gpu001"))
    ssh = lab.site.credentials.ssh.model_copy(
        update={"host_keys": "pinned", "known_hosts": str(tmp_path / "known_hosts")}
    )
    credentials = lab.site.credentials.model_copy(update={"ssh": ssh})
    return dataclasses.replace(lab, site=lab.site.model_copy(update={"credentials_given": credentials}))


def sign(plan: Plan, started: Started, tmp_path: Path) -> None:
    """What the batch script does last on each node."""
    step = started.run_on(plan).step(f"{tmp_path}/results-$SLURM_JOB_ID")
    for node, job in started.jobs.items():
        program = shlex.split(step)[shlex.split(step).index("python3") : -3]
        given = {**os.environ, "SLURM_JOB_ID": str(job), "SLURMD_NODENAME": node}
        subprocess.run(program, env=given, check=True, timeout=60)


def test_the_nodes_sign_at_the_end_of_the_load(pinned: Plan, lab: Plan, scheduler: Slurm, tmp_path: Path) -> None:
    burn_in.start(lab, scheduler)
    assert "sign_result" not in (tmp_path / "script").read_text()
    started = burn_in.start(pinned, scheduler, store="a-store")
    script = (tmp_path / "script").read_text()
    assert script.index("srun --kill-on-bad-exit=1") < script.index('"do": "sign"')
    assert f"nonce {started.nonce}" in script
    assert started.nonce != burn_in.start(pinned, scheduler, store="a-store").nonce


def test_a_node_signs_its_own_result_and_no_other_ones(pinned: Plan, scheduler: Slurm, tmp_path: Path) -> None:
    """All nodes of this test sign with the key of gpu001."""
    started = burn_in.start(pinned, scheduler, store="a-store")
    ended(tmp_path, dict(started.jobs))
    sign(pinned, started, tmp_path)
    done = burn_in.collect(pinned, scheduler, started)
    assert done.errors == {}
    assert set(done.kept.signed) == {"gpu001"}
    assert "no pinned host key of gpu002 signed it" in done.kept.unsigned["gpu002"]
    said = done.kept.signed["gpu001"]
    assert hashlib.sha256(done.kept.raw["gpu001"]).hexdigest() in said.message
    assert f"store a-store\ndevice gpu001\nrun {started.run}\nnonce {started.nonce}\n" in said.message


def test_what_is_changed_after_the_end_of_the_load_was_not_signed(
    pinned: Plan, scheduler: Slurm, tmp_path: Path
) -> None:
    started = burn_in.start(pinned, scheduler, store="a-store")
    ended(tmp_path, dict(started.jobs))
    sign(pinned, started, tmp_path)
    folder = tmp_path / f"results-{started.jobs['gpu001']}"
    (folder / "rank-0.json").write_text(json.dumps({**RESULT, "took_s": 999.0}))
    done = burn_in.collect(pinned, scheduler, started)
    assert (set(done.kept.signed), done.report["nodes"]["gpu001"]["duration_s"]) == ({"gpu001"}, 9.0)
    result = folder / "result.json"
    result.write_bytes(result.read_bytes().replace(b"9.0", b"999.0"))
    done = burn_in.collect(pinned, scheduler, started)
    assert "it was signed for another result" in done.kept.unsigned["gpu001"]
    (folder / "signature.json").unlink()
    assert "no signed result" in burn_in.collect(pinned, scheduler, started).kept.unsigned["gpu001"]


def test_a_signature_of_another_run_does_not_count(pinned: Plan, scheduler: Slurm, tmp_path: Path) -> None:
    started = burn_in.start(pinned, scheduler, store="a-store")
    ended(tmp_path, dict(started.jobs))
    sign(pinned, dataclasses.replace(started, nonce="ab" * 16, run="burn-in-old"), tmp_path)
    done = burn_in.collect(pinned, scheduler, started)
    assert "it was signed for another run (burn-in-old)" in done.kept.unsigned["gpu001"]


def test_what_was_signed_for_another_store_does_not_count(pinned: Plan, scheduler: Slurm, tmp_path: Path) -> None:
    started = burn_in.start(pinned, scheduler, store="a-store")
    ended(tmp_path, dict(started.jobs))
    sign(pinned, started, tmp_path)
    done = burn_in.collect(pinned, scheduler, dataclasses.replace(started, store="b-store"))
    assert "signed for the evidence store a-store, not for b-store" in done.kept.unsigned["gpu001"]
    assert "ssh-keygen" not in done.kept.unsigned["gpu001"]


def test_a_burn_in_that_nobody_records_is_not_signed(pinned: Plan, scheduler: Slurm, tmp_path: Path) -> None:
    burn_in.start(pinned, scheduler)
    assert "sign_result" not in (tmp_path / "script").read_text()


def test_a_folder_that_everybody_can_write_is_not_signed(
    pinned: Plan, scheduler: Slurm, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    started = burn_in.start(pinned, scheduler, store="a-store")
    ended(tmp_path, dict(started.jobs))
    (tmp_path / f"results-{started.jobs['gpu001']}").chmod(0o777)
    with pytest.raises(subprocess.CalledProcessError):
        sign(pinned, started, tmp_path)
    assert "nothing is signed" in capfd.readouterr().err


def test_a_node_that_cannot_sign_keeps_its_result(
    pinned: Plan, scheduler: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_results, "HOST_KEY", str(tmp_path / "no such key"))
    started = burn_in.start(pinned, scheduler, store="a-store")
    ended(tmp_path, dict(started.jobs))
    sign(pinned, started, tmp_path)
    done = burn_in.collect(pinned, scheduler, started)
    assert done.errors == {}
    assert "gpu001" in done.report["nodes"]
    assert "Fix: let ssh-keygen" in done.kept.unsigned["gpu001"]


def test_nodes_of_a_site_that_pins_no_host_keys_sign_nothing(lab: Plan, scheduler: Slurm, tmp_path: Path) -> None:
    started = burn_in.start(lab, scheduler)
    ended(tmp_path, dict(started.jobs))
    done = burn_in.collect(lab, scheduler, started)
    assert (done.kept.signed, done.kept.unsigned, done.errors) == ({}, {}, {})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"device": 7}', "null", '{"rank": {}}'])
def test_results_that_cannot_be_read_are_an_error_of_their_node(
    text: str, lab: Plan, scheduler: Slurm, tmp_path: Path
) -> None:
    started = burn_in.start(lab, scheduler)
    ended(tmp_path, dict(started.jobs))
    (tmp_path / f"results-{started.jobs['gpu001']}" / "rank-0.json").write_text(text)
    done = burn_in.collect(lab, scheduler, started)
    assert set(done.errors) == {"gpu001"}
    assert "read the results of the burn-in" in done.errors["gpu001"]


def test_a_run_waits_for_all_jobs_and_leaves_nothing(
    lab: Plan, scheduler: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(burn_in, "POLL_S", 0.01)
    seen: list[str] = []

    def over(text: str) -> None:
        seen.append(text)
        ended(tmp_path, {node: 41 + number for number, node in enumerate(burn_in.gpu_nodes(lab))})

    monkeypatch.setattr(burn_in, "note", over)
    (tmp_path / "queue").write_text("".join(f"{job}|RUNNING|1:05|None\n" for job in range(41, 45)))
    done = burn_in.run(lab, scheduler)
    assert (seen, done.errors) == (["burn-in on 4 of 4 nodes"], {})
    assert not list(tmp_path.glob("results-*"))
    assert not list(tmp_path.glob("*.out"))


@pytest.mark.parametrize("same", [True, False])
def test_the_limit_of_a_collected_burn_in_is_as_old_as_its_begin_if_it_is_the_same(
    same: bool, lab: Plan, scheduler: Slurm, tmp_path: Path
) -> None:
    began = datetime(2027, 3, 1, tzinfo=UTC)
    started = dataclasses.replace(burn_in.start(lab, scheduler), began=began.timestamp())
    ended(tmp_path, dict(started.jobs))
    longer = dataclasses.replace(started, duration_s=started.duration_s * (1 if same else 2))
    assert burn_in.collect(lab, scheduler, longer).limit_since == (began if same else None)


def test_what_was_started_is_found_by_a_later_call_until_it_is_judged(
    lab: Plan, scheduler: Slurm, tmp_path: Path
) -> None:
    assert burn_in.started_of(tmp_path, lab) is None
    started = burn_in.start(lab, scheduler)
    burn_in.keep(tmp_path, started)
    assert burn_in.started_of(tmp_path, lab) == started
    ended(tmp_path, dict(started.jobs))
    burn_in.forget(tmp_path, scheduler, started)
    assert burn_in.started_of(tmp_path, lab) is None
    assert not list(tmp_path.glob("results-*"))


@pytest.fixture
def drained(tmp_path: Path) -> Path:
    """gpu002 is drained, with its reason and time in this file."""
    file = tmp_path / "drain-gpu002"
    file.write_text(f"{WHY} [root@2026-11-26T10:00:00]\n")
    return file


def test_a_drained_node_runs_its_burn_in_alone_and_is_drained_again_as_before(
    lab: Plan, scheduler: Slurm, tmp_path: Path, drained: Path
) -> None:
    before = scheduler.drain("gpu002")
    started = burn_in.start(lab, scheduler, ["gpu002"], burn_in.drains(scheduler, ["gpu002"]))
    assert set(started.jobs) == {"gpu002"}
    assert "Nodes=gpu002 Users=root StartTime=now Duration=UNLIMITED" in (tmp_path / "reservation").read_text()
    assert "--reservation=bringup-burn-in" in (tmp_path / "submitted").read_text()
    assert drained.exists(), "the node takes no job before its reservation and its file are there"
    burn_in.keep(tmp_path, started)
    burn_in.open_up(scheduler, started)
    assert not drained.exists()
    ended(tmp_path, dict(started.jobs))
    kept = burn_in.started_of(tmp_path, lab)
    assert kept == started
    burn_in.forget(tmp_path, scheduler, kept)
    assert not (tmp_path / "reservation").exists()
    assert scheduler.drain("gpu002") == before
    commands = (tmp_path / "scontrolled").read_text().splitlines()
    assert commands.index("delete ReservationName=bringup-burn-in") > max(
        number for number, text in enumerate(commands) if "State=DRAIN" in text
    )


def test_the_reservation_is_for_the_account_that_submits_the_jobs(
    lab: Plan, scheduler: Slurm, tmp_path: Path, drained: Path
) -> None:
    scheduler.controller = Local("ctl01", user="ops")
    burn_in.start(lab, scheduler, ["gpu002"], burn_in.drains(scheduler, ["gpu002"]))
    assert " Users=ops " in (tmp_path / "reservation").read_text()


def test_a_second_burn_in_of_the_same_drain_keeps_its_first_time(
    lab: Plan, scheduler: Slurm, tmp_path: Path, drained: Path
) -> None:
    before = scheduler.drain("gpu002")
    for _ in range(2):
        started = burn_in.start(lab, scheduler, ["gpu002"], burn_in.drains(scheduler, ["gpu002"]))
        burn_in.open_up(scheduler, started)
        burn_in.close(scheduler, started)
    assert scheduler.drain("gpu002") == before
    assert drained.read_text().count("drained since") == 1


def test_a_node_that_is_drained_anew_during_its_burn_in_keeps_the_new_reason(
    lab: Plan, scheduler: Slurm, drained: Path
) -> None:
    started = burn_in.start(lab, scheduler, ["gpu002"], burn_in.drains(scheduler, ["gpu002"]))
    burn_in.open_up(scheduler, started)
    drained.write_text("bringup: S026.measured: GPU 5 is lost [root@2026-11-26T15:00:00]\n")
    burn_in.close(scheduler, started)
    assert "GPU 5 is lost" in scheduler.drain("gpu002").reason


@pytest.mark.parametrize("state", ["ALLOCATED+DRAIN", "DOWN+DRAIN", "IDLE+DRAIN+NOT_RESPONDING", "IDLE*+DRAIN"])
def test_a_node_that_can_take_no_job_is_refused_by_name(
    state: str, scheduler: Slurm, tmp_path: Path, drained: Path
) -> None:
    (tmp_path / "state-gpu002").write_text(state)
    with pytest.raises(burn_in.NodeNotFree, match=r"gpu002 is .*wrong products"):
        burn_in.drains(scheduler, ["gpu001", "gpu002"])


def test_a_reservation_that_is_there_is_not_taken_over(
    lab: Plan, scheduler: Slurm, tmp_path: Path, drained: Path
) -> None:
    (tmp_path / "reservation").write_text("ReservationName=bringup-burn-in Nodes=gpu001\n")
    with pytest.raises(burn_in.NodeNotFree, match="scontrol delete ReservationName=bringup-burn-in"):
        burn_in.start(lab, scheduler, ["gpu002"], burn_in.drains(scheduler, ["gpu002"]))
    assert (tmp_path / "reservation").exists()
    assert drained.exists()


def test_a_refused_job_leaves_the_node_drained_and_no_reservation(
    lab: Plan, scheduler: Slurm, tmp_path: Path, drained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Local.env, "REFUSED", "gpu002")
    with pytest.raises(BadAnswer, match="gpu002 refused"):
        burn_in.start(lab, scheduler, ["gpu001", "gpu002"], burn_in.drains(scheduler, ["gpu002"]))
    assert (tmp_path / "cancelled").read_text() == "41\n"
    assert drained.exists()
    assert not (tmp_path / "reservation").exists()


def test_the_verb_leaves_drained_nodes_out_and_says_how_they_are_loaded(
    verb: Any, drained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb("start") == 0
    said = capsys.readouterr().out
    assert "left out: gpu002 is drained" in said
    assert re.search("a drained one: bringup validation start .*lab.* --node gpu002", said)
    assert "started on 3 nodes" in said
    assert drained.exists()


def test_the_verb_loads_a_drained_node_that_is_named_and_stop_drains_it_again(
    verb: Any, drained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb("start", "--node", "gpu002") == 0
    assert f"gpu002 takes no other jobs, and collect or stop drains it again: {WHY}" in capsys.readouterr().out
    assert not drained.exists()
    assert verb("stop") == 0
    assert drained.read_text().startswith(f"{WHY} (drained since 2026-11-26T10:00:00Z)")
    assert verb("start", "--node", "gpu999") == 2
    assert "gpu999 is no GPU server of lab; they are gpu001 to gpu004" in capsys.readouterr().err


def test_collect_gives_up_jobs_that_never_started_when_their_time_is_over(
    lab: Plan,
    scheduler: Slurm,
    verb: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    started = burn_in.start(lab, scheduler, ["gpu001", "gpu003"])
    jobs = dict(started.jobs)
    ended(tmp_path, {"gpu001": jobs["gpu001"]})
    (tmp_path / "queue").write_text(f"{jobs['gpu003']}|PENDING|0:00|Resources\n")
    burn_in.keep(tmp_path, started)
    assert verb("collect") == 1
    assert "still runs on 1 of 2 nodes" in capsys.readouterr().err
    burn_in.keep(tmp_path, dataclasses.replace(started, began=started.began - 1e6))
    (tmp_path / "scancel").write_text('#!/bin/bash\necho "$@" >>"$STATE/cancelled"; : >"$STATE/queue"\n')
    judged: list[Sequence[str]] = []
    run = subprocess.run

    def instead(command: Sequence[str], **rest: Any) -> Any:
        if "pytest" not in command:
            return run(command, **rest)
        judged.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", instead)
    assert verb("collect") == 0
    assert (tmp_path / "cancelled").read_text() == f"{jobs['gpu003']}\n"
    assert "cancelled on gpu003: every job should have ended by now" in capsys.readouterr().out
    assert len(judged) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"site": "lab", "began": 1, "duration_s": 2, "jobs": {"gpu001": "7; reboot"}}',
        '{"site": "other", "began": 1, "duration_s": 2, "jobs": {}}',
        '{"site": "lab", "began": 1, "duration_s": 2, "jobs": {"gpu999": 4}}',
    ],
)
def test_a_file_of_a_run_that_is_odd_is_named(text: str, lab: Plan, tmp_path: Path) -> None:
    (tmp_path / "validation").mkdir()
    (tmp_path / "validation" / burn_in.FILE).write_text(text)
    with pytest.raises(burn_in.UnreadableRunError, match=r"burn-in\.json.*set the file aside"):
        burn_in.started_of(tmp_path, lab)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0:07", 7), ("1:05", 65), ("2:00:01", 7201), ("1-00:00:00", 86400), ("INVALID", 0), ("", 0)]
)
def test_times_of_squeue_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


# ---- the verb --------------------------------------------------------------------------------------------------------
@pytest.fixture
def verb(scheduler: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`bringup validation ACTION lab`; its exit status."""
    monkeypatch.setattr(slurm, "connect", lambda plan: scheduler)
    site = str(load_site("lab").path)
    return lambda act, *words: cli.main(["validation", act, site, *words, "--out", str(tmp_path)])


def test_a_burn_in_is_started_once_and_followed(verb: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("status") == 2
    assert "no burn-in has been started: bringup validation start" in capsys.readouterr().err
    assert verb("start") == 0
    assert "started on 4 nodes, a job on each" in capsys.readouterr().out
    assert verb("start") == 2
    assert "has been started and not judged" in capsys.readouterr().err
    (tmp_path / "queue").write_text("".join(f"{job}|RUNNING|2:00:00|None\n" for job in range(41, 45)))
    assert verb("status") == 1
    said = capsys.readouterr().out
    assert "the longest has run for 2.00 h" in said
    assert "RUNNING: 4 nodes (gpu001, gpu002, gpu003, gpu004)" in said
    assert verb("collect") == 1
    assert "still runs on 4 of 4 nodes" in capsys.readouterr().err
    assert verb("stop") == 0
    assert (tmp_path / "cancelled").read_text() == "41 42 43 44\n"
    assert verb("status") == 2


def test_a_job_that_slurm_has_forgotten_is_not_waited_for(lab: Plan) -> None:
    started = Started("lab", 1.0, 2.0, {"gpu001": 7, "gpu002": 8})
    assert burn_in.running({8: Standing("RUNNING", "", 1.0)}, started) == ["gpu002"]
    assert not issubclass(burn_in.UnreadableRunError, DeviceError)
