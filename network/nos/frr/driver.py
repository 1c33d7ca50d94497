"""FRRouting switches: get, compare, load, commit under a rollback timer, confirm, roll back.

    with Switch("leaf01", "10.77.0.13", credentials, mgmt_mac="02:…") as switch:
        print(switch.compare(config))        # "- line" / "+ line"; "" when the switch runs it already
        if switch.load(config):              # syntax check on the switch, then the diff
            switch.commit(confirm_s=40)      # applied; the switch falls back by itself after 40 s ...
            switch.confirm()                 # ... unless this call arrives; saves for the next boot

The switch's side is on_device.sh. netmiko opens and authenticates the connection; commands run on SSH exec channels of
it, which give an exit status and keep standard error apart. The management port's own lines are never changed: where
the running configuration has some, they are carried over into the intended one.
"""

import logging
import re
import secrets
import shlex
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import paramiko
from netmiko import ConnectHandler
from netmiko.exceptions import NetmikoAuthenticationException, NetmikoTimeoutException
from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line, Source
from network.drivers.budget import within
from network.drivers.credentials import SshCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceError,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    PushIncomplete,
    PushRefused,
    PushRolledBack,
    Unreachable,
    WriteRefused,
    compare_identity,
)
from network.nos.driver import SwitchFacts

