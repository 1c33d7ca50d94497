"""A key that is authorised, tried, revoked and tried again, against a real sshd."""

import getpass
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from capacity.model import Plan
from network.drivers.credentials import SshCredentials
from network.drivers.errors import Unreachable
from network.drivers.ssh import SshHost
from tests.network.sshd import SSHD, serving
from tests.plans import plan_of
from validation.facts import probes, revoked
from validation.facts.revoked import Tried

pytestmark = [pytest.mark.clock, pytest.mark.needs("sshd")]
SERVER = "ctl01"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


class Here:
    """The node is this machine: programs run here, with the configuration of the test's sshd."""

    config: Path
    fails: str = ""

    def __init__(self, name: str, *_: Any) -> None:
        self.name = name

    def kept_open(self) -> "Here":
        return self

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def program(self, text: str, request: Any, **_: Any) -> Any:
        if request["verb"] == self.fails:
            raise Unreachable(self.name, "run", "an answer", "none", "see the node")
        own = text.replace('"/usr/sbin/sshd", "-T"', f'"{SSHD}", "-T", "-f", "{self.config}"')
        assert own != text
        done = subprocess.run(
            [sys.executable, "-", json.dumps(request)],
            input=own,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return json.loads(done.stdout)


@pytest.fixture
def node(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """try_all of one server behind an sshd with these lines; the folder of its keys is tmp_path/keys."""
    (tmp_path / "keys").mkdir()
    monkeypatch.setattr(revoked, "servers", lambda _: [SERVER])
    monkeypatch.setattr(revoked, "address_of", lambda *_: "127.0.0.1")
    monkeypatch.setattr(revoked, "SshHost", Here)
    credentials = SshCredentials(getpass.getuser(), tmp_path / "user", tmp_path / "known_hosts")
    monkeypatch.setattr(revoked, "node_credentials", lambda _: credentials)
    with_key = probes.with_key

    def tried(*lines: str, fails: str = "") -> Tried:
        with serving(tmp_path, *lines, keys=f"{tmp_path}/keys/%u") as port:
            monkeypatch.setattr(revoked, "with_key", lambda *args: {**with_key(*args), "Port": str(port)})
            monkeypatch.setattr(Here, "config", tmp_path / "config", raising=False)
            monkeypatch.setattr(Here, "fails", fails)
            return revoked.try_all(plan)[SERVER]

    return tried


def test_a_revoked_key_is_refused_after_it_has_logged_in_and_nothing_is_left(node: Any, tmp_path: Path) -> None:
    listed = tmp_path / "revoked"
    listed.write_text("# kept\n")
    found = node(f"RevokedKeys {listed}")
    assert found == Tried("", "accepted", "refused")
    assert found.faults(compute=False) == []
    assert listed.read_text() == "# kept\n"
    assert list((tmp_path / "keys").iterdir()) == []


def test_keys_that_were_authorised_before_stay(node: Any, tmp_path: Path) -> None:
    own = tmp_path / "keys" / getpass.getuser()
    own.write_text("# the operator's\n")
    (tmp_path / "revoked").write_text("# kept\n")
    assert node(f"RevokedKeys {tmp_path / 'revoked'}").faults(compute=False) == []
    assert own.read_text() == "# the operator's\n"


def test_a_server_without_a_list_of_revoked_keys_fails_untouched(node: Any, tmp_path: Path) -> None:
    (fault,) = node().faults(compute=False)
    assert "sshd has no list of revoked keys (RevokedKeys): run the playbook, role ssh" in fault
    assert list((tmp_path / "keys").iterdir()) == []


def test_a_list_that_sshd_does_not_heed_is_found(node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "revoked").write_text("# kept\n")
    program = revoked.PROGRAM.replace("change(revoked, key)", "pass")
    assert program != revoked.PROGRAM
    monkeypatch.setattr(revoked, "PROGRAM", program)
    found = node(f"RevokedKeys {tmp_path / 'revoked'}")
    assert found.faults(compute=False) == ["a revoked key was not refused: accepted"]


def test_a_node_that_is_lost_in_the_middle_fails_and_the_key_expires(node: Any, tmp_path: Path) -> None:
    (tmp_path / "revoked").write_text("# kept\n")
    found = node(f"RevokedKeys {tmp_path / 'revoked'}", fails="clean")
    assert found.error.startswith(SERVER)
    left = (tmp_path / "keys" / getpass.getuser()).read_text()
    assert left.startswith('restrict,command="true",expiry-time="')


@pytest.mark.parametrize(
    ("tried", "compute", "said"),
    [
        (Tried("", "refused", "refused"), False, "a key that was authorised did not log in"),
        (Tried("", "accepted", "refused"), True, "no user without a job on this node could be tried"),
        (Tried("", "accepted", "refused", "bringup-a", "accepted"), True, "bringup-a was not refused: accepted"),
        (Tried("no answer"), True, "a revoked key could not be tried: no answer"),
    ],
)
def test_what_is_not_shown_is_a_fault(tried: Tried, compute: bool, said: str) -> None:
    (fault,) = tried.faults(compute=compute)
    assert said in fault


@pytest.mark.parametrize(("login", "python"), [("root", ("python3",)), ("ops", ("sudo", "-n", "python3"))])
def test_keys_are_changed_as_root_whoever_logs_in(login: str, python: tuple[str, ...]) -> None:
    class Host:
        name = SERVER

        def program(self, text: str, request: Any, *, python: Any, operation: str) -> Any:
            asked.append(python)
            return {"revoked": "none", "pattern": "", "user": "", "known": []}

    asked: list[Any] = []
    revoked._act(cast(SshHost, Host()), "clean", {"login": login})
    assert asked == [python]


def test_pam_slurm_adopt_refuses_in_its_own_words() -> None:
    said = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
    assert revoked.no_job_login(said) == "refused"
    assert revoked.no_job_login("root@n: Permission denied (publickey).") == "refused"
    assert revoked.no_job_login("Connection closed by 10.0.0.1") == "Connection closed by 10.0.0.1"


def test_users_of_jobs_are_tried_where_jobs_run(plan: Plan) -> None:
    assert [revoked.of_jobs(plan, name) for name in ("gpu001", "ctl01", "sto01")] == [True, False, False]
