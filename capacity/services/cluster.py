"""The Kubernetes cluster of a plan: who runs its control plane, who runs pods, and the addresses of both. Pure.

    made = cluster(plan)       # ClusterError where its networks meet the site's, or nobody can run the control plane
    made.plain()               # what Ansible's roles write

Pods of a node have a prefix of its own, in the order of the plan; nodes reach each other's by routes, without a tunnel.
"""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from capacity.model import Plan
from capacity.services.platform.logins import authentication
from capacity.services.slurm import COMPUTE_ROLES
from inventory.secrets import site_path
from inventory.site.sections.networks import PREFIXES

PODS = ipaddress.IPv4Network("100.64.0.0/11")
"""Shared address space (RFC 6598): no site should route it, and it is not one of the private prefixes that sites plan with."""
POD_LENGTH = 24
"""254 pods a node; the kubelet takes 110 by default."""
SERVICES = ipaddress.IPv4Network("10.96.0.0/16")
"""Kubernetes' own default; its first address is the API server's, which certificates carry."""
API_SERVICE = str(SERVICES[1])
"""Address of the API server as pods see it."""
DNS_SERVICE = str(SERVICES[10])
"""Address of the cluster's DNS: the tenth of the services, as kubeadm has it."""
API_PORT = 6443
LOOPBACK = "127.0.0.1"
POD_BRIDGE = "cni0"
"""The bridge of a node's pods (role kubelet)."""
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
"""The user that the API server is to its kubelets: for logs, exec and port-forward."""

HEALTH_GROUP = "bringup:node-health"
"""Group of the health checks of nodes; the user of each is this, a colon and the node. A policy bounds what they may do (role
kubernetes_control_plane)."""

METRICS_USER = "bringup:metrics"
"""The user that asks for what alerts judge (role kubernetes_metrics): it may list nodes and pods and nothing else."""

RESERVATIONS_USER = "bringup:reservations"
"""The user that opens and closes queues of reservations (role kubernetes_reservations)."""

NOTICES_USER = "bringup:notices"
"""The user that looks for what users and operators are told (role kubernetes_notices): it may list nodes and Kueue's workloads."""

NOTICES_DRILL = "http://127.0.0.1:9098/"
"""Where events of acceptance's account, and of nodes, go as well: its checks listen there, on the controller that sends."""


class ClusterError(Exception):
    """The site's plan has no room for the cluster; the text says which key to change."""


@dataclass(frozen=True)
class Member:
    """A server of the cluster. `address`: in the provisioning network; `pods`: prefix of its pods, '' where it runs none."""

    name: str
    address: str
    pods: str = ""


@dataclass(frozen=True)
class Certificate:
    """What one of the cluster's authorities signs for a server; the names are those of files."""

    host: str
    name: str
    authority: str
    user: str
    groups: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    usages: tuple[str, ...] = ("client",)


AUTHORITIES = ("ca", "etcd-ca", "front-proxy-ca")
"""The cluster's, etcd's, and the aggregation layer's: whoever holds a certificate of one of the others is nobody to the cluster."""
API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
BOTH = ("server", "client")


