"""What a site's API server says of its platform: objects, nodes, who may do what, and which pods it would admit.

    said = ask(plan, over_ssh(plan))       # plain data; DeviceError when the controller or the API server does not answer

Nothing is changed: objects are read, rights are asked with SubjectAccessReview, and pods are tried as dry runs, which the API
server judges by all its rules and then drops (https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run).
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from capacity.model import Plan
from capacity.services.platform import PlatformObject, design
from capacity.services.platform.logins import GROUPS
from capacity.services.platform.sharing import GPU_RESOURCE, profiles, whole
from capacity.services.platform.tenancy import RULES, SYSTEM_CLASSES, allowed_of
from capacity.services.platform.tier_limits import DEADLINE, GRACE, written
from capacity.services.slurm import Account
from capacity.services.slurm import design as accounts_of
from inventory.site.sections.software import LOADS
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from validation.facts.gather import address_of

API_CALLS = Path(__file__).with_name("api_calls.py").read_text()
NODES = "/api/v1/nodes"
DONE = (200, 201, 202)
"""Statuses of a call that was carried out."""
KUBECONFIG = "/etc/kubernetes/admin.kubeconfig"
"""Where the role kubernetes_control_plane leaves an administrator's."""
BUDGET_S = 180.0
"""All calls: 50 accounts ask about 25,000 rights, with groups 50,000, eight at a time, a few milliseconds each. A choice of
ours."""
NODE_FIELDS = (
    "metadata.name",
    "metadata.labels",
    "spec.unschedulable",
    "spec.taints",
    "status.allocatable",
    "status.capacity",
    "status.conditions",
    "status.nodeInfo",
)
ALLOWED, MESSAGE = "status.allowed", "message"
"""What is kept of the answers to a SubjectAccessReview and to a pod, and of every refusal."""
SECONDS = tuple(f"spec.{name}" for name in (DEADLINE, GRACE))
"""What is kept of a pod that was admitted: seconds that the limits of its tier are about."""
STRANGER = "bringup-stranger"
"""A user of no account."""
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate")
FORBIDDEN: tuple[tuple[str, str], ...] = (
    # (group, resource) of a namespace that a member has no verb of
    ("", "limitranges"),
    ("", "replicationcontrollers"),
    ("", "serviceaccounts"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("networking.k8s.io", "networkpolicies"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
)
ACROSS: tuple[tuple[str, str], ...] = (
    # of the whole cluster: nobody has a verb
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("kueue.x-k8s.io", "clusterqueues"),
    ("kueue.x-k8s.io", "cohorts"),
    ("kueue.x-k8s.io", "resourceflavors"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("scheduling.k8s.io", "priorityclasses"),
)
HELD_BACK = (LOADS, "kube-system")
"""Namespaces whose pods may be root on their node: administrators alone make any there."""
TO_ROOT: tuple[tuple[str, str, str], ...] = (
    # (group, resource, verb) that leads to such a pod, or to a key of the cluster
    ("", "pods", "create"),
    ("", "pods/exec", "create"),
    ("", "secrets", "get"),
    ("apps", "daemonsets", "create"),
    ("batch", "jobs", "create"),
    ("jobset.x-k8s.io", "jobsets", "create"),
    ("rbac.authorization.k8s.io", "rolebindings", "create"),
)
CallApi = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]]
"""Calls of api_calls.py to their answers, in order."""


@dataclass(frozen=True)
class Right:
    """One question to the API server's authorizer, and what the plan says. member_of: a group of the site's issuer."""

    user: str
    namespace: str
    group: str
    resource: str
    verb: str
    wanted: bool
    member_of: str = ""

    @property
    def review(self) -> dict[str, Any]:
        resource, _, sub = self.resource.partition("/")
        attributes = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": sub}
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": self.user,
                "groups": ["system:authenticated", *([f"{GROUPS}{self.member_of}"] if self.member_of else [])],
                "resourceAttributes": {**attributes, "namespace": self.namespace},
            },
        }


