"""Collect the records of one site or one recorded fault from the tree that this process imports."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from .product import EXPORTS, SHIPPED, Tree, named, site_text
from .records import RANDOM_SITES, Fields, Records, canonical, digest, read_text, rounded, text_fields

NOT_COMPARED = (".parquet", "SHA256SUMS")
"""Parquet holds the versions of its libraries: it is read. The manifest repeats hashes of files with the plan's own hash."""

CONFIGURED_OF = 5
"""What Ansible gets follows from the frames: it is made of one random site in so many."""


def names(tree: Tree) -> list[str]:
    """All sites and recordings, those that take long first."""
    return [*SHIPPED, *tree.faults(), *random_sites()]


def random_sites() -> dict[str, dict[str, str]]:
    """Files of the drawn sites: {'random-…-001': {'site.yaml': text}}."""
    return {one["id"]: one["files"] for one in map(json.loads, read_text(RANDOM_SITES).splitlines())}


class Collector:
    """Records of one tree, site by site."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.drawn = random_sites()

    def collect(self, name: str) -> Records:
        """The records of a site or a recording, by name."""
        with tempfile.TemporaryDirectory(prefix="equality-") as folder:
            root = Path(folder).resolve()
            if name in SHIPPED:
                made = Of(self.tree, root, name, name)
                made.site()
                made.guarded("exports", made.exports)
                made.guarded("ansible", made.ansible)
                return made.records
            if name in self.drawn:
                for file, text in self.drawn[name].items():
                    (root / file).write_text(site_text(text))
                made = Of(self.tree, root, name, str(root / "site.yaml"))
                made.site()
                if int(name.rpartition("-")[2]) % CONFIGURED_OF == 0:
                    made.guarded("ansible", made.ansible)
                return made.records
            made = Of(self.tree, root, name, "lab")
            made.guarded("fault", made.fault)
            return made.records


class Of:
    """Records of one site or recording in the making."""

    def __init__(self, tree: Tree, folder: Path, name: str, reference: str) -> None:
        self.tree, self.folder, self.name, self.reference = tree, folder, name, reference
        self.out = folder / "out"
        self.records: Records = {}

    def add(self, thing: str, fields: Fields) -> None:
        self.records[self.name, thing] = fields

    def neutral(self, text: str) -> str:
        """A text without the folders of this machine."""
        return text.replace(str(self.folder), "<out>").replace(str(self.tree.root), "<tree>")

    def guarded(self, thing: str, make: Any) -> None:
        """Run a part; a traceback is a record, so that it is seen as a difference and stops no other."""
        try:
            make()
        except Exception as error:  # noqa: BLE001 - a traceback of the product is a result here
            self.add(f"error/{thing}", {"error": f"{type(error).__name__}: {self.neutral(str(error))[:200]}"})

    def site(self) -> None:
        """Everything about a site."""
        ran = self.tree.run("plan", self.reference, "--json", "--out", str(self.out))
        if ran.status not in (0, 1):
            self.add("load", {"error": self.neutral(ran.err.strip())[:400] or f"exit status {ran.status}"})
            return
        self.add("load", {"error": ""})
        self.add("status", {"plan": ran.status})
        if not self.tree.planner.asked:
            raise RuntimeError("the verbs do not plan through infra.cli.common.planned any more: teach product.py")
        plan, _ = self.tree.plan(self.reference)
        self.findings(plan.findings)
        self.guarded("hashes", lambda: self.add("hashes", {"plan": plan.hash[:16], **_short(plan.hashes)}))
        self.guarded("summary", lambda: self.summary(json.loads(ran.out)))
        self.guarded("frames", self.frames)
        self.guarded("render", self.render)
        self.guarded("files", self.files)

    def findings(self, findings: Any) -> None:
        for name, finding in named(findings):
            values = {
                "severity": finding.severity,
                "numbers": rounded(finding.numbers),
                "limit": rounded(finding.limit),
                "limit_source": finding.limit_source,
                "err": finding.err,
                "ports": list(finding.ports),
                "message": digest(self.neutral(finding.message)),
            }
            self.add(
                f"finding/{name}", {key: value for key, value in values.items() if value not in (None, "", [], {})}
            )

    def summary(self, summary: dict[str, Any]) -> None:
        """Hashes of the top-level keys; `inputs` are hashes already and recorded as such."""
        for key, value in summary.items():
            if key not in ("inputs", "plan_hash"):
                self.add(f"summary/{key}", {"value": digest(self.neutral(canonical(value)))})

    def frames(self) -> None:
        for path in sorted((self.out / "plan").glob("*.parquet")):
            frame = pd.read_parquet(path)
            columns = {f"column.{name}": column_hash(frame[name]) for name in frame.columns}
            order = digest(",".join(map(str, frame.columns)))
            self.add(f"frame/{path.stem}", {"rows": len(frame), "order": order, **columns})

    def render(self) -> None:
        ran = self.tree.run("render", self.reference, "--out", str(self.out))
        self.add("status/render", {"render": ran.status, "error": self.neutral(ran.err)[:200]})

    def files(self) -> None:
        """Hashes of what was written below the output folder, and what the manifest is wrong about."""
        for path in sorted(p for p in self.out.rglob("*") if p.is_file()):
            relative = path.relative_to(self.out)
            if path.name == "SHA256SUMS":
                self.add(f"manifest/{relative.parent}", {"wrong": manifest(path)})
            if not path.name.endswith(NOT_COMPARED) and path.name != "summary.json":
                self.add(f"file/{relative}", self.file(path))

    def file(self, path: Path) -> Fields:
        data = path.read_bytes()
        try:
            return text_fields(self.neutral(data.decode()))
        except UnicodeDecodeError:
            return {"bytes": workbook(path) if path.suffix == ".xlsx" else digest(data)}

    def exports(self) -> None:
        for kind in EXPORTS:
            path = self.out / "export" / kind
            ran = self.tree.run("export", kind, "--site", self.reference, "--out", str(path))
            self.add(f"status/export/{kind}", {"status": ran.status, "error": self.neutral(ran.err)[:200]})
            if path.is_file():
                self.add(f"file/export/{kind}", self.file(path))

    def ansible(self) -> None:
        """The inventory's variables: one record per common variable and telemetry file, one for all hosts."""
        _, plan = self.tree.plan(self.reference)
        found = self.tree.inventory(plan)
        for name, value in found["common"].items():
            self.add(f"ansible/{name}", text_fields(self.neutral(canonical(value))))
        for host in found["hosts"].values():
            for file, text in host.get("bringup_telemetry", {}).get("files", {}).items():
                self.add(f"telemetry/{file}", text_fields(self.neutral(text)))
        self.add("ansible/hosts", text_fields(self.neutral(canonical(found["hosts"]))))
        self.add("ansible/groups", text_fields(self.neutral(canonical(found["groups"]))))
        for file, text in self.tree.slurm(found["common"]):
            self.add(f"slurm/{file}", text_fields(self.neutral(text)))

    def fault(self) -> None:
        """Findings and judgements of recorded facts."""
        recorded, findings, judged = self.tree.fault(self.name, self.folder)
        self.add("recording", {"value": digest(canonical(recorded))})
        self.findings(findings)
        for item, subject, outcome in judged:
            values = {
                "passed": outcome.passed,
                "value": digest(self.neutral(canonical(getattr(outcome, "value", None)))),
                "detail": digest(self.neutral(str(getattr(outcome, "detail", "")))),
            }
            self.add(f"check/{item}/{subject}", values)


