"""The program of a pod that asks the cluster's DNS for a name: runs with the node's Python, standard library only.

    python3 names.py NAME

Writes JSON to the pod's termination message: the name servers of its /etc/resolv.conf, the addresses of the name, milliseconds
until they were there, and why there are none.
"""

import json
import socket
import sys
import time
from pathlib import Path

MESSAGE = Path("/dev/termination-log")
RESOLV_CONF = Path("/etc/resolv.conf")


def servers(text: str) -> list[str]:
    """Addresses of name servers (resolv.conf(5))."""
    rows = (line.split() for line in text.splitlines())
    return [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver"]


def look_up(name: str) -> dict[str, object]:
    """What the resolver of the C library says of a name, IPv4."""
    began = time.monotonic()
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        addresses, why = sorted({str(one[4][0]) for one in found}), ""
    except OSError as error:
        addresses, why = [], str(error)
    return {"addresses": addresses, "why": why, "took_ms": round((time.monotonic() - began) * 1000)}


if __name__ == "__main__":
    MESSAGE.write_text(json.dumps({"servers": servers(RESOLV_CONF.read_text()), **look_up(sys.argv[1])}))
