"""Commands on a device over SSH: OpenSSH's client, key login, pinned host keys, a time budget for all of it.

    host = SshHost("gpu001", "10.77.1.11", credentials)
    host.run(["cat", "/etc/os-release"]).out
    host.program(text, {"names": ["a"]})    # a Python program there: JSON in, JSON out
    parallel.many([host, other], lambda h: h.run("lldpcli -f json0 show neighbors").out)

One command is one connection (about 0.1 s on a local network). Whoever has ten questions asks them in one script:
`run("sh -s", stdin=script)`. Whoever cannot, because a library asks them, keeps one login open for all of them:
`with host.kept_open() as host: ...`. The operator's own ssh_config stays in force, for jump hosts; nothing of ours
outlives the call, or the block.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.credentials import SshCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceError,
    DeviceTimeout,
    LoginRefused,
    UnknownHostKey,
    Unreachable,
    UnreadableAnswer,
)

DEFAULT_BUDGET_S = 20.0
"""Time for one call, connection included."""
CONNECT_TIMEOUT_S = 5
SSH_FAILED = 255
"""ssh's own exit status for 'no session' (ssh(1), EXIT STATUS)."""
OUTPUT_BYTES = 64 << 20
"""Most output of one command: what infiniband-diags say of 8,192 adapters is about 20 MB."""
ERROR_BYTES = 1 << 20
"""Most standard error of one command, the server's banner included."""
BANNER_CHARACTERS = 4096
CHUNK_BYTES = 1 << 16
LOGIN_POLL_S = 0.01
CLOSE_S = 2.0
"""Until the pipes of a process that was killed are closed."""


@dataclass(frozen=True)
class Completed:
    """What a command left behind: its exit status, its output and the seconds it took with the connection.

    out is bounded and as the device wrote it: whoever reads it parses it (network.drivers.answers) or takes `text`. err is
    cleaned.
    """

    status: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        """The output as cleaned text of several lines."""
        return answers.text(self.out)