def column_hash(column: "pd.Series[Any]") -> str:
    """A hash of a column: its kind and its values, floats with nine digits."""
    kind = column.dtype.kind if hasattr(column.dtype, "kind") else "O"
    values = [f"{value:.9g}" for value in column] if kind == "f" else [str(value) for value in column]
    return digest("\x1f".join([kind, *values]))


def workbook(path: Path) -> str:
    """A hash of the cells of a workbook: its parts are compressed, which no two versions of zlib do alike."""
    import openpyxl

    book = openpyxl.load_workbook(path)
    cells = {
        sheet.title: [[rounded(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
        for sheet in book.worksheets
    }
    return digest(canonical(cells))


def manifest(path: Path) -> list[str]:
    """Files that a manifest names and that are not as it says, or that it leaves out."""
    said = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            value, _, name = line.partition("  ")
            said[name] = value
    here = {p.relative_to(path.parent).as_posix(): p for p in path.parent.rglob("*") if p.is_file() and p != path}
    wrong = [n for n, v in said.items() if n not in here or hashlib.sha256(here[n].read_bytes()).hexdigest() != v]
    return sorted({*wrong, *(here.keys() - said.keys())})


def _short(hashes: Any) -> dict[str, str]:
    return {name: str(value)[:16] for name, value in hashes.items()}
