"""``python -m inventory.site.documentation``: write ``docs/site-file.md`` and ``docs/catalog.md`` from the models, so that these
cannot disagree.

``markdown()`` and ``catalog_markdown()`` are the pages as text; a test fails when a file in ``docs`` differs from them.
"""

import datetime
import types
import typing
from collections.abc import Mapping
from typing import Any

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from inventory.catalog.loading import CONNECTORS, FOLDERS
from inventory.catalog.power import Connector
from inventory.paths import repo_root
from inventory.site.messages import FORMS
from inventory.site.model import SiteModel
from inventory.site.sections.acceptance import known_limits
from inventory.site.values import (
    Address,
    DeviceSecretReference,
    Ipv6Network,
    Moment,
    Network,
    SecretReference,
    Slug,
    Version,
)

INTRO = """# The site file

<!-- Written by `python -m inventory.site.documentation` from inventory/site/. Do not edit by hand. -->

`inventory/sites/<site>/site.yaml` holds the intent for one cluster; every verb takes it by name or by path. Unknown
keys, wrong units and impossible values are refused, all faults of a file at once, each with its line and the way out.

- Units stand in key names: `_w` watts, `_kw` kilowatts, `_v` volts, `_a` amperes, `_m` metres, `_c` degrees Celsius,
  `_s` seconds, `_gbps` gigabits per second, `_pb` petabytes (10^15 bytes), `_kg` kilograms, `_pct` percent.
- Secrets are references: `env:NAME`, `file:PATH` (relative to the site file) or `vault:PATH#FIELD`. Passwords of BMCs
  (`credentials.bmc.password`, `credentials.bmc.factory.password`) may be one for each: with `{device}` or `{serial}` in the
  reference, such as `vault:kv/bmc/{serial}#password`, or as `table:PATH#COLUMN`. The table is a CSV file with a heading, or a
  YAML list of mappings; its columns `device`, `serial` and `mac` (of the BMC) say whose row it is, one of them is enough, and
  serial and MAC are compared with `assets.csv`. It has mode 0600 and lies outside of every Git working tree:

      serial,mac,factory,password
      S312345X,3c:ec:ef:00:00:01,QWKNRTUVYZ,the-one-that-it-gets
- Model names are slugs of `inventory/catalog/`; hardware that it does not have gets an entry of the site's own
  ([catalog.md](catalog.md)).
- Versions stand in quotes. Anchors, aliases and tags of YAML are refused.
- Editors complete and check with the JSON Schema that `bringup schema` prints.

`bringup new` writes a first file of a few lines. `based_on` names reference designs (`inventory/references/`), whose values
hold wherever the file says nothing; a key in the file goes before them, and `bringup explain SITE KEY` says which of the two
it is. `key: null` drops what a design gives at that key: an activity of the programme, a limit, a list, a whole optional
section; single entries of a list are not dropped so. The shipped sites in `inventory/sites/` are written this way.

What was delivered and built is not intent: it lies beside the site file in `assets.csv` (device, manufacturer, serial, uuid,
mgmt_mac, guid) and `as_built.csv` (cable_id, a_device, a_port, b_device, b_port, part, serial, length_m, installed_on,
installed_by).
`bringup compare` shows how the cables of `as_built.csv` differ from the plan.

"""


CATALOG_INTRO = """# The hardware catalogue

<!-- Written by `python -m inventory.site.documentation` from inventory/catalog/. Do not edit by hand. -->

Facts about models of hardware, one YAML file each, in `inventory/catalog/data/`. The planner takes them where the site
file says nothing else. Every number has a source; a source that begins with `not confirmed` says that nobody here has
seen the document, and what replaces it.

    bringup catalog list                     every entry, and how many of its sources are not confirmed
    bringup catalog list rack-pdu            those with this in id or kind
    bringup catalog show nvidia-dgx-h100     each figure with its source; --site SITE for a site's own entries

## Entries of a site's own

A folder `catalog/` beside the site file holds entries for this site only, in the same folders:

    hall-1/site.yaml
    hall-1/catalog/device-types/our-switch.yaml
    hall-1/catalog/gpus/our-gpu.yaml
    hall-1/catalog/connectors.yaml

1. Copy the nearest entry of `inventory/catalog/data/`, or import NetBox's: `bringup import netbox-device-type FILE
   --site SITE --write` says what is missing for planning, and writes the entry once nothing is.
2. Give it a slug of its own, which is the name of the file too. The slug of a shipped entry is refused: to change one figure of
   a shipped model, write its key in the site file (`server.power.nameplate_w`).
3. Take each number from the data sheet of what is ordered, and name the document under `sources`: by key, or by the beginning of
   several. Write `not confirmed` where you assume.
4. `bringup catalog list --site SITE` names every file that cannot be used, with the place and the way out. Such a file
   stops only the sites that name its entry. `bringup schema --catalog` prints a JSON Schema for editors.
5. Name the slug in the site file. What there contradicts the catalogue is the finding CATALOG-CONTRADICTS.

An entry for everyone goes into `inventory/catalog/data/`, in the same form.

## Media

A media table lists kinds of cables. `fibre`: each link has a fibre of its own between two transceivers. `straight`: a
cable with its plugs on, which carries all ports of a cage to one other cage. `splitter`: one plug in a cage of several
ports, a tail for each of them.
A plug goes into cages of its form, top and number of ports; the table that a site names is `media.reach_table`.

"""


def catalog_markdown() -> str:
    """The page about the catalogue."""
    parts = [CATALOG_INTRO]
    for folder, (_, model) in FOLDERS.items():
        parts += _section(folder, model)
    parts += _section(CONNECTORS, Connector)
    return "".join(parts)


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
    """Write the pages."""
    path = repo_root() / "docs" / "site-file.md"
    path.parent.mkdir(exist_ok=True)
    for page, text in ((path, markdown()), (path.with_name("catalog.md"), catalog_markdown())):
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page}")


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
    if field.default_factory is not None or field.default in (None, (), {}, ""):
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
    if origin in (dict, Mapping):
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
    Ipv6Network: "IPv6 prefix",
    Address: "IPv4 address",
    SecretReference: "secret reference",
    DeviceSecretReference: "secret reference, of each device its own",
    Version: "version in quotes",
    Slug: "name",
    Moment: "time with its offset from UTC, as 2027-12-04T06:00:00Z",
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
