"""What the checks share: acts and jobs that run once, when the first check asks for their result."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capacity import telemetry
from capacity.plan import Plan
from inventory.site import Site
from network.drivers.errors import DeviceError
from validation.check import site_limit
from validation.facts import probes
from validation.facts import telemetry as telemetry_facts
from validation.facts.gather import address_of
from validation.runners import ansible, slurm

BURN_IN = Path(__file__).parent.parent / "workloads" / "burnin.py"
COLLECTIVES = Path(__file__).parent.parent / "workloads" / "collectives.py"


@pytest.fixture(scope="session")
def identify_leds(plan: Plan) -> dict[str, str]:
    """Per server: '' when its identity LED followed, else what went wrong."""
    return probes.identify_leds(plan)


@pytest.fixture(scope="session")
def logins(plan: Plan) -> dict[str, probes.Logins]:
    """Per server: how it met logins that must be refused."""
    return probes.logins(plan)


@pytest.fixture(scope="session")
def drift(site: Site) -> ansible.Drift:
    """What Ansible would change now."""
    return ansible.drift(site)


@pytest.fixture(scope="session")
def scheduler(plan: Plan) -> slurm.Slurm:
    """The site's Slurm."""
    return slurm.connect(plan)


def sweep_sizes(largest_b: int) -> str:
    """Message sizes from 8 B in steps of 16 to the largest one, comma-separated."""
    sizes, size_b = [], 8
    while size_b < largest_b:
        sizes.append(size_b)
        size_b *= 16
    return ",".join(map(str, [*sizes, largest_b]))


@dataclass(frozen=True)
class Sweep:
    """The collectives sweep: its job (None when it could not be submitted), its report, or what went wrong."""

    job: slurm.Job | None
    report: dict[str, Any] | None
    error: str


@pytest.fixture(scope="session")
def collectives(plan: Plan, scheduler: slurm.Slurm) -> Sweep:
    """All collectives over all GPU nodes, as one Slurm job."""
    nodes = int((plan.devices["role"] == "gpu").sum())
    budget_s = float(site_limit(plan.site, "allreduce_timeout_s").value)
    largest_b = int(site_limit(plan.site, "collectives_max_size_b").value)
    script = slurm.torchrun_script(
        COLLECTIVES, ["--sizes", sweep_sizes(largest_b), "--timeout-s", str(int(budget_s // 2))], processes_per_node=1
    )
    options = (f"--nodes={nodes}", "--ntasks-per-node=1", "--job-name=bringup-collectives",
               f"--time={max(1, round(budget_s / 60))}")  # fmt: skip
    try:
        job = scheduler.submit(script, *options, budget_s=budget_s)
    except DeviceError as error:
        return Sweep(None, None, str(error))
    lines = [line for line in job.output.decode(errors="replace").splitlines() if line.startswith("{")]
    if not job.ok or not lines:
        tail = job.output.decode(errors="replace")[-400:]
        return Sweep(job, None, f"job {job.job_id} ended {job.state} {job.reason} after {job.seconds:.0f} s: {tail}")
    return Sweep(job, json.loads(lines[-1]), "")


@dataclass(frozen=True)
class BurnIn:
    """The burn-in: its job (None when it could not be submitted), its report, or what went wrong."""

    job: slurm.Job | None
    report: dict[str, Any] | None
    error: str


@pytest.fixture(scope="session")
def burn_in(plan: Plan, scheduler: slurm.Slurm) -> BurnIn:
    """Load on all GPU nodes at the same time, as one Slurm job, in the site's length."""
    gpu_nodes = plan.devices[plan.devices["role"] == "gpu"]
    duration_s = 3600 * float(site_limit(plan.site, "burn_in_run_h").value)
    spare_s = float(site_limit(plan.site, "job_start_s").value)
    samples = ["--sample-s", f"{min(60.0, duration_s / 4):g}"]  # S034: telemetry once a minute
    script = slurm.torchrun_script(
        BURN_IN, ["--duration-s", f"{duration_s:g}", *samples, "--timeout-s", f"{spare_s:.0f}"], processes_per_node=None
    )
    budget_s = duration_s + 2 * spare_s
    options = (f"--nodes={len(gpu_nodes)}", "--ntasks-per-node=1", "--exclusive", "--job-name=bringup-burn-in",
               f"--time={max(1, round(budget_s / 60))}")  # fmt: skip
    try:
        job = scheduler.submit(script, *options, budget_s=budget_s)
    except DeviceError as error:
        return BurnIn(None, None, str(error))
    lines = [line for line in job.output.decode(errors="replace").splitlines() if line.startswith("{")]
    if not job.ok or not lines:
        tail = job.output.decode(errors="replace")[-400:]
        return BurnIn(job, None, f"job {job.job_id} ended {job.state} {job.reason} after {job.seconds:.0f} s: {tail}")
    return BurnIn(job, json.loads(lines[-1]), "")


@pytest.fixture(scope="session", autouse=True)
def drill_begun(request: pytest.FixtureRequest, plan: Plan) -> Iterator[Future[telemetry_facts.Drill] | None]:
    """The fire drill of the alert rules, begun together with the first check: it is mostly waiting."""
    wanted = any("fire_drill" in getattr(item, "fixturenames", ()) for item in request.session.items)
    servers = telemetry.servers(plan)
    if not wanted or not servers:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(telemetry_facts.drill, plan, address_of(plan, servers[0], "provisioning"), int(time.time()))


@pytest.fixture(scope="session")
def fire_drill(drill_begun: Future[telemetry_facts.Drill] | None) -> telemetry_facts.Drill:
    """How the fire drill of the alert rules went."""
    if drill_begun is None:
        return telemetry_facts.Drill("", {}, {}, "the plan has no server that could run telemetry")
    return drill_begun.result()
