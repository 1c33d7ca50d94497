#!/usr/bin/python3
"""What a server knows of its part of a Kubernetes cluster, as metrics for the node exporter's textfile collector.

    kubernetes_metrics.py --file /var/lib/prometheus/node-exporter/bringup-kubernetes.prom [--control-plane]

    bringup_certificate_end_seconds{file, kind}      Unix time; 0 where openssl cannot read it; kind: authority or certificate
With --control-plane also, each asked of this server's own over loopback:
    bringup_kubernetes_up{component}                 1: answers that it is healthy; the API server also lists its nodes
    bringup_kubernetes_node_ready{node, reason}      1 or 0, with the kubelet's reason; none while the API server does not answer
    bringup_kubernetes_node_offer{node, resource}    what the node offers pods of extended resources, GPUs among them
    bringup_kubernetes_gpus_used{account, user, resource}
                                                     GPUs, or parts of GPUs, that pods hold now. account: their namespace; user: who
                                                     made them, "" where nobody knows
    bringup_kubernetes_pods_listed_seconds           when these were asked for, Unix time; neither where the list cannot be had
    bringup_etcd_backup_failed                       1: the last backup failed
    bringup_etcd_backup_seconds                      when the newest was made, Unix time; without any, since when etcd has data
    etcd_*                                           etcd's own, under their names
What cannot be asked is left out and named on standard error; the rest is written all the same. Standard library only. It changes
nothing but its file.
"""

import argparse
import contextlib
import datetime
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

BUDGET_S = 10
"""For each call and each program."""
BODY_MAX = 256 << 20
"""Bytes of an answer: 10,000 nodes of 25 kB, as they are with all their images."""
HOST = "127.0.0.1"
ETCD_PORT, MANAGER_PORT, SCHEDULER_PORT = 2379, 10257, 10259
OF_ETCD = ("etcd_server_has_leader", "etcd_mvcc_db_total_size_in_bytes", "etcd_server_quota_backend_bytes")
KUBELET = Path("/var/lib/kubelet/pki/kubelet-client-current.pem")
"""The client certificate that the kubelet renews itself."""
BACKUP = "bringup-etcd-backup.service"
PODS = "/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
"""Pods that a node has and that have not ended: they hold their GPUs, also while they start or end."""
PAGE, PODS_MAX = 500, 50_000
"""Pods that are asked for at once, some 3 MB, and in all: 50 for each of 1,000 nodes. One page is read at a time."""
PODS_S = 45
"""For all pages, within the two minutes of the unit. A choice of ours."""
VENDOR = "nvidia.com/"
USER = "bringup.local/user"
"""Annotation that the API server writes (platform layer, submitter.py)."""
USER_MAX = 200
"""Characters of a name of a user, which Kubernetes does not bound; a longer one is cut. A choice of ours."""
USED_MAX = 2_000
"""Series of GPUs in use: a quarter of those that one question about a day may be about (validation/facts/usage.py). Of more, the
smallest are counted without their user."""
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,252}")
"""Names and reasons of the API: what is another text is none of them."""
THOUSANDS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}
QUANTITY = re.compile(r"(\d{1,15})(?:[eE](\d{1,2})|([kMGTPE])|([KMGTPE])i)?")
"""Whole quantities in all forms that a user may give a limit in (Kubernetes, "Quantity"): 8, 8e0, 1k, 1Ki."""
Sample = tuple[str, dict[str, str], float]


class AskError(Exception):
    """The message says who was asked and what came."""


