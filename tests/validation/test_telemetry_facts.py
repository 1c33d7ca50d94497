"""The programs that run on a telemetry server, and what is asked of them."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacity.services import telemetry
from inventory.site import load_site
from network.drivers.ssh import with_request
from validation.facts import fire_drill, telemetry_facts
from validation.facts.telemetry import DRILL, FACTS, by_gpu, drill_request

TARGET = {
    "labels": {"job": "node", "instance": "gpu001", "rack": "r01"},
    "health": "up",
    "lastError": "",
    "scrapeInterval": "5s",
    "lastScrape": "2026-11-21T19:34:56.300107213Z",
    "lastScrapeDuration": 0.01,
}
RULE = {
    "name": "ServerDown",
    "labels": {"severity": "critical"},
    "duration": 5,
    "annotations": {"runbook": "x.md"},
    "health": "ok",
}
ANSWERS: dict[str, Any] = {
    "/api/v1/targets": {"activeTargets": [TARGET]},
    "/api/v1/rules": {"groups": [{"rules": [RULE]}]},
    "/api/v1/alerts": {"alerts": [{"labels": {"alertname": "ServerDown"}, "state": "firing", "value": "0"}]},
    "/api/v1/query": {"result": [{"metric": {"ifName": "swp1"}, "value": [0, "11"]}]},
}


@pytest.fixture
def prometheus() -> Iterator[str]:
    """URL of a server that answers as Prometheus does; /api/v1/alerts refuses."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answer = {"status": "success", "data": ANSWERS[path]}
            if path.endswith("alerts"):
                answer = {"status": "error", "error": "too busy"}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def asked(request: dict[str, Any], program: str = FACTS) -> Any:
    """What the program prints, run as on the server: from standard input."""
    text = with_request(program, request)
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, timeout=30, check=True)
    return json.loads(done.stdout)


def test_parts_that_fail_are_named_and_the_others_still_come(prometheus, tmp_path):
    (tmp_path / "as-planned").write_text("a")
    (tmp_path / "edited").write_text("b")
    sha_a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"  # SHA-256 of "a"
    files = {str(tmp_path / name): sha_a for name in ("as-planned", "edited", "missing")}
    series = {"switch_sent": {"query": "x", "label": "ifName"}}
    answer = asked({"prometheus": prometheus, "queries": {"ports": "x"}, "series": series, "files": files})
    assert answer["errors"] == {"alerts": "RuntimeError: too busy"}
    facts = answer["facts"]
    assert facts["files_differing"] == [str(tmp_path / "edited"), str(tmp_path / "missing")]
    assert facts["queries"] == {"ports": [{"labels": {"ifName": "swp1"}, "value": 11.0}]}
    assert facts["series"] == {"switch_sent": {"": {"swp1": 11.0}}}
    assert facts["rules"][0] | {"error": ""} == {
        "alert": "ServerDown",
        "severity": "critical",
        "hold_s": 5,
        "runbook": "x.md",
        "health": "ok",
        "error": "",
    }
    assert [(one["job"], one["instance"], one["health"]) for one in facts["targets"]] == [("node", "gpu001", "up")]


def test_a_dead_prometheus_leaves_errors_and_no_hang():
    answer = asked({"prometheus": "http://127.0.0.1:9", "queries": {"ports": "x"}, "series": {}, "files": {}})
    assert set(answer["errors"]) == {"targets", "rules", "alerts", "query ports"}


def test_ages_are_read_from_nanosecond_stamps(monkeypatch):
    monkeypatch.setattr("validation.facts.telemetry_facts.time.time", lambda: 1795289699.3)
    assert telemetry_facts.age_s("2026-11-21T19:34:56.300107213Z") == pytest.approx(3.0, abs=0.01)


def test_fields_are_listed_per_gpu():
    rows = [{"labels": {"__name__": name, "UUID": "GPU-a", "instance": "gpu001"}, "value": 1} for name in ("B", "A")]
    assert by_gpu(rows) == {"GPU-a": {"instance": "gpu001", "fields": ["A", "B"]}}


def test_every_rule_has_a_device_of_its_own_in_a_drill():
    site = load_site("lab")
    rules = telemetry.load(site)
    request = drill_request(site, rules, 17)
    subjects = {one["subject"] for one in request["expect"].values()}
    assert len(subjects) == len(rules)
    for one in request["series"]:
        assert "drill" not in one["labels"].values()
        assert subjects & set(one["labels"].values()), one


def test_only_alerts_that_forget_in_time_are_waited_for():
    site = load_site("lab")
    expect = drill_request(site, telemetry.load(site), 17)["expect"]
    assert expect["SwitchPortDown"]["clears"]
    assert not expect["GpuUncorrectableEcc"]["clears"]  # it looks back over ten minutes


def notification(status: str, subject: str, alert: str = "SwitchPortDown") -> dict[str, Any]:
    return {"alerts": [{"status": status, "labels": {"alertname": alert, "severity": "warning", "instance": subject}}]}


def test_the_desk_counts_only_alerts_of_its_own_drill():
    desk = fire_drill.Desk({"SwitchPortDown": "drill-17-SwitchPortDown"})
    desk.take(notification("firing", "drill-16-SwitchPortDown"))
    desk.take(notification("firing", "drill-17-SwitchPortDown", alert="TargetUnplanned"))
    assert desk.fired == {}
    desk.take(notification("firing", "drill-17-SwitchPortDown"))
    desk.take(notification("resolved", "drill-17-SwitchPortDown"))
    assert set(desk.fired) == set(desk.resolved) == {"SwitchPortDown"}
    assert desk.severity == {"SwitchPortDown": "warning"}


def test_the_series_of_a_drill_follow_its_values():
    series = [{"name": "up", "labels": {"job": "node"}, "values": [0.0, 1.0], "step": 0.0}]
    assert fire_drill.metrics(series, 0) == '# TYPE up gauge\nup{job="node"} 0\n'
    assert fire_drill.metrics(series, 5) == '# TYPE up gauge\nup{job="node"} 1\n'


def test_a_drill_that_nobody_answers_says_so_and_leaves_no_series(tmp_path):
    site = load_site("lab")
    (rule,) = [replace(rule, hold_s=0) for rule in telemetry.load(site) if rule.alert == "GpuLost"]
    request = {
        **drill_request(site, (rule,), 17),
        "folder": str(tmp_path),
        "port": 0,
        "deliver_s": 0.5,
        "tests": "/none",
    }
    answer = asked(request, DRILL)
    assert answer["alerts"] == {"GpuLost": {"severity": "", "delivered_s": None, "cleared_s": None}}
    assert answer["unit_tests"]["status"] != 0
    assert list(Path(tmp_path).iterdir()) == []
