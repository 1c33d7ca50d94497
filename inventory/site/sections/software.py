"""Operating system, pinned versions, scheduler and priority classes of a site file."""

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from inventory.catalog import Catalog
from inventory.gpu_stack import load_stack
from inventory.site.messages import MISSING, nearest
from inventory.site.rules import rule
from inventory.site.sections.logins import Login
from inventory.site.sections.networks import Inband
from inventory.site.sections.reservations import Reservation
from inventory.site.values import (
    IMAGE_REGISTRY,
    LOGIN_GROUP,
    REPOSITORY_COMPONENT,
    REPOSITORY_NAME,
    REPOSITORY_SUITE,
    REPOSITORY_URL,
    Count,
    Section,
    Slug,
    Text,
    Tier,
    Version,
    absent,
)
from inventory.site.yaml_source import Path, Problem


class Repository(Section):
    """A package repository of the site's own, which every node is told of."""

    name: Annotated[str, Field(pattern=REPOSITORY_NAME)] = Field(
        description="Name of its file in /etc/apt/sources.list.d, without .sources."
    )
    url: Annotated[str, Field(pattern=REPOSITORY_URL)] = Field(
        description="URL as the nodes reach it: https, http or file, without a login."
    )
    suites: tuple[Annotated[str, Field(pattern=REPOSITORY_SUITE)], ...] = Field(
        min_length=1, description="Suites, such as noble; a flat repository has a folder with a slash at its end: ./"
    )
    components: tuple[Annotated[str, Field(pattern=REPOSITORY_COMPONENT)], ...] = Field(
        default=(), description="Components, such as main; none in a flat repository."
    )
    key: Text = Field(
        description="Path of the public key that signs it, ASCII-armoured or binary (relative to this file, ~ is expanded)."
    )


class Os(Section):
    """Operating system of the nodes."""

    name: Literal["debian", "ubuntu"] = Field(description="Distribution.")
    version: Version = Field(description="Release, in quotes.")
    eol_date: datetime.date = Field(
        description="End of standard support, YYYY-MM-DD; warned of under 12 months (ERR-21)."
    )
    nvidia_packages: Literal["official", "provided"] = Field(
        default="official",
        description="NVIDIA's packages come from its own repositories, or the nodes' sources provide them already (a mirror).",
    )
    repositories: tuple[Repository, ...] = Field(
        default=(),
        description="Package repositories of the site's own, beside those that the nodes were installed with.",
    )

    @property
    def key(self) -> str:
        """Key of tables by operating system, such as the packages of gpu_stack.yaml: `debian-12`."""
        return f"{self.name}-{self.version}"


class TierLimits(Section):
    """Limits of one priority class; what is not given is not limited."""

    grace_s: Annotated[int, Field(ge=0, le=3600)] | None = Field(
        default=None,
        description="Seconds that a preempted job has to write its checkpoint; without it storage.checkpoint.stall_s.",
    )
    max_hours: Annotated[float, Field(gt=0, le=8760)] | None = Field(
        default=None, description="Longest run time of a job, hours."
    )
    max_gpus: Count | None = Field(default=None, description="GPUs that all jobs of the class may hold together.")
    max_gpus_per_user: Count | None = Field(default=None, description="GPUs that the jobs of one user may hold.")


class SchedulerAccount(Section):
    """A team or project that work is charged to."""

    name: Slug = Field(description="Account name.")
    parent: Slug | None = Field(default=None, description="Account that it is part of; without it the root.")
    shares: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1, description="Its part of the fair share, relative to the other accounts of its parent."
    )
    tiers: tuple[Tier, ...] = Field(
        default=(), description="Priority classes that it may use; without them all of the site."
    )
    max_gpus: Count | None = Field(default=None, description="GPUs that all its jobs may hold together.")
    min_gpus: Count | None = Field(
        default=None,
        exclude_if=absent,
        description="GPUs that are its own: others may use them while it does not, and give them back whatever their priority "
        "class is. For kind kubernetes, and an account with no others below it.",
    )
    users: tuple[Annotated[str, Field(pattern=r"^[a-z_][-a-z0-9_]{0,31}$")], ...] = Field(
        default=(), description="Login names that may charge to it."
    )
    groups: tuple[Annotated[str, Field(pattern=LOGIN_GROUP)], ...] = Field(
        default=(),
        exclude_if=absent,
        description="Groups of the issuer (login) whose members may charge to it. For kind kubernetes.",
    )


