"""Cumulus Linux by the REST interface of NVUE: revisions, difference, commit with confirmation, read-back.

    with Switch("rol001", "10.77.0.13", credentials, mgmt_mac="48:b0:…") as switch:
        print(switch.compare(config))        # config: the text of startup.yaml (startup.py); "- path" / "+ path"
        if switch.load(config):              # a new revision with the whole configuration; the difference to the applied one
            switch.commit(confirm_s=40)      # NVUE checks and applies it, and goes back by itself ...
            switch.confirm()                 # ... unless this call arrives; saved for the next boot

Never run on a device. Requests after NVIDIA's page "NVUE API" of Cumulus Linux 5.11 ("Replace an Entire Configuration", "View a
Configuration"): POST /revision, DELETE and PATCH of the root with ?rev=, PATCH /revision/ID with state `apply`, GET
?rev=applied&filled=false. The page does not show `nv config apply --confirm` over REST. That `state-controls: {confirm: SECONDS}`
starts the timer, and the states `confirm`, `confirm_yes` and `confirm_fail` wait, keep and go back, was seen in programs of others
only; so each is read back, and a switch that applies without waiting for a confirmation is an error.

The whole configuration is replaced. What is not the plan's stays: the management port and its VRF, accounts, the interface that
this driver speaks to, certificates, and SNMPv3 users (KEPT).
"""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import yaml
from typing_extensions import TypedDict

from inventory.yaml_data import LOADER
from network.drivers import answers
from network.drivers.answers import Line, Source
from network.drivers.errors import (
    BadAnswer,
    DeviceTimeout,
    PushIncomplete,
    PushRefused,
    PushRolledBack,
    Unreachable,
)
from network.nos.driver import SwitchFacts, another_push, changed_meanwhile
from network.nos.over_https import OverHttps
from network.nos.trees import Tree, difference, laid_over, missing, shown

PORT = 8765
"""NVUE's own HTTPS port (page "NVUE API", section "API Port and Listening Address")."""
ROOT = "/nvue_v1/"
APPLY_S = 120.0
"""Until an apply waits for its confirmation. A full replacement reloads FRR, interfaces and QoS; no measured figure is known."""
POLL_S = 0.5
WAITING = "confirm"
"""State of a revision that is applied and waits for its confirmation."""
YES = {"ays": "ays_yes"}
"""Answer to NVUE's own question whether it may go on after a warning (section "Configuration Apply Fails with Warnings")."""
KEPT = (
    ("interface", "{port}"),
    ("vrf", "mgmt"),
    ("system", "aaa"),
    ("system", "api"),
    ("system", "security"),
    ("system", "snmp-server", "username"),
)
"""Parts of the tree that stay as they are where the plan says nothing of them."""
QUEUE_COUNTERS: Mapping[str, Mapping[str, str]] = {
    "egress-queue-stats": {
        "tx-frames": "sent",
        "ecn-marked-frames": "marked",
        "tx-uc-buffer-discards": "dropped",
        "wred-discards": "dropped",
    },
    "ingress-buffer-stats": {"rx-buffer-discards": "dropped", "rx-shared-buffer-discards": "dropped"},
    "pfc-stats": {"tx-pause-frames": "pauses_sent", "rx-pause-frames": "pauses_received"},
}
"""Parts of an interface's QoS counters, their names, and ours; of queues, priority groups and priorities, which have one number."""
LINK = ("oper-status", "speed", "fec")
PHY_DETAIL = ("raw-ber", "effective-ber", "effective-errors", "time-since-last-clear-min")
"""What is read of an end, of `link` and of its `phy-detail`."""
NEEDED = frozenset({"sent", "marked", "dropped", "pauses_sent", "pauses_received"})
DIGITS = 20
"""Of a counter of 64 bits."""
SECRET = frozenset({"password", "hashed-password", "username", "secret"})
"""Keys below which nothing is shown: SNMPv3 passphrases are keys below `username`."""