@dataclass(frozen=True)
class Cluster:
    """Everything that is the same on all servers of the cluster. authentication: who users are that log in at the site's issuer;
    login_ca: path of the certificate that signed the issuer's. notices_from: the controller that tells users and operators of
    events; '' for none.
    """

    name: str
    version: str
    controllers: tuple[Member, ...]
    nodes: tuple[Member, ...]
    pods: str = str(PODS)
    services: str = str(SERVICES)
    oob: tuple[str, ...] = ()
    authentication: Mapping[str, Any] | None = None
    login_ca: str = ""
    notices_from: str = ""

    @property
    def forwarded(self) -> tuple[str, ...]:
        """What a node passes on, as its chain of nftables says it (nft(8)): packets from and to its pods, none into the out-of-band
        network, and none between its own networks."""
        return (
            "type filter hook forward priority filter; policy drop;",
            *(f"ip daddr {prefix} drop" for prefix in self.oob),
            f'iifname "{POD_BRIDGE}" accept',
            f'oifname "{POD_BRIDGE}" accept',
        )

    @property
    def server(self) -> str:
        """URL at which a node asks the API server: the only controller's, or where there are several the node's own balancer, which
        passes on to all of them (role kubernetes_balancer).
        """
        return f"https://{LOOPBACK if len(self.controllers) > 1 else self.controllers[0].address}:{API_PORT}"

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """All that is signed: the users are those that Kubernetes' own roles are bound to (Kubernetes, "PKI certificates and
        requirements")."""
        own = (LOOPBACK, "localhost")
        made = list[Certificate]()
        for one in self.controllers:
            api = (*own, one.address, one.name, API_SERVICE, *API_NAMES)
            made += [
                Certificate(one.name, "apiserver", "ca", "kube-apiserver", addresses=api, usages=("server",)),
                Certificate(one.name, "etcd", "etcd-ca", "etcd", addresses=(*own, one.address, one.name), usages=BOTH),
                Certificate(one.name, "etcd-client", "etcd-ca", "kube-apiserver"),
                Certificate(one.name, "kubelet-client", "ca", KUBELET_CLIENT),
                Certificate(one.name, "front-proxy", "front-proxy-ca", "front-proxy-client"),
                Certificate(one.name, "controller-manager", "ca", "system:kube-controller-manager"),
                Certificate(one.name, "scheduler", "ca", "system:kube-scheduler"),
                Certificate(one.name, "metrics", "ca", METRICS_USER),
                Certificate(one.name, "reservations", "ca", RESERVATIONS_USER),
                *([Certificate(one.name, "notices", "ca", NOTICES_USER)] if one.name == self.notices_from else []),
                Certificate(one.name, "admin", "ca", "bringup-admin", groups=("system:masters",)),
            ]
        for one in self.nodes:
            user, names = f"system:node:{one.name}", (one.address, one.name)
            made += [
                Certificate(one.name, "kubelet", "ca", user, groups=("system:nodes",), addresses=names, usages=BOTH),
                Certificate(one.name, "kube-proxy", "ca", "system:kube-proxy"),
                Certificate(one.name, "node-health", "ca", f"{HEALTH_GROUP}:{one.name}", groups=(HEALTH_GROUP,)),
            ]
        return tuple(made)

    def plain(self) -> dict[str, Any]:
        """As plain data: lists and dictionaries."""
        kept = asdict(self) | {
            "server": self.server,
            "dns_service": DNS_SERVICE,
            "api_port": API_PORT,
            "authorities": AUTHORITIES,
            "certificates": [asdict(one) for one in self.certificates],
            "kubelet_client": KUBELET_CLIENT,
            "health_group": HEALTH_GROUP,
            "metrics_user": METRICS_USER,
            "reservations_user": RESERVATIONS_USER,
            "notices_user": NOTICES_USER,
            "forwarded": self.forwarded,
            "pod_bridge": POD_BRIDGE,
        }
        found = json.loads(json.dumps(kept))
        assert isinstance(found, dict)
        return found


def cluster(plan: Plan) -> Cluster:
    """The cluster of a site of Kubernetes."""
    addresses = plan.addresses[plan.addresses["network"] == "provisioning"]
    address = {
        device: text.partition("/")[0]
        for device, text in zip(addresses["device"].tolist(), addresses["address"].tolist(), strict=True)
    }
    servers = plan.devices[plan.devices["kind"] == "server"]
    controllers = servers.loc[servers["role"] == "controller", "name"].tolist()
    nodes = servers.loc[servers["role"].isin(COMPUTE_ROLES), "name"].tolist()
    if not controllers:
        raise ClusterError(
            "no service node of the role controller: add one to service_nodes, it runs the control plane"
        )
    room = 1 << (POD_LENGTH - PODS.prefixlen)
    if len(nodes) > room:
        raise ClusterError(f"{len(nodes)} nodes: {PODS} has prefixes of pods for {room}. Split the site")
    given = plan.site.addressing
    for key in PREFIXES:
        network = getattr(given, key)
        for what, own in (("pods", PODS), ("services", SERVICES)):
            if network is not None and ipaddress.IPv4Network(str(network)).overlaps(own):
                raise ClusterError(
                    f"addressing.{key} {network} overlaps {own}, the {what} of the cluster: choose another prefix"
                )
    login = plan.site.scheduler.login
    pods = PODS.subnets(new_prefix=POD_LENGTH)
    return Cluster(
        name=plan.site.name,
        version=plan.site.versions["kubernetes"],
        controllers=tuple(Member(name, address[name]) for name in controllers),
        nodes=tuple(Member(name, address[name], str(prefix)) for name, prefix in zip(nodes, pods, strict=False)),
        oob=(str(given.oob),) if given.oob is not None else (),
        authentication=authentication(login, plan.site.versions["kubernetes"]) if login else None,
        login_ca=str(site_path(login.ca, plan.site.dir)) if login and login.ca else "",
    )


def notices_from(plan: Plan) -> str:
    """The controller that tells users and operators of events, the first one, so that each is told once; '' where nobody is told.

    Apart from `cluster`, which needs no credentials.
    """
    given, devices = plan.site.credentials_given, plan.devices
    if given is None or not given.tells_anybody:
        return ""
    return str(devices.loc[devices["role"] == "controller", "name"].iloc[0])
