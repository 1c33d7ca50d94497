"""The program of a load's pod: starts one process a rank on this node, then lets the node sign what they kept.

    python3 pod.py ORDER      # ORDER: JSON, as runners/jobset.py writes it; NODE, HOST_IP and BRINGUP_JOB are in the environment

{job} stands for BRINGUP_JOB in the order. With `nodes` this node's place in that list numbers its ranks, otherwise the completion
index of the Job does. Node 0 meets the others at its own address; they find it at `master`. Whatever is printed goes to the pod's
log and to the file `output`. Ends with the status of the first rank that fails. Standard library only: the node's Python
runs it.
"""

import base64
import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

GRACE_S = 5.0
"""For the other ranks to say why, when one has failed."""
POLL_S = 0.2
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def ended(number: int, frame: FrameType | None) -> None:
    """SIGTERM of the kubelet: end as a shell would."""
    sys.exit(128 + number)


@contextlib.contextmanager
def kept_in(path: str) -> Iterator[None]:
    """Let what this program and its children print go to a file as well."""
    with subprocess.Popen(["tee", "-a", path], stdin=subprocess.PIPE, start_new_session=True) as tee:
        assert tee.stdin is not None
        own = [os.dup(1), os.dup(2)]
        for number in (1, 2):
            os.dup2(tee.stdin.fileno(), number)
        try:
            yield
        finally:
            sys.stdout.flush()
            for number, saved in zip((1, 2), own, strict=True):
                os.dup2(saved, number)
                os.close(saved)
            tee.stdin.close()


def cores_of(local: int, count: int) -> set[int]:
    """The CPUs of the `count` cores of a rank, those of the ranks before it left out; all CPUs where they do not suffice."""
    allowed, cores = sorted(os.sched_getaffinity(0)), dict[str, set[int]]()
    for cpu in allowed:
        file = Path(SIBLINGS.format(cpu))
        cores.setdefault(file.read_text() if file.exists() else str(cpu), set()).add(cpu)
    mine = list(cores.values())[local * count : (local + 1) * count]
    return set().union(*mine) if count and len(mine) == count else set(allowed)


def start(order: dict[str, Any], launch: dict[str, Any], program: str, number: int) -> list[subprocess.Popen[bytes]]:
    """The processes of this node's ranks, each on its own cores."""
    per_node, everywhere = order["ranks"], os.sched_getaffinity(0)
    own = os.environ["HOST_IP"] if number == 0 else order["master"]
    common = {"MASTER_ADDR": own, "MASTER_PORT": str(launch["port"]), "OMP_NUM_THREADS": "1"}
    common["WORLD_SIZE"] = str(order["count"] * per_node)
    started = []
    for local in range(per_node):
        os.sched_setaffinity(0, cores_of(local, order["cores"]))
        given = {**os.environ, **common, "RANK": str(number * per_node + local), "LOCAL_RANK": str(local)}
        started.append(subprocess.Popen([order["python"], program, *launch["arguments"]], env=given))
        os.sched_setaffinity(0, everywhere)
    return started


def run(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks; the status of the first one that failed, after which the others are ended, or 0."""
    failed_at, failed = 0.0, 0
    try:
        while None in (statuses := [one.poll() for one in ranks]):
            if not failed and any(statuses):
                failed_at, failed = time.monotonic(), next(filter(None, statuses))
            if failed and time.monotonic() > failed_at + GRACE_S:
                break
            time.sleep(POLL_S)
        failed = failed or next(filter(None, statuses), 0)
    finally:
        for one in ranks:
            if one.poll() is None:
                one.kill()
                one.wait()
    return 128 - failed if failed < 0 else failed


def beside(command: list[str], file: str) -> None:
    """Run a command once, where it is installed; its output goes to a file, and its failure ends nothing."""
    if shutil.which(command[0]) is None:
        return
    with Path(file).open("wb") as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    if status:
        print(f"{command[0]} failed: {status}", flush=True)


def unpacked(text: str) -> bytes:
    """What runners/jobset.py has packed."""
    return gzip.decompress(base64.b64decode(text))


def work(order: dict[str, Any], number: int) -> int:
    """All of it; the exit status."""
    program = order["program"]
    if order["carried"]:
        program = "/tmp/program.py"
        Path(program).write_bytes(unpacked(order["carried"]))
    for launch in order["launches"]:
        if status := run(start(order, launch, program, number)):
            return status
    if number == 0 and order["beside"]:
        beside(order["beside"]["command"], order["beside"]["file"])
    if order["sign"]:
        signed = subprocess.run(
            [sys.executable, "-c", unpacked(order["signer"]).decode(), json.dumps(order["sign"])],
            env={**os.environ, "SLURMD_NODENAME": os.environ["NODE"]},
            check=False,
        )
        if signed.returncode:
            print(f"not signed: {signed.returncode}", flush=True)
    return 0


def main() -> int:
    signal.signal(signal.SIGTERM, ended)
    os.umask(0o077)
    order = json.loads(sys.argv[1].replace("{job}", os.environ["BRINGUP_JOB"]))
    node = os.environ["NODE"]
    number = order["nodes"].index(node) if order["nodes"] else int(os.environ["JOB_COMPLETION_INDEX"])
    with kept_in(order["output"] + (f"-{number}" if order["shared_output"] else "")):
        return work(order, number)


if __name__ == "__main__":
    sys.exit(main())
