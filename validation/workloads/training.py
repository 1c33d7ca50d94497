"""A small training run that survives its machines: a plain torchrun program (NCCL where every rank has a GPU, else gloo).

    torchrun --nnodes N --nproc-per-node G training.py --checkpoints DIR --metrics DIR --steps 60 --checkpoint-every 5

Trains a decoder-only transformer by data parallelism on a synthetic corpus. Started again with the same folders, it
resumes from the newest complete checkpoint and, at the same world size, ends with the very same bits: the data of a
step depends on seed and step alone, algorithms are deterministic, and a warm-up step gives the gradients the bucket
layout that they keep. The global batch does not depend on the world size, so that another one may resume, too.

Writes under --metrics one file of JSON lines per rank (`rank-0000.jsonl`, appended by every attempt; events in EVENTS),
under --checkpoints the states. A checkpoint is there once its manifest is: state and manifest are written beside their
names, synced and renamed, state first. Exit status: 0 all steps done, else a name in EXIT.
Standard library and torch only, so that it can be copied to a node alone.
"""

import argparse
import faulthandler
import hashlib
import io
import json
import math
import os
import queue
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it, and reads it once

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

SCHEMA_VERSION = 1
EXIT = {"refused": 2, "not finite": 3, "diverged": 4, "checkpoint": 6, "ranks differ": 7}
EVENTS = {
    "start": "An attempt began: who takes part, on which device (UUID as in NVML), how many parameters, which detectors named "
    "their test series.",
    "resume": "Where it goes on (step 0: from the beginning) and which checkpoints were skipped, with the reason.",
    "step": "One step: loss, accuracy (every tenth), gradient norm, learning rate, tokens/s, MFU where known, seconds.",
    "stalled": "No step was finished for --stall-s.",
    "checkpoint": "A checkpoint is complete: bytes, seconds that training waited, seconds until it was durable.",
    "checkpoint failed": "A checkpoint could not be written; training goes on, the older ones stay.",
    "fault": "Why the attempt ended early.",
    "end": "All steps done: held-out loss (also in hexadecimal), SHA-256 of the parameters, seconds of training and, of the "
    "training thread's processor time, those for metrics.",
}
STALL_POLL_S = 0.2
ACCURACY_EVERY = 10
"""Steps between two measurements of the accuracy: the one number that training itself does not compute."""


# ---- corpus ----------------------------------------------------------------------------------------------------------
class Corpus:
    """Sequences of a random Markov chain: every token has one likely successor, taken with probability `certainty`.

    Sample `index` depends on (seed, index) alone. `floor` is the entropy of the next token in nats: no model's loss can
    stay below it.
    """

    def __init__(self, seed: int, vocabulary: int, length: int, certainty: float = 0.9) -> None:
        self.seed, self.vocabulary, self.length, self.certainty = seed, vocabulary, length, certainty
        self.successor = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(seed))
        likely = certainty + (1 - certainty) / vocabulary
        other = (1 - certainty) / vocabulary
        self.floor = -likely * math.log(likely) - (vocabulary - 1) * other * math.log(other)

    def samples(self, first: int, count: int) -> Tensor:
        """Samples first … first+count-1 as int64 [count, length + 1]: inputs are [:, :-1], targets [:, 1:]."""
        draws, chances = [], []
        for index in range(first, first + count):
            source = torch.Generator().manual_seed((self.seed << 32) + index)
            draws.append(torch.randint(self.vocabulary, (self.length + 1,), generator=source))
            chances.append(torch.rand(self.length + 1, generator=source))
        drawn, likely = torch.stack(draws), torch.stack(chances) < self.certainty
        tokens = drawn.clone()
        for position in range(1, self.length + 1):
            followed = self.successor[tokens[:, position - 1]]
            tokens[:, position] = torch.where(likely[:, position], followed, drawn[:, position])
        return tokens


