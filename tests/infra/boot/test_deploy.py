"""How the initramfs finds port, CD and plan: the text of deploy.sh itself, run by a shell on folders in place of /sys and /dev."""

import subprocess
from pathlib import Path

import pytest

from inventory.paths import repo_root

STUBS = """
mount() { [ -d "$5" ] && ln -sfn "$5" medium; }
umount() { rm medium; }
timeout() { echo "$1" >limit; shift; "$@"; }
wget() { echo "asked $4"; }
say() { echo "$*"; }
stop() { echo "stop $1"; exit; }
eject() { [ -e medium ] || echo "eject ${1##*/}"; }
sync() { :; }
reboot() { echo "reboot $1"; exit; }
"""
"""mount -t iso9660 -o ro DEVICE FOLDER; wget -q -O - URL."""
MACS = {"eth0": "02:5e:00:00:00:01", "eth1": "02:5e:00:00:00:02"}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two ports, and two CDs: sr0 is somebody else's, sr1 has ID abc and a plan for eth1."""
    for port, mac in MACS.items():
        (tmp_path / "sys/class/net" / port).mkdir(parents=True)
        (tmp_path / "sys/class/net" / port / "address").write_text(mac + "\n")
    for drive, identity in (("sr0", "old"), ("sr1", "abc")):
        (tmp_path / "sys/block" / drive).mkdir(parents=True)
        (tmp_path / "dev" / drive / "plan").mkdir(parents=True)
        (tmp_path / "dev" / drive / "bringup-id").write_text(identity + "\n")
    (tmp_path / "dev/sr1/plan/02-5e-00-00-00-02.env").write_text("DEVICE='mgmt01'\n")
    return tmp_path


SCRIPT = (repo_root() / "infra/boot/deploy.sh").read_text()


def told(machine: Path, command: str, script: str = SCRIPT) -> tuple[int, str]:
    """Exit status and output of a command after the functions of deploy.sh are defined."""
    functions = script[script.index("\nopen() {") : script.index("\nmount -t proc proc /proc\n")]
    for folder in ("/sys/", "/dev/", "/medium"):
        functions = functions.replace(folder, f"{machine}{folder}")
    done = subprocess.run(
        ["sh", "-uc", f"{STUBS}{functions}\n{command}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=machine,
        timeout=60,
    )
    return done.returncode, done.stdout.strip()


def test_the_port_is_found_by_its_mac(machine: Path) -> None:
    assert told(machine, f"port_of {MACS['eth0']}") == (0, "eth0")
    assert told(machine, "port_of 02:5e:00:00:00:09") == (1, "")


def test_the_cd_is_the_one_that_the_kernel_names(machine: Path) -> None:
    assert told(machine, "mount_medium abc && cat medium/bringup-id") == (0, "abc")
    assert told(machine, "mount_medium xyz; echo $?; ls medium 2>/dev/null") == (2, "1")


def test_the_plan_is_that_of_a_port_of_this_server(machine: Path) -> None:
    plan = f"{machine}/medium/plan/02-5e-00-00-00-02.env"
    assert told(machine, "mount_medium abc; plan_on_medium") == (0, plan)
    assert told(machine, "mount_medium old; plan_on_medium") == (1, "")


def test_a_path_is_read_and_an_address_is_asked(machine: Path) -> None:
    assert told(machine, f"open {machine}/dev/sr1/bringup-id 30") == (0, "abc")
    assert told(machine, "open http://10.77.1.1/plan/x.env 30") == (0, "asked http://10.77.1.1/plan/x.env")
    assert told(machine, f"open {machine}/none 30 2>/dev/null") == (1, "")


def test_a_cd_that_cannot_be_read_is_not_waited_for_for_ever(machine: Path) -> None:
    assert told(machine, f"open {machine}/dev/sr1/bringup-id 30") == (0, "abc")
    assert (machine / "limit").read_text() == "30\n"


def test_the_cd_is_ejected_before_the_server_starts_again(machine: Path) -> None:
    assert told(machine, "MEDIUM=abc; mount_medium abc; restart") == (0, "eject sr1\nreboot -f")
    refused = "eject() { return 1; }; MEDIUM=abc; mount_medium abc; restart"
    assert told(machine, refused)[1].splitlines()[1:] == ["reboot -f"]
    assert "the CD stays in" in told(machine, refused)[1]
    assert told(machine, "MEDIUM=; restart") == (0, "reboot -f")
    assert SCRIPT.count("reboot -f") == 1


def test_a_cd_that_comes_late_takes_no_time_from_the_ports(machine: Path) -> None:
    """Both come after 15 looks: together that is more than the 20 that each has."""
    waits = SCRIPT[SCRIPT.index("\nMEDIUM=$(argument") : SCRIPT.index('\nopen "$PLAN" 30')]
    tries = next(line for line in SCRIPT.splitlines() if line.startswith("TRIES="))
    late = """
        argument() { echo abc; }
        mdev() { :; }
        looks=0
        sleep() { looks=$((looks + 1)); }
        mount_medium() { [ $looks -ge 15 ]; }
        plan_on_medium() { [ $looks -ge 30 ] && echo there; }
    """
    assert told(machine, f'{late}\n{tries}\n{waits}\necho "$PLAN after $looks"') == (0, "there after 30")
