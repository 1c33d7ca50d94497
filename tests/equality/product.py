"""The product as this package uses it: the only module here that imports it, so that it can run in trees of any layout.

Everything goes through the public command line, in this process: `infra.cli.main`. Two things are replaced:

- `planned` of infra.cli.common, so that a site is planned once for all its verbs, and so that what is rendered depends neither
  on the plan's hash nor on the texts of findings. Both are recorded by themselves; a new site key or a reworded message would
  otherwise change every file.
- `typst.compile`, which gives back what it was given to set: PDF files depend on typst's version and the fonts, and a thousand
  servers take a minute.

When a later tree renames a key of the site file, `site_text` is the place to say so.
"""

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

SHIPPED = ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid", "lab")
EXPORTS = (
    "manifest",
    "programme-mspdi",
    "programme-xer",
    "netbox-device-types",
    "netbox-racks",
    "netbox-devices",
    "netbox-power-panels",
    "netbox-power-feeds",
)
SLURM_ROLES = ("slurm_config", "slurm_compute", "slurm_database")
SLURM_FILES = (
    ("slurm_config", "slurm.conf.j2"),
    ("slurm_config", "topology.conf.j2"),
    ("slurm_config", "cgroup.conf.j2"),
    ("slurm_compute", "gres.conf.j2"),
    ("slurm_controller", "slurmctld.conf.j2"),
)
HOSTS = ("capacity/outputs/ansible_hosts.py", "playbooks/inventory_plugins/bringup.py")
PROBE = {"container": "", "cgroup": "v2", "memory_mib": 512000, "confining": ["cpuset", "devices", "freezer", "memory"]}
"""What the playbooks' probe found, for the Slurm templates: a node of metal. gres.conf is that of a node of eight GPUs."""
PLANNERS = ("infra.cli.common", "infra.cli.site", "infra.cli.imports")
"""Modules that know `planned` by that name."""
MASKED_HASH = "0" * 64
FACTS_TESTS = "tests.validation.test_recorded_facts"
COMPARE_TESTS = "tests.network.test_compare"


def site_text(text: str) -> str:
    """A stored site file as this tree wants it: its values where this tree has them."""
    moved = importlib.import_module("inventory.site.sections.acceptance").MOVED
    site = yaml.safe_load(text)
    for old, new in moved.items():
        if old in site["limits"]:
            limit = site["limits"].pop(old)
            section, key = new.split(".")
            site.setdefault(section, {})[key] = limit["value"] if section == "timeouts" else limit
    return yaml.safe_dump(site, sort_keys=False, allow_unicode=True)


@dataclasses.dataclass(frozen=True)
class Ran:
    """A verb of the command line: its exit status and what it printed."""

    status: int
    out: str
    err: str


class Cannot(Exception):
    """The tree differs in a way that this module must be taught."""


