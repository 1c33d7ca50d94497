"""The program that reads a node: its parts with recorded command outputs, and the whole of it on this machine."""

import base64
import gzip
import hashlib
import json
import os
import platform
import pwd
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from network.drivers.ssh import with_request
from validation import readings
from validation.facts import node_facts


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch):
    """Let recorded outputs take the place of commands: 'program first-argument…' to (status, text)."""

    def install(**by_program: tuple[int, str]) -> list[tuple[str, ...]]:
        ran: list[tuple[str, ...]] = []

        def run(*argv: str) -> tuple[int, str]:
            ran.append(argv)
            return by_program.get(Path(argv[0]).name.replace("-", "_"), (127, ""))

        monkeypatch.setattr(node_facts, "run", run)
        return ran

    return install


def test_the_whole_program_runs_here_and_prints_one_json_object():
    refused_probe = {"target": "127.0.0.1", "port": 1, "budget_s": 2.0, "device": 'it\'s "quoted"'}
    done = subprocess.run(
        [sys.executable, "-"],
        timeout=60,
        check=True,
        input=with_request(
            Path(node_facts.__file__).read_text(), {"pings": [], "connects": [refused_probe], "silent": []}
        ),
        capture_output=True,
        text=True,
    )
    answer = json.loads(done.stdout)
    assert set(answer) == {"facts", "errors"}
    assert set(answer["facts"]) | set(answer["errors"]) >= set(node_facts.PARTS)
    assert not set(answer["facts"]) & set(answer["errors"])
    assert answer["facts"]["kernel"] == platform.release()
    assert answer["facts"]["hardware"]["memory_kib"] > 0
    assert answer["facts"]["connects"] == [{**refused_probe, "seen": "refused"}]


def test_a_part_that_fails_is_named_and_the_rest_still_comes(outputs, capsys, monkeypatch):
    outputs()
    monkeypatch.setattr(sys, "argv", ["node_facts.py"])
    monkeypatch.setattr(node_facts, "TRACKING", "/nowhere/tracking.log")
    monkeypatch.setitem(node_facts.PARTS, "identity", lambda: {"uuid": "1"})  # /proc/1 is not readable everywhere
    node_facts.main()
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["errors"]) == {
        *("links", "routes", "sshd", "chrony", "packages", "units", "listening", "enabled"),
        *("listeners", "keys", "scheduled", "clock_day"),
    }
    assert answer["errors"]["chrony"] == "RuntimeError: chronyc tracking: exit status 127"
    assert answer["facts"]["slurm"] == {}


def test_chrony_is_read_from_its_csv(outputs):
    outputs(
        chronyc=(0, "0A4D010F,10.77.1.15,12,1763742000.1,0.000158840,-0.000002,0.000003985,-1,0,0,0,0,64.2,Normal\n")
    )
    assert node_facts.chrony() == {
        "reference": "10.77.1.15",
        "stratum": 12,
        "offset_s": 0.00015884,
        "rms_offset_s": 3.985e-06,
        "leap": "Normal",
    }


NOW = 1_763_800_000.0
BANNER = f"{'=' * 131}\n   Date (UTC) Time     IP Address   St   Freq ppm   Skew ppm     Offset L Co\n{'=' * 131}\n"


def tracked(ago_s: float, offset_s: float, leap: str = "N") -> str:
    """A line of chrony's tracking log, in the form that chrony.conf(5) shows."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW - ago_s))
    return (
        f"{at} 203.0.113.15     2     -3.541      0.075 {offset_s: .3e} {leap}  2"
        "  2.940e-03 -2.084e-04  1.534e-02  3.472e-04  8.304e-03\n"
    )


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    monkeypatch.setattr(node_facts, "TRACKING", str(tmp_path / "tracking.log"))
    monkeypatch.setattr(node_facts, "time", SimpleNamespace(time=lambda: NOW))
    return tmp_path / "tracking.log"


def wrote(path, text, ago_s=0.0):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    os.utime(path, (NOW - ago_s, NOW - ago_s))


def test_the_offsets_of_a_day_are_read_across_restarts_and_rotations(tracking):
    """A start begins with a banner; what is older than a day, unsynchronised, found by a start or cut off is no sample."""
    first = BANNER + tracked(70, 0.0, "?") + tracked(60, -0.4) + tracked(50, -3e-4)
    second = BANNER + tracked(20, 0.3) + tracked(10, 2e-4) + tracked(5, 9.0, "?")
    wrote(tracking, first + second + "2025-11-22 08")
    wrote(tracking.with_name("tracking.log.1"), tracked(86_500, 5.0) + tracked(4000, 4e-4) + tracked(3990, 1e-4), 3990)
    wrote(tracking.with_name("tracking.log.2.gz"), tracked(80_000, -6e-4), 80_000)
    wrote(tracking.with_name("tracking.log.3.gz"), tracked(80_000, 7.0), 90_000)
    assert node_facts.clock_day() == {"samples": 5, "quarters": 3, "largest_s": [6e-4]}


OF_CHRONY = """\
===================================================================================================================================
   Date (UTC) Time     IP Address   St   Freq ppm   Skew ppm     Offset L Co  Offset sd Rem. corr. Root delay Root disp. Max. error