class Scheduler(Section):
    """Workload manager."""

    kind: Literal["slurm", "kubernetes"] = Field(
        description="Workload manager. Of kubernetes the plan, roles for the cluster, the platform's objects and some checks "
        "are built: see docs/kubernetes.md."
    )
    packages: Literal["distribution", "schedmd"] = Field(
        default="distribution",
        description="Where Slurm's packages come from: the distribution, in the one version that it has, or built once from "
        "SchedMD's release and published in a repository of the site (os.repositories); see docs/slurm-packages.md.",
    )
    accounts: tuple[SchedulerAccount, ...] = Field(
        default=(), description="Who may submit; whoever is in none of them may not."
    )
    tier_limits: dict[Tier, TierLimits] = Field(default={}, description="Limits by priority class.")
    reservations: tuple[Reservation, ...] = Field(
        default=(),
        exclude_if=absent,
        description="GPUs kept for an account from one time to another. For kind kubernetes.",
    )
    login: Login | None = Field(
        default=None,
        exclude_if=absent,
        description="Where users of Kubernetes log in; without it by certificates alone.",
    )
    registry: Annotated[str, Field(pattern=IMAGE_REGISTRY)] | None = Field(
        default=None,
        description="Registry that has the images of Kueue, JobSet and NVIDIA's device plugin, each under its own path, such as "
        "registry.example.org/hall; without it registry.k8s.io and nvcr.io. For kind kubernetes.",
    )

    @property
    def not_built(self) -> str:
        """Why a verb refuses this workload manager; '' for one that all verbs know."""
        if self.kind == "slurm":
            return ""
        return f"scheduler.kind {self.kind}: this is not built for it yet (docs/kubernetes.md)"


LOADS = "bringup-loads"
"""The namespace of acceptance's loads (capacity/services/platform/tenancy.py)."""
QUEUES_TAKEN = ("default", "acceptance")
"""Names of local queues that are there already (capacity/services/platform/queues.py)."""
LIMITS_TIERS_FROM = 36
"""Minor version of Kubernetes 1 that serves what capacity/services/platform/tier_limits.py makes (k8s.io/api v0.36.3,
admissionregistration/v1)."""
LOGINS_FROM = 30
"""Minor version of Kubernetes 1 that reads AuthenticationConfiguration by default (k8s.io/apiserver,
StructuredAuthenticationConfiguration)."""
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A label of RFC 1123, which the name of a Kubernetes namespace has to be."""


@rule("name", "scheduler")
def names_fit_kubernetes(catalog: Catalog, name: str, scheduler: Scheduler) -> Iterator[Problem]:
    if scheduler.kind != "kubernetes":
        return
    expected = "at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
    if not NAMESPACE.fullmatch(name):
        yield Problem(("name",), "not a name for Kubernetes", name, expected, "rename the site")
    for number, account in enumerate(scheduler.accounts):
        where: Path = ("scheduler", "accounts", number, "name")
        if not NAMESPACE.fullmatch(account.name):
            do = "rename it: each account gets a namespace of its name"
            yield Problem(where, "not a name for a namespace", account.name, expected, do)
        elif account.name in ("default", LOADS) or account.name.startswith("kube-"):
            what = "a namespace of the cluster itself"
            do = f"rename it: default, {LOADS} and kube-* are taken"
            yield Problem(where, what, account.name, "a name of your own", do)


@rule("scheduler")
def options_are_built_for_kubernetes(catalog: Catalog, scheduler: Scheduler) -> Iterator[Problem]:
    if scheduler.kind != "kubernetes":
        return
    not_built = "an option that nothing implements yet on Kubernetes"
    if scheduler.packages != "distribution":
        what = "an option of Slurm"
        yield Problem(("scheduler", "packages"), what, scheduler.packages, "no such key", "delete packages")
    for number, account in enumerate(scheduler.accounts):
        if account.shares != 1:
            where: Path = ("scheduler", "accounts", number, "shares")
            yield Problem(where, not_built, str(account.shares), "accounts of equal shares", "delete shares")
    for tier, limits in scheduler.tier_limits.items():
        for key in ("max_gpus", "max_gpus_per_user"):
            if (value := getattr(limits, key)) is not None:
                path: Path = ("scheduler", "tier_limits", tier, key)
                yield Problem(path, not_built, str(value), "grace_s and max_hours", f"delete {key}; limit accounts")


def minor_of(kubernetes: str) -> int:
    """The minor version of Kubernetes 1. What is none is a new one: that is another rule's."""
    found = re.match(r"1\.([0-9]{1,3})(?:\.|$)", kubernetes)
    return int(found[1]) if found else LIMITS_TIERS_FROM


