"""The pytest plugin of the checks: `pytest validation --site SITE`.

- A check (validation/check.py) is called once for each subject that the step register selects from the plan.
- Facts are gathered once, in bulk, before the first check that needs them; checks judge them in memory.
- What a check returns becomes a record; the records of a module are signed and appended together, so that a run that
  is killed keeps what it had. A check that does not apply to the site is skipped with the reason.
- JUnit XML goes to var/<site>/reports/validation.xml unless --junitxml says otherwise.
"""

import fnmatch
import importlib.metadata
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

from capacity.plan import Plan, build
from inventory.assets import load_assets
from inventory.paths import var_dir
from inventory.secrets import resolve
from inventory.site import Site, SiteError, load_site
from validation.check import Check, Outcome
from validation.evidence import Record, Store, load_signer
from validation.evidence.record import Kind
from validation.facts import Facts, gather
from validation.register import Register, load_register

__all__ = [
    "facts", "plan", "pytest_addoption", "pytest_configure", "pytest_generate_tests", "pytest_pyfunc_call",
    "pytest_report_header", "pytest_runtest_teardown", "pytest_sessionfinish", "pytest_terminal_summary",
    "register", "site",
]  # fmt: skip

TOOL = "bringup validation"
KEY = pytest.StashKey["Session"]()
ASSET_IDENTIFIERS = ("serial", "uuid", "mgmt_mac", "guid")


class Session:
    """What one run of the checks shares: site, plan, register, facts and the records that are not written yet."""

    def __init__(self, site: Site, out: Path, record: bool) -> None:
        self.site = site
        self.out = out
        self.plan: Plan = build(site)
        self.register: Register = load_register()
        self.frozen = datetime.now(UTC)
        self.store = Store.open(out / "evidence")
        self.record = record
        self.waiting: list[Record] = []
        self.written = 0
        self._facts: Facts | None = None
        self.aliases = asset_aliases(load_assets(site))

    @property
    def facts(self) -> Facts:
        """What the devices say of themselves, asked once in this run and kept under var/<site>/facts/."""
        if self._facts is None:
            self._facts = gather(self.plan)
            self._facts.write(self.out / "facts")
        return self._facts

    def flush(self) -> None:
        """Sign what is waiting and append it to the log as one batch."""
        if not self.waiting or not self.record:
            return
        key = self.site.credentials.evidence.key
        signer = load_signer(resolve(key, base=self.site.dir).get_secret_value())
        self.store.enroll(signer, role=self.site.credentials.evidence.role, owner=f"{TOOL} on {self.site.name}")
        self.store.append(self.waiting, signer)
        self.written += len(self.waiting)
        self.waiting.clear()


