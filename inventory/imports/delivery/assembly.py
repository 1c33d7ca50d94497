"""Assembly and inspection records (S005, S013-S016, S022-S028): a maker's build report as forms that a person can sign.

One row per server and step, or per part where a step is about parts (GPUs). Rows are checked against the asset lists:
unknown serials, servers and GPUs without a row, rows given twice, fields that the step asks for and the row lacks. For
each step follow a CSV with its rows and a form for `bringup attest`, whose attachment that CSV is: one signature then
covers all its servers, and the record holds the hash of what was signed. Nothing is attested by the import itself.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pandas as pd
import yaml

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import OUTCOMES, Imported, some
from inventory.imports.core.source import number
from inventory.imports.core.tables import LINE, Fields, csv_text, known, plain, records, together

FOLDER = "imports/assembly"
COMMON = ("name", "role", "asset", "date", "method", "outcome")
MEANT = {"disposition": "outcome", "serial_to_slot_map": "slot"}
"""Fields of forms that a column of every record answers."""
PER_GPU = ("S005", "S026")
"""Steps whose records are about each GPU of a server, not about the server as a whole."""


@dataclass(frozen=True)
class Step:
    """What the register says of one attested step: fields of its form, servers that need a record, why it does not apply."""

    form: Sequence[str]
    subjects: Sequence[str]
    not_applicable: str | None = None


@dataclass(frozen=True)
class Delivered:
    """The site's lists: device per chassis serial, (device, slot) per GPU serial, connectors that one GPU has (ERR-07)."""

    chassis: Mapping[str, str]
    gpus: Mapping[str, tuple[str, str]]
    connectors: int

    @classmethod
    def of(
        cls, assets: pd.DataFrame, gpus: pd.DataFrame, manifest: pd.DataFrame | None, connectors: int
    ) -> "Delivered":
        """From assets.csv, gpus.csv and the manifest of earlier imports."""
        cards = {row["serial"]: (row["device"], row["slot"]) for row in records(gpus)}
        for row in records(manifest[manifest["kind"] == "gpu"]) if manifest is not None else ():
            cards.setdefault(row["serial"], (row["device"], row["slot"]))
        chassis = {str(s): str(d) for d, s in assets["serial"].items() if s} if len(assets) else {}
        return cls(chassis, cards, connectors)


def read_assembly(
    given: Fields,
    steps: Mapping[str, Step],
    delivered: Delivered,
    today: date,
    kept: Mapping[str, pd.DataFrame] | None = None,
) -> Imported:
    """Records per step, checked, with a form for each outcome. Rows with an error are in the CSV and in no form.

    `kept` has the records of earlier imports by step. They stay, and are in the forms, but for those that the file has
    for the same server (and GPU).
    """
    findings = list(given.findings)
    by_step: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in records(given.frame.reindex(columns=[*known("assembly"), *given.unknown, LINE], fill_value="")):
        step = row["step"].upper().removesuffix(".ATTESTED")
        if step not in steps:
            findings.append(
                finding(
                    "IMPORT-STEP-UNKNOWN", f"line {row[LINE]}", words={"step": row["step"], "steps": ", ".join(steps)}
                )
            )
            continue
        row["device"] = _device(row, delivered)
        by_step[step].append(row)
    files: dict[str, str] = {}
    counts = []
    for step, sent in sorted(by_step.items()):
        spec = steps[step]
        whole, stayed = _with_earlier((kept or {}).get(step), pd.DataFrame(sent), step)
        findings += stayed
        rows = records(whole)
        columns = {plain(str(name)): str(name) for name in whole.columns if name not in known("assembly")}
        if spec.not_applicable:
            findings.append(
                finding("IMPORT-STEP-NOT-APPLICABLE", step, words={"records": len(rows), "reason": spec.not_applicable})
            )
        asked = [name for name in spec.form if name not in COMMON and name not in known("assembly")]
        fields = {name: columns.get(plain(name)) or MEANT.get(name) for name in asked}
        good: dict[str, list[dict[str, str]]] = defaultdict(list)
        for row in rows:
            faults = _faults(row, step, spec, fields, delivered, today)
            findings += faults
            if not any(f.severity == "error" for f in faults):
                good[OUTCOMES[plain(row["outcome"])]].append(row)
        findings += _missing(step, spec, rows, delivered)
        files[file_of(step)] = csv_text(whole.drop(columns=LINE))
        failed = {row["device"] for row in good["failed"]}
        for outcome, done in () if spec.not_applicable else good.items():
            subjects = sorted({row["device"] for row in done} - (failed if outcome == "passed" else set()))
            if subjects:
                suffix = "" if outcome == "passed" else ".failed"
                files[f"{FOLDER}/{step}{suffix}.form.yaml"] = _form(step, spec, outcome, subjects, done, fields)
        counts.append(f"{step}: {len(sent)}")
    summary = f"{len(given.frame)} records ({', '.join(counts)}); sign the forms with bringup attest"
    return Imported(given.frame, summary, tuple(findings), files)


def file_of(step: str) -> str:
    """Where the records of a step are kept in the site's folder."""
    return f"{FOLDER}/{step}.csv"


