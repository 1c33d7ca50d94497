"""Evidence mode: unproven by default, simulated by declaration, real only by independent agreement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.validation.bench import ASSETS, KINDS, MACS, identity, mode_of, proven, simulated
from validation.evidence import Identity, classify
from validation.evidence.mode import STRENGTH, declares_simulation

DEVICES = st.sampled_from(["leaf01", "gpu001", "pdu-r01-a"])
CHANNELS = st.sampled_from(["ssh", "os-release", "redfish", "snmp", "lldp", "nvml", "guid", "made-up"])
TEXTS = st.sampled_from(["", "APC rPDU2", "SIMULATED by bringup lab", "Dell Inc.", "VARIANT_ID=simulated"])
SERIALS = st.sampled_from(["", "SN-1", "SN-leaf01", MACS["leaf01"], "SN-gpu001", MACS["gpu001"]])
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
        ("snmp", "APC card Simulated by somebody"),
        ("redfish", "\uff33\uff29\uff2d\uff35\uff2c\uff21\uff34\uff25\uff24"),
        ("redfish", "SIMU\u200bLA\u2060TED"),
        ("ssh", "S I M U L A T E D"),
        ("os-release", "variant_id =  Simulated"),
        ("nvml", "H100 \u00a0(SIMU\u00adLATED)"),
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
    assert mode_of(proven("leaf01")) == "real"
    assert classify(proven("leaf01")) == "unproven", "no record is real by itself"


@pytest.mark.parametrize("device", ["gpu001", "leaf01", "pdu-r01-a"])
def test_two_channels_are_not_enough(device: str) -> None:
    assert mode_of(proven(device)) == "real"
    for left_out in proven(device):
        assert mode_of([one for one in proven(device) if one != left_out]) == "unproven"


def test_channels_of_one_path_count_once() -> None:
    redfish, signed, _ = proven("gpu001")
    same_path = [identity("gpu001", channel=c, serial="SN-gpu001", enrolled="pinned") for c in ("ssh", "dmi")]
    assert mode_of([redfish, signed, *same_path]) == "unproven"


def test_an_unknown_channel_does_not_count() -> None:
    assert mode_of([*proven("leaf01")[:2], identity("leaf01", channel="hearsay", serial="SN-leaf01")]) == "unproven"


def test_a_channel_that_disagrees_spoils_the_others() -> None:
    assert mode_of([*proven("leaf01"), identity("leaf01", channel="snmp", serial="another")]) == "unproven"


def test_channels_that_read_different_identifiers_agree_through_the_inventory() -> None:
    redfish, signed, _ = proven("gpu001")
    told = [redfish, signed, identity("gpu001:ib0", channel="guid", serial="B8599F0300A1B2C3", enrolled="pinned")]
    assert mode_of(told) == "unproven"
    assert mode_of(told, identifiers={**ASSETS, "gpu001:ib0": ("SN-CA", "b8599f0300a1b2c3")}) == "real"
    assert mode_of(told, identifiers={**ASSETS, "gpu001:ib0": ("SN-CA", "b8599f0300a1b2c4")}) == "unproven"


def test_a_marker_outweighs_agreement() -> None:
    assert mode_of([*proven("leaf01"), *simulated("leaf01")]) == "simulated"


def test_the_weakest_device_decides() -> None:
    assert mode_of([*proven("leaf01"), *simulated("leaf02")]) == "unproven"
    assert mode_of([*simulated("leaf01"), identity("leaf02")]) == "unproven"


def test_a_device_whose_marker_was_stripped_makes_the_record_unproven() -> None:
    assert mode_of([*simulated("leaf01"), identity("leaf02", text="Debian")]) == "unproven"


def test_a_recording_of_real_devices_is_replayed() -> None:
    """It is never stronger than replayed, and as a record alone proves nothing."""
    assert STRENGTH[classify(proven("leaf01"), replayed=True)] <= STRENGTH["replayed"]


def test_a_recording_of_a_simulator_stays_simulated() -> None:
    assert classify(simulated("leaf01"), replayed=True) == "simulated"


@given(st.lists(IDENTITIES, max_size=8), IDENTITIES)
def test_touching_another_device_never_makes_the_mode_stronger(found: list[Identity], extra: Identity) -> None:
    other = Identity("another", extra.channel, extra.text, extra.serial)
    if found:
        assert STRENGTH[mode_of([*found, other])] <= STRENGTH[mode_of(found)]


@given(st.lists(IDENTITIES, min_size=1, max_size=8), IDENTITIES)
def test_without_a_marker_one_more_word_never_leads_to_simulated(found: list[Identity], extra: Identity) -> None:
    if not any(declares_simulation(i) for i in [*found, extra]):
        assert mode_of([*found, extra]) in ("unproven", "real")


@given(st.lists(IDENTITIES, max_size=8), st.sampled_from(sorted(KINDS)))
def test_real_needs_three_channels_of_each_device_and_no_marker(found: list[Identity], device: str) -> None:
    given = [*proven(device), *found]
    if mode_of(given) == "real":
        for name in {i.device for i in given}:
            told = [i for i in given if i.device == name]
            assert len({(i.channel, i.observer) for i in told if i.serial}) >= 3
            assert not any(declares_simulation(i) for i in told)


@given(st.lists(IDENTITIES, max_size=8))
def test_a_recording_is_never_stronger_than_the_original(found: list[Identity]) -> None:
    assert STRENGTH[classify(found, replayed=True)] <= min(STRENGTH[classify(found)], STRENGTH["replayed"])


@given(st.lists(IDENTITIES, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_identities_does_not_matter(found: list[Identity], random: object) -> None:
    given = [*proven("leaf01"), *found]
    shuffled = list(given)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert mode_of(shuffled) == mode_of(given)
