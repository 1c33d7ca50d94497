"""Telemetry on the standing lab: faults of devices raise their alerts, which reach the on-call webhook and clear."""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from capacity.services import telemetry
from infra import lab
from infra.lab.paths import LabPaths
from tests.standing import Standing
from validation.facts.gather import address_book
from validation.facts.telemetry import reads

pytestmark = pytest.mark.lab

Alert = tuple[str, str]


@pytest.fixture(autouse=True)
def repaired(standing: Standing) -> Iterator[None]:
    """Whatever a test did, the next one finds a lab without faults."""
    yield
    lab.repair(standing.name)


def firing(standing: Standing) -> set[Alert]:
    """(alert, instance or rack) of every alert that fires now, drills aside."""
    data, _ = reads(standing.plan, address_book(standing.plan))["mgm01"]()
    return {
        (alert["labels"]["alertname"], alert["labels"].get("instance") or alert["labels"].get("rack", ""))
        for alert in data["alerts"]
        if alert["state"] == "firing" and not alert["labels"].get("instance", "").startswith(telemetry.DRILL)
    }


def on_call(standing: Standing, since: float) -> set[tuple[str, str, str]]:
    """(alert, instance or rack, status) of everything that the webhook of the lab has taken since a time."""
    path = LabPaths(standing.name).alerts
    notifications = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {
        (labels["alertname"], labels.get("instance") or labels.get("rack", ""), alert["status"])
        for notification in notifications
        if notification["received"] >= since
        for alert in notification["alerts"]
        for labels in [alert["labels"]]
    }


def in_time(standing: Standing, true: Callable[[], bool]) -> bool:
    """Whether it comes true within limits.alert_delivery_s."""
    end = time.monotonic() + float(standing.site.limits["alert_delivery_s"].value)
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(1)
    return True


FAULTS: list[tuple[str, list[str], set[Alert]]] = [
    ("link-down", ["leaf01:swp1"], {("SwitchPortDown", "leaf01"), ("SwitchPortDown", "spine01")}),
    ("feed-lost", ["r02", "B"], {("RackFeedLost", "r02"), ("PduDown", "pdu-r02-b")}),
    (
        "node-power-lost",
        ["gpu002"],
        {("ServerDown", "gpu002"), ("OutletOff", "pdu-r01-a"), ("OutletOff", "pdu-r01-b")},
    ),
]


@pytest.fixture(scope="module")
def notified(standing: Standing) -> dict[str, set[tuple[str, str, str]]]:
    """What the webhook took after all FAULTS had been injected at once ("firing") and after their repair ("resolved")."""
    alerts = {alert for _, _, own in FAULTS for alert in own}
    assert in_time(standing, lambda: not alerts & firing(standing)), firing(standing)
    began = time.time()
    for fault, arguments, _ in FAULTS:
        lab.fault(standing.name, fault, arguments)
    in_time(standing, lambda: {(*alert, "firing") for alert in alerts} <= on_call(standing, began))
    repaired_at = time.time()
    sent = on_call(standing, began)
    lab.repair(standing.name)
    in_time(standing, lambda: {(*alert, "resolved") for alert in alerts} <= on_call(standing, repaired_at))
    return {"firing": sent, "resolved": on_call(standing, repaired_at)}


@pytest.mark.parametrize(("fault", "arguments", "alerts"), FAULTS)
def test_a_fault_raises_its_alerts_on_call_in_time_and_repair_clears_them(
    notified: dict[str, set[tuple[str, str, str]]], fault: str, arguments: list[str], alerts: set[Alert]
):
    for status, seen in notified.items():
        assert {(*alert, status) for alert in alerts} <= seen, (fault, status)


@pytest.mark.soak
@pytest.mark.parametrize(("fault", "arguments", "alerts"), FAULTS)
def test_a_fault_alone_raises_its_alerts_on_call_in_time_and_repair_clears_them(
    standing: Standing, fault: str, arguments: list[str], alerts: set[Alert]
):
    assert in_time(standing, lambda: not alerts & firing(standing)), firing(standing)
    began = time.time()
    lab.fault(standing.name, fault, arguments)
    sent = {(*alert, "firing") for alert in alerts}
    assert in_time(standing, lambda: sent <= on_call(standing, began)), (
        sent - on_call(standing, began),
        firing(standing),
    )
    repaired_at = time.time()
    lab.repair(standing.name)
    cleared = {(*alert, "resolved") for alert in alerts}
    assert in_time(standing, lambda: cleared <= on_call(standing, repaired_at)), (
        cleared - on_call(standing, repaired_at),
        firing(standing),
    )


def test_the_passphrases_are_read_by_root_and_the_exporter_alone(standing: Standing):
    paths = LabPaths(standing.name)
    listed = standing.shell("mgm01", "stat -c '%a %U %G %n' /etc/prometheus/snmp.yml /etc/prometheus/alertmanager.yml")
    assert [line.split()[:3] for line in listed.splitlines()] == [["640", "root", "prometheus"]] * 2
    assert standing.first is not None
    for secret in ("snmp_auth", "snmp_priv", "alert_webhook"):
        assert paths.secret(secret) not in standing.first.output
        assert paths.secret(secret) not in standing.shell("mgm01", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_telemetry_listens_on_no_network_but_the_exporters_on_the_provisioning_one(standing: Standing):
    listening = standing.shell("mgm01", "ss -Hltn | awk '{print $4}'").split()
    ports = {address.rpartition(":")[2]: address.rpartition(":")[0] for address in listening}
    for name in ("prometheus", "alertmanager", "plan", "blackbox", "snmp"):
        assert ports[str(telemetry.PORTS[name])] == "127.0.0.1", name
    assert ports[str(telemetry.PORTS["node"])].startswith("10.")
