"""What is wrong with a site file, in words: where, what was found and expected, the nearest valid key, the way out.

One Problem per fault; ``render`` puts all of a file's problems in one message. A value under ``credentials``, or of a
key whose name says secret, is never shown.
"""

import datetime
import difflib
import re
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from inventory.site.values import (
    LOGIN_CLAIM,
    LOGIN_GROUP,
    LOGIN_ISSUER,
    REPOSITORY_COMPONENT,
    REPOSITORY_NAME,
    REPOSITORY_SUITE,
    REPOSITORY_URL,
    WITHOUT_HOST_BITS,
    Section,
)
from inventory.site.yaml_source import Document, Path, Problem

WIDTH = 120
MISSING = "a mandatory key is missing"
NEAR = 0.6
"""How alike a known word is at least for `nearest` to name it (difflib's ratio and its usual bound)."""
UNKNOWN_KEY = "an unknown key"
LOGIN = re.compile(r"://[^/\s]*@")
"""User and perhaps password in a URL, which are never shown."""
SECRET_KEYS = re.compile(r"passw|secret|token|passphrase|private", re.IGNORECASE)

OPEN_KEYS = {"user", "ca", "known_hosts", "auth_protocol", "priv_protocol"}
# Words that people use for a value which has another name here.
SYNONYMS = {
    "infiniband": "ib",
    "ethernet": "roce",
    "rocev2": "roce",
    "water": "liquid",
    "dlc": "liquid",
    "nvme": "pcie",
    "hgx": "sxm",
    "usa": "nec",
    "eu": "iec",
    "cumulus": "frr",
    "sha": "SHA1",
    "aes": "AES128",
}
# Patterns of the schema in words.
FORMS = {
    r"^[A-Z]$": "one capital letter, such as A",
    r"^\d+\+\d+$": 'needed + spare, such as "4+2"',
    r"^[a-z0-9][-a-z0-9_]*$": "lower-case letters, digits, hyphens and underscores",
    r"^D(0\d|1[0-4])$": "a dependency group, D00 to D14",
    r"^[A-Z]{3}$": "a currency code of three capital letters, such as USD",
    REPOSITORY_NAME: "lower-case letters, digits and hyphens, at most 41",
    REPOSITORY_SUITE: "a suite, such as noble, or a folder with a slash at its end, such as ./",
    REPOSITORY_COMPONENT: "a component, such as main",
    LOGIN_ISSUER: "https://HOST, with a port and a path where the issuer has them, without login, query and spaces",
    LOGIN_CLAIM: "the name of a claim, such as preferred_username",
    LOGIN_GROUP: "the name of a group, in letters, digits, spaces and . _ : / @ -",
    REPOSITORY_URL: "https://HOST/PATH, http://HOST/PATH or file:///PATH, without login, spaces or quotes",
    r"^[a-z][a-z0-9-]{0,30}$": "lower-case letters, digits and hyphens, at most 31, starting with a letter",
}

UNITS = {
    "_w": "watts",
    "_kw": "kilowatts",
    "_kva": "kilovolt-amperes",
    "_mva": "megavolt-amperes",
    "_v": "volts",
    "_a": "amperes",
    "_m": "metres",
    "_m2": "square metres",
    "_kg_m2": "kilograms per square metre",
    "_u": "rack units",
    "_c": "degrees Celsius",
    "_s": "seconds",
    "_min": "minutes",
    "_ms": "milliseconds",
    "_pb": "petabytes",
    "_gbps": "gigabits per second",
    "_kg": "kilograms",
    "_pct": "percent",
    "_weeks": "weeks",
}
# Units that people write into values or keys: factor to the base unit of the family.
SCALES: dict[str, tuple[str, float]] = {
    "w": ("power", 1.0),
    "kw": ("power", 1e3),
    "mw": ("power", 1e6),
    "kva": ("apparent power", 1e3),
    "mva": ("apparent power", 1e6),
    "v": ("voltage", 1.0),
    "kv": ("voltage", 1e3),
    "a": ("current", 1.0),
    "ka": ("current", 1e3),
    "mm": ("length", 1e-3),
    "cm": ("length", 1e-2),
    "m": ("length", 1.0),
    "km": ("length", 1e3),
    "ft": ("length", 0.3048),
    "ms": ("time", 1e-3),
    "s": ("time", 1.0),
    "min": ("time", 60.0),
    "h": ("time", 3600.0),
    "days": ("time", 86400.0),
    "weeks": ("time", 604800.0),
    "months": ("time", 2629800.0),
    "tb": ("bytes", 1e12),
    "pb": ("bytes", 1e15),
    "gb": ("bytes", 1e9),
    "mbps": ("rate", 1e-3),
    "gbps": ("rate", 1.0),
    "tbps": ("rate", 1e3),
    "gb/s": ("rate", 8.0),
    "g": ("mass", 1e-3),
    "kg": ("mass", 1.0),
    "t": ("mass", 1e3),
    "lb": ("mass", 0.45359237),
    "lbs": ("mass", 0.45359237),
    "c": ("temperature", 1.0),
    "pct": ("share", 1.0),
    "%": ("share", 1.0),
}


