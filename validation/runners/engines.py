"""The workload manager of a planned site, as the runners drive it."""

from capacity.model import Plan
from validation.runners import kubernetes, slurm
from validation.runners.engine import Engine


def engine_of(plan: Plan) -> Engine:
    """Slurm or Kubernetes, as scheduler.kind says. Nobody is asked yet."""
    return kubernetes.connect(plan) if plan.site.scheduler.kind == "kubernetes" else slurm.connect(plan)
