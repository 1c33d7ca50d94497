"""The registry of findings: complete, in step with the code, and the source of docs/findings.md."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from capacity.procurement.programme import RULES
from inventory.findings_page import markdown
from inventory.findings_registry import FINDINGS_FILE, current, nearest, registry
from inventory.paths import repo_root
from inventory.site import json_schema

LAYERS = ("inventory", "network", "capacity", "validation", "infra")
ID = re.compile(r"[A-Z]{2,}(-[A-Z0-9]+)+")
NO_FINDINGS = {
    *("AES-192", "AES-256", "GO-LIVE", "SHA-1", "SHA-256", "SIM-0000-000", "SIM-OTHER-0001", "SITE-FILE", "UTF-8"),
    *("YYYY-MM-DD", "IMPORT-ENERGY", "POWER-BRAKE", "ROW-REMAP"),
}
"""Texts of code that look like the id of a finding."""

MADE_OF_PARTS = {
    *("GPU-POWER-BRAKE", "GPU-THERMAL"),  # validation/gpu_health.py
    *(f"SCHEDULE-RULE-{name}" for name, *_ in RULES),  # capacity/procurement/programme.py
}
"""Ids that the code puts together."""


def texts_of_code() -> dict[str, list[str]]:
    """Every whole string of the product that looks like the id of a finding, with the files that have it."""
    found: dict[str, list[str]] = {}
    for layer in LAYERS:
        for path in sorted((repo_root() / layer).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and ID.fullmatch(node.value):
                    found.setdefault(node.value, []).append(str(Path(path).relative_to(repo_root())))
    return {id_: paths for id_, paths in found.items() if id_ not in NO_FINDINGS and not id_.startswith("ERR-")}


def test_every_finding_of_the_code_is_in_the_registry() -> None:
    assert {id_: paths for id_, paths in texts_of_code().items() if id_ not in registry()} == {}


def test_every_entry_of_the_registry_occurs_in_the_code() -> None:
    assert sorted(set(registry()) - set(texts_of_code()) - MADE_OF_PARTS) == []
    assert set(registry()) >= MADE_OF_PARTS


def test_the_page_is_that_of_the_registry() -> None:
    page = (repo_root() / "docs" / "findings.md").read_text(encoding="utf-8")
    assert page == markdown(), "run: python -m inventory.findings_page"


def test_no_entry_stands_twice() -> None:
    ids = re.findall(r"^([A-Z][A-Z0-9-]+):", FINDINGS_FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(ids) == len(set(ids)) == len(registry())


@pytest.mark.parametrize("id_", sorted(registry()))
def test_related_steps_and_errors_are_written_alike(id_: str) -> None:
    entry = registry()[id_]
    assert [one for one in entry.related if not re.fullmatch(r"S\d{3}|ERR-\d{2}|RC-\d{3}\w?|SYS-\d{2}", one)] == []
    assert not entry.title.endswith(".")


def test_an_unknown_id_has_a_nearest_one() -> None:
    assert current("POWER-FEED-LOS") is None
    assert nearest("POWER-FEED-LOS")[0] == "POWER-FEED-LOSS"


def test_site_keys_of_findings_exist() -> None:
    schema = json_schema()
    wrong = {(id_, key) for id_, entry in registry().items() for key in entry.keys if not leads_somewhere(schema, key)}
    assert wrong == set()


def leads_somewhere(schema: dict[str, Any], key: str) -> bool:
    """Whether `key` (`power.rack_pdu.model`) is a key of the site file."""
    nodes = [schema]
    for name in key.split("."):
        nodes = [child for node in nodes for one in expanded(schema, node) for child in children(one, name)]
    return bool(nodes)


def expanded(schema: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """The node with what it refers to, each alternative by itself, and the items of a list."""
    if "$ref" in node:
        return expanded(schema, schema["$defs"][node["$ref"].rsplit("/", 1)[1]])
    parts = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
    parts += [node["items"]] if isinstance(node.get("items"), dict) else []
    return [node, *(one for part in parts for one in expanded(schema, part))]


def children(node: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """What stands under a name: a property, or any name where the node is a mapping."""
    if name in node.get("properties", {}):
        return [node["properties"][name]]
    more = [node.get("additionalProperties"), *node.get("patternProperties", {}).values()]
    return [one for one in more if isinstance(one, dict)]
