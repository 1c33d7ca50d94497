"""Telemetry from the plan: what is asked, how it is judged, and the files that Prometheus and its companions read.

    targets(plan)        every exporter and device that is asked, with its labels
    planned(plan, …)     the plan as metrics, so that rules compare what is seen with what should be
    rules.load(site)     alert rules with the site's limits; rules.unit_tests for promtool
    files(plan)          configuration files by path, for the servers of role `management`

Pure: no file but the data beside the code, no network. No file here holds a secret.
"""

from capacity.services.telemetry import snmp
from capacity.services.telemetry.config import (
    DRILL,
    DRILL_PORT,
    METRICS,
    RULE_TESTS,
    SLOW_JOBS,
    alertmanager,
    clears_in_a_drill,
    files,
    slowest_interval_s,
)
from capacity.services.telemetry.planned import planned, ports
from capacity.services.telemetry.rules import Record, Rule, interval_s, limit, load, records
from capacity.services.telemetry.targets import PORTS, servers, targets

__all__ = [
    "DRILL",
    "DRILL_PORT",
    "METRICS",
    "PORTS",
    "RULE_TESTS",
    "SLOW_JOBS",
    "Record",
    "Rule",
    "alertmanager",
    "clears_in_a_drill",
    "files",
    "interval_s",
    "limit",
    "load",
    "planned",
    "ports",
    "records",
    "servers",
    "slowest_interval_s",
    "snmp",
    "targets",
]
