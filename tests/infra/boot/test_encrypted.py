"""A machine with a TPM by swtpm, written from a CD onto encrypted drives: it opens them itself, with either drive, and nobody else
does but the holder of the site's recovery key.
"""

import base64
import contextlib
import dataclasses
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from capacity.services import boot
from capacity.services.boot.files import of_writing
from capacity.services.boot.scripts import MEDIUM
from capacity.services.boot.seeds import console_keys
from infra.boot import image as images
from infra.boot import iso
from infra.lab.keys import ssh_key
from infra.metal.machines import Drive, From, Machine, command, start_tpm
from inventory.delivered.assets import load_assets
from inventory.paths import var_dir
from inventory.site.sections.provisioning import Provisioning
from tests.plans import plan_of

NAME, ROLE = "gpu002", "gpu"
WRITE_S, START_S, LOGIN_S = 2700.0, 1500.0, 60.0
POLL_S = 3.0
PROMPT = "Please unlock disk root"
"""What cryptsetup-initramfs asks on the console (cryptroot, askpass)."""
PEM = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@dataclasses.dataclass
class Bench:
    """The machine, what it is written from, how its node is logged in to, and the site's recovery key."""

    machine: Machine
    cd: Path
    image: boot.Image
    key: Path
    address: str
    recovery: rsa.RSAPrivateKey
    known_hosts: Path

    def text(self, start: From) -> str:
        console = self.machine.console(start)
        return console.read_text(errors="replace") if console.exists() else ""

    @contextlib.contextmanager
    def on(self, start: From, **changed: Any) -> Iterator["Running"]:
        """The machine with power, `changed` for this start."""
        machine = dataclasses.replace(self.machine, **changed)
        machine.console(start).unlink(missing_ok=True)
        console = machine.folder / "console"
        console.unlink(missing_ok=True)
        port = free_port()
        argv = command(machine, start, self.cd if start == "cd" else None)
        at = next(n for n, word in enumerate(argv) if word.startswith("tap,id=port"))
        network = self.address.rpartition(".")[0] + ".0/24"
        argv[at] = f"user,id=port,net={network},restrict=on,hostfwd=tcp:127.0.0.1:{port}-{self.address}:22"
        at = argv.index("-serial")
        log = machine.console(start)
        argv[at : at + 2] = [
            "-chardev",
            f"socket,id=con,path={console},server=on,wait=off,logfile={log}",
            "-serial",
            "chardev:con",
        ]
        tpm = start_tpm(machine) if machine.tpm else None
        with (machine.folder / "qemu.log").open("ab") as errors:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        try:
            yield Running(self, process, start, port, console)
        finally:
            for one in filter(None, (process, tpm)):
                one.kill()
                one.wait()


@dataclasses.dataclass
class Running:
    """The machine while it has power."""

    bench: Bench
    process: "subprocess.Popen[bytes]"
    start: From
    port: int
    console: Path

    def shows(self, *words: str, limit_s: float) -> str:
        """The first of these words that its console shows; AssertionError where none comes in time or before it goes off."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            over = self.process.poll() is not None
            if found := [word for word in words if word in self.bench.text(self.start)]:
                return found[0]
            assert not over, self.bench.text(self.start)[-3000:]
            time.sleep(POLL_S)
        raise AssertionError(self.bench.text(self.start)[-3000:])

    def ends(self, limit_s: float) -> None:
        self.process.wait(limit_s)

    def run(self, script: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        argv: list[str | Path] = ["ssh", "-i", self.bench.key, "-p", str(self.port), "-o", "BatchMode=yes"]
        argv += [
            "-o",
            f"HostKeyAlias={NAME}",
            "-o",
            f"UserKnownHostsFile={self.bench.known_hosts}",
            "-o",
            "ConnectTimeout=20",
        ]
        return subprocess.run(
            [*argv, "root@127.0.0.1", script], input=given, capture_output=True, text=True, check=False, timeout=LOGIN_S
        )

    def login(self) -> str:
        """What /etc/bringup-image says, once the node lets us in under the host key that its first console showed."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.bench.text(self.start)[-3000:]
            if not self.bench.known_hosts.exists() and (keys := console_keys(self.bench.text("disk"))):
                self.bench.known_hosts.write_text("".join(f"{NAME} {key}\n" for key in keys))
            if self.bench.known_hosts.exists():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    if (said := self.run("cat /etc/bringup-image")).returncode == 0:
                        return said.stdout.strip()
            time.sleep(POLL_S)
        raise AssertionError(self.bench.text(self.start)[-3000:])

    def shut_down(self) -> None:
        self.run("sync; systemctl poweroff")
        self.ends(300)

    def types(self, text: str) -> None:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.console))
            line.sendall(text.encode() + b"\r")
            time.sleep(POLL_S)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def marks(drives: Sequence[Drive]) -> list[bytes]:
    return [drive.file.read_bytes()[: 2 << 20].strip(b"\0") for drive in drives if drive.file.exists()]