# ---- model -----------------------------------------------------------------------------------------------------------
class Block(nn.Module):
    """Pre-norm attention and MLP. The attention is written out: no fused kernel whose backward pass is not deterministic."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x: [batch, length, width]; mask: [length, length], -inf where a position must not look."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(shape[-1]) + mask, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """A decoder-only transformer."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: int64 [batch, length]; returns logits [batch, length, vocabulary]."""
        x = self.token(tokens) + self.position.weight
        mask = torch.full((tokens.shape[1], tokens.shape[1]), -math.inf, device=tokens.device).triu(1)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def flops_per_token(parameters: int, layers: int, width: int, length: int) -> float:
    """Floating-point operations of forward and backward pass for one token: 6 N + 12 L d T (PaLM paper, appendix B)."""
    return 6.0 * parameters + 12.0 * layers * width * length


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up over the first tenth, then half a cosine down to a tenth of `peak`. Steps count from 1."""
    warm = max(1, steps // 10)
    if step <= warm:
        return peak * step / warm
    return peak * (0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def digest(model: nn.Module) -> str:
    """SHA-256 over names and bytes of all parameters."""
    total = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        total.update(name.encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


# ---- detectors -------------------------------------------------------------------------------------------------------
class TrainingFault(Exception):
    """Training must not go on. `kind` is a key of EXIT."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class Detector:
    """Finds losses that are not finite and losses that climb: the mean of `window` steps above `factor` times `start`.

    `start` is the loss of a model that knows nothing, in nats. A gradient that is not finite is on all ranks after the
    all-reduce; so every rank stops at the same step.
    """

    start: float
    factor: float = 1.5
    window: int = 5
    recent: deque[float] = field(default_factory=deque)

    def see(self, step: int, loss: float, gradient_norm: float) -> None:
        """Raise TrainingFault when this step must be the last."""
        for name, value in (("loss", loss), ("gradient norm", gradient_norm)):
            if not math.isfinite(value):
                raise TrainingFault("not finite", f"step {step}: {name} is {value}")
        self.recent.append(loss)
        if len(self.recent) > self.window:
            self.recent.popleft()
        mean = sum(self.recent) / len(self.recent)
        if len(self.recent) == self.window and mean > self.factor * self.start:
            raise TrainingFault(
                "diverged",
                f"step {step}: mean loss of {self.window} steps is {mean:.3f}, above {self.factor} x {self.start:.3f}",
            )


def proven_detectors() -> list[str]:
    """The kinds of fault that the detectors name in series made for it; the run's header says so before step 1."""
    named = []
    for series in ([1.0, math.nan], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]):
        detector = Detector(start=1.0)
        try:
            for step, loss in enumerate(series, 1):
                detector.see(step, loss, 1.0)
        except TrainingFault as fault:
            named.append(fault.kind)
    return named


# ---- shared folders --------------------------------------------------------------------------------------------------
FOLDER_BUDGET_S = 10.0


def shared_folder(folder: Path) -> None:
    """Make a folder that other ranks make at the same moment: shared storage may refuse a name that it does not show yet."""
    end = time.monotonic() + FOLDER_BUDGET_S
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return
        except FileExistsError:  # it is there, and asked whether it is a folder, the storage says no
            if folder.is_file() or time.monotonic() > end:
                raise
            time.sleep(0.1)