def has_mutating_policies(kubernetes: str) -> bool:
    """Whether API servers of a version serve MutatingAdmissionPolicy v1."""
    return minor_of(kubernetes) >= LIMITS_TIERS_FROM


@rule("scheduler", "versions")
def kubernetes_serves_what_limits_tiers(
    catalog: Catalog, scheduler: Scheduler, versions: dict[str, str]
) -> Iterator[Problem]:
    pin = versions.get("kubernetes", "")
    if scheduler.kind != "kubernetes" or has_mutating_policies(pin):
        return
    for tier, limits in scheduler.tier_limits.items():
        for key in ("grace_s", "max_hours"):
            if getattr(limits, key) is not None:
                where: Path = ("scheduler", "tier_limits", tier, key)
                expected = f"versions.kubernetes 1.{LIMITS_TIERS_FROM} or later, which has MutatingAdmissionPolicy"
                yield Problem(where, "a limit that this Kubernetes cannot keep", pin, expected, f"delete {key}")


@rule("scheduler", "versions")
def logins_are_those_of_kubernetes(
    catalog: Catalog, scheduler: Scheduler, versions: dict[str, str]
) -> Iterator[Problem]:
    login, pin = scheduler.login, versions.get("kubernetes", "")
    if scheduler.kind != "kubernetes":
        if login is not None:
            what = "an option of Kubernetes"
            yield Problem(("scheduler", "login"), what, login.issuer, "no such key", "delete login")
    elif login is not None and minor_of(pin) < LOGINS_FROM:
        expected = f"versions.kubernetes 1.{LOGINS_FROM} or later, which has AuthenticationConfiguration"
        yield Problem(
            ("scheduler", "login"), "logins that this Kubernetes does not have", pin, expected, "delete login"
        )
    for number, account in enumerate(scheduler.accounts):
        if account.groups and (login is None or scheduler.kind != "kubernetes"):
            where: Path = ("scheduler", "accounts", number, "groups")
            found, expected = ", ".join(account.groups), "scheduler.login of kind kubernetes, whose groups these are"
            yield Problem(where, "groups that nobody signs", found, expected, "add login, or name users")


@rule("scheduler")
def a_registry_is_for_kubernetes(catalog: Catalog, scheduler: Scheduler) -> Iterator[Problem]:
    if scheduler.registry is not None and scheduler.kind != "kubernetes":
        what = "an option of Kubernetes"
        yield Problem(("scheduler", "registry"), what, scheduler.registry, "no such key", "delete registry")


