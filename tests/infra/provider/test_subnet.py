import pytest

from infra.provider.fleet import Reach
from infra.provider.provider import input_differences
from infra.provider.subnet import SubnetManager
from network.drivers.errors import PushIncomplete, Unreachable
from network.infiniband.manager import Wanted, differences
from network.infiniband.subnet import CONFIG, PACKAGES, UNIT, UNIT_FILE

FILES = {CONFIG: "sm_priority 15\nrouting_engine ftree,updn\n", UNIT_FILE: "[Service]\nExecStart=opensm\n"}
GUID = "02420a0003008301"


class FakeHost:
    """A host as its on_host.py answers: files, unit, packages, and a manager that runs on what it was started with."""

    def __init__(self):
        self.files, self.active, self.packages, self.newer = {}, False, {}, []
        self.silent, self.refusal, self.starts = False, None, 0

    def state(self):
        if self.silent:
            raise Unreachable("mgm01", "read", "an SSH server", "nothing", "check its power")
        return {
            "files": dict(self.files),
            "newer": list(self.newer),
            "unit": {"active": "active" if self.active else "inactive", "enabled": "enabled" if self.active else ""},
            "packages": dict(self.packages),
            "manager": {"own": "SMINFO_MASTER" if self.active else ""},
        }

    def compare(self, wanted):
        return differences(wanted, self.state())

    def apply(self, wanted):
        changes = self.compare(wanted)
        if self.refusal:
            raise self.refusal
        if changes:
            self.files, self.active, self.newer = dict(wanted.files), True, []
            self.packages = {name: f"{wanted.pins.get(name, '1.0')}-2" for name in PACKAGES}
            self.starts += 1
        return changes

    def remove(self):
        self.state()
        self.files, self.active = {}, False


@pytest.fixture
def host():
    return FakeHost()


@pytest.fixture
def kind(sites, host):
    return SubnetManager(sites, Reach(), lambda credentials, inputs, budget_s: host)


@pytest.fixture
def inputs(site_file):
    return {
        "site": str(site_file),
        "host": "mgm01",
        "address": "192.0.2.7",
        "guid": GUID,
        "files": FILES,
        "pins": {"opensm": "3.3.23"},
        "ready_s": 0,
        "drift": [],
    }


def test_first_push_installs_writes_and_starts(kind, host, inputs):
    applied = kind.apply(inputs, None)
    assert host.active
    assert host.files == FILES
    assert "~ package opensm: missing => 3.3.23" in applied.state["pushed"]
    assert f"+ {CONFIG}: sm_priority 15" in applied.state["pushed"]
    assert applied.changed == [f"mgm01 {text}" for text in applied.state["pushed"]]


def test_second_push_changes_nothing_and_restarts_nothing(kind, host, inputs):
    kind.apply(inputs, None)
    assert kind.apply(inputs, None).changed == []
    assert host.starts == 1


def test_preview_shows_the_hosts_own_difference(kind, host, inputs):
    kind.apply(inputs, None)
    wanted = inputs | {"files": FILES | {CONFIG: "sm_priority 14\nrouting_engine ftree,updn\n"}}
    assert kind.preview(wanted, inputs) == [f"mgm01 - {CONFIG}: sm_priority 15", f"mgm01 + {CONFIG}: sm_priority 14"]


def test_preview_of_a_silent_host_says_so_and_does_not_fail(kind, host, inputs):
    host.silent = True
    (text,) = kind.preview(inputs, None)
    assert text.startswith("not reachable, a subnet manager will be set up: mgm01: read:")


@pytest.mark.parametrize(
    ("change", "drift"),
    [
        (lambda host: host.files.update({CONFIG: FILES[CONFIG] + "max_op_vls 1\n"}), [f"- {CONFIG}: max_op_vls 1"]),
        (lambda host: host.newer.append(CONFIG), [f"~ {UNIT}: runs with older files than {CONFIG} => restarted"]),
        (lambda host: host.packages.update(opensm="3.3.24-1"), ["~ package opensm: 3.3.24-1 => 3.3.23"]),
    ],
)
def test_refresh_finds_what_was_changed_by_hand_and_up_mends_it(kind, host, inputs, change, drift):
    state = kind.apply(inputs, None).state
    change(host)
    seen = kind.read(state).state
    assert seen["drift"] == drift
    assert [difference.path for difference in input_differences(kind, seen, inputs)] == ["drift"]
    kind.apply(inputs, seen)
    assert kind.read(state).state["drift"] == []


def test_refresh_of_a_stopped_manager_finds_it(kind, host, inputs):
    state = kind.apply(inputs, None).state
    host.active = False
    assert f"~ {UNIT}: inactive => active" in kind.read(state).state["drift"]


def test_refresh_of_a_silent_host_keeps_the_state_and_names_it(kind, host, inputs):
    state = kind.apply(inputs, None).state
    host.silent = True
    observed = kind.read(state)
    assert observed.state == state
    assert observed.failures[0].startswith("mgm01: read:")


def test_a_manager_that_does_not_come_up_is_an_error_of_its_host(kind, host, inputs):
    host.refusal = PushIncomplete("mgm01", "subnet manager: apply", "success", "neither master nor standby", "mend it")
    with pytest.raises(PushIncomplete, match="mgm01: subnet manager: apply"):
        kind.apply(inputs, None)


def test_delete_leaves_no_manager(kind, host, inputs):
    state = kind.apply(inputs, None).state
    assert kind.delete(state) == []
    assert not host.active
    assert host.files == {}


def test_delete_on_a_silent_host_says_so(kind, host, inputs):
    state = kind.apply(inputs, None).state
    host.silent = True
    assert kind.delete(state)[0].startswith("mgm01: read:")


@pytest.mark.parametrize(("key", "value"), [("files", {}), ("guid", ""), ("drift", ["+ a line"])])
def test_what_cannot_be_applied_is_refused(kind, inputs, key, value):
    assert [name for name, _ in kind.check(inputs | {key: value})] == [key]


def test_a_manager_that_runs_without_answering_is_restarted():
    wanted = Wanted(GUID, {})
    state = {
        "packages": dict.fromkeys(PACKAGES, "1-1"),
        "files": {},
        "newer": [],
        "unit": {"active": "active", "enabled": "enabled"},
        "manager": {"own": ""},
    }
    assert differences(wanted, state) == [f"~ {UNIT}: runs and is neither master nor standby => restarted"]
