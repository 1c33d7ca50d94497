"""What the torch jobs print, down to every field that a check reads: JSON in, typed and bounded data out.

    report = report_of(BurnInReport, job.output, Source("job 7", "read the report of the burn-in"))

A job runs on many nodes, and whatever runs there may print: nothing of it is trusted before it is typed.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypeVar, cast

from pydantic import with_config
from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import EXTRA_KEYS_STAY, Flag, Line, Number, Source, Text, Whole


class Measured(TypedDict):
    """What a row of a sweep is about."""

    type: Line
    operation: Line
    size_b: Whole


class SpanOfRank(TypedDict):
    """What a rank measured in its group of a span; the first rank of the group says what each time is about."""

    span: Line
    group: Line
    size: Whole
    time_us: list[Number]
    wrong: list[Whole]
    rows: NotRequired[list[Measured]]


class InNetwork(TypedDict):
    """What a rank says of reduction in the switches: `asked` on or off, the algorithms of an all-reduce by its size in bytes."""

    asked: Line
    plugin: Line
    channels: Whole
    algorithms: dict[Line, list[Line]]


@with_config(EXTRA_KEYS_STAY)
class CollectivesRank(TypedDict):
    """One rank of workloads/collectives.py: 'cpu' or the GPU's name, the GPU's UUID as NVML writes it, what it measured."""

    schema_version: Whole
    rank: Whole
    host: Line
    device: Line
    uuid: Line
    backend: Line
    torch: Line
    world_size: Whole
    iterations: Whole
    transports: dict[Line, Whole]
    spans: list[SpanOfRank]
    in_network: NotRequired[InNetwork]


class CollectivesPrinted(TypedDict):
    """What rank 0 of workloads/collectives.py prints where the ranks write no files."""

    ranks: list[CollectivesRank]


class FirstWrong(TypedDict):
    """Where memory came back wrong first; no place where a second reading was right."""

    pattern: Line
    offset_b: Whole | None


class MemoryTest(TypedDict):
    """The memory test of a rank."""

    total_b: Whole
    tested_b: Whole
    sets: Whole
    patterns: dict[Line, Whole]
    first_wrong: FirstWrong | None


class Products(TypedDict):
    """The products of a rank in one precision."""

    rounds: Whole
    wrong_products: Whole
    digest: Line
    first_gflops: Number | None
    last_gflops: Number | None


@with_config(EXTRA_KEYS_STAY)
class BurnInRank(TypedDict):
    """One rank's load."""

    rank: Whole
    device: Line
    uuid: Line
    rounds: Whole
    wrong_products: Whole
    wrong_words: Whole
    memory: MemoryTest
    precisions: dict[Line, Products]
    not_supported: list[Line]
    error: Line


class Pcie(TypedDict):
    """The least of a GPU's PCIe link while it computed, and what it can."""

    generation: Whole | None
    width: Whole | None
    max_generation: Whole | None
    max_width: Whole | None


class NvLink(TypedDict):
    """A GPU's NVLinks during the run: how many were up, and what their error counters gained."""

    links: Whole
    least_up: Whole
    seconds: Number
    new: dict[Line, int]


@with_config(EXTRA_KEYS_STAY)
class BurnInGpu(TypedDict):
    """One GPU as NVML saw it meanwhile."""

    uuid: Line
    serial: Line
    slot: Whole | None
    error: Line
    samples: Whole
    max_c: Number | None
    max_memory_c: Number | None
    watts: dict[Line, Number]
    limit_w: Number | None
    default_limit_w: Number | None
    reasons: dict[Line, Whole]
    uncorrected: Whole | None
    remapped: Whole | None
    remap_pending: Whole | None
    remap_failed: Whole | None
    not_supported: list[Line]
    least_margin_c: NotRequired[Number | None]
    pcie: NotRequired[Pcie]
    nvlink: NotRequired[NvLink | None]


class Xid(TypedDict):
    """An XID event."""

    uuid: Line
    xid: Whole


@with_config(EXTRA_KEYS_STAY)
class Watch(TypedDict):
    """What the rank that watches a node saw of its GPUs."""

    gpus: list[BurnInGpu]
    xids: list[Xid]
    telemetry_error: Line


@with_config(EXTRA_KEYS_STAY)
class BurnInResult(TypedDict):
    """The results of one rank, as workloads/burnin.py keeps them."""

    device: Line
    took_s: Number
    phase: Line
    ended: Flag
    rank: BurnInRank
    watch: Watch | None
    torch: NotRequired[Line]