@rule("scheduler")
def own_gpus_fit_into_limits(catalog: Catalog, scheduler: Scheduler) -> Iterator[Problem]:
    limits = {account.name: account.max_gpus for account in scheduler.accounts}
    parents = {account.name: account.parent for account in scheduler.accounts}
    held: dict[str, int] = {}
    for number, account in enumerate(scheduler.accounts):
        if account.min_gpus is None:
            continue
        where: Path = ("scheduler", "accounts", number, "min_gpus")
        found = str(account.min_gpus)
        if scheduler.kind != "kubernetes":
            yield Problem(where, "an option of Kubernetes", found, "no such key", "delete min_gpus")
        elif account.name in parents.values():
            expected = "an account with no others below it"
            yield Problem(
                where, "GPUs of an account that others are part of", found, expected, "give it to these others"
            )
        for name in (account.name, *_ancestors(account.name, parents)):
            held[name] = held.get(name, 0) + account.min_gpus
            most = limits.get(name)
            if most is not None and held[name] > most:
                expected = f"at most max_gpus of {name}, {most}, with those of others below it"
                yield Problem(where, "more GPUs than the account may hold", str(held[name]), expected, "lower min_gpus")


@rule("scheduler")
def reservations_have_a_queue_and_an_account(catalog: Catalog, scheduler: Scheduler) -> Iterator[Problem]:
    names = {account.name for account in scheduler.accounts}
    parents = {account.parent for account in scheduler.accounts}
    seen = set[str]()
    for number, one in enumerate(scheduler.reservations):
        where: Path = ("scheduler", "reservations", number)
        if scheduler.kind != "kubernetes":
            do = "delete it, and use scontrol create reservation"
            yield Problem(where, "an option of Kubernetes", one.name, "no reservations", do)
        if one.name in QUEUES_TAKEN or not NAMESPACE.fullmatch(one.name):
            expected = f"at most 63 lower-case letters, digits and hyphens, and not {' or '.join(QUEUES_TAKEN)}"
            yield Problem((*where, "name"), "not a name for a queue", one.name, expected, "rename the reservation")
        if one.name in seen:
            yield Problem((*where, "name"), "a reservation given twice", one.name, "each name once", "rename one")
        seen.add(one.name)
        if one.queue in names:
            expected = f"no account named {one.queue}, which is the name of the reservation's queue"
            yield Problem((*where, "name"), "the name of another queue", one.name, expected, "rename the reservation")
        if one.account not in names - parents:
            near = nearest(one.account, names - parents)
            expected = "an account of scheduler.accounts with no others below it"
            do = f"write {near}" if near else "name another account"
            what = "not an account that jobs run in"
            yield Problem((*where, "account"), what, one.account, expected, do, nearest=near)


@rule("tiers")
def tiers_are_given_once(catalog: Catalog, tiers: tuple[str, ...]) -> Iterator[Problem]:
    for tier in sorted({t for t in tiers if tiers.count(t) > 1}):
        yield Problem(("tiers",), "a tier given twice", tier, "each tier once", f"delete one {tier}")


@rule("versions", "scheduler", "inband")
def software_in_use_is_pinned(
    catalog: Catalog, versions: dict[str, str], scheduler: Scheduler, inband: Inband
) -> Iterator[Problem]:
    in_use: dict[str, str] = {
        scheduler.kind: f"scheduler.kind is {scheduler.kind}",
        inband.nos: f"inband.nos is {inband.nos}",
    }
    if scheduler.kind == "kubernetes" and "driver" in versions:
        in_use["container-toolkit"] = "pods with GPUs start by it"
    for component, why in in_use.items():
        if component not in versions:
            yield Problem(
                ("versions", component),
                MISSING,
                "",
                f"the pinned version of {component}, since {why}",
                f"add '{component}: \"...\"' in versions",
            )