def render(shown_path: str, problems: Iterable[Problem]) -> str:
    """The whole message: a head line with the count, then one block per problem."""
    listed = list(problems)
    head = f"{shown_path}: {len(listed)} {'error' if len(listed) == 1 else 'errors'}"
    return "\n\n".join([head, *(_block(shown_path, problem) for problem in listed)])


def _block(shown_path: str, problem: Problem) -> str:
    place = f"{shown_path}:{problem.mark.line}:{problem.mark.column}" if problem.mark else shown_path
    key = f" {dotted(problem.path)}:" if problem.path else ""
    lines = [f"{place}:{key} {problem.what}"]
    for label, text in (
        ("found", problem.found),
        ("expected", problem.expected),
        ("nearest", problem.nearest),
        ("do", problem.do),
    ):
        if text:
            lines += textwrap.wrap(
                text,
                WIDTH,
                initial_indent=f"  {label + ':':<10}",
                subsequent_indent=" " * 12,
                break_long_words=False,
                break_on_hyphens=False,
            )
    if problem.paste:
        lines += ["  paste:", "", problem.paste.strip("\n")]  # as it goes into the file: from the first column
    return "\n".join(lines)


def dotted(path: Path) -> str:
    """``server.psu.count``, ``service_nodes[0].role``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def ordered(problems: Iterable[Problem], document: Document) -> list[Problem]:
    """Problems with their place filled in, in the order of the file, each said once."""
    placed: dict[tuple[Path, str], Problem] = {}
    for problem in problems:
        mark = problem.mark or document.mark(problem.path)
        key = (problem.path, problem.what)
        placed.setdefault(key, Problem(**{**problem.__dict__, "mark": mark}))
    last = (1 << 30, 0)
    return sorted(placed.values(), key=lambda p: (p.mark.line, p.mark.column) if p.mark else last)


def unknown_site(name: str, known: list[str]) -> Problem:
    """No shipped site of that name."""
    return Problem(
        (),
        "no such site",
        name,
        f"one of {', '.join(known)}, or the path of a site.yaml",
        "give a shipped site's name, or the path of your own site file",
        nearest=nearest(name, known),
    )


def no_such_file(path: object) -> Problem:
    """The path leads to no file."""
    return Problem((), "no such file", str(path), "a site.yaml, or a folder that holds one", "correct the path")


def unreadable(reason: str) -> Problem:
    """The operating system refused to read the file."""
    return Problem((), "cannot be read", reason, "a readable text file", "check the path and its permissions")


def unusable_accepted(reason: str) -> Problem:
    """The accepted state beside the site file is broken."""
    return Problem((), "an accepted state that cannot be used", reason, "the folder as bringup accept wrote it", "")


def not_utf8(raw: bytes, error: UnicodeDecodeError) -> Problem:
    """The file is not UTF-8 text."""
    line = raw[: error.start].count(b"\n") + 1
    return Problem(
        (), f"not UTF-8 text (line {line})", f"byte 0x{raw[error.start]:02x}", "UTF-8", "save the file as UTF-8"
    )


def not_a_mapping(value: object) -> Problem:
    """The top level is not a mapping."""
    found = "an empty file" if value is None else shown(value)
    return Problem(
        (),
        "not a site file",
        found,
        "keys such as 'name:' and 'server:' at the top level",
        "bringup new NAME writes a site file of a few lines",
    )


def _likeness(word: str, known: str) -> float:
    """How alike two words are, 0 to 1: the whole of both, or `word` and as many parts of `known` from its beginning."""
    begin = "-".join(known.split("-")[: word.count("-") + 1])
    matcher = difflib.SequenceMatcher(b=word)
    found = 0.0
    for other in {known, begin}:
        matcher.set_seq1(other)
        if matcher.real_quick_ratio() > found and matcher.quick_ratio() > found:
            found = max(found, matcher.ratio())
    return found


def nearest(word: str, known: Iterable[str]) -> str:
    """The nearest of some known words, '' if none is near. One that has all parts of the word goes first: h200 is
    nvidia-h200-sxm5-141gb. A word is also held against the beginning of longer names: nvidia-h1000 is nvidia-h100-sxm5-80gb.
    """
    candidates = list(known)
    parts = set(word.lower().split("-"))
    having = [one for one in candidates if parts <= set(one.lower().split("-"))]
    if len(having) == 1:
        return having[0]
    likeness = {one: _likeness(word.lower(), one.lower()) for one in candidates}
    best = max(candidates, key=lambda one: (likeness[one], one), default="")
    if best and likeness[best] >= NEAR:
        return best
    stem = word.lower().rsplit("_", 1)[0]
    same_stem = [c for c in candidates if c.rsplit("_", 1)[0] == stem]
    return same_stem[0] if same_stem else ""


def shown(value: object) -> str:
    """A value as the user knows it, short."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = LOGIN.sub("://(not shown)@", value)
        text = text if len(text) <= 60 else text[:57] + "..."
        return f'the text "{text}"'
    if isinstance(value, datetime.date):
        return f"the date {value.isoformat()}"
    if isinstance(value, (tuple, list)):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"a mapping ({', '.join(list(map(str, value))[:4])})" if value else "an empty mapping"
    return str(value)