ON_DEVICE = Path(__file__).with_name("on_device.sh").read_text()
CONNECT_BUDGET_S = 15.0
"""TCP, key exchange, login: 0.4 s on an idle switch, several seconds while it reloads on a busy one."""
COMMAND_BUDGET_S = 60.0
"""The longest verb: a reload (0.4 s for a small switch) that waits 30 s for another push's lock."""
OUTPUT_BYTES = 8 << 20
"""Most output of one verb: a running configuration of 10,000 lines is below 1 MB."""
ERROR_BYTES = 1 << 20
BANNER_CHARACTERS = 4096
MOST_PORTS = 4096
TIMER_WAS_FASTER = 95
"""Exit status of `confirm` in on_device.sh."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # a hanging device else prints a traceback

Answer = TypeVar("Answer")
MTU = re.compile(r"[0-9]{1,6}")


class _BgpPeer(TypedDict):
    state: Line


class _BgpFamily(TypedDict, total=False):
    peers: dict[Line, _BgpPeer]


class _BgpSummary(TypedDict, total=False):
    """What `show bgp summary json` says, as far as it is read."""

    ipv4Unicast: _BgpFamily


class Switch:
    """One FRR switch. `name` appears in errors; `mgmt_mac`, when given, is compared before every write."""

    def __init__(
        self,
        name: str,
        address: str,
        credentials: SshCredentials,
        *,
        mgmt_mac: str = "",
        mgmt_port: str = "eth0",
        port: int = 22,
    ) -> None:
        self.name, self.address, self.credentials, self.port = name, address, credentials, port
        self.mgmt_mac, self.mgmt_port = mgmt_mac, mgmt_port
        self._connection: Any = None
        self._identity_compared = False
        self._push_id = ""

    def __enter__(self) -> "Switch":
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Open a new connection; an open one is closed first."""
        self.close()
        c = self.credentials

        def open_() -> Any:
            try:
                return ConnectHandler(
                    device_type="linux",
                    host=self.address,
                    port=self.port,
                    username=c.user,
                    use_keys=True,
                    key_file=str(c.key),
                    allow_agent=False,
                    ssh_strict=True,
                    system_host_keys=False,
                    alt_host_keys=True,
                    alt_key_file=str(c.known_hosts),
                    conn_timeout=5,
                    banner_timeout=8,
                    auth_timeout=8,
                )
            except NetmikoTimeoutException as e:  # netmiko calls every error of paramiko's a time-out
                raise e.__context__ if isinstance(e.__context__, paramiko.SSHException) else e from None

        self._connection = self._guarded("connect", CONNECT_BUDGET_S, open_)

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.remote_conn_pre.close()  # netmiko's own disconnect waits for a prompt

    # ---- reading -----------------------------------------------------------------------------------------------
    def facts(self) -> SwitchFacts:
        """Host name, management MAC, software version, login banner and ports."""
        text = self._verb("facts", self.mgmt_port)
        banner = self._connection.remote_conn_pre.get_transport().get_banner() or b""
        return parse_facts(self.name, text, answers.decoded(banner, BANNER_CHARACTERS).strip())

    def get(self) -> str:
        """The running configuration."""
        return self._verb("running")

    def compare(self, config: str) -> str:
        """What would change: one '- line' or '+ line' each, with its section; '' when the switch runs this config."""
        data = with_management(config, self.get(), self.mgmt_port).encode()
        return parse_diff(self._verb("compare", stdin=data))

    def neighbours(self) -> dict[str, str]:
        """{port or address: BGP state} of every configured IPv4 unicast neighbour."""
        return parse_neighbours(self.name, self._verb("bgp"))

    def saved(self) -> bool:
        """Whether the configuration for the next boot is the running one."""
        return _plain(self._verb("saved")) == _plain(self._verb("running"))

    # ---- writing -----------------------------------------------------------------------------------------------
    def load(self, config: str) -> str:
        """Put the configuration beside the running one, let the switch check its syntax, and return the diff.

        Settles what an earlier, killed push left first. Raises PushRefused, with nothing changed, for a bad line.
        """
        self._compare_identity()
        self._verb("takeover")
        self._stage(config)
        status, out, _ = self._execute("check", (), b"")
        if status:
            self._verb("rollback")
            raise PushRefused(
                self.name,
                "check configuration",
                "a configuration that FRR accepts",
                out or f"vtysh -C: exit status {status}",
                "correct the template; nothing was changed",
            )
        return parse_diff(self._verb("diff", "new.conf"))

    def commit(self, confirm_s: int) -> None:
        """Apply what `load` put there. Unless `confirm` comes within confirm_s seconds, the switch goes back by itself.

        Raises PushRolledBack when FRR refuses a line or does not end up with the intended configuration.
        """
        self._push_id = secrets.token_hex(4)
        status, _, err = self._execute("apply", (self._push_id, str(confirm_s)), b"")
        remains = "" if status else parse_diff(self._verb("diff", "new.conf"))
        if remains:  # some deletions need a second pass
            status, _, err = self._execute("again", (self._push_id,), b"")
            if status == TIMER_WAS_FASTER:
                raise self._timer_was_faster("apply configuration")
            remains = parse_diff(self._verb("diff", "new.conf"))
        if status or remains:
            self.rollback()
            raise PushRolledBack(
                self.name,
                "apply configuration",
                "the intended configuration",
                err or f"still different: {remains}",
                "read ~/.bringup/reload.out on the switch; the earlier configuration is back",
            )

    def confirm(self) -> None:
        """Keep the applied configuration and save it; raises PushRolledBack when the switch's timer was faster."""
        status, _, err = self._execute("confirm", (self._push_id,), b"")
        if status == TIMER_WAS_FASTER:
            raise self._timer_was_faster("confirm configuration")
        if status:
            raise PushIncomplete(
                self.name, "confirm configuration", "exit status 0", f"{status}: {err}", "run the same command again"
            )
        self._require_saved()

    def save(self) -> None:
        """Save the running configuration for the next boot."""
        self._verb("save")
        self._require_saved()

    def rollback(self) -> None:
        """Go back to the configuration before `commit` and check that it is there. Raises PushIncomplete otherwise."""
        status, _, err = self._execute("rollback", (), b"")
        remains = parse_diff(self._verb("diff", "prev.conf"))
        if status or remains:
            raise PushIncomplete(
                self.name,
                "roll back",
                "the earlier configuration",
                err or f"different: {remains}",
                "compare the switch with ~/.bringup/prev.conf on it",
            )

    def runs_previous(self) -> bool:
        """Whether the switch is back at the configuration before the last `commit`."""
        return not parse_diff(self._verb("diff", "prev.conf"))

    def shut(self, port: str, seconds: int) -> None:
        """Take a port down. The switch takes it up again by itself after so many seconds; `open` does at once.

        Raises WriteRefused for the management port, and IdentityMismatch for another switch, with nothing changed.
        """
        self._compare_identity()
        if port == self.mgmt_port:
            way_out = "choose another port: this one is the way to the switch"
            raise WriteRefused(self.name, f"shut {port}", "a data port", "the management port", way_out)
        self._verb("shut", port, str(seconds))

    def open(self, port: str) -> None:
        """Take a port up."""
        self._verb("open", port)

    # ---- protocol ----------------------------------------------------------------------------------------------
    def _stage(self, config: str) -> None:
        data = with_management(config, self.get(), self.mgmt_port).encode()
        seen = self._verb("stage", stdin=data).strip()
        if seen != sha256(data).hexdigest():
            raise BadAnswer(
                self.name,
                "upload configuration",
                f"{len(data)} bytes there",
                "a different checksum",
                "look for a full file system on the switch",
            )

    def _compare_identity(self) -> None:
        if not self._identity_compared:
            compare_identity(self.name, {"mgmt_mac": self.mgmt_mac}, {"mgmt_mac": self.facts().mgmt_mac})
            self._identity_compared = True

    def _require_saved(self) -> None:
        if not self.saved():
            raise PushIncomplete(
                self.name,
                "save configuration",
                "the running configuration saved",
                "/etc/frr/frr.conf differs from it",
                "check that the user may write /etc/frr",
            )

    def _verb(self, verb: str, *arguments: str, stdin: bytes = b"") -> str:
        """Standard output of a verb of on_device.sh that must succeed."""
        status, out, err = self._execute(verb, arguments, stdin)
        if status:
            raise BadAnswer(self.name, verb, "exit status 0", f"{status}: {err or out}", "run the same command again")
        return out

    def _execute(self, verb: str, arguments: tuple[str, ...], stdin: bytes) -> tuple[int, str, str]:
        """(exit status, standard output, standard error) of a verb of on_device.sh."""
        command = shlex.join(["sh", "-c", ON_DEVICE, "bringup-push", verb, *arguments])

        def run() -> tuple[int, str, str]:
            into, out, err = self._connection.remote_conn_pre.exec_command(command, timeout=COMMAND_BUDGET_S)
            into.write(stdin)
            into.channel.shutdown_write()
            source = Source(self.name, verb, "look at what answers on the switch, then run the same command again")
            text = answers.read_at_most(out, OUTPUT_BYTES, source)
            complaint = answers.read_at_most(err, ERROR_BYTES, source)
            status = out.channel.recv_exit_status()
            if status < 0:  # paramiko's value for a channel that closed without one
                raise EOFError("the connection closed")
            return status, answers.decoded(text), answers.decoded(complaint).strip()

        if self._connection is None:
            self.connect()
        return self._guarded(verb, COMMAND_BUDGET_S, run)

    def _timer_was_faster(self, operation: str) -> PushRolledBack:
        return PushRolledBack(
            self.name,
            operation,
            "a confirmation in time",
            "the switch's rollback timer ran out first",
            "the earlier configuration is back; check that the new one keeps the management port, then run it again",
        )

    def _guarded(self, operation: str, budget_s: float, work: Callable[[], Answer]) -> Answer:
        """Run work within the budget; everything that goes wrong becomes a DeviceError that names this switch."""
        where = f"{self.address}:{self.port}"
        try:
            return within(budget_s, work)
        except DeviceError:
            raise
        except NetmikoAuthenticationException as e:
            raise LoginRefused(
                self.name,
                operation,
                f"user {self.credentials.user} accepted",
                "login refused",
                f"install the public key of {self.credentials.key} on the switch",
            ) from e
        except paramiko.BadHostKeyException as e:
            raise IdentityMismatch(
                self.name,
                operation,
                f"the host key in {self.credentials.known_hosts}",
                "another one",
                "find out which device answers here before you accept its key",
            ) from e
        except (TimeoutError, NetmikoTimeoutException) as e:
            if "TCP connection to device failed" in str(e):
                raise self._unreachable(operation, where, OSError("no TCP connection")) from e
            raise DeviceTimeout(
                self.name,
                operation,
                f"an answer from {where} in {budget_s:g} s",
                "none",
                "check the switch's power and management cable, then run the same command again",
            ) from e
        except paramiko.ssh_exception.IncompatiblePeer as e:
            raise BadAnswer(
                self.name,
                operation,
                "an SSH algorithm that both sides know",
                str(e),
                f"compare what `ssh -vv -p {self.port} {self.address}` shows of both, and allow a common one on the switch",
            ) from e
        except paramiko.SSHException as e:
            if "not found in known_hosts" in str(e):
                raise IdentityMismatch(
                    self.name,
                    operation,
                    f"a host key in {self.credentials.known_hosts}",
                    "none for it",
                    "add the switch's host key after comparing it with the factory's record",
                ) from e
            raise self._unreachable(operation, where, e) from e
        except (OSError, EOFError, ValueError, AttributeError) as e:
            raise self._unreachable(operation, where, e) from e

    def _unreachable(self, operation: str, where: str, error: Exception) -> Unreachable:
        return Unreachable(
            self.name,
            operation,
            f"an SSH server at {where}",
            str(error) or type(error).__name__,
            "check the switch's power and management cable, then run the same command again",
        )