@rule("os")
def repositories_are_told_apart_and_complete(catalog: Catalog, os: Os) -> Iterator[Problem]:
    names = [repository.name for repository in os.repositories]
    official = {known["name"] for every in load_stack().repositories_of.values() for known in every}
    for number, repository in enumerate(os.repositories):
        where: Path = ("os", "repositories", number)
        if repository.name in names[:number]:
            yield Problem(
                (*where, "name"), "a repository given twice", repository.name, "each name once", "rename one of them"
            )
        if repository.name in official:
            yield Problem(
                (*where, "name"),
                "the name of NVIDIA's own repository",
                repository.name,
                "a name of your own",
                "rename it: os.nvidia_packages says whether nodes get NVIDIA's own",
            )
        flat = [suite for suite in repository.suites if suite.endswith("/")]
        if flat and (repository.components or len(flat) < len(repository.suites)):
            yield Problem(
                (*where, "components" if repository.components else "suites"),
                "suites with components and a flat repository in one",
                " ".join((*repository.suites, *repository.components)),
                "folders without components, or suites with components",
                f"delete the components of {flat[0]}, or give it an entry of its own",
            )
        if not flat and not repository.components:
            yield Problem(
                (*where, "components"),
                MISSING,
                "",
                f"the components of {', '.join(repository.suites)}, such as main",
                "add 'components: [main]', or write a flat repository's folder with a slash at its end: ./",
            )


@rule("tiers", "scheduler")
def accounts_make_a_tree_of_known_tiers(
    catalog: Catalog, tiers: tuple[str, ...], scheduler: Scheduler
) -> Iterator[Problem]:
    names = [account.name for account in scheduler.accounts]
    parents = {account.name: account.parent for account in scheduler.accounts}
    for number, account in enumerate(scheduler.accounts):
        where: Path = ("scheduler", "accounts", number)
        if account.name in RESERVED_ACCOUNTS:
            why = RESERVED_ACCOUNTS[account.name]
            yield Problem(
                (*where, "name"), "a reserved account", account.name, "a name of your own", f"rename it: {why}"
            )
        if account.name in names[:number]:
            yield Problem((*where, "name"), "an account given twice", account.name, "each account once", "join the two")
        if account.parent is not None and account.parent not in names:
            near = nearest(account.parent, names)
            yield Problem(
                (*where, "parent"),
                "an unknown account",
                account.parent,
                "the name of another account, or no parent",
                f"write {near}" if near else f"add the account {account.parent}, or delete the key",
                nearest=near,
            )
        if _is_its_own_ancestor(account.name, parents):
            yield Problem(
                (*where, "parent"), "a circle", f"{account.name} below itself", "a tree", "give one of them no parent"
            )
        for place, tier in enumerate(account.tiers):
            if tier not in tiers:
                yield _foreign_tier((*where, "tiers", place), tier, tiers)
    for tier in scheduler.tier_limits:
        if tier not in tiers:
            yield _foreign_tier(("scheduler", "tier_limits", tier), tier, tiers)


RESERVED_ACCOUNTS = {
    "root": "Slurm's own account for administrators",
    "commissioning": "the checks of this suite run in it",
}


def _ancestors(name: str, parents: Mapping[str, str | None]) -> list[str]:
    """Accounts above this one, the nearest first; those of a circle once."""
    found: list[str] = []
    parent = parents.get(name)
    while parent is not None and parent not in (name, *found):
        found.append(parent)
        parent = parents.get(parent)
    return found


def _is_its_own_ancestor(name: str, parents: Mapping[str, str | None]) -> bool:
    seen, parent = {name}, parents[name]
    while parent is not None and parent not in seen:
        seen.add(parent)
        parent = parents.get(parent)
    return parent == name


def _foreign_tier(path: Path, tier: str, tiers: tuple[str, ...]) -> Problem:
    return Problem(
        path, "not a tier of this site", tier, f"one of {', '.join(tiers)}", f"add {tier} to tiers, or delete it here"
    )


@rule("versions")
def nvidia_versions_go_together(catalog: Catalog, versions: dict[str, str]) -> Iterator[Problem]:
    for one in load_stack().contradictions(versions):
        yield Problem(
            ("versions", one.pin),
            "does not go with the other NVIDIA versions",
            one.found,
            one.expected,
            f"change one of the pins; see inventory/gpu_stack.yaml ({one.source})",
        )
