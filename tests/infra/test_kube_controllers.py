"""What a controller beside a control plane of loopback gets: its objects, its configuration, its folder. No program is started."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from infra.kube import certificates, controllers
from infra.kube.access import ClusterError
from infra.kube.controllers import JOBSET, KUEUE, adapted, configuration, prepare, start

PEM = b"-----BEGIN CERTIFICATE-----\n"
HOOK = {"name": "mjob.kb.io", "clientConfig": {"service": {"name": "w", "namespace": "k", "path": "/mutate-job"}}}
DEFINITION: dict[str, Any] = {
    "kind": "CustomResourceDefinition",
    "spec": {
        "group": "x",
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"service": {"path": "/convert"}}, "conversionReviewVersions": ["v1"]},
        },
    },
}
PLAIN: dict[str, Any] = {"kind": "CustomResourceDefinition", "spec": {"conversion": {"strategy": "None"}}}


def test_webhooks_are_called_at_the_port_and_checked_against_the_authority() -> None:
    given = [{"kind": "MutatingWebhookConfiguration", "webhooks": [HOOK]}, DEFINITION, PLAIN]
    hooks, definition, plain = adapted(given, 9443, PEM)
    bundle = base64.b64encode(PEM).decode()
    assert hooks["webhooks"][0]["clientConfig"] == {"url": "https://127.0.0.1:9443/mutate-job", "caBundle": bundle}
    called = definition["spec"]["conversion"]["webhook"]
    assert called["clientConfig"] == {"url": "https://127.0.0.1:9443/convert", "caBundle": bundle}
    assert called["conversionReviewVersions"] == ["v1"]
    assert plain == PLAIN
    assert "service" in HOOK["clientConfig"], "what was given is not changed"


def test_what_runs_outside_of_the_cluster_is_left_out_and_rights_are_not() -> None:
    kinds = ["Deployment", "Secret", "Service", "APIService", "ClusterRole", "ServiceAccount", "ConfigMap", "Namespace"]
    left = adapted([{"kind": kind} for kind in kinds], 1, PEM)
    assert [one["kind"] for one in left] == ["ClusterRole", "ServiceAccount", "ConfigMap", "Namespace"]


@pytest.mark.parametrize("one", [KUEUE, JOBSET], ids=lambda one: one.name)
def test_a_controller_listens_on_loopback_alone_and_makes_no_certificates(one: controllers.Controller) -> None:
    made = configuration(one, 1234, 1235)
    assert made["webhook"] == {"host": "127.0.0.1", "port": 1234}
    assert made["health"] == {"healthProbeBindAddress": "127.0.0.1:1235"}
    assert made["internalCertManagement"] == {"enable": False}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kueue").write_text("program")
    authority = certificates.issue("ca")
    prepare(KUEUE, tmp_path / "kueue", tmp_path, "https://127.0.0.1:6443", authority, configuration(KUEUE, 1, 2))
    return tmp_path / "kueue"


def test_it_signs_in_as_its_own_service_account(root: Path) -> None:
    kubeconfig = yaml.safe_load((root / "kubeconfig").read_text())
    pem = base64.b64decode(kubeconfig["users"][0]["user"]["client-certificate-data"])
    subject = x509.load_pem_x509_certificate(pem).subject
    by_kind = {part.rfc4514_attribute_name: part.value for part in subject}
    assert by_kind["CN"] == "system:serviceaccount:kueue-system:kueue-controller-manager"
    groups = [part.value for part in subject if part.rfc4514_attribute_name == "O"]
    assert groups == ["system:serviceaccounts", "system:serviceaccounts:kueue-system"]
    assert "system:masters" not in groups


def test_its_keys_are_where_it_looks_for_them_and_its_owners_alone(root: Path) -> None:
    for place in controllers.CERTIFICATE_FOLDERS:
        assert (root / place / "tls.key").stat().st_mode & 0o777 == 0o600
        assert x509.load_pem_x509_certificate((root / place / "tls.crt").read_bytes())
    assert (root / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load((root / "config.yaml").read_text())["kind"] == "Configuration"


def test_who_is_not_root_gets_a_namespace_of_users(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--map-root-user" not in start(root)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert start(root)[:2] == ["unshare", "--map-root-user"]
    assert f"--root={root}" in start(root)


def test_a_pair_is_read_as_it_was_written(tmp_path: Path) -> None:
    certificates.write(tmp_path / "pki", "https://127.0.0.1:6443")
    loaded = certificates.load(tmp_path / "pki" / "ca")
    assert loaded.pem == (tmp_path / "pki" / "ca.crt").read_bytes()
    assert loaded.key_pem == (tmp_path / "pki" / "ca.key").read_bytes()


KUBECTL = """#!/bin/sh
[ "$1" = wait ] || exit 0
[ -e {mark} ] && exit 0
touch {mark}
echo 'error: {said}' >&2
exit 1
"""


@pytest.mark.parametrize(
    ("said", "is_waited_for"),
    [
        (".status.conditions accessor error: <nil> is of the type <nil>, expected []interface{{}}", True),
        ("timed out waiting for the condition on crd/a", False),
    ],
    ids=["new", "never"],
)
def test_a_definition_too_new_to_have_conditions_is_waited_for(said: str, is_waited_for: bool, tmp_path: Path) -> None:
    """What kubectl 1.36.3 said of a definition a moment after it was applied."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.format(mark=tmp_path / "mark", said=said.format()))
    kubectl.chmod(0o755)
    definition = {"kind": "CustomResourceDefinition", "metadata": {"name": "a"}}
    if is_waited_for:
        controllers.apply([str(kubectl)], [definition], tmp_path / "file.yaml")
    else:
        with pytest.raises(ClusterError, match="timed out"):
            controllers.apply([str(kubectl)], [definition], tmp_path / "file.yaml")
