"""A simulated server from delivery to ready: each fault is a named stop, and the same call goes on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capacity.services.boot.life import OTHER_STOPS, SAFE_STOPS, STEPS, Life
from infra.install.bring import Bringing, Journal
from network.drivers.errors import BadAnswer
from tests.infra.install.simulated import DELIVERED, HELD, OFFER, TARGET, Boot, Clock, Machine


class Site:
    """One server and what brings it on; each `bring` is a new program with the same journal."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.boot = Boot(self.clock)
        self.machine = Machine(self.clock, self.boot)
        self.journal = Journal(folder)
        self.said: list[str] = []

    def bringing(self) -> Bringing:
        return Bringing(
            TARGET,
            DELIVERED,
            self.machine.doors(),
            self.journal,
            budgets=dict.fromkeys(STEPS, 400.0),
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    def bring(self) -> Life:
        return self.bringing().bring(self.said.append)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_delivered_server_goes_through_its_steps_and_is_written_once(site: Site) -> None:
    assert site.bring().step == "ready"
    assert site.machine.acts == ["bios", "on Pxe"]
    assert [line.split(": ")[1] for line in site.said] == ["firmware", "bios", "image", "first-boot", "ready"]
    assert site.machine.ours


def test_a_bmc_that_lists_no_ports_yet_does_not_stop_its_server(site: Site) -> None:
    site.machine.lists_ports_late = True
    assert site.bring().step == "ready"


def test_the_same_call_again_touches_nothing(site: Site) -> None:
    site.bring()
    site.machine.acts.clear()
    assert site.bring().step == "ready"
    assert site.machine.acts == []


def test_a_node_that_runs_the_image_is_ready_although_the_journal_is_lost(site: Site, tmp_path: Path) -> None:
    site.bring()
    (tmp_path / "gpu001.json").unlink()
    site.machine.acts.clear()
    assert site.bring().step == "ready"
    assert site.machine.acts == []


Act = Callable[[Site], None]
FAULTS: dict[str, tuple[Act, Act, str, str]] = {
    "silent BMC": (
        lambda site: setattr(site.machine, "silent", True),
        lambda site: setattr(site.machine, "silent", False),
        "inspect",
        "bmc-silent",
    ),
    "garbled BMC": (
        lambda site: setattr(site.machine, "garbled", True),
        lambda site: setattr(site.machine, "garbled", False),
        "inspect",
        "bmc-garbled",
    ),
    "another port": (
        lambda site: setattr(site.machine, "mac", "02:5E:00:00:00:99"),
        lambda site: setattr(site.machine, "mac", "02:5E:00:00:00:01"),
        "inspect",
        "not-as-delivered",
    ),
    "another server": (
        lambda site: setattr(site.machine, "serial", "SER9"),
        lambda site: setattr(site.machine, "serial", "SER1"),
        "inspect",
        "not-as-delivered",
    ),
    "old firmware": (
        lambda site: setattr(site.machine, "firmware_behind", ["BIOS: 1"]),
        lambda site: setattr(site.machine, "firmware_behind", []),
        "firmware",
        "firmware-behind",
    ),
    "attributes do not stick": (
        lambda site: setattr(site.machine, "bios_sticks", False),
        lambda site: setattr(site.machine, "bios_now", dict(DELIVERED.bios)),
        "first-boot",
        "bios-refused",
    ),
    "boot server silent": (
        lambda site: setattr(site.boot, "silent", True),
        lambda site: setattr(site.boot, "silent", False),
        "image",
        "not-offered",
    ),
    "another image served": (
        lambda site: setattr(site.boot, "offer", replace(OFFER, version="ffff")),
        lambda site: setattr(site.boot, "offer", OFFER),
        "image",
        "not-offered",
    ),
    "other drives served": (
        lambda site: setattr(site.boot, "offer", replace(OFFER, serials=("S1", "S9"))),
        lambda site: setattr(site.boot, "offer", OFFER),
        "image",
        "not-offered",
    ),
    "it is on and nobody knows why": (
        lambda site: setattr(site.machine, "power_state", "On"),
        lambda site: setattr(site.machine, "power_state", "Off"),
        "image",
        "in-use",
    ),
    "power is refused": (
        lambda site: setattr(site.machine, "refuses_power", True),
        lambda site: setattr(site.machine, "refuses_power", False),
        "image",
        "timed-out",
    ),
    "power cut while writing": (
        lambda site: setattr(site.machine, "power_cut_while_writing", True),
        lambda site: None,
        "image",
        "power-off",
    ),
    "another DHCP server": (
        lambda site: setattr(site.boot, "rogue", "DHCP is answered by 10.9.0.1 (02:00:00:00:00:01) as well"),
        lambda site: setattr(site.boot, "rogue", ""),
        "image",
        "rogue-dhcp",
    ),
    "cloud-init that never ends": (
        lambda site: setattr(site.machine, "seeding", True),
        lambda site: setattr(site.machine, "seeding", False),
        "first-boot",
        "seed-unfinished",
    ),
    "host key that nobody enrolled": (
        lambda site: setattr(site.machine, "key_known", False),
        lambda site: setattr(site.machine, "key_known", True),
        "first-boot",
        "unknown-host",
    ),
    "it starts another system": (
        lambda site: setattr(site.machine, "next_boot_runs", "gpu ffff 00"),
        lambda site: setattr(site.machine, "runs", TARGET.note),
        "first-boot",
        "other-image",
    ),
    "image of this version with another hash": (
        lambda site: setattr(site.machine, "next_boot_runs", f"gpu {TARGET.version} {'f' * 64}"),
        lambda site: setattr(site.machine, "runs", TARGET.note),
        "first-boot",
        "other-image",
    ),
}


def initramfs_stops(state: str) -> Act:
    """The initramfs stops at a state, and says why."""
    return lambda site: setattr(site.machine, "writes", (state, "why"))


FAULTS |= {
    f"initramfs: {state}": (
        initramfs_stops(state),
        lambda site: setattr(site.machine, "writes", None),
        "image",
        state,
    )
    for state in SAFE_STOPS
}


@pytest.mark.parametrize(("fault", "repair", "step", "stop"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_a_named_stop_and_the_same_call_goes_on_to_ready(
    site: Site, fault: Act, repair: Act, step: str, stop: str
) -> None:
    fault(site)
    life = site.bring()
    assert (life.step, life.stopped) == (step, stop), life.text
    assert stop in {**SAFE_STOPS, **OTHER_STOPS}
    repair(site)
    assert site.bring().step == "ready", site.said


class KilledError(Exception):
    """The program is killed."""


def killed_after(site: Site, seconds: float) -> None:
    """Bring the server up with a program that is killed after so many seconds."""

    def kill() -> None:
        raise KilledError

    site.clock.after(seconds, kill)
    with pytest.raises(KilledError):
        site.bring()


@pytest.mark.parametrize("seconds", [5, 70, 120, 200, 240])
def test_a_program_that_ends_in_the_middle_goes_on_without_a_second_start(site: Site, seconds: float) -> None:
    killed_after(site, seconds)
    assert site.bring().step == "ready"
    assert site.machine.acts.count("on Pxe") == 1


def ready_with_an_older_image(site: Site) -> None:
    site.journal.keep(Life("gpu001", "ready", image="older"))
    site.machine.power_state, site.machine.runs, site.machine.ours = "On", "gpu older 11", True
    site.machine.bios_now = dict(DELIVERED.bios)
    site.machine.contents = {"S1": HELD, "S2": HELD}


def test_another_image_is_not_written_without_consent_and_the_node_runs_on(site: Site) -> None:
    ready_with_an_older_image(site)
    life = site.bring()
    assert (life.step, life.stopped) == ("image", "no-consent")
    assert life.text == (
        f"it runs gpu older; to overwrite it: --overwrite gpu001:S1:{HELD} --overwrite gpu001:S2:{HELD}"
    )
    assert (site.machine.acts, site.machine.runs) == ([], "gpu older 11")


@pytest.mark.parametrize(
    "consents", [{"S1": HELD}, {"S1": HELD, "S2": "cd" * 32}], ids=["one drive", "another content"]
)
def test_consent_to_less_than_both_drives_as_they_are_is_none(site: Site, consents: dict[str, str]) -> None:
    ready_with_an_older_image(site)
    site.boot.offer = replace(OFFER, consents=consents)
    life = site.bring()
    assert (life.stopped, life.text) == (
        "no-consent",
        f"it runs gpu older; to overwrite it: --overwrite gpu001:S2:{HELD}",
    )
    assert site.machine.runs == "gpu older 11"


def test_with_consent_to_both_drives_it_is_written_and_the_consent_holds_no_second_time(site: Site) -> None:
    ready_with_an_older_image(site)
    site.boot.offer = replace(OFFER, consents={"S1": HELD, "S2": HELD})
    assert site.bring().step == "ready"
    site.machine.runs, site.machine.contents = "gpu later 22", {"S1": "cd" * 32, "S2": "cd" * 32}
    assert site.bring().stopped == "no-consent"


def test_a_silent_server_that_was_ready_with_another_image_is_not_started_from_the_network(site: Site) -> None:
    ready_with_an_older_image(site)
    site.machine.runs = None
    life = site.bring()
    assert (life.stopped, site.machine.acts) == ("no-consent", [])
    assert life.text.startswith("it was last written with image older and does not answer; ")


def test_a_server_that_was_ready_and_is_off_is_only_switched_on(site: Site) -> None:
    site.bring()
    site.machine.off()
    site.machine.acts.clear()
    assert site.bring().step == "ready"
    assert site.machine.acts == ["on Hdd"]


def test_a_journal_of_another_server_is_refused_by_its_file(site: Site, tmp_path: Path) -> None:
    site.journal.keep(Life("gpu001"))
    (tmp_path / "gpu002.json").write_text((tmp_path / "gpu001.json").read_text())
    with pytest.raises(BadAnswer, match=r"gpu002\.json: expected the record of this server, saw that of gpu001"):
        site.journal.read("gpu002")
    (tmp_path / "gpu003.json").write_text("{")
    with pytest.raises(BadAnswer, match=r"gpu003: read .*gpu003\.json: .*set the file aside"):
        site.journal.read("gpu003")


def test_consent_to_its_drives_as_they_are_writes_a_ready_server_once_more_and_only_once(site: Site) -> None:
    site.bring()
    site.machine.contents = {"S1": HELD, "S2": HELD}
    site.boot.offer = replace(OFFER, consents={"S1": HELD, "S2": HELD})
    site.machine.written = False  # the initramfs takes the consent for an empty drive
    site.machine.acts.clear()
    assert site.bring().step == "ready"
    assert site.machine.acts == ["on Pxe"]
    site.machine.contents = {"S1": "cd" * 32, "S2": "cd" * 32}
    site.machine.acts.clear()
    assert site.bring().step == "ready"
    assert site.machine.acts == []


def test_a_ready_server_that_is_off_is_written_once_more_with_consent_to_all_its_drives_only(site: Site) -> None:
    site.bring()
    site.machine.off()
    site.boot.offer = replace(OFFER, consents={"S1": HELD})
    site.machine.acts.clear()
    assert site.bring().step == "ready"
    assert site.machine.acts == ["on Hdd"]
    site.machine.off()
    site.boot.offer = replace(OFFER, consents={"S1": HELD, "S2": HELD})
    site.machine.acts.clear()
    assert site.bring().step == "ready"
    assert site.machine.acts == ["on Pxe"]


CD = "http://10.77.0.9:8000/gpu.iso"


@pytest.fixture
def by_cd(site: Site) -> Site:
    """The same site without network boot."""
    site.machine.media = CD
    return site


def test_without_network_boot_a_server_is_written_from_its_cd_and_the_cd_is_taken_out(by_cd: Site) -> None:
    assert by_cd.bring().step == "ready"
    assert by_cd.machine.acts == ["bios", "on Cd"]
    assert [line.split(": ")[1] for line in by_cd.said] == ["firmware", "bios", "image", "first-boot", "ready"]
    assert (by_cd.machine.inserted, by_cd.boot.told) == ("", [])
    by_cd.machine.acts.clear()
    assert by_cd.bring().step == "ready"
    assert by_cd.machine.acts == []


BY_CD = {
    "the initramfs stops": (
        initramfs_stops("foreign-content"),
        lambda site: setattr(site.machine, "writes", None),
        "power-off",
    ),
    **{
        name: (*FAULTS[name][:2], FAULTS[name][3])
        for name in (
            *(
                "power cut while writing",
                "host key that nobody enrolled",
                "it starts another system",
                "other drives served",
            ),
            *("it is on and nobody knows why", "power is refused"),
        )
    },
}


@pytest.mark.parametrize(("fault", "repair", "stop"), BY_CD.values(), ids=BY_CD.keys())
def test_a_fault_of_a_server_with_a_cd_is_a_named_stop_and_the_same_call_goes_on(
    by_cd: Site, fault: Act, repair: Act, stop: str
) -> None:
    fault(by_cd)
    life = by_cd.bring()
    assert life.stopped == stop, life.text
    repair(by_cd)
    assert by_cd.bring().step == "ready", by_cd.said


def test_a_server_that_goes_off_while_its_cd_writes_points_at_its_console(by_cd: Site) -> None:
    by_cd.machine.writes = ("foreign-content", "drive S1 holds x")
    assert "its console says why" in by_cd.bring().text


@pytest.mark.parametrize("seconds", [5, 70, 120, 200, 240])
def test_a_program_that_ends_while_a_cd_writes_goes_on_without_a_second_start(by_cd: Site, seconds: float) -> None:
    killed_after(by_cd, seconds)
    assert by_cd.bring().step == "ready"
    assert by_cd.machine.acts.count("on Cd") == 1


def test_a_server_that_runs_from_its_drives_keeps_no_override_for_a_later_start(by_cd: Site) -> None:
    assert by_cd.bring().step == "ready"
    assert by_cd.machine.boot_from == "None"


def test_a_cd_that_was_made_anew_is_inserted_anew(by_cd: Site) -> None:
    by_cd.machine.writes = ("foreign-content", "drive S1 holds x")
    assert by_cd.bring().stopped == "power-off"
    by_cd.machine.writes, by_cd.machine.served = None, "a CD with the consent"
    assert by_cd.bring().step == "ready"
    assert by_cd.machine.copied == "a CD with the consent"


def test_a_server_whose_cd_stays_in_is_not_ready(by_cd: Site) -> None:
    by_cd.machine.keeps_cd = True
    for _ in range(2):
        life = by_cd.bring()
        assert (life.step, life.stopped) == ("first-boot", "timed-out")
        assert "eject virtual media: expected an empty drive, saw Inserted True" in life.text
    by_cd.machine.keeps_cd = False
    assert by_cd.bring().step == "ready"
    assert (by_cd.machine.inserted, by_cd.machine.acts.count("on Cd")) == ("", 1)


def test_a_server_with_a_cd_that_is_off_at_its_first_boot_starts_from_its_drives(by_cd: Site) -> None:
    by_cd.machine.key_known = False
    assert by_cd.bring().stopped == "unknown-host"
    by_cd.machine.off()
    by_cd.machine.key_known = True
    assert by_cd.bring().step == "ready"
    assert by_cd.machine.acts[-1] == "on Hdd"
