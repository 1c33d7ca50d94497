"""A made recording of a training rehearsal, for tests: three ranks, a cut at time 1000, resumed from step 20 on a spare."""

from validation.runners.training import (
    BATCH,
    CHECKPOINT_EVERY,
    MODEL,
    SCALE_STEPS,
    SLOW_STEPS,
    STEPS,
    Recording,
    settings_of,
)

ZERO = 1000.0
CUT_STEP = 26
GPU = ["gpu001", "gpu002", "gpu003", "gpu004"]


def loss(step: int, rank: int) -> float:
    return 4.0 / step + 0.7 + rank / 100


def step_event(rank, attempt, step, time, **more):
    return {
        "event": "step",
        "rank": rank,
        "attempt": attempt,
        "step": step,
        "time": time,
        "loss": loss(step, rank),
        "accuracy": 0.5 if step % 10 == 0 else None,
        "gradient_norm": 1.0 / step,
        "learning_rate": 1e-3,
        "tokens_per_s": 10_000.0,
        "step_s": 0.1,
        "data_s": 0.01,
        "compute_s": 0.06,
        "communication_s": 0.02,
        "checkpoint_stall_s": 0.0,
        **more,
    }


def start_event(rank, attempt, time, hosts, steps=STEPS, batch=BATCH):
    return {
        "event": "start",
        "rank": rank,
        "attempt": attempt,
        "time": time,
        "hosts": hosts,
        "world_size": len(hosts),
        "host": hosts[rank],
        "backend": "gloo",
        "device": "cpu",
        "uuid": "",
        "detectors": ["not finite", "diverged"],
        "start_loss": 4.16,
        "loss_floor": 0.73,
        "job": "7",
        "settings": {"steps": steps, "batch": batch, **MODEL},
    }


def resume_event(rank, attempt, time, step=0):
    return {"event": "resume", "rank": rank, "attempt": attempt, "time": time, "step": step, "skipped": []}


def end_event(rank, attempt, time, value=0.8):
    return {
        "event": "end",
        "rank": rank,
        "attempt": attempt,
        "time": time,
        "loss": value,
        "loss_hex": value.hex(),
        "parameters_sha256": "ab" * 32,
        "observing_s": 0.01,
        "trained_s": 4.0,
    }


def checkpoint_event(attempt, step, time):
    return {
        "event": "checkpoint",
        "rank": 0,
        "attempt": attempt,
        "time": time,
        "step": step,
        "bytes": 5_000_000,
        "stall_s": 0.01,
        "write_s": 0.2,
        "total_s": 0.21,
        "gb_s": 0.025,
    }


def checkpoints(attempt, steps, time):
    """What rank 0 writes of its checkpoints of an attempt; time: of a step 0."""
    return [checkpoint_event(attempt, s, time + s * 0.1) for s in steps if s % CHECKPOINT_EVERY == 0]


def job(number, nodes, submitted, ended):
    return {"job": number, "state": "COMPLETED", "submitted": submitted, "ended": ended, "nodes": nodes}


def at_scale(nodes, time):
    """A run at a scale on CPUs, as fast as the nodes are many, but for a tenth."""
    steps, found = range(1, SCALE_STEPS + 1), {}
    for rank in range(len(nodes)):
        found[str(rank)] = [
            start_event(rank, 0, time, nodes, SCALE_STEPS, BATCH * len(nodes)),
            resume_event(rank, 0, time),
            *(step_event(rank, 0, s, time + s * 0.1, tokens_per_s=9_000.0 * len(nodes)) for s in steps),
            *(checkpoints(0, steps, time) if rank == 0 else []),
            end_event(rank, 0, time + 4),
        ]
    return found


