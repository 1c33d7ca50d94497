"""The pytest plugin of the checks: `pytest validation --site SITE`.

- A check (validation/check.py) is called once for each subject that the step register selects from the plan.
- Facts are gathered once, in bulk, before the first check that needs them; checks judge them in memory.
- A line in the log says that a check begins; what it returns becomes a record, signed and appended at once. A run that is
  killed, or cannot write, leaves a check that has begun and never ended, which the gate takes as failed. A check that
  crashes, or that met another asset than the planned one, is a FAILED record.
- A check that does not apply to the site, or for which the plan has no asset, is skipped with the reason.
- JUnit XML goes to var/<site>/reports/validation.xml unless --junitxml says otherwise.
"""

import contextlib
import fnmatch
import importlib.metadata
import inspect
import os
import secrets
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from securesystemslib.signer import CryptoSigner

from capacity.build import build
from capacity.model import Plan
from capacity.sizes import load_site
from inventory.delivered.assets import AssetError, asset_aliases, load_assets
from inventory.paths import clear_odd, var_dir
from inventory.secrets import SecretError
from inventory.site import Site, SiteError
from network.drivers.errors import one_line
from validation import device_identity, freeze
from validation.check import Check, Outcome, check_of, of_the_planned_assets
from validation.evidence import Identity, IntegrityError, Record, SigningKeyError, begun
from validation.evidence.keys import signer_from
from validation.evidence.record import Kind, to_statement
from validation.evidence.store import LAB_ROLE
from validation.evidence.trust import open_store, recorder_of
from validation.facts import Facts, gather, second_reader
from validation.facts.challenges import drained_nodes, outlet_cuts, port_shuts
from validation.host_keys import pinned_host_keys
from validation.limits import LimitsRead, limit_inputs
from validation.order import DEVICE_KINDS
from validation.program import relative
from validation.progress import Waiting
from validation.register import WITHOUT_NODES, Register, load_register, of_platform, register_for
from validation.supported_gpus import why_not_tested

__all__ = [
    "at_the_end",
    "facts",
    "out_folder",
    "plan",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_pyfunc_call",
    "pytest_report_header",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_unconfigure",
    "register",
    "sample_seed",
    "site",
    "store_id",
]

TOOL = "bringup validation"
UNWRITABLE = (OSError, IntegrityError, SigningKeyError)
CANNOT_RECORD = 2
KEY = pytest.StashKey["Session"]()
EARLIER_HANDLER = pytest.StashKey[Any]()
WAITING = pytest.StashKey[Waiting]()