class Planner:
    """`planned`, once per site: the plan as built, and the one that is handed to the verbs."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build
        self.plans: dict[str, tuple[Any, Any]] = {}
        self.asked = 0

    def __call__(self, reference: str, settings: Any = (), start: Any = None, kept: Any = None) -> Any:
        if settings:
            return self.build(reference, settings)
        self.asked += 1
        return self.of(reference)[1]

    def of(self, reference: str) -> tuple[Any, Any]:
        if reference not in self.plans:
            plan = self.build(reference)
            self.plans = {reference: (plan, masked(plan))}
        return self.plans[reference]


def masked(plan: Any) -> Any:
    """The plan with its hash blanked, and with findings whose messages are only numbered."""
    numbered = {id(finding): name for name, finding in named(plan.findings)}
    findings = tuple(dataclasses.replace(f, message=f"message of {numbered[id(f)]}") for f in plan.findings)
    return dataclasses.replace(plan, findings=findings, hash=MASKED_HASH)


def named(findings: Any) -> list[tuple[str, Any]]:
    """Findings with their ids and subjects, and a number where several share them: by their numbers, not their texts."""
    groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for finding in findings:
        groups[finding.id, finding.subject].append(finding)
    made = []
    for (code, subject), group in sorted(groups.items(), key=lambda item: item[0]):
        for number, finding in enumerate(sorted(group, key=_numbers), 1):
            made.append((f"{code}/{subject}/{number}", finding))
    return made


def _numbers(finding: Any) -> str:
    values = [finding.severity, dict(sorted(finding.numbers.items())), finding.limit, finding.limit_source]
    return json.dumps([*values, finding.err, finding.ports], default=str)


class Tree:
    """The product of the tree that this process imports."""

    def __init__(self) -> None:
        common = importlib.import_module("infra.cli.common")
        self.cli = importlib.import_module("infra.cli")
        self.root = Path(str(common.__file__)).resolve().parents[2]
        self.planner = Planner(common.planned)
        for name in PLANNERS:
            with contextlib.suppress(ModuleNotFoundError):
                module = importlib.import_module(name)
                if hasattr(module, "planned"):
                    module.planned = self.planner  # type: ignore[attr-defined]
        self._untried()
        self._typst()

    @staticmethod
    def _untried() -> None:
        """Remedies stay as the planner has them: trying them words messages anew, which are masked here, and takes minutes."""
        remedies = importlib.import_module("capacity.remedies")
        if hasattr(remedies, "proved"):
            remedies.__dict__["proved"] = lambda plan, *_: plan

    @staticmethod
    def _typst() -> None:
        typst = importlib.import_module("typst")

        def compiled(source: str, *_: Any, sys_inputs: Any = None, **options: Any) -> bytes:
            given = {"template": Path(source).read_text(), "inputs": sys_inputs, "options": options}
            return json.dumps(given, sort_keys=True).encode()

        typst.__dict__["compile"] = compiled

    def run(self, *words: str) -> Ran:
        """`bringup words…`, in this process."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = self.cli.main(list(words))
            except SystemExit as exit:
                status = int(exit.code or 0)
        return Ran(status, out.getvalue(), err.getvalue())

    def plan(self, reference: str) -> tuple[Any, Any]:
        """The plan of a site, and the one with hash and messages masked."""
        return self.planner.of(reference)

    def inventory(self, plan: Any) -> dict[str, Any]:
        """What the inventory plugin hands to Ansible: common variables by name, then hosts and groups."""
        module = self._file(next(path for path in HOSTS if (self.root / path).is_file()))
        try:
            hosts = module.hosts_of(plan, plan.catalog)
        except TypeError:
            hosts = module.hosts_of(plan)
        return {"common": hosts.common, "hosts": hosts.hosts, "groups": hosts.groups}

    def slurm(self, common: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Slurm's files as the role templates write them, by name."""
        import jinja2
        import yaml

        roles = self.root / "playbooks" / "roles"
        known: dict[str, Any] = {**common, "bringup_probe": PROBE}
        for role in SLURM_ROLES:
            for name, value in yaml.safe_load((roles / role / "defaults" / "main.yml").read_text()).items():
                if isinstance(value, str):
                    value = jinja2.Environment(autoescape=False).from_string(value).render(known).strip()
                known[name] = value
        for role, file in SLURM_FILES:
            environment = jinja2.Environment(
                loader=jinja2.FileSystemLoader(roles / role / "templates"), trim_blocks=True, autoescape=False
            )
            if (roles / role / "templates" / file).is_file():
                yield file.removesuffix(".j2"), environment.get_template(file).render(known, slurm_compute_gpus=8)

    def _file(self, relative: str) -> ModuleType:
        path = self.root / relative
        name = f"equality_{path.stem}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise Cannot(f"{path} is no module")
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        return sys.modules[name]

    # --- Recorded faults: read and judged by the helpers of the tree's own tests ---

    def faults(self) -> list[str]:
        """Names of all recordings: `healthy`, the faults, and the cabling cases."""
        tests, compare = importlib.import_module(FACTS_TESTS), importlib.import_module(COMPARE_TESTS)
        cases = [f"fault-{path.stem}" for path in (tests.HEALTHY, *tests.CASES)]
        return cases + [f"cabling-{path.stem}" for path in sorted(compare.CASES.glob("*.json"))]

    def fault(self, name: str, folder: Path) -> tuple[Any, list[Any], list[tuple[str, str, Any]]]:
        """The recording as data, its findings, and (item, subject, outcome) of every check of it."""
        kind, _, stem = name.partition("-")
        return self._cabling(stem) if kind == "cabling" else self._facts(stem, folder)

    def _facts(self, stem: str, folder: Path) -> tuple[Any, list[Any], list[tuple[str, str, Any]]]:
        tests = importlib.import_module(FACTS_TESTS)
        recorded = json.loads((tests.DATA / f"{stem}.json").read_text())
        changes = {} if stem == tests.HEALTHY.stem else recorded["changes"]
        facts = tests.read(folder, changes)
        plan, _ = self.plan("lab")
        found = tests.diagnose(plan, tests.load_assets(plan.site), facts)
        return changes or recorded, found, list(tests.judgements(plan, facts))

    @staticmethod
    def _cabling(stem: str) -> tuple[Any, list[Any], list[tuple[str, str, Any]]]:
        tests = importlib.import_module(COMPARE_TESTS)
        case = json.loads((tests.CASES / f"{stem}.json").read_text())
        seen = tests.sightings(case["seen"], case["observers"])
        for end in case.get("down", []):
            device, port = end.rsplit(":", 1)
            seen[device][port] = tests.Port(state="down", far="", far_port="", age_s=0, ttl_s=0)
        for end, far, age_s in case.get("also_seen", []):
            device, port = end.rsplit(":", 1)
            other, other_port = far.rsplit(":", 1)
            seen[device][port] = tests.Port(state="up", far=other, far_port=other_port, age_s=age_s, ttl_s=4)
        found = tests.compare.topology(
            tests.cables(case["planned"]), seen, case.get("silent", []), dark=case.get("dark", []), max_age_s=30
        )
        return {key: value for key, value in case.items() if key != "findings"}, found, []