def made() -> Recording:
    """The recording. Rank 1 of the undisturbed run is slow in steps 31 to 40, and the others wait for it."""
    undisturbed, interrupted = {}, {}
    whole, first, second = range(1, STEPS + 1), range(1, CUT_STEP + 1), range(21, STEPS + 1)
    after = [GPU[0], GPU[1], GPU[3]]
    for rank in range(3):
        late = {"compute_s": 0.2} if rank == 1 else {"communication_s": 0.16}
        slow = dict.fromkeys(range(SLOW_STEPS[0], SLOW_STEPS[1] + 1), late)
        undisturbed[str(rank)] = [
            start_event(rank, 0, 800.0, GPU[:3]),
            resume_event(rank, 0, 800.0),
            *(step_event(rank, 0, s, 800.0 + s * 0.1, **slow.get(s, {})) for s in whole),
            *(checkpoints(0, whole, 800.0) if rank == 0 else []),
            end_event(rank, 0, 807.0),
        ]
        stalled = {
            "event": "stalled",
            "rank": rank,
            "attempt": 0,
            "time": ZERO + 3,
            "after_step": CUT_STEP,
            "seconds": 3.1,
        }
        interrupted[str(rank)] = [
            start_event(rank, 0, 997.0, GPU[:3]),
            resume_event(rank, 0, 997.1),
            *(step_event(rank, 0, s, ZERO - 0.1 * (CUT_STEP - s)) for s in first),
            *(checkpoints(0, first, ZERO - 0.1 * CUT_STEP) if rank == 0 else []),
            *([stalled] if rank < 2 else []),
            start_event(rank, 1, ZERO + 28, after),
            resume_event(rank, 1, ZERO + 29, 20),
            *(step_event(rank, 1, s, ZERO + 30 + 0.1 * (s - 21)) for s in second),
            *(checkpoints(1, second, ZERO + 27.9) if rank == 0 else []),
            end_event(rank, 1, ZERO + 36),
        ]
    alone = [
        start_event(0, 0, ZERO + 5, [GPU[3]]),
        resume_event(0, 0, ZERO + 5, 20),
        *(step_event(0, 0, s, ZERO + 5 + (s - 20) / 10) for s in second),
        *checkpoints(0, second, ZERO + 3),
        end_event(0, 0, ZERO + 10, 0.8001),
    ]
    running = {"state": "RUNNING", "nodes": GPU[:3], "restarts": 0}
    return Recording(
        gpu_nodes=GPU,
        processes_per_node=1,
        settings=settings_of(3),
        jobs={
            "undisturbed": job(7, GPU[:3], 799.0, 808.0),
            "half": job(10, GPU[:2], 809.0, 814.0),
            "full": job(11, GPU, 815.0, 820.0),
            "interrupted": job(8, after, 990.0, ZERO + 37),
            "alone": job(9, [GPU[3]], ZERO + 4, ZERO + 11),
        },
        metrics={
            "undisturbed": undisturbed,
            "half": at_scale(GPU[:2], 809.0),
            "full": at_scale(GPU, 815.0),
            "interrupted": interrupted,
            "alone": {"0": alone},
        },
        outage={
            "victim": "gpu003",
            "nodes": GPU[:3],
            "cut_began": ZERO,
            "cut_ended": ZERO + 0.4,
            "restore_began": ZERO + 24,
            "power_back": ZERO + 25,
            "node_back": ZERO + 31,
        },
        states=[
            {"time": ZERO + 0.5, **running, "victim": "ALLOCATED"},
            {"time": ZERO + 7, **running, "victim": "ALLOCATED+NOT_RESPONDING"},
            {"time": ZERO + 15, "state": "PENDING", "nodes": [], "restarts": 1, "victim": "DOWN+NOT_RESPONDING"},
            {"time": ZERO + 24, "state": "RUNNING", "nodes": after, "restarts": 1, "victim": "DOWN"},
        ],
        sightings=[
            {"time": ZERO + 0.6, "by": "PDUs", "what": "outlets off, no power drawn"},
            {"time": ZERO + 2.5, "by": "BMC", "what": "does not answer"},
            {"time": ZERO + 15, "by": "Slurm", "what": "node is down"},
        ],
        bmc_log=[
            {"id": "1", "created": "2027-03-01T12:00:00Z", "severity": "Warning", "message": "Power supply input lost"}
        ],
    )
