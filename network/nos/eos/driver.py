"""Arista EOS by eAPI (JSON-RPC over HTTPS): configuration sessions, their difference, commit with a timer, read-back.

    with Switch("rol001", "10.77.0.13", credentials, mgmt_mac="44:4c:…") as switch:
        print(switch.compare(config))        # in a session that is thrown away; "- line" / "+ line"
        if switch.load(config):              # a session with the whole configuration; the difference to the running one
            switch.commit(confirm_s=40)      # `commit timer`: EOS goes back by itself ...
            switch.confirm()                 # ... unless this call arrives; `write memory`

Never run on a device. Commands after Arista's EOS user manual, "Session Management Commands" (configure session, rollback
clean-config, show session-config diffs, commit timer, abort), requests and errors after "Arista Command API overview". The JSON of
`show configuration sessions detail` (state `pendingCommitTimer`) is that which NAPALM's EOS driver reads.

The whole configuration is replaced. What is not the plan's stays: accounts, AAA, the management port and its VRF, the interface
that this driver speaks to, TLS profiles and SNMPv3 users (KEPT).
"""

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line, Source
from network.drivers.errors import (
    BadAnswer,
    PushIncomplete,
    PushRefused,
)
from network.nos.driver import SwitchFacts, another_push, changed_meanwhile
from network.nos.eos import counters
from network.nos.over_https import OverHttps

PATH = "/command-api"
WAITING = "pendingCommitTimer"
KEPT = re.compile(
    r"(username|aaa|enable (password|secret)|no enable password|interface Management\d|vrf instance MGMT|ip route vrf MGMT|"
    r"ip routing vrf MGMT|management (api http-commands|http-server|security|ssh)|snmp-server (user|engineID))\b"
)
"""First lines of the sections that stay as they are on the switch."""
SECRET = re.compile(r"\b(secret|password|key|auth|priv|localized|community|passphrase)\b.*")
"""What is not shown of a line: all behind one of these words."""
HEADER = re.compile(r"! (Command:|device:|boot system|Last configuration|Startup-config|Running-config)")
"""Comments of `show running-config` that change without a change of the configuration."""


class _Failure(TypedDict, total=False):
    message: Line
    data: list[Any]


class _Answer(TypedDict, total=False):
    """A JSON-RPC answer: a result for each command, or the error of the first that failed."""

    result: list[dict[str, Any]]
    error: _Failure


class _Session(TypedDict, total=False):
    state: Line


class _Peer(TypedDict, total=False):
    peerState: Line


class CommandRefusedError(Exception):
    """EOS refused a command; the text is EOS's own."""


