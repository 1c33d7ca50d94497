"""What Prometheus knows, as it says by its HTTP API: runs on a telemetry server, prints one JSON object.

Standard library only, changes nothing. The request, a JSON object as first argument:
    prometheus   URL of its API
    parts        which of targets, rules, alerts and files come; without it all do
    queries      {name: PromQL}, or {name: {"query": PromQL, "time": Unix time}}; each result is a list of {labels, value}
    ranges       {name: {"query", "start", "end", "step"}}; each result is a list of {labels, values}, of [Unix time, value]
    series       {name: {"query": PromQL, "label": which label names the port}}; each result is {instance: {port: value}}
    files        {path: SHA-256 that it should have}; those that differ come back
A part that fails is reported under "errors", and the rest still comes. Ages are in seconds.
"""

import hashlib
import json
import math
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

CALL_BUDGET_S = 10


def call(base: str, path: str, **parameters: str) -> Any:
    """`data` of an API call; RuntimeError with Prometheus' own words when it refuses."""
    address = f"{base}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(address, timeout=CALL_BUDGET_S) as reply:
        answer = json.load(reply)
    if answer["status"] != "success":
        raise RuntimeError(answer.get("error", "no reason given"))
    return answer["data"]


def age_s(stamp: str) -> float:
    """Seconds since a time stamp in RFC 3339, such as 2026-11-21T19:34:56.300107213Z."""
    seconds, _, rest = stamp.partition(".")
    fraction = float("0." + "".join(c for c in rest.split("+")[0].rstrip("Z") if c.isdigit())) if rest else 0.0
    when = datetime.fromisoformat(seconds.rstrip("Z") + "+00:00").timestamp() + fraction
    return round(time.time() - when, 3)


def targets(base: str) -> list[dict[str, Any]]:
    return [
        {
            "job": target["labels"]["job"],
            "instance": target["labels"]["instance"],
            "health": target["health"],
            "age_s": age_s(target["lastScrape"]),
            "interval": target["scrapeInterval"],
            "seconds": target["lastScrapeDuration"],
            "error": target["lastError"],
        }
        for target in call(base, "targets", state="active")["activeTargets"]
    ]


def rules(base: str) -> list[dict[str, Any]]:
    return [
        {
            "alert": rule["name"],
            "severity": rule["labels"].get("severity", ""),
            "hold_s": rule["duration"],
            "runbook": rule["annotations"].get("runbook", ""),
            "health": rule["health"],
            "error": rule.get("lastError", ""),
        }
        for group in call(base, "rules", type="alert")["groups"]
        for rule in group["rules"]
    ]


def alerts(base: str) -> list[dict[str, Any]]:
    return [{"labels": alert["labels"], "state": alert["state"]} for alert in call(base, "alerts")["alerts"]]


def query(base: str, asked: str | dict[str, Any]) -> list[dict[str, Any]]:
    parameters = {"query": asked} if isinstance(asked, str) else {key: str(value) for key, value in asked.items()}
    return [
        {"labels": row["metric"], "value": float(row["value"][1])}
        for row in call(base, "query", **parameters)["result"]
    ]


def query_range(base: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    rows = call(base, "query_range", **{key: str(value) for key, value in asked.items()})["result"]
    return [{"labels": row["metric"], "values": [[at, float(value)] for at, value in row["values"]]} for row in rows]


def by_port(base: str, text: str, label: str) -> dict[str, dict[str, float]]:
    """Values by instance and port: one of 100,000 ports takes as much room as its number does."""
    found: dict[str, dict[str, float]] = {}
    for row in call(base, "query", query=text)["result"]:
        value = float(row["value"][1])
        if math.isfinite(value):
            found.setdefault(row["metric"].get("instance", ""), {})[row["metric"].get(label, "")] = value
    return found


def differing(wanted: dict[str, str]) -> list[str]:
    """Files that are missing or whose content is another one."""

    def digest(path: str) -> str:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).is_file() else ""

    return [path for path, sha256 in wanted.items() if digest(path) != sha256]


def main() -> None:
    request = json.loads(sys.argv[1])
    base = request["prometheus"]
    facts: dict[str, Any] = {"queries": {}, "series": {}, "ranges": {}}
    errors: dict[str, str] = {}

    def answer(name: str, into: dict[str, Any], key: str, read: Callable[[], Any]) -> None:
        try:
            into[key] = read()
        except (OSError, RuntimeError, ValueError, LookupError, TypeError) as error:
            errors[name] = f"{type(error).__name__}: {error}"

    parts = [
        ("targets", facts, "targets", lambda: targets(base)),
        ("rules", facts, "rules", lambda: rules(base)),
        ("alerts", facts, "alerts", lambda: alerts(base)),
        ("files", facts, "files_differing", lambda: differing(request["files"])),
    ]
    jobs = [
        *(part for part in parts if part[0] in request.get("parts", [part[0]])),
        *(
            (f"query {name}", facts["queries"], name, lambda asked=asked: query(base, asked))
            for name, asked in request["queries"].items()
        ),
        *(
            (f"range {name}", facts["ranges"], name, lambda asked=asked: query_range(base, asked))
            for name, asked in request.get("ranges", {}).items()
        ),
        *(
            (f"series {name}", facts["series"], name, lambda one=one: by_port(base, one["query"], one["label"]))
            for name, one in request.get("series", {}).items()
        ),
    ]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda job: answer(*job), jobs):
            pass
    print(json.dumps({"facts": facts, "errors": errors}))


if __name__ == "__main__":
    main()