@dataclass(frozen=True)
class Trial:
    """A pod that a user tries in a namespace. `refused_by`: a part of the refusal that is wanted; '' where it is admitted.

    written: {field of its specification: what the API server has to make of it}.
    """

    name: str
    user: str
    namespace: str
    refused_by: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)


def members(plan: Plan) -> list[Account]:
    """The accounts that somebody is a member of."""
    return [one for one in accounts_of(plan, plan.catalog).accounts if one.users]


def rights(plan: Plan) -> Iterator[Right]:
    """For each account: what its first member may do there, what a member of others and a stranger may not, and nothing across.

    Every member is asked for what leads to root on a node. A stranger with the first group of an account may what its users may.
    """
    may = {(group, resource): verbs for group, resources, verbs in RULES for resource in resources}
    accounts = members(plan)
    for account in accounts:
        others = (user for other in accounts for user in other.users if user not in account.users)
        for user in dict.fromkeys((account.users[0], next(others, STRANGER), STRANGER)):
            for group, resource in (*may, *FORBIDDEN):
                for verb in VERBS:
                    wanted = user in account.users and verb in may.get((group, resource), ())
                    yield Right(user, account.name, group, resource, verb, wanted)
    with_groups = [one for one in plan.site.scheduler.accounts if one.groups]
    for one in with_groups:
        user, own = f"{STRANGER}-of-{one.name}", one.groups[0]
        for other in (one, *(other for other in with_groups[:2] if other is not one)):
            for (group, resource), verbs in may.items():
                for verb in VERBS:
                    wanted = verb in verbs and own in other.groups
                    yield Right(user, other.name, group, resource, verb, wanted, own)
    for user in dict.fromkeys((*(account.users[0] for account in accounts), STRANGER)):
        for group, resource in ACROSS:
            for verb in VERBS:
                yield Right(user, "", group, resource, verb, False)
    for user in dict.fromkeys((*(user for account in accounts for user in account.users), STRANGER)):
        for namespace in HELD_BACK:
            for group, resource, verb in TO_ROOT:
                yield Right(user, namespace, group, resource, verb, False)


def trials(plan: Plan) -> Iterator[Trial]:
    """For each account, as its first member: a pod that fits, and one for each rule that refuses it."""
    wanted = accounts_of(plan, plan.catalog)
    shared = profiles(plan)
    gpus = sum(node.gpus for node in whole(wanted.nodes, shared))
    allowed = allowed_of(wanted.accounts, gpus, shared, plan.site.scheduler.reservations)
    tiers = [one.name for one in wanted.qos]
    for account in members(plan):
        own = account.qos[0]
        yield _trial(account, "fits", "", own)
        for resource, most in allowed[account.name].items():
            what = "GPU" if resource == GPU_RESOURCE else resource
            name = f"one {what} more than the account may hold"
            yield _trial(account, name, "exceeded quota: gpus", own, limits={resource: str(most + 1)})
        yield _trial(account, "no tier", "exceeded quota: priority-class-missing", "")
        for tier in (*(tier for tier in tiers if tier not in account.qos), SYSTEM_CLASSES[0]):
            yield _trial(account, f"tier {tier}", "exceeded quota: tier-not-of-this-account", tier)
        for limited, limits in plan.site.scheduler.tier_limits.items():
            seconds = written(limits)
            if seconds and limited in account.qos:
                yield replace(_trial(account, f"tier {limited}, as its limits are", "", limited), written=seconds)
                tried = _trial(account, f"tier {limited}, a second more than its limits", "", limited)
                beyond = {name: count + 1 for name, count in seconds.items()}
                yield replace(tried, spec={**tried.spec, **beyond}, written=seconds)
        privileged = {"securityContext": {"privileged": True}}
        yield _trial(account, "privileged", "violates PodSecurity", own, container=privileged)


def _trial(
    account: Account,
    name: str,
    refused_by: str,
    tier: str,
    *,
    limits: Mapping[str, str] | None = None,
    container: Mapping[str, Any] | None = None,
) -> Trial:
    resources = {"resources": {"limits": dict(limits)}} if limits else {}
    containers = [{"name": "a", "image": "bringup/tried:1", **resources, **(container or {})}]
    tiered = {"priorityClassName": tier} if tier else {}
    return Trial(name, account.users[0], account.name, refused_by, {"containers": containers, **tiered})


