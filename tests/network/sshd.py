"""An sshd of this user on a local port, with its keys in a folder.

folder/user gets in; folder/known_hosts pins the host's key, folder/other_hosts another one, folder/no_hosts none.
"""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin:/bin")


def keygen(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@contextlib.contextmanager
def serving(folder: Path, *lines: str, keys: str = "") -> Iterator[int]:
    """The port that it listens on; `lines` are more of its configuration, `keys` another file of keys than folder/user.pub."""
    host, user, stranger = (keygen(folder / name) for name in ("host", "user", "stranger"))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    (folder / "banner").write_text("SIMULATED by a test\n")
    own = (
        f"ListenAddress 127.0.0.1:{port}",
        f"HostKey {host}",
        f"AuthorizedKeysFile {keys or f'{user}.pub'}",
        f"Banner {folder / 'banner'}",
        *("StrictModes no", "UsePAM no", "PasswordAuthentication no", "PidFile none", "PermitRootLogin yes"),
    )
    (folder / "config").write_text("".join(f"{line}\n" for line in (*own, *lines)))
    Path("/run/sshd").mkdir(exist_ok=True)
    for name, key in (("known_hosts", host), ("other_hosts", stranger)):
        kind, text = Path(f"{key}.pub").read_text().split()[:2]
        (folder / name).write_text(f"[127.0.0.1]:{port} {kind} {text}\n")
    (folder / "no_hosts").write_text("")
    with subprocess.Popen([str(SSHD), "-D", "-f", str(folder / "config")], stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(100):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()
