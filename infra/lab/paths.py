"""Where the lab keeps things: one folder per lab, one cache shared by all labs, and the error type of this package."""

import os
from dataclasses import dataclass
from pathlib import Path


class LabError(Exception):
    """Something the person in front of the lab has to act on; the text is the whole message."""


def lab_home() -> Path:
    """Folder that holds one folder per lab; BRINGUP_LAB_HOME overrides."""
    return Path(os.environ.get("BRINGUP_LAB_HOME", "/var/lib/bringup/labs"))


def cache_dir() -> Path:
    """Folder of the node root and the package mirror, which outlive every lab; BRINGUP_CACHE overrides."""
    return Path(os.environ.get("BRINGUP_CACHE", "/var/cache/bringup"))


def repo_root() -> Path:
    """Top folder of this suite, from which the lab's daemons are started."""
    return Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class LabPaths:
    """All files of one lab. The folder is 0700: it holds secrets."""

    name: str

    @property
    def root(self) -> Path:
        return lab_home() / self.name

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    @property
    def spec(self) -> Path:
        """The LabSpec as JSON, read by every daemon of the lab."""
        return self.root / "spec.json"

    @property
    def power_saved(self) -> Path:
        """What powerd starts from in a lab that was restored (snapshot.py)."""
        return self.root / "powerd.json"

    @property
    def power_socket(self) -> Path:
        return self.root / "power.sock"

    @property
    def faults(self) -> Path:
        """Faults in force, with what is needed to undo each."""
        return self.root / "faults.json"

    @property
    def ready(self) -> Path:
        """Exists once `up` has seen every device answer."""
        return self.root / "ready"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def alerts(self) -> Path:
        """Notifications that the on-call webhook has taken, one JSON object a line."""
        return self.logs / "alerts.jsonl"

    @property
    def notices(self) -> Path:
        """Notices about jobs and nodes that their webhook has taken, in the same form."""
        return self.logs / "notices.jsonl"

    def device(self, device: str) -> Path:
        """What a device would keep on its own disk or flash."""
        return self.root / "devices" / device

    def hardware(self, server: str) -> Path:
        """Parts of a server that have a state of their own, such as GPUs: it outlives power cuts and installations."""
        return self.device(server) / "hardware"

    def secret(self, name: str) -> str:
        return (self.secrets / name).read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Create or replace a file that only root may read, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(path.name + ".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    new.rename(path)