def path_of(one: PlatformObject) -> str:
    """Where an object of the platform is: the plural of each of its kinds is its name with s, es or ies."""
    group = one.api_version
    plural = re.sub(r"y$", "ie", one.kind.lower())
    plural += "es" if plural.endswith("s") else "s"
    space = f"/namespaces/{one.namespace}" if one.namespace else ""
    return f"/{'apis' if '/' in group else 'api'}/{group}{space}/{plural}/{one.name}"


def ask(plan: Plan, call: CallApi) -> dict[str, Any]:
    """Objects by key, nodes by name, rights and trials with what the API server said of each."""
    objects = [one for one in design(plan).objects if not one.partial]
    asked, tried = list(rights(plan)), list(trials(plan))
    review = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    calls: list[dict[str, Any]] = [
        {"verb": "GET", "path": "/version", "only": ("gitVersion",)},
        {"verb": "GET", "path": "/api/v1/nodes", "fields": NODE_FIELDS},
        *({"verb": "GET", "path": path_of(one)} for one in objects),
        *({"verb": "POST", "path": review, "body": one.review, "only": (ALLOWED, MESSAGE)} for one in asked),
        *(
            {"verb": "POST", "path": dry_run(one), "body": pod(one), "user": one.user, "only": (MESSAGE, *SECONDS)}
            for one in tried
        ),
    ]
    said = list(call(calls))
    source = Source(controller_of(plan), "ask the API server", f"run kubectl --kubeconfig {KUBECONFIG} there")
    with answers.reading(source, "objects as Kubernetes' API has them"):
        return _read(said, objects, asked, tried)


def _read(
    said: Sequence[Mapping[str, Any]], objects: Sequence[PlatformObject], asked: Sequence[Right], tried: Sequence[Trial]
) -> dict[str, Any]:
    version, nodes = said[:2]
    of_objects, of_rights, of_trials = (
        said[start : start + count]
        for start, count in (
            (2, len(objects)),
            (2 + len(objects), len(asked)),
            (2 + len(objects) + len(asked), len(tried)),
        )
    )
    items = ((nodes.get("body") or {}).get("items") or ()) if nodes.get("status") == 200 else ()
    return {
        "version": (version.get("body") or {}).get("gitVersion", ""),
        "nodes": {str(item["metadata.name"]): item for item in items},
        "objects": {one.key: _object(answer) for one, answer in zip(objects, of_objects, strict=True)},
        "rights": [{**asdict(one), "said": _allowed(answer)} for one, answer in zip(asked, of_rights, strict=True)],
        "trials": [
            {"name": one.name, "user": one.user, "namespace": one.namespace, **_admitted(answer)}
            for one, answer in zip(tried, of_trials, strict=True)
        ],
    }


def dry_run(one: Trial) -> str:
    """The path at which a pod is tried and not made."""
    return f"/api/v1/namespaces/{one.namespace}/pods?dryRun=All"


