"""Logins at an issuer of the site's own: what the API server is told, and who is bound in an account's namespace."""

import dataclasses
import re

import pytest

from capacity.model import Plan
from capacity.services.cluster import cluster
from capacity.services.platform import design
from capacity.services.platform.logins import LOGIN_NAME, RESERVED, authentication
from inventory.site.sections.logins import Login
from tests.plans import plan_of

LOGIN = Login(issuer="https://login.example.org/realms/hall", audience="bringup", ca="issuer.pem")


def logging_in(**groups: tuple[str, ...]) -> Plan:
    """The lab's plan with an issuer, and groups by account."""
    plan = plan_of("lab-kubernetes")
    accounts = tuple(
        one.model_copy(update={"groups": groups.get(one.name, ())}) for one in plan.site.scheduler.accounts
    )
    scheduler = plan.site.scheduler.model_copy(update={"accounts": accounts, "login": LOGIN})
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler}))


def test_groups_of_an_account_are_bound_beside_its_users() -> None:
    objects = {one.key: one.body for one in design(logging_in(vision=("vision team", "/hall/vision"))).objects}
    kind = "rbac.authorization.k8s.io"
    assert objects["RoleBinding/vision/members"]["subjects"] == [
        {"apiGroup": kind, "kind": "User", "name": "alice"},
        {"apiGroup": kind, "kind": "Group", "name": "login:vision team"},
        {"apiGroup": kind, "kind": "Group", "name": "login:/hall/vision"},
    ]
    before = {one.key: one.body for one in design(plan_of("lab-kubernetes")).objects}
    assert objects["RoleBinding/research/members"] == before["RoleBinding/research/members"]


def test_the_api_server_is_told_of_the_issuer_in_the_version_that_it_reads() -> None:
    made = authentication(LOGIN, "1.36.3")
    assert made["apiVersion"] == "apiserver.config.k8s.io/v1"
    assert authentication(LOGIN, "1.33.1")["apiVersion"] == "apiserver.config.k8s.io/v1beta1"
    (one,) = made["jwt"]
    assert one["issuer"] == {"url": LOGIN.issuer, "audiences": ["bringup"]}
    assert one["claimMappings"]["username"] == {"claim": "preferred_username", "prefix": ""}
    assert one["claimMappings"]["groups"] == {"claim": "groups", "prefix": "login:"}


def test_no_login_has_the_name_of_a_program_of_the_cluster() -> None:
    """Names of users are without a prefix, and rights are bound to names."""
    made = cluster(plan_of("lab-kubernetes"))
    for one in made.certificates:
        assert not re.search(LOGIN_NAME, one.user) or re.search(RESERVED, one.user), one.user
    for name in ("alice", "b_user-2", "systems", "etcdfan"):
        assert re.search(LOGIN_NAME, name)
        assert not re.search(RESERVED, name)


def test_the_cluster_has_no_logins_without_an_issuer() -> None:
    plan = logging_in()
    made = cluster(plan).plain()
    assert made["authentication"] == authentication(LOGIN, "1.36.3")
    assert made["login_ca"] == str(plan.site.dir / "issuer.pem")
    assert cluster(plan_of("lab-kubernetes")).plain()["authentication"] is None


@pytest.mark.parametrize(
    "issuer",
    [
        "http://login.example.org",
        "https://user:secret@login.example.org",
        "https://login.example.org/a?b",
        "https://a b",
    ],
)
def test_an_issuer_is_a_url_without_login_query_and_spaces(issuer: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        Login(issuer=issuer, audience="bringup")
