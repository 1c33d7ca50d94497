"""The cluster's DNS: CoreDNS as kubeadm of Kubernetes 1.36 has it.

    objects("10.96.0.10", nodes=1000, upstream=True)    # in an order in which they can be applied

It answers for services and pods, and passes all other names on to the servers of the site. The address is in the configuration of
every kubelet (role kubelet), which writes it into /etc/resolv.conf of pods.
"""

import math
from typing import Any

from infra.kube.manifests import CONFIGURED, CONTROL_PLANE, Object, digest, image_name, several

IMAGE = "registry.k8s.io/coredns/coredns:v1.14.2"
"""The version of kubeadm 1.36.3 (kubernetes v1.36.3, cmd/kubeadm/app/constants/constants.go), as is all below but where it says so
(cmd/kubeadm/app/phases/addons/dns/manifests.go)."""
NAME, SPACE, ROLE = "coredns", "kube-system", "system:coredns"
SERVICE = "kube-dns"
"""Its Service and label; namespaces of accounts let traffic out to it (capacity/services/platform/tenancy.py)."""
LABELS = {"k8s-app": SERVICE}
NODES_PER_REPLICA = 250
"""A choice of ours: kubeadm has two pods for any cluster. Their memory limit, 170 MiB, is enough for 100,000 pods and services: 54
MB and 1 MB for each 1,000 (https://github.com/coredns/deployment/blob/master/kubernetes/Scaling_CoreDNS.md)."""
PORTS = {"dns": (53, "UDP"), "dns-tcp": (53, "TCP"), "metrics": (9153, "TCP")}
PROBED = {"livenessProbe": ("/health", 8080), "readinessProbe": ("/ready", 8181)}


def objects(address: str, *, nodes: int, upstream: bool, registry: str | None = None) -> list[Object]:
    """All objects, those first that others need.

    address: of the Service. nodes: that run pods. upstream: whether nodes have name servers of the site, which get all other names.
    """
    text = corefile(upstream)
    rules = [
        {"apiGroups": [""], "resources": ["namespaces", "pods", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": SPACE}],
    }
    ports = [
        {"name": name, "port": port, "protocol": protocol, "targetPort": port}
        for name, (port, protocol) in PORTS.items()
    ]
    deployment = _object("apps/v1", "Deployment", NAME, {"spec": _deployment(text, image_name(IMAGE, registry))}, SPACE)
    replicas = min(nodes, max(2, math.ceil(nodes / NODES_PER_REPLICA)))
    budgets = [several(deployment, replicas)] if replicas > 1 else []
    return [
        _object("v1", "ServiceAccount", NAME, {}, SPACE),
        _object("rbac.authorization.k8s.io/v1", "ClusterRole", ROLE, {"rules": rules}),
        _object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ROLE, binding),
        _object("v1", "ConfigMap", NAME, {"data": {"Corefile": text}}, SPACE),
        _object("v1", "Service", SERVICE, {"spec": {"clusterIP": address, "ports": ports, "selector": LABELS}}, SPACE),
        *budgets,
        deployment,
    ]


def corefile(upstream: bool) -> str:
    """CoreDNS' configuration. Names of the cluster are not cached, so that a pod that is gone is not found."""
    forward = ["forward . /etc/resolv.conf {", "    max_concurrent 1000", "}"] if upstream else []
    lines = [
        "errors",
        "health {",
        "    lameduck 5s",
        "}",
        "ready",
        "kubernetes cluster.local in-addr.arpa ip6.arpa {",
        "    pods insecure",
        "    fallthrough in-addr.arpa ip6.arpa",
        "    ttl 30",
        "}",
        "prometheus :9153",
        *forward,
        "cache 30 {",
        "    disable success cluster.local",
        "    disable denial cluster.local",
        "}",
        "loop",
        "loadbalance",
    ]
    return ".:53 {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def _deployment(text: str, image: str) -> dict[str, Any]:
    """Another configuration starts it anew, one pod after the other; kubeadm's watches the file in its place."""
    probes: dict[str, dict[str, Any]] = {
        "livenessProbe": {"initialDelaySeconds": 60, "timeoutSeconds": 5, "failureThreshold": 5},
        "readinessProbe": {},
    }
    container: dict[str, Any] = {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "ports": [
            {"name": name, "containerPort": port, "protocol": protocol} for name, (port, protocol) in PORTS.items()
        ],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        **{name: {"httpGet": {"path": path, "port": port}, **probes[name]} for name, (path, port) in PROBED.items()},
    }
    pod = {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "tolerations": [{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    }
    return {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS, "annotations": {CONFIGURED: digest(text)}}, "spec": pod},
    }


def _object(version: str, kind: str, name: str, body: dict[str, Any], namespace: str = "") -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": LABELS}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
