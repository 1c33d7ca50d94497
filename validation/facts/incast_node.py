"""Runs on a server while the fabric carries a load (`python3 -` over SSH): a request in, one JSON object out. Standard library.

    {"do": "count", "rails": ["rail0"]}                     {"counters": {"rail0": {kernel's name: number}}}
    {"do": "receive", "rail", "ports", "budget_s"}          waits for one sender a port; {"ended": {port: exit status}}
    {"do": "send", "rail", "source", "target", "port", "seconds", "budget_s"}    {"printed": what ib_write_bw prints}

With "level", a service level of InfiniBand, both sides connect without the connection manager, and "source" is left out.

Needs ethtool and perftest. Nothing is changed; what was started ends with the call.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

BUDGET_S = 20
KEPT = re.compile(r"^\s*([rt]x_prio[0-7]_(?:packets|bytes|pause|discards|buf_discard)):\s*([0-9]+)\s*$", re.MULTILINE)
HARDWARE = ("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets", "out_of_sequence", "packet_seq_err")
"""Counters of an RDMA port (Documentation of mlx5: hw_counters)."""
SIZE_B, PAIRS = 65536, 4
"""Of a write, and queue pairs of a sender: enough to fill a port of 400 Gb/s from a few senders."""


def count(rails: list[str]) -> dict[str, Any]:
    found = {}
    for rail in rails:
        said = subprocess.run(
            ["ethtool", "-S", rail], capture_output=True, text=True, timeout=BUDGET_S, check=False
        ).stdout
        found[rail] = {name: int(number) for name, number in KEPT.findall(said)}
        for name in HARDWARE:
            try:
                place = Path(f"/sys/class/infiniband/{rail}/ports/1/hw_counters/{name}")
                found[rail][name] = int(place.read_text())
            except (OSError, ValueError):
                continue  # the driver does not count it
    return {"counters": found}


def write_bw(request: dict[str, Any], port: int, *more: str) -> "subprocess.Popen[str]":
    """ib_write_bw over the connection manager, which marks its packets as all connections of the server are marked, or on a service
    level."""
    rail = request["rail"]
    argv = [
        "ib_write_bw",
        *(["-S", str(request["level"])] if "level" in request else ["-R"]),
        "-d",
        rail,
        "-p",
        str(port),
        "-s",
        str(SIZE_B),
        "-q",
        str(PAIRS),
        "-F",
        "--report_gbits",
    ]
    return subprocess.Popen(
        [*argv, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def ended(one: "subprocess.Popen[str]", budget_s: float) -> tuple[int, str]:
    """(exit status, output) of a command; one that outlives its budget is killed with what it started."""
    try:
        printed, _ = one.communicate(timeout=budget_s)
    except subprocess.TimeoutExpired:
        os.killpg(one.pid, signal.SIGKILL)
        printed, _ = one.communicate()
    return one.returncode, printed


def receive(request: dict[str, Any]) -> dict[str, Any]:
    seconds = ("-D", str(request["seconds"]))
    waiting = {port: write_bw(request, port, *seconds) for port in request["ports"]}
    return {"ended": {str(port): ended(one, request["budget_s"])[0] for port, one in waiting.items()}}


def send(request: dict[str, Any]) -> dict[str, Any]:
    source = ("--bind_source_ip", request["source"]) if "source" in request else ()
    more = ("-D", str(request["seconds"]), *source, request["target"])
    status, printed = ended(write_bw(request, request["port"], *more), request["budget_s"])
    return {"status": status, "printed": printed[-4000:]}


def main() -> None:
    request = json.loads(sys.argv[1])
    try:
        answer = {
            "count": lambda: count(request["rails"]),
            "receive": lambda: receive(request),
            "send": lambda: send(request),
        }
        print(json.dumps(answer[request["do"]]()))
    except FileNotFoundError as error:
        print(json.dumps({"error": f"{error.filename} is not installed (packages perftest, ethtool)"}))
    except (OSError, subprocess.SubprocessError) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))


if __name__ == "__main__":
    main()
