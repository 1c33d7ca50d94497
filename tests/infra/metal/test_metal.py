"""Machines, who asked DHCP in vain, and servers brought to ready with a power switch and a boot server in memory."""

import hashlib
import itertools
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from capacity.services.boot.life import Life, Report
from capacity.services.boot.starting import Offer, Target
from infra.install.bring import Delivered, InstallBmc
from infra.lab.paths import LabError
from infra.metal import demo, machines, run
from infra.metal.demo import MARK_AT, Proofs, content, strangers
from infra.metal.machines import Drive, Machine, Power, command, start_tpm
from infra.metal.run import Access, Bringing, Server
from infra.metal.segment import Segment

IMAGE = "0123456789ab"
MAC = "52:54:00:78:00:01"
CONSOLE = "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAAKEY root@gpu001\n-----END SSH HOST KEY KEYS-----\n"
BUDGETS = {"image": 60.0, "first-boot": 60.0}
NODE = f"gpu {IMAGE} hash\nsome-uuid\nseed done\n"


def machine(folder: Path, **more: Any) -> Machine:
    drives = (Drive("S1", folder / "s1.raw"), Drive("S2", folder / "s2.raw"))
    return Machine("gpu001", MAC, "tap1", drives=drives, folder=folder, **{"uefi": False, **more})


def boot_order(argv: list[str]) -> dict[str, int]:
    found = {}
    for text in argv:
        if "bootindex=" in text:
            name = (
                "cd"
                if "scsi-cd" in text
                else "port"
                if "mac=" in text
                else text.partition("serial=")[2].partition(",")[0]
            )
            found[name] = int(text.partition("bootindex=")[2])
    return found


def test_a_machine_starts_from_the_network_or_from_its_drives_in_their_order(tmp_path: Path) -> None:
    network, disk = (boot_order(command(machine(tmp_path), start)) for start in ("network", "disk"))
    assert sorted(network, key=lambda name: network[name]) == ["port", "S1", "S2"]
    assert sorted(disk, key=lambda name: disk[name]) == ["S1", "S2", "port"]


def test_an_inserted_cd_is_started_first_when_it_is_asked_for_and_last_otherwise(tmp_path: Path) -> None:
    first, last = (boot_order(command(machine(tmp_path), start, tmp_path / "x.iso")) for start in ("cd", "disk"))
    assert sorted(first, key=lambda name: first[name]) == ["cd", "S1", "S2", "port"]
    assert sorted(last, key=lambda name: last[name]) == ["S1", "S2", "port", "cd"]
    with pytest.raises(ValueError, match="gpu001: no CD is inserted"):
        command(machine(tmp_path), "cd")


def test_only_a_machine_with_uefi_has_firmware_variables(tmp_path: Path) -> None:
    assert "pflash" in " ".join(command(machine(tmp_path, uefi=True), "disk"))
    assert "pflash" not in " ".join(command(machine(tmp_path), "disk"))


def test_what_a_machine_writes_is_gone_where_it_is_not_kept(tmp_path: Path) -> None:
    drives = [text for text in command(machine(tmp_path, kept=False), "disk") if "id=drive" in text]
    assert len(drives) == 2
    assert all("snapshot=on" in text for text in drives)


def test_a_drive_that_exists_is_not_made_anew(tmp_path: Path) -> None:
    (tmp_path / "s1.raw").write_bytes(b"content")
    Drive("S1", tmp_path / "s1.raw").ensure()
    assert (tmp_path / "s1.raw").read_bytes() == b"content"


LOG = """dnsmasq-dhcp[7]: 1865 available DHCP subnet: 10.78.1.0/255.255.255.0
dnsmasq-dhcp[7]: 1865 DHCPDISCOVER(br0) 52:54:00:78:00:ff ignored
dnsmasq-dhcp[7]: 1866 DHCPDISCOVER(br0) 52:54:00:78:00:01
dnsmasq-dhcp[7]: 1865 DHCPDISCOVER(br0) 52:54:00:78:00:ff ignored
"""