# ---- metrics ---------------------------------------------------------------------------------------------------------
class Recorder:
    """Appends JSON lines to files from a thread of its own: a slow disk costs training only the time to queue a line.

    `own` is a second file, on the node itself, in a folder of this user alone. `spent_s` is what the training thread gave. An error
    of a file is raised at the next `write` or at `close`.
    """

    def __init__(self, path: Path, common: Mapping[str, Any], own: Path | None = None) -> None:
        shared_folder(path.parent)
        if own:
            own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.common, self.spent_s, self.error = common, 0.0, None
        self.files = [_appended(one) for one in (path, own) if one]
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._drain, name="metrics", daemon=True)
        self.thread.start()

    error: OSError | None

    def write(self, event: str, **values: Any) -> None:
        """Queue one event."""
        if self.error:
            raise self.error
        began = time.perf_counter()
        self.lines.put(json.dumps({"event": event, "time": time.time(), **self.common, **values}) + "\n")
        self.spent_s += time.perf_counter() - began

    def close(self) -> None:
        """Write what is queued and end."""
        self.lines.put(None)
        self.thread.join()
        for file in self.files:
            file.close()
        if self.error:
            raise self.error

    def _drain(self) -> None:
        while (line := self.lines.get()) is not None:
            try:
                for file in self.files:
                    file.write(line)
                    file.flush()
            except OSError as error:
                self.error = error
                return


def _appended(path: Path) -> TextIO:
    """The file to append lines to; a line that the power cut in the attempt before is ended first."""
    file = path.open("a+")
    if file.tell() and not _ends_a_line(path):
        file.write("\n")
    return file


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


class Watchdog:
    """Says when no step is finished for `stall_s`, and ends the process with all threads' stacks after `hang_s`.

    The end comes from faulthandler's own thread: it also works while Python is stuck in a collective.
    """

    def __init__(self, recorder: Recorder, stall_s: float, hang_s: float) -> None:
        self.recorder, self.stall_s, self.hang_s = recorder, stall_s, hang_s
        self.step, self.last, self.said = 0, time.monotonic(), False
        self.stop = threading.Event()
        self.beat(0)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def beat(self, step: int) -> None:
        """A step was finished."""
        self.step, self.last, self.said = step, time.monotonic(), False
        faulthandler.dump_traceback_later(self.hang_s, exit=True)

    def close(self) -> None:
        """All is done."""
        self.stop.set()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        while not self.stop.wait(STALL_POLL_S):
            waited_s = time.monotonic() - self.last
            if waited_s > self.stall_s and not self.said and not self.recorder.error:
                self.said = True
                self.recorder.write("stalled", after_step=self.step, seconds=round(waited_s, 3))


class Clock:
    """Seconds between two marks: of the wall on a CPU, of the compute stream on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"

    def mark(self) -> Any:
        """A point in time; on a GPU it is reached when the work queued so far is done."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first: Any, second: Any) -> float:
        """Seconds from one mark to another."""
        if not self.cuda:
            return second - first
        second.synchronize()
        return first.elapsed_time(second) / 1e3


# ---- checkpoints -----------------------------------------------------------------------------------------------------
def state_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}.pt"


def publish(path: Path, content: bytes) -> None:
    """Write a file so that its name never shows half of it, and make it durable before this returns."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_checkpoint(folder: Path, step: int, state: Mapping[str, Any], about: Mapping[str, Any]) -> int:
    """State, then manifest. Returns the bytes of the state."""
    content = io.BytesIO()
    torch.save(dict(state), content)
    path, data = state_path(folder, step), content.getvalue()
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "step": step,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "written": time.time(),
        **about,
    }
    path.with_suffix(".json").unlink(missing_ok=True)
    publish(path, data)
    publish(path.with_suffix(".json"), json.dumps(manifest).encode())
    return len(data)


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest `count` checkpoints, manifest first; states without a manifest that are older go, too."""
    kept = sorted(folder.glob("step-*.json"))[-count:]
    for path in sorted(folder.glob("step-*")):
        if kept and path.name < kept[0].name and path.with_suffix(".json") not in kept:
            path.with_suffix(".json").unlink(missing_ok=True)
            path.with_suffix(".pt").unlink(missing_ok=True)