def asset_aliases(assets: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Per device, every identifier that the asset list holds for it."""
    columns = [column for column in ASSET_IDENTIFIERS if column in assets.columns]
    return {
        str(device): tuple(str(value) for value in row if value)
        for device, row in zip(assets.index, assets[columns].itertuples(index=False, name=None), strict=True)
    }


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bringup")
    group.addoption("--site", help="site name, or path to its site.yaml")
    group.addoption("--out", type=Path, help="where evidence and reports go (default: var/<site>)")
    group.addoption("--no-record", action="store_true", help="run the checks without writing evidence")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--site")
    if not name:
        raise pytest.UsageError("say which site to validate: pytest validation --site SITE (a name or a site.yaml)")
    try:
        site = load_site(name)
    except SiteError as error:
        raise pytest.UsageError(str(error)) from None
    out = var_dir(site.name, config.getoption("--out"))
    config.stash[KEY] = Session(site, out, record=not config.getoption("--no-record"))
    if not config.option.xmlpath:
        config.option.xmlpath = str(out / "reports" / "validation.xml")


def pytest_report_header(config: pytest.Config) -> list[str]:
    session = config.stash[KEY]
    return [
        f"site: {session.site.name} ({session.site.path}), plan {session.plan.hash[:16]}, evidence: {session.store.path}"
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    made: Check | None = getattr(metafunc.function, "__check__", None)
    if made is None:
        return
    session = metafunc.config.stash[KEY]
    item = session.register.items[made.item]
    reason = session.register.not_applicable(item, session.site)
    subjects = [] if reason else session.register.subjects(item, session.plan)
    if made.only:
        able = {name for selector in made.only for name in session.register.select(selector, session.plan)}
        subjects = [name for name in subjects if name in able]
    marks = [pytest.mark.skip(reason=f"not applicable: {reason}")] if reason else []
    if subjects:
        metafunc.parametrize("subject", subjects, ids=subjects)
    else:
        metafunc.parametrize("subject", [pytest.param("", marks=marks, id="none")])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    made: Check | None = getattr(pyfuncitem.function, "__check__", None)
    if made is None:
        return None
    session = pyfuncitem.config.stash[KEY]
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    started = datetime.now(UTC)
    try:
        outcome = pyfuncitem.obj(**arguments)
    except Exception:
        session.waiting.append(_record(session, made, str(arguments["subject"]), _crashed(), started))
        raise
    if not isinstance(outcome, Outcome):
        raise TypeError(f"{pyfuncitem.nodeid} is a check and must return an Outcome, not {type(outcome).__name__}")
    session.waiting.append(_record(session, made, str(arguments["subject"]), outcome, started))
    if not outcome.passed:
        limit = f" (limit {outcome.limit.value} {outcome.limit.unit}, {outcome.limit.source})" if outcome.limit else ""
        pytest.fail(f"{made.item} {arguments['subject']}: {outcome.detail}{limit}", pytrace=False)
    return True


def _crashed() -> Outcome:
    """The outcome of a check that raised: FAILED with the last line of its error, never silently nothing."""
    return Outcome(
        passed=False, value=None, detail="the check ended with an error: " + traceback.format_exc(limit=0).strip()
    )


def _record(session: Session, made: Check, subject: str, outcome: Outcome, started: datetime) -> Record:
    step, kind = made.item.split(".")
    limit = outcome.limit
    touched = {identity.device for identity in outcome.identities}
    inputs = {
        name: digest
        for name, digest in session.plan.hashes.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in made.inputs)
    }
    return Record(
        step=step,
        kind=cast(Kind, kind),
        subject=subject,
        result="PASSED" if outcome.passed else "FAILED",
        started=started,
        ended=datetime.now(UTC),
        tool=TOOL,
        tool_version=importlib.metadata.version("bringup"),
        command=outcome.command or f"pytest validation --site {session.site.name}",
        value=outcome.value,
        unit=outcome.unit,
        limit=limit.value if limit else None,
        limit_source=limit.source if limit else "",
        limit_frozen=session.frozen if limit else None,
        raw=outcome.raw,
        identities=outcome.identities,
        aliases={device: names for device, names in session.aliases.items() if device in touched},
        inputs=inputs,
        detail=outcome.detail,
    )


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        item.config.stash[KEY].flush()


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[KEY].flush()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    session = config.stash[KEY]
    if not session.record:
        terminalreporter.write_line("no evidence written (--no-record)")
        return
    claimed = {report.nodeid for status in ("passed", "failed") for report in terminalreporter.stats.get(status, [])}
    terminalreporter.write_line(f"{session.written} records of {len(claimed)} checks signed into {session.store.path}")
    terminalreporter.write_line(f"next: bringup gate --site {session.site.name}")


@pytest.fixture(scope="session")
def site(pytestconfig: pytest.Config) -> Site:
    """The site under validation."""
    return pytestconfig.stash[KEY].site


@pytest.fixture(scope="session")
def plan(pytestconfig: pytest.Config) -> Plan:
    """Its plan."""
    return pytestconfig.stash[KEY].plan


@pytest.fixture(scope="session")
def register(pytestconfig: pytest.Config) -> Register:
    """The step register."""
    return pytestconfig.stash[KEY].register


@pytest.fixture(scope="session")
def facts(pytestconfig: pytest.Config) -> Facts:
    """What the devices answered, gathered once."""
    return pytestconfig.stash[KEY].facts
