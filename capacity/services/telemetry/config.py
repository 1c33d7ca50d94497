"""Configuration files of the telemetry servers, by path: plain data from the plan, written as YAML or JSON.

Prometheus asks its targets through file_sd, so that a new device is no restart; `instance` is the device's name in the plan.
Secrets are not here: the SNMP exporter's login and the webhook's URL are added by the roles that write those files.
"""

import functools
import json
from typing import Any

import pandas as pd
import yaml

from capacity.model import Plan
from capacity.services.telemetry import rules, snmp, targets
from capacity.services.telemetry.planned import planned
from capacity.services.telemetry.targets import PORTS
from inventory.site import Site

ETC = "/etc/prometheus"
TARGETS = f"{ETC}/targets"
RULES = f"{ETC}/rules.yml"
RULE_TESTS = f"{ETC}/rules_test.yml"
METRICS = "/var/lib/bringup/metrics"
"""Folder of the textfile collector whose series keep the labels that they bring: the plan, and fire drills."""
SCRAPE_SHARE = 0.9
"""A scrape ends before the next one is due."""
DRILL_PORT = 9099
"""Where a fire drill listens on the telemetry server itself, for as long as it lasts."""
SLOW_JOBS = {"pdu": 3}
"""Jobs that are asked in every n-th interval only: loads change slowly, and rack PDUs take a second to answer a walk."""
DRILL = "drill"
"""Instances of fire drills begin with this."""
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's where PyYAML has it: eight times as fast."""
LABELS = ("role", "rack", "unit", "rail", "feed", "model")


def files(plan: Plan, asked: pd.DataFrame | None = None) -> dict[str, str]:
    """Every file without secrets that a telemetry server has, by absolute path. `asked`: the targets of the plan, where they are at
    hand.
    """
    site, loaded = plan.site, rules.load(plan.site)
    asked = targets.targets(plan) if asked is None else asked
    by_job = {str(job): rows for job, rows in asked.groupby("job", sort=False)}
    return {
        RULES: _yaml(rules.rule_file(loaded, site)),
        RULE_TESTS: _yaml(rules.unit_tests(loaded, site, RULES)),
        **{f"{TARGETS}/{job}.json": _file_sd(rows) for job, rows in by_job.items()},
        f"{ETC}/blackbox.yml": _yaml(BLACKBOX),
        f"{METRICS}/plan.prom": planned(plan, asked),
        f"{ETC}/prometheus.yml": _yaml(prometheus(plan, asked)),  # last: its validator reads the others
    }


BLACKBOX = {"modules": {"icmp": {"prober": "icmp", "timeout": "2s", "icmp": {"preferred_ip_protocol": "ip4"}}}}


def prometheus(plan: Plan, asked: pd.DataFrame) -> dict[str, Any]:
    """prometheus.yml."""
    interval = rules.interval_s(plan.site)
    jobs = asked["job"].unique().tolist()
    own = {"prometheus": PORTS["prometheus"], "alertmanager": PORTS["alertmanager"]}
    scrape = [
        *({"job_name": job, **_slow(job, interval), **_through_exporter(job), **_discovered(job)} for job in jobs),
        *({"job_name": job, "static_configs": [_own(port)]} for job, port in own.items()),
        # The series of the plan and of fire drills name their instance themselves.
        {"job_name": "plan", "honor_labels": True, "static_configs": [_own(PORTS["plan"])]},
    ]
    return {
        "global": {
            "scrape_interval": rules.duration(interval),
            "scrape_timeout": rules.duration(SCRAPE_SHARE * interval),
            "evaluation_interval": rules.duration(interval),
            "external_labels": {"site": plan.site.name},
        },
        "rule_files": [RULES],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{PORTS['alertmanager']}"]}]}]},
        "scrape_configs": scrape,
    }


def slowest_interval_s(site: Site) -> float:
    """Seconds within which Prometheus asks each target once."""
    return max(1, *SLOW_JOBS.values()) * rules.interval_s(site)


