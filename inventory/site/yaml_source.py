"""YAML text -> plain values plus the line and column of every key and value.

Stricter than YAML 1.1 where YAML surprises people: duplicate keys, anchors and aliases, merge keys, several documents,
explicit tags and non-text keys are problems, not features. Sequences become tuples, so that values stay immutable.
Pure: text in, Document out; every fault of the text is a Problem, never an exception.
"""

import contextlib
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from inventory.yaml_data import LOADER

Path = tuple[str | int, ...]

PLAIN_TAGS = {
    f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "timestamp", "str", "map", "seq", "merge")
}
ALIAS = "an alias"
MAX_DEPTH = 32

_READ_DIFFERENTLY = re.compile(r"[\t?!\x85\u2028\u2029\ufeff]|[|>][-+0-9]*#")
"""What libyaml and PyYAML do not read alike everywhere: PyYAML alone reads a text that has it."""
_LIBYAML_DEPTH = 4000
"""libyaml's composer recurses on the C stack, where no RecursionError ends it; deeper texts are left to PyYAML."""


@dataclass(frozen=True)
class Mark:
    """A place in the text, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Problem:
    """One fault of a site file, in the words of the person who has to correct it.

    ``path`` is the key path, ``what`` the fault in a few words, ``found`` what the file says, ``expected`` what it
    should say, ``nearest`` the nearest valid key or value if there is one, ``do`` the way out, ``paste`` lines for the file.
    """

    path: Path
    what: str
    found: str = ""
    expected: str = ""
    do: str = ""
    nearest: str = ""
    mark: Mark | None = None
    paste: str = ""


@dataclass
class Document:
    """A parsed file. ``value`` is None where the text could not be parsed; then ``problems`` says why."""

    value: Any = None
    keys: dict[Path, Mark] = field(default_factory=dict)
    values: dict[Path, Mark] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def mark(self, path: Path) -> Mark | None:
        """The place of a key path; of its nearest parent where the path itself is not in the file."""
        while path:
            if path in self.keys:
                return self.keys[path]
            if path in self.values:
                return self.values[path]
            path = path[:-1]
        return None


def parse(text: str) -> Document:
    """Parse one YAML document."""
    document = Document()
    try:
        nodes = _nodes(text)
    except yaml.MarkedYAMLError as error:
        document.problems.append(_syntax_problem(error, text))
        return document
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
        document.problems.append(
            Problem(
                (),
                "a character that YAML does not allow",
                f"U+{error.character:04X}",
                "printable text",
                "delete the character",
                mark=mark,
            )
        )
        return document
    except RecursionError:
        document.problems.append(Problem((), "too deeply nested", "", f"at most {MAX_DEPTH} levels", "flatten it"))
        return document
    if len(nodes) > 1:
        document.problems.append(
            Problem(
                (),
                "more than one YAML document",
                "a second '---'",
                "one document per file",
                "delete the line '---' or move the second part to a file of its own",
                mark=_mark(nodes[1]),
            )
        )
        return document
    if nodes:
        document.value = _Builder(document, _tags(text)).build(nodes[0], ())
        if "&" in text and not any(problem.what == ALIAS for problem in document.problems):
            document.problems += _anchors(text)
    return document


def _anchors(text: str) -> list[Problem]:
    """A problem for each anchor, of a text that could be parsed and has no alias."""
    return [
        Problem(
            (),
            "an anchor",
            f"&{event.anchor}",
            "values written out",
            f"delete &{event.anchor}; site files use no anchors",
            mark=Mark(event.start_mark.line + 1, event.start_mark.column + 1),
        )
        for event in yaml.parse(text, Loader=yaml.SafeLoader)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None and event.start_mark is not None
    ]


_EVENTS = {ScalarNode: yaml.ScalarEvent, MappingNode: yaml.MappingStartEvent, SequenceNode: yaml.SequenceStartEvent}
Tags = Mapping[tuple[type, int], str]
"""Tags that are written in a text, by the kind of event and its place: a node that is composed has a tag in any case."""


def _tags(text: str) -> Tags:
    """The explicit tags of a text that could be parsed. `!!int` before nothing has a value that no constructor can make."""
    if "!" not in text:
        return {}
    return {
        (type(event), event.start_mark.index): event.tag
        for event in yaml.parse(text, Loader=yaml.SafeLoader)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        and event.tag is not None
        and event.start_mark is not None
    }


def _nodes(text: str) -> list[Node]:
    """Documents of a text. libyaml reads a sound one in a fourteenth of the time; PyYAML names the faults of others."""
    deepest = text.count("[") + text.count("{") + 2 * max(map(len, text.split("\n")))
    if deepest <= _LIBYAML_DEPTH and not _READ_DIFFERENTLY.search(text):
        with contextlib.suppress(yaml.YAMLError, UnicodeError):
            if len(nodes := list(yaml.compose_all(text, Loader=LOADER))) < 2:
                return nodes
    return list(yaml.compose_all(text, Loader=yaml.SafeLoader))


def _mark(node: Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    place = error.problem_mark or error.context_mark
    mark = Mark(place.line + 1, place.column + 1) if place else None
    lines = text.splitlines()
    line = lines[mark.line - 1] if mark and mark.line <= len(lines) else ""
    why = str(error.problem or error.context or "cannot be read")
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in why:
        return Problem(
            (),
            "a tab in the indentation",
            "a tab character",
            "spaces (two per level)",
            "replace the tab by spaces; most editors have a setting for it",
            mark=mark,
        )
    if isinstance(error, yaml.composer.ComposerError) and "alias" in why:
        return Problem(
            (),
            "an alias without its anchor",
            why,
            "values written out",
            "write the value out; site files use no anchors",
            mark=mark,
        )
    if "mapping values are not allowed" in why:
        do = "put the text in double quotes if it holds a colon, or correct the indentation of the line"
    elif "could not find expected ':'" in why:
        do = "write 'key: value', with a space after the colon"
    elif "found unexpected end of stream" in why:
        do = "close the quotation mark"
    elif "expected ',' or" in why:
        do = "close the bracket, or put a comma between the items"
    elif "expected <block end>" in why:
        do = "correct the indentation: keys of one level start in the same column"
    elif "cannot start any token" in why:
        do = "put the text in double quotes: it starts with a character that means something in YAML"
    else:
        do = "correct the YAML at this place"
    context = f"{error.context}: " if error.context and error.context != why else ""
    if context and error.context_mark and place and error.context_mark.line != place.line:
        context = f"{error.context} that starts in line {error.context_mark.line + 1}: "
    return Problem((), "not valid YAML", f"{context}{why}", "YAML", do, mark=mark)


class _Builder:
    """Turns nodes into values and notes where each came from."""

    def __init__(self, document: Document, tags: Tags) -> None:
        self.document = document
        self.tags = tags
        self.constructor = SafeConstructor()
        self.seen: set[int] = set()

    def problem(self, path: Path, mark: Mark, what: str, found: str, expected: str, do: str) -> None:
        self.document.problems.append(Problem(path, what, found, expected, do, mark=mark))

    def build(self, node: Node, path: Path) -> Any:
        mark = _mark(node)
        self.document.values[path] = mark
        if id(node) in self.seen:
            here = self.document.keys.get(path, mark)  # the node's own mark is that of the anchor
            self.problem(
                path, here, ALIAS, "*alias", "values written out", "write the value out; site files use no anchors"
            )
            return None
        self.seen.add(id(node))
        if len(path) > MAX_DEPTH:
            self.problem(path[:4], mark, "too deeply nested", "", f"at most {MAX_DEPTH} levels", "flatten it")
            return None
        tag = self._tag(node)
        if tag is not None:
            self._tagged(path, mark, tag)
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return tuple(self.build(item, (*path, i)) for i, item in enumerate(node.value))
        assert isinstance(node, ScalarNode)
        self.document.texts[path] = node.value
        return self._scalar(node, path, mark)

    def _tag(self, node: Node) -> str | None:
        """The tag that is written before a node, or one that no plain value has; None where it has none of either."""
        written = self.tags.get((_EVENTS[type(node)], node.start_mark.index))
        return written if written is not None or node.tag in PLAIN_TAGS else node.tag

    def _tagged(self, path: Path, mark: Mark, tag: str) -> None:
        shown = tag.removeprefix("tag:yaml.org,2002:")
        self.problem(path, mark, "an explicit YAML tag", shown, "a plain value", "delete the tag (the word after '!')")

    def _scalar(self, node: ScalarNode, path: Path, mark: Mark) -> Any:
        if node.tag == "tag:yaml.org,2002:int" and ":" in node.value:
            self.problem(
                path,
                mark,
                "a number in base 60",
                node.value,
                "a decimal number, or text in quotes",
                f'write "{node.value}" in quotes if text is meant (YAML 1.1 reads a:b as base 60)',
            )
            return None
        try:
            return self.constructor.construct_object(node)
        except (ValueError, yaml.YAMLError) as error:
            expected = "a date that exists, as YYYY-MM-DD" if "timestamp" in node.tag else "a valid value"
            self.problem(path, mark, "a value that cannot be read", node.value, expected, f"correct the value: {error}")
            return None

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            mark = _mark(key_node)
            tag = self._tag(key_node)
            if tag is not None and isinstance(key_node, ScalarNode):
                self._tagged((*path, key_node.value), mark, tag)
                continue
            key: Hashable = self._key(key_node)
            if key == "<<":
                self.problem(path, mark, "a merge key", "<<", "values written out", "write the values out")
                continue
            if key is None:
                self.problem(
                    path,
                    mark,
                    "a key that is not text",
                    _shown(key_node),
                    "a plain key such as 'name:'",
                    "put the key in quotes or correct it",
                )
                continue
            name = str(key)
            here = (*path, name)
            if name in result:
                first = self.document.keys[here]
                self.problem(
                    here,
                    mark,
                    "a duplicate key",
                    f"{name}, first given in line {first.line}",
                    "each key once",
                    "keep one of the two and delete the other",
                )
                continue
            self.document.keys[here] = mark
            result[name] = self.build(value_node, here)
        return result

    def _key(self, node: Node) -> str | None:
        if not isinstance(node, ScalarNode):
            return None
        if node.tag == "tag:yaml.org,2002:merge":
            return "<<"
        return node.value if node.tag in PLAIN_TAGS and node.tag != "tag:yaml.org,2002:null" else None


def _shown(node: Node) -> str:
    return str(node.value)[:40] if isinstance(node, ScalarNode) else "a list or mapping"
