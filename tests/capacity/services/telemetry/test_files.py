"""Targets, the plan as metrics, and the configuration files of the telemetry servers."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacity.build import build
from capacity.model import Plan
from capacity.services import telemetry
from inventory.site import load_site
from tests.plans import plan_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def test_every_server_switch_and_pdu_is_asked_once(plan):
    targets = telemetry.targets(plan)
    devices = plan.devices
    for job, wanted in {
        "node": devices[devices["kind"] == "server"],
        "gpu": devices[devices["role"] == "gpu"],
        "switch": devices[(devices["kind"] == "switch") & (devices["fabric"] == "inband")],
        "pdu": devices[devices["kind"] == "pdu"],
        "inband": devices[(devices["kind"] == "server") | (devices["fabric"] == "inband")],
    }.items():
        assert sorted(targets.loc[targets["job"] == job, "instance"]) == sorted(wanted["name"]), job


def test_targets_carry_the_labels_of_their_place(plan):
    targets = {(row["job"], row["instance"]): row for row in telemetry.targets(plan).to_dict("records")}
    gpu = targets["node", "gpu003"]
    assert (gpu["role"], gpu["rack"], gpu["unit"], gpu["rail"], gpu["model"]) == ("gpu", "r02", "0", "", "lab-gpu-node")
    assert targets["pdu", "pdu-r02-b"]["feed"] == "B"
    assert targets["node", "ctl01"]["unit"] == ""


def test_a_site_without_management_nodes_asks_only_what_its_controller_reaches():
    site = load_site("lab")
    others = tuple(node for node in site.service_nodes if node.role != "management")
    fabric = site.fabric.model_copy(update={"subnet_managers": ("controller",)})
    plan = build(site.model_copy(update={"service_nodes": others, "fabric": fabric}))
    assert telemetry.servers(plan) == ["ctl01"]
    assert set(telemetry.targets(plan)["job"]) == {"node", "gpu", "inband"}


def test_all_management_nodes_of_a_large_site_are_telemetry_servers():
    assert len(telemetry.servers(plan_of("h100-1000-ib"))) == 2


def test_planned_ports_name_both_ends_of_every_in_band_cable(plan):
    ports = telemetry.ports(plan)
    inband = plan.cables[plan.cables["fabric"] == "inband"]
    to_switches = inband["b_device"].isin(ports["instance"]).sum() + inband["a_device"].isin(ports["instance"]).sum()
    assert len(ports) == to_switches
    far = {(row["instance"], row["ifName"]): (row["far"], row["far_port"]) for row in ports.to_dict("records")}
    assert far[far["leaf01", "swp1"]] == ("leaf01", "swp1")


def test_the_plan_as_metrics_counts_what_the_plan_has(plan):
    lines = [line for line in telemetry.planned(plan, telemetry.targets(plan)).splitlines() if not line.startswith("#")]
    count = {
        name: sum(line.startswith(f"{name}{{") for line in lines)
        for name in ("bringup_planned_target", "bringup_planned_outlet", "bringup_planned_gpus")
    }
    assert count == {
        "bringup_planned_target": len(telemetry.targets(plan)),
        "bringup_planned_outlet": int((plan.outlets["device"] != "").sum()),
        "bringup_planned_gpus": int((plan.devices["role"] == "gpu").sum()),
    }


def test_target_files_hold_every_target_with_its_device_name(plan):
    files = telemetry.files(plan)
    seen = {
        (path.rsplit("/", 1)[1].removesuffix(".json"), group["labels"]["instance"], *group["targets"])
        for path, text in files.items()
        if path.endswith(".json")
        for group in json.loads(text)
    }
    assert seen == set(telemetry.targets(plan)[["job", "instance", "address"]].itertuples(index=False, name=None))


@pytest.mark.needs("promtool")
def test_prometheus_takes_its_configuration(plan, tmp_path):
    for path, text in telemetry.files(plan).items():
        place = tmp_path / Path(path).relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("/etc/", f"{tmp_path}/etc/"))
    configuration = tmp_path / "etc/prometheus/prometheus.yml"
    done = subprocess.run(
        ["promtool", "check", "config", str(configuration)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_holds_a_secret_or_its_reference(plan):
    said = json.dumps(
        [
            telemetry.files(plan),
            telemetry.snmp.modules(plan.site),
            telemetry.snmp.auth(plan.site),
            telemetry.alertmanager(plan.site),
        ]
    )
    credentials = plan.site.credentials
    assert credentials.alerts
    for reference in (credentials.snmp.auth, credentials.snmp.priv, credentials.alerts.webhook):
        assert reference not in said
    assert "password" not in said


def test_the_snmp_modules_ask_the_objects_that_the_pdu_driver_reads(plan):
    metrics = {one["name"]: one for one in telemetry.snmp.modules(plan.site)["pdu"]["metrics"]}
    assert metrics["rPDU2OutletSwitchedStatusState"]["oid"] == "1.3.6.1.4.1.318.1.1.26.9.2.3.1.5"
    assert metrics["rPDU2OutletSwitchedStatusState"]["indexes"] == [{"labelname": "outlet", "type": "gauge"}]


def receivers(settings: dict[str, Any], labels: dict[str, str]) -> list[str]:
    """Who is told of an alert with these labels: Alertmanager's routing, first match unless `continue`."""
    told = []
    for route in settings["route"]["routes"]:
        found = [re.fullmatch(r'(\w+)(=~|!~)"(.*)"', matcher) for matcher in route.get("matchers", [])]
        hits = [bool(re.fullmatch(one[3], labels.get(one[1], ""))) is (one[2] == "=~") for one in found if one]
        if all(hits):
            told.append(route["receiver"])
            if not route.get("continue"):
                break
    return told


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ({"alertname": "ServerDown", "instance": "gpu001", "rack": "r01"}, ["site"]),
        ({"alertname": "ServerDown", "instance": "drill-1-ServerDown"}, ["drill", "site"]),
        ({"alertname": "GpuUncorrectableEcc", "instance": "drill-1-GpuUncorrectableEcc"}, ["drill-events", "site"]),
        ({"alertname": "RackFeedLost", "rack": "drill-1-RackFeedLost"}, ["drill-racks", "site"]),
    ],
)
def test_every_alert_reaches_the_site_and_drills_their_listener_too(plan, labels, wanted):
    assert receivers(telemetry.alertmanager(plan.site), labels) == wanted