def ask(port: int, path: str, ca: Path | None = None, pem: Path | None = None) -> bytes:
    """The body of an answer 200 over TLS on loopback; AskError for everything else. Without `ca` the server is not verified: its
    certificate is of its own making, and no credentials are sent.
    """
    try:
        tls = ssl.create_default_context(cafile=str(ca) if ca else None)
        if ca is None:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if pem:
            tls.load_cert_chain(pem)
        connection = http.client.HTTPSConnection(HOST, port, timeout=BUDGET_S, context=tls)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Accept": "application/json, text/plain, */*"})
            answer = connection.getresponse()
            body = answer.read(BODY_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise AskError(f"port {port}{path}: {error}") from None
    if answer.status != http.client.OK:
        raise AskError(f"port {port}{path}: status {answer.status}: {body[:200].decode(errors='replace')}")
    if len(body) > BODY_MAX:
        raise AskError(f"port {port}{path}: more than {BODY_MAX} bytes")
    return body


def output(*argv: str) -> str:
    """What a program says; AskError with its last words."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BUDGET_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AskError(str(error)) from None
    if done.returncode:
        raise AskError(f"{argv[0]} {argv[1]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def certificates(pki: Path, kubelet: Path) -> Iterator[Sample]:
    """When each certificate of this server ends."""
    found = [
        *((path, "authority") for path in sorted(pki.glob("*.crt"))),
        *((path, "certificate") for path in sorted(pki.glob("*.pem"))),
    ]
    if kubelet.exists():
        found.append((kubelet, "certificate"))
    for path, kind in found:
        try:
            printed = output("openssl", "x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in", str(path))
            end = (
                datetime.datetime.strptime(printed.strip(), "notAfter=%Y-%m-%d %H:%M:%SZ")
                .replace(tzinfo=datetime.UTC)
                .timestamp()
            )
        except (AskError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            end = 0.0
        yield "bringup_certificate_end_seconds", {"file": str(path), "kind": kind}, end


def nodes(listed: bytes) -> list[Sample]:
    """Readiness and extended resources of each node, from a NodeList; AskError where it is none."""
    found: list[Sample] = []
    try:
        for one in json.loads(listed)["items"]:
            name, status = word(one["metadata"]["name"]), one["status"]
            ready: dict[str, Any] = next((each for each in status.get("conditions", []) if each["type"] == "Ready"), {})
            labels = {"node": name, "reason": word(ready.get("reason") or "Unknown")}
            found.append(("bringup_kubernetes_node_ready", labels, float(ready.get("status") == "True")))
            # Extended resources have a domain and are whole numbers (Kubernetes, "Extended resources").
            for resource, amount in status.get("allocatable", {}).items():
                if "/" in resource:
                    labels = {"node": name, "resource": word(resource)}
                    found.append(("bringup_kubernetes_node_offer", labels, whole(amount)))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise AskError(f"list of nodes: {type(error).__name__}: {error}") from None
    return found


def gpus_used(pages: Iterable[Any]) -> list[Sample]:
    """GPUs and parts of GPUs that pods hold, by namespace and user, from pages of a PodList; AskError for what is none."""
    sums: dict[tuple[str, str, str], int] = {}
    try:
        for page in pages:
            for one in page["items"]:
                metadata = one["metadata"]
                namespace, user = word(metadata["namespace"]), person((metadata.get("annotations") or {}).get(USER, ""))
                for resource, count in held(one["spec"]).items():
                    key = (namespace, user, word(resource))
                    sums[key] = sums.get(key, 0) + count
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise AskError(f"list of pods: {type(error).__name__}: {error}") from None
    if len(sums) > USED_MAX:
        print(f"GPUs in use: {len(sums)} accounts and users, {USED_MAX} are told apart", file=sys.stderr)
    kept: dict[tuple[str, str, str], int] = {}
    for number, (key, count) in enumerate(sorted(sums.items(), key=lambda item: (-item[1], item[0]))):
        named = key if number < USED_MAX else (key[0], "", key[2])
        kept[named] = kept.get(named, 0) + count
    return [
        ("bringup_kubernetes_gpus_used", {"account": account, "user": user, "resource": resource}, float(count))
        for (account, user, resource), count in sorted(kept.items())
        if count
    ]


def held(spec: dict[str, Any]) -> dict[str, int]:
    """Of each resource of the GPUs' maker, what a pod holds: the sum of its containers, or more where an init container asks for it
    (Kubernetes, "Init Containers" and "Sidecar Containers").
    """
    beside: dict[str, int] = {}
    most: dict[str, int] = {}
    for one in spec.get("initContainers") or []:
        stays = one.get("restartPolicy") == "Always"
        for resource, count in limits(one).items():
            if stays:
                beside[resource] = beside.get(resource, 0) + count
            most[resource] = max(most.get(resource, 0), beside.get(resource, 0) + (0 if stays else count))
    for one in spec["containers"]:
        for resource, count in limits(one).items():
            beside[resource] = beside.get(resource, 0) + count
    return {resource: max(beside.get(resource, 0), most.get(resource, 0)) for resource in {**beside, **most}}


def limits(container: dict[str, Any]) -> dict[str, int]:
    """What a container asks for of the GPUs' maker. Limits are requests there (Kubernetes, "Schedule GPUs")."""
    given = (container.get("resources") or {}).get("limits") or {}
    return {resource: quantity(amount) for resource, amount in given.items() if resource.startswith(VENDOR)}


def person(given: Any) -> str:
    """The name of a user, which is free text: printable and bounded."""
    if not isinstance(given, str):
        raise ValueError(f"{str(given)[:80]!r} is no name of a user")
    return "".join(letter if letter.isprintable() else "?" for letter in given[:USER_MAX])


def quantity(given: Any) -> int:
    """A whole quantity in any form; ValueError for what is none."""
    found = QUANTITY.fullmatch(str(given))
    if not found:
        raise ValueError(f"{str(given)[:80]!r} is no whole quantity")
    number, power, thousands, binary = found.groups()
    times = 10 ** int(power) if power else 1000 ** (" kMGTPE".index(thousands)) if thousands else 1
    return int(number) * times * (1024 ** (" KMGTPE".index(binary)) if binary else 1)


def word(given: Any) -> str:
    """A name that the API allows; ValueError for what is none."""
    if not isinstance(given, str) or not WORD.fullmatch(given):
        raise ValueError(f"{str(given)[:80]!r} is no name")
    return given


def whole(given: Any) -> float:
    """A whole quantity of the API, such as 8 or 1k; ValueError for what is none."""
    found = re.fullmatch(r"(\d{1,15})([kMG]?)", str(given))
    if not found:
        raise ValueError(f"{str(given)[:80]!r} is no whole quantity")
    return float(found[1]) * THOUSANDS[found[2]]


def page_of(body: bytes) -> tuple[Any, str]:
    """A page of a list, and the parameter that asks for the rest, "" at its end; AskError for what is no list."""
    try:
        page = json.loads(body)
        given = page["metadata"].get("continue") or ""
        return page, f"&continue={urllib.parse.quote(given, safe='')}" if given else ""
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise AskError(f"list of pods: {type(error).__name__}: {error}") from None


def of_etcd(text: bytes) -> list[Sample]:
    """etcd's series that rules read, from its metrics; AskError where one is missing."""
    lines = dict(
        line.split(" ", 1)
        for line in text.decode(errors="replace").splitlines()
        if line.startswith(OF_ETCD) and " " in line
    )
    try:
        return [(name, {}, float(lines[name])) for name in OF_ETCD]
    except (KeyError, ValueError) as error:
        raise AskError(f"metrics of etcd: {error}") from None


def backups(folder: Path, data: Path) -> Iterator[Sample]:
    """Whether the last backup of etcd failed, and when the newest was made."""
    state = output("systemctl", "show", "--value", "--property=ActiveState", BACKUP).strip()
    yield "bringup_etcd_backup_failed", {}, float(state == "failed")
    made = [path.stat().st_mtime for path in folder.glob("etcd-*.db")] or [
        path.stat().st_mtime for path in [data / "member"] if path.exists()
    ]
    if made:
        yield "bringup_etcd_backup_seconds", {}, max(made)


def control_plane(pki: Path, api_port: int, folder: Path, data: Path) -> Iterator[Sample]:
    """The control plane of this server."""

    def api_server() -> list[Sample]:
        own = (pki / "ca.crt", pki / "metrics.pem")
        ask(api_port, "/readyz", *own)
        # From the API server's own memory: etcd is asked for nothing.
        return nodes(ask(api_port, "/api/v1/nodes?resourceVersion=0", *own))

    def pods() -> Iterator[Any]:
        end, more = time.monotonic() + PODS_S, ""
        for listed in range(PAGE, PODS_MAX + 1, PAGE):
            page, more = page_of(ask(api_port, f"{PODS}&limit={PAGE}{more}", pki / "ca.crt", pki / "metrics.pem"))
            yield page
            if not more:
                return
            if time.monotonic() > end:
                raise AskError(f"list of pods: {listed} pods after {PODS_S} s, and not at its end")
        raise AskError(f"list of pods: more than {PODS_MAX} pods")

    def etcd() -> list[Sample]:
        return of_etcd(ask(ETCD_PORT, "/metrics", pki / "etcd-ca.crt", pki / "etcd-client.pem"))

    def healthy(port: int) -> list[Sample]:
        ask(port, "/healthz")
        return []

    asked: dict[str, Callable[[], list[Sample]]] = {
        "kube-apiserver": api_server,
        "etcd": etcd,
        "kube-controller-manager": lambda: healthy(MANAGER_PORT),
        "kube-scheduler": lambda: healthy(SCHEDULER_PORT),
    }
    for component, read in asked.items():
        try:
            found = read()
        except AskError as error:
            print(f"{component}: {error}", file=sys.stderr)
            yield "bringup_kubernetes_up", {"component": component}, 0
        else:
            yield "bringup_kubernetes_up", {"component": component}, 1
            yield from found
    asked_at = time.time()
    try:
        yield from gpus_used(pods())
        yield "bringup_kubernetes_pods_listed_seconds", {}, asked_at
    except AskError as error:
        print(f"GPUs in use: {error}", file=sys.stderr)
    try:
        yield from backups(folder, data)
    except (AskError, OSError) as error:
        print(f"backups of etcd: {error}", file=sys.stderr)


def render(samples: Iterable[Sample]) -> str:
    """The samples in Prometheus' text format, each name's together."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value in samples:
        inner = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
        by_name.setdefault(name, []).append(f"{name}{{{inner}}} {value:.15g}" if inner else f"{name} {value:.15g}")
    return "".join("\n".join([f"# TYPE {name} gauge", *lines]) + "\n" for name, lines in by_name.items())


def escaped(text: str) -> str:
    """A value of a label: these three are all that the format knows, and any other backslash makes the file unreadable."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write(path: Path, text: str) -> None:
    """Replace a file in one step. Node exporter reads *.prom alone."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.chmod(0o644)
    os.replace(new, path)


def main(argv: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--pki", type=Path, default=Path("/etc/kubernetes/pki"))
    parser.add_argument("--control-plane", action="store_true")
    parser.add_argument("--api-port", type=int, default=6443)
    parser.add_argument("--backups", type=Path, default=Path("/var/backups/etcd"))
    parser.add_argument("--data", type=Path, default=Path("/var/lib/etcd"))
    given = parser.parse_args(argv)
    samples = list(certificates(given.pki, KUBELET))
    if given.control_plane:
        samples += control_plane(given.pki, given.api_port, given.backups, given.data)
    write(given.file, render(samples))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
