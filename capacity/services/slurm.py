"""What Slurm is to know of a plan: nodes and their GPUs, the topology tree, priority classes, accounts.

    wanted = design(plan, plan.catalog)

Pure. Roles write it (the inventory hands it to them), checks compare what Slurm answers with it. Units: minutes for run
times, seconds for grace, MiB for memory; None where nothing is limited.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from capacity.model import Plan
from inventory.catalog import Catalog, Gpu
from inventory.site.sections.software import SchedulerAccount, TierLimits
from inventory.site.values import Tier

CHECK_ACCOUNT = "commissioning"
"""Account that the checks' jobs are charged to."""
CHECK_USERS = {"bringup-a": 59001, "bringup-b": 59002}
"""Its users with their uids: two, since some policies (reservations, limits per user) only show between two users."""
COMPUTE_ROLES = ("gpu",)
TOP_SWITCH = "fabric"
MINUTES_PER_HOUR = 60


@dataclass(frozen=True)
class Node:
    """A node that runs jobs, as large as its model in the catalogue; 0 where that does not know."""

    name: str
    cpus: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True)
class Switch:
    """A switch of topology.conf: over nodes, or over other switches."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Qos:
    """A priority class. Its jobs preempt those of `preempts`; when preempted they have `grace_s` seconds."""

    name: str
    priority: int
    preempts: tuple[str, ...]
    grace_s: int
    max_wall_min: int | None
    max_gpus: int | None
    max_gpus_per_user: int | None


@dataclass(frozen=True)
class Account:
    """An account below `parent` ('root' at the top), the priority classes that it may use, and its users."""

    name: str
    parent: str
    shares: int
    qos: tuple[str, ...]
    max_gpus: int | None
    users: tuple[str, ...]


@dataclass(frozen=True)
class Design:
    """The whole intent for Slurm. `switches` has leaves before those that join them; `qos` the highest first."""

    cluster: str
    gpu_type: str
    nodes: tuple[Node, ...]
    switches: tuple[Switch, ...]
    qos: tuple[Qos, ...]
    accounts: tuple[Account, ...]

    def plain(self) -> dict[str, Any]:
        """The same as dicts, lists and numbers."""
        return _listed(asdict(self))


def design(plan: Plan, catalog: Catalog) -> Design:
    """The Slurm design of a plan."""
    site = plan.site
    return Design(
        cluster=site.name,
        gpu_type=gpu_type(catalog.gpu(site.gpu.sku)),
        nodes=tuple(_nodes(plan, catalog)),
        switches=tuple(_switches(plan)),
        qos=tuple(_qos(site.tiers, dict(site.scheduler.tier_limits), int(site.storage.checkpoint.stall_s))),
        accounts=tuple(_accounts(site.scheduler.accounts, site.tiers)),
    )


def gpu_type(gpu: Gpu) -> str:
    """The GRES type that users ask for: 'h100' of nvidia-h100-sxm5-80gb."""
    return gpu.slug.removeprefix(f"{gpu.manufacturer.lower()}-").split("-")[0]


def _nodes(plan: Plan, catalog: Catalog) -> Iterator[Node]:
    rows = plan.devices[plan.devices["role"].isin(COMPUTE_ROLES)]
    for name, model in rows[["name", "model"]].itertuples(index=False, name=None):
        facts = catalog.device(model).bringup
        yield Node(name, facts.cores, facts.memory_gib * 1024, facts.gpus)


def _switches(plan: Plan) -> Iterator[Switch]:
    """One switch per scalable unit, since the nodes of a unit share their leaves rail by rail; above them one per pod
    where the fabric has more than one, and one that joins all."""
    rows = plan.devices[plan.devices["role"].isin(COMPUTE_ROLES) & (plan.devices["unit"] >= 0)]
    units: dict[int, tuple[str, ...]] = {}
    for name, unit in rows[["name", "unit"]].itertuples(index=False, name=None):
        units[unit] = (*units.get(unit, ()), name)
    yield from (Switch(_unit(unit), nodes=names) for unit, names in units.items())
    tree = plan.tree
    if tree is not None and tree.pods > 1:
        pods: dict[int, list[str]] = {}
        for unit in units:
            pods.setdefault(unit // tree.pod_units, []).append(_unit(unit))
        yield from (Switch(f"pod{pod + 1:02d}", switches=tuple(members)) for pod, members in pods.items())
        yield Switch(TOP_SWITCH, switches=tuple(f"pod{pod + 1:02d}" for pod in pods))
    elif len(units) > 1:
        yield Switch(TOP_SWITCH, switches=tuple(map(_unit, units)))


def _unit(unit: int) -> str:
    return f"unit{unit + 1:03d}"


def _qos(tiers: tuple[Tier, ...], limits: dict[Tier, TierLimits], default_grace_s: int) -> Iterator[Qos]:
    for place, tier in enumerate(tiers):
        limit = limits.get(tier, TierLimits())
        lower = tiers[place + 1 :]
        yield Qos(
            name=tier,
            priority=len(lower) + 1,
            preempts=lower,
            grace_s=default_grace_s if limit.grace_s is None else limit.grace_s,
            max_wall_min=None if limit.max_hours is None else round(limit.max_hours * MINUTES_PER_HOUR),
            max_gpus=limit.max_gpus,
            max_gpus_per_user=limit.max_gpus_per_user,
        )


def _accounts(accounts: tuple[SchedulerAccount, ...], tiers: tuple[Tier, ...]) -> Iterator[Account]:
    """Parents before children, so that they can be made in this order; without tiers a child has its parent's."""
    yield Account(CHECK_ACCOUNT, "root", 1, tiers, None, tuple(CHECK_USERS))
    allowed, waiting = {"root": tiers}, list(accounts)
    while waiting:
        ready = [account for account in waiting if (account.parent or "root") in allowed]
        for account in ready:
            parent = account.parent or "root"
            own = tuple(tier for tier in tiers if tier in account.tiers) or allowed[parent]
            allowed[account.name] = own
            yield Account(account.name, parent, account.shares, own, account.max_gpus, account.users)
        waiting = [account for account in waiting if account not in ready]


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value
