"""The training workload: as a real job of three processes that loses one of them, and its parts one by one.

Needs torch (extra `lab` or `gpu`). Three ranks, not two: the sum of two gradients does not depend on their order.
"""

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path, PosixPath

import pytest

from tests import ranks

pytestmark = [pytest.mark.clock, pytest.mark.needs("torch")]
TRAINING = Path(__file__).parents[2] / "validation" / "workloads" / "training.py"
WORLD = 3
STEPS = 24
EVERY = 4
TINY = (
    "--steps",
    str(STEPS),
    "--checkpoint-every",
    str(EVERY),
    "--batch",
    "12",
    "--length",
    "16",
    "--width",
    "32",
    "--learning-rate",
    "0.01",
    "--hang-s",
    "150",
)
BUDGET_S = 180
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@dataclass
class Folder:
    """Where one run keeps checkpoints and metrics."""

    path: Path

    def options(self, *more):
        folders = ("--checkpoints", str(self.path / "checkpoints"), "--metrics", str(self.path / "metrics"))
        return [*folders, *TINY, *more]

    def run(self, *more, world=WORLD):
        return ranks.run(TRAINING, self.options(*more), world, BUDGET_S)

    def events(self, event, rank=0):
        lines = (self.path / "metrics" / f"rank-{rank:04d}.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def numbers(self, rank=0):
        """What must be equal to the last bit: loss and gradient norm per step, later attempts over earlier ones."""
        return {e["step"]: (e["loss"].hex(), e["gradient_norm"].hex()) for e in self.events("step", rank)}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("uninterrupted"))
    done = folder.run("--slow-rank", "1", "--slow-ms", "60", "--slow-steps", "9:16")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def kill_a_rank(folder, victim, after_step):
    """Start a run and end one rank with SIGKILL once a checkpoint of `after_step` or later is complete."""
    job = ranks.Job(TRAINING, folder.options("--pace-after", str(after_step), "--pace-s", "1"), WORLD)
    try:
        wanted = folder.path / "checkpoints" / f"step-{after_step:08d}.json"
        end = time.monotonic() + BUDGET_S
        while not wanted.exists():
            assert job.poll() is None, "the run ended before it could be interrupted"
            assert time.monotonic() < end
            time.sleep(0.005)
        os.kill(folder.events("start", victim)[0]["pid"], signal.SIGKILL)
        assert job.wait(BUDGET_S) != 0
    finally:
        job.kill()


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run that lost rank 2 after its second checkpoint and was started again; its newest checkpoint was cut short."""
    folder = Folder(tmp_path_factory.mktemp("interrupted"))
    kill_a_rank(folder, victim=2, after_step=2 * EVERY)
    shutil.copytree(folder.path, folder.path.with_name("killed"))
    newest = sorted((folder.path / "checkpoints").glob("step-*.pt"))[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    done = folder.run()
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_an_interrupted_run_ends_with_the_bits_of_an_uninterrupted_one(uninterrupted, interrupted):
    one, other = uninterrupted.events("end")[0], interrupted.events("end")[0]
    assert (one["loss_hex"], one["parameters_sha256"]) == (other["loss_hex"], other["parameters_sha256"])
    for rank in range(WORLD):
        assert uninterrupted.numbers(rank) == interrupted.numbers(rank)
        assert sorted(uninterrupted.numbers(rank)) == list(range(1, STEPS + 1))


def test_it_resumes_from_the_newest_whole_checkpoint_and_says_what_it_skipped(interrupted):
    first, second = interrupted.events("resume")
    assert (first["step"], first["skipped"]) == (0, [])
    assert second["step"] >= EVERY
    assert second["step"] % EVERY == 0
    torn = [s for s in second["skipped"] if s["why"].startswith("has 1000 of ")]
    assert [s["name"] for s in torn] == [f"step-{second['step'] + EVERY:08d}.pt"]
    steps = [event["step"] for event in interrupted.events("step")]
    assert steps.index(second["step"] + 1) < len(steps) - 1 - steps[::-1].index(second["step"] + 1), (
        "work was done again"
    )


def test_only_the_start_from_nothing_is_paced(interrupted):
    """So the power cut finds a run however fast its GPUs are, and no one waits for the steps after it."""
    paced = Folder(interrupted.path.with_name("paced"))
    done = paced.run("--steps", "3", "--pace-after", "1", "--pace-s", "0.5", world=1)
    assert done.returncode == 0, done.stderr[-3000:]
    times = [event["time"] for event in paced.events("step")]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.5
    assert max(event["step_s"] for event in paced.events("step")) < 0.5
    resumed = Folder(interrupted.path.with_name("resumed"))
    shutil.copytree(interrupted.path / "checkpoints", resumed.path / "checkpoints")
    for name in (f"step-{STEPS:08d}.json", f"step-{STEPS:08d}.pt"):
        (resumed.path / "checkpoints" / name).unlink()
    done = resumed.run("--pace-after", "1", "--pace-s", "60")
    assert done.returncode == 0, done.stderr[-3000:]
    assert [event["step"] for event in resumed.events("step")] == [STEPS - 3, STEPS - 2, STEPS - 1, STEPS]


def test_another_world_size_resumes_too_and_ends_near_the_same_loss(uninterrupted, interrupted):
    folder = Folder(interrupted.path.with_name("killed"))
    done = folder.run(world=2)
    assert done.returncode == 0, done.stderr[-3000:]
    resumed = folder.events("resume")[-1]
    assert (resumed["world_size_then"], folder.events("start")[-1]["world_size"]) == (WORLD, 2)
    assert resumed["step"] >= EVERY
    assert folder.events("end")[0]["loss"] == pytest.approx(uninterrupted.events("end")[0]["loss"], rel=1e-3)


def test_loss_falls_towards_the_entropy_of_the_corpus(uninterrupted):
    start, end = uninterrupted.events("start")[0], uninterrupted.events("end")[0]
    assert start["start_loss"] == pytest.approx(math.log(64))
    assert start["loss_floor"] < end["loss"] < start["start_loss"] - 0.5


def test_every_series_is_finite_and_its_steps_ascend(uninterrupted):
    for rank in range(WORLD):
        steps = uninterrupted.events("step", rank)
        assert [s["step"] for s in steps] == list(range(1, STEPS + 1))
        for name in (
            "loss",
            "gradient_norm",
            "learning_rate",
            "tokens_per_s",
            "step_s",
            "data_s",
            "compute_s",
            "communication_s",
            "checkpoint_stall_s",
        ):
            assert all(math.isfinite(s[name]) and s[name] >= 0 for s in steps), name
        assert {s["step"] for s in steps if s["accuracy"] is not None} == {10, 20, STEPS}


def test_a_slow_rank_shows_in_its_own_compute_and_in_the_others_communication(uninterrupted):
    def median(rank, part):
        values = sorted(s[part] for s in uninterrupted.events("step", rank) if 9 <= s["step"] <= 16)
        return values[len(values) // 2]

    compute = {rank: median(rank, "compute_s") for rank in range(WORLD)}
    assert max(compute, key=compute.__getitem__) == 1
    assert compute[1] - max(compute[0], compute[2]) > 0.03
    assert min(median(0, "communication_s"), median(2, "communication_s")) > median(1, "communication_s")


def test_the_run_says_on_what_it_ran_and_that_its_detectors_work(uninterrupted):
    start = uninterrupted.events("start")[0]
    assert (start["backend"], start["device"], start["world_size"], len(start["hosts"])) == (
        "gloo",
        "cpu",
        WORLD,
        WORLD,
    )
    assert start["detectors"] == ["not finite", "diverged"]
    assert {
        e["event"] for e in map(json.loads, (uninterrupted.path / "metrics/rank-0000.jsonl").read_text().splitlines())
    } <= set(training().EVENTS)


def test_checkpoints_are_measured_and_only_the_newest_stay(uninterrupted):
    written = uninterrupted.events("checkpoint")
    assert [w["step"] for w in written] == list(range(EVERY, STEPS + 1, EVERY))
    kept = sorted((uninterrupted.path / "checkpoints").iterdir())
    assert [p.name for p in kept] == [f"step-{s:08d}.{e}" for s in (16, 20, 24) for e in ("json", "pt")]
    assert written[-1]["bytes"] == kept[-1].stat().st_size
    assert all(w["gb_s"] == pytest.approx(w["bytes"] / w["write_s"] / 1e9) for w in written)


# ---- one process ---------------------------------------------------------------------------------------------------
def training():
    from validation.workloads import training as module

    return module


@pytest.fixture
def attempt(tmp_path):
    """Run one attempt of one rank; returns how it ended. `more` are further options."""
    return lambda *more: Folder(tmp_path).run(*more, world=1)


def test_a_loss_that_is_no_number_ends_the_run_at_its_step(attempt, tmp_path):
    done = attempt("--poison-step", "6")
    assert done.returncode == training().EXIT["not finite"]
    assert "training: not finite: step 6: loss is nan" in done.stderr
    folder = Folder(tmp_path)
    assert [f["text"] for f in folder.events("fault")] == ["step 6: loss is nan"]
    assert folder.events("step")[-1]["step"] == 5


def test_a_checkpoint_of_another_run_is_refused_and_a_finished_one_is_not_trained_again(attempt, tmp_path):
    folder = Folder(tmp_path)
    assert attempt("--steps", "8").returncode == 0
    done = attempt("--steps", "8", "--seed", "5")
    assert done.returncode == training().EXIT["refused"]
    assert "step-00000008.pt is of a run with {'seed': 20260401}: use another folder" in done.stderr
    assert attempt("--steps", "8").returncode == 0
    first, second = folder.events("end")
    assert second["parameters_sha256"] == first["parameters_sha256"]
    assert second["loss_hex"] == first["loss_hex"]
    assert len(folder.events("step")) == 8


@pytest.mark.needs("root")  # mounts a small file system
def test_a_full_disk_leaves_the_older_checkpoints_and_ends_with_its_name(attempt, tmp_path):
    small = tmp_path / "checkpoints"
    small.mkdir()
    folder = Folder(tmp_path)
    size_b = 700_000  # two of the three checkpoints that --keep 3 wants, each of about 330 KB
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_b}", "tmpfs", small], check=True)
    try:
        done = attempt("--keep", "3")
        left = sorted(path.name for path in small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.returncode == training().EXIT["checkpoint"]
    failed = folder.events("checkpoint failed")
    assert {f["error"] for f in failed} == {f"{small}: No space left on device"}
    whole = [c["step"] for c in folder.events("checkpoint")]
    assert whole
    assert len(whole) + len(failed) == STEPS // EVERY
    assert folder.events("fault")[0]["text"] == f"the last checkpoint on disk is step {whole[-1]} of {STEPS}"
    assert left == [f"step-{s:08d}.{e}" for s in whole for e in ("json", "pt")], "nothing half written stays"


def test_metrics_that_cannot_be_written_end_the_run(attempt, tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "rank-0000.jsonl").symlink_to("/dev/full")
    done = attempt()
    assert done.returncode != 0
    assert "No space left on device" in done.stderr


def test_a_line_that_a_power_cut_tore_spoils_no_other(tmp_path):
    path = tmp_path / "rank-0000.jsonl"
    path.write_text('{"event": "step", "step": 1}\n{"event": "st')
    recorder = training().Recorder(path, {"rank": 0})
    recorder.write("start")
    recorder.close()
    lines = path.read_text().splitlines()
    assert lines[1] == '{"event": "st'
    assert json.loads(lines[2])["event"] == "start"


def test_a_folder_that_another_rank_has_just_made_is_used(tmp_path):
    class Late(PosixPath):
        """A folder on storage that refuses the name before it shows the folder (seen on GlusterFS)."""

        shown = iter([False, False, True])

        def is_dir(self):
            return next(self.shown)

    (tmp_path / "checkpoints").mkdir()
    training().shared_folder(Late(tmp_path / "checkpoints"))
    assert not list(Late.shown)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        training().shared_folder(tmp_path / "file")


# ---- parts -----------------------------------------------------------------------------------------------------------
def write(folder, step, size=4096):
    import torch

    folder.mkdir(exist_ok=True)
    training().write_checkpoint(folder, step, {"model": torch.ones(size // 4)}, {"world_size": 1})


def test_a_state_without_its_manifest_was_not_finished(tmp_path):
    write(tmp_path, 5)
    write(tmp_path, 10)
    (tmp_path / "step-00000010.json").unlink()
    step, _, skipped = training().newest_complete(tmp_path)
    assert (step, skipped) == (
        5,
        [{"name": "step-00000010.pt", "why": "has no manifest: its writing was not finished"}],
    )


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]), "SHA-256 differs"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), r"has \d+ of \d+ bytes"),
        (lambda path: path.unlink(), "has a manifest and no state"),
        (
            lambda path: path.with_suffix(".json").write_text('{"step": 10'),
            "its manifest cannot be read: JSONDecodeError",
        ),
        (lambda path: path.with_suffix(".json").write_text("{}"), "its manifest cannot be read: KeyError"),
    ],
)
def test_a_damaged_checkpoint_is_skipped_with_the_reason(tmp_path, harm, why):
    import re

    write(tmp_path, 5)
    write(tmp_path, 10)
    harm(tmp_path / "step-00000010.pt")
    step, manifest, skipped = training().newest_complete(tmp_path)
    assert (step, manifest["step"]) == (5, 5)
    assert [s["name"] for s in skipped] == ["step-00000010.pt"]
    assert re.search(why, skipped[0]["why"])


def test_an_empty_folder_starts_from_the_beginning(tmp_path):
    assert training().newest_complete(tmp_path) == (0, {}, [])


def test_what_an_attempt_left_in_mid_write_is_removed_and_named(tmp_path):
    write(tmp_path, 5)
    leftover = tmp_path / ".step-00000010.pt.gpu003.77.tmp"
    leftover.write_bytes(b"half")
    step, _, skipped = training().newest_complete(tmp_path)
    assert step == 5
    assert [s["name"] for s in skipped] == [leftover.name]
    assert not leftover.exists()


def test_retention_removes_what_is_older_also_when_it_is_torn(tmp_path):
    for step in (5, 10, 15, 20):
        write(tmp_path, step)
    (tmp_path / "step-00000005.json").unlink()
    training().keep_newest(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"step-{s:08d}.{e}" for s in (15, 20) for e in ("json", "pt")]


def test_samples_depend_on_seed_and_index_alone():
    corpus = training().Corpus(7, 16, 12)
    whole = corpus.samples(100, 6)
    assert whole.shape == (6, 13)
    for first, count in ((100, 2), (102, 2), (104, 2)):
        assert (corpus.samples(first, count) == whole[first - 100 : first - 100 + count]).all()
    assert (training().Corpus(8, 16, 12).samples(100, 6) != whole).any()


def test_the_floor_is_the_entropy_of_the_chain():
    corpus = training().Corpus(7, 16, 2000)
    tokens = corpus.samples(0, 8)
    followed = (corpus.successor[tokens[:, :-1]] == tokens[:, 1:]).double().mean().item()
    likely = 0.9 + 0.1 / 16
    assert followed == pytest.approx(likely, abs=0.01)
    assert corpus.floor == pytest.approx(-likely * math.log(likely) - (1 - likely) * math.log(0.1 / 16))


def test_the_learning_rate_warms_up_and_falls_to_a_tenth():
    rates = [training().learning_rate(step, 50, 1.0) for step in range(1, 51)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)


def test_a_loss_that_climbs_is_named_and_one_that_falls_is_not():
    detector = training().Detector(start=4.0)
    for step, loss in enumerate([4.1, 3.0, 9.0, 2.5, 2.0, 1.5, 1.0], 1):
        detector.see(step, loss, 1.0)
    for step in range(8, 12):
        detector.see(step, 7.0, 1.0)
    with pytest.raises(
        training().TrainingFault, match="step 12: mean loss of 5 steps is 7.000, above 1.5 x 4.000"
    ) as caught:
        detector.see(12, 7.0, 1.0)
    assert caught.value.kind == "diverged"


def test_a_gradient_that_is_not_finite_is_named():
    with pytest.raises(training().TrainingFault, match="step 1: gradient norm is inf"):
        training().Detector(start=4.0).see(1, 3.0, math.inf)


def test_a_stall_is_said_once_and_a_hang_ends_the_process_with_its_stack(tmp_path):
    program = tmp_path / "hangs.py"
    program.write_text(
        "import pathlib, time\nfrom validation.workloads.training import Recorder, Watchdog\n"
        f"recorder = Recorder(pathlib.Path({str(tmp_path / 'metrics' / 'rank-0000.jsonl')!r}), {{'rank': 0}})\n"
        "watchdog = Watchdog(recorder, stall_s=0.3, hang_s=2.0)\nwatchdog.beat(7)\ntime.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(TRAINING.parents[2])},
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "hangs.py" in done.stderr
    stalls = Folder(tmp_path).events("stalled")
    assert [s["after_step"] for s in stalls] == [7]


def test_a_batch_that_the_ranks_cannot_share_is_refused():
    assert training().share_of(24, 3) == 8
    with pytest.raises(training().TrainingFault, match="a batch of 7 samples is not a multiple of the world size 2"):
        training().share_of(7, 2)
