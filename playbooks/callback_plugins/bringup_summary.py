"""Ansible callback: one JSON file per run, from which validation proves that a second run changes nothing (S143).

Out: <var>/<site>/ansible/<start, UTC>-<pid>.json with schema_version, site, plan_hash, playbook, check_mode, limit,
     started, ended, hosts {name: {ok, changed, failed, unreachable, skipped}},
     changes [{host, role, task, handler, paths, actions}] and failures [{host, role, task, message}].
     Results of `no_log` tasks arrive here already censored.
"""

import datetime
import json
import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.executor.stats import AggregateStats
from ansible.executor.task_result import CallbackTaskResult
from ansible.playbook import Playbook
from ansible.playbook.handler import Handler
from ansible.playbook.play import Play
from ansible.plugins.callback import CallbackBase

from inventory.paths import var_dir

DOCUMENTATION = r"""
name: bringup_summary
type: aggregate
short_description: Summary of a run as JSON
description:
  - Writes one file per run below the site's output folder.
"""

SCHEMA_VERSION = 1


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def changed_paths(result: dict[str, Any]) -> list[str]:
    """Files that a task result names as changed; empty for tasks that change no file."""
    paths = result.get("paths")
    if isinstance(paths, list):
        return [str(path) for path in paths]
    single = result.get("dest") or result.get("path")
    return [str(single)] if single else []


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "bringup_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.started = utc_now()
        self.playbook = ""
        self.site: dict[str, str] = {}
        self.changes: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        self.playbook = str(playbook._file_name)

    def v2_playbook_on_play_start(self, play: Play) -> None:
        if self.site:
            return
        variables = play.get_variable_manager().get_vars(play=play)
        hostvars = variables.get("hostvars", {})
        for name in hostvars:
            site = hostvars[name].get("bringup_site")
            if site:
                self.site = {"site": str(site), "plan_hash": str(hostvars[name]["bringup_plan_hash"])}
                return

    def where(self, result: CallbackTaskResult) -> dict[str, Any]:
        role = result.task._role
        return {
            "host": result.host.get_name(),
            "role": role.get_name() if role else "",
            "task": result.task.name or result.task.action,
        }

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        if result.result.get("changed"):
            handler = isinstance(result.task, Handler)
            found = dict(result.result)
            actions = [*found.get("actions", []), *found.get("installed", [])]
            self.changes.append(
                {**self.where(result), "handler": handler, "paths": changed_paths(found), "actions": actions}
            )

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self.failures.append({**self.where(result), "message": str(result.result.get("msg", ""))})

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        self.failures.append({**self.where(result), "message": str(result.result.get("msg", ""))})

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        if not self.site:
            return  # not one of our inventories: there is no folder to write to
        hosts = {}
        for name in sorted(stats.processed):
            counts = stats.summarize(name)
            counts["failed"] = counts.pop("failures")
            hosts[name] = counts
        folder = var_dir(self.site["site"]) / "ansible"
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{self.started:%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.json"
        self.write(
            target,
            {
                "schema_version": SCHEMA_VERSION,
                **self.site,
                "playbook": self.playbook,
                "check_mode": bool(context.CLIARGS.get("check")),
                "limit": context.CLIARGS.get("subset"),
                "started": self.started.isoformat(),
                "ended": utc_now().isoformat(),
                "hosts": hosts,
                "changes": self.changes,
                "failures": self.failures,
            },
        )
        self._display.display(f"summary: {target}")

    @staticmethod
    def write(target: Path, summary: dict[str, Any]) -> None:
        partial = target.with_suffix(".part")
        partial.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        partial.replace(target)
