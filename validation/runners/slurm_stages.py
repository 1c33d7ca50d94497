"""The stages of stages.py as jobs of Slurm, chained by its dependencies.

ended = run(slurm, "/shared/jobs/bringup-stages-1a2b", budget_s)      # {stage: how its job ended}
"""

import shlex

from validation.runners.engine import Job
from validation.runners.slurm import Slurm
from validation.runners.stages import CHAIN, FAILING, NEVER, script_of


def run(slurm: Slurm, folder: str, budget_s: float) -> dict[str, Job]:
    """Submit all stages at once and wait for them. Their folder on the shared storage is removed again. DeviceError."""
    quick, jobs = ("--nodes=1", "--ntasks=1", "--time=1"), dict[str, int]()
    home = shlex.quote(folder)
    slurm.controller.run(f"umask 077; mkdir -p {home}")
    try:
        for before, stage in zip(("", *CHAIN), CHAIN, strict=False):
            after = (f"--dependency=afterok:{jobs[before]}",) if before else ()
            name = f"--job-name=bringup-stage-{stage}"
            jobs[stage] = slurm.start(script_of(folder, stage, before), *quick, *after, name)
        jobs[FAILING] = slurm.start("#!/bin/bash\nexit 3\n", *quick, "--job-name=bringup-stage-fails")
        stops = (f"--dependency=afterok:{jobs[FAILING]}", "--kill-on-invalid-dep=yes")
        jobs[NEVER] = slurm.start("#!/bin/bash\nexit 0\n", *quick, *stops, "--job-name=bringup-stage-never")
        return {stage: slurm.wait(job, budget_s) for stage, job in jobs.items()}
    finally:
        slurm.cancel(*jobs.values())
        slurm.controller.run(f"rm -rf {home}", check=False)