def made(folder: Path, *, secure: bool) -> Bench:
    """The machine with empty drives, the image, and the CD that writes it."""
    plan, name = plan_of("lab-metal"), "secure.iso" if secure else "plain.iso"
    recovery = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    asked = Provisioning(
        encrypt="tpm2", recovery_key=recovery.public_key().public_bytes(*PEM).decode(), secure_boot=secure or None
    )
    plan = dataclasses.replace(plan, site=plan.site.model_copy(update={"provisioning": asked}))
    of, images_at = images.system(plan.site.os.key, ROLE, virtual=True, encrypted=True), var_dir("soak") / "encrypted"
    if not images.is_current(of, images_at):
        images.build(of, images_at, None, print)
    image = boot.parse_image((images_at / "image.json").read_text(), str(images_at / "image.json"))
    ssh_key(folder / "key", "soak")
    found = boot.intents(plan, load_assets(plan.site))
    host = next(host for host in found.servers() if host["device"] == NAME)
    login = (folder / "key.pub").read_text()
    written = of_writing(plan, host, found.layouts[NAME], image, login, {}, MEDIUM)
    iso.write(images_at, image, written, name, "ttyS0")
    drives = tuple(Drive(serial, folder / f"{serial}.raw").ensure() for serial in found.layouts[NAME].serials)
    machine = Machine(NAME, host["mac"], "", True, drives, folder, tpm=True, secure=secure)
    (folder / f"{NAME}.vars").write_bytes(machine.firmware[1].read_bytes())
    address = host["address"].partition("/")[0]
    return Bench(machine, images_at / name, image, folder / "key", address, recovery, folder / "known_hosts")


@pytest.fixture(params=[False, True], ids=["no-secure-boot", "secure-boot"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return made(tmp_path, secure=request.param)


READ = """set -e
findmnt -no SOURCE,FSTYPE /; findmnt -no SOURCE,FSTYPE /boot
device=$(cryptsetup status root | sed -n 's/ *device: *//p')
cryptsetup luksDump --dump-json-metadata "$device"
"""


@pytest.mark.soak
@pytest.mark.needs("root", "qemu-system-x86_64", "swtpm", "mmdebstrap", "xorriso", "mcopy", "zstd")
def test_a_server_writes_encrypted_drives_and_its_tpm_opens_them(bench: Bench) -> None:
    note = f"{ROLE} {bench.image.version} {bench.image.parts['root'].sha256}"
    if not bench.machine.secure:
        with bench.on("cd", tpm=False) as running:
            running.shows("bringup: no-tpm", limit_s=START_S)
        assert marks(bench.machine.drives) == [b"", b""]
    with bench.on("cd") as running:
        running.shows("bringup: written", limit_s=WRITE_S)
        running.ends(60)
    with bench.on("disk") as running:
        assert running.login() == note
        said = running.run(READ)
        root, kernels, rest = said.stdout.split("\n", 2)
        assert (root.split(), kernels.split()[1]) == (["/dev/mapper/root", "ext4"], "ext4"), said
        header = json.loads(rest)
        assert {one["encryption"] for one in header["segments"].values()} == {"aes-xts-plain64"}
        assert sorted(header["keyslots"]) == ["0", "1"]
        tokens = {one["type"]: one for one in header["tokens"].values()}
        assert sorted(tokens) == ["bringup-recovery", "clevis"]
        protected = tokens["clevis"]["jwe"]["protected"]
        policy = json.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))["clevis"]
        assert (policy["pin"], policy["tpm2"].get("pcr_ids")) == ("tpm2", "7" if bench.machine.secure else None)
        sealed = base64.b64decode(tokens["bringup-recovery"]["rsa_oaep_sha256"])
        key = bench.recovery.decrypt(sealed, padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)).decode()
        opens = "cryptsetup open --test-passphrase --key-slot 0 --key-file - $(cryptsetup status root | sed -n 's/ *device: *//p')"
        assert running.run(opens, key).returncode == 0
        assert running.run(opens, key[::-1]).returncode != 0
        assert key not in bench.text("cd") + bench.text("disk")
        running.shut_down()
    for lost in bench.machine.drives:
        left = tuple(drive for drive in bench.machine.drives if drive is not lost)
        with bench.on("disk", drives=left, kept=False) as running:
            assert running.login() == note
            assert "[2/1]" in running.run("cat /proc/mdstat").stdout
    bench.machine.tpm_folder.rename(bench.machine.folder / "kept.tpm")  # as a mainboard that is replaced
    with bench.on("disk", kept=False) as running:
        running.shows(PROMPT, limit_s=START_S)
        time.sleep(60)
        assert "Unlocked" not in bench.text("disk")
        running.types(key)
        assert running.login() == note