def is_secret(path: Path) -> bool:
    """Whether the value at a path must not be shown."""
    if path and path[0] == "credentials":
        return path[-1] not in OPEN_KEYS
    return any(SECRET_KEYS.search(str(part)) for part in path)


def from_validation(
    error: ValidationError, model: type[BaseModel], document: Document, value: Any = None
) -> Iterator[Problem]:
    """The problems behind pydantic's errors, in this project's words. `value` is what was validated, where the file says less."""
    unreadable_paths = {problem.path for problem in document.problems}
    details = error.errors()
    # A list of which every item is wrong also counts as too short: its items say it better.
    details = [d for d in details if d["type"] != "too_short" or not _has_errors_below(d["loc"], details)]
    problems = [_from_detail(detail, model, document, value) for detail in details]
    renamed = {(p.path[:-1], p.nearest) for p in problems if p.what == UNKNOWN_KEY}
    seen: set[Path] = set()
    for problem in problems:
        if problem.path in seen or problem.path in unreadable_paths:
            continue  # a union reports each of its branches; a value that YAML could not read is already reported
        if problem.what == MISSING and any(
            (problem.path[:n], str(part)) in renamed for n, part in enumerate(problem.path)
        ):
            continue  # an unknown key is this key, or a section above it, misspelt
        seen.add(problem.path)
        yield problem


def _from_detail(detail: ErrorDetails, model: type[BaseModel], document: Document, whole: Any) -> Problem:
    path = tuple(part for part in detail["loc"] if part != "[key]")
    # A union's errors carry the branch's name behind the key; the file knows only the key.
    while path and not (_is_there(document, path) or _stands_in(whole, path)) and detail["type"] != "missing":
        path = path[:-1]
    kind = detail["type"]
    value = detail["input"]
    parent = _model_at(model, path[:-1])
    annotation, meaning = _at(model, path)
    found = "a value that is not shown" if is_secret(path) and not isinstance(value, (dict, tuple)) else shown(value)
    if kind == "missing":
        return _missing(path, meaning)
    if value is None:
        return Problem(path, "a key without its value", found, meaning or "a value", "write the value after the colon")
    if kind == "extra_forbidden":
        return _unknown_key(path, parent, value, model)
    if kind == "literal_error":
        return _not_one_of(path, detail, found, annotation)
    if kind in {"value_error"}:
        expected = str(detail["ctx"]["error"]) if "ctx" in detail else detail["msg"]
        return Problem(path, "not a valid value", found, expected, _way_out(path, expected, meaning))
    if detail["loc"] and detail["loc"][-1] == "[key]":
        return Problem(path, "not a valid key", str(path[-1]), _constraint(detail), "rename the key")
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        keys = ", ".join(_keys(_model_at(model, path))) or "keys and values"
        return Problem(path, "not a mapping", found, f"a mapping with {keys}", "write the keys below, indented")
    if kind == "tuple_type":
        return Problem(path, "not a list", found, f"a list: {meaning}", "write it as [a, b] or with '- ' lines")
    if kind in {
        "float_type",
        "int_type",
        "int_from_float",
        "bool_type",
        "string_type",
        "date_type",
        "date_from_datetime_inexact",
    }:
        return _wrong_type(path, kind, value, found, meaning)
    return Problem(
        path, "an impossible value", found, _constraint(detail), _remedy(path, meaning) + _other_unit(detail)
    )


POWER_UNITS = {"kw": ("MW", "W"), "kva": ("MVA", "VA"), "mw": ("GW", "kW"), "mva": ("GVA", "kVA")}
"""Units of keys of power, and the next larger and smaller one: a factor of 1,000."""


