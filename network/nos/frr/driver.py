"""FRRouting switches: get, compare, load, commit under a rollback timer, confirm, roll back.

    with Switch("leaf01", "10.77.0.13", credentials, mgmt_mac="02:…") as switch:
        print(switch.compare(config))        # "- line" / "+ line"; "" when the switch runs it already
        if switch.load(config):              # syntax check on the switch, then the diff
            switch.commit(confirm_s=40)      # applied; the switch falls back by itself after 40 s ...
            switch.confirm()                 # ... unless this call arrives; saves for the next boot

A configuration is the switch's filter (nftables.py) with frr.conf behind it; without a filter, one that is there goes.
The switch's side is on_device.sh, the connection network/nos/over_ssh.py. The management port's own lines are never changed: where
the running configuration has some, they are carried over into the intended one.
"""

import re
import secrets
from hashlib import sha256
from pathlib import Path

from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line, Source
from network.drivers.errors import (
    BadAnswer,
    PushIncomplete,
    PushRefused,
    PushRolledBack,
    WriteRefused,
)
from network.nos.driver import SwitchFacts, timer_was_faster
from network.nos.frr import nftables
from network.nos.over_ssh import TIMER_WAS_FASTER, OverSsh

ON_DEVICE = Path(__file__).with_name("on_device.sh").read_text()
BANNER_CHARACTERS = 4096
MOST_PORTS = 4096

REFUSED = re.compile(r"line \d+: %", re.MULTILINE)
"""What `vtysh -C` says of a line that it does not take. Its exit status is 0 where a later line was taken (FRR 8.4)."""
FILTERS = "# bringup: filter\n"
"""Line of on_device.sh before each of two tables of nftables: the one that is there, and the intended one."""
MTU = re.compile(r"[0-9]{1,6}")


class _BgpPeer(TypedDict):
    state: Line


class _BgpFamily(TypedDict, total=False):
    peers: dict[Line, _BgpPeer]


class _BgpSummary(TypedDict, total=False):
    """What `show bgp summary json` says, as far as it is read."""

    ipv4Unicast: _BgpFamily


class Switch(OverSsh):
    """One FRR switch. `name` appears in errors; `mgmt_mac`, when given, is compared before every write."""

    on_device = ON_DEVICE
    command_budget_s = 60.0
    """The longest verb: a reload (0.4 s for a small switch) that waits 30 s for another push's lock."""
    apply_s = 8.0
    """Measured: 1 to 3 s on a busy machine."""
    saved_file, save_way_out = "/etc/frr/frr.conf", "check that the user may write /etc/frr"

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
        return parse_difference(self._verb("compare", stdin=data))

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
        if status or REFUSED.search(out):
            self._verb("rollback")
            raise PushRefused(
                self.name,
                "check configuration",
                "a configuration that FRR accepts",
                out or f"vtysh -C: exit status {status}",
                "correct the template; nothing was changed",
            )
        return self._difference("new.conf")

    def commit(self, confirm_s: int) -> None:
        """Apply what `load` put there. Unless `confirm` comes within confirm_s seconds, the switch goes back by itself.

        Raises PushRolledBack when FRR refuses a line or does not end up with the intended configuration.
        """
        self._push_id = secrets.token_hex(4)
        status, _, err = self._execute("apply", (self._push_id, str(confirm_s)), b"")
        remains = "" if status else self._difference("new.conf")
        if remains:  # some deletions need a second pass
            status, _, err = self._execute("again", (self._push_id,), b"")
            if status == TIMER_WAS_FASTER:
                raise timer_was_faster(self.name, "apply configuration")
            remains = self._difference("new.conf")
        if status or remains:
            self.rollback()
            raise PushRolledBack(
                self.name,
                "apply configuration",
                "the intended configuration",
                err or f"still different: {remains}",
                "read ~/.bringup/reload.out on the switch; the earlier configuration is back",
            )

    def rollback(self) -> None:
        """Go back to the configuration before `commit` and check that it is there. Raises PushIncomplete otherwise."""
        status, _, err = self._execute("rollback", (), b"")
        remains = self._difference("prev.conf")
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
        return not self._difference("prev.conf")

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
    def _difference(self, file: str) -> str:
        return parse_difference(self._verb("diff", file))

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


def parse_difference(text: str) -> str:
    """What the verbs `diff` and `compare` say: of the filter, which nft shows before and after, and of frr.conf."""
    frr, _, tables = text.partition(FILTERS)
    before, _, after = tables.partition(FILTERS)
    return "\n".join(filter(None, [nftables.difference(before, after), parse_diff(frr)]))


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
    held: list[str] = []
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        if key == "port":
            words = rest.split()
            if len(words) != 3 or not MTU.fullmatch(words[2]) or len(ports) >= MOST_PORTS:
                raise source.unreadable("port NAME STATE MTU", line)
            ports[answers.line(words[0])] = (answers.line(words[1]), int(words[2]))
        elif key == "held" and len(held) < MOST_PORTS:
            held.append(answers.line(rest.strip()))
        else:
            values[key] = answers.line(rest.strip())
    if not {"hostname", "mgmt_mac", "version"} <= set(values):
        raise source.unreadable("hostname, mgmt_mac and version", text or "nothing")
    tracked = tuple(held) if "tracks_uplinks" in values else None
    return SwitchFacts(values["hostname"], values["mgmt_mac"], values["version"], banner, ports, tracked)


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
