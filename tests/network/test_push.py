"""The order of a push and what becomes of each switch, with switches in memory behind the driver's verbs."""

import shutil
import threading
from pathlib import Path

import pytest

from capacity.build import build
from inventory.delivered.assets import load_assets
from inventory.paths import site_dir
from inventory.secrets import SecretError
from inventory.site import load_site
from inventory.site.whatif import changed
from network import push as push_module
from network.drivers.credentials import HttpsCredentials, SshCredentials
from network.drivers.errors import (
    IdentityMismatch,
    LoginRefused,
    PushIncomplete,
    PushRefused,
    PushRolledBack,
    Unreachable,
)
from network.push import Target, compute_targets, push, targets, untested
from tests.network import dual_stack

CREDENTIALS = SshCredentials("netops", Path("key"), Path("known_hosts"))


def problem(kind, name):
    return kind(name, "test", "that it works", "a fault", "nothing")


class Memory:
    """A switch in memory with the verbs of network.nos.frr.driver.Switch; `fault` makes one verb fail."""

    apply_s = 0.0

    def __init__(self, name, log, fault=None, running="", saved=True, sessions=(), after=None):
        self.name, self.log, self.fault, self.running, self.is_saved = name, log, fault or {}, running, saved
        self.sessions, self.before, self.connections = dict.fromkeys(sessions, "Established"), running, 0
        self.after = after  # {peer: state} from the commit on

    def _do(self, verb):
        self.log.append((self.name, verb))
        if verb in self.fault:
            kind, calls = self.fault[verb] if isinstance(self.fault[verb], tuple) else (self.fault[verb], range(1, 99))
            if self.log.count((self.name, verb)) in calls:
                raise problem(kind, self.name)

    def connect(self):
        self._do("connect")

    def close(self):
        self.log.append((self.name, "close"))

    def load(self, config):
        self._do("load")
        return self.compare(config)

    def compare(self, config):
        return "" if config == self.running else f"+ {config}"

    def commit(self, confirm_s):
        self.before, self.wanted = self.running, confirm_s
        self._do("commit")
        self.running = "new"
        self.sessions = self.sessions if self.after is None else self.after

    def confirm(self):
        self._do("confirm")
        self.is_saved = True

    def save(self):
        self._do("save")
        self.is_saved = True

    def saved(self):
        return self.is_saved

    def rollback(self):
        self._do("rollback")
        self.running = self.before

    def runs_previous(self):
        self.running = self.before  # its own timer did it
        return True

    def neighbours(self):
        return dict(self.sessions)


@pytest.fixture
def fabric(monkeypatch):
    """fabric({'name': {Memory arguments}}) -> (targets, switches, log); push() then talks to these switches."""

    def build(switches):
        log: list[tuple[str, str]] = []
        made = {name: Memory(name, log, **arguments) for name, arguments in switches.items()}
        monkeypatch.setattr(push_module, "_switch", lambda target, os_name: made[target.name])
        monkeypatch.setattr(push_module, "CONFIRM_MARGIN_S", 0)
        first, *others = made
        far = {first: others[:1], **{name: [first] for name in others}}
        wanted = [
            Target(name, "192.0.2.1", CREDENTIALS, "new", neighbours=dict(zip(["swp1"], far[name], strict=False)))
            for name in made
        ]
        return wanted, made, log

    return build


def results(pushed):
    return {p.name: p.result for p in pushed}


def test_all_switches_are_applied_before_any_is_judged(fabric):
    wanted, _, log = fabric({f"leaf{n:02}": {"sessions": ["swp1"]} for n in range(20)})
    assert set(results(push(wanted, workers=3, neighbours_s=1)).values()) == {"applied"}
    verbs = [verb for _, verb in log]
    assert max(n for n, verb in enumerate(verbs) if verb == "commit") < verbs.index("confirm")


def test_a_switch_that_runs_the_configuration_is_left_alone(fabric):
    wanted, _, log = fabric({"leaf01": {"running": "new"}})
    assert results(push(wanted)) == {"leaf01": "no-change"}
    assert ("leaf01", "commit") not in log
    assert ("leaf01", "save") not in log


def test_a_configuration_that_was_never_saved_is_saved(fabric):
    wanted, made, _ = fabric({"leaf01": {"running": "new", "saved": False}})
    (pushed,) = push(wanted)
    assert (pushed.result, made["leaf01"].is_saved) == ("no-change", True)
    assert "saved now" in pushed.note


