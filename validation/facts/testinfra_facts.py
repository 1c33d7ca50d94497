"""A node read by testinfra's own modules, beside node_facts.py: another author's commands and another author's parsers.

In: a testinfra host and what to read. Out: a Reading (second_reader.py). The commands go over the SSH login of
the site's credentials; all of them together have one time budget.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from capacity.model import Plan
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError, DeviceTimeout
from network.drivers.parallel import at_once
from network.drivers.ssh import SshHost
from validation.facts.answer import Facts
from validation.facts.gather import address_of
from validation.facts.second_reader import ABSENT, Asked, Reading, asked, budget_s, yes

UNFORESEEN = (AssertionError, RuntimeError, NotImplementedError, LookupError, TypeError, ValueError, AttributeError)
"""What testinfra's modules raise for an output that they do not expect."""


class SiteSsh(BaseBackend):
    """testinfra over our SSH transport: pinned host keys, key login, bounded output, and one time budget for a node."""

    NAME = "bringup-ssh"

    def __init__(self, host: SshHost, budget_s: float) -> None:
        super().__init__(host.name)
        self.over, self.budget_s, self.end = host, budget_s, time.monotonic() + budget_s

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        """Run a shell command; DeviceError when the node or its time is gone."""
        words, left = self.get_command(command, *args), self.end - time.monotonic()
        if left <= 0:
            raise self.out_of_time()
        try:
            done = self.over.run(words, check=False, budget_s=left)
        except DeviceTimeout as error:
            raise self.out_of_time() if self.end - time.monotonic() <= 0 else error from None
        return self.result(done.status, words.encode(), done.out, done.err)

    def out_of_time(self) -> DeviceTimeout:
        """The error of a node whose seconds are spent."""
        return DeviceTimeout(
            self.hostname,
            "read by testinfra",
            f"an end within {self.budget_s:g} s",
            "none",
            "look at the node's load, or raise timeouts.second_reading_s",
        )


def read_nodes(plan: Plan, facts: Facts, nodes: list[str]) -> dict[str, Reading]:
    """Second readings of these nodes, all at the same time; a node that gave no facts is not asked again."""
    credentials, seconds = node_credentials(plan.site), budget_s(plan)

    def one(name: str) -> Reading:
        first = facts.nodes[name]
        if first.error:
            return Reading(error=first.error)
        ssh = SshHost(name, address_of(plan, name, "provisioning"), credentials)
        with ssh.kept_open() as ssh:
            return read(Host(SiteSsh(ssh, seconds)), asked(plan, name, first.data))

    return at_once(nodes, one)


def read(host: Any, wanted: Asked) -> Reading:
    """What testinfra reads on a host. An item that its modules stumble over is unread; a lost host ends the reading."""
    items, unread = dict[str, str](), dict[str, str]()
    for item, ask in questions(host, wanted).items():
        try:
            items[item] = " ".join(str(ask()).split())
        except DeviceError as error:
            return Reading(items, unread, str(error))
        except UNFORESEEN as error:
            unread[item] = f"{type(error).__name__}: {error}"
    return Reading(items, unread)


def questions(host: Any, wanted: Asked) -> Mapping[str, Callable[[], str]]:
    """Each item with the question that answers it."""
    kinds: Mapping[str, tuple[Callable[[Any, str], str], tuple[str, ...]]] = {
        "package {}": (_package, wanted.packages),
        "service {} running": (_running, wanted.services),
        "service {} at boot": (_at_boot, wanted.services),
        "file {}": (_file, wanted.files),
        "sysctl {}": (_sysctl, wanted.sysctls),
        "mount {}": (_mount, wanted.mounts),
        "user {}": (_user, wanted.users),
        "local accounts": (_accounts, ("",)),
    }
    return {words.format(name): partial(ask, host, name) for words, (ask, names) in kinds.items() for name in names}


def _package(host: Any, name: str) -> str:
    package = host.package(name)
    return str(package.version) if package.is_installed else ABSENT


def _service(host: Any, name: str) -> Any:
    return host.service(f"{name}.service")  # with its suffix, it is never looked for among SysV's scripts


def _running(host: Any, name: str) -> str:
    return yes(_service(host, name).is_running)


def _at_boot(host: Any, name: str) -> str:
    service = _service(host, name)
    if not service.exists:
        return ABSENT
    return "masked" if service.is_masked else yes(service.is_enabled)


def _file(host: Any, path: str) -> str:
    file = host.file(path)
    return f"{file.mode:04o} {file.user}:{file.group}" if file.exists else ABSENT


def _sysctl(host: Any, key: str) -> str:
    path = f"/proc/sys/{key.replace('.', '/')}"
    return str(host.sysctl(key)) if host.file(path).exists else ABSENT


def _mount(host: Any, path: str) -> str:
    mount = host.mount_point(path)
    return f"{mount.device} {mount.filesystem}" if mount.exists else ABSENT


def _user(host: Any, name: str) -> str:
    user = host.user(name)
    return f"{user.uid}:{user.gid}:{user.home}:{user.shell}" if user.exists else ABSENT


def _accounts(host: Any, _: str) -> str:
    return " ".join(sorted(host.user().get_local_users))
