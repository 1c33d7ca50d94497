"""Alert rules: promtool's verdict on each, and that the verdict can be bad."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from capacity.services.telemetry import rules as alert_rules
from capacity.services.telemetry.rules import Series, load, records, rule_file, series, unit_tests
from inventory.paths import repo_root
from inventory.site import load_site
from inventory.site.sections.acceptance import Limit
from inventory.yaml_data import read_data

ALL = "lab-kubernetes"
"""Its rules are those of each site, and those of Kubernetes."""
SITES = (ALL, "h100-1000-ib")
LIMITS = read_data(repo_root() / "inventory" / "limits.yaml")


def promtool(folder: Path, rules, site) -> subprocess.CompletedProcess[str]:
    """`promtool test rules` on these rules and the unit tests of the site's own of the same names."""
    names = {rule.alert for rule in rules}
    own = tuple(rule for rule in load(site) if rule.alert in names)
    (folder / "rules.yml").write_text(yaml.safe_dump(rule_file(rules, site)))
    (folder / "tests.yml").write_text(yaml.safe_dump(unit_tests(own, site, "rules.yml")))
    return subprocess.run(
        ["promtool", "test", "rules", "tests.yml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("name", SITES)
def test_every_rule_fires_on_its_drill_and_only_then(tmp_path, name):
    site = load_site(name)
    done = promtool(tmp_path, load(site), site)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("promtool")
def test_a_rule_that_never_fires_fails_its_unit_test(tmp_path):
    site = load_site(ALL)
    dead = tuple(replace(rule, expr=f"({rule.expr}) and vector(1) > 2") for rule in load(site))
    said = promtool(tmp_path, dead, site).stderr
    assert set(re.findall(r"alertname: ?(\w+)", said)) == {rule.alert for rule in dead}


@pytest.mark.needs("promtool")
def test_a_rule_that_always_fires_fails_its_unit_test(tmp_path):
    site = load_site(ALL)
    restless = replace(load(site)[0], expr='up{job=~".+"} >= 0')
    assert promtool(tmp_path, (restless,), site).returncode != 0


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    ("name", "part", "other"),
    [
        ("bringup:gpu_seconds:used", "topk(1, ", "("),
        ("bringup:gpu_seconds:used", "account, user, resource", "account, resource"),
        ("bringup:gpu_seconds:used", "* sum", "* 2 * sum"),
        ("bringup:usage_seconds:observed", "group(", "count("),
    ],
)
def test_a_record_that_counts_otherwise_fails_its_unit_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, part: str, other: str
) -> None:
    site = load_site(ALL)
    (one,) = [record for record in records(site) if record.name == name]
    assert part in one.expr
    monkeypatch.setattr(alert_rules, "records", lambda site: (replace(one, expr=one.expr.replace(part, other)),))
    done = promtool(tmp_path, (), site)
    assert done.returncode != 0
    assert name in done.stderr


def test_gpu_time_is_recorded_on_sites_of_kubernetes_alone() -> None:
    assert [one.name for one in records(load_site(ALL))] == [
        "bringup:gpu_seconds:used",
        "bringup:usage_seconds:observed",
    ]
    assert records(load_site("lab")) == ()


@pytest.mark.parametrize("rule", load(load_site(ALL)), ids=lambda rule: rule.alert)
def test_every_alert_has_its_page_with_its_severity(rule):
    page = (repo_root() / rule.runbook).read_text()
    assert page.startswith(f"# {rule.alert}\n\nSeverity: {rule.severity}\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["Look", "Do"]


def test_every_page_has_its_alert():
    pages = {path.stem for path in (repo_root() / alert_rules.RUNBOOKS).glob("*.md")}
    assert pages == {rule.alert for rule in load(load_site(ALL))}


def test_there_are_rules_of_every_severity_and_names_are_unique():
    rules = load(load_site(ALL))
    assert {rule.severity for rule in rules} == {"critical", "warning", "info"}
    assert len({rule.alert for rule in rules}) == len(rules)


def test_rules_of_kubernetes_are_for_sites_that_have_it():
    more = {rule.alert for rule in load(load_site(ALL))} - {rule.alert for rule in load(load_site("lab"))}
    assert {"KubernetesComponentDown", "EtcdWithoutLeader", "CertificateEnds"} < more
    assert not {"ServerDown", "GpuMissing"} & more


def test_every_limit_of_the_rules_is_known_with_its_unit():
    data = yaml.safe_load(alert_rules.DATA.read_text())["limits"]
    assert {key: entry["unit"] for key, entry in data.items()} == {key: LIMITS[key]["unit"] for key in data}


def test_a_limit_of_the_site_goes_before_the_default():
    lab, other = load_site("lab"), load_site("h100-1000-ib")
    assert alert_rules.interval_s(lab) == lab.limits["telemetry_interval_s"].value
    assert alert_rules.limit(other, "port_errors_per_s") == Limit(
        **yaml.safe_load(alert_rules.DATA.read_text())["limits"]["port_errors_per_s"]
    )


def test_an_alert_names_its_limits_and_their_sources():
    (rule,) = [rule for rule in load(load_site("lab")) if rule.alert == "InbandLatency"]
    one = load_site("lab").limits["inband_latency_ms"]
    assert rule.annotations["limit"] == f"inband_latency_ms {one.value:g} ms ({one.source})"


def test_the_last_value_of_a_series_goes_on_and_grows_by_its_step():
    assert [series('x{a="b"} 0 1', 5).at(n) for n in range(4)] == [0, 1, 1, 1]
    assert [series('x{a="b"} 0+<200/s>', 5).at(n) for n in range(3)] == [0, 1000, 2000]
    assert [series('x{a="b"} -7', 5).at(n) for n in range(2)] == [-7, -7]


def test_the_notation_of_series_is_read_whole():
    assert series('up{job="node",instance="drill"} 0', 5) == Series(
        "up", {"job": "node", "instance": "drill"}, (0.0,), 0.0
    )
    with pytest.raises(ValueError, match="expected name"):
        series("up 0", 5)


@pytest.mark.parametrize(("seconds", "text"), [(5.0, "5s"), (4.5, "4500ms"), (86400.0, "86400s")])
def test_durations_are_whole_numbers(seconds, text):
    assert alert_rules.duration(seconds) == text