def test_the_listener_of_drills_is_not_told_what_clears_long_after_them(plan):
    told = {one["name"]: one.get("webhook_configs") for one in telemetry.alertmanager(plan.site)["receivers"]}
    assert [told[name][0]["send_resolved"] for name in ("drill", "drill-racks", "drill-events")] == [True, True, False]


def test_without_a_webhook_alerts_are_kept_and_not_sent():
    site = load_site("lab")
    without = site.model_copy(update={"credentials_given": site.credentials.model_copy(update={"alerts": None})})
    (receiver,) = [one for one in telemetry.alertmanager(without)["receivers"] if one["name"] == "site"]
    assert "webhook_configs" not in receiver


def test_a_scrape_ends_before_the_next_is_due(plan):
    settings = yaml.safe_load(telemetry.files(plan)["/etc/prometheus/prometheus.yml"])["global"]
    assert settings["scrape_interval"] == "5s"
    assert settings["scrape_timeout"] == "4500ms"


@pytest.mark.parametrize("name", ["lab", "b200-256-roce"])
def test_lists_of_targets_are_written_as_json_writes_them(name):
    plan = plan_of(name)
    for path, text in telemetry.files(plan).items():
        if path.endswith(".json"):
            assert text == json.dumps(json.loads(text), indent=1) + "\n", path
