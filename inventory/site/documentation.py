"""``python -m inventory.site.documentation``: write ``docs/site-file.md`` from the models, so that the two cannot disagree.

``markdown()`` is the page as text; a test fails when the file in ``docs`` differs from it.
"""

import datetime
import types
import typing
from typing import Any

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from inventory.paths import repo_root
from inventory.site.messages import FORMS
from inventory.site.model import SiteModel
from inventory.site.sections.acceptance import known_limits
from inventory.site.values import Address, Network, SecretReference, Slug, Version

INTRO = """# The site file

<!-- Written by `python -m inventory.site.documentation` from inventory/site/. Do not edit by hand. -->

`inventory/sites/<site>/site.yaml` holds the intent for one cluster; every verb takes it by name or by path. Unknown
keys, wrong units and impossible values are refused, all faults of a file at once, each with its line and the way out.

- Units stand in key names: `_w` watts, `_kw` kilowatts, `_v` volts, `_a` amperes, `_m` metres, `_c` degrees Celsius,
  `_s` seconds, `_gbps` gigabits per second, `_pb` petabytes (10^15 bytes), `_kg` kilograms, `_pct` percent.
- Secrets are references: `env:NAME`, `file:PATH` (relative to the site file) or `vault:PATH#FIELD`.
- Model names are slugs of `inventory/catalog/`; add a file there for hardware that it does not have.
- Versions stand in quotes. Anchors, aliases and tags of YAML are refused.
- Editors complete and check with the JSON Schema that `bringup schema` prints.

`bringup new` writes a first file of a few lines. `based_on` names reference designs (`inventory/references/`), whose values
hold wherever the file says nothing; a key in the file goes before them, and `bringup explain SITE KEY` says which of the two
it is. `key: null` drops what a design gives at that key: an activity of the programme, a limit, a list, a whole optional
section; single entries of a list are not dropped so. The shipped sites in `inventory/sites/` are written this way.

What was delivered and built is not intent: it lies beside the site file in `assets.csv` (device, manufacturer, serial, uuid,
mgmt_mac, guid) and `as_built.csv`.

"""


def markdown() -> str:
    """The whole page."""
    parts = [INTRO, "## Top level\n\n", _table(SiteModel), "\n"]
    for name, field in SiteModel.model_fields.items():
        for model in _models(field.annotation):
            parts += _section(field.alias or name, model)
    parts += ["## Limits\n\nKeys of `limits`, from `inventory/limits.yaml`; each has `value`, `unit` and `source`.\n\n"]
    parts += ["| Key | Unit | Meaning |\n|---|---|---|\n"]
    parts += [f"| `{key}` | {body['unit']} | {body['meaning']} |\n" for key, body in known_limits().items()]
    return "".join(parts)


def main() -> None:
    """Write the page."""
    path = repo_root() / "docs" / "site-file.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(markdown(), encoding="utf-8")
    print(f"wrote {path}")


def _section(path: str, model: type[BaseModel]) -> list[str]:
    summary = (model.__doc__ or "").strip().splitlines()[0]
    parts = [f"## {path}\n\n{summary}\n\n", _table(model), "\n"]
    for name, field in model.model_fields.items():
        for inner in _models(field.annotation):
            parts += _section(f"{path}.{field.alias or name}", inner)
    return parts


def _table(model: type[BaseModel]) -> str:
    rows = ["| Key | Value | Default | Meaning |\n|---|---|---|---|\n"]
    hints = typing.get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        rows.append(
            f"| `{field.alias or name}` | {_kind(hints[name], field.metadata)} | {_default(field)} "
            f"| {field.description} |\n"
        )
    return "".join(rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "mandatory"
    if field.default in (None, (), {}):
        return "none"
    if isinstance(field.default, BaseModel):
        return "those of its keys"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _kind(annotation: Any, metadata: list[Any] | tuple[Any, ...] = ()) -> str:
    """The kind of value in words: 'number, 30 to 3000', 'one of `ib`, `roce`'."""
    if annotation in _NAMED:
        return _NAMED[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        named = _NAMED.get(annotation)
        return named or _kind(arguments[0], arguments[1:])
    if origin is typing.Literal:
        values = ", ".join(f"`{value}`" for value in arguments)
        return values if len(arguments) == 1 else f"one of {values}"
    if origin is tuple:
        if arguments[-1] is not Ellipsis:
            return f"list of {len(arguments)}: {_kind(arguments[0])}"
        return "list of mappings" if _models(arguments[0]) else f"list of: {_kind(arguments[0])}"
    if origin is dict:
        return "mappings by name" if _models(arguments[1]) else f"by name: {_kind(arguments[1])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(a, metadata) for a in arguments if a is not type(None))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return _SCALARS[annotation] + _bounds(metadata)


def _bounds(metadata: list[Any] | tuple[Any, ...]) -> str:
    flat = [m for item in metadata for m in (item.metadata if isinstance(item, FieldInfo) else [item])]
    low = next((f"{m.ge:g}" for m in flat if isinstance(m, Ge)), None)
    above = next((f"more than {m.gt:g}" for m in flat if isinstance(m, Gt)), None)
    high = next((f"{m.le:g}" for m in flat if isinstance(m, Le)), None)
    below = next((f"less than {m.lt:g}" for m in flat if isinstance(m, Lt)), None)
    step = next((f"multiple of {m.multiple_of}" for m in flat if isinstance(m, MultipleOf)), None)
    pattern = next((m.pattern for m in flat if getattr(m, "pattern", None)), None)
    parts = [f"{low} to {high}"] if low and high else [low and f"at least {low}", high and f"at most {high}"]
    parts += [above, below, step, pattern and FORMS.get(pattern, f"`{pattern}`")]
    texts = [part for part in parts if part]
    return ", " + ", ".join(texts) if texts else ""


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in typing.get_args(annotation) for model in _models(argument)]


_NAMED: dict[Any, str] = {
    Network: "IPv4 prefix",
    Address: "IPv4 address",
    SecretReference: "secret reference",
    Version: "version in quotes",
    Slug: "name",
}
_SCALARS: dict[Any, str] = {
    float: "number",
    int: "whole number",
    bool: "`true` or `false`",
    str: "text",
    datetime.date: "date YYYY-MM-DD",
}

if __name__ == "__main__":
    main()