def with_management(config: str, running: str, mgmt_port: str) -> str:
    """The intended configuration plus the running one's lines about the management port: its interface section and
    static routes through it. The push that shuts its own door does not exist then."""
    lines, keep, inside = running.splitlines(), [], False
    for line in lines:
        if re.fullmatch(rf"interface {re.escape(mgmt_port)}( .*)?", line):
            inside = True
        if inside or re.match(rf"ip(v6)? route .* {re.escape(mgmt_port)}( |$)", line):
            keep.append(line)
        if line in ("exit", "!"):
            inside = False
    return config + "".join(f"{line}\n" for line in keep)


def parse_diff(text: str) -> str:
    """frr-reload.py's 'Lines To Delete / Lines To Add' as one '- section / line' or '+ section / line' each."""
    sign, path, changes = "", list[tuple[int, str]](), list[tuple[str, ...]]()
    for line in text.splitlines():
        if line.startswith("Lines To "):
            sign, path = ("-" if line.startswith("Lines To Delete") else "+"), []
        elif sign and line.strip() and set(line.strip()) != {"="}:
            depth = len(line) - len(line.lstrip())
            path = [(d, word) for d, word in path if d < depth] + [(depth, line.strip())]
            changes.append((sign, *(word for _, word in path)))
    opened = {change[:depth] for change in changes for depth in range(len(change))}
    lines = (f"{change[0]} {' / '.join(change[1:])}" for change in changes if change not in opened)
    return "\n".join(dict.fromkeys(lines))


