import pytest

from infra.provider.fleet import Reach
from infra.provider.switches import SwitchConfig, seen_from_intent
from network.drivers.errors import IdentityMismatch, PushRefused, PushRolledBack, Unreachable

CONFIG = "hostname leaf01\nrouter bgp 65102\n"


class FakeSwitch:
    """A switch whose configuration is a list of lines, with BGP sessions that may not come back after a push."""

    def __init__(self):
        self.running = ["hostname leaf01"]
        self.mac = "02:00:00:00:00:01"
        self.silent = self.refuses = self.loses_sessions = False
        self.sessions = {"swp1": "Established"}
        self.is_saved = True
        self.calls = []
        self.staged, self.previous = [], []

    def connect(self):
        self.calls.append("connect")

    def close(self):
        """Nothing to give back."""

    def facts(self):
        self._answer()
        return type("Facts", (), {"mgmt_mac": self.mac})()

    def compare(self, config):
        self._answer()
        wanted = config.splitlines()
        return "\n".join([f"- {line}" for line in self.running if line not in wanted]
                         + [f"+ {line}" for line in wanted if line not in self.running])

    def neighbours(self):
        return dict(self.sessions)

    def saved(self):
        return self.is_saved

    def load(self, config):
        self._answer()
        if self.refuses:
            raise PushRefused("leaf01", "check configuration", "a valid line", "unknown command", "nothing changed")
        self.staged = config.splitlines()
        return self.compare(config)

    def commit(self, confirm_s):
        self.calls.append(f"commit {confirm_s}")
        self.previous, self.running = self.running, self.staged
        if self.loses_sessions:
            self.sessions = {"swp1": "Active"}

    def confirm(self):
        self.calls.append("confirm")
        self.is_saved = True

    def rollback(self):
        self.calls.append("rollback")
        self.running = self.previous

    def save(self):
        self.calls.append("save")
        self.is_saved = True

    def _answer(self):
        if self.silent:
            raise Unreachable("leaf01", "connect", "an SSH server", "nothing", "check its cable")


@pytest.fixture
def switch():
    return FakeSwitch()


@pytest.fixture
def kind(sites, switch):
    return SwitchConfig(sites, Reach(), lambda credentials, inputs: switch)


@pytest.fixture
def inputs(site_file):
    return {"site": str(site_file), "switch": "leaf01", "nos": "frr", "address": "192.0.2.13",
            "mgmt_mac": "02:00:00:00:00:01", "config": CONFIG, "drift": []}


def test_push_is_confirmed_over_a_new_connection(kind, switch, inputs):
    applied = kind.apply(inputs, None)
    assert switch.calls == ["commit 60", "connect", "confirm"]
    assert applied.state["pushed"] == ["+ router bgp 65102"]
    assert applied.changed == ["leaf01 + router bgp 65102"]


def test_second_push_changes_nothing(kind, switch, inputs):
    kind.apply(inputs, None)
    switch.calls.clear()
    assert kind.apply(inputs, None).changed == []
    assert switch.calls == []


def test_what_a_killed_push_left_unsaved_is_saved(kind, switch, inputs):
    kind.apply(inputs, None)
    switch.is_saved = False
    switch.calls.clear()
    kind.apply(inputs, None)
    assert switch.calls == ["save"]


def test_a_push_that_loses_a_session_is_rolled_back(kind, switch, inputs, site_file):
    site_file.write_text(site_file.read_text().replace("rollback_s: {value: 60,", "rollback_s: {value: 20,"))
    switch.loses_sessions = True
    with pytest.raises(PushRolledBack, match="leaf01: keep BGP sessions: .* swp1 down"):
        kind.apply(inputs, None)
    assert switch.calls[-1] == "rollback"
    assert switch.running == ["hostname leaf01"]


def test_a_session_that_the_new_configuration_drops_is_no_loss(kind, switch, inputs):
    switch.commit = lambda confirm_s: switch.sessions.clear()
    kind.apply(inputs, None)
    assert "confirm" in switch.calls


def test_a_refused_configuration_is_the_drivers_error(kind, switch, inputs):
    switch.refuses = True
    with pytest.raises(PushRefused):
        kind.apply(inputs, None)


def test_read_without_drift_is_the_state(kind, inputs):
    state = kind.apply(inputs, None).state
    assert kind.read(state).state == state


def test_read_shows_lines_changed_by_hand(kind, switch, inputs):
    state = kind.apply(inputs, None).state
    switch.running = ["hostname leaf01", "ip route 10.9.0.0/16 Null0"]
    assert kind.read(state).state["drift"] == ["+ ip route 10.9.0.0/16 Null0", "- router bgp 65102"]


def test_read_of_another_device_is_named(kind, switch, inputs):
    state = kind.apply(inputs, None).state
    switch.mac = "02:00:00:00:00:99"
    assert kind.read(state).failures[0].startswith("leaf01: compare identity")


def test_read_of_a_silent_switch_keeps_its_state_and_names_it(kind, switch, inputs):
    state = kind.apply(inputs, None).state
    switch.silent = True
    observed = kind.read(state)
    assert (observed.state, observed.failures[0][:16]) == (state, "leaf01: connect:")


def test_preview_shows_the_switchs_own_lines(kind, inputs):
    assert kind.preview(inputs, None) == ["leaf01 + router bgp 65102"]


def test_preview_of_a_silent_switch_says_so(kind, switch, inputs):
    switch.silent = True
    assert kind.preview(inputs, None)[0].startswith("not reachable, the whole configuration will be pushed: leaf01")


def test_delete_puts_the_factory_configuration_back(kind, switch, inputs):
    assert kind.delete(kind.apply(inputs, None).state) == []
    assert switch.running == ["frr defaults datacenter", "hostname leaf01", "service integrated-vtysh-config", "!"]


def test_delete_names_a_switch_that_does_not_answer(kind, switch, inputs):
    state = kind.apply(inputs, None).state
    switch.silent = True
    assert kind.delete(state)[0].startswith("leaf01: connect")


@pytest.mark.parametrize(("change", "prop"), [({"nos": "os9"}, "nos"), ({"config": " \n"}, "config"),
                                              ({"drift": ["+ x"]}, "drift")])
def test_check_names_the_property_that_cannot_be(kind, inputs, change, prop):
    assert [name for name, _ in kind.check(inputs | change)] == [prop]


def test_drift_turns_the_drivers_signs():
    assert seen_from_intent("- ip route 10.9.0.0/16 Null0\n+ router bgp 1") == [
        "+ ip route 10.9.0.0/16 Null0", "- router bgp 1"]


def test_an_identity_error_on_push_writes_nothing(kind, switch, inputs):
    def load(config):
        raise IdentityMismatch("leaf01", "compare identity", "mac A", "mac B", "find the device")

    switch.load = load
    with pytest.raises(IdentityMismatch):
        kind.apply(inputs, None)
    assert switch.calls == []