class _Issue(TypedDict, total=False):
    message: Line
    severity: Line


class _Transition(TypedDict, total=False):
    progress: Line
    issue: dict[Line, _Issue]


class _Revision(TypedDict, total=False):
    """What GET /revision/ID says, as far as it is read."""

    state: Line
    transition: _Transition


class _Neighbour(TypedDict, total=False):
    state: Line


class Switch(OverHttps):
    """One switch with NVUE. `name` appears in errors; `mgmt_mac`, when given, is compared before every write."""

    apply_s = 60.0
    """No figure of a device is known."""

    default_mgmt_port, default_port = "eth0", PORT
    _revision = ""
    _config: str | None = None
    """What `load` staged last; `_wanted` is the tree that NVUE made of it."""
    _before: Tree
    _wanted: Tree

    # ---- reading -----------------------------------------------------------------------------------------------
    def facts(self) -> SwitchFacts:
        """Host name, management MAC, release, banner before the login, and ports."""
        system = self._tree("read facts", "system", {"rev": "operational"})
        found = self._tree("read facts", "interface", {"rev": "operational"})
        links = {answers.line(port): _part(values, "link") for port, values in found.items()}
        management = links.get(self.mgmt_port, {})
        version = (
            system.get("product-release") or _part(system, "version").get("product-release") or system.get("build")
        )
        return SwitchFacts(
            hostname=self._text("hostname", system.get("hostname")),
            mgmt_mac=self._text("mac", management.get("mac-address", management.get("mac", ""))),
            version=self._text("product-release", version),
            banner=self._text("pre-login", _part(system, "message").get("pre-login", "")),
            ports={port: _state(link) for port, link in links.items()},
        )

    def get(self) -> str:
        """The applied configuration as the text of a startup.yaml; secrets in it are not shown."""
        return yaml.safe_dump([{"set": shown(self._applied(), SECRET)}], sort_keys=True, width=120)

    def compare(self, config: str) -> str:
        """What would change: one '- path value' or '+ path value' each; '' when the switch runs this configuration."""
        applied = self._applied()
        return self._difference(applied, self._whole(config, applied))

    def neighbours(self) -> dict[str, str]:
        """{port or address: BGP state}; a session that is up is 'Established'."""
        path = "vrf/default/router/bgp/neighbor"
        status, said = self._ask("read BGP neighbours", "GET", path, {"rev": "operational"})
        if status == 404:  # no BGP is configured
            return {}
        source = self._source("read BGP neighbours")
        body = self._answer("read BGP neighbours", status, said)
        peers = answers.read(dict[Line, _Neighbour], body, source)
        return {peer: values.get("state", "").capitalize() for peer, values in peers.items()}

    def saved(self) -> bool:
        """Whether the startup configuration is the applied one."""
        startup = self._tree("read configuration", "", {"rev": "startup", "filled": "false"})
        return not self._difference(startup, self._applied())

    def queue_counters(self, ports: Iterable[str]) -> dict[str, dict[str, int]]:
        """{port: {"sent/3": frames of queue 3, "marked/3", "dropped/3", "pauses_sent/3", "pauses_received/3": of priority 3}}.

        Paths and names after `nv show interface <port> counters qos` of Cumulus Linux 5.5 and later. UnreadableAnswer for a port
        that says nothing of a queue's marks or of pauses: without them a class without loss cannot be judged.
        """
        found = {}
        operation = "read counters of queues"
        for port in ports:
            said = self._tree(operation, f"interface/{quote(port, safe='')}/counters/qos", {"rev": "operational"})
            found[port] = counted = dict[str, int]()
            for part, names in QUEUE_COUNTERS.items():
                for number, row in _part(said, part).items():
                    for name, word in names.items():
                        if isinstance(row, dict) and name in row:
                            key = f"{word}/{answers.line(str(number))}"
                            counted[key] = counted.get(key, 0) + self._number(
                                operation, f"{port} {part} {name}", row[name]
                            )
            if lacking := sorted(NEEDED - {key.partition("/")[0] for key in counted}):
                raise self._source(operation).unreadable(f"{', '.join(lacking)} of {port}", "nothing of them")
        return found

    def link_ends(self, ports: Iterable[str]) -> dict[str, dict[str, str]]:
        """{port: state, rate, FEC, bit error rates and since when they count}, without ports that it does not have.

        Paths and names after `nv show interface <port>` and `nv show interface <port> link phy-detail` of Cumulus Linux; a release
        without the latter says nothing of errors.
        """
        operation = "read ends of links"
        links = self._tree(operation, "interface", {"rev": "operational"})
        found = {}
        for port in ports:
            link = _part(_part(links, port), "link")
            if not link:
                continue
            said = {name: link[name] for name in LINK if name in link}
            path = f"interface/{quote(port, safe='')}/link/phy-detail"
            status, body = self._ask(operation, "GET", path, {"rev": "operational"})
            detail = {} if status == 404 else self._answer(operation, status, body)
            if not isinstance(detail, dict):
                raise self._source(operation).unreadable(f"an object of {port}", f"a {type(detail).__name__}")
            said |= {name: detail[name] for name in PHY_DETAIL if name in detail}
            found[port] = {name: answers.line(str(value)) for name, value in said.items()}
        return found

    def _number(self, operation: str, name: str, value: Any) -> int:
        """A counter, which NVUE writes as a number or as its digits."""
        if isinstance(value, str) and value.isdecimal() and len(value) <= DIGITS:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self._source(operation).unreadable(f"a number of {name}", answers.line(str(value))[:80])

    # ---- writing -----------------------------------------------------------------------------------------------
    def load(self, config: str) -> str:
        """Make a revision of the whole configuration and return its difference to the applied one.

        Raises PushRefused, with nothing changed, where NVUE refuses a key or a value, or another push waits for its confirmation.
        """
        self._compare_identity()
        operation = "load configuration"
        waiting = [name for name, one in self._revisions().items() if one.get("state") == WAITING]
        if waiting:
            raise another_push(self.name, operation, f"revision {', '.join(waiting)} waits for its confirmation")
        self._before = self._applied()
        self._config = None
        self._wanted = self._whole(config, self._before)
        made = self._answer(operation, *self._ask(operation, "POST", "revision"))
        if not isinstance(made, dict) or len(made) != 1:
            raise self._source(operation).unreadable("one new revision", str(made))
        self._revision = str(next(iter(made)))
        of_it = {"rev": self._revision}
        self._changed(operation, *self._ask(operation, "DELETE", "", of_it))
        self._changed(operation, *self._ask(operation, "PATCH", "", of_it, self._wanted))
        staged = self._tree("read configuration", "", {**of_it, "filled": "false"})
        lacks = missing(self._wanted, staged, SECRET)
        if lacks:
            raise PushRefused(
                self.name,
                operation,
                "the intended configuration in the new revision",
                f"without {lacks}",
                "compare the release of the switch with that of the rendering; nothing was changed",
            )
        self._config, self._wanted = config, staged  # with what NVUE adds by itself
        return self._difference(self._before, staged)

    def commit(self, confirm_s: int) -> None:
        """Apply the revision. Unless `confirm` comes within confirm_s seconds, NVUE goes back by itself.

        Raises PushRefused where somebody else has changed the configuration since `load`, or NVUE's own check refuses the revision.
        """
        operation = "apply configuration"
        meanwhile = self._difference(self._before, self._applied())
        if meanwhile:
            raise changed_meanwhile(self.name, operation, meanwhile)
        asked = {"state": "apply", "auto-prompt": YES, "state-controls": {"confirm": confirm_s}}
        self._turn(operation, asked)
        state, seen = self._await(operation, {WAITING}, APPLY_S)
        if state == WAITING:
            return
        if state.startswith("applied"):
            raise PushIncomplete(
                self.name,
                operation,
                "a revision that waits for its confirmation",
                f"state {state}: applied at once, without a timer",
                "compare the switch with the plan; this release takes no confirmation over REST",
            )
        if self._difference(self._before, self._applied()):
            self.rollback()
            raise PushRolledBack(
                self.name, operation, "the intended configuration", seen, "the earlier configuration is back"
            )
        raise PushRefused(
            self.name,
            operation,
            "a configuration that NVUE accepts",
            seen,
            "correct the rendering; nothing was changed",
        )

    def confirm(self) -> None:
        """Keep the applied configuration and save it; raises PushRolledBack when NVUE's timer was faster."""
        operation = "confirm configuration"
        if self._state(self._revision)[0] != WAITING:
            raise self._not_waiting(operation, self._state(self._revision)[1])
        self._turn(operation, {"state": "confirm_yes", "auto-prompt": YES})
        self._await(operation, {"applied", "applied_and_saved"}, APPLY_S)
        if self._difference(self._applied(), self._wanted):
            raise self._not_waiting(operation, self._state(self._revision)[1])
        if not self.saved():
            self.save()

    def save(self) -> None:
        """Save the applied configuration for the next boot."""
        operation = "save configuration"
        self._changed(
            operation, *self._ask(operation, "PATCH", "revision/applied", body={"state": "save", "auto-prompt": YES})
        )
        end = time.monotonic() + APPLY_S
        while not self.saved():
            if time.monotonic() > end:
                raise PushIncomplete(
                    self.name,
                    operation,
                    "the applied configuration saved",
                    "the startup configuration differs from it",
                    "look for a full file system on the switch",
                )
            time.sleep(POLL_S)

    def rollback(self) -> None:
        """End the wait for a confirmation, and check that the configuration before `commit` is back."""
        operation = "roll back"
        if self._state(self._revision)[0] == WAITING:
            self._turn(operation, {"state": "confirm_fail", "auto-prompt": YES})
        end = time.monotonic() + APPLY_S
        while remains := self._difference(self._before, self._applied()):
            if time.monotonic() > end:
                raise PushIncomplete(
                    self.name,
                    operation,
                    "the earlier configuration",
                    f"different: {remains}",
                    "run 'nv config history' and 'nv config apply' of the revision before on the switch",
                )
            time.sleep(POLL_S)

    def runs_previous(self) -> bool:
        """Whether the switch is back at the configuration before the last `commit`."""
        return not self._difference(self._before, self._applied())

    # ---- protocol ----------------------------------------------------------------------------------------------
    def _whole(self, config: str, applied: Tree) -> Tree:
        """The configuration of a startup.yaml, with the parts of the applied one that a push never takes away."""
        if config == self._config:
            return self._wanted
        try:
            said = next(part["set"] for part in yaml.load(config, Loader=LOADER) if "set" in part)
            whole: Tree = dict(json.loads(json.dumps(said)))
        except (yaml.YAMLError, TypeError, ValueError, StopIteration):
            raise PushRefused(
                self.name, "load configuration", "the text of a startup.yaml", "another text", "render it again"
            ) from None
        for path in KEPT:
            keys = [key.format(port=self.mgmt_port) for key in path]
            found: Any = applied
            for key in keys:
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                for key in reversed(keys):
                    found = {key: found}
                whole = laid_over(found, whole)
        return whole

    def _applied(self) -> Tree:
        return self._tree("read configuration", "", {"rev": "applied", "filled": "false"})

    def _difference(self, before: Tree, after: Tree) -> str:
        return difference(before, after, SECRET)

    def _revisions(self) -> dict[str, _Revision]:
        source = self._source("read revisions")
        return answers.read(dict[Line, _Revision], self._get("read revisions", "revision"), source)

    def _state(self, revision: str) -> tuple[str, str]:
        """(state of a revision, what NVUE says of it)."""
        source, path = self._source("read revision"), f"revision/{quote(revision, safe='')}"
        said = answers.read(_Revision, self._get("read revision", path), source)
        if "state" not in said:
            raise source.unreadable("the state of the revision", "none")
        transition = said.get("transition", {})
        issues = [one.get("message", "") for one in transition.get("issue", {}).values()]
        texts = [f"state {said['state']}", *filter(None, [transition.get("progress", ""), *issues])]
        return said["state"], ": ".join(texts)

    def _turn(self, operation: str, body: Tree) -> None:
        path = f"revision/{quote(self._revision, safe='')}"
        self._changed(operation, *self._ask(operation, "PATCH", path, body=body))

    def _await(self, operation: str, ends: set[str], budget_s: float) -> tuple[str, str]:
        """(state, what NVUE says) once the revision is in one of `ends`, applied or failed.

        A connection that breaks meanwhile is made again: the interface that it goes by may be configured anew.
        """
        end = time.monotonic() + budget_s
        while True:
            try:
                state, seen = self._state(self._revision)
            except Unreachable:
                if time.monotonic() > end:
                    raise
                state, seen = "", ""
            if (
                state in ends
                or state.startswith("applied")
                or state.endswith(("_fail", "_error"))
                or state == "invalid"
            ):
                return state, seen
            if time.monotonic() > end:
                raise DeviceTimeout(
                    self.name,
                    operation,
                    f"an end within {budget_s:g} s",
                    seen,
                    "run 'nv config history' on the switch; its own timer puts the earlier configuration back",
                )
            time.sleep(POLL_S)

    def _greet(self) -> None:
        self._get("connect", "revision")

    def _get(self, operation: str, path: str, params: Mapping[str, str] | None = None) -> Any:
        return self._answer(operation, *self._ask(operation, "GET", path, params))

    def _tree(self, operation: str, path: str, params: Mapping[str, str]) -> Tree:
        body = self._get(operation, path, params)
        if not isinstance(body, dict):
            raise self._source(operation).unreadable("an object", f"a {type(body).__name__}")
        return body

    def _ask(
        self, operation: str, method: str, path: str, params: Mapping[str, str] | None = None, body: Any = None
    ) -> tuple[int, bytes]:
        return self._device.request(operation, method, ROOT + path, params=params, body=body)

    def _answer(self, operation: str, status: int, said: bytes) -> Any:
        """Plain data of an answer that succeeded."""
        if status not in (200, 201):
            raise BadAnswer(
                self.name, operation, "HTTP status 200", _complaint(status, said), "check the release of the switch"
            )
        return answers.load(said, self._source(operation))

    def _changed(self, operation: str, status: int, said: bytes) -> None:
        """Nothing, for a write that was taken. Raises PushRefused for one that was not."""
        if status not in (200, 201, 202, 204):
            raise PushRefused(
                self.name,
                operation,
                "a configuration that NVUE accepts",
                _complaint(status, said),
                "compare the release of the switch with that of the rendering; nothing was changed",
            )

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._source("read facts").unreadable(f"text at {key}", str(value))
        return answers.line(value)

    def _source(self, operation: str) -> Source:
        return Source(self.name, operation, "check the release of the switch, then run the same command again")


def _part(values: Any, key: str) -> Tree:
    found = values.get(key) if isinstance(values, dict) else None
    return found if isinstance(found, dict) else {}


def _state(link: Tree) -> tuple[str, int]:
    """(operational state, MTU) of a port; 0 where it says none."""
    admin = next(iter(_part(link, "state")), "")
    state, mtu = link.get("oper-status", admin), link.get("mtu")
    return answers.line(str(state)), mtu if isinstance(mtu, int) and not isinstance(mtu, bool) else 0


def _complaint(status: int, said: bytes) -> str:
    return f"HTTP status {status}: {answers.decoded(said, answers.SHOWN_CHARACTERS)}"
