"""Verbs about files of others: import what was sent, export what is known. Nothing is written without --write."""

import argparse
import difflib
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.common import JUDGED_NO, OK, UsageError, add_site_option, add_verb, planned, standard_console
from inventory.paths import write_file

if TYPE_CHECKING:
    import pandas as pd

    from capacity.model import Plan
    from inventory.imports.core.result import Imported

DIFF_LINES = 40
ASSEMBLY_STEPS = (
    "S005",
    "S013",
    "S014",
    "S015",
    "S016",
    "S022",
    "S023",
    "S024",
    "S025",
    "S026",
    "S027",
    "S028",
    "S030",
)


def add(verbs: Any) -> None:
    """Add the verbs to the command line."""
    brought = add_verb(
        verbs,
        "import",
        run_import,
        "read a file of a vendor, factory, scheduler or logger and show what it would change",
    )
    brought.add_argument("kind", metavar="KIND", choices=tuple(IMPORTS), help="what the file is: " + ", ".join(IMPORTS))
    brought.add_argument("file", metavar="FILE", type=Path, help="the file as it was sent")
    add_site_option(brought)
    brought.add_argument(
        "--map", type=Path, metavar="FILE", help="column map (YAML): sheet, heading_row, columns, skus"
    )
    brought.add_argument("--encoding", metavar="NAME", help="how a text file is written (default: UTF-8 or UTF-16)")
    brought.add_argument(
        "--replace", action="store_true", help="identifiers in the file replace those of the site's lists"
    )
    brought.add_argument("--write", action="store_true", help="write the changes into the site's folder")
    brought.add_argument("--json", action="store_true", help="print rows and findings as JSON and nothing else")

    sent = add_verb(verbs, "export", run_export, "write what is known of a site in the form that others read")
    sent.add_argument("kind", metavar="KIND", choices=tuple(EXPORTS), help="what to write: " + ", ".join(EXPORTS))
    add_site_option(sent)
    sent.add_argument("--out", type=Path, metavar="FILE", help="write it to FILE instead of the screen")


def run_import(arguments: argparse.Namespace) -> int:
    from infra import screens

    plan = planned(arguments.site)
    data = _bytes(arguments.file)
    imported = IMPORTS[arguments.kind](plan, data, arguments)
    changes = _changes(plan.site.dir, imported)
    status = JUDGED_NO if imported.refused else OK
    # Before anything is printed: a reader that closes the pipe stops nothing.
    if arguments.write and not imported.refused:
        for path, (_, text) in changes.items():
            write_file(path, text)
    if arguments.json:
        rows = imported.rows.astype(str).to_dict("records")
        found = [finding.as_dict() for finding in imported.findings]
        listed = {"summary": imported.summary, "findings": found, "changes": sorted(map(str, changes)), "rows": rows}
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        console = standard_console()
        console.print(f"{arguments.file}: {imported.summary}", markup=False, highlight=False, soft_wrap=True)
        if imported.findings:
            screens.show_findings(console, imported.findings, "that --json prints")
    if imported.refused:
        if not arguments.json:
            print("Nothing is written: correct the errors above first.")
        return status
    if not arguments.json:
        _show(changes)
    if not arguments.json and imported.files:
        if not changes:
            print("The site's folder holds all of it already.")
        else:
            print(f"Written. {_as_built(plan, changes)}" if arguments.write else "Nothing is written yet: add --write.")
        if arguments.kind == "netbox-device-type":
            print(_for_planning(imported))
    elif not arguments.json and arguments.write:
        print(f"Nothing is written: {arguments.kind} of this file changes no file of the site.")
    return status


def _for_planning(imported: "Imported") -> str:
    """What is still missing before a site can plan with an imported device type."""
    from inventory.catalog import SITE_CATALOG

    if entries := sorted(Path(name).stem for name in imported.files if Path(name).parts[0] == SITE_CATALOG):
        return (
            f"The site can name it in its keys of models (server.model, fabric.switch_model, …): {', '.join(entries)}."
        )
    missing = imported.rows["key"].tolist() if "key" in imported.rows else []
    if not missing:
        return "No entry of the site's own is needed."
    return f"Not for planning yet. Missing: {', '.join(missing)}. Add them to the file and import it again."


