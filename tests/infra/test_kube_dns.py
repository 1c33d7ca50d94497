"""The cluster's DNS: what is applied, its configuration, and who finds it."""

from typing import Any

import pytest

from capacity.services.cluster import DNS_SERVICE
from capacity.services.platform import design
from infra.kube import dns
from tests.plans import plan_of


def made(**given: Any) -> dict[str, Any]:
    """{kind: object}."""
    return {one["kind"]: one for one in dns.objects(DNS_SERVICE, **({"nodes": 4, "upstream": True} | given))}


def test_namespaces_of_accounts_let_traffic_out_to_it() -> None:
    (policy,) = [one for one in design(plan_of("lab-kubernetes")).objects if one.key == "NetworkPolicy/research/dns"]
    ((rule,),) = [policy.body["spec"]["egress"]]
    (to,) = rule["to"]
    objects = made()
    pod = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert pod.items() >= to["podSelector"]["matchLabels"].items()
    service = objects["Service"]
    assert service["spec"]["selector"] == objects["Deployment"]["spec"]["selector"]["matchLabels"]
    assert {(one["port"], one["protocol"]) for one in rule["ports"]} <= {
        (one["port"], one["protocol"]) for one in service["spec"]["ports"]
    }
    assert to["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": service["metadata"]["namespace"]}


def test_its_address_is_the_one_that_kubelets_write_into_pods() -> None:
    assert made()["Service"]["spec"]["clusterIP"] == DNS_SERVICE == "10.96.0.10"


@pytest.mark.parametrize("upstream", [True, False])
def test_names_of_others_go_to_the_servers_of_the_site_where_it_has_some(upstream: bool) -> None:
    text = made(upstream=upstream)["ConfigMap"]["data"]["Corefile"]
    assert ("forward . /etc/resolv.conf" in text) is upstream
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (2, 2), (500, 2), (1000, 4)])
def test_its_pods_grow_with_the_nodes_and_stand_on_different_ones(nodes: int, replicas: int) -> None:
    objects = made(nodes=nodes)
    spec = objects["Deployment"]["spec"]
    assert spec["replicas"] == replicas
    spread = spec["template"]["spec"].get("topologySpreadConstraints", [])
    assert [one["topologyKey"] for one in spread] == ["kubernetes.io/hostname"] * (replicas > 1)
    assert ("PodDisruptionBudget" in objects) is (replicas > 1)


def test_another_configuration_starts_it_anew() -> None:
    first, other = (
        made(upstream=upstream)["Deployment"]["spec"]["template"]["metadata"]["annotations"]
        for upstream in (True, False)
    )
    assert first != other


def test_it_reads_what_it_answers_and_no_secret() -> None:
    resources = {name for rule in made()["ClusterRole"]["rules"] for name in rule["resources"]}
    assert resources == {"namespaces", "pods", "services", "endpointslices"}
    assert {verb for rule in made()["ClusterRole"]["rules"] for verb in rule["verbs"]} == {"list", "watch"}