def parse_facts(device: str, text: str, banner: str = "") -> SwitchFacts:
    """The `facts` verb's lines. Raises UnreadableAnswer when the answer is cut short."""
    source = Source(device, "read facts", "check that FRR runs on the switch, then run the same command again")
    values: dict[str, str] = {}
    ports: dict[str, tuple[str, int]] = {}
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        if key == "port":
            words = rest.split()
            if len(words) != 3 or not MTU.fullmatch(words[2]) or len(ports) >= MOST_PORTS:
                raise source.unreadable("port NAME STATE MTU", line)
            ports[answers.line(words[0])] = (answers.line(words[1]), int(words[2]))
        else:
            values[key] = answers.line(rest.strip())
    if not {"hostname", "mgmt_mac", "version"} <= set(values):
        raise source.unreadable("hostname, mgmt_mac and version", text or "nothing")
    return SwitchFacts(values["hostname"], values["mgmt_mac"], values["version"], banner, ports)


def parse_neighbours(device: str, text: str) -> dict[str, str]:
    """{neighbour: state} from `show bgp summary json`; no BGP at all is no neighbour. Raises UnreadableAnswer for garbage."""
    source = Source(device, "read BGP neighbours", "check that bgpd runs on the switch")
    summary = answers.read(_BgpSummary, answers.load(text or "{}", source), source)
    peers = summary.get("ipv4Unicast", {}).get("peers", {})
    return {peer: values["state"] for peer, values in peers.items()}


def _plain(config: str) -> list[str]:
    """Configuration lines without comments, header and blank lines."""
    ignored = ("!", "frr version", "Building configuration", "Current configuration", "end")
    return [line.rstrip() for line in config.splitlines() if line.strip() and not line.strip().startswith(ignored)]
