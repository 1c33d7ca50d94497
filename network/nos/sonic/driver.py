"""SONiC over SSH: the whole config_db, checkpoint and rollback, a timer on the switch, read-back.

    with Switch("rol001", "10.77.0.13", credentials, mgmt_mac="48:b0:…") as switch:
        print(switch.compare(config))        # config: the text of config_db.json (config_db.py); "- table key field" / "+ ..."
        if switch.load(config):              # `config replace --dry-run` on the switch, then the difference
            switch.commit(confirm_s=40)      # checkpoint, timer, `config replace`; the switch rolls back by itself ...
            switch.confirm()                 # ... unless this call arrives; `config save`

Never run on a device. Commands after sonic-utilities (doc/Command-Reference.md and config/main.py: checkpoint, replace, rollback,
save). `config replace` is the generic configuration updater: it works out a patch, checks it against the YANG models on the switch
and applies it table by table. It cannot change what needs a restart, such as the SKU or the layout of ports: for that, put the file
in place at the first boot, or run `config reload`. SONiC has no commit with confirmation; the timer is a process that the driver
starts on the switch, and a restart of the switch ends it with the saved configuration, which is the earlier one.

Tables that no rendering has stay as they are (accounts of SNMP, management address, features, logging); of DEVICE_METADATA the
fields that the plan does not know, such as the base MAC.
"""

import json
import secrets
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.errors import BadAnswer, PushIncomplete, PushRefused, PushRolledBack
from network.nos.driver import SwitchFacts, another_push, changed_meanwhile
from network.nos.frr.driver import parse_facts, parse_neighbours
from network.nos.over_ssh import OverSsh
from network.nos.sonic import databases
from network.nos.sonic.config_db import OWNED
from network.nos.trees import Tree, difference, laid_over, shown

ON_DEVICE = Path(__file__).with_name("on_device.sh").read_text()
ANOTHER_PUSH = 97
"""Exit status of `takeover` in on_device.sh."""
SECRET = frozenset(
    {
        "passkey",
        "SNMP_USER_AUTH_PASSWORD",
        "SNMP_USER_ENCRYPTION_PASSWORD",
        "SNMP_COMMUNITY",
        "auth_password",
        "password",
    }
)
"""Keys of config_db below which nothing is shown (sonic-snmp.yang, sonic-system-tacacs.yang, sonic-system-radius.yang)."""


