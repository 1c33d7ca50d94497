"""A kubeconfig that cannot be used is refused with the reason; an API server that is silent costs no more than its budget."""

import base64
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from infra.kube.access import ClusterError, Connection, connect, version
from tests.infra.kube_certificates import authority_pem

pytestmark = pytest.mark.clock


def kubeconfig(folder: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
    """A kubeconfig that is whole but for what is given; a value of None takes the key away."""
    ours = {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(authority_pem()).decode(),
        **(cluster or {}),
    }
    file = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {key: value for key, value in ours.items() if value is not None}}],
        "users": [{"name": "u", "user": {"token": "t0ken"} if user is None else user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(file))
    return path


def test_a_whole_kubeconfig_gives_a_connection_that_checks_the_server(tmp_path: Path) -> None:
    made = connect(kubeconfig(tmp_path))
    assert (made.server, made.headers) == ("https://127.0.0.1:6443", {"Authorization": "Bearer t0ken"})
    assert made.tls.verify_mode == ssl.CERT_REQUIRED
    assert made.tls.check_hostname
    assert "t0ken" not in repr(made)


@pytest.mark.parametrize(
    ("cluster", "user", "why"),
    [
        ({"server": "http://127.0.0.1:8080"}, None, "is not https://HOST"),
        ({"server": "https://[::1"}, None, "is not https://HOST"),
        ({"server": None}, None, "server is missing"),
        ({"insecure-skip-tls-verify": True}, None, "insecure-skip-tls-verify is refused"),
        ({"certificate-authority-data": None}, None, "no certificate-authority-data"),
        ({"certificate-authority-data": "%%"}, None, "certificate-authority cannot be read"),
        ({"certificate-authority-data": "bm90IGE="}, None, "its certificates cannot be used"),
        ({"certificate-authority-data": None, "certificate-authority": "absent.crt"}, None, "cannot be read"),
        ({}, {"exec": {"command": "aws"}}, "it starts a program"),
        ({}, {"token": "a\nb"}, "its token is no printable text"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    cluster: dict[str, Any], user: dict[str, Any] | None, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match=why) as refused:
        connect(kubeconfig(tmp_path, cluster, user))
    assert str(tmp_path / "kubeconfig") in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "current-context: a", "current-context: a\ncontexts: 3", "a: b: c", "\0", "[" * 10_000, "a: !!int"],
)
def test_a_file_that_is_no_kubeconfig_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ClusterError, match=str(path)):
        connect(path)


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_are_refused_have_a_way_out(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses = httpx.MockTransport(lambda _: httpx.Response(status, stream=httpx.ByteStream(b"{}")))
    monkeypatch.setattr(httpx, "stream", lambda method, url, **_: httpx.Client(transport=refuses).stream(method, url))
    with pytest.raises(ClusterError, match=rf"\({status}\): they may have expired. .*bringup kubeconfig SITE"):
        version(connect(kubeconfig(tmp_path)))


@pytest.mark.parametrize("listens", [True, False])
def test_a_server_that_does_not_answer_is_named_within_the_budget(listens: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        if not listens:
            silent.close()
        began = time.monotonic()
        with pytest.raises(ClusterError, match=f"API server {address} gave no answer within 0.2 s"):
            version(Connection(address, ssl.create_default_context(), {}), within_s=0.2)
        assert time.monotonic() - began < 60