def _slow(job: str, interval_s: float) -> dict[str, str]:
    return {"scrape_interval": rules.duration(SLOW_JOBS[job] * interval_s)} if job in SLOW_JOBS else {}


def _own(port: int) -> dict[str, Any]:
    return {"targets": [f"127.0.0.1:{port}"]}


def _discovered(job: str) -> dict[str, Any]:
    return {"file_sd_configs": [{"files": [f"{TARGETS}/{job}.json"]}]}


def _through_exporter(job: str) -> dict[str, Any]:
    """For jobs whose targets are asked by an exporter here: the target becomes a parameter of the exporter's address."""
    exporter, path, module = {
        "switch": ("snmp", "/snmp", snmp.SWITCH),
        "pdu": ("snmp", "/snmp", snmp.PDU),
        "inband": ("blackbox", "/probe", "icmp"),
    }.get(job, ("", "", ""))
    if not exporter:
        return {}
    return {
        "metrics_path": path,
        "params": {"module": [module]},
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__param_target"},
            {"target_label": "__address__", "replacement": f"127.0.0.1:{PORTS[exporter]}"},
        ],
    }


def _file_sd(rows: pd.DataFrame) -> str:
    """Targets with their labels, as json.dumps writes them with indent=1; its own writer is too slow for thousands of them."""
    quoted = functools.lru_cache(None)(json.dumps)
    columns = [rows[name].tolist() for name in ("address", "instance", *LABELS)]
    groups = []
    for address, instance, *others in zip(*columns, strict=True):
        labels = [("instance", instance), *(pair for pair in zip(LABELS, others, strict=True) if pair[1])]
        shown = ",\n".join(f'   "{key}": {quoted(value)}' for key, value in labels)
        groups.append(f' {{\n  "targets": [\n   {quoted(address)}\n  ],\n  "labels": {{\n{shown}\n  }}\n }}')
    return "[\n" + ",\n".join(groups) + "\n]\n" if groups else "[]\n"


def alertmanager(site: Site) -> dict[str, Any]:
    """alertmanager.yml but for the webhook's URL (`receivers[0].webhook_configs[0].url`), which is a secret.

    Alerts of one name and rack travel together. Fire drills (instances or racks `drill-…`) go to a listener on this server as
    well, which is gone when alerts clear that remember an event for long: of these it is not told.
    """
    slow = "|".join(rule.alert for rule in rules.load(site) if not clears_in_a_drill(rule, site))
    subject = f'instance=~"{DRILL}-.*"'
    drills = {
        "drill-events": [subject, f'alertname=~"{slow}"'],
        "drill": [subject, f'alertname!~"{slow}"'],
        "drill-racks": [f'rack=~"{DRILL}-.*"'],
    }
    listener = {"url": f"http://127.0.0.1:{DRILL_PORT}/"}
    return {
        "route": {
            "receiver": "site",
            "group_by": ["alertname", "rack"],
            "group_wait": "1s",
            "group_interval": rules.duration(rules.interval_s(site)),
            "repeat_interval": "4h",
            "routes": [
                *({"receiver": name, "matchers": matchers, "continue": True} for name, matchers in drills.items()),
                {"receiver": "site"},
            ],
        },
        "receivers": [
            {"name": "site", **({"webhook_configs": [{"send_resolved": True}]} if site.credentials.alerts else {})},
            *(
                {"name": name, "webhook_configs": [{**listener, "send_resolved": name != "drill-events"}]}
                for name in drills
            ),
        ],
    }


def clears_in_a_drill(rule: rules.Rule, site: Site) -> bool:
    """Whether an alert clears soon enough after its cause that a fire drill can wait for it."""
    return rule.memory_s <= float(rules.limit(site, "alert_delivery_s").value) / 2


def _yaml(data: Any) -> str:
    return "# Written by Ansible from the site's plan.\n" + yaml.dump(data, Dumper=DUMPER, sort_keys=False, width=120)