def _other_unit(detail: ErrorDetails) -> str:
    """What to write where a power out of its bounds is within them as a figure in the next unit."""
    units = POWER_UNITS.get(str(detail["loc"][-1]).rpartition("_")[2])
    context, value = detail.get("ctx", {}), detail["input"]
    if units is None or isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    least, most = context.get("ge", context.get("gt")), context.get("le", context.get("lt"))
    if least is not None and value > 0 and value * 1000 >= least:
        return f" Write {value * 1000:g} if {shown(value)} {units[0]} is meant."
    if most is not None and value / 1000 <= most:
        return f" Write {value / 1000:g} if {shown(value)} {units[1]} is meant."
    return ""


def _is_there(document: Document, path: Path) -> bool:
    return path in document.keys or path in document.values


def _stands_in(value: Any, path: Path) -> bool:
    """Whether nested values have something at a path."""
    for step in path:
        entries = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, tuple) else {}
        if step not in entries:
            return False
        value = entries[step]
    return True


def _has_errors_below(location: Path, details: list[ErrorDetails]) -> bool:
    return any(d["loc"][: len(location)] == location and len(d["loc"]) > len(location) for d in details)


def _missing(path: Path, meaning: str) -> Problem:
    if isinstance(path[-1], int):
        return Problem(path[:-1], "a list that is too short", f"{path[-1]} items", meaning, "add what is missing")
    where = f" in {dotted(path[:-1])}" if len(path) > 1 else " at the top level"
    return Problem(path, MISSING, "", meaning or "the key", f"add '{path[-1]}:'{where}")


def _unknown_key(path: Path, parent: type[BaseModel] | None, value: object, model: type[BaseModel]) -> Problem:
    key, known = str(path[-1]), _keys(parent)
    near = nearest(key, known)
    do = f"rename the key to {near}" if near else "delete the key"
    converted = _convert_key(key, near, value)
    if converted:
        do += f" and write {converted}"
    if not near:
        elsewhere = [p for p in _all_keys(model) if p[-1] == key]
        if elsewhere:
            do = f"move it: this key belongs to {dotted(elsewhere[0][:-1]) or 'the top level'}"
    return Problem(path, UNKNOWN_KEY, key, f"one of {', '.join(known)}", do, nearest=near)


def _convert_key(key: str, near: str, value: object) -> str:
    """'8400 (watts)' for measured_kw: 8.4 in place of measured_w."""
    if not near or isinstance(value, bool) or not isinstance(value, (int, float)) or "_" not in key or "_" not in near:
        return ""
    have, want = SCALES.get(key.rsplit("_", 1)[1]), SCALES.get(near.rsplit("_", 1)[1])
    if not have or not want or have[0] != want[0] or have == want:
        return ""
    return f"{value * have[1] / want[1]:.10g} ({unit_of(near)})"


def unit_of(key: str) -> str:
    """'watts' for measured_w; '' for a key without a unit."""
    hits = [suffix for suffix in UNITS if key.endswith(suffix)]
    return UNITS[max(hits, key=len)] if hits else ""


def _not_one_of(path: Path, detail: ErrorDetails, found: str, annotation: Any) -> Problem:
    choices = _choices(annotation)
    if len(choices) == 1:
        return Problem(path, "not the possible value", found, str(choices[0]), f"write {choices[0]}")
    expected = ", ".join(str(c) for c in choices) if choices else str(detail.get("ctx", {}).get("expected", ""))
    value = detail["input"]
    near = nearest(str(value), [str(c) for c in choices])
    synonym = SYNONYMS.get(str(value).lower())
    if synonym in choices:
        near = str(synonym)
    by_text = {str(c): c for c in choices}
    if isinstance(value, str) and value in by_text:
        do = f"write {value} without quotes"
    elif near:
        do = f"write {near}"
    else:
        do = "choose one of the values above"
    return Problem(path, "not one of the possible values", found, f"one of {expected}", do, nearest=near)


