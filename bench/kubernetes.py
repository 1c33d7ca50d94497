"""Kueue on 1,000 simulated nodes in the places of a plan: a gang of 256 GPUs, jobs per second, and a gang that preempts another.

    python -m bench.kubernetes [--nodes 1000] [--jobs 500]      after make setup-controllers; else it says that it did not run

Control plane, Kueue and the platform's objects are real; nodes and pods are kwok's (infra/kube/trial.py). Prints what was seen.
Exit status 1 where it is not what was planned: a gang in two blocks, more than one gang preempted, a job that did not end.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from capacity.build import build
from capacity.services.platform.topology import node_labels
from capacity.sizes import load_site
from infra.kube.access import ClusterError
from infra.kube.trial import GPUS_PER_POD, Trial, gang, trial
from infra.toolchain.control_plane import programs
from infra.toolchain.controllers import controllers
from inventory.delivered.assets import load_assets
from validation.facts.gangs import BLOCK

SITE = "h100-1000-ib"
GANG_PODS = 32
"""256 GPUs, a whole block of the plan."""
LIMITED, LIMIT_PODS = "vision", 256
"""An account of the site with max_gpus of 2048: full with eight such gangs."""
SHORT_S = 1
"""How long a job of the throughput runs."""


class Wrong(Exception):
    """What was seen is not what the plan asks for."""


@contextlib.contextmanager
def timed(what: str, unit: str = "s", per: int = 0) -> Iterator[None]:
    """Print how long the body took, or how many of `per` a second."""
    began = time.monotonic()
    yield
    took_s = time.monotonic() - began
    print(f"{what}: {per / took_s if per else took_s:.1f} {unit}", flush=True)


def measure(cluster: Trial, places: dict[str, dict[str, str]], jobs: int) -> None:
    """All three, one after the other."""
    with timed(f"gang of {GANG_PODS * GPUS_PER_POD} GPUs in one block, from its Job to the last pod that runs"):
        cluster.create(gang("one", "research", "training", GANG_PODS, level=BLOCK))
        cluster.wait(lambda: len(cluster.running("research", "one")) == GANG_PODS, "the gang runs")
    blocks = {places[pod["spec"]["nodeName"]][BLOCK] for pod in cluster.running("research", "one")}
    if len(blocks) != 1:
        raise Wrong(f"the gang stands in blocks {', '.join(sorted(blocks))}")
    cluster.delete_all("research")

    made = [gang(f"short-{number}", "research", "training", 1, runs_s=SHORT_S) for number in range(jobs)]
    with timed(f"{jobs} jobs of {GPUS_PER_POD} GPUs, {SHORT_S} s each, through Kueue", "jobs/s", jobs):
        cluster.create_all(made)
        cluster.wait(lambda: cluster.all_succeeded("research"), f"{jobs} jobs have ended", within_s=1800.0)
    cluster.delete_all("research")

    names = [f"low-{number}" for number in range(LIMIT_PODS // GANG_PODS)]
    cluster.create_all(gang(name, LIMITED, "experimentation", GANG_PODS, level=BLOCK) for name in names)
    cluster.wait(lambda: len(cluster.running(LIMITED)) == LIMIT_PODS, f"{LIMITED} is full")
    with timed(
        f"gang of {GANG_PODS * GPUS_PER_POD} GPUs of a higher tier, from its Job until it runs in place of another"
    ):
        cluster.create(gang("urgent", LIMITED, "training", GANG_PODS, level=BLOCK))
        cluster.wait(lambda: len(cluster.running(LIMITED, "urgent")) == GANG_PODS, "the urgent gang runs")
    left = [name for name in names if len(cluster.running(LIMITED, name)) == GANG_PODS]
    print(f"of {len(names)} gangs of the lower tier {len(names) - len(left)} gave way")
    if len(left) != len(names) - 1:
        raise Wrong(f"{len(names) - len(left)} gangs gave way for one")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(prog="python -m bench.kubernetes", description=__doc__.partition("\n")[0])
    arguments.add_argument("--nodes", type=int, default=1000)
    arguments.add_argument("--jobs", type=int, default=500)
    given = arguments.parse_args(argv)
    kubernetes, made = programs(), controllers()
    if kubernetes is None or made is None:
        print("Kueue on simulated nodes: NOT RUN, Kubernetes or its controllers are not built (make setup-controllers)")
        return 0
    site = load_site(SITE)
    plan = build(site, assets=load_assets(site))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        try:
            with timed(f"control plane, Kueue, the platform's objects and {given.nodes} nodes Ready"):
                cluster = stack.enter_context(trial(plan, kubernetes, made, Path(folder) / "trial", given.nodes))
            measure(cluster, node_labels(plan), given.jobs)
        except (ClusterError, Wrong) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
