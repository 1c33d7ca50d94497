"""A Pulumi stack in a folder of its own, whose program declares objects of Kubernetes and whose provider is ours."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.paths import repo_root
from tests.pulumi_cli import call, kubernetes_environment

CALL_S = 240
PROJECT = """\
name: contract
runtime:
  name: python
  options: {{toolchain: pip, virtualenv: {venv}}}
options:
  refresh: always
"""


@dataclass(frozen=True)
class Outcome:
    """What one call of `pulumi` said."""

    status: int
    text: str

    def of(self, resource: str) -> str:
        """What it said about one resource, in the diagnostics at its end."""
        said = self.text.partition("Diagnostics:")[2]
        found = re.search(rf"\({re.escape(resource)}\):\n(.*?)(?:\n\n|\Z)", said, re.S)
        return found[1] if found else ""

    @property
    def counts(self) -> dict[str, int]:
        """{"created": 3, "unchanged": 2} of its summary; the stack itself and the provider's configuration count as well."""
        summary = self.text.partition("Resources:")[2]
        return {
            what: int(count)
            for count, what in re.findall(r"(\d+) (created|updated|replaced|deleted|unchanged)", summary)
        }


class Stack:
    """`pulumi` in a folder; its state is there as well."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        (folder / "Pulumi.yaml").write_text(PROJECT.format(venv=repo_root() / ".venv"))
        shutil.copy(Path(__file__).parent / "program.py", folder / "__main__.py")
        self.environment = kubernetes_environment(folder) | {"KUBECONFIG_OF_TEST": str(kubeconfig)}
        assert self.run("stack", "init", "test").status == 0

    def declare(self, objects: Sequence[dict[str, Any]]) -> None:
        (self.folder / "objects.json").write_text(json.dumps(list(objects)))

    def up(self, *more: str) -> Outcome:
        return self.run("up", "--yes", "--skip-preview", *more)

    def preview(self) -> dict[str, dict[str, Any]]:
        """{resource: its step} of those that would change, by the engine's JSON."""
        done = self.run("preview", "--json")
        assert done.status == 0, done.text
        steps = json.loads(done.text[done.text.index("{") :])["steps"]
        return {
            step["urn"].rpartition("::")[2]: step for step in steps if step["op"] not in ("same", "refresh", "read")
        }

    def run(self, *words: str) -> Outcome:
        stack = ["-s", "test"] if words[0] != "stack" else []
        command = ["pulumi", *words, "--non-interactive", "--color=never", *stack]
        return Outcome(*call(command, self.folder, self.environment, CALL_S))