@pytest.mark.parametrize(
    ("verb", "kind", "expected"),
    [
        ("connect", Unreachable, "unreachable"),
        ("connect", LoginRefused, "unreachable"),
        ("load", IdentityMismatch, "refused"),
        ("load", PushRefused, "refused"),
        ("commit", PushRolledBack, "rolled-back"),
        ("confirm", PushRolledBack, "rolled-back"),
        ("confirm", PushIncomplete, "differs"),
    ],
)
def test_a_bad_switch_has_its_result_and_its_error_and_stops_no_other(fabric, verb, kind, expected):
    wanted, made, _ = fabric({"bad": {"fault": {verb: kind}, "sessions": ["swp1"]}, "good": {"sessions": ["swp1"]}})
    bad, good = push(wanted, neighbours_s=0.5)
    assert (bad.result, good.result) == (expected, "applied")
    assert isinstance(bad.error, kind)
    assert str(bad.error).startswith("bad: ")
    assert made["good"].is_saved


def test_a_switch_whose_session_stays_down_is_rolled_back_and_names_the_port(fabric):
    wanted, made, _ = fabric({"leaf01": {"sessions": []}, "spine01": {"sessions": ["swp1"]}})
    leaf, spine = push(wanted, neighbours_s=0.2)
    assert (leaf.result, spine.result) == ("rolled-back", "applied")
    assert "sessions down on swp1" in leaf.note
    assert made["leaf01"].running == ""


def test_a_session_to_a_switch_that_took_no_configuration_is_not_waited_for(fabric):
    wanted, _, _ = fabric({"leaf01": {"sessions": []}, "spine01": {"fault": {"connect": Unreachable}}})
    assert results(push(wanted, neighbours_s=5)) == {"leaf01": "applied", "spine01": "unreachable"}


def test_a_switch_whose_connection_breaks_during_apply_is_judged_over_a_new_one(fabric):
    wanted, made, _ = fabric({"leaf01": {"fault": {"commit": Unreachable}}})
    (pushed,) = push(wanted, neighbours_s=0)
    assert pushed.result == "rolled-back"
    assert made["leaf01"].running == ""


@pytest.mark.parametrize(("failing", "expected"), [(range(2, 3), "rolled-back"), (range(2, 99), "lost")])
def test_a_switch_lost_after_apply_is_looked_at_when_its_timer_has_run_out(fabric, monkeypatch, failing, expected):
    naps: list[float] = []
    monkeypatch.setattr("network.push.time.sleep", naps.append)
    wanted, _, _ = fabric({"leaf01": {"fault": {"connect": (Unreachable, failing)}}})
    (pushed,) = push(wanted, neighbours_s=12)
    assert pushed.result == expected
    assert isinstance(pushed.error, Unreachable)
    assert 12 < naps[-1] <= 15  # the timer of 12 s, and a little for the switch's own reload


def test_one_connection_per_worker_at_a_time(fabric):
    wanted, made, _ = fabric({f"leaf{n:02}": {"sessions": ["swp1"]} for n in range(8)})
    now, most, lock = set(), [0], threading.Lock()
    for switch in made.values():

        def commit(confirm_s, switch=switch):
            with lock:
                now.add(switch.name)
                most[0] = max(most[0], len(now))
            switch.running = "new"
            with lock:
                now.discard(switch.name)

        switch.commit = commit
    push(wanted, workers=2, neighbours_s=1)
    assert most[0] <= 2