def _with_earlier(kept: pd.DataFrame | None, sent: pd.DataFrame, step: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Earlier records that the file does not have, then its own; a heading spelt in two ways is one column."""
    if kept is None:
        return sent, []
    spelt = {plain(str(name)): str(name) for name in sent.columns}
    old = kept.rename(columns={name: spelt.get(plain(str(name)), str(name)) for name in kept.columns})
    whole, findings = together(old, sent, lambda row: (row["device"], row["serial"]), file_of(step))
    return whole.reindex(columns=list(dict.fromkeys([*sent.columns, *whole.columns]))), findings


def _device(row: Mapping[str, str], delivered: Delivered) -> str:
    if row["chassis_serial"] in delivered.chassis:
        return delivered.chassis[row["chassis_serial"]]
    if row["serial"] in delivered.gpus and not row["device"]:
        return delivered.gpus[row["serial"]][0]
    return row["device"]


def _faults(
    row: Mapping[str, str], step: str, spec: Step, fields: Mapping[str, str | None], delivered: Delivered, today: date
) -> list[Finding]:
    found = []
    place = f"{step} line {row[LINE]}" if row[LINE] else f"{step} {row['device']} of an earlier import"
    serial = row["serial"]
    if row["chassis_serial"] and row["chassis_serial"] not in delivered.chassis:
        found.append(
            finding(
                "IMPORT-SERIAL-UNKNOWN",
                place,
                case="chassis",
                words={"serial": row["chassis_serial"]},
                remedies=[remedy(fix="manifest")],
            )
        )
    if serial and step in PER_GPU and serial not in delivered.gpus:
        found.append(
            finding(
                "IMPORT-SERIAL-UNKNOWN",
                place,
                case="gpu",
                words={"serial": serial},
                remedies=[remedy(fix="manifest")],
            )
        )
    elif serial in delivered.gpus:
        device, slot = delivered.gpus[serial]
        if row["device"] != device or (row["slot"] and slot and row["slot"] != slot):
            found.append(
                finding(
                    "IMPORT-SERIAL-PLACE",
                    place,
                    words={
                        "serial": serial,
                        "device": row["device"],
                        "slot": row["slot"] or "?",
                        "listed_device": device,
                        "listed_slot": slot,
                    },
                )
            )
    if row["device"] not in spec.subjects:
        found.append(
            finding(
                "IMPORT-NO-DEVICE",
                place,
                case="record" if row["device"] else "record-empty",
                severity="error",
                words={"device": row["device"], "step": step},
                remedies=[remedy(fix="server"), remedy(fix="serial")],
            )
        )
    lacking = [name for name, column in fields.items() if column is None or not row[column]]
    lacking += [name for name in ("serial",) if step in PER_GPU and not serial]
    if lacking:
        found.append(
            finding(
                "IMPORT-RECORD-LACKS",
                place,
                words={"step": step, "fields": ", ".join(lacking)},
                remedies=[remedy(fix="add")],
            )
        )
    if plain(row["outcome"]) not in OUTCOMES:
        found.append(finding("IMPORT-OUTCOME", place, words={"outcome": row["outcome"]}, remedies=[remedy(fix="word")]))
    try:
        day = date.fromisoformat(row["date"][:10])
    except ValueError:
        found.append(finding("IMPORT-DATE", place, case="record-form", severity="error", words={"date": row["date"]}))
    else:
        if day > today:
            found.append(
                finding(
                    "IMPORT-DATE",
                    place,
                    case="record-future",
                    severity="error",
                    words={"date": str(day), "today": str(today)},
                )
            )
    column = fields.get("connector_count")
    if column and (count := number(row[column])) is not None and count != delivered.connectors:
        found.append(
            finding("IMPORT-CONNECTORS", place, err="ERR-07", words={"stated": count, "planned": delivered.connectors})
        )
    return found


def _missing(step: str, spec: Step, rows: Sequence[Mapping[str, str]], delivered: Delivered) -> list[Finding]:
    """Servers and GPUs without a record, and records given twice."""
    found = []
    seen = Counter((row["device"], row["serial"] if step in PER_GPU else "") for row in rows)
    if twice := sorted(" ".join(filter(None, key)) for key, count in seen.items() if count > 1):
        found.append(
            finding(
                "IMPORT-RECORD-TWICE",
                step,
                records=len(twice),
                words={"names": some(twice)},
                remedies=[remedy(fix="keep")],
            )
        )
    devices = {row["device"] for row in rows}
    if absent := [name for name in spec.subjects if name not in devices]:
        found.append(
            finding(
                "IMPORT-RECORD-MISSING",
                step,
                case="servers",
                servers=len(absent),
                words={"needed": len(spec.subjects), "names": some(absent)},
            )
        )
    if step in PER_GPU:
        had = {row["serial"] for row in rows}
        left = sorted(
            serial for serial, (device, _) in delivered.gpus.items() if device in devices and serial not in had
        )
        if left:
            found.append(
                finding(
                    "IMPORT-RECORD-MISSING", f"{step} GPUs", case="gpus", gpus=len(left), words={"names": some(left)}
                )
            )
    return found


def _form(
    step: str,
    spec: Step,
    outcome: str,
    subjects: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    fields: Mapping[str, str | None],
) -> str:
    """A form for `bringup attest`; what differs between rows refers to the attached CSV, what nobody said stays empty."""

    def one(name: str) -> str | None:
        said = {row[name] for row in rows if row.get(name)}
        return said.pop() if len(said) == 1 else None

    attached = f"{step}.csv"
    form: dict[str, object] = {
        "item": f"{step}.attested",
        "subjects": list(subjects),
        "name": None,  # whoever signs, not who did the work
        "role": None,
        "asset": f"{len(subjects)} server(s), per {attached}",
        "date": max(date.fromisoformat(row["date"][:10]) for row in rows),
        "method": one("method") or one("report") or f"per {attached}",
        "outcome": outcome,
    }
    for name in spec.form:
        if name not in form:
            column = fields.get(name) or (name if name in known("assembly") else None)
            form[name] = (one(column) if column else None) or f"per {attached}, column {column or name}"
    form["attachments"] = [attached]
    head = f"# {step}: fill in name and role, read {attached}, then: bringup attest FORM --site SITE --key REFERENCE\n"
    return head + yaml.safe_dump(form, sort_keys=False, allow_unicode=True)