class Switch(OverSsh):
    """One SONiC switch. `name` appears in errors; `mgmt_mac`, when given, is compared before every write."""

    on_device = ON_DEVICE
    command_budget_s = 300.0
    """The longest verb: a replacement of the whole configuration, which others report to take a few minutes."""
    apply_s = 240.0
    """No figure of a device is known."""
    saved_file, save_way_out = "/etc/sonic/config_db.json", "look for a full file system on the switch"
    _ports: dict[str, str] | None = None
    _before: Tree
    _wanted: Tree

    # ---- reading -----------------------------------------------------------------------------------------------
    def facts(self) -> SwitchFacts:
        """Host name, management MAC, build, and ports by the plan's names."""
        said = parse_facts(self.name, self._verb("facts", self.mgmt_port))
        alias = _aliases(self._running())
        ports = {alias.get(port, port): state for port, state in said.ports.items()}
        return SwitchFacts(said.hostname, said.mgmt_mac, said.version, said.banner, ports)

    def get(self) -> str:
        """The running configuration as the text of a config_db.json; secrets in it are not shown."""
        return json.dumps(shown(self._running(), SECRET), indent=4) + "\n"

    def compare(self, config: str) -> str:
        """What would change: one '- table key field value' or '+ ...' each; '' when the switch runs this configuration."""
        running = self._running()
        return difference(running, self._whole(config, running), SECRET)

    def neighbours(self) -> dict[str, str]:
        """{port by the plan's name, or address: BGP state}."""
        alias = _aliases(self._running())
        return {alias.get(peer, peer): state for peer, state in parse_neighbours(self.name, self._verb("bgp")).items()}

    def queue_counters(self, ports: Iterable[str]) -> dict[str, dict[str, int]]:
        """{port by the plan's name: counters of its queues, priorities and watchdog}; see network.nos.sonic.databases."""
        way_out = "run `show queue counters`, `show queue wredcounters` and `show pfc counters` on the switch by hand"
        source = Source(self.name, "read counters of queues", way_out)
        return databases.queue_counters(self._database, ports, self._names(source), source)

    def link_ends(self, ports: Iterable[str]) -> dict[str, dict[str, str]]:
        """{port by the plan's name: state, rate, FEC, bit error rates and light}; see network.nos.sonic.databases."""
        source = Source(
            self.name, "read ends of links", "run `show interfaces counters fec-stats` on the switch by hand"
        )
        return databases.link_ends(self._database, ports, self._names(source), source)

    def saved(self) -> bool:
        """Whether the configuration for the next boot is the running one."""
        return not difference(self._tables("saved"), self._running())

    # ---- writing -----------------------------------------------------------------------------------------------
    def load(self, config: str) -> str:
        """Put the configuration on the switch, let it check the change, and return the difference.

        Raises PushRefused, with nothing changed, for what the switch's YANG models refuse, or while another push waits.
        """
        self._compare_identity()
        operation = "check configuration"
        status, _, err = self._execute("takeover", (), b"")
        if status:
            seen = "one waits for its confirmation" if status == ANOTHER_PUSH else err or f"exit status {status}"
            raise another_push(self.name, operation, seen)
        self._before = self._running()
        self._wanted = self._whole(config, self._before)
        changes = difference(self._before, self._wanted, SECRET)
        if not changes:
            return ""
        data = json.dumps(self._wanted).encode()
        seen = self._verb("stage", stdin=data).strip()
        if seen != sha256(data).hexdigest():
            raise BadAnswer(
                self.name,
                "upload configuration",
                f"{len(data)} bytes there",
                "a different checksum",
                "look for a full file system on the switch",
            )
        status, out, err = self._execute("check", (), b"")
        if status:
            raise PushRefused(
                self.name,
                operation,
                "a configuration that SONiC's models accept",
                err or out or f"config replace --dry-run: exit status {status}",
                "compare the build of the switch with that of the rendering; nothing was changed",
            )
        return changes

    def commit(self, confirm_s: int) -> None:
        """Apply what `load` put there. Unless `confirm` comes within confirm_s seconds, the switch goes back by itself.

        Raises PushRefused where somebody else has changed the configuration since `load`, PushRolledBack where the switch does not
        end up with the intended one.
        """
        operation = "apply configuration"
        meanwhile = difference(self._before, self._running(), SECRET)
        if meanwhile:
            raise changed_meanwhile(self.name, operation, meanwhile)
        self._push_id = secrets.token_hex(4)
        status, _, err = self._execute("apply", (self._push_id, str(confirm_s)), b"")
        remains = "" if status else difference(self._running(), self._wanted, SECRET)
        if status or remains:
            self.rollback()
            raise PushRolledBack(
                self.name,
                operation,
                "the intended configuration",
                err or f"still different: {remains}",
                "read ~/.bringup/config.out on the switch; the earlier configuration is back",
            )

    def rollback(self) -> None:
        """Go back to the checkpoint of `commit` and check that it is there. Raises PushIncomplete otherwise."""
        status, _, err = self._execute("rollback", (self._push_id,), b"")
        remains = difference(self._running(), self._before, SECRET)
        if status or remains:
            raise PushIncomplete(
                self.name,
                "roll back",
                "the earlier configuration",
                err or f"different: {remains}",
                "run `sudo config reload -y` on the switch: what is saved is the earlier configuration",
            )

    def runs_previous(self) -> bool:
        """Whether the switch is back at the configuration before the last `commit`."""
        return not difference(self._running(), self._before)

    # ---- protocol ----------------------------------------------------------------------------------------------
    def _whole(self, config: str, running: Tree) -> Tree:
        """The tables of a config_db.json, with those of the running configuration that a push never takes away."""
        try:
            said = _plain(json.loads(config))
        except (ValueError, TypeError, AttributeError):
            raise PushRefused(
                self.name, "check configuration", "the text of a config_db.json", "another text", "render it again"
            ) from None
        kept = {table: rows for table, rows in running.items() if table not in OWNED or table == "DEVICE_METADATA"}
        whole: Tree = {**said, **{table: laid_over(rows, said.get(table, {})) for table, rows in kept.items()}}
        return whole

    def _database(self, number: int, commands: Sequence[str]) -> list[str]:
        """The lines that redis-cli writes. BadAnswer where no database answers."""
        said = self._verb("database", str(number), stdin="".join(f"{one}\n" for one in commands).encode())
        return said.split("\n")[:-1]

    def _names(self, source: Source) -> dict[str, str]:
        """{the plan's port: SONiC's}, read once for each driver."""
        if self._ports is None:
            self._ports = databases.ports_of(self._database, source)
        return self._ports

    def _running(self) -> Tree:
        return self._tables("running")

    def _tables(self, verb: str) -> Tree:
        source = Source(
            self.name, f"read {verb} configuration", "run `show runningconfiguration all` on the switch by hand"
        )
        said = answers.load(self._verb(verb), source)
        with answers.reading(source, "tables of rows"):
            return _plain(said)


def _plain(said: Tree) -> Tree:
    """{table: {key: {field: value}}} without the placeholder of rows that have no field, and without empty tables."""
    tables = {
        str(table): {
            str(key): {field: value for field, value in row.items() if field != "NULL"} for key, row in rows.items()
        }
        for table, rows in said.items()
    }
    return {table: rows for table, rows in tables.items() if rows}


def _aliases(running: Tree) -> dict[str, str]:
    """{SONiC's name of a port: the plan's}."""
    return {name: str(row["alias"]) for name, row in running.get("PORT", {}).items() if "alias" in row}