def _as_built(plan: "Plan", changed: Iterable[Path]) -> str:
    """What the files that an import wrote do to the plan."""
    from capacity.delivered import delivered
    from inventory.delivered.assets import ASSETS_FILE, load_assets
    from inventory.delivered.gpus import GPUS_FILE
    from inventory.imports.core.stored import ROOT

    names = {path.relative_to(plan.site.dir).parts[0] for path in changed}
    if not names <= {ASSETS_FILE, GPUS_FILE, ROOT}:
        return "They are part of the plan: plan the site anew."
    after = delivered(plan, load_assets(plan.site))
    new = sorted(key for key in after.hashes if after.hashes[key] != plan.hashes.get(key))
    return f"Plan {after.hash[:12]} stands, no name, place, port or address moves; new in it: {', '.join(new) or 'nothing'}."


def run_export(arguments: argparse.Namespace) -> int:
    plan = planned(arguments.site)
    made = EXPORTS[arguments.kind](plan)
    data = made.encode() if isinstance(made, str) else made
    if arguments.out:
        write_file(arguments.out, data)
        lines = data.count(b"\n")
        print(f"{arguments.out}: {lines} lines")
    elif isinstance(made, str):
        sys.stdout.write(made)
    else:
        sys.stdout.buffer.write(made)
    return OK


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _changes(folder: Path, imported: "Imported") -> dict[Path, tuple[str, str]]:
    """Path -> (text now, text after) of each file that would differ."""
    changes = {}
    for name, text in imported.files.items():
        path = folder / name
        before = path.read_bytes().decode("utf-8", errors="replace") if path.exists() else ""
        if before != text:
            changes[path] = (before, text)
    return changes


def _show(changes: dict[Path, tuple[str, str]]) -> None:
    for path, (before, after) in changes.items():
        old, new = before.splitlines(), after.splitlines()
        if len(old) + len(new) > 20_000:
            print(f"{path}: {len(old)} lines become {len(new)}")
            continue
        lines = list(difflib.unified_diff(old, new, str(path) if before else "/dev/null", str(path), lineterm="", n=0))
        print("\n".join(lines[:DIFF_LINES]))
        if len(lines) > DIFF_LINES:
            print(f"… and {len(lines) - DIFF_LINES} more lines of {path}")


def kept(plan: "Plan", name: str) -> "pd.DataFrame | None":
    """A table of earlier imports in the site's folder, None where there is none."""
    from inventory.imports.core.stored import load

    return load(plan.site.dir, name)


def _map(arguments: argparse.Namespace) -> Any:
    from inventory.imports.core.source import decode
    from inventory.imports.core.tables import ColumnMap, column_map

    if arguments.map is None:
        return ColumnMap()
    return column_map(decode(_bytes(arguments.map), arguments.map), arguments.map)


def _fields(kind: str, data: bytes, arguments: argparse.Namespace) -> Any:
    from inventory.imports.core.tables import fields, read

    given = _map(arguments)
    return fields(read(data, arguments.file, kind, given, arguments.encoding), kind, given)