class Session:
    """What one run of the checks shares: site, plan, register, facts and the records that are not written yet.

    `signer` is None in a run that writes no evidence. The limits are frozen when the session is made.
    """

    def __init__(self, site: Site, out: Path, signer: CryptoSigner | None) -> None:
        self.site = site
        self.out = out
        self.signer = signer
        assets = load_assets(site)
        self.built: Plan = build(site, assets=assets)
        self.limits = LimitsRead(site.limits)
        self.read_by_fixture: dict[str, set[str]] = {}
        self.plan = replace(self.built, site=site.model_copy(update={"limits": self.limits}))
        self.register: Register = register_for(site)
        self.frozen = datetime.now(UTC)
        recorder = recorder_of(site) if signer is not None else None
        self.store = open_store(site, out / "evidence", plan=self.plan.hash, recorder=recorder)
        self.waiting: list[Record] = []
        self.announced: list[Mapping[str, Any]] = []
        self.begun: set[tuple[str, str]] = set()
        self.run = secrets.token_hex(8)
        self.written = 0
        self.enrolled = False
        self.unwritten = ""
        self._facts: Facts | None = None
        self._freeze: str | None = None
        self._channels: dict[str, tuple[Identity, ...]] = {}
        self.aliases = asset_aliases(assets, self.plan.gpus)
        self.devices = device_identity.digests_of(self.aliases, pinned_host_keys(self.plan))
        self.planned = frozenset(map(str, self.plan.devices["name"]))
        self.at_the_end: list[Callable[[], None]] = []

    @property
    def junit(self) -> Path:
        """The results of the run as JUnit XML, unless pytest was told another place."""
        return self.out / "reports" / "validation.xml"

    @property
    def seed(self) -> str:
        """The seed of what this run draws by lot."""
        return second_reader.seed_of(self.plan, f"{self.frozen:%Y-%m-%d}")

    @property
    def store_id(self) -> str:
        """The id of the evidence store; '' in a run that writes no evidence."""
        return "" if self.signer is None else self.store.id()

    @property
    def facts(self) -> Facts:
        """What the devices say of themselves, asked once in this run and kept under var/<site>/facts/."""
        if self._facts is None:
            self._facts = gather(self.built, self.store_id)  # its limits are time budgets, by which nothing is judged
            self._facts.write(self.out / "facts")
            self._channels = self._facts.channels()
            if self.site.validation.challenges:
                drained = drained_nodes(self._facts)
                signed = {one.device for seen in self._channels.values() for one in seen if one.signature}
                shut = port_shuts(self.built, drained, signed, seed=self.run)
                for one in (*outlet_cuts(self.built, drained), *shut):
                    self._channels[one.device] = (*self._channels.get(one.device, ()), one)
        return self._facts

    @property
    def freeze(self) -> str:
        """Digest of the freeze in force, read from the log once; '' without one, in a lab and where nothing is recorded.

        IntegrityError for a log that is broken.
        """
        if self._freeze is None:
            self._freeze = ""
            if self.signer is not None and self.site.credentials.evidence.role != LAB_ROLE:
                current = freeze.read_freezes(self.site, self.store).current
                self._freeze = current.digest if current else ""
        return self._freeze

    def channels_of(self, devices: set[str]) -> tuple[Identity, ...]:
        """What was seen of these devices; given out once in a run, so that the log holds each answer once."""
        return tuple(one for device in sorted(devices) for one in self._channels.pop(device, ()))

    def flush(self) -> None:
        """Sign what is waiting, results first and then what begins, and append it to the log as one batch."""
        if self.signer is None or not (self.waiting or self.announced):
            return
        if not self.enrolled:
            self.store.enroll(self.signer, self.site.credentials.evidence.role, f"{TOOL} on {self.site.name}")
            self.enrolled = True
        for record in self.waiting:
            if record.raw is not None:
                self.store.keep(record.raw)
        batch = [*(to_statement(record) for record in self.waiting), *self.announced]
        self.store.append_statements(batch, self.signer)
        self.written += len(self.waiting)
        self.waiting.clear()
        self.announced.clear()

    def flush_or_exit(self) -> None:
        """Flush, or end the run: what cannot be recorded is not worth running."""
        try:
            self.flush()
        except UNWRITABLE as error:
            pytest.exit(f"evidence cannot be written: {error}", returncode=CANNOT_RECORD)

    def begin(self, made: Check, subject: str) -> None:
        """Announce a check with the next flush, once."""
        try:
            _ = self.freeze  # before the check runs: a log that is broken records nothing
        except IntegrityError as error:
            pytest.exit(f"evidence cannot be written: {error}", returncode=CANNOT_RECORD)
        if (made.item, subject) not in self.begun:
            self.begun.add((made.item, subject))
            self.announced.append(begun.statement(made.item, subject, "begun", datetime.now(UTC), self.run))

    def skipped(self, made: Check, subject: str) -> None:
        """A check that was announced ends without a result."""
        if (made.item, subject) in self.begun:
            self.begun.discard((made.item, subject))
            self.announced.append(begun.statement(made.item, subject, "skipped", datetime.now(UTC), self.run))

    def settle(self, made: Check, subject: str, outcome: Outcome, started: datetime, read: set[str]) -> Outcome:
        """Judge the identities of an outcome and keep its record for the next flush; returns what was recorded.

        `read` are the keys of the limits that the outcome was judged by.
        """
        outcome = of_the_planned_assets(outcome, self.aliases)
        self.waiting.append(_record(self, made, subject, outcome, started, read))
        self.begun.discard((made.item, subject))
        return outcome

    def read_before(self, item: pytest.Function) -> set[str]:
        """Keys of the limits that the fixtures of a check read."""
        return {key for name in item.fixturenames for key in self.read_by_fixture.get(name, ())}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bringup")
    group.addoption("--site", help="site name, or path to its site.yaml")
    group.addoption("--out", type=Path, help="where evidence and reports go (default: var/<site>)")
    group.addoption(
        "--planned",
        action="store_true",
        help="run only the computed and generated items of the plan: no device is asked",
    )
    group.addoption("--no-record", action="store_true", help="run the checks without writing evidence")
    group.addoption(
        "--raise-xid",
        metavar="COMMAND",
        help="for P-12: started here with NODE SLOT, makes that GPU report a fatal XID (slot: the driver's module ID)",
    )
    group.addoption("--repair-xid", metavar="COMMAND", help="for P-12: started here with NODE SLOT, repairs that GPU")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.help or config.option.version:
        return
    name = config.getoption("--site")
    if not name:
        raise pytest.UsageError("say which site to validate: pytest validation --site SITE (a name or a site.yaml)")
    try:
        site = load_site(name)
        if not config.getoption("--planned") and (reason := why_not_tested(site)):
            raise pytest.UsageError(f"{reason}. The items of the plan alone: pytest validation --site SITE --planned")
        signer = None if config.getoption("--no-record") else _signer(site)
        out = var_dir(site.name, config.getoption("--out"))
        config.stash[KEY] = Session(site, out, signer)
    except (SiteError, AssetError) as error:
        raise pytest.UsageError(str(error)) from None
    except (SecretError, SigningKeyError) as error:
        raise pytest.UsageError(
            f"evidence cannot be signed: credentials.evidence.key: {error}. Make the key there, or run the checks without "
            "evidence: pytest validation --site SITE --no-record (with --planned: those of the plan alone)"
        ) from None
    if threading.current_thread() is threading.main_thread():
        config.stash[EARLIER_HANDLER] = signal.signal(signal.SIGTERM, _interrupt)
    if not config.option.xmlpath:
        config.option.xmlpath = str(config.stash[KEY].junit)
    terminal = os.dup(1)  # output is not captured yet; lines that say what is waited for go past the capture
    config.stash[WAITING] = Waiting(lambda text: _say(terminal, text))
    config.pluginmanager.register(FixtureWatch(), "bringup-fixtures")