===================================================================================================================================
2026-11-29 02:05:55 0.0.0.0          0      0.000 1000000.000  0.000e+00 ?  0  0.000e+00 -0.000e+00  1.000e+00  1.000e+00  1.500e+00
2026-11-29 02:06:00 127.0.0.1       11      0.000 1000000.000 -1.616e-05 N  1  3.574e-06 -0.000e+00  1.269e-04  6.265e-01  1.500e+00
2026-11-29 02:06:02 127.0.0.1       11      0.788     17.268 -1.547e-06 N  1  1.658e-06  1.616e-05  1.100e-04  9.959e-04  2.660e+00
"""
"""What chronyd 4.3 of Debian 12 wrote, with -x as in the lab's containers, against the time server of the lab (workstation.py)."""


def test_the_log_of_a_chronyd_is_read(tracking, monkeypatch):
    now = datetime(2026, 11, 29, 2, 6, 10, tzinfo=UTC).timestamp()
    monkeypatch.setattr(node_facts, "time", SimpleNamespace(time=lambda: now))
    tracking.write_text(OF_CHRONY)
    os.utime(tracking, (now, now))
    assert node_facts.clock_day() == {"samples": 1, "quarters": 1, "largest_s": [1.547e-06]}


def test_a_banner_that_is_due_is_no_start(tracking):
    """chronyd writes one every 32 lines, of unsynchronised clocks as well."""
    lines = [tracked(40_000 - 900 * n, 1e-4, "?" if n == 3 else "N") for n in range(32)]
    wrote(tracking, BANNER + "".join(lines) + BANNER + tracked(10, 0.5))
    assert node_facts.clock_day() == {"samples": 31, "quarters": 31, "largest_s": [0.5]}
    wrote(tracking, BANNER + "".join(lines[:-1]) + BANNER + tracked(10, 0.5))
    assert node_facts.clock_day()["largest_s"] == [1e-4]
    wrote(tracking, BANNER + tracked(900, 0.0, "?") * 32 + BANNER + tracked(10, 0.5) + tracked(5, 1e-4))
    assert node_facts.clock_day() == {"samples": 1, "quarters": 1, "largest_s": [1e-4]}


def test_a_log_that_is_read_from_its_middle_has_no_start_at_its_first_banner(tracking, monkeypatch):
    wrote(tracking, tracked(100, 1e-4) + tracked(50, 1e-4) + BANNER + tracked(10, 0.5))
    monkeypatch.setattr(node_facts, "TRACKING_BYTES", int(len(tracked(10, 2e-4)) * 2.5 + len(BANNER)))
    assert node_facts.clock_day() == {"samples": 2, "quarters": 1, "largest_s": [0.5]}


def test_of_many_offsets_the_largest_hundredth_and_one_more_are_told(tracking):
    wrote(tracking, "".join(tracked(60 * n, n * 1e-6) for n in range(1, 251)))
    day = node_facts.clock_day()
    assert (day["samples"], day["largest_s"]) == (250, [2.5e-4, 2.49e-4, 2.48e-4])
    assert day["quarters"] in (17, 18)
    assert readings.p99_ms(day) == 0.248


def test_a_log_is_read_from_its_end_and_no_further_than_its_limit(tracking, monkeypatch):
    wrote(tracking, tracked(100, 5.0) + tracked(50, 1e-4) + tracked(10, 2e-4))
    monkeypatch.setattr(node_facts, "TRACKING_BYTES", int(len(tracked(10, 2e-4)) * 2.5))
    assert node_facts.clock_day()["samples"] == 2


