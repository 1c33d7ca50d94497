"""A fire drill of the alert rules: runs on a telemetry server, prints one JSON object.

It writes the series that make rules fire into the folder of the plan's metrics, as if devices of the drill had them; listens
where Alertmanager sends drills; and takes the file away again. So an exporter, Prometheus, a rule, Alertmanager and a
webhook are all passed. Standard library only. The request, a JSON object as first argument:
    folder, port   of the textfile collector and of the listener
    series         [{name, labels, values, step}]: one value per interval, of which the last goes on, growing by step
    expect         {alert: {subject, clears}}: alerts that must come, the pretended device that they must name, and whether
                   they must be resolved afterwards
    interval_s, deliver_s, tests
Out: {"alerts": {alert: {"severity", "delivered_s", "cleared_s"}}, "unit_tests": {"status", "output"}}; null for what never came.
"""

import http.server
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

TESTS_BUDGET_S = 60
POLL_S = 0.2


class Desk:
    """Takes notifications and notes when each alert of the drill first fired and when it was resolved."""

    def __init__(self, subjects: dict[str, str]) -> None:
        self.subjects = subjects
        self.fired: dict[str, float] = {}
        self.resolved: dict[str, float] = {}
        self.severity: dict[str, str] = {}

    def take(self, notification: dict[str, Any]) -> None:
        for alert in notification["alerts"]:
            labels = alert["labels"]
            name = labels["alertname"]
            if self.subjects.get(name) in labels.values():
                self.severity[name] = labels["severity"]
                times = self.fired if alert["status"] == "firing" else self.resolved
                times.setdefault(name, time.monotonic())


def listen(desk: Desk, port: int) -> http.server.HTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            desk.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Standard output is the answer."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def metrics(series: list[dict[str, Any]], interval: int) -> str:
    """The series after so many intervals, in Prometheus' text format."""
    lines, seen = [], set()
    for one in sorted(series, key=lambda one: one["name"]):
        if one["name"] not in seen:
            seen.add(one["name"])
            lines.append(f"# TYPE {one['name']} gauge")
        last = len(one["values"]) - 1
        value = one["values"][min(interval, last)] + one["step"] * max(0, interval - last)
        labels = ",".join(f"{key}={json.dumps(text)}" for key, text in one["labels"].items())
        lines.append(f"{one['name']}{{{labels}}} {value:.15g}")
    return "\n".join(lines) + "\n"


def unit_tests(path: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            ["promtool", "test", "rules", path], capture_output=True, text=True, timeout=TESTS_BUDGET_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"status": None, "output": str(error)}
    return {"status": done.returncode, "output": (done.stdout + done.stderr)[-2000:]}


def main() -> None:
    request = json.loads(sys.argv[1])
    expect: dict[str, dict[str, Any]] = request["expect"]
    desk, file = Desk({alert: one["subject"] for alert, one in expect.items()}), Path(request["folder"]) / "drill.prom"
    wanted, clearing = set(expect), {alert for alert, one in expect.items() if one["clears"]}
    interval_s, deliver_s = request["interval_s"], request["deliver_s"]
    server = listen(desk, request["port"])
    began = time.monotonic()
    try:
        interval = -1
        while not wanted <= set(desk.fired) and time.monotonic() - began < deliver_s:
            due = int((time.monotonic() - began) / interval_s)
            if due > interval:
                interval = due
                new = file.with_suffix(".new")
                new.write_text(metrics(request["series"], interval))
                new.chmod(0o644)
                new.rename(file)
            time.sleep(POLL_S)
        ended = time.monotonic()
    finally:
        file.unlink(missing_ok=True)
    tests = unit_tests(request["tests"])
    while not clearing & set(desk.fired) <= set(desk.resolved) and time.monotonic() - ended < deliver_s:
        time.sleep(POLL_S)
    server.shutdown()
    print(
        json.dumps(
            {
                "alerts": {
                    alert: {
                        "severity": desk.severity.get(alert, ""),
                        "delivered_s": round(desk.fired[alert] - began, 1) if alert in desk.fired else None,
                        "cleared_s": round(desk.resolved[alert] - ended, 1) if alert in desk.resolved else None,
                    }
                    for alert in sorted(wanted)
                },
                "unit_tests": tests,
            }
        )
    )


if __name__ == "__main__":
    main()