def _say(terminal: int, text: str) -> None:
    os.write(terminal, f"\n{text}\n".encode())


def _signer(site: Site) -> CryptoSigner:
    return signer_from(site.credentials.evidence.key, site.dir)


def pytest_report_header(config: pytest.Config) -> list[str]:
    session = config.stash[KEY]
    lines = [
        f"site: {session.site.name} ({session.site.path}), plan {session.plan.hash[:16]}, evidence: {session.store.path}"
    ]
    if not config.getoption("--planned"):
        again = ", ".join(second_reader.sample(session.plan, session.seed))
        lines.append(f"nodes that testinfra reads as well: {again} (seed {session.seed})")
    return lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    made = check_of(metafunc.function)
    if made is None:
        return
    session = metafunc.config.stash[KEY]
    register = session.register
    if of_platform(made.item) and made.item not in register.items:
        register = load_register(platform=True)  # to say why it does not apply
    item = register.items[made.item]
    reason = register.not_applicable(item, session.site)
    subjects = [] if reason else register.subjects(item, session.plan)
    if made.only:
        able = {name for selector in made.only for name in session.register.select(selector, session.plan)}
        subjects = [name for name in subjects if name in able]
    if subjects:
        metafunc.parametrize("subject", subjects, ids=subjects)
    else:
        why = f"not applicable: {reason}" if reason else f"the plan has no asset that {item.id} is about"
        metafunc.parametrize("subject", [pytest.param("", marks=pytest.mark.skip(reason=why), id="none")])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the checks that the site's workload manager can run; with --planned those of computed and generated items whose steps
    belong to capacity or inventory.
    """
    session, planned = config.stash[KEY], config.getoption("--planned")

    def wanted(item: pytest.Item) -> bool:
        made = check_of(item.obj) if isinstance(item, pytest.Function) else None
        fits = made is None or made.runs_on(session.site)
        return fits and (not planned or is_planned(session.register, item))

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = [item for item in items if wanted(item)]


def is_planned(register: Register, test: pytest.Item) -> bool:
    """Whether a test is the check of an item that the plan alone answers, without facts from devices."""
    if not isinstance(test, pytest.Function):
        return False
    made = check_of(test.obj)
    if made is None or "facts" in inspect.signature(test.obj).parameters:
        return False
    return made.item in register.items and register.planned(register.items[made.item])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Record a check whose fixtures crash: what could not be asked is FAILED, and no earlier record stands for it."""
    started = datetime.now(UTC)
    session = item.config.stash[KEY]
    if (check := _check_of(item)) is not None:
        session.begin(*check)
        session.flush_or_exit()  # a check that cannot be announced does not run
    try:
        return (yield)
    except pytest.skip.Exception:
        if check is not None:
            session.skipped(*check)
        raise
    except Exception as error:
        if check is not None and isinstance(item, pytest.Function):
            session.settle(*check, _crashed(error), started, session.read_before(item))
        raise