# ---- training: the events that a rank writes (workloads/training.py) ---------------------------------------------------
class TrainingEvent(TypedDict):
    """What every event says: Unix time in seconds, the rank, and how often the job had been started before."""

    event: Line
    time: Number
    rank: Whole
    attempt: Whole


class TrainingSettings(TypedDict):
    """The model that a run trains, and how: length in tokens of a sample, batch in samples of a step over all ranks."""

    steps: Whole
    batch: Whole
    length: Whole
    vocabulary: Whole
    width: Whole
    layers: Whole
    heads: Whole


class TrainingStart(TrainingEvent):
    """An attempt began: on what it computes, over what the ranks talk, on which nodes they are, and what they train."""

    host: Line
    hosts: list[Line]
    world_size: Whole
    backend: Line
    device: Line
    uuid: Line
    start_loss: Number
    loss_floor: Number
    detectors: list[Line]
    job: Line
    settings: TrainingSettings


class TrainingResume(TrainingEvent):
    """The step of the checkpoint from which an attempt goes on; 0 for the beginning."""

    step: Whole
    skipped: list[Any]


class TrainingStep(TrainingEvent):
    """One step."""

    step: Whole
    loss: Number
    accuracy: Number | None
    gradient_norm: Number
    learning_rate: Number
    tokens_per_s: Number
    step_s: Number
    data_s: Number
    compute_s: Number
    communication_s: Number
    checkpoint_stall_s: Number


class TrainingCheckpoint(TrainingEvent):
    """A checkpoint that is durable."""

    step: Whole
    bytes: Whole
    stall_s: Number
    write_s: Number
    total_s: Number
    gb_s: Number


class TrainingEnd(TrainingEvent):
    """All steps are done."""

    loss: Number
    loss_hex: Line
    parameters_sha256: Line
    observing_s: Number
    trained_s: Number


TRAINING_EVENTS: Mapping[str, Any] = {
    "start": TrainingStart,
    "resume": TrainingResume,
    "step": TrainingStep,
    "checkpoint": TrainingCheckpoint,
    "end": TrainingEnd,
}
"""By kind of event, what it has to say; others (a fault, a failed checkpoint, a step that is awaited) say what every event says."""


class TrainingJob(TypedDict):
    """A job as Slurm said that it ended; Unix times in seconds."""

    job: Whole
    state: Line
    submitted: Number
    ended: Number
    nodes: list[Line]


class TrainingState(TypedDict):
    """The job and the node that lost its power as Slurm saw them."""

    time: Number
    state: Line
    restarts: Whole
    nodes: list[Line]
    victim: Line


class TrainingSight(TypedDict):
    """Who noticed the outage."""

    time: Number
    by: Line
    what: Line


class TrainingOutage(TypedDict):
    """The cut of a node's power; Unix times in seconds."""

    victim: Line
    nodes: list[Line]
    cut_began: Number
    cut_ended: Number
    restore_began: Number
    power_back: Number
    node_back: Number


class TrainingRecording(TypedDict):
    """A whole recording (runners/training.py)."""

    gpu_nodes: list[Line]
    scheduler: Line
    schema_version: Whole
    processes_per_node: Whole
    settings: dict[Line, Any]
    jobs: dict[Line, TrainingJob]
    metrics: dict[Line, dict[Line, list[dict[Line, Any]]]]
    outage: dict[Line, Any]
    states: list[TrainingState]
    sightings: list[TrainingSight]
    bmc_log: list[dict[Line, Any]]
    problems: list[Text]
    run: dict[Line, Line]
    parts: dict[Line, dict[Line, Any]]
    signatures: list[dict[Line, Any]]
    unsigned: dict[Line, Text]


def training_of(said: object, source: Source) -> None:
    """UnreadableAnswer where this is no whole recording of a training: it names the field that is missing or odd."""
    whole: Any = answers.read(TrainingRecording, said, source)
    if whole["outage"]:
        answers.read(TrainingOutage, whole["outage"], source)
    for run, ranks in whole["metrics"].items():
        for rank, events in ranks.items():
            at = Source(source.device, f"{source.operation}: run {run}, rank {rank}", source.next_step)
            for event in events:
                answers.read(TRAINING_EVENTS.get(event.get("event", ""), TrainingEvent), event, at)


Report = TypeVar("Report", CollectivesRank, CollectivesPrinted, BurnInResult)


def report_of(shape: type[Report], output: bytes, source: Source) -> dict[str, Any]:
    """The last JSON object of a job's output as this shape; UnreadableAnswer where there is none or it is another."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.startswith("{")]
    if not lines:
        raise source.unreadable("a line of JSON", "none")
    return cast(dict[str, Any], answers.read(shape, answers.load(lines[-1], source), source))
