"""Who asked for a pod: policies by which the API server writes the user of a request into pods, Jobs and JobSets of accounts.

Pods of a Job are made by a controller, so the user stands in the pod template of each Job and JobSet as well, and comes into the
pod from there. What a user gives under the key is overwritten when the object is made, and a later change of it is undone.
Controllers and kubelets (`system:…`) leave it as it is. The role kubernetes_metrics reads it of pods that hold GPUs.
"""

from collections.abc import Iterator

from capacity.services.platform.objects import PlatformObject
from capacity.services.platform.tier_limits import in_accounts, mutating
from capacity.services.platform.topology import PREFIX
from inventory.site import Site
from inventory.site.sections.software import has_mutating_policies

USER = f"{PREFIX}/user"
"""Annotation: the user who made the pod, or the Job or JobSet that it is of. Names of users are free text, which no label takes."""
PERSON = "!request.userInfo.username.startsWith('system:')"
MADE = "request.operation == 'CREATE'"
ANNOTATION = f"metadata.?annotations[?'{USER}'].orValue('')"
JOBS_OF_SET = "spec.?replicatedJobs.orValue([])"
IN_SET = "?template.?spec.?template.?" + ANNOTATION


def objects(site: Site) -> Iterator[PlatformObject]:
    """A policy for each kind, where the API server knows such policies."""
    if not has_mutating_policies(site.versions.get("kubernetes", "")):
        return
    pod, template = ANNOTATION, f"spec.template.?{ANNOTATION}"
    of_template = _metadata("Object.spec.template", _kept(template))
    yield from _policy("pod-user", ("", "v1", "pods"), _differs(pod), f"Object{{{_metadata('Object', _kept(pod))}}}")
    yield from _policy(
        "job-user",
        ("batch", "v1", "jobs"),
        f"{_differs(pod)} || {_differs(template)}",
        f"Object{{{_metadata('Object', _kept(pod))}, spec: Object.spec{{template: Object.spec.template{{{of_template}}}}}}}",
    )
    in_jobs = f"object.{JOBS_OF_SET}.exists(j, j.{IN_SET} != {_before()})"
    yield from _policy(
        "jobset-user", ("jobset.x-k8s.io", "v1alpha2", "jobsets"), f"{_differs(pod)} || {in_jobs}", _of_jobset()
    )


def _policy(name: str, of: tuple[str, str, str], differs: str, written: str) -> Iterator[PlatformObject]:
    """of: group, version and resource. differs, written: CEL, whether the annotation was changed, and what is written."""
    group, version, resource = of
    rule = {"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    conditions = [
        {"name": "person", "expression": PERSON},
        {"name": "made-or-changed", "expression": f"{MADE} || {differs}"},
    ]
    yield from mutating(name, in_accounts(conditions, written, rule))


def _differs(place: str) -> str:
    return f"object.{place} != oldObject.{place}"


def _kept(place: str) -> str:
    """The user of the request that makes the object; afterwards what stood there, which may be nothing."""
    return f"{MADE} ? request.userInfo.username : oldObject.{place}"


def _metadata(of: str, value: str) -> str:
    return f"metadata: {of}.metadata{{annotations: {{'{USER}': {value}}}}}"


def _before() -> str:
    """What stood in the same Job `j` of the set before, '' where it had none."""
    return f"(oldObject.{JOBS_OF_SET}.filter(o, o.name == j.name).map(o, o.{IN_SET}) + [''])[0]"


def _of_jobset() -> str:
    """The same in each Job's pod template; Jobs of a set are known by their names."""
    jobs = "Object.spec.replicatedJobs"
    template, spec, pod = f"{jobs}.template", f"{jobs}.template.spec", f"{jobs}.template.spec.template"
    value = f"{MADE} ? request.userInfo.username : {_before()}"
    of_pod = f"{pod}{{{_metadata(pod, value)}}}"
    one = f"{jobs}{{name: j.name, template: {template}{{spec: {spec}{{template: {of_pod}}}}}}}"
    listed = f"object.{JOBS_OF_SET}.map(j, {one})"
    return f"Object{{{_metadata('Object', _kept(ANNOTATION))}, spec: Object.spec{{replicatedJobs: {listed}}}}}"
