"""Attacks on the ledger of channels: what looks like three independent channels and is not."""

import dataclasses
import os
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tests.validation.bench import (
    ASSETS,
    HOST_KEYS,
    KINDS,
    MACS,
    NOW,
    STORE,
    answered,
    mode_of,
    proven,
    public_of,
    seen_by,
    signature,
)
from validation.evidence import Entry, Identity, Record
from validation.evidence.channels import NONCE_AGE, WINDOW, Ledger, _Timeline, challenge
from validation.evidence.sshsig import MAX_SIGNATURE, pinned_keys, read_pinned, verifies

REDFISH, SIGNED, SEEN = proven("gpu001")
THEN = NOW - timedelta(hours=1)


def signed_at(
    at: datetime, *, site: str = "lab", device: str = "gpu001", key: Ed25519PrivateKey | None = None
) -> Identity:
    message = challenge(site, STORE, device, at)
    made = signature(message, key) if key else signature(message)
    return dataclasses.replace(SIGNED, message=message, signature=made)


def entry(line: int, *identities: Identity, **changes: Any) -> Entry:
    given: dict[str, Any] = {"started": THEN, "ended": THEN, **changes}
    made = Record("S062", "measured", "lab", "PASSED", tool="t", tool_version="1", identities=identities, **given)
    return Entry(made, frozenset(), line, made.mode)


def ledger(*entries: Entry) -> Ledger:
    return Ledger(entries, kinds=KINDS, identifiers=ASSETS, host_keys=HOST_KEYS, site="lab", store=STORE)


def test_channels_of_several_records_prove_a_device_together() -> None:
    kept = ledger(entry(1, REDFISH), entry(2, SIGNED), entry(3, SEEN))
    assert kept.doubt("gpu001", NOW) is None
    assert "2 of 3" in (ledger(entry(1, REDFISH), entry(2, SIGNED)).doubt("gpu001", NOW) or "")


@pytest.mark.parametrize("left_out", range(3))
def test_a_channel_of_another_asset_does_not_count(left_out: int) -> None:
    others = [dataclasses.replace(one, device="gpu002") for one in proven("gpu001")]
    given = [
        other if n == left_out else one for n, (one, other) in enumerate(zip(proven("gpu001"), others, strict=True))
    ]
    assert ledger(entry(1, *given)).doubt("gpu001", NOW) is not None


@pytest.mark.parametrize(
    "name", [{"channel": "ipmi"}, {"channel": "nvml"}, {"channel": "snmp"}, {"channel": "guid"}, {"channel": "lldp"}]
)
def test_a_channel_under_two_names_counts_once(name: dict[str, str]) -> None:
    again = dataclasses.replace(
        REDFISH, enrolled="pinned", observer="leaf01" if name["channel"] == "lldp" else "", **name
    )
    assert mode_of([REDFISH, SIGNED, again]) == "unproven"


def test_one_neighbour_counts_once_whatever_it_saw_the_switch_by() -> None:
    signed, first, second = proven("leaf01")
    assert mode_of([signed, first, second]) == "real"
    assert mode_of([signed, first, seen_by(first.observer, "leaf01", "fdb")]) == "unproven"
    assert mode_of([signed, first, seen_by(f"{first.observer}:swp1", "leaf01", "fdb")]) == "unproven"


@pytest.mark.parametrize("observer", ["", "leaf01", "stranger"])
def test_an_observer_is_another_device_of_the_plan(observer: str) -> None:
    signed, first, _ = proven("leaf01")
    assert mode_of([signed, first, dataclasses.replace(first, observer=observer)]) == "unproven"


def test_a_serial_that_is_not_in_the_asset_list_spoils_the_others() -> None:
    wrong = dataclasses.replace(REDFISH, serial="SN-other")
    assert "does not list" in (ledger(entry(1, *proven("gpu001")), entry(2, wrong)).doubt("gpu001", NOW) or "")
    assert ledger(entry(1, wrong), entry(2, *proven("gpu001"))).doubt("gpu001", NOW) is None, "the later one decides"


def test_a_changed_or_removed_asset_list_proves_nothing() -> None:
    assert mode_of(proven("gpu001"), identifiers={}) == "unproven"
    assert mode_of(proven("gpu001"), identifiers={"gpu001": ("SN-new", MACS["gpu001"])}) == "unproven"


def test_a_device_outside_the_plan_is_never_real() -> None:
    strangers = [dataclasses.replace(one, device="gpu009") for one in proven("gpu001")]
    assert mode_of(strangers, identifiers={**ASSETS, "gpu009": ASSETS["gpu001"]}) == "unproven"


def test_a_challenge_counts_once_in_the_log() -> None:
    old = answered("gpu001")
    kept = ledger(
        entry(1, old, ended=THEN - WINDOW, started=THEN - WINDOW), entry(2, *proven("gpu001")), entry(3, REDFISH, SEEN)
    )
    assert kept.doubt("gpu001", NOW) is None, "line 1 is older than its challenge and does not use it up"
    again = ledger(entry(1, old), entry(2, REDFISH, SEEN, old, started=THEN + NONCE_AGE, ended=THEN + NONCE_AGE))
    assert again.doubt("gpu001", THEN + NONCE_AGE + WINDOW) is not None