def _check_of(item: pytest.Item | None) -> tuple[Check, str] | None:
    """The check and the subject of a test; None for a test that is no check, or whose check has no subject."""
    if not isinstance(item, pytest.Function) or (made := check_of(item.obj)) is None:
        return None
    return (made, _subject(item)) if _subject(item) else None


class FixtureWatch:
    """What is noted of every fixture. A plugin of its own: pytest asks a conftest.py nothing about session fixtures."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Note which limits a fixture reads: all checks that use it are judged by them. Say which one is waited for."""
        session = request.config.stash[KEY]
        with session.limits.reading() as read, _waiting(fixturedef, request.config):
            try:
                return (yield)
            finally:
                session.read_by_fixture[fixturedef.argname] = read


def _waiting(fixture: pytest.FixtureDef[Any], config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """What to say while a fixture is made: facts, jobs and acts are session fixtures, all others are quick."""
    if fixture.scope != "session":
        return contextlib.nullcontext()
    about = (inspect.getdoc(fixture.func) or "").partition("\n")[0].rstrip(".")
    return config.stash[WAITING].on(f"{fixture.argname} ({about})" if about else fixture.argname)


def _subject(item: pytest.Function) -> str:
    return str(item.callspec.params["subject"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    made = check_of(pyfuncitem.function)
    if made is None:
        return None
    session, subject, started = pyfuncitem.config.stash[KEY], _subject(pyfuncitem), datetime.now(UTC)
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    before = session.read_before(pyfuncitem)
    with session.limits.reading() as read:
        try:
            outcome = pyfuncitem.obj(**arguments)
            if not isinstance(outcome, Outcome):
                raise TypeError(
                    f"{pyfuncitem.nodeid} is a check and must return an Outcome, not {type(outcome).__name__}"
                )
            outcome = session.settle(made, subject, outcome, started, before | read)
        except pytest.skip.Exception:
            session.skipped(made, subject)
            raise
        except Exception as error:
            session.settle(made, subject, _crashed(error), started, before | read)
            raise
    if not outcome.passed:
        limit = f" (limit {outcome.limit}, {outcome.limit.source})" if outcome.limit else ""
        pytest.fail(f"{made.item} {subject}: {outcome.detail}{limit}", pytrace=False)
    return True


def _crashed(error: Exception) -> Outcome:
    """The outcome of a check that raised: FAILED with its error, never silently nothing."""
    return Outcome(False, None, one_line(f"the check ended with {type(error).__name__}: {error}"))


def devices_of(touched: Collection[str], subject: str, planned: Collection[str]) -> set[str]:
    """The planned devices that a record touched or is about."""
    return {name for one in (*touched, subject) if (name := one.partition(":")[0]) in planned}


def _record(session: Session, made: Check, subject: str, outcome: Outcome, started: datetime, read: set[str]) -> Record:
    step, kind = made.item.split(".")
    limit = outcome.limit
    touched = {identity.device for identity in outcome.identities}
    inputs = {
        name: digest
        for name, digest in session.plan.hashes.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in made.inputs)
    }
    inputs |= limit_inputs(session.site.limits, read)
    item = session.register.items[made.item]
    inputs |= freeze.inputs_of(relative(Path(made.file)), item, session.register, session.freeze)
    which = {}
    if kind in DEVICE_KINDS:
        which = device_identity.configuration_of(devices_of(touched, subject, session.planned), session.devices)
    if kind in WITHOUT_NODES[0]:  # the plan read its limits before
        inputs["site.limits"] = session.plan.hashes["site.limits"]
    return Record(
        step=step,
        kind=cast(Kind, kind),
        subject=subject,
        result="PASSED" if outcome.passed else "FAILED",
        started=started - timedelta(seconds=outcome.measured_s),
        ended=datetime.now(UTC),
        tool=TOOL,
        tool_version=importlib.metadata.version("bringup"),
        command=outcome.command or f"pytest validation --site {session.site.name}",
        value=outcome.value,
        unit=outcome.unit,
        limit=limit.value if limit else None,
        limit_source=limit.source if limit else "",
        limit_frozen=min(session.frozen, outcome.limit_since or session.frozen) if limit else None,
        raw=outcome.raw,
        identities=outcome.identities,
        channels=session.channels_of(touched | {subject}) if session.signer is not None else (),
        aliases={device: names for device, names in session.aliases.items() if device in touched},
        inputs=inputs,
        configuration={**outcome.configuration, **freeze.configuration(), **which},
        detail=outcome.detail,
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Write the result at once, before fixtures are torn down, and in the same line that the next check begins."""
    session = item.config.stash[KEY]
    if (check := _check_of(nextitem)) is not None and not item.session.shouldstop and not item.session.shouldfail:
        session.begin(*check)
    session.flush_or_exit()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what the run started before fixtures wait for it, also when a signal ended the run; then sign the rest."""
    for end in session.config.stash[KEY].at_the_end:
        end()
    if (own := session.config.stash[KEY].junit) == Path(session.config.option.xmlpath):
        clear_odd(own)  # pytest writes it next, and follows links
    try:
        session.config.stash[KEY].flush()
    except UNWRITABLE as error:
        session.exitstatus = CANNOT_RECORD
        session.config.stash[KEY].unwritten = str(error)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (earlier := config.stash.get(EARLIER_HANDLER, None)) is not None:
        signal.signal(signal.SIGTERM, earlier)
    if (waiting := config.stash.get(WAITING, None)) is not None:
        waiting.close()


def _interrupt(number: int, frame: object) -> None:
    """SIGTERM ends a run as Ctrl-C does: with its fixtures."""
    raise KeyboardInterrupt


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    session = config.stash[KEY]
    if session.signer is None:
        terminalreporter.write_line("no evidence written (--no-record)")
        return
    claimed = {report.nodeid for status in ("passed", "failed") for report in terminalreporter.stats.get(status, [])}
    terminalreporter.write_line(f"{session.written} records of {len(claimed)} checks signed into {session.store.path}")
    if session.unwritten:
        left = len(session.waiting)
        terminalreporter.write_line(f"{left} results could not be written and count as failed: {session.unwritten}")
    terminalreporter.write_line(f"next: bringup gate --site {session.site.name}")


@pytest.fixture(scope="session")
def site(pytestconfig: pytest.Config) -> Site:
    """The site under validation."""
    return pytestconfig.stash[KEY].site


@pytest.fixture(scope="session")
def out_folder(request: pytest.FixtureRequest) -> Path:
    """The folder of the site's outputs."""
    return request.config.stash[KEY].out


@pytest.fixture(scope="session")
def store_id(pytestconfig: pytest.Config) -> str:
    """The id of the evidence store, for which devices sign; '' where nothing is recorded."""
    return pytestconfig.stash[KEY].store_id


@pytest.fixture(scope="session")
def plan(pytestconfig: pytest.Config) -> Plan:
    """Its plan."""
    return pytestconfig.stash[KEY].plan


@pytest.fixture(scope="session")
def register(pytestconfig: pytest.Config) -> Register:
    """The step register."""
    return pytestconfig.stash[KEY].register


@pytest.fixture(scope="session")
def sample_seed(pytestconfig: pytest.Config) -> str:
    """The seed of what this run draws by lot; the header of the run shows it."""
    return pytestconfig.stash[KEY].seed


@pytest.fixture(scope="session")
def at_the_end(pytestconfig: pytest.Config) -> Callable[[Callable[[], None]], None]:
    """Keeps what must be done when the run ends, however it ends, before any fixture is torn down by its end."""
    return pytestconfig.stash[KEY].at_the_end.append


@pytest.fixture(scope="session")
def facts(pytestconfig: pytest.Config) -> Facts:
    """What the devices answered, gathered once."""
    return pytestconfig.stash[KEY].facts