def pod(one: Trial) -> dict[str, Any]:
    """The pod of a trial."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bringup-tried"}, "spec": dict(one.spec)}


def _object(answer: Mapping[str, Any]) -> Any:
    """The object; None where there is none, a text where that could not be asked."""
    if answer.get("status") == 200:
        return answer["body"]
    return None if answer.get("status") == 404 else _said(answer)


def _allowed(answer: Mapping[str, Any]) -> bool | str:
    body = answer.get("body") or {}
    allowed = body.get(ALLOWED) if answer.get("status") == 201 else None
    return allowed if isinstance(allowed, bool) else _said(answer)


def _admitted(answer: Mapping[str, Any]) -> dict[str, Any]:
    made = answer.get("status") == 201
    body = answer.get("body") or {}
    seconds = {name.rpartition(".")[2]: body.get(name) for name in SECONDS} if made else {}
    return {"status": answer.get("status", 0), "said": "" if made else _said(answer), "written": seconds}


def _said(answer: Mapping[str, Any]) -> str:
    body = answer.get("body") or {}
    return str(answer.get("error") or body.get(MESSAGE) or f"an answer of status {answer.get('status')}")


class ApiServer:
    """The site's API server, as it is asked by `call`; name: of the machine that asks, for messages."""

    def __init__(self, call: CallApi, name: str) -> None:
        self.call, self.name = call, name

    def ask(self, *calls: Mapping[str, Any], accept: Sequence[int] = DONE) -> list[Any]:
        """The bodies of answers; BadAnswer with what the API server said for another status."""
        bodies = []
        for call, answer in zip(calls, self.call(calls), strict=True):
            if not isinstance(answer, Mapping):
                raise self.source(f"{call['verb']} {call['path']}").unreadable(
                    "an answer of the API server", str(answer)
                )
            status, body = answer.get("status"), answer.get("body")
            if status not in accept or answer.get("error"):
                message = body.get("message") if isinstance(body, Mapping) else None
                said = str(answer.get("error") or message or f"status {status}")
                what = f"{call['verb']} {call['path'].partition('?')[0]}"
                raise BadAnswer(
                    self.name,
                    what,
                    f"status {accept[0]}",
                    said,
                    "kubectl shows the object; the namespace comes with the platform (pulumi up)",
                )
            bodies.append(body)
        return bodies

    def source(self, what: str) -> Source:
        return Source(self.name, what, f"run kubectl --kubeconfig {KUBECONFIG} there")

    @contextlib.contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Whatever in the body cannot be read as it should be is BadAnswer."""
        with answers.reading(self.source(what), "objects as Kubernetes' API has them"):
            yield

    def image(self, nodes: Iterable[str]) -> str:
        """The image of pod sandboxes, which every node has."""
        first = next(iter(nodes))
        (body,) = self.ask({"verb": "GET", "path": f"{NODES}/{quote(first, safe='')}", "only": ("status.images",)})
        with self.reading(f"read images of {first}"):
            names = [str(name) for image in body["status.images"] or () for name in image.get("names") or ()]
        found = next((name for name in names if "/pause:" in name), None)
        if found is None:
            wanted, seen = "the image of pod sandboxes (…/pause:…)", f"{len(names)} others"
            raise self.source(f"read images of {first}").unreadable(wanted, seen)
        return answers.line(found)

    def architecture(self, nodes: Iterable[str]) -> str:
        """Of the first of these nodes, as Go calls it: amd64, arm64."""
        first = next(iter(nodes))
        (body,) = self.ask({"verb": "GET", "path": f"{NODES}/{quote(first, safe='')}", "only": ("status.nodeInfo",)})
        with self.reading(f"read the architecture of {first}"):
            return answers.line(str(body["status.nodeInfo"]["architecture"]))


def controller_of(plan: Plan) -> str:
    """The name of the first controller."""
    return controllers_of(plan)[0]


def controllers_of(plan: Plan) -> list[str]:
    """The names of all controllers."""
    return [str(name) for name in plan.devices.loc[plan.devices["role"] == "controller", "name"]]


def controller(plan: Plan, name: str = "") -> SshHost:
    """A controller, by default the first. It holds an administrator's kubeconfig for its own API server, at KUBECONFIG."""
    site, name = plan.site, name or controller_of(plan)
    return SshHost(name, address_of(plan, name, "provisioning"), node_credentials(site), site.timeouts.ssh_s)


def over_ssh(plan: Plan, calls_s: float = BUDGET_S, name: str = "") -> CallApi:
    """Calls from a controller, by default the first, with the kubeconfig that is there. calls_s: for all calls of one question,
    seconds.
    """
    site, host = plan.site, controller(plan, name)

    def call(calls: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        request = {"kubeconfig": KUBECONFIG, "budget_s": calls_s, "calls": list(calls)}
        said = host.program(API_CALLS, request, budget_s=calls_s + site.timeouts.ssh_s, operation="ask the API server")
        if not isinstance(said, list) or len(said) != len(calls):
            raise BadAnswer(
                host.name,
                "ask the API server",
                f"{len(calls)} answers",
                "none",
                f"run kubectl --kubeconfig {KUBECONFIG} there",
            )
        return said

    return call
