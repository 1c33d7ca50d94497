"""Evidence mode: unproven by default, simulated by declaration, real only by independent agreement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.validation.bench import identity, proven, simulated
from validation.evidence import Identity, classify
from validation.evidence.mode import STRENGTH, declares_simulation

DEVICES = st.sampled_from(["leaf01", "gpu001", "pdu-r01-a"])
CHANNELS = st.sampled_from(["ssh", "os-release", "redfish", "snmp", "lldp", "nvml", "guid", "made-up"])
TEXTS = st.sampled_from(["", "APC rPDU2", "SIMULATED by bringup lab", "Dell Inc.", "VARIANT_ID=simulated"])
SERIALS = st.sampled_from(["", "SN-1", "SN-2"])
IDENTITIES = st.builds(Identity, DEVICES, CHANNELS, TEXTS, SERIALS)


def test_nothing_touched_is_unproven() -> None:
    assert classify([]) == "unproven"


def test_a_device_without_marker_is_unproven() -> None:
    assert classify([identity("leaf01", text="Debian GNU/Linux 12", serial="SN-1")]) == "unproven"


@pytest.mark.parametrize(
    ("channel", "text"),
    [
        ("snmp", "APC Web/SNMP Management Card SIMULATED by bringup lab"),
        ("redfish", "SIMULATED (bringup lab)"),
        ("ssh", "SIMULATED by bringup lab\n"),
        ("nvml", "NVIDIA H100 80GB HBM3 (SIMULATED)"),
        ("ssh", 'NAME="Debian"\nVARIANT_ID=simulated\nID=debian'),
        ("os-release", 'VARIANT_ID="simulated"'),
        ("guid", "0x02420a0003000001"),
    ],
)
def test_a_device_that_declares_itself_is_simulated(channel: str, text: str) -> None:
    assert classify([identity("dev", channel=channel, text=text)]) == "simulated"


@pytest.mark.parametrize(
    ("channel", "text"),
    [
        ("ssh", "we never ran DISSIMULATEDLY"),
        ("ssh", "NAME=VARIANT_ID=simulated-not"),
        ("guid", "0xb8599f0300a1b2c3"),
        ("guid", "506b4b0300c0ffee"),
        ("ssh", "02420a0003000001"),
    ],
)
def test_what_only_looks_like_a_marker_is_none(channel: str, text: str) -> None:
    assert not declares_simulation(identity("dev", channel=channel, text=text))


def test_three_independent_channels_that_agree_are_real() -> None:
    assert classify(proven("leaf01")) == "real"


def test_two_channels_are_not_enough() -> None:
    assert classify(proven("leaf01")[:2]) == "unproven"


def test_channels_of_one_path_count_once() -> None:
    same_path = [identity("gpu001", channel=c, serial="SN-1") for c in ("ssh", "os-release", "dmi", "redfish")]
    assert classify(same_path) == "unproven"


def test_an_unknown_channel_does_not_count() -> None:
    assert classify([*proven("leaf01")[:2], identity("leaf01", channel="hearsay", serial="SN-leaf01")]) == "unproven"


def test_a_channel_that_disagrees_spoils_the_others() -> None:
    assert classify([*proven("leaf01"), identity("leaf01", channel="snmp", serial="another")]) == "unproven"


def test_channels_that_read_different_identifiers_agree_through_the_inventory() -> None:
    told = [
        identity("gpu001", channel="redfish", serial="SN-77"),
        identity("gpu001", channel="ssh", serial="D9C71CCA-32B0"),
        identity("gpu001", channel="guid", serial="b8599f0300a1b2c3"),
    ]
    known = {"gpu001": ("SN-77", "d9c71cca-32b0", "b8599f0300a1b2c3")}
    assert classify(told) == "unproven"
    assert classify(told, aliases=known) == "real"
    assert classify(told, aliases={"gpu001": ("SN-78", *known["gpu001"][1:])}) == "unproven"


def test_a_marker_outweighs_agreement() -> None:
    assert classify([*proven("leaf01"), *simulated("leaf01")]) == "simulated"


def test_the_weakest_device_decides() -> None:
    assert classify([*proven("leaf01"), *simulated("leaf02")]) == "simulated"
    assert classify([*simulated("leaf01"), identity("leaf02")]) == "unproven"


def test_a_device_whose_marker_was_stripped_makes_the_record_unproven() -> None:
    assert classify([*simulated("leaf01"), identity("leaf02", text="Debian")]) == "unproven"


def test_a_recording_of_real_devices_is_replayed() -> None:
    assert classify(proven("leaf01"), replayed=True) == "replayed"


def test_a_recording_of_a_simulator_stays_simulated() -> None:
    assert classify(simulated("leaf01"), replayed=True) == "simulated"


@given(st.lists(IDENTITIES, max_size=8), IDENTITIES)
def test_touching_another_device_never_makes_the_mode_stronger(found: list[Identity], extra: Identity) -> None:
    other = Identity("another", extra.channel, extra.text, extra.serial)
    if found:
        assert STRENGTH[classify([*found, other])] <= STRENGTH[classify(found)]


@given(st.lists(IDENTITIES, min_size=1, max_size=8), IDENTITIES)
def test_without_a_marker_one_more_word_never_leads_to_simulated(found: list[Identity], extra: Identity) -> None:
    if not any(declares_simulation(i) for i in [*found, extra]):
        assert classify([*found, extra]) in ("unproven", "real")


@given(st.lists(IDENTITIES, min_size=1, max_size=8))
def test_real_needs_three_channels_of_each_device_and_no_marker(found: list[Identity]) -> None:
    if classify(found) == "real":
        for device in {i.device for i in found}:
            told = [i for i in found if i.device == device]
            assert len({i.channel for i in told if i.serial}) >= 3
            assert len({i.serial for i in told if i.serial}) == 1
            assert not any(declares_simulation(i) for i in told)


@given(st.lists(IDENTITIES, max_size=8))
def test_a_recording_is_never_stronger_than_the_original(found: list[Identity]) -> None:
    assert STRENGTH[classify(found, replayed=True)] <= min(STRENGTH[classify(found)], STRENGTH["replayed"])


@given(st.lists(IDENTITIES, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_identities_does_not_matter(found: list[Identity], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert classify(shuffled) == classify(found)