class Switch(OverHttps):
    """One EOS switch. `name` appears in errors; `mgmt_mac`, when given, is compared before every write."""

    apply_s = 30.0
    """No figure of a device is known."""

    default_mgmt_port, default_port = "Management1", 443
    _session, _before = "", ""

    # ---- reading -----------------------------------------------------------------------------------------------
    def facts(self) -> SwitchFacts:
        """Host name, management MAC, release, banner before the login, and ports."""
        operation = "read facts"
        version, host, banner, seen = self._shows(
            operation, "show version", "show hostname", "show banner login", "show interfaces"
        )
        ports = {
            answers.line(port): values for port, values in _part(seen, "interfaces").items() if isinstance(values, dict)
        }
        management = ports.get(self.mgmt_port, {})
        return SwitchFacts(
            hostname=self._text(operation, "hostname", host.get("hostname")),
            mgmt_mac=self._text(operation, "physicalAddress", management.get("physicalAddress", "")).replace(".", ""),
            version=self._text(operation, "version", version.get("version")),
            banner=self._text(operation, "loginBanner", banner.get("loginBanner", "")).strip(),
            ports={port: _state(values) for port, values in ports.items()},
        )

    def get(self) -> str:
        """The running configuration; secrets in it are not shown."""
        return "".join(f"{_hidden(line)}\n" for line in self._running().splitlines())

    def compare(self, config: str) -> str:
        """What would change: one '- section / line' or '+ section / line' each; '' when the switch runs this configuration."""
        name = self._staged("compare configuration", config, self._running())
        try:
            return self._difference("compare configuration", name)
        finally:
            self._abort(name)

    def neighbours(self) -> dict[str, str]:
        """{port or address: BGP state}; a peer by its link-local address is named by the port."""
        operation = "read BGP neighbours"
        (said,) = self._shows(operation, "show ip bgp summary")
        table = _part(_part(said, "vrfs"), "default").get("peers", {})
        peers = answers.read(dict[Line, _Peer], table, self._source(operation))
        return {_port(peer): values.get("peerState", "") for peer, values in peers.items()}

    def queue_counters(self, ports: Iterable[str]) -> dict[str, dict[str, int]]:
        """{port: counters of its queues, priorities and watchdog}; see network.nos.eos.counters."""
        operation = "read counters of queues"
        queues, marks, pauses, watchdog = self._shows(operation, *counters.QUEUE_COMMANDS)
        return counters.queue_counters(ports, queues, marks, pauses, watchdog, self._source(operation))

    def link_ends(self, ports: Iterable[str]) -> dict[str, dict[str, str]]:
        """{port: state, rate, lanes, bit error rate before FEC and light}; see network.nos.eos.counters."""
        interfaces, phys, optics = self._shows("read ends of links", *counters.LINK_COMMANDS)
        return counters.link_ends(ports, interfaces, phys, optics)

    def saved(self) -> bool:
        """Whether the startup configuration is the running one."""
        return not self._shown("read saved configuration", "show running-config diffs").strip()

    # ---- writing -----------------------------------------------------------------------------------------------
    def load(self, config: str) -> str:
        """Make a session with the whole configuration and return its difference to the running one.

        Raises PushRefused, with nothing changed, for a line that EOS refuses, or while another push waits for its confirmation.
        """
        self._compare_identity()
        operation = "load configuration"
        waiting = [name for name, one in self._sessions(operation).items() if one.get("state") == WAITING]
        if waiting:
            raise another_push(self.name, operation, f"session {', '.join(waiting)} waits for its confirmation")
        self._before = self._running()
        self._session = self._staged(operation, config, self._before)
        changes = self._difference(operation, self._session)
        if not changes:
            self._abort(self._session)
        return changes

    def commit(self, confirm_s: int) -> None:
        """Apply the session. Unless `confirm` comes within confirm_s seconds, EOS goes back by itself.

        Raises PushRefused where somebody else has changed the configuration since `load`, or EOS refuses the commit.
        """
        operation = "apply configuration"
        if self._running() != self._before:
            self._abort(self._session)
            raise changed_meanwhile(self.name, operation)
        hours, rest = divmod(confirm_s, 3600)
        timer = f"commit timer {hours:02}:{rest // 60:02}:{rest % 60:02}"
        try:
            self._run(operation, ["enable", f"configure session {self._session}", timer])
        except CommandRefusedError as error:
            self._abort(self._session)
            raise PushRefused(
                self.name,
                operation,
                "a session that EOS commits",
                str(error),
                "correct the rendering; nothing was changed",
            ) from None
        state = self._sessions(operation).get(self._session, {}).get("state", "none")
        if state != WAITING:
            raise PushIncomplete(
                self.name,
                operation,
                "a session that waits for its confirmation",
                f"state {state}",
                "compare the switch with the plan; this release has no commit timer",
            )

    def confirm(self) -> None:
        """Keep the applied configuration and save it; raises PushRolledBack when EOS's timer was faster."""
        operation = "confirm configuration"
        if self._sessions(operation).get(self._session, {}).get("state") != WAITING:
            raise self._not_waiting(operation, "the session no longer waits")
        try:
            self._run(operation, ["enable", f"configure session {self._session} commit"])
        except CommandRefusedError as error:
            raise self._not_waiting(operation, str(error)) from None
        self.save()

    def save(self) -> None:
        """Save the running configuration for the next boot."""
        operation = "save configuration"
        said = ""
        try:
            self._run(operation, ["enable", "write memory"])
        except CommandRefusedError as error:
            said = str(error)
        if said or not self.saved():
            raise PushIncomplete(
                self.name,
                operation,
                "the running configuration saved",
                said or "the startup configuration differs from it",
                "look for a full flash on the switch",
            )

    def rollback(self) -> None:
        """Abort the session, and check that the configuration before `commit` is back."""
        self._abort(self._session)
        if not self.runs_previous():
            raise PushIncomplete(
                self.name,
                "roll back",
                "the earlier configuration",
                "another one",
                "run 'show running-config diffs' on the switch: what is saved is the earlier configuration",
            )

    def runs_previous(self) -> bool:
        """Whether the switch is back at the configuration before the last `commit`."""
        return self._running() == self._before

    # ---- protocol ----------------------------------------------------------------------------------------------
    def _staged(self, operation: str, config: str, running: str) -> str:
        """The name of a new session that holds the configuration. Raises PushRefused for a line that EOS refuses."""
        name = f"bringup-{secrets.token_hex(4)}"
        lines = [line for line in with_kept(config, running).splitlines() if line.strip() and not line.startswith("!")]
        try:
            self._run(operation, ["enable", f"configure session {name}", "rollback clean-config", *lines])
        except CommandRefusedError as error:
            self._abort(name)
            raise PushRefused(
                self.name,
                operation,
                "a configuration that EOS accepts",
                _hidden(str(error)),
                "compare the release of the switch with that of the rendering; nothing was changed",
            ) from None
        return name

    def _difference(self, operation: str, session: str) -> str:
        return parse_diff(self._shown(operation, f"show session-config named {session} diffs"))

    def _abort(self, session: str) -> None:
        """End a session. One that is gone already is as good."""
        try:
            self._run("abort session", ["enable", f"configure session {session} abort"])
        except CommandRefusedError:
            return

    def _running(self) -> str:
        said = self._shown("read configuration", "show running-config")
        return "".join(f"{line}\n" for line in said.splitlines() if not HEADER.match(line))

    def _sessions(self, operation: str) -> dict[str, _Session]:
        (said,) = self._shows(operation, "show configuration sessions detail")
        return answers.read(dict[Line, _Session], said.get("sessions", {}), self._source(operation))

    def _greet(self) -> None:
        self._show("connect", "show hostname")

    def _show(self, operation: str, command: str) -> dict[str, Any]:
        return self._shows(operation, command)[0]

    def _shows(self, operation: str, *commands: str) -> list[dict[str, Any]]:
        """The JSON of each command."""
        try:
            return self._run(operation, ["enable", *commands])[1:]
        except CommandRefusedError as error:
            raise self._refused(operation, error) from None

    def _shown(self, operation: str, command: str) -> str:
        """The text of a command."""
        try:
            said = self._run(operation, ["enable", command], "text")[-1].get("output", "")
        except CommandRefusedError as error:
            raise self._refused(operation, error) from None
        if not isinstance(said, str):
            raise self._source(operation).unreadable("text at output", str(said))
        return said

    def _refused(self, operation: str, error: CommandRefusedError) -> BadAnswer:
        return BadAnswer(
            self.name, operation, "an answer to the command", str(error), "check the account's role and the release"
        )

    def _run(self, operation: str, commands: Sequence[str], form: str = "json") -> list[dict[str, Any]]:
        """The results of commands that all succeed, one each. Raises CommandRefusedError for the first that does not."""
        parameters = {"version": 1, "cmds": list(commands), "format": form}
        body = {"jsonrpc": "2.0", "method": "runCmds", "params": parameters, "id": "bringup"}
        status, said = self._device.request(operation, "POST", PATH, body=body)
        source = self._source(operation)
        if status != 200:
            raise source.unreadable("HTTP status 200", f"{status}: {answers.decoded(said, answers.SHOWN_CHARACTERS)}")
        answer = answers.read(_Answer, answers.load(said, source), source)
        if "error" in answer:
            failed = answer["error"]
            reasons = [
                str(text) for one in failed.get("data", []) if isinstance(one, dict) for text in one.get("errors", [])
            ]
            raise CommandRefusedError(": ".join([failed.get("message", "refused"), *reasons]))
        results = answer.get("result", [])
        if len(results) != len(commands):
            raise source.unreadable(f"{len(commands)} results", f"{len(results)}")
        return results

    def _text(self, operation: str, key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._source(operation).unreadable(f"text at {key}", str(value))
        return answers.line(value)

    def _source(self, operation: str) -> Source:
        return Source(self.name, operation, "check the release of the switch, then run the same command again")


def with_kept(config: str, running: str) -> str:
    """The sections of the running configuration that a push never takes away, then the intended configuration."""
    kept = [line for head, lines in _sections(running) if KEPT.match(head) for line in lines]
    return "".join(f"{line}\n" for line in kept) + config


def parse_diff(text: str) -> str:
    """EOS's unified difference as one '- section / line' or '+ section / line' each."""
    found, section = [], ""
    for line in text.splitlines():
        if line.startswith(("--- ", "+++ ")):
            continue
        if line.startswith("@@"):
            section = ""
            continue
        sign, rest = line[:1], line[1:].rstrip()
        if rest and not rest.startswith(" "):
            section = rest
        if sign in ("-", "+") and rest.strip() not in ("", "!"):
            within = f"{section} / " if rest.startswith(" ") and section else ""
            found.append(f"{sign} {_hidden(answers.line(within + rest.strip()))}")
    return "\n".join(found)


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """(first line, its lines) of each section."""
    lines: list[str] = []
    for line in text.splitlines():
        if line and not line.startswith((" ", "!")):
            if lines:
                yield lines[0], lines
            lines = [line]
        elif lines and line.startswith(" "):
            lines.append(line)
    if lines:
        yield lines[0], lines


def _hidden(line: str) -> str:
    """A line without its secrets."""
    return SECRET.sub(lambda match: f"{match[1]} (not shown)", line, count=1)


def _part(values: Any, key: str) -> dict[str, Any]:
    found = values.get(key) if isinstance(values, dict) else None
    return found if isinstance(found, dict) else {}


def _state(values: dict[str, Any]) -> tuple[str, int]:
    """(operational state, MTU) of a port; 0 where it says none."""
    status, mtu = values.get("lineProtocolStatus", ""), values.get("mtu")
    return answers.line(str(status)), mtu if isinstance(mtu, int) and not isinstance(mtu, bool) else 0


def _port(peer: str) -> str:
    """The port behind a link-local peer such as fe80::1%Et1/1, else the address."""
    port = peer.partition("%")[2]
    return re.sub(r"^Et(?=\d)", "Ethernet", port) if port else peer