def test_targets_come_from_the_plan_with_address_mac_and_neighbours(tmp_path):
    shutil.copytree(site_dir("lab"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "site.yaml"
    path.write_text(path.read_text().replace("/var/lib/bringup/labs/lab/", ""))
    (tmp_path / "secrets").mkdir()
    for name in ("secrets/ssh_ed25519", "known_hosts"):
        (tmp_path / name).write_text("made for a test\n")
    site = load_site(path)
    found = {t.name: t for t in targets(build(site), load_assets(site))}
    assert len(found) == 6
    leaf = found["leaf01"]
    assert (leaf.mgmt_mac, leaf.neighbours) == ("02:42:10:00:03:01", {"swp1": "spine01", "swp2": "spine02"})
    assert leaf.address.startswith("10.77.0.")
    assert "hostname leaf01" in leaf.config


@pytest.mark.parametrize("password", [True, False])
def test_targets_of_compute_switches_log_in_as_their_system_asks(tmp_path, password):
    text = (site_dir("b200-256-roce") / "site.yaml").read_text().replace("~/.ssh/", "")
    if password:
        text = text.replace("switch: {user: netops,", 'switch: {user: netops, password: "file:password", ca: ca.pem,')
    for name in ("id_ed25519", "known_hosts", "password", "ca.pem"):
        (tmp_path / name).write_text("made for a test\n")
    (tmp_path / "site.yaml").write_text(text)
    plan = build(load_site(tmp_path / "site.yaml"))
    if not password:
        with pytest.raises(SecretError, match="credentials.switch: no password and ca"):
            compute_targets(plan)
        return
    (leaf,) = compute_targets(plan, only=["rol001"])
    assert leaf.credentials == HttpsCredentials("netops", "made for a test", tmp_path / "ca.pem")
    assert "made for a test" not in repr(leaf)
    assert set(leaf.neighbours.values()) == {"ros001", "ros002"}
    assert "hostname: rol001" in leaf.config
    assert untested("cumulus") == "never run on a device"
    assert untested("frr") == ""


def test_a_switch_is_reached_at_the_management_port_of_its_model(tmp_path):
    text = (site_dir("b200-256-roce") / "site.yaml").read_text().replace("~/.ssh/", "")
    text = text.replace("switch: {user: netops,", 'switch: {user: netops, password: "file:password", ca: ca.pem,')
    for name in ("id_ed25519", "known_hosts", "password", "ca.pem"):
        (tmp_path / name).write_text("made for a test\n")
    (tmp_path / "site.yaml").write_text(text)
    plan = build(changed(str(tmp_path), list(dual_stack.ARISTA)))
    found = {target.name: target.address for target in compute_targets(plan)}
    rows = plan.addresses[(plan.addresses["network"] == "oob") & plan.addresses["device"].isin(found)]
    assert set(rows["interface"]) == {"Management1"}
    assert found == {
        name: text.partition("/")[0] for name, text in rows[["device", "address"]].itertuples(index=False, name=None)
    }


def test_a_session_that_does_not_come_back_rolls_back(fabric):
    wanted, made, _ = fabric(
        {"leaf01": {"sessions": ["swp1", "swp2"], "after": {"swp1": "Active", "swp2": "Established"}}}
    )
    (pushed,) = push(wanted, neighbours_s=0, kept_s=0.1)
    assert pushed.result == "rolled-back"
    assert "sessions down on swp1" in pushed.note
    assert made["leaf01"].running == ""


def test_a_session_that_the_new_configuration_drops_is_no_loss(fabric):
    wanted, _, _ = fabric({"leaf01": {"sessions": ["swp1"], "after": {}}})
    assert results(push(wanted, neighbours_s=0, kept_s=0.1)) == {"leaf01": "applied"}


def test_sessions_are_not_looked_at_unless_asked(fabric):
    wanted, _, _ = fabric({"leaf01": {"sessions": ["swp1"], "after": {"swp1": "Active"}}})
    assert results(push(wanted, neighbours_s=0)) == {"leaf01": "applied"}


@pytest.mark.parametrize(("config", "expected"), [("+ table inet bringup / input", "rolled-back"), ("new", "applied")])
def test_sessions_are_looked_at_when_one_that_a_new_filter_cut_is_down(fabric, monkeypatch, config, expected):
    """Until its hold time is over a session says Established, though nothing passes."""
    wanted, made, _ = fabric({"leaf01": {"sessions": ("swp1",)}})
    now = [0.0]
    monkeypatch.setattr("network.push.time.monotonic", lambda: now[0])
    monkeypatch.setattr("network.push.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    leaf = made["leaf01"]
    monkeypatch.setattr(leaf, "compare", lambda given: "" if leaf.running == "new" else config)
    monkeypatch.setattr(leaf, "neighbours", lambda: {"swp1": "Idle" if now[0] > 9 else "Established"})
    (pushed,) = push(wanted, neighbours_s=0, kept_s=0.5)
    assert pushed.result == expected, pushed.note
