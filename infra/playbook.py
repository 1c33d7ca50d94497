"""What a run of ansible-playbook says in its recap.

rows = recap(output)                      {"gpu001": {"ok": 31, "changed": 0, "failed": 0, "unreachable": 0, …}, …}
total(rows)                               '6 hosts, ok=120 changed=40 failed=0 unreachable=0'
"""

import re
from collections.abc import Mapping

TOLD = ("ok", "changed", "failed", "unreachable")


def recap(output: str) -> dict[str, dict[str, int]]:
    """By host the counts of the recap; {} where there is none."""
    rows = re.findall(r"^(\S+)\s+: (ok=.*)$", output, flags=re.MULTILINE)
    return {host: {key: int(count) for key, count in re.findall(r"(\w+)=(\d+)", row)} for host, row in rows}


def total(rows: Mapping[str, Mapping[str, int]]) -> str:
    """The recap summed over all hosts; '' without one."""
    sums = {key: sum(row.get(key, 0) for row in rows.values()) for key in TOLD}
    return f"{len(rows)} hosts, " + " ".join(f"{key}={count}" for key, count in sums.items()) if rows else ""