def _manifest(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.delivered.assets import load_assets
    from inventory.imports.delivery import manifest

    assets = load_assets(plan.site)
    expected = manifest.Expected.of(plan.devices, plan.placements, plan.site.gpu.sku)
    given = _fields("manifest", data, arguments)
    read = manifest.read_manifest(given, expected, plan.site.catalog, _map(arguments).skus, assets)
    return manifest.merge(read, assets, plan.gpus, kept(plan, manifest.MANIFEST_FILE), arguments.replace)


def _scan(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.delivery import manifest, receiving

    given = _fields("scan", data, arguments)
    return receiving.read_scan(given, kept(plan, manifest.MANIFEST_FILE), kept(plan, receiving.SCAN_FILE))


def _gpu_tests(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.delivery import manifest, receiving

    given = _fields("gpu_tests", data, arguments)
    return receiving.read_tests(given, plan.gpus, kept(plan, manifest.MANIFEST_FILE), kept(plan, receiving.TESTS_FILE))


def _quote(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    import dataclasses

    from capacity.procurement.bom import ordered
    from inventory.imports.commercial import quotes

    catalog, site = plan.site.catalog, plan.site
    server = catalog.device(site.server.model).bringup
    quote = quotes.read_quote(_fields("quote", data, arguments))
    result = quotes.compare(
        quote,
        plan.bom.assign(order=ordered(plan.bom)),
        catalog,
        _map(arguments).skus,
        gpu=site.gpu.sku,
        servers=site.server.count,
        sockets=server.cpus,
        memory=server.memory,
        storage=site.storage.kind,
        leadtimes=site.leadtimes,
    )
    folder = f"{quotes.FOLDER}/{_slug(arguments.file)}"
    return dataclasses.replace(result, files={f"{folder}/{name}": text for name, text in result.files.items()})


def _slug(path: Path) -> str:
    """The name of a file as the name of a folder of its own."""
    return re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "file"


def _device_type(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.catalog import SITE_CATALOG
    from inventory.imports.core.source import decode
    from inventory.imports.netbox.device_types import read_device_types

    text = decode(data, arguments.file, arguments.encoding)
    return read_device_types(text, arguments.file, Path(SITE_CATALOG), plan.site.catalog)


def _netbox_tables(plan: "Plan") -> dict[str, "pd.DataFrame"]:
    """The site's tables in NetBox's columns, by KIND."""
    from inventory.delivered.assets import load_assets
    from inventory.imports.netbox import device_types as netbox

    name, catalog = plan.site.name, plan.site.catalog
    ends = plan.elements[plan.elements["kind"] == "circuit"]
    panel_of = dict(zip(ends["name"], ends["upstream"], strict=True))
    return {
        "netbox-racks": netbox.racks(name, plan.racks, catalog),
        "netbox-devices": netbox.devices(name, plan.devices, plan.placements, load_assets(plan.site), catalog),
        "netbox-power-panels": netbox.panels(name, plan.circuits, panel_of),
        "netbox-power-feeds": netbox.feeds(name, plan.circuits, plan.site.power.derating, panel_of),
    }


def _netbox(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    import dataclasses

    from inventory.imports.netbox import device_types as netbox

    kind = arguments.kind
    sent = _fields(kind, data, arguments)
    result = netbox.compare(kind.removeprefix("netbox-").replace("-", " "), _netbox_tables(plan)[kind], sent.frame)
    return dataclasses.replace(result, findings=(*sent.findings, *result.findings))


def _export_netbox(kind: str) -> Callable[["Plan"], str]:
    def text(plan: "Plan") -> str:
        from inventory.imports.core.tables import csv_text

        return csv_text(_netbox_tables(plan)[kind])

    return text


def _export_device_types(plan: "Plan") -> str:
    from inventory.imports.netbox.device_types import device_types

    return device_types(plan.site.catalog, sorted(plan.devices["model"].unique()))


def _programme(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.schedules import programme, proposal

    read = programme.read_programme(data, arguments.file, arguments.encoding)
    folder, site = f"{proposal.FOLDER}/{_slug(arguments.file)}", plan.site.path
    text = site.read_bytes().decode("utf-8")
    return proposal.imported(read, folder, arguments.file, text, site.name, arguments.replace, plan.site.catalog)


def _snmpwalk(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.core.source import decode
    from inventory.imports.operation import snmpwalk

    text = decode(data, arguments.file, arguments.encoding)
    return snmpwalk.imported(snmpwalk.read_walk(text, arguments.file), _slug(arguments.file))


def _weather(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.core.result import Imported
    from inventory.imports.core.source import decode
    from inventory.imports.weather.epw import read_epw
    from inventory.imports.weather.typical_year import gaps as gaps_of

    text = decode(data, arguments.file, arguments.encoding)
    hours = read_epw(text, arguments.file)
    span = f"dry bulb {hours['dry_bulb_c'].min():g} to {hours['dry_bulb_c'].max():g} C"
    gaps = int(hours.isna().any(axis=1).sum())
    summary = f"{len(hours)} hours, {span}, {gaps} with a missing value"
    return Imported(hours, summary, tuple(gaps_of(hours)), {f"imports/{_slug(arguments.file)}.epw": text})


def _assembly(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from datetime import UTC, datetime

    from inventory.delivered.assets import load_assets
    from inventory.imports.delivery import assembly, manifest
    from validation.register import register_for

    register = register_for(plan.site)
    steps = {
        item.step: assembly.Step(item.form, register.subjects(item, plan), register.not_applicable(item, plan.site))
        for name in ASSEMBLY_STEPS
        if (item := register.items.get(f"{name}.attested"))
    }
    connectors = plan.site.catalog.gpu(plan.site.gpu.sku).aux_connectors
    delivered = assembly.Delivered.of(load_assets(plan.site), plan.gpus, kept(plan, manifest.MANIFEST_FILE), connectors)
    earlier = {name: table for name in steps if (table := kept(plan, assembly.file_of(name))) is not None}
    given = _fields("assembly", data, arguments)
    return assembly.read_assembly(given, steps, delivered, datetime.now(UTC).date(), earlier)


def _transport(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.delivery import transport

    given = _fields("transport", data, arguments)
    return transport.imported(given, transport.limits_of(plan.site), _slug(arguments.file))


def _energy(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.operation import energy

    accuracy, loss, source = energy.limits_of(plan.site)
    return energy.imported(_fields("energy", data, arguments), accuracy, loss, source, _slug(arguments.file))


def _usage(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.imports.operation import usage

    given = _fields("usage", data, arguments)
    catalog = plan.site.catalog
    gpus = plan.site.server.count * catalog.device(plan.site.server.model).bringup.gpus
    peak, nodes = catalog.gpu(plan.site.gpu.sku).peak_tflops, set(plan.devices["name"])
    return usage.imported(given, gpus, arguments.file, peak, nodes)


def _ibnetdiscover(plan: "Plan", data: bytes, arguments: argparse.Namespace) -> "Imported":
    from inventory.delivered.assets import load_assets
    from inventory.imports.core.source import decode
    from network.infiniband import parse, proposed

    text = decode(data, arguments.file, arguments.encoding)
    try:
        return proposed.imported(plan, parse.discovery(text), load_assets(plan.site))
    except ValueError as error:
        raise UsageError(f"{arguments.file}: {error}") from None


def _export_manifest(plan: "Plan") -> str:
    from inventory.delivered.assets import load_assets
    from inventory.imports.core.tables import csv_text
    from inventory.imports.delivery import manifest

    stored = kept(plan, manifest.MANIFEST_FILE)
    return csv_text(manifest.export(stored, load_assets(plan.site), plan.gpus, plan.placements))


def _export_mspdi(plan: "Plan") -> str:
    from capacity.outputs.programme_export import network_of
    from inventory.imports.schedules.files import mspdi

    return mspdi(network_of(plan.site, plan.activities))


def _export_xer(plan: "Plan") -> bytes:
    from capacity.outputs.programme_export import network_of
    from inventory.imports.schedules.files import encoded, xer

    return encoded(xer(network_of(plan.site, plan.activities)))


IMPORTS: dict[str, Callable[["Plan", bytes, argparse.Namespace], "Imported"]] = {
    "manifest": _manifest,
    "scan": _scan,
    "gpu-tests": _gpu_tests,
    "quote": _quote,
    "transport": _transport,
    "assembly": _assembly,
    "programme": _programme,
    "snmpwalk": _snmpwalk,
    "weather": _weather,
    "energy": _energy,
    "usage": _usage,
    "ibnetdiscover": _ibnetdiscover,
    "netbox-device-type": _device_type,
    "netbox-racks": _netbox,
    "netbox-devices": _netbox,
    "netbox-power-feeds": _netbox,
}
EXPORTS: dict[str, Callable[["Plan"], str | bytes]] = {
    "manifest": _export_manifest,
    "programme-mspdi": _export_mspdi,
    "programme-xer": _export_xer,
    "netbox-device-types": _export_device_types,
    "netbox-racks": _export_netbox("netbox-racks"),
    "netbox-devices": _export_netbox("netbox-devices"),
    "netbox-power-panels": _export_netbox("netbox-power-panels"),
    "netbox-power-feeds": _export_netbox("netbox-power-feeds"),
}