def read_checkpoint(folder: Path, step: int) -> tuple[dict[str, Any], bytes]:
    """Manifest and state of a checkpoint; ValueError says what is wrong with it."""
    path = state_path(folder, step)
    try:
        manifest = json.loads(path.with_suffix(".json").read_text())
        expected, wanted = int(manifest["bytes"]), str(manifest["sha256"])
    except FileNotFoundError:
        raise ValueError("has no manifest: its writing was not finished") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"its manifest cannot be read: {type(error).__name__}: {error}") from None
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ValueError("has a manifest and no state") from None
    if len(data) != expected:
        raise ValueError(f"has {len(data)} of {expected} bytes")
    if hashlib.sha256(data).hexdigest() != wanted:
        raise ValueError("its bytes are not those that were written (SHA-256 differs)")
    return manifest, data


def newest_complete(folder: Path) -> tuple[int, dict[str, Any], list[dict[str, str]]]:
    """(step, manifest, skipped) of the newest checkpoint that is whole; step 0 and {} when there is none.

    Each skipped one has `name` and `why`. Temporary files of an attempt that died in mid-write are removed.
    """
    skipped = []
    for leftover in sorted(folder.glob(".step-*.tmp")):
        leftover.unlink(missing_ok=True)
        skipped.append({"name": leftover.name, "why": "was being written when its attempt ended; removed"})
    steps = {int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.*")}
    for step in sorted(steps, reverse=True):
        try:
            manifest, _ = read_checkpoint(folder, step)
        except ValueError as error:
            skipped.append({"name": state_path(folder, step).name, "why": str(error)})
        else:
            return step, manifest, skipped
    return 0, {}, skipped


class Writer:
    """Writes checkpoints from a thread. Training waits for the copy in memory, and for the write before when it is slow.

    A write that fails is recorded and leaves the older checkpoints; `durable` is the newest step that is on disk.
    """

    def __init__(self, folder: Path, keep: int, about: Mapping[str, Any], recorder: Recorder) -> None:
        shared_folder(folder)
        self.folder, self.keep, self.about, self.recorder = folder, keep, about, recorder
        self.durable = 0
        self.thread: threading.Thread | None = None

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
        """Copy the state and start to write it. Returns the seconds that training waited."""
        began = time.perf_counter()
        self.wait()
        state = {"model": copied(model.state_dict()), "optimizer": copied(optimizer.state_dict())}
        stall_s = time.perf_counter() - began
        self.thread = threading.Thread(target=self._write, args=(step, state, stall_s), name="checkpoint")
        self.thread.start()
        return stall_s

    def wait(self) -> None:
        """Wait until nothing is being written."""
        if self.thread:
            self.thread.join()

    def _write(self, step: int, state: Mapping[str, Any], stall_s: float) -> None:
        began = time.perf_counter()
        try:
            size_b = write_checkpoint(self.folder, step, state, self.about)
            self.durable = step
            keep_newest(self.folder, self.keep)
        except OSError as error:
            self.recorder.write("checkpoint failed", step=step, error=f"{self.folder}: {error.strerror or error}")
            return
        write_s = time.perf_counter() - began
        self.recorder.write(
            "checkpoint",
            step=step,
            bytes=size_b,
            stall_s=stall_s,
            write_s=write_s,
            total_s=stall_s + write_s,
            gb_s=size_b / write_s / 1e9,
        )


def copied(value: Any) -> Any:
    """The value with every tensor copied to host memory."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: copied(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [copied(part) for part in value]
    return value


# ---- the run ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Settings:
    """All that decides the numbers of a run; a checkpoint of other settings is refused. `batch`: samples of a step."""

    seed: int
    steps: int
    batch: int
    length: int
    vocabulary: int
    width: int
    layers: int
    heads: int
    learning_rate: float
    clip: float


def share_of(batch: int, world: int) -> int:
    """Samples of one rank."""
    if batch % world:
        raise TrainingFault("refused", f"a batch of {batch} samples is not a multiple of the world size {world}")
    return batch // world


class Trainer:
    """One attempt of one rank."""

    def __init__(self, settings: Settings, options: argparse.Namespace, device: torch.device) -> None:
        self.settings, self.options, self.device = settings, options, device
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.share = share_of(settings.batch, self.world)
        self.attempt = int(os.environ.get("SLURM_RESTART_COUNT") or 0) + int(
            os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)
        )
        self.clock = Clock(device)
        self.corpus = Corpus(settings.seed, settings.vocabulary, settings.length)
        self.start_loss = math.log(settings.vocabulary)
        torch.manual_seed(settings.seed)
        self.model = Model(settings.vocabulary, settings.length, settings.width, settings.layers, settings.heads).to(
            device
        )
        self.parallel = DistributedDataParallel(self.model, device_ids=[device] if device.type == "cuda" else None)
        self.reduced: Any = None
        self.parallel.register_comm_hook(None, self._all_reduce)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        name = f"rank-{self.rank:04d}.jsonl"
        own = Path(os.path.expandvars(options.results)) / name if options.results else None
        self.recorder = Recorder(options.metrics / name, {"rank": self.rank, "attempt": self.attempt}, own)
        self.writer = Writer(
            options.checkpoints, options.keep, {"world_size": self.world, "settings": asdict(settings)}, self.recorder
        )
        self.observing_s = 0.0

    def _all_reduce(
        self,
        _: None,
        bucket: dist.GradBucket,  # type: ignore[name-defined]
    ) -> torch.futures.Future[Tensor]:
        """Average one bucket of gradients; remembers when the last one was ready, from where on waiting is exposed."""
        self.reduced = self.clock.mark()
        work = dist.all_reduce(bucket.buffer().div_(self.world), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    # ---- parts of a step -------------------------------------------------------------------------------------------
    def samples(self, step: int) -> tuple[Tensor, Tensor]:
        """This rank's inputs and targets of a step, each int64 [batch / world, length]."""
        first = (step - 1) * self.settings.batch + self.rank * self.share
        tokens = self.corpus.samples(first, self.share).to(self.device)
        return tokens[:, :-1], tokens[:, 1:]

    def loss(self, inputs: Tensor, targets: Tensor, model: nn.Module) -> tuple[Tensor, Tensor]:
        """(mean cross-entropy in nats, logits)."""
        logits = model(inputs)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten()), logits

    def warm_up(self) -> None:
        """One step that changes nothing. DDP lays its buckets out anew after the first backward pass, and the order in
        which gradients are summed follows from that: now every step that counts has the same, also after a resume."""
        torch.autograd.backward(self.loss(*self.samples(1), self.parallel)[0])
        self.optimizer.zero_grad()

    def step(self, step: int, detector: Detector) -> None:
        """Train one step and record it."""
        began = self.clock.mark()
        inputs, targets = self.samples(step)
        loaded = self.clock.mark()
        self._delay(step)
        loss, logits = self.loss(inputs, targets, self.parallel)
        if step == self.options.poison_step:
            loss = loss * math.nan
        torch.autograd.backward(loss)
        averaged, reduced = self.clock.mark(), self.reduced
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip))
        rate = learning_rate(step, self.settings.steps, self.settings.learning_rate)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        value = float(loss.detach())
        detector.see(step, value, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        updated = self.clock.mark()
        every = self.options.checkpoint_every
        stall_s = 0.0
        if self.rank == 0 and (step % every == 0 or step == self.settings.steps):
            stall_s = self.writer.save(step, self.model, self.optimizer)
        took_s = self.clock.between(began, updated) + stall_s
        observing = time.thread_time()
        due = step % ACCURACY_EVERY == 0 or step == self.settings.steps
        accuracy = float((logits.detach().argmax(-1) == targets).double().mean()) if due else None
        tokens_s = self.settings.batch * self.settings.length / took_s
        flops = flops_per_token(self.parameters, self.settings.layers, self.settings.width, self.settings.length)
        peak = self.options.peak_tflops * 1e12 * self.world
        self.recorder.write(
            "step",
            step=step,
            loss=value,
            accuracy=accuracy,
            gradient_norm=norm,
            learning_rate=rate,
            tokens_per_s=tokens_s,
            mfu=tokens_s * flops / peak if peak else None,
            step_s=took_s,
            data_s=self.clock.between(began, loaded),
            compute_s=self.clock.between(loaded, reduced) + self.clock.between(averaged, updated),
            communication_s=self.clock.between(reduced, averaged),
            checkpoint_stall_s=stall_s,
        )
        self.observing_s += time.thread_time() - observing

    def _delay(self, step: int) -> None:
        first, last = self.options.slow_steps
        if self.rank == self.options.slow_rank and first <= step <= last:
            time.sleep(self.options.slow_ms / 1e3)

    # ---- the whole -------------------------------------------------------------------------------------------------
    def resume(self) -> int:
        """Load the newest complete checkpoint; returns its step. Rank 0 chooses, and every rank reads the same bytes."""
        chosen: list[Any] = [None]
        if self.rank == 0:
            chosen = [newest_complete(self.options.checkpoints)]
        dist.broadcast_object_list(chosen, src=0, device=self.device)
        step, manifest, skipped = chosen[0]
        if step:
            theirs = {key: value for key, value in manifest["settings"].items() if value != asdict(self.settings)[key]}
            if theirs:
                raise TrainingFault(
                    "refused",
                    f"{state_path(self.options.checkpoints, step)} is of a run with {theirs}: use another folder",
                )
            try:
                mine, data = read_checkpoint(self.options.checkpoints, step)
            except ValueError as error:
                raise TrainingFault(
                    "checkpoint", f"rank {self.rank} on {socket.gethostname()}: step {step} {error}"
                ) from None
            if mine["sha256"] != manifest["sha256"]:
                raise TrainingFault(
                    "checkpoint",
                    f"rank {self.rank} on {socket.gethostname()} sees another checkpoint of step {step} than rank 0",
                )
            state = torch.load(io.BytesIO(data), map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.writer.durable = step
        self.recorder.write("resume", step=step, skipped=skipped, world_size_then=manifest.get("world_size"))
        return step

    def finish(self) -> dict[str, Any]:
        """Held-out loss and parameters' hash, which all ranks must agree on."""
        held_out = self.corpus.samples((self.settings.steps + 1) * self.settings.batch, self.settings.batch).to(
            self.device
        )
        with torch.no_grad():
            loss = float(self.loss(held_out[:, :-1], held_out[:, 1:], self.model)[0])
        mine = {"loss": loss, "loss_hex": loss.hex(), "parameters_sha256": digest(self.model)}
        everyone: list[Any] = [None] * self.world
        dist.all_gather_object(everyone, mine)
        if any(other != mine for other in everyone):
            raise TrainingFault("ranks differ", f"the ranks ended with different parameters: {everyone}")
        return mine

    def run(self) -> None:
        """Train from the newest checkpoint to the last step."""
        hosts: list[Any] = [None] * self.world
        dist.all_gather_object(hosts, socket.gethostname())
        self.recorder.write(
            "start",
            schema_version=SCHEMA_VERSION,
            pid=os.getpid(),
            host=socket.gethostname(),
            hosts=hosts,
            world_size=self.world,
            backend=dist.get_backend(),
            torch=torch.__version__,
            device=torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
            uuid=f"GPU-{torch.cuda.get_device_properties(self.device).uuid}" if self.device.type == "cuda" else "",
            parameters=self.parameters,
            settings=asdict(self.settings),
            start_loss=self.start_loss,
            loss_floor=self.corpus.floor,
            detectors=proven_detectors(),
            job=os.environ.get("SLURM_JOB_ID", ""),
        )
        watchdog = Watchdog(self.recorder, self.options.stall_s, self.options.hang_s)
        with self._ending(watchdog):
            self.warm_up()
            first = self.resume() + 1
            detector, began = Detector(self.start_loss), time.perf_counter()
            for step in range(first, self.settings.steps + 1):
                self.step(step, detector)
                watchdog.beat(step)
                if first == 1 and step >= self.options.pace_after:
                    time.sleep(self.options.pace_s)
            trained_s = time.perf_counter() - began
            final = self.finish()
            self.writer.wait()
            if self.rank == 0 and self.writer.durable < self.settings.steps:
                raise TrainingFault(
                    "checkpoint", f"the last checkpoint on disk is step {self.writer.durable} of {self.settings.steps}"
                )
            self.recorder.write(
                "end", steps=self.settings.steps, trained_s=trained_s, observing_s=self.observing_s, **final
            )

    @contextmanager
    def _ending(self, watchdog: Watchdog) -> Iterator[None]:
        try:
            yield
        except TrainingFault as fault:
            self.recorder.write("fault", kind=fault.kind, text=str(fault))
            raise
        except RuntimeError as error:  # what torch.distributed raises when a peer is lost
            self.recorder.write("fault", kind="error", text=f"{type(error).__name__}: {error}"[:500])
            raise
        finally:
            watchdog.close()
            self.writer.wait()
            self.recorder.close()


def steps_range(text: str) -> tuple[int, int]:
    """'5:9' as (5, 9)."""
    first, _, last = text.partition(":")
    return int(first), int(last or first)


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder that all nodes share")
    parser.add_argument("--metrics", type=Path, required=True, help="folder for the ranks' JSON lines")
    parser.add_argument(
        "--results", default="", help="folder on the node for the same lines; $NAME stands for a variable"
    )
    parser.add_argument(
        "--computes-on",
        choices=("gpu", "cpu"),
        default="gpu" if torch.cuda.is_available() else "cpu",
        help="gpu ends the rank where PyTorch finds none; left out: a GPU where there is one",
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="STEPS")
    parser.add_argument("--keep", type=int, default=3, help="complete checkpoints that stay")
    parser.add_argument("--seed", type=int, default=20260401)
    parser.add_argument(
        "--batch", type=int, default=24, help="samples of a step over all ranks; a multiple of the world size"
    )
    parser.add_argument("--length", type=int, default=32, help="tokens of a sample")
    parser.add_argument("--vocabulary", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    parser.add_argument("--peak-tflops", type=float, default=0.0, help="of one device, for MFU; 0: not known")
    parser.add_argument("--stall-s", type=float, default=5.0, help="say so when no step is finished for so long")
    parser.add_argument(
        "--hang-s", type=float, default=120.0, help="end the process when no step is finished for so long"
    )
    faults = parser.add_argument_group("faults to inject")
    faults.add_argument("--slow-rank", type=int, default=-1)
    faults.add_argument("--slow-ms", type=float, default=100.0, help="delay of each step of the slow rank")
    faults.add_argument("--slow-steps", type=steps_range, default=(1, sys.maxsize), metavar="FIRST:LAST")
    faults.add_argument(
        "--pace-after",
        type=int,
        default=sys.maxsize,
        metavar="STEP",
        help="a run that starts from step 1 waits --pace-s after each step from here on: time to lose a node in",
    )
    faults.add_argument("--pace-s", type=float, default=1.0)
    faults.add_argument("--poison-step", type=int, default=0, help="a loss that is not a number at this step")
    return parser


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    settings = Settings(**{name: getattr(options, name) for name in Settings.__dataclass_fields__})
    gpu = options.computes_on == "gpu"
    if gpu and not torch.cuda.is_available():
        parser.error(f"--computes-on gpu: PyTorch {torch.__version__} finds no GPU that computes")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)  # sums over several threads depend on their number
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=options.hang_s))
    try:
        Trainer(settings, options, device).run()
    except TrainingFault as fault:
        print(f"training: {fault.kind}: {fault}", file=sys.stderr, flush=True)
        os._exit(EXIT[fault.kind])  # peers may sit in a collective: an orderly end would wait for them
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
