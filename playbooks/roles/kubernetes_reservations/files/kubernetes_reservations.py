#!/usr/bin/python3
"""Open the queue of each reservation when its time begins, and close it when that is over. Runs on a controller.

    kubernetes_reservations.py --metrics FILE [--api-port 6443] [--pki /etc/kubernetes/pki]

A reservation is a cluster queue of Kueue with the labels bringup.local/opens and bringup.local/closes, both UTC as
20271204T060000Z. Between these times its stopPolicy is None; before and afterwards it is HoldAndDrain, so that nothing starts
there and Kueue evicts what still runs. What is as it should be is not written. A queue whose labels are no times is closed.
Prints what it changed. --metrics FILE, for the node exporter: bringup_reservations_round_seconds, the Unix time of the last run in
which all was as it should be, 0 before the first. Status 1: the API server does not answer, or refuses a change; the next run tries
again. Standard library only.
"""

import argparse
import contextlib
import datetime
import http.client
import json
import os
import re
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

BUDGET_S = 10
"""For each call. A choice of ours."""
BODY_MAX = 32 << 20
"""Bytes of an answer: 1,000 queues of 5 kB are 5 MB. A choice of ours."""
METRIC = "bringup_reservations_round_seconds"
HOST = "127.0.0.1"
QUEUES = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
OPENS, CLOSES = "bringup.local/opens", "bringup.local/closes"
TIME = "%Y%m%dT%H%M%SZ"
OPEN, CLOSED = "None", "HoldAndDrain"
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Of an object of the API (RFC 1123)."""


class AskError(Exception):
    """The message says what was asked and what came."""


class Api:
    """The API server of this controller, as a user of this program's own."""

    def __init__(self, port: int, pki: Path) -> None:
        self.port = port
        try:
            self.tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
            self.tls.load_cert_chain(pki / "reservations.pem")
        except OSError as error:
            raise AskError(f"certificates of {pki}: {error}") from None

    def call(self, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and body of an answer; AskError where none comes or it is no JSON."""
        headers = {"Accept": "application/json", "Content-Type": "application/merge-patch+json"}
        connection = http.client.HTTPSConnection(HOST, self.port, timeout=BUDGET_S, context=self.tls)
        try:
            with contextlib.closing(connection):
                connection.request(verb, path, json.dumps(body) if body is not None else None, headers)
                answer = connection.getresponse()
                text = answer.read(BODY_MAX + 1)
            if len(text) > BODY_MAX:
                raise AskError(f"{verb} {path}: more than {BODY_MAX} bytes")
            return answer.status, json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AskError(f"{verb} {path}: {error}") from None


def wanted(labels: Any, now: datetime.datetime) -> str:
    """The stopPolicy of a reservation's queue at a time."""
    try:
        opens, closes = (
            datetime.datetime.strptime(str(labels[key]), TIME).replace(tzinfo=datetime.UTC) for key in (OPENS, CLOSES)
        )
    except (LookupError, TypeError, ValueError):
        return CLOSED
    return OPEN if opens <= now < closes else CLOSED


def changes(listed: Any, now: datetime.datetime) -> Iterator[tuple[str, str]]:
    """(name, stopPolicy) of each queue that is not as it should be; AskError where the list is none."""
    try:
        for one in listed["items"]:
            metadata = one["metadata"]
            name = str(metadata["name"])
            policy = wanted(metadata.get("labels"), now)
            if not NAME.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is no name")
            if (one["spec"].get("stopPolicy") or OPEN) != policy:
                yield name, policy
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise AskError(f"list of cluster queues: {type(error).__name__}: {error}") from None


def apply(api: Api, now: datetime.datetime) -> list[str]:
    """Set what is not as it should be; what could not be set, one line each."""
    status, listed = api.call("GET", f"{QUEUES}?labelSelector={quote(OPENS)}&resourceVersion=0")
    if status == http.client.NOT_FOUND:
        return []  # Kueue is not installed yet
    if status != http.client.OK:
        raise AskError(f"list of cluster queues: status {status}: {_message(listed)}")
    failed = []
    for name, policy in changes(listed, now):
        path = f"{QUEUES}/{quote(name, safe='')}"
        try:
            status, said = api.call("PATCH", path, {"spec": {"stopPolicy": policy}})
        except AskError as error:
            failed.append(str(error))
            continue
        if status == http.client.OK:
            print(f"{name}: {'open' if policy == OPEN else 'closed'}")
        elif status != http.client.NOT_FOUND:  # else it was deleted meanwhile
            failed.append(f"{name}: not {policy}: status {status}: {_message(said)}")
    return failed


def _message(said: Any) -> str:
    return str(said.get("message") if isinstance(said, dict) else said)[:200]


def note(path: Path, went_well: bool) -> None:
    """The time of a run that went well; of another one nothing, or that there has been none yet. Node exporter reads *.prom."""
    if not went_well and path.exists():
        return
    new = path.with_name(f".{path.name}.new")
    new.write_text(f"# TYPE {METRIC} gauge\n{METRIC} {int(time.time()) if went_well else 0}\n")
    new.chmod(0o644)
    os.replace(new, path)


def main(argv: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", type=Path, required=True)
    parser.add_argument("--pki", type=Path, default=Path("/etc/kubernetes/pki"))
    parser.add_argument("--api-port", type=int, default=6443)
    given = parser.parse_args(argv)
    try:
        failed = apply(Api(given.api_port, given.pki), datetime.datetime.now(datetime.UTC))
    except AskError as error:
        failed = [str(error)]
    note(given.metrics, not failed)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