def test_unknown_macs_are_read_from_the_log_of_dhcp() -> None:
    assert strangers(LOG) == ["52:54:00:78:00:ff"]
    assert strangers("") == []


class Switch:
    """A power switch in memory. `story`: what happens at each start, by number of the start."""

    def __init__(self, made: Machine, segment: "Net", story: Callable[[int, str], None]) -> None:
        self.machine, self.segment, self.story = made, segment, story
        self.is_on, self.starts, self.next = False, list[str](), "disk"

    def on(self, start: str) -> None:
        self.is_on = True
        self.starts.append(start)
        self.story(len(self.starts), start)

    def off(self) -> None:
        self.is_on = False


class SwitchBmc:
    """A BMC that works a switch."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def identity(self) -> dict[str, str]:
        return {"serial": "SER1", "uuid": ""}

    def nics(self) -> dict[str, str]:
        return {"eth0": MAC}

    def state(self) -> dict[str, str]:
        return {"power": "On" if self.switch.is_on else "Off"}

    def firmware(self) -> dict[str, str]:
        return {}

    def set_boot(self, target: str, enabled: str = "Once") -> None:
        self.switch.next = "network" if target == "Pxe" else "disk"

    def power(self, reset: str, wait: bool = True) -> bool:
        if reset == "ForceOff":
            self.switch.off()
        elif not self.switch.is_on:
            start, self.switch.next = self.switch.next, "disk"
            self.switch.on(start)
        return True


CLOCK = itertools.count(1)


class Net:
    """A boot server in memory."""

    def __init__(self) -> None:
        self.told: list[Report] = []

    def reports(self) -> dict[str, list[Report]]:
        return {MAC.replace(":", "-"): list(self.told)}

    def probe(self) -> str:
        return "[]"

    def offers(self) -> dict[str, Offer]:
        return {MAC.replace(":", "-"): Offer("gpu001", "gpu", IMAGE, "hash", ("S1", "S2"))}

    def report(self, state: str, text: str = "") -> None:
        self.told.append(Report(float(next(CLOCK)), state, text))


@pytest.fixture
def bringing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Bringing, Switch, Net]]:
    monkeypatch.setattr(run, "POLL_S", 0.0)

    def made(story: Callable[["Net", "Switch", int, str], None]) -> tuple[Bringing, Switch, Net]:
        net = Net()
        switch = Switch(machine(tmp_path), net, lambda number, start: story(net, switch, number, start))
        access = Access("10.78.1.11", "root", tmp_path / "key", tmp_path / "known_hosts")
        target = Target("gpu001", "gpu", IMAGE, "hash", ("S1", "S2"))
        server = Server(
            cast(Power, switch), access, cast(InstallBmc, SwitchBmc(switch)), target, Delivered("SER1", "", MAC)
        )
        one = Bringing(cast(Segment, net), {"gpu001": server}, tmp_path / "lives", BUDGETS)
        monkeypatch.setattr(one, "run", lambda name, command: NODE if switch.is_on else None)
        return one, switch, net

    return made


def good(net: Net, switch: Switch, number: int, start: str) -> None:
    if start == "network":
        net.report("written", "hash")
        switch.is_on = False
    else:
        switch.machine.console("disk").write_text(CONSOLE)


def test_a_server_is_written_started_from_its_drives_and_enrolled_by_its_console(bringing, tmp_path: Path) -> None:
    one, switch, _ = bringing(good)
    said: list[str] = []
    assert one.bring(["gpu001"], said.append)["gpu001"].step == "ready"
    assert switch.starts == ["network", "disk"]
    assert (tmp_path / "known_hosts").read_text() == "10.78.1.11 ssh-ed25519 AAAAKEY console\n"
    assert said[-1] == "gpu001: ready"


def test_the_same_call_again_does_nothing(bringing) -> None:
    one, switch, _ = bringing(good)
    one.bring(["gpu001"], lambda text: None)
    one.bring(["gpu001"], lambda text: None)
    assert switch.starts == ["network", "disk"]


def test_a_stop_is_named_and_the_same_call_goes_on(bringing) -> None:
    def story(net: Net, switch: Switch, number: int, start: str) -> None:
        if number == 1:
            net.report("wrong-disk", "no drive with serial number S2")
            switch.is_on = False
        else:
            good(net, switch, number, start)

    one, switch, _ = bringing(story)
    life = one.bring(["gpu001"], lambda text: None)["gpu001"]
    assert (life.stopped, switch.is_on) == ("wrong-disk", False)
    assert one.bring(["gpu001"], lambda text: None)["gpu001"].step == "ready"
    assert switch.starts == ["network", "network", "disk"]


def test_a_server_that_loses_its_power_while_it_is_written_is_named_and_the_same_call_goes_on(bringing) -> None:
    def story(net: Net, switch: Switch, number: int, start: str) -> None:
        if number == 1:
            net.report("writing", "image")
            switch.is_on = False
        else:
            good(net, switch, number, start)

    one, _, _ = bringing(story)
    assert one.bring(["gpu001"], lambda text: None)["gpu001"].stopped == "power-off"
    assert one.bring(["gpu001"], lambda text: None)["gpu001"].step == "ready"


def test_a_server_that_loses_its_power_in_its_first_boot_is_switched_on_by_the_same_call(bringing) -> None:
    def lost(name: str, command: str) -> str | None:
        switch.is_on = len(switch.starts) > 2
        return NODE if switch.is_on else None

    one, switch, _ = bringing(good)
    one.run = lost
    assert one.bring(["gpu001"], lambda text: None)["gpu001"].stopped == "power-off"
    assert one.bring(["gpu001"], lambda text: None)["gpu001"].step == "ready"
    assert switch.starts == ["network", "disk", "disk"]


def test_a_host_key_that_was_shown_once_is_kept_until_the_server_is_written_again(bringing, tmp_path: Path) -> None:
    def story(net: Net, switch: Switch, number: int, start: str) -> None:
        good(net, switch, number, start)
        if number == 3:
            switch.machine.console("disk").write_text("Debian GNU/Linux 12\n")
        if number == 5:
            assert (tmp_path / "known_hosts").read_text() == "", "the key of the overwritten system counts no more"
            switch.machine.console("disk").write_text(CONSOLE.replace("AAAAKEY", "AAAANEW"))

    one, switch, _ = bringing(story)
    one.bring(["gpu001"], lambda text: None)
    switch.off()
    assert one.start(["gpu001"], lambda text: None) == {"gpu001": NODE.strip()}
    assert (tmp_path / "known_hosts").read_text() == "10.78.1.11 ssh-ed25519 AAAAKEY console\n"
    switch.off()
    one.again("gpu001")
    one.bring(["gpu001"], lambda text: None)
    assert switch.starts == ["network", "disk", "disk", "network", "disk"]
    assert (tmp_path / "known_hosts").read_text() == "10.78.1.11 ssh-ed25519 AAAANEW console\n"


def test_a_server_that_is_found_written_keeps_its_host_key_and_its_times(bringing, tmp_path: Path) -> None:
    def story(net: Net, switch: Switch, number: int, start: str) -> None:
        if number == 3:
            net.report("already-written", "image")
            switch.is_on = False
        elif number == 4:
            switch.machine.console("disk").write_text("Debian GNU/Linux 12\n")
        else:
            good(net, switch, number, start)

    one, switch, _ = bringing(story)
    one.bring(["gpu001"], lambda text: None)
    times = (tmp_path / "times.json").read_text()
    switch.off()
    one.again("gpu001")
    assert one.bring(["gpu001"], lambda text: None)["gpu001"].step == "ready"
    assert (tmp_path / "times.json").read_text() == times, "they are those of the writing"
    assert switch.starts == ["network", "disk", "network", "disk"]
    assert (tmp_path / "known_hosts").read_text() == "10.78.1.11 ssh-ed25519 AAAAKEY console\n"


def test_a_ready_server_that_does_not_start_is_named_with_no_image(bringing) -> None:
    one, _, _ = bringing(good)
    one.bring(["gpu001"], lambda text: None)
    one.run, one.budgets = lambda name, command: None, {"first-boot": 0.0}
    assert one.start(["gpu001"], lambda text: None) == {"gpu001": ""}


def test_the_times_of_the_last_writing_are_kept(bringing, tmp_path: Path) -> None:
    one, _, _ = bringing(good)
    one.bring(["gpu001"], lambda text: None)
    times = json.loads((tmp_path / "times.json").read_text())["gpu001"]
    assert times["on"] <= times["written"] <= times["login"]


def test_a_machine_says_serial_number_and_uuid_of_the_asset_list(tmp_path: Path) -> None:
    argv = command(machine(tmp_path, serial="SIM-MN-1001", uuid="5b0e8d2c-7a4f-5a43-9d11-0c7b1f5a2b01"), "disk")
    said = argv[argv.index("-smbios") + 1]
    assert "manufacturer=SIMULATED" in said
    assert said.endswith("serial=SIM-MN-1001")
    assert argv[argv.index("-uuid") + 1] == "5b0e8d2c-7a4f-5a43-9d11-0c7b1f5a2b01"


def test_the_content_of_a_drive_is_that_of_its_first_2_mib_and_its_last_mib(tmp_path: Path) -> None:
    file = tmp_path / "drive.raw"
    file.write_bytes(b"a" * (2 << 20) + b"b" * 4096 + b"c" * (1 << 20))
    before = content(file)
    assert before == hashlib.sha256(b"a" * (2 << 20) + b"c" * (1 << 20)).hexdigest()
    with file.open("r+b") as drive:
        drive.seek(MARK_AT)
        drive.write(b"another mark")
    assert content(file) != before


def test_what_was_seen_of_drives_holds_until_the_next_writing_or_another_image(tmp_path: Path) -> None:
    proofs = Proofs(tmp_path / "proofs.json", IMAGE)
    proofs.started("gpu001", 100.0, "S1")
    proofs.started("gpu001", 100.0, "S2")
    proofs.tried("faults")
    assert Proofs(tmp_path / "proofs.json", IMAGE).alone("gpu001", 100.0) == ("S1", "S2")
    assert Proofs(tmp_path / "proofs.json", IMAGE).alone("gpu001", 200.0) == ()
    assert Proofs(tmp_path / "proofs.json", IMAGE).has("faults")
    another = Proofs(tmp_path / "proofs.json", "ffffffffffff")
    assert (another.alone("gpu001", 100.0), another.has("faults")) == ((), False)


def test_another_program_goes_on_from_the_journal(bringing, tmp_path: Path) -> None:
    one, _, _ = bringing(good)
    one.bring(["gpu001"], lambda text: None)
    again, switch, _ = bringing(good)
    assert again.lives["gpu001"].step == "ready"
    again.again("gpu001")
    assert json.loads((tmp_path / "lives" / "gpu001.json").read_text())["step"] == "image"
    assert again.bring(["gpu001"], lambda text: None)["gpu001"].step == "ready"
    assert switch.starts == ["network", "disk"]


def test_a_node_is_not_logged_in_to_before_its_console_shows_its_key(bringing, monkeypatch) -> None:
    asked: list[str] = []

    def story(net: Net, switch: Switch, number: int, start: str) -> None:
        if start == "network":
            good(net, switch, number, start)
        else:
            switch.machine.console("disk").write_text("Debian GNU/Linux 12\n")
            switch.is_on = False

    one, _, _ = bringing(story)
    monkeypatch.setattr(one, "run", lambda name, command: asked.append(name))
    life: Life = one.bring(["gpu001"], lambda text: None)["gpu001"]
    assert (life.stopped, asked) == ("power-off", [])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (subprocess.TimeoutExpired(["ip", "-batch", "-"], 30.0), "ip -batch - did not end within 30 s"),
        (subprocess.CalledProcessError(2, ["sh", "-ec", "x"], stderr=b"no\nlast word\n"), "exit status 2: last word"),
        (OSError(28, "No space left on device", "/var/x"), "No space left on device: '/var/x'"),
        (LabError("gpu001 does not start"), "gpu001 does not start"),
        (KeyboardInterrupt(), "The same command goes on"),
    ],
)
def test_what_ends_the_demo_is_one_line(error: BaseException, said: str, monkeypatch, capsys) -> None:
    def fails(*arguments: object, **more: object) -> int:
        raise error

    monkeypatch.setattr(demo, "missing", lambda paths, folder, servers: [])
    monkeypatch.setattr(demo, "claimed", fails)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    assert demo.main([]) in (1, 130)
    (line,) = capsys.readouterr().out.splitlines()
    assert said in line


def test_what_the_machine_lacks_ends_the_demo_before_it_begins(monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "missing", lambda paths, folder, servers: ["no tun", "no memory"])
    monkeypatch.setattr(demo, "claimed", lambda *arguments, **more: pytest.fail("begun"))
    assert demo.main([]) == 2
    assert capsys.readouterr().err == "no tun\nno memory\n"


@pytest.mark.parametrize(("silent", "said"), [(0, "gpu001"), (2, "gpu001"), (1000, None)])
def test_a_node_that_is_slow_to_log_in_is_asked_again_within_the_budget(
    bringing, monkeypatch: pytest.MonkeyPatch, silent: int, said: str | None
) -> None:
    one, _, _ = bringing(good)
    answers = itertools.chain(itertools.repeat(None, silent), itertools.repeat("gpu001"))
    monkeypatch.setattr(one, "run", lambda name, command, given: next(answers))
    clock = itertools.count(0.0, run.LOGIN_S)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert one.ask("gpu001", "hostname") == said


def test_a_machine_that_went_off_is_not_waited_for(bringing, tmp_path: Path) -> None:
    def dies(net: Net, switch: Switch, number: int, start: str) -> None:
        switch.is_on = False

    one, switch, _ = bringing(dies)
    whole = switch.machine
    with pytest.raises(demo.DemoError, match=r"without its drive \w+: it says None and is off: .*gpu001\.qemu"):
        demo.without_drive(cast(demo.Demo, None), one, cast(Proofs, None), ["gpu001"], 0)
    assert switch.machine is whole


def test_a_tpm_and_secure_boot_are_there_where_they_are_said(tmp_path: Path) -> None:
    plain, both = (command(machine(tmp_path, uefi=True, tpm=on, secure=on), "disk") for on in (False, True))
    assert not {"-tpmdev", "-global"} & set(plain)
    assert f"socket,id=tpm,path={tmp_path / 'gpu001.tpm' / 'socket'}" in both
    assert {"emulator,id=tpm0,chardev=tpm", "tpm-tis,tpmdev=tpm0", "q35,smm=on"} <= set(both)
    firmware = [
        [Path(word.rpartition("=")[2]).name for word in argv if "readonly=on,file" in word] for argv in (plain, both)
    ]
    assert firmware == [["OVMF_CODE_4M.fd"], ["OVMF_CODE_4M.secboot.fd"]]


@pytest.mark.needs("swtpm")
def test_a_tpm_answers_before_its_machine_starts_and_one_that_does_not_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tpm = start_tpm(machine(tmp_path, tpm=True))
    assert (tmp_path / "gpu001.tpm" / "socket").is_socket()
    tpm.kill()
    tpm.wait()
    monkeypatch.setattr(machines, "tpm_command", lambda machine: ["false"])
    with pytest.raises(OSError, match="gpu001: swtpm does not answer"):
        start_tpm(machine(tmp_path, tpm=True))
