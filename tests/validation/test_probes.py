"""Acts that leave no trace: what counts as a refused login, and that an identity LED is put back."""

import os
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from network.drivers.credentials import SshCredentials
from network.drivers.errors import DeviceTimeout
from tests.plans import plan_of
from validation.facts import probes
from validation.facts.probes import Logins

SAID = "root@10.77.1.11: Permission denied ({})."


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


@pytest.fixture
def node(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A first node whose SSH server ends every login as told: 'with password' or 'with key' to (status, stderr)."""
    name = probes.servers(plan)[0]
    monkeypatch.setattr(probes, "servers", lambda _: [name])
    credentials = SshCredentials("root", tmp_path / "key", tmp_path / "known_hosts")
    monkeypatch.setattr(probes, "node_credentials", lambda _: credentials)

    def meet(password: tuple[int, str], key: tuple[int, str] = (255, SAID.format("publickey"))) -> Logins:
        for kind, (status, text) in {"password": password, "key": key}.items():
            (tmp_path / kind).write_text(f"{text}\n")
            (tmp_path / f"{kind}.status").write_text(str(status))
        ssh = tmp_path / "ssh"
        ssh.write_text(
            f'#!/bin/sh\nkind=key\ncase "$*" in *PubkeyAuthentication=no*) kind=password;; esac\n'
            f'cat "{tmp_path}/$kind" >&2\nexit "$(cat "{tmp_path}/$kind.status")"\n'
        )
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return probes.logins(plan)[name]

    return meet


def test_a_server_that_takes_keys_only_refuses_both_logins(node):
    assert node((255, f"Authorized use only\n{SAID.format('publickey')}")) == Logins("refused", "refused")


@pytest.mark.parametrize(
    ("methods", "offered"),
    [
        ("publickey,password", "password"),
        ("publickey,keyboard-interactive", "keyboard-interactive"),
        ("publickey,gssapi-with-mic,password,keyboard-interactive", "keyboard-interactive, password"),
    ],
)
def test_a_server_that_offers_passwords_has_not_refused_them(node, methods, offered):
    said = (255, SAID.format(methods))
    assert node(said, said) == Logins(f"the server offers {offered}", "refused")


@pytest.mark.parametrize(
    ("status", "said", "seen"),
    [(0, "", "accepted"), (255, "Connection closed by 10.77.1.11", "Connection closed by 10.77.1.11")],
)
def test_a_login_that_ends_otherwise_is_not_refused(node, status, said, seen):
    assert node((status, said), (status, said)) == Logins(seen, seen)


class Led:
    """A BMC with an identity LED; its answer to read number `silent` does not come."""

    def __init__(self, silent: int) -> None:
        self.on, self.reads, self.silent = False, 0, silent

    def state(self) -> dict[str, bool]:
        self.reads += 1
        if self.reads == self.silent:
            raise DeviceTimeout("gpu001", "read the LED", "an answer", "none", "try again")
        return {"led_on": self.on}

    def led(self, on: bool) -> None:
        self.on = on


@pytest.mark.parametrize(("silent", "problem"), [(0, ""), (2, "expected an answer, saw none")])
def test_an_identity_led_is_put_back_even_when_it_cannot_be_read_between(plan, monkeypatch, silent, problem):
    led = Led(silent)
    monkeypatch.setattr(probes, "servers", lambda _: ["gpu001"])
    monkeypatch.setattr(probes, "bmc_factory", lambda *_: lambda name: led)
    assert problem in probes.identify_leds(plan)["gpu001"]
    assert not led.on
