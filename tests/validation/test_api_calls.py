"""The program that calls an API server from a controller, against a server of TLS on loopback and a kubectl of the test's own."""

import base64
import http.server
import json
import ssl
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from infra.kube import certificates
from network.drivers.ssh import with_request
from validation.facts import api_calls

PROGRAM = Path(api_calls.__file__)


class Api(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked; /api/v1/nodes with two nodes, /broken with no JSON, /denied with 403."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[set[tuple[str, int]]] = set()

    def reply(self) -> None:
        self.connections.add(self.client_address)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        status, said = 201 if self.command == "POST" else 200, json.dumps(self.told(body))
        if self.path == "/denied":
            status, said = 403, json.dumps({"message": "exceeded quota: gpus"})
        if self.path == "/broken":
            said = "no json"
        self.send_response(status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said.encode())
        self.close_connection = self.path == "/last"

    def told(self, body: Any) -> Any:
        path, _, query = self.path.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        if path == "/api/v1/pods":  # 1,201 pods, of which a call gets as many as it asks for
            first = int(asked.get("continue", "0 /").split()[0])
            last = min(first + int(asked.get("limit", "1201")), 1201)
            pods = [{"metadata": {"name": f"pod{n}"}} for n in range(first, last)]
            return {"metadata": {"continue": f"{last} /&=" if last < 1201 else ""}, "items": pods}
        if path == "/api/v1/nodes":
            node = {"metadata": {"name": "gpu001", "managedFields": "x" * 1000}, "status": {"allocatable": {"a": "1"}}}
            return {"items": [node]}
        peer = self.connection.getpeercert()
        names = {key: value for part in peer["subject"] for key, value in part}
        return {"as": self.headers.get("Impersonate-User"), "body": body, "client": names["commonName"]}

    do_GET = do_POST = reply

    def log_message(self, *words: Any) -> None: ...


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A kubeconfig of a server that runs; kubectl on PATH prints it as JSON."""
    authority = certificates.issue("ca")
    serving = certificates.issue("api", authority=authority, addresses=["127.0.0.1"], usages=[certificates.SERVER])
    client = certificates.issue("admin", ["system:masters"], authority, usages=[certificates.CLIENT])
    for name, data in (("s.crt", serving.pem), ("s.key", serving.key_pem), ("ca.crt", authority.pem)):
        (tmp_path / name).write_bytes(data)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "s.crt", tmp_path / "s.key")
    tls.load_verify_locations(tmp_path / "ca.crt")
    tls.verify_mode = ssl.CERT_REQUIRED
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told = {
        "clusters": [
            {
                "cluster": {
                    "server": f"https://127.0.0.1:{server.server_address[1]}",
                    "certificate-authority-data": base64.b64encode(authority.pem).decode(),
                }
            }
        ],
        "users": [
            {
                "user": {
                    "client-certificate-data": base64.b64encode(client.pem).decode(),
                    "client-key-data": base64.b64encode(client.key_pem).decode(),
                }
            }
        ],
    }
    (tmp_path / "told.json").write_text(json.dumps(told))
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(
        f'#!/bin/sh\n[ "$2" = /there ] || {{ echo "stat $2: no such file" >&2; exit 1; }}\ncat {tmp_path}/told.json\n'
    )
    kubectl.chmod(0o755)
    sudo = kubectl.with_name("sudo")  # for whoever is not root here
    sudo.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{kubectl.parent}:/usr/bin:/bin")
    yield "/there"
    server.shutdown()
    server.server_close()


def run(*calls: dict[str, Any], kubeconfig: str, budget_s: float = 30.0) -> list[dict[str, Any]]:
    request = json.dumps({"kubeconfig": kubeconfig, "budget_s": budget_s, "calls": list(calls)})
    done = subprocess.run([sys.executable, PROGRAM, request], capture_output=True, text=True, timeout=60, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(found) == len(calls)
    return found


def test_calls_are_answered_in_order_with_the_client_certificate_and_the_user(kubeconfig: str) -> None:
    calls = [{"verb": "POST", "path": "/review", "body": {"n": n}, "user": f"user{n}"} for n in range(20)]
    for number, answer in enumerate(run(*calls, kubeconfig=kubeconfig)):
        assert answer["status"] == 201
        assert answer["body"] == {"as": f"user{number}", "body": {"n": number}, "client": "admin"}


def test_connections_are_kept_and_one_that_the_server_closed_is_made_again(kubeconfig: str) -> None:
    Api.connections.clear()
    answers = run(*[{"verb": "GET", "path": "/x"}] * 60, kubeconfig=kubeconfig)
    assert {answer["status"] for answer in answers} == {200}
    assert len(Api.connections) <= api_calls.AT_ONCE
    answers = run(*[{"verb": "GET", "path": "/last"}] * 30, kubeconfig=kubeconfig)
    assert {answer["status"] for answer in answers} == {200}


def test_a_server_that_is_not_there_is_said(kubeconfig: str, tmp_path: Path) -> None:
    told = json.loads((tmp_path / "told.json").read_text())
    told["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "told.json").write_text(json.dumps(told))
    (answer,) = run({"verb": "GET", "path": "/version"}, kubeconfig=kubeconfig)
    assert answer["status"] == 0
    assert "refused" in answer["error"]


def test_a_list_is_read_page_by_page_to_its_end(kubeconfig: str) -> None:
    call = {"verb": "GET", "path": "/api/v1/pods?fieldSelector=status.phase%3DRunning", "fields": ["metadata.name"]}
    (answer,) = run(call, kubeconfig=kubeconfig)
    assert [item["metadata.name"] for item in answer["body"]["items"]] == [f"pod{n}" for n in range(1201)]


def test_only_the_fields_that_were_asked_for_come_back(kubeconfig: str) -> None:
    fields = ["metadata.name", "status.allocatable", "spec.taints"]
    (answer,) = run({"verb": "GET", "path": "/api/v1/nodes", "fields": fields}, kubeconfig=kubeconfig)
    item = {"metadata.name": "gpu001", "status.allocatable": {"a": "1"}, "spec.taints": None}
    assert answer["body"] == {"items": [item]}


def test_only_the_parts_of_an_answer_that_were_asked_for_come_back(kubeconfig: str) -> None:
    review, denied = run(
        {"verb": "POST", "path": "/review", "body": {}, "only": ["client", "status.allowed"]},
        {"verb": "GET", "path": "/denied", "only": ["message"]},
        kubeconfig=kubeconfig,
    )
    assert review["body"] == {"client": "admin", "status.allowed": None}
    assert denied["body"] == {"message": "exceeded quota: gpus"}


def test_the_program_runs_from_standard_input_as_over_ssh(kubeconfig: str) -> None:
    request = {"kubeconfig": kubeconfig, "budget_s": 30.0, "calls": [{"verb": "GET", "path": "/x"}]}
    text = with_request(PROGRAM.read_text(), request)
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)[0]["body"]["client"] == "admin"


def test_a_refusal_is_an_answer_and_what_is_no_json_an_error(kubeconfig: str) -> None:
    denied, broken = run({"verb": "GET", "path": "/denied"}, {"verb": "GET", "path": "/broken"}, kubeconfig=kubeconfig)
    assert (denied["status"], denied["body"]["message"], denied["error"]) == (403, "exceeded quota: gpus", "")
    assert broken["error"] == "7 bytes that are no JSON"


def test_a_kubeconfig_that_is_not_there_is_said_for_every_call(kubeconfig: str) -> None:
    calls = [{"verb": "GET", "path": "/version"}] * 2
    for answer in run(*calls, kubeconfig="/nowhere"):
        assert answer == {"status": 0, "body": None, "error": "/nowhere: stat /nowhere: no such file"}


def test_when_the_budget_is_spent_no_call_is_made(kubeconfig: str) -> None:
    (answer,) = run({"verb": "GET", "path": "/version"}, kubeconfig=kubeconfig, budget_s=0.0)
    assert (answer["status"], answer["error"]) == (0, "the time budget of all calls is spent")