def test_garbage_in_the_log_is_no_sample_and_no_log_is_an_error(tracking):
    with pytest.raises(FileNotFoundError, match="chrony does not log what it tracks"):
        node_facts.clock_day()
    good = tracked(10, 1e-4)
    garbage = [
        "\x00\xff\n",
        good.replace("1.000e-04", "nan"),
        good.replace("1.000e-04", "many"),
        "2025-99-99" + good[10:],
        good[:60] + "\n",
    ]
    wrote(tracking, "".join(garbage) + tracked(-3600, 1e-4))
    assert node_facts.clock_day() == {"samples": 0, "quarters": 0, "largest_s": []}


@pytest.mark.parametrize("text", ["", "506 Cannot talk to daemon\n", "a,b,c,d,e,f,g,Normal"])
def test_garbage_from_chrony_is_an_error_of_that_part(outputs, text):
    outputs(chronyc=(0, text))
    with pytest.raises((IndexError, ValueError)):
        node_facts.chrony()


def test_only_installed_packages_count(outputs):
    outputs(dpkg_query=(0, "chrony 4.3-2 installed\nold 1.0 config-files\nslurmd 22.05.8-4 installed\n"))
    assert node_facts.packages() == {"chrony": "4.3-2", "slurmd": "22.05.8-4"}


