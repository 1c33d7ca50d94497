"""Who made a pod: which policies a site has for it. tests/infra/test_submitter.py has what a real API server makes of them."""

import pytest

from capacity.services.platform import submitter
from inventory.site import Site
from tests.plans import plan_of


def site(version: str) -> Site:
    made = plan_of("lab-kubernetes").site
    return made.model_copy(update={"versions": {**made.versions, "kubernetes": version}})


def test_pods_jobs_and_jobsets_of_accounts_are_written_as_they_are_made_and_changed() -> None:
    made = [one for one in submitter.objects(site("1.36.0")) if one.kind == "MutatingAdmissionPolicy"]
    asked = {one.name: one.body["spec"]["matchConstraints"] for one in made}
    assert {name: one["resourceRules"][0]["resources"] for name, one in asked.items()} == {
        "pod-user": ["pods"],
        "job-user": ["jobs"],
        "jobset-user": ["jobsets"],
    }
    for one in asked.values():
        assert one["resourceRules"][0]["operations"] == ["CREATE", "UPDATE"]
        assert one["namespaceSelector"] == {
            "matchExpressions": [{"key": "bringup.local/account", "operator": "Exists"}]
        }


def test_each_policy_is_bound() -> None:
    objects = list(submitter.objects(site("1.36.0")))
    made = [one.name for one in objects if one.kind == "MutatingAdmissionPolicy"]
    bound = [one.body["spec"]["policyName"] for one in objects if one.kind == "MutatingAdmissionPolicyBinding"]
    assert made == bound


@pytest.mark.parametrize(("version", "policies"), [("1.35.2", 0), ("1.36.0", 3), ("1.37.1", 3)])
def test_an_api_server_without_such_policies_gets_none(version: str, policies: int) -> None:
    assert len(list(submitter.objects(site(version)))) == 2 * policies
