"""All objects of the platform, each once, those first that others need."""

from dataclasses import dataclass

from capacity.model import Plan
from capacity.services import slurm
from capacity.services.platform import queues, runtime, sharing, submitter, tenancy, tier_limits, topology
from capacity.services.platform.objects import PlatformObject


@dataclass(frozen=True)
class Platform:
    """The whole intent for a Kubernetes cluster; `levels` are the labels of its topology, wide to narrow. gpus: whole ones."""

    objects: tuple[PlatformObject, ...]
    levels: tuple[str, ...]
    gpus: int


def design(plan: Plan) -> Platform:
    """The platform of a plan."""
    wanted = slurm.design(plan, plan.catalog)
    shared = sharing.profiles(plan)
    tiers, gpus = [one.name for one in wanted.qos], sum(node.gpus for node in sharing.whole(wanted.nodes, shared))
    levels = topology.levels(plan)
    own_gpus = {one.name: one.min_gpus for one in plan.site.scheduler.accounts if one.min_gpus is not None}
    own = queues.own_amounts(wanted.nodes, own_gpus, shared)
    reservations = {one.queue: one for one in plan.site.scheduler.reservations}
    amounts = queues.own_amounts(wanted.nodes, {name: one.gpus for name, one in reservations.items()}, shared)
    reserved = {reservations[name]: amount for name, amount in amounts.items()}
    groups = {one.name: one.groups for one in plan.site.scheduler.accounts}
    totals = queues.capacity_of(wanted.nodes, shared, [*own.values(), *amounts.values()])
    objects = (
        *tenancy.priority_classes(wanted.qos),
        tenancy.member_role(),
        *tenancy.loads(),
        *tier_limits.policies(plan.site.scheduler.tier_limits),
        *runtime.objects(plan.site),
        *submitter.objects(plan.site),
        *tenancy.namespaces(wanted.accounts, tiers, gpus, shared, groups, plan.site.scheduler.reservations),
        *topology.label_patches(plan),
        *queues.flavour(wanted.gpu_type, plan.site.name, levels),
        *sharing.configuration(shared),
        *queues.queues(wanted.accounts, totals, wanted.gpu_type, shared, own, reserved),
    )
    return Platform(objects, levels, gpus)