class SshHost:
    """One device that is reached over SSH. `name` appears in errors."""

    def __init__(
        self,
        name: str,
        address: str,
        credentials: SshCredentials,
        budget_s: float = DEFAULT_BUDGET_S,
        *,
        port: int = 22,
    ) -> None:
        self.name, self.address, self.credentials, self.budget_s, self.port = name, address, credentials, budget_s, port
        self._login: Path | None = None

    @contextlib.contextmanager
    def kept_open(self) -> Iterator["SshHost"]:
        """This device with one login for all commands of the block, one after the other; it ends with the block.

        A login that fails is told by the first command, which then makes its own.
        """
        kept = SshHost(self.name, self.address, self.credentials, self.budget_s, port=self.port)
        with tempfile.TemporaryDirectory(prefix="ssh-") as folder:
            socket = Path(folder) / "login"
            argv = self._argv(self.budget_s, "ERROR", {"ControlMaster": "yes", "ControlPath": str(socket)}, "-N")
            quiet = subprocess.DEVNULL
            master = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
            try:
                end = time.monotonic() + self.budget_s
                while not socket.exists() and master.poll() is None and time.monotonic() < end:
                    time.sleep(LOGIN_POLL_S)
                if socket.exists():
                    kept._login = socket
                yield kept
            finally:
                master.terminate()
                try:
                    master.wait(CLOSE_S)
                except subprocess.TimeoutExpired:
                    master.kill()
                    master.wait()

    def run(
        self, command: str | Sequence[str], *, stdin: bytes = b"", check: bool = True, budget_s: float | None = None
    ) -> Completed:
        """Run a command: a list is quoted word by word, a string goes to the remote shell as it is.

        Raises a DeviceError: Unreachable, LoginRefused, UnknownHostKey, DeviceTimeout, and with
        check BadAnswer when the command's exit status is not 0.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        return self._run(text, stdin, check, budget_s or self.budget_s, "ERROR")

    def program(
        self,
        text: str,
        request: object,
        *,
        python: Sequence[str] = ("python3",),
        budget_s: float | None = None,
        operation: str = "run a Python program",
    ) -> Any:
        """What a Python program prints there as JSON. It has its request, plain data, as JSON in sys.argv[1].

        Both go by standard input, since a request about a large site is too long for a command line. `operation` stands in
        the error. Raises as run() does, and UnreadableAnswer for anything but bounded JSON; its texts come cleaned.
        """
        stdin = with_request(text, request).encode()
        command = [*python, "-"]
        done = self.run(command, stdin=stdin) if budget_s is None else self.run(command, stdin=stdin, budget_s=budget_s)
        source = Source(self.name, operation, f"run {' '.join(python)} on the device by hand")
        try:
            return answers.load(done.out, source)
        except UnreadableAnswer as error:
            if not done.err:
                raise
            said = (done.out + done.err)[-answers.SHOWN_CHARACTERS :]
            raise source.unreadable(error.expected, said) from None

    def banner(self) -> str:
        """What the device says before the login: its legal notice, or that it is simulated."""
        return answers.text(self._run("true", b"", True, self.budget_s, "INFO").err.strip(), BANNER_CHARACTERS)

    def _run(self, text: str, stdin: bytes, check: bool, budget_s: float, log_level: str) -> Completed:
        began, login = time.monotonic(), str(self._login or "none")
        argv = [*self._argv(budget_s, log_level, {"ControlMaster": "no", "ControlPath": login}), text]
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            out, err = _communicate(process, stdin, budget_s, Source(self.name, _short(text)))
        except TimeoutError:
            raise DeviceTimeout(
                self.name,
                _short(text),
                f"an end within {budget_s:g} s",
                "none",
                "look at the device's console, then run the same command again",
            ) from None
        finally:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        done = Completed(
            process.returncode, out.decode(errors="replace"), answers.decoded(err), time.monotonic() - began
        )
        if done.status == SSH_FAILED:
            raise self._no_session(_short(text), done.err)
        if check and done.status:
            raise BadAnswer(
                self.name,
                _short(text),
                "exit status 0",
                f"{done.status}: {done.err or done.out}",
                "run the command on the device by hand",
            )
        return done

    def _argv(self, budget_s: float, log_level: str, sharing: dict[str, str], *flags: str) -> list[str]:
        c = self.credentials
        options = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "IdentityFile": str(c.key),
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(c.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": str(min(CONNECT_TIMEOUT_S, max(1, int(budget_s)))),
            "ForwardAgent": "no",
            "LogLevel": log_level,
            "Port": str(self.port),
            **sharing,
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return ["ssh", *flags, *words, f"{c.user}@{self.address}"]

    def _no_session(self, operation: str, err: str) -> DeviceError:
        where = f"{self.address}:{self.port}"
        if "IDENTIFICATION HAS CHANGED" in err or "Host key verification failed" in err:
            return UnknownHostKey(
                self.name,
                operation,
                f"the host key in {self.credentials.known_hosts}",
                "another or an unknown host key",
                "find out which device answers here before you accept its key",
            )
        if "Permission denied" in err or "Too many authentication failures" in err:
            return LoginRefused(
                self.name,
                operation,
                f"user {self.credentials.user} accepted with {self.credentials.key}",
                "login refused",
                "install the public key on the device",
            )
        if "timed out" in err or "timeout" in err.lower():
            return DeviceTimeout(
                self.name, operation, f"an SSH server at {where}", err, "check the device's power and management cable"
            )
        return Unreachable(
            self.name,
            operation,
            f"an SSH server at {where}",
            err or "the connection closed",
            "check the device's power and management cable",
        )


def _communicate(
    process: "subprocess.Popen[bytes]", stdin: bytes, budget_s: float, source: Source
) -> tuple[bytes, bytes]:
    """(standard output, standard error) of a process that ends within budget_s seconds, else TimeoutError.

    Popen.communicate would keep whatever comes: a device that never stops talking would fill our memory.
    """
    end, said = time.monotonic() + budget_s, {"out": bytearray(), "err": bytearray()}

    def listen(name: str, pipe: IO[bytes], limit: int) -> None:
        while len(said[name]) <= limit and (chunk := os.read(pipe.fileno(), CHUNK_BYTES)):
            said[name] += chunk
        if len(said[name]) > limit:
            process.kill()

    def talk(pipe: IO[bytes]) -> None:
        try:
            pipe.write(stdin)
            pipe.close()
        except (BrokenPipeError, ValueError):  # it ended, or was ended, before it had read all
            return

    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    threads = [
        threading.Thread(target=talk, args=(process.stdin,), daemon=True),
        threading.Thread(target=listen, args=("out", process.stdout, OUTPUT_BYTES), daemon=True),
        threading.Thread(target=listen, args=("err", process.stderr, ERROR_BYTES), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                raise TimeoutError
        process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for thread in threads:  # what was killed has closed its ends
            thread.join(CLOSE_S)
    for name, limit in (("out", OUTPUT_BYTES), ("err", ERROR_BYTES)):
        if len(said[name]) > limit:
            raise source.unreadable(f"at most {limit} bytes of output", "more")
    return bytes(said["out"]), bytes(said["err"])


def with_request(text: str, request: object) -> str:
    """A Python program with its request in sys.argv[1]."""
    return f"import sys\nsys.argv.append({json.dumps(request)!r})\n{text}"


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return f"run {line if len(line) < 60 else line[:57] + '...'}"
