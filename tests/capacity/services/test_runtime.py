"""The runtime of pods with GPUs: which sites have it, and which pods get it without naming it."""

import pytest

from capacity.services.platform import runtime
from inventory.site import Site
from tests.plans import plan_of


def site(**versions: str) -> Site:
    made = plan_of("lab-kubernetes").site
    kept = {name: version for name, version in made.versions.items() if name != "driver"}
    return made.model_copy(update={"versions": {**kept, **versions}})


def test_a_site_with_the_driver_has_the_class_of_the_runtime_in_containerd() -> None:
    made = {one.kind: one for one in runtime.objects(site(driver="580.95.05"))}
    assert made["RuntimeClass"].manifest["handler"] == runtime.runtime_of(site(driver="580.95.05")) == "nvidia"
    assert made["RuntimeClass"].api_version == "node.k8s.io/v1"
    policy = made["MutatingAdmissionPolicy"].body["spec"]
    (mutation,) = policy["mutations"]
    assert mutation["applyConfiguration"]["expression"] == "Object{spec: Object.spec{runtimeClassName: 'nvidia'}}"
    (selector,) = policy["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert selector == {"key": "bringup.local/account", "operator": "Exists"}, "loads of acceptance stay in runc"
    assert made["MutatingAdmissionPolicyBinding"].body["spec"] == {"policyName": "gpu-runtime"}


def test_a_site_without_the_driver_has_none() -> None:
    assert runtime.runtime_of(site()) == ""
    assert list(runtime.objects(site())) == []


@pytest.mark.parametrize(("version", "kinds"), [("1.35.2", 1), ("1.36.0", 3)])
def test_an_api_server_without_such_policies_gets_the_class_alone(version: str, kinds: int) -> None:
    assert len(list(runtime.objects(site(driver="580.95.05", kubernetes=version)))) == kinds
