"""The registry of findings: complete, in step with the code, and the source of docs/findings.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from capacity.procurement.programme import RULES
from inventory.findings_page import markdown
from inventory.findings_registry import FINDINGS_FILE, Entry, current, nearest, registry
from inventory.paths import repo_root
from inventory.site import json_schema
from tests.inventory import remedies_in_code

LAYERS = ("inventory", "network", "capacity", "validation", "infra")
ID = re.compile(r"[A-Z]{2,}(-[A-Z0-9]+)+")
NO_FINDINGS = {
    *("AES-192", "AES-256", "GO-LIVE", "SHA-1", "SHA-256", "SIM-0000-000", "SIM-OTHER-0001", "SITE-FILE", "UTF-8"),
    *("YYYY-MM-DD", "IMPORT-ENERGY"),
}
"""Texts of code that look like the id of a finding."""

MADE_OF_PARTS = {
    *(f"SCHEDULE-RULE-{name}" for name, *_ in RULES),  # capacity/procurement/programme.py
}
"""Ids that the code puts together."""


@cache
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


@cache
def calls() -> dict[str, list[tuple[str, ast.Call]]]:
    """Every call of `finding` of the product, with its file, by id; those whose id is no literal are under ""."""
    found: dict[str, list[tuple[str, ast.Call]]] = {}
    for path, node in calls_of("finding"):
        first = node.args[0]
        id_ = first.value if isinstance(first, ast.Constant) else ""
        found.setdefault(str(id_), []).append((path, node))
    return found


def calls_of(name: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a function of this name in the product, with its file. Files that lack the name are not parsed."""
    for layer in LAYERS:
        for path in sorted((repo_root() / layer).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if f"{name}(" in text else ():
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                    yield str(path.relative_to(repo_root())), node


def test_no_message_stands_in_code() -> None:
    """Findings are made by `finding`, which has their words from the registry."""
    assert {path for path, _ in calls_of("Finding")} == {"inventory/findings.py"}


def fields(text: str) -> set[str]:
    """The names that a text of the registry is filled with."""
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(text) if name is not None}


def named_words(call: ast.Call) -> set[str] | None:
    """The names that a call gives values for; None where it puts them together in a variable."""
    given = {"subject", "limit", "limit_source"}
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        if keyword.arg not in ("words", "more_numbers"):
            given.add(keyword.arg)
        elif isinstance(keyword.value, ast.Dict) and all(isinstance(key, ast.Constant) for key in keyword.value.keys):
            given |= {str(key.value) for key in keyword.value.keys if isinstance(key, ast.Constant)}
        else:
            return None
    return given


def calls_of_entries() -> Iterator[tuple[Entry, str, ast.Call]]:
    """Each call of `finding` whose id is a literal of the registry, with its entry and file."""
    return ((registry()[id_], path, call) for id_, made in calls().items() if id_ in registry() for path, call in made)


def test_calls_fill_the_sentences_of_their_case() -> None:
    wrong = []
    for entry, path, call in calls_of_entries():
        cases = [k.value for k in call.keywords if k.arg == "case"]
        if cases and not isinstance(cases[0], ast.Constant):
            continue
        case = str(cases[0].value) if cases and isinstance(cases[0], ast.Constant) else ""
        given = named_words(call)
        if case not in entry.message:
            wrong.append(f"{path}:{call.lineno}: no message {case!r} in findings.yaml")
        elif given is not None and (missing := fields(entry.message[case]) - given):
            wrong.append(f"{path}:{call.lineno}: no value for {', '.join(sorted(missing))}")
    assert wrong == []


def fixes(call: ast.Call) -> list[tuple[str, ast.Call]]:
    """The remedies in the arguments of a call of `finding` whose fix is a literal: its name, the call of `remedy`."""
    remedies = [
        node
        for keyword in call.keywords
        for node in ast.walk(keyword.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "remedy"
    ]
    return [
        (str(keyword.value.value), one)
        for one in remedies
        for keyword in one.keywords
        if keyword.arg == "fix" and isinstance(keyword.value, ast.Constant)
    ]


def test_remedies_name_fixes_of_their_finding_and_fill_them() -> None:
    wrong = []
    for entry, path, call in calls_of_entries():
        words = named_words(call)
        for name, one in fixes(call):
            own = {keyword.arg for keyword in one.keywords}
            if name not in entry.fixes:
                wrong.append(f"{path}:{one.lineno}: no fix {name!r} in findings.yaml")
            elif words is None or None in own:
                continue
            elif missing := fields(entry.fixes[name]) - words - own - {"settings"}:
                wrong.append(f"{path}:{one.lineno}: no value for {', '.join(sorted(missing))}")
    assert wrong == []


@pytest.mark.parametrize("id_", sorted(id_ for id_, entry in registry().items() if entry.message))
def test_sentences_and_fixes_are_written_alike(id_: str) -> None:
    entry = registry()[id_]
    for text in entry.message.values():
        assert re.fullmatch(r"[A-Z{0-9].*[.}]", text), text
        assert "Fix:" not in text
    assert [text for text in entry.fixes.values() if text.endswith(".")] == []
    assert entry.keys or entry.no_site_key, "keys that influence it, or no_site_key: why none resolves it"


LEAST_WITH_REMEDY_PCT = 95
"""Share of the findings which a site file can raise that carry remedies: docs/findings.md lists the others."""


def test_findings_that_a_site_file_can_raise_carry_remedies_and_the_others_say_why() -> None:
    raised, with_remedies = remedies_in_code.raised(), remedies_in_code.with_remedies()
    said = {id_ for id_ in raised if registry()[id_].no_remedy}
    assert len(raised) > 100
    assert raised - with_remedies == said
    assert 100 * len(with_remedies) >= LEAST_WITH_REMEDY_PCT * len(raised)


def test_remedies_without_a_value_of_a_site_key_say_why() -> None:
    """A reason stands in findings.yaml exactly where no call makes a remedy of site keys."""
    in_words = remedies_in_code.with_remedies() - remedies_in_code.with_values()
    said = {id_ for id_, entry in registry().items() if entry.in_words}
    assert in_words == said


def test_findings_of_devices_and_imports_that_site_keys_influence_carry_remedies() -> None:
    others = {entry.id for entry in registry().values() if entry.keys} - remedies_in_code.raised()
    without = {id_ for id_ in others if registry()[id_].no_remedy}
    made = {
        id_: any(keyword.arg in ("remedies", None) for _, call in calls().get(id_, ()) for keyword in call.keywords)
        for id_ in others
    }
    assert {id_ for id_, some in made.items() if not some and calls().get(id_)} <= without
    assert {id_ for id_ in without if made[id_]} == set()
