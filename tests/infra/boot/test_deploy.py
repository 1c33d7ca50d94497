"""How the initramfs finds port, CD and plan: the text of deploy.sh itself, run by a shell on folders in place of /sys and /dev."""

import subprocess
from pathlib import Path

import pytest

from inventory.paths import repo_root

STUBS = """
mount() { [ -d "$5" ] && ln -sfn "$5" medium; }
umount() { rm medium; }
timeout() { shift; "$@"; }
wget() { echo "asked $4"; }
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


def told(machine: Path, command: str) -> tuple[int, str]:
    """Exit status and output of a command after the functions of deploy.sh are defined."""
    script = (repo_root() / "infra/boot/deploy.sh").read_text()
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