@pytest.mark.parametrize("age", [NONCE_AGE + timedelta(seconds=1), -timedelta(minutes=6)])
def test_a_replayed_or_dated_ahead_challenge_does_not_count(age: timedelta) -> None:
    assert ledger(entry(1, REDFISH, SEEN, signed_at(THEN - age))).doubt("gpu001", NOW) is not None


def test_a_challenge_of_another_site_or_device_does_not_count() -> None:
    assert ledger(entry(1, REDFISH, SEEN, signed_at(THEN))).doubt("gpu001", NOW) is None
    assert ledger(entry(1, REDFISH, SEEN, signed_at(THEN, site="other"))).doubt("gpu001", NOW) is not None
    assert ledger(entry(1, REDFISH, SEEN, signed_at(THEN, device="gpu002"))).doubt("gpu001", NOW) is not None


def test_a_challenge_signed_by_another_host_key_does_not_count() -> None:
    forged = signed_at(THEN, key=Ed25519PrivateKey.generate())
    assert ledger(entry(1, REDFISH, SEEN, forged)).doubt("gpu001", NOW) is not None


def test_a_key_of_first_use_does_not_count() -> None:
    first_use = [dataclasses.replace(one, enrolled="first-use") if one.enrolled else one for one in proven("gpu001")]
    assert mode_of(first_use) == "unproven"
    assert mode_of(proven("gpu001"), host_keys={}) == "unproven"


def test_a_recording_proves_nothing_in_the_ledger() -> None:
    assert ledger(entry(1, *proven("gpu001"), replayed=True)).doubt("gpu001", NOW) is not None


def test_channels_outside_the_window_do_not_count() -> None:
    assert ledger(entry(1, *proven("gpu001"))).doubt("gpu001", THEN + WINDOW) is None
    assert ledger(entry(1, *proven("gpu001"))).doubt("gpu001", THEN + WINDOW + timedelta(seconds=1)) is not None


@pytest.mark.parametrize(
    "text", ["", "no signature", "A" * (MAX_SIGNATURE + 1), "-----BEGIN SSH SIGNATURE-----\nU1NI\n"]
)
def test_what_is_no_signature_does_not_verify(text: str) -> None:
    assert not verifies(text, "message", "ns", HOST_KEYS["gpu001"])


def test_a_signature_holds_for_its_message_and_namespace_alone() -> None:
    keys = HOST_KEYS["gpu001"]
    made = signature("message", namespace="ns")
    assert verifies(made, "message", "ns", keys)
    assert not verifies(made, "other", "ns", keys)
    assert not verifies(made, "message", "file", keys)
    assert not verifies(made.replace("U1NIU0lH", "U1NIU0lI"), "message", "ns", keys)


def test_known_hosts_pins_plain_ed25519_keys() -> None:
    key = public_of(Ed25519PrivateKey.generate())
    text = f"""# comment
10.0.0.1,gpu001 ssh-ed25519 {key} written down at the factory
10.0.0.2 ssh-ed25519 {key} first-use
10.0.0.3 ssh-rsa AAAA
|1|abc|def ssh-ed25519 {key}
@cert-authority *.example ssh-ed25519 {key}
10.0.* ssh-ed25519 {key}
[10.0.0.4]:22 ssh-ed25519 {key}
"""
    assert pinned_keys(text) == {name: frozenset({key}) for name in ("10.0.0.1", "gpu001", "10.0.0.4")}


def test_ssh_keygens_own_signature_verifies(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    message = challenge("lab", STORE, "gpu001", NOW)
    done = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-n", "challenge@bringup", "-f", tmp_path / "key"],
        input=message.encode(),
        capture_output=True,
        check=True,
    )
    key = (tmp_path / "key.pub").read_text().split()[1]
    assert verifies(done.stdout.decode(), message, "challenge@bringup", {key})


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 9), st.sampled_from(["", "", "another serial"])), max_size=12
    ),
    st.integers(0, 30),
)
def test_the_reading_that_decides_is_the_last_of_the_log_within_the_window(
    readings: list[tuple[int, int, str]], asked: int
) -> None:
    made = [(NOW + timedelta(days=day), line, against) for day, line, against in readings]
    at = NOW + timedelta(days=asked)
    near = [(line, bool(against), against) for when, line, against in made if abs(when - at) <= WINDOW]
    expected = max(near, key=lambda one: one[:2])[2] if near else None
    assert _Timeline(made).newest(at) == expected


def test_known_hosts_that_are_a_pipe_pin_nothing(tmp_path: Path) -> None:
    """A pipe that nobody writes to was waited for."""
    os.mkfifo(tmp_path / "known_hosts")
    assert read_pinned(tmp_path / "known_hosts") == {}