def test_links_have_their_ipv4_addresses_and_mtu(outputs):
    link = {
        "ifname": "eth1",
        "mtu": 9000,
        "address": "02:00:00:00:00:01",
        "operstate": "UP",
        "addr_info": [
            {"family": "inet", "local": "172.18.0.1", "prefixlen": 31},
            {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
        ],
    }
    outputs(ip=(0, json.dumps([link])))
    assert node_facts.links() == {
        "eth1": {"mtu": 9000, "mac": "02:00:00:00:00:01", "state": "UP", "addresses": ["172.18.0.1/31"]}
    }


def test_sshd_settings_that_occur_twice_are_joined(outputs):
    outputs(sshd=(0, "port 22\nlistenaddress 0.0.0.0:22\nlistenaddress [::]:22\npasswordauthentication no\n"))
    assert node_facts.sshd() == {
        "port": "22",
        "listenaddress": "0.0.0.0:22 [::]:22",
        "passwordauthentication": "no",
    }


def test_sockets_of_this_machine_alone_are_not_listening(outputs):
    locals_ = ("0.0.0.0:22", "127.0.0.1:323", "[::1]:25", "[::]:6818", "10.0.0.1%eth0:68")
    outputs(ss=(0, "".join(f"LISTEN 0 128 {local} 0.0.0.0:*\n" for local in locals_)))
    assert node_facts.listening() == ["tcp/22", "tcp/68", "tcp/6818", "udp/22", "udp/68", "udp/6818"]


def test_services_and_failed_units(outputs, monkeypatch):
    def run(*argv: str) -> tuple[int, str]:
        if "--failed" in argv:
            return 0, "chrony.service loaded failed failed NTP client\n"
        if argv[1] == "is-system-running":
            return 1, "degraded\n"
        return 0, "chrony.service loaded failed failed NTP client\nssh.service loaded active running OpenSSH\n"

    monkeypatch.setattr(node_facts, "run", run)
    assert node_facts.units() == {
        "system": "degraded",
        "failed": ["chrony.service"],
        "services": {"chrony": "failed/failed", "ssh": "active/running"},
    }


PING = "Slurmctld(primary) at ctl01 is {}\n"


@pytest.mark.parametrize(("state", "answers"), [("UP", True), ("DOWN", False)])
def test_slurm_tells_its_version_what_it_detects_and_whether_its_controller_answers(
    outputs, monkeypatch, state, answers
):
    outputs(
        sinfo=(0, "slurm-wlm 22.05.8\n"),
        slurmd=(0, "NodeName=gpu001 CPUs=2 RealMemory=3900\nUpTime=0-00:10:00\n"),
        scontrol=(0 if answers else 1, PING.format(state)),
    )
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert node_facts.slurm() == {
        "version": "22.05.8",
        "detected": {"NodeName": "gpu001", "CPUs": "2", "RealMemory": "3900", "UpTime": "0-00:10:00"},
        "answers": answers,
    }


def controller(outputs, monkeypatch, *, up, accounting):
    monkeypatch.setattr("shutil.which", lambda _: "/usr/sbin/slurmctld")
    outputs(slurmd=(127, ""), scontrol=(0, PING.format("UP" if up else "DOWN")), sacctmgr=(accounting, "lab||"))
    said = {"--version": "slurm-wlm 22.05.8\n", "--Node": "gpu001|idle|none\ngpu002|drained|bringup: a|b; c   \n"}
    original = node_facts.run
    monkeypatch.setattr(node_facts, "run", lambda *argv: (0, said[argv[1]]) if argv[0] == "sinfo" else original(*argv))
    return node_facts.slurm()


def test_a_controller_tells_the_state_and_reason_of_every_node(outputs, monkeypatch):
    found = controller(outputs, monkeypatch, up=True, accounting=0)
    assert found["accounting_answers"] is True
    assert found["nodes"]["gpu002"] == {"state": "drained", "reason": "bringup: a|b; c"}


def test_a_controller_that_hangs_is_not_asked_for_its_nodes(outputs, monkeypatch):
    found = controller(outputs, monkeypatch, up=False, accounting=124)
    assert (found["answers"], found["accounting_answers"], "nodes" in found) == (False, False, False)


@pytest.mark.parametrize(
    ("status", "text", "ok", "received"),
    [
        (0, "2 packets transmitted, 2 received, 0% packet loss", True, 2),
        (1, "2 packets transmitted, 0 received, 100% packet loss", False, 0),
        (1, "ping: local error: message too long, mtu=1500\n2 packets transmitted, 0 received", False, 0),
        (124, "", False, 0),
    ],
)
def test_a_ping_is_whole_only_when_it_came_back(outputs, status, text, ok, received):
    ran = outputs(ping=(status, text))
    probe = {"device": "gpu002", "target": "172.16.0.8", "source": "172.16.0.7", "payload_b": 8972}
    assert node_facts.ping(probe) == {**probe, "ok": ok, "received": received}
    (argv,) = ran
    assert argv[argv.index("-M") + 1] == "do"
    assert argv[argv.index("-s") + 1] == "8972"
    assert argv[argv.index("-I") + 1] == "172.16.0.7"


def test_a_connection_is_open_refused_or_unanswered(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        probe = {"target": "127.0.0.1", "port": port, "budget_s": 2.0}
        assert node_facts.connect(probe)["seen"] == "open"
    assert node_facts.connect(probe)["seen"] == "refused"

    def never(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", never)
    assert node_facts.connect(probe)["seen"] == "no answer"


def test_a_device_that_answers_a_ping_is_not_silent(outputs):
    outputs(ping=(0, ""))
    assert node_facts.silent({"target": "10.77.0.41"})["answered"] is True
    outputs(ping=(1, ""))
    assert node_facts.silent({"target": "10.77.0.41"}) == {"target": "10.77.0.41", "answered": False}


@pytest.mark.parametrize("status", [2, 124, 127])
def test_a_ping_that_could_not_be_made_is_no_silence(outputs, monkeypatch, status):
    outputs(ping=(status, ""))
    monkeypatch.setattr(node_facts, "routed", lambda target: True)
    assert node_facts.silent({"target": "10.77.0.41"})["error"] == f"ping: exit status {status}"


def test_where_no_route_leads_nobody_answers(outputs):
    outputs(ping=(2, ""))
    probe = {"target": "255.255.255.255"}  # a datagram to it needs a permission that this socket has not
    assert node_facts.silent(probe) == {**probe, "answered": False}
    assert node_facts.routed("127.0.0.1")


@pytest.mark.parametrize(("program", "part"), [("systemctl", node_facts.units), ("ss", node_facts.listening)])
def test_a_command_that_hangs_or_fails_is_no_empty_list(outputs, program, part):
    outputs(**{program: (124, "")})
    with pytest.raises(
        RuntimeError, match=rf"^{program} --\w.*: exit status 124: no end within {node_facts.COMMAND_BUDGET_S} s$"
    ):
        part()
    outputs(**{program: (1, "")})
    with pytest.raises(RuntimeError, match="exit status 1$"):
        part()


def test_a_slurmd_or_sinfo_that_fails_is_an_error_and_one_that_is_missing_is_not(outputs):
    outputs(sinfo=(1, ""))
    with pytest.raises(RuntimeError, match="sinfo --version: exit status 1"):
        node_facts.slurm()
    outputs(sinfo=(0, "slurm-wlm 22.05.8\n"), slurmd=(1, ""))
    with pytest.raises(RuntimeError, match="slurmd: exit status 1"):
        node_facts.slurm()


def test_accounts_are_those_with_a_shell(monkeypatch):
    passwd = "root:x:0:0:root:/root:/bin/bash\nsync:x:4:65534::/bin:/bin/sync\nsshd:x:1:1::/run:/usr/sbin/nologin\nodd line\n"
    monkeypatch.setattr(node_facts, "read", lambda path: passwd)
    assert node_facts.accounts() == ["root"]


def test_a_command_that_is_missing_or_hangs_is_a_status(monkeypatch):
    assert node_facts.run("no-such-command") == (127, "")
    monkeypatch.setattr(node_facts, "COMMAND_BUDGET_S", 0.1)
    assert node_facts.run("sleep", "5") == (124, "")


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIB5BMsnBzMCOBjOpBHA7e7XWyPNSzPvK7RKbDAYLJBXu"


def test_each_key_file_of_an_account_is_read_by_its_fingerprints(outputs, monkeypatch, tmp_path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/authorized_keys").write_text(f'# mine\nfrom="10.0.0.1" ssh-ed25519 {KEY} me\n\nrubbish\n')
    (tmp_path / "root.keys").write_text(f"ssh-ed25519 {KEY}\n")
    user = pwd.struct_passwd(("root", "x", 0, 0, "", str(tmp_path), "/bin/bash"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [user])
    outputs(sshd=(0, f"authorizedkeysfile .ssh/authorized_keys {tmp_path}/%u.keys\n"))
    key = "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(KEY)).digest()).decode().rstrip("=")
    assert node_facts.keys() == {
        f"root {tmp_path}/.ssh/authorized_keys": [key, "unreadable line 4"],
        f"root {tmp_path}/root.keys": [key],
    }


def test_a_timer_and_a_cron_file_have_the_package_that_ships_them(outputs, monkeypatch, tmp_path):
    folder = tmp_path / "cron.d"
    folder.mkdir()
    for name in ("shipped", "edited", "added"):
        (folder / name).write_text("as shipped")
    monkeypatch.setattr(node_facts, "CRON_FOLDERS", (str(folder),))
    monkeypatch.setattr(node_facts, "CRON_SPOOLS", ())
    digest = hashlib.md5(b"as shipped").hexdigest()
    asked = list[tuple[str, ...]]()

    def run(*argv: str) -> tuple[int, str]:
        if argv[0] == "systemctl":
            timers = {
                "list-unit-files": "a.timer enabled\nb.timer static\nc.timer masked\n",
                "list-units": "a.timer loaded",
            }
            asked.append(argv)
            files = "FragmentPath=/usr/lib/systemd/system/a.timer\n\nFragmentPath=/etc/systemd/system/b.timer\n"
            return 0, timers.get(argv[1], files)
        if argv[1] == "-S":
            return 1, f"cron: {folder}/shipped\ncron: {folder}/edited\na: /lib/systemd/system/a.timer\n"
        return 0, f"\n {folder}/shipped {digest}\n {folder}/edited {'0' * 32}\n"

    monkeypatch.setattr(node_facts, "run", run)
    found = {name: package for name, package in node_facts.scheduled().items() if not name.startswith("/etc/")}
    assert found == {
        f"{folder}/shipped": "cron",
        f"{folder}/edited": "changed, cron",
        f"{folder}/added": "",
        "a.timer": "a",
        "b.timer": "",
    }
    assert [argv[2:] for argv in asked if argv[1] == "show"] == [("--property=FragmentPath", "a.timer", "b.timer")]


def test_units_whose_files_are_not_told_one_by_one_are_an_error(outputs):
    outputs(systemctl=(0, "FragmentPath=/a\n"))
    assert node_facts.unit_files([]) == {}
    with pytest.raises(ValueError, match="told the files of 1 units, 2 were asked for"):
        node_facts.unit_files(["a.timer", "b.timer"])


def test_sockets_have_the_programs_that_hold_them(outputs):
    outputs(ss=(0, 'LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=7,fd=3))\nLISTEN 0 1 0.0.0.0:23 0.0.0.0:*\n'))
    assert node_facts.listeners() == {"tcp/22": "sshd", "tcp/23": "", "udp/22": "sshd", "udp/23": ""}
