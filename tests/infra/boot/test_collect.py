"""The record of installed servers from a boot server's spool and nodes that are scripts, and over a real SSH login."""

import getpass
import json
from pathlib import Path
from typing import Any, cast

import pytest

from capacity.services import boot
from capacity.services.boot import collected as collected_from
from infra import cli
from infra.boot import collect
from infra.cli.common import CANNOT, JUDGED_NO, OK
from inventory.delivered.assets import load_assets
from network.drivers.credentials import SshCredentials
from network.drivers.errors import BadAnswer, Unreachable, UnreadableAnswer
from network.drivers.ssh import Completed, SshHost
from tests.capacity.services.boot.test_collected import ROOT, UUID, VERSION, spool, told
from tests.network.sshd import SSHD, serving
from tests.plans import plan_of

NODE = f"gpu {VERSION} {ROOT}\n{UUID}\nSIMULATED (bringup lab)\nbios\n"


class Host:
    """A host that answers from a script; None: silent."""

    def __init__(self, name: str, text: str | None) -> None:
        self.name, self.text = name, text

    def run(self, command: object, *, stdin: bytes = b"", check: bool = True) -> Completed:
        if self.text is None:
            raise Unreachable(self.name, "run", "an SSH server", "none", "check its power")
        if self.text == "":
            return Completed(1, "", "cat: No such file or directory\n", 0.1)
        return Completed(0, self.text, "", 0.1)


def connect(texts: dict[str, str | None]) -> collect.Connect:
    return cast(collect.Connect, lambda name, address, budget_s: Host(name, texts[name]))


def collected(texts: dict[str, str | None]) -> collect.Collected:
    plan = plan_of("lab-metal")
    return collect.collect(plan, load_assets(plan.site), {}, connect(texts))


@pytest.fixture
def reports() -> list[dict[str, Any]]:
    plan = plan_of("lab-metal")
    return told(boot.intents(plan, load_assets(plan.site)))


def test_reports_and_the_nodes_own_word_make_the_record(reports: list[dict[str, Any]]) -> None:
    found = collected({"boot server": spool(*reports), "gpu001": NODE})
    assert found.faults == []
    (one,) = found.records
    assert (one.server, one.sha256, one.running, one.firmware) == ("gpu001", ROOT, f"gpu {VERSION} {ROOT}", "bios")
    assert found.heard.silent == ["gpu002"]


def test_a_silent_node_is_named_and_not_recorded(reports: list[dict[str, Any]]) -> None:
    found = collected({"boot server": spool(*reports), "gpu001": None})
    assert found.records == []
    assert found.faults[0].startswith("gpu001: does not say what it runs: gpu001: run: expected an SSH server")


def test_a_boot_server_without_reports_says_what_is_missing() -> None:
    with pytest.raises(BadAnswer, match="set it up with playbooks/boot.yml"):
        collected({"boot server": ""})


@pytest.mark.parametrize("text", ["", "one\n", NODE * 2, NODE.replace("bios", "coreboot"), NODE.replace(UUID, "")])
def test_a_node_that_says_something_else_is_refused(text: str) -> None:
    with pytest.raises(UnreadableAnswer, match="gpu001: ask what runs: expected "):
        collect.parse(text, "gpu001", 1.0)


@pytest.mark.skipif(SSHD is None, reason="needs openssh-server")
def test_spool_and_node_are_read_over_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reports.jsonl").write_text('{"cut')
    (tmp_path / "image").write_text(f"gpu {VERSION} {ROOT}\n")
    monkeypatch.setattr(collected_from, "SPOOL", str(tmp_path / "reports.jsonl"))
    with serving(tmp_path) as port:
        login = SshCredentials(getpass.getuser(), tmp_path / "user", tmp_path / "known_hosts")
        host = SshHost("mgm01", "127.0.0.1", login, 10.0, port=port)
        assert collect.spool_of(host) == '{"cut'
        question = collect.QUESTION.replace(collect.IMAGE_NOTE, str(tmp_path / "image"))
        question = question.replace("as_root cat /sys/class/dmi/id/product_uuid", f"as_root echo {UUID}")
        lines = host.run("sh -s", stdin=question.encode()).text.splitlines()
        assert lines[:2] == [f"gpu {VERSION} {ROOT}", UUID]
        assert len(lines) == 4
        (tmp_path / "reports.jsonl").unlink()
        with pytest.raises(BadAnswer, match="No such file"):
            collect.spool_of(host)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path))
    return tmp_path / "lab-metal" / "installed.json"


def verb(monkeypatch: pytest.MonkeyPatch, texts: dict[str, str | None]) -> int:
    monkeypatch.setattr(collect, "_over_ssh", lambda plan: connect(texts))
    return cli.main(["boot", "collect", "lab-metal"])


def test_the_verb_writes_the_record_and_the_same_again(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reports: list[dict[str, Any]]
) -> None:
    texts: dict[str, str | None] = {"boot server": spool(*reports), "gpu001": NODE}
    assert verb(monkeypatch, texts) == OK
    assert "1 servers are recorded as installed" in capsys.readouterr().out
    assert json.loads(out.read_text())["servers"][0]["written_at"] == 1003.0
    assert verb(monkeypatch, {**texts, "gpu001": None}) == JUDGED_NO, "what it runs is not known today"
    assert [one["server"] for one in json.loads(out.read_text())["servers"]] == ["gpu001"]


def test_the_verb_says_no_where_something_was_refused(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reports: list[dict[str, Any]]
) -> None:
    stranger = {**reports[0], "mac": "02-00-00-00-00-99"}
    assert verb(monkeypatch, {"boot server": spool(*reports, stranger), "gpu001": NODE}) == JUDGED_NO
    assert "Refused: 02-00-00-00-00-99 is no boot port of the plan" in capsys.readouterr().out


def test_a_silent_boot_server_leaves_the_record_as_it_is(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out.parent.mkdir()
    out.write_text('{"schema_version": 1, "servers": []}\n')
    assert verb(monkeypatch, {"boot server": None}) == CANNOT
    assert out.read_text() == '{"schema_version": 1, "servers": []}\n'
