import pytest

from infra.provider.fleet import Reach
from infra.provider.resource import RefusedError
from infra.provider.switches import SwitchConfig, seen_from_intent
from network.drivers.errors import PushRolledBack, Unreachable
from network.push import DevicePush

CONFIG = "hostname leaf01\nrouter bgp 65102\n"


class FakeSwitch:
    """A switch whose configuration is a list of lines; `push` answers as network.push does."""

    def __init__(self):
        self.running = ["hostname leaf01"]
        self.mac = "02:00:00:00:00:01"
        self.silent = False
        self.refusal = None
        self.pushes = []

    def close(self):
        """Nothing to give back."""

    def facts(self):
        self._answer()
        return type("Facts", (), {"mgmt_mac": self.mac})()

    def compare(self, config):
        self._answer()
        wanted = config.splitlines()
        return "\n".join(
            [f"- {line}" for line in self.running if line not in wanted]
            + [f"+ {line}" for line in wanted if line not in self.running]
        )

    def push(self, target, os_name, kept_s):
        self.pushes.append((target.name, target.mgmt_mac, os_name, kept_s))
        try:
            difference = self.compare(target.config)
        except Unreachable as error:
            return DevicePush("leaf01", "unreachable", note=str(error), error=error)
        if self.refusal:
            return self.refusal
        self.running = target.config.splitlines()
        return DevicePush("leaf01", "applied" if difference else "no-change", difference)

    def _answer(self):
        if self.silent:
            raise Unreachable("leaf01", "connect", "an SSH server", "nothing", "check its cable")


@pytest.fixture
def switch():
    return FakeSwitch()


@pytest.fixture
def kind(sites, switch):
    return SwitchConfig(sites, Reach(), lambda credentials, inputs: switch, switch.push)


@pytest.fixture
def inputs(site_file):
    return {
        "site": str(site_file),
        "switch": "leaf01",
        "nos": "frr",
        "address": "192.0.2.13",
        "mgmt_mac": "02:00:00:00:00:01",
        "config": CONFIG,
        "drift": [],
    }


def test_push_goes_to_the_planned_switch_and_keeps_its_sessions(kind, switch, inputs):
    applied = kind.apply(inputs, None)
    assert switch.pushes == [("leaf01", "02:00:00:00:00:01", "frr", 60)]  # 60 s: the site's limit bgp_converge_s
    assert applied.state["pushed"] == ["+ router bgp 65102"]
    assert applied.changed == ["leaf01 + router bgp 65102"]


def test_second_push_changes_nothing(kind, inputs):
    kind.apply(inputs, None)
    assert kind.apply(inputs, None).changed == []


def test_a_push_that_was_rolled_back_says_so_and_keeps_no_state(kind, switch, inputs):
    error = PushRolledBack("leaf01", "judge configuration", "its sessions", "sessions down on swp1", "check the cables")
    switch.refusal = DevicePush("leaf01", "rolled-back", note=str(error), error=error)
    with pytest.raises(RefusedError) as refused:
        kind.apply(inputs, None)
    assert str(refused.value) == str(error)


def test_a_switch_that_was_lost_says_what_its_timer_did(kind, switch, inputs):
    error = Unreachable("leaf01", "connect", "an SSH server", "nothing", "check its cable")
    switch.refusal = DevicePush("leaf01", "rolled-back", note="its own timer put the earlier one back", error=error)
    with pytest.raises(
        RefusedError, match=r"leaf01: connect: .* check its cable; its own timer put the earlier one back"
    ):
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


@pytest.mark.parametrize(
    ("change", "prop"), [({"nos": "os9"}, "nos"), ({"config": " \n"}, "config"), ({"drift": ["+ x"]}, "drift")]
)
def test_check_names_the_property_that_cannot_be(kind, inputs, change, prop):
    assert [name for name, _ in kind.check(inputs | change)] == [prop]


def test_drift_turns_the_drivers_signs():
    assert seen_from_intent(["- ip route 10.9.0.0/16 Null0", "+ router bgp 1"]) == [
        "+ ip route 10.9.0.0/16 Null0",
        "- router bgp 1",
    ]
