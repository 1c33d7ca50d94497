"""Switches that are reached over SSH by a program of ours: one connection, verbs with time budgets, errors that name the switch.

netmiko opens and authenticates the connection; commands run on SSH exec channels of it, which give an exit status and keep
standard error apart. The switch's side is a shell script that the class names (`on_device`), run as `sh -c SCRIPT VERB ...`.
"""

import logging
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

import paramiko
from netmiko import ConnectHandler
from netmiko.exceptions import NetmikoAuthenticationException, NetmikoTimeoutException

from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.budget import within
from network.drivers.credentials import SshCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceError,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    PushIncomplete,
    Unreachable,
    compare_identity,
)
from network.nos.driver import SwitchFacts, timer_was_faster

CONNECT_BUDGET_S = 15.0
"""TCP, key exchange, login: 0.4 s on an idle switch, several seconds while it reloads on a busy one."""
OUTPUT_BYTES = 8 << 20
"""Most output of one verb: a running configuration of 10,000 lines is below 1 MB."""
ERROR_BYTES = 1 << 20
TIMER_WAS_FASTER = 95
"""Exit status of the verb `confirm` of each script on a switch."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # a hanging device else prints a traceback

Answer = TypeVar("Answer")


class OverSsh(ABC):
    """One switch. `name` appears in errors; `mgmt_mac`, when given, is compared before every write."""

    on_device: ClassVar[str]
    """The script that runs on the switch."""
    command_budget_s: ClassVar[float]
    """For the longest verb."""
    saved_file: ClassVar[str]
    """What the switch starts with, and `save_way_out` what to look at when it is not written."""
    save_way_out: ClassVar[str]
    _push_id = ""

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

    def __enter__(self) -> Self:
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

    @abstractmethod
    def facts(self) -> SwitchFacts:
        """Host name, management MAC, software version, login banner and ports."""

    @abstractmethod
    def saved(self) -> bool:
        """Whether the configuration for the next boot is the running one."""

    def confirm(self) -> None:
        """Keep the applied configuration and save it; raises PushRolledBack when the switch's timer was faster."""
        status, _, err = self._execute("confirm", (self._push_id,), b"")
        if status == TIMER_WAS_FASTER:
            raise timer_was_faster(self.name, "confirm configuration")
        if status:
            raise PushIncomplete(
                self.name, "confirm configuration", "exit status 0", f"{status}: {err}", "run the same command again"
            )
        self._require_saved()

    def save(self) -> None:
        """Save the running configuration for the next boot."""
        self._verb("save")
        self._require_saved()

    # ---- protocol ----------------------------------------------------------------------------------------------
    def _compare_identity(self) -> None:
        if not self._identity_compared:
            compare_identity(self.name, {"mgmt_mac": self.mgmt_mac}, {"mgmt_mac": self.facts().mgmt_mac})
            self._identity_compared = True

    def _verb(self, verb: str, *arguments: str, stdin: bytes = b"") -> str:
        """Standard output of a verb of on_device.sh that must succeed."""
        status, out, err = self._execute(verb, arguments, stdin)
        if status:
            raise BadAnswer(self.name, verb, "exit status 0", f"{status}: {err or out}", "run the same command again")
        return out

    def _execute(self, verb: str, arguments: tuple[str, ...], stdin: bytes) -> tuple[int, str, str]:
        """(exit status, standard output, standard error) of a verb of on_device.sh."""
        command = shlex.join(["sh", "-c", self.on_device, "bringup-push", verb, *arguments])

        def run() -> tuple[int, str, str]:
            into, out, err = self._connection.remote_conn_pre.exec_command(command, timeout=self.command_budget_s)
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
        return self._guarded(verb, self.command_budget_s, run)

    def _require_saved(self) -> None:
        if not self.saved():
            raise PushIncomplete(
                self.name,
                "save configuration",
                "the running configuration saved",
                f"{self.saved_file} differs from it",
                self.save_way_out,
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