def _wrong_type(path: Path, kind: str, value: object, found: str, meaning: str) -> Problem:
    key = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
    unit = unit_of(key)
    if kind in {"float_type", "int_type", "int_from_float"}:
        expected = "a whole number" if kind != "float_type" else "a number"
        expected += f" of {unit}, without its unit" if unit else ""
        do = f"write the bare number; the unit ({unit}) stands in the key" if unit else _remedy(path, meaning)
        number = _number_with_unit(value, key)
        if number:
            do = f"write {number}; the unit ({unit}) stands in the key"
        elif unit and isinstance(value, str) and NUMBER_WITH_UNIT.fullmatch(value):
            do = f"write how many {unit} that is, as a bare number"
        elif isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?", value):
            do = f"write {value} without quotes"
        elif isinstance(value, str) and re.fullmatch(r"\d+,\d+", value):
            do = f"write {value.replace(',', '.')} with a decimal point"
        return Problem(path, "not a whole number" if isinstance(value, float) else "not a number", found, expected, do)
    if kind == "bool_type":
        return Problem(
            path, "not true or false", found, f"true or false: {meaning}", "write true or false without quotes"
        )
    if kind == "string_type":
        return Problem(path, "not text", found, "text", "put it in double quotes")
    return Problem(
        path, "not a date", found, f"a date as YYYY-MM-DD: {meaning}", "write it as 2027-12-01, without quotes"
    )


NUMBER_WITH_UNIT = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)\s*([A-Za-z/%]+)\s*")


def _number_with_unit(value: object, key: str) -> str:
    """'8400' for the text '8.4 kW' at a key in watts; '' if it cannot be converted."""
    if not isinstance(value, str):
        return ""
    match = NUMBER_WITH_UNIT.fullmatch(value)
    suffix = key.rsplit("_", 1)[-1]
    if not match or suffix not in SCALES:
        return ""
    have, want = SCALES.get(match[2].lower()), SCALES[suffix]
    if not have or have[0] != want[0]:
        return ""
    return f"{float(match[1]) * have[1] / want[1]:.10g}"


def _constraint(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    kind = detail["type"]
    texts = {
        "greater_than": "more than {gt}",
        "greater_than_equal": "at least {ge}",
        "less_than": "less than {lt}",
        "less_than_equal": "at most {le}",
        "multiple_of": "a multiple of {multiple_of}",
        "finite_number": "a finite number",
        "string_too_short": "text that is not empty",
        "too_short": "at least {min_length} items",
        "too_long": "at most {max_length} items",
        "string_pattern_mismatch": "text of the form {pattern}",
    }
    if kind == "string_pattern_mismatch" and context["pattern"] in FORMS:
        return FORMS[context["pattern"]]
    template = texts.get(kind)
    text = template.format(**context) if template else detail["msg"]
    key = next((str(p) for p in reversed(detail["loc"]) if isinstance(p, str)), "")
    unit = unit_of(key) if kind.startswith(("greater", "less")) else ""
    return re.sub(r"\.0\b", "", text) + (f" {unit}" if unit else "")


def _way_out(path: Path, expected: str, meaning: str) -> str:
    if is_secret(path):
        return "put the secret into a file or variable and refer to it; change it if the file was ever shared"
    if "quotes" in expected:
        return "put the value in double quotes"
    if expected.startswith(WITHOUT_HOST_BITS):
        return f"write {expected.removeprefix(WITHOUT_HOST_BITS)}, or the prefix that was meant"
    if "pinned" in expected:
        return "write the exact version that was qualified"
    return _remedy(path, meaning)


def _remedy(path: Path, meaning: str) -> str:
    what = "the value and its unit" if unit_of(str(path[-1])) else "the value"
    return f"check {what}: {meaning}" if meaning else f"correct {dotted(path)}"


def _at(model: type[BaseModel], path: Path) -> tuple[Any, str]:
    """The annotation that stands at a key path, and the description of the nearest key that has one."""
    annotation: Any = model
    meaning = ""
    for part in path:
        field = next((f for m in _models_in(annotation) if (f := _field(m, str(part)))), None)
        if field is not None:
            annotation, meaning = field.annotation, field.description or ""
    return annotation, meaning


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The model that stands at a key path, or None."""
    return next(iter(_models_in(_at(model, path)[0])), None)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, tuple, dict, typing.Annotated):
        return [m for argument in typing.get_args(annotation) for m in _models_in(argument)]
    return []


def _field(model: type[BaseModel] | None, key: str) -> FieldInfo | None:
    if model is None:
        return None
    return next((f for name, f in model.model_fields.items() if (f.alias or name) == key), None)


def _keys(model: type[BaseModel] | None) -> list[str]:
    return [f.alias or name for name, f in model.model_fields.items()] if model else []


def _all_keys(model: type[BaseModel], prefix: Path = ()) -> Iterator[Path]:
    for name, field in model.model_fields.items():
        path = (*prefix, field.alias or name)
        yield path
        for inner in _models_in(field.annotation):
            if issubclass(inner, Section):
                yield from _all_keys(inner, path)


def _choices(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, tuple, typing.Annotated):
        return [c for argument in typing.get_args(annotation) for c in _choices(argument)]
    return []
