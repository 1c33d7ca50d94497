"""How the initramfs finds port, CD and plan: the text of deploy.sh itself, run by a shell on folders in place of /sys and /dev."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from capacity.services.boot.life import SAFE_STOPS
from inventory.paths import repo_root
from tests.capacity.services.boot.cases import RECOVERY

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
    """Folders of a machine with two ports, and two CDs: sr0 is somebody else's, sr1 has ID abc and a plan for eth1."""
    for port, mac in MACS.items():
        (tmp_path / "sys/class/net" / port).mkdir(parents=True)
        (tmp_path / "sys/class/net" / port / "address").write_text(mac + "\n")
    for folder in ("tmp", "proc/sys/vm", "mnt/run"):
        (tmp_path / folder).mkdir(parents=True)
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
    functions = re.sub(r"(?<!\w)/(?=(?:sys|dev|mnt|tmp|proc)/|medium)", f"{machine}/", functions)
    done = subprocess.run(
        ["sh", "-uc", f"{STUBS}{functions}\n{command}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=machine,
        timeout=60,
    )
    return done.returncode, done.stdout.strip()


def test_what_it_says_is_on_every_console_that_can_be_written(machine: Path) -> None:
    lead = SCRIPT[SCRIPT.index("\nsay() {") : SCRIPT.index("\nreport() {")]
    for folder in ("sys/", "dev/"):
        lead = lead.replace(f"/{folder}", f"{machine}/{folder}")
    assert told(machine, f"{lead}\nsay one; cat {machine}/dev/console")[1] == "bringup: one", "before anything is known"
    active = machine / "sys/class/tty/console/active"
    active.parent.mkdir(parents=True)
    active.write_text("tty0 none/ttyS3 ttyS1\n")
    assert told(machine, f"{lead}\nsay started image; echo $?") == (0, "0")
    for console in ("tty0", "ttyS1"):
        assert (machine / "dev" / console).read_text() == "bringup: started image\n"


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


def traced(command: str, *names: str) -> str:
    """A command with functions of these names that say how they were called."""
    return "\n".join(f'{name}() {{ echo "{name} $*"; }}' for name in names) + f"\n{command}"


def test_two_members_are_a_mirror_and_one_is_written_itself(machine: Path) -> None:
    one = traced("make_array 0 root /d/a3; echo $ARRAY; assemble 0 /d/a3; echo $ARRAY", "mdadm")
    assert told(machine, one) == (0, "/d/a3\n/d/a3")
    two = traced("make_array 1 boot /d/a3 /d/b3 2>/dev/null; echo ${ARRAY##*/}; cat tmp/said", "mdadm")
    lines = told(machine, two)[1].splitlines()
    assert lines[:2] == ["mdadm --zero-superblock /d/a3 /d/b3", "md1"]
    assert "--level=1 --raid-devices=2 --metadata=1.2" in lines[2]
    assert lines[2].endswith("--name=boot /d/a3 /d/b3")


def test_partitions_are_those_of_each_drive(machine: Path) -> None:
    lead = SCRIPT[SCRIPT.index("\npart() {") : SCRIPT.index("\nmark() {")].replace("/dev/", "D/")
    assert told(machine, f'{lead}\nFOUND=" S1=nvme0n1 S2=sda"; parts 4')[1].split() == ["D/nvme0n1p4", "D/sda4"]


FINDING = SCRIPT[SCRIPT.index("\nFOUND=") : SCRIPT.index("\nDONE= FREE=")]


def found(machine: Path, *serials: str, drive_mib: int = 0) -> tuple[int, str]:
    """Exit status and output of the search for drives of these serial numbers."""
    lead = SCRIPT[SCRIPT.index("\ndrive_serial() {") : SCRIPT.index("\npart() {")]
    given = f"DRIVE_MIB={drive_mib} SERIALS='{' '.join(serials)}'; stop() {{ echo stop $*; exit 3; }}"
    search = f"{lead}\n{given}\n{FINDING}".replace("/sys/", f"{machine}/sys/")
    return told(machine, f"{search}\necho $FOUND")


def add_drive(machine: Path, name: str, serial: str, hidden: str = "0") -> None:
    """A drive of 64 MiB as /sys/block has it."""
    block = machine / "sys/block" / name
    (block / "device").mkdir(parents=True)
    for file, text in (("size", str(64 << 11)), ("hidden", hidden), ("device/serial", f"{serial}   ")):
        (block / file).write_text(f"{text}\n")


def test_the_hidden_paths_of_an_nvme_drive_are_no_drives(machine: Path) -> None:
    for number, serial in ((0, "S1"), (1, "S2")):
        add_drive(machine, f"nvme{number}c{number}n1", serial, hidden="1")
        add_drive(machine, f"nvme{number}n1", serial)
    assert found(machine, "S2", "S1") == (0, "S2=nvme1n1 S1=nvme0n1")


def test_two_drives_with_one_serial_number_are_a_stop(machine: Path) -> None:
    add_drive(machine, "nvme0n1", "S1")
    add_drive(machine, "nvme0n2", "S1")
    assert found(machine, "S1") == (3, "stop ambiguous-disk serial number S1 is that of nvme0n1 nvme0n2")
    status, said = found(machine, "S9")
    assert (status, said[:57]) == (3, "stop wrong-disk no drive with serial number S9; there are"[:57])


def test_a_drive_that_the_image_does_not_fit_on_is_a_stop_before_anything_is_written(machine: Path) -> None:
    add_drive(machine, "nvme0n1", "S1")
    assert found(machine, "S1", drive_mib=64) == (0, "S1=nvme0n1")
    assert found(machine, "S1", drive_mib=65) == (3, "stop disk-too-small S1 has 64 MiB, needed 65")
    assert SCRIPT.index("stop disk-too-small") < SCRIPT.index('set_mark "$drive"')


def test_a_member_that_reads_otherwise_is_named(machine: Path) -> None:
    read = "stop() { echo stop $*; exit 3; };"
    good = f"{read} reader() {{ echo aa; }}; verify root reader aa 5 x1 x2"
    assert told(machine, good)[0] == 0
    bad = f"{read} reader() {{ [ $1 = x2 ] && echo bb || echo aa; }}; verify root reader aa 5 x1 x2"
    assert told(machine, bad) == (3, "stop image-altered root on x2 reads bb, planned aa")
    silent = f"{read} reader() {{ return 1; }}; verify root reader aa 5 x1"
    assert told(machine, silent) == (3, "stop image-altered root on x1 reads , planned aa")


def test_only_a_tpm_of_version_2_with_its_device_counts(machine: Path) -> None:
    assert told(machine, "has_tpm")[0] != 0
    version = machine / "sys/class/tpm/tpm0/tpm_version_major"
    version.parent.mkdir(parents=True)
    (machine / "dev/tpmrm0").symlink_to("/dev/null")
    for number, status in (("1", 1), ("2", 0)):
        version.write_text(f"{number}\n")
        assert told(machine, "has_tpm")[0] == status
    (machine / "dev/tpmrm0").unlink()
    assert told(machine, "has_tpm")[0] != 0


def test_a_server_without_a_tpm_stops_before_its_drives_are_looked_at() -> None:
    assert SCRIPT.index("stop no-tpm") < SCRIPT.index("\nFOUND=") < SCRIPT.index('set_mark "$drive"')


WRITING = SCRIPT[SCRIPT.index('if [ -n "$LUKS" ]; then\n    BOOTS') : SCRIPT.index("\ne2fsck -fp")]
STEPS = """
    ROLE=gpu VERSION=v ROOT_FILE=r ROOT_SHA256=rs ROOT_SIZE=1 BOOT_FILE=b BOOT_SHA256=bs BOOT_SIZE=2
    parts() { echo p$1 q$1; }
    make_array() { echo "make_array $*"; ARRAY=md$1; }
    assemble() { echo "assemble $*"; ARRAY=md$1; }
"""


def test_a_plain_root_is_written_to_the_mirror_and_read_back_from_each_member(machine: Path) -> None:
    names = ("write_to", "report", "stop_array", "verify", "encrypt", "keyed", "cryptsetup")
    assert told(machine, traced(f"{STEPS} LUKS=\n{WRITING}\necho $ROOT", *names))[1].splitlines() == [
        "make_array 0 root p3 q3",
        "write_to md0 root r",
        "report verifying image gpu v",
        "stop_array md0",
        "verify root plain rs 1 p3 q3",
        "assemble 0 p3 q3",
        "md0",
    ]


def test_an_encrypted_root_is_written_through_the_volume_and_read_back_decrypted_from_each_member(
    machine: Path,
) -> None:
    names = ("write_to", "report", "stop_array", "verify", "encrypt", "keyed", "cryptsetup")
    assert told(machine, traced(f"{STEPS} LUKS=u\n{WRITING}\necho $BOOT $ARRAY", *names))[1].splitlines() == [
        "make_array 1 boot p3 q3",
        "write_to md1 boot b",
        "stop_array md1",
        "make_array 0 root p4 q4",
        "encrypt md0",
        "write_to /dev/mapper/root root r",
        "cryptsetup close root",
        "report verifying image gpu v",
        "stop_array md0",
        "verify boot plain bs 2 p3 q3",
        "verify root decrypted rs 1 p4 q4",
        "assemble 1 p3 q3",
        "assemble 0 p4 q4",
        "keyed open md0 root",
        "md1 md0",
    ]


DER = base64.b64encode(RECOVERY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()


def sealing(machine: Path, clevis: str = "cat >got; echo 'clevis' $* >>called") -> str:
    """seal with the programs of the written system in place of those below /mnt."""
    (machine / "bin").mkdir(exist_ok=True)
    real = shutil.which("openssl")
    programs = {
        "clevis": f"cd {machine}; case $2 in pass) printf %s theirs ;; *) {clevis} ;; esac",
        "cryptsetup": f'cd {machine}; cat >"$1-$2"; echo cryptsetup "$@" >>called',
        "openssl": f'set -- $(printf "%s " "$@" | sed "s|/run/|{machine}/mnt/run/|"); exec {real} "$@"',
    }
    for name, text in programs.items():
        (machine / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (machine / "bin" / name).chmod(0o755)
    alone = (
        'SEAL_LIMIT_S=9; mount() { :; }; umount() { :; }; chroot() { shift; "$@"; }; stop() { echo stop $*; exit 3; }; '
    )
    return f"PATH={machine}/bin:$PATH; {alone}"


@pytest.mark.needs("openssl")
@pytest.mark.parametrize(("pcrs", "policy"), [("", "{}"), ("7", '{"pcr_bank":"sha256","pcr_ids":"7"}')])
def test_the_key_goes_to_the_tpm_and_to_the_holder_of_the_recovery_key_only(
    machine: Path, pcrs: str, policy: str
) -> None:
    command = f"{sealing(machine)} KEY={'ab' * 32} PCRS={pcrs} RECOVERY={DER}; seal /md0"
    status, said = told(machine, command)
    assert (status, said) == (0, "")
    assert (machine / "got").read_text() == "ab" * 32
    called = (machine / "called").read_text()
    assert f"clevis luks bind -y -s 1 -k - -d /md0 tpm2 {policy}\n" in called
    assert "cryptsetup open --test-passphrase --key-file - /md0\n" in called
    token = json.loads((machine / "token-import").read_text())
    assert (token["type"], token["keyslots"]) == ("bringup-recovery", ["0"])
    sealed = base64.b64decode(token["rsa_oaep_sha256"])
    assert RECOVERY.decrypt(sealed, padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)) == b"ab" * 32
    assert "ab" * 32 not in called


@pytest.mark.needs("openssl")
def test_a_tpm_that_takes_no_key_and_a_recovery_key_that_is_none_are_stops(machine: Path) -> None:
    command = f"{sealing(machine, 'echo the TPM is locked; exit 1')} KEY=k PCRS= RECOVERY={DER}; seal /md0"
    assert told(machine, command) == (3, "stop not-sealed TPM: the TPM is locked")
    status, said = told(machine, f"{sealing(machine)} KEY=k PCRS= RECOVERY=AAAA; seal /md0")
    assert (status, said[:30]) == (3, "stop not-sealed recovery key: ")


FETCHING = SCRIPT[SCRIPT.index('\nopen "$LAYOUT"') : SCRIPT.index("\nNONCE=")]
SEEDING = SCRIPT[SCRIPT.index("\nmkdir -p /mnt/var/lib/cloud") : SCRIPT.index('\necho "$ROLE $VERSION')]


def test_a_server_without_a_seed_stops_before_anything_is_written(machine: Path) -> None:
    served = "LAYOUT=http://b/l SEED=http://b/seed/m;"
    fetching = re.sub(r"(?<!\w)/tmp/", f"{machine}/tmp/", FETCHING)
    seeding = re.sub(r"/(tmp|mnt)/", rf"{machine}/\1/", SEEDING)
    assert told(machine, f"{served} {fetching}\n{seeding}") == (0, "")
    seed = machine / "mnt/var/lib/cloud/seed/nocloud"
    assert {path.name for path in seed.iterdir()} == {"meta-data", "user-data", "network-config"}
    assert (seed / "user-data").read_text() == "asked http://b/seed/m/user-data\n"
    gone = "wget() { case $4 in */user-data) return 1 ;; esac; };"
    assert told(machine, f"{gone} {served} {fetching}\necho on") == (0, "stop no-seed")
    assert SCRIPT.index("stop no-seed") < SCRIPT.index('set_mark "$drive"')


def test_what_it_stops_as_is_known_with_what_to_do() -> None:
    assert {"no-tpm", "not-sealed"} <= set(SAFE_STOPS)
    assert set(re.findall(r"\bstop ([a-z]+(?:-[a-z]+)+)\b", SCRIPT)) == set(SAFE_STOPS)
