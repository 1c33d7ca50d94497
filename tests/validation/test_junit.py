"""The verdict as JUnit XML, and the CI jobs of docs/ci: their YAML parses and every command in them exists."""

import argparse
import shlex
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from infra.cli import parser
from inventory.paths import repo_root
from validation import plugin
from validation.junit import junit_of

CI_FILES = sorted((repo_root() / "docs" / "ci").glob("*.yml"))
BASE: dict[str, Any] = {"site": "lab", "judged": "2026-11-25T00:00:00+00:00", "verdict": "NO GO-LIVE", "exit_code": 1}


def item(status: str, detail: str = "why") -> dict[str, str]:
    return {"id": f"S001.{status}", "status": status, "detail": detail}


def failed(data: dict[str, Any]) -> list[str]:
    return [case.attrib["name"] for case in ET.fromstring(junit_of(data)) if case.find("failure") is not None]


def test_only_what_counts_passes_and_what_does_not_apply_is_skipped():
    statuses = ("fail", "missing", "stale", "unproven", "simulated", "assumed", "partial", "waived", "pass")
    data = {**BASE, "items": [item(status) for status in (*statuses, "not_applicable")], "reasons": ["1 item failed"]}
    assert failed(data) == [*(f"S001.{status}" for status in statuses[:-2]), "verdict"]
    suite = ET.fromstring(junit_of(data))
    assert {key: suite.attrib[key] for key in ("tests", "failures", "skipped")} == {
        "tests": "11",
        "failures": "8",
        "skipped": "1",
    }


def test_a_rehearsal_fails_on_what_fails_it():
    items = [item(status) for status in ("missing", "simulated", "partial", "pass", "not_exercised")]
    assert failed({**BASE, "rehearsal": True, "items": items}) == ["S001.missing", "verdict"]


def test_broken_evidence_is_a_failed_case():
    data = {**BASE, "verdict": "EVIDENCE BROKEN", "exit_code": 2, "broken": ["tail cut"]}
    (case,) = ET.fromstring(junit_of(data))
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "EVIDENCE BROKEN: tail cut"


def test_what_xml_has_no_place_for_is_replaced():
    data = {**BASE, "exit_code": 0, "items": [item("fail", "\x1b[2J\x00 <b>&\ud800")]}
    failure = ET.fromstring(junit_of(data))[0].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "fail: \ufffd[2J\ufffd <b>&\ufffd"


def plugin_options() -> list[str]:
    """Options that the plugin of the checks adds to pytest."""
    names: list[str] = []

    class Group:
        def addoption(self, name: str, **rest: object) -> None:
            names.append(name)

    class Parser:
        def getgroup(self, name: str) -> Group:
            return Group()

    plugin.pytest_addoption(cast(pytest.Parser, Parser()))
    return names


def commands(found: object) -> list[str]:
    """Every command line of a CI file: texts below run, script and after_script."""
    if isinstance(found, list):
        return [line for one in found for line in commands(one)]
    if not isinstance(found, dict):
        return []
    lines: list[str] = []
    for key, value in found.items():
        if key in ("run", "script", "after_script"):
            lines += value if isinstance(value, list) else value.splitlines()
        else:
            lines += commands(value)
    return lines


@pytest.mark.parametrize("path", CI_FILES, ids=lambda path: path.stem)
def test_the_shell_can_read_every_line_of_a_ci_job(path: Path):
    script = "\n".join(commands(yaml.safe_load(path.read_text())))
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", CI_FILES, ids=lambda path: path.stem)
def test_every_command_of_a_ci_job_exists(path: Path):
    lines = commands(yaml.safe_load(path.read_text()))
    programs = [shlex.split(line)[0] for line in lines]
    assert {"bringup", "pytest"} <= set(programs) <= {"bringup", "pytest", "cp"}
    asked = argparse.ArgumentParser(exit_on_error=False)
    for option in plugin_options():
        asked.add_argument(option)
    asked.add_argument("--junitxml")
    asked.add_argument("folder")
    for line in lines:
        program, *words = shlex.split(line)
        if program == "bringup":
            parser().parse_args(words)
        elif program == "pytest":
            asked.parse_args(words)
