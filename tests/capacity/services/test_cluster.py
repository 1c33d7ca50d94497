"""The Kubernetes cluster of a plan: addresses that do not meet, certificates that say who asks."""

import dataclasses
import ipaddress
from collections import Counter

import pytest

from capacity.model import Plan
from capacity.services.cluster import (
    API_SERVICE,
    AUTHORITIES,
    NOTICES_USER,
    PODS,
    SERVICES,
    Cluster,
    ClusterError,
    Member,
    cluster,
    notices_from,
)
from inventory.site import load_site
from tests.plans import plan_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


@pytest.fixture(scope="module")
def made(plan: Plan) -> Cluster:
    return cluster(plan)


def test_every_gpu_node_has_a_prefix_of_pods_of_its_own(plan: Plan, made: Cluster) -> None:
    gpu_nodes = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    assert [one.name for one in made.nodes] == gpu_nodes
    prefixes = [ipaddress.IPv4Network(one.pods) for one in made.nodes]
    assert len(set(prefixes)) == len(prefixes)
    assert all(prefix.subnet_of(PODS) for prefix in prefixes)
    assert not PODS.overlaps(SERVICES)


def test_members_are_reached_at_their_provisioning_addresses(plan: Plan, made: Cluster) -> None:
    provisioning = ipaddress.IPv4Network(str(plan.site.addressing.provisioning))
    members = (*made.controllers, *made.nodes)
    assert all(ipaddress.IPv4Address(one.address) in provisioning for one in members)
    assert made.server == f"https://{made.controllers[0].address}:6443"


def test_nodes_of_several_controllers_ask_their_own_balancer_under_a_name_that_all_certificates_have(
    made: Cluster,
) -> None:
    more = dataclasses.replace(made, controllers=(*made.controllers, Member("ctl02", "10.79.1.18")))
    assert more.server == "https://127.0.0.1:6443"
    served = [one for one in more.certificates if one.name == "apiserver"]
    assert len(served) == 2
    assert all("127.0.0.1" in one.addresses for one in served)


def test_certificates_name_each_server_once_and_only_known_authorities(made: Cluster) -> None:
    assert set(Counter((one.host, one.name) for one in made.certificates).values()) == {1}
    assert {one.authority for one in made.certificates} == set(AUTHORITIES)
    assert {one.host for one in made.certificates} == {one.name for one in (*made.controllers, *made.nodes)}


def test_a_kubelet_is_its_own_node_and_nobody_elses(made: Cluster) -> None:
    kubelets = {one.host: one for one in made.certificates if one.name == "kubelet"}
    for node in made.nodes:
        assert kubelets[node.name].user == f"system:node:{node.name}"
        assert kubelets[node.name].groups == ("system:nodes",)
        assert set(kubelets[node.name].addresses) == {node.address, node.name}


def test_the_health_check_of_a_node_is_no_kubelet_and_no_administrator(made: Cluster) -> None:
    health = {one.host: one for one in made.certificates if one.name == "node-health"}
    assert set(health) == {one.name for one in made.nodes}
    for name, one in health.items():
        assert (one.user, one.groups) == (f"bringup:node-health:{name}", ("bringup:node-health",))


def test_only_the_administrator_is_a_master_and_stays_on_the_controllers(made: Cluster) -> None:
    masters = [one for one in made.certificates if "system:masters" in one.groups]
    assert {(one.host, one.name) for one in masters} == {(one.name, "admin") for one in made.controllers}


def test_pods_find_the_api_server_under_a_name_that_its_certificate_has(made: Cluster) -> None:
    (served,) = [one for one in made.certificates if one.name == "apiserver"]
    assert {API_SERVICE, "kubernetes.default.svc", made.controllers[0].address} <= set(served.addresses)
    assert ipaddress.IPv4Address(API_SERVICE) in SERVICES


def test_plain_is_lists_and_dictionaries_alone(made: Cluster) -> None:
    plain = made.plain()
    assert plain["nodes"][0] == {"name": "gpu001", "address": "10.79.1.11", "pods": "100.64.0.0/24"}
    assert isinstance(plain["certificates"][0]["groups"], list)


@pytest.mark.parametrize("key", ["oob", "provisioning", "loopbacks", "links"])
@pytest.mark.parametrize(("own", "what"), [("100.80.0.0/24", "pods"), ("10.96.4.0/24", "services")])
def test_a_prefix_of_the_site_in_the_clusters_is_named(plan: Plan, key: str, own: str, what: str) -> None:
    site = plan.site
    addressing = site.addressing.model_copy(update={key: ipaddress.IPv4Network(own)})
    crossed = dataclasses.replace(plan, site=site.model_copy(update={"addressing": addressing}))
    with pytest.raises(ClusterError, match=rf"addressing\.{key} {own} overlaps .*{what}"):
        cluster(crossed)


def test_a_site_without_a_controller_is_refused(plan: Plan) -> None:
    devices = plan.devices[plan.devices["role"] != "controller"]
    with pytest.raises(ClusterError, match="role controller"):
        cluster(dataclasses.replace(plan, devices=devices))


def test_more_nodes_than_prefixes_are_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capacity.services.cluster.PODS", ipaddress.IPv4Network("100.64.0.0/23"))
    with pytest.raises(ClusterError, match="4 nodes: .* for 2"):
        cluster(plan)


def test_the_shipped_site_is_that_of_the_lab_with_kubernetes_in_place_of_slurm() -> None:
    slurm, kubernetes = load_site("lab"), load_site("lab-kubernetes")
    assert kubernetes.scheduler.kind == "kubernetes"
    assert slurm.service_nodes == kubernetes.service_nodes
    assert slurm.server == kubernetes.server
    assert slurm.addressing.provisioning != kubernetes.addressing.provisioning


def test_the_first_controller_alone_has_the_certificate_that_notices_take() -> None:
    plan = plan_of("lab-kubernetes")
    assert notices_from(plan) == "ctl01"
    one = dataclasses.replace(cluster(plan), notices_from="ctl01")
    several = dataclasses.replace(one, controllers=(*one.controllers, Member("ctl02", "10.79.1.18")))
    assert [made.host for made in several.certificates if made.user == NOTICES_USER] == ["ctl01"]
    assert not [made for made in cluster(plan).certificates if made.user == NOTICES_USER]


def test_nobody_tells_on_a_site_without_webhooks() -> None:
    assert notices_from(plan_of("h100-1000-ib")) == ""
