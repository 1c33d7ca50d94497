"""The record of installed servers from a boot server's spool and nodes that are scripts, and over a real SSH login."""

import getpass
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from capacity.services import boot
from capacity.services.boot import collected as collected_from
from infra import cli
from infra.boot import collect
from infra.cli.common import CANNOT, JUDGED_NO, OK
from infra.metal import demo
from inventory.delivered.assets import load_assets
from network.drivers.credentials import SshCredentials
from network.drivers.errors import BadAnswer, IdentityMismatch, Unreachable, UnreadableAnswer
from network.drivers.ssh import Completed, SshHost
from tests.capacity.services.boot.test_collected import ROOT, SECOND, UUID, VERSION, spool, told
from tests.network.sshd import serving
from tests.plans import plan_of

pytestmark = pytest.mark.clock


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


@pytest.mark.needs("sshd")
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


def test_the_verb_names_the_command_that_consents_to_what_all_servers_ask_for(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reports: list[dict[str, Any]]
) -> None:
    plan = plan_of("lab-metal")
    second = told(boot.intents(plan, load_assets(plan.site)), SECOND)
    held = [
        f"drive SIM-DR-1001A holds {'3f' * 32}, drive SIM-DR-1001B holds {'4a' * 32}",
        f"drive SIM-DR-1002B holds {'5b' * 32}",
    ]
    stops = [
        {**said[0], "state": "foreign-content", "text": text, "time": 5000.0}
        for said, text in zip((reports, second), held, strict=True)
    ]
    assert verb(monkeypatch, {"boot server": spool(*reports, *second, *stops)}) == JUDGED_NO
    said = capsys.readouterr().out
    command = re.search(
        r"If nothing on these drives is needed: (bringup boot render .*), then playbooks/boot.yml", said
    )
    assert command
    assert shlex.split(command[1])[3:] == [
        *("lab-metal", "--overwrite", f"gpu001:SIM-DR-1001A:{'3f' * 32}"),
        *("--overwrite", f"gpu001:SIM-DR-1001B:{'4a' * 32}", "--overwrite", f"gpu002:SIM-DR-1002B:{'5b' * 32}"),
    ]


def test_a_silent_boot_server_leaves_the_record_as_it_is(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out.parent.mkdir()
    out.write_text('{"schema_version": 1, "servers": []}\n')
    assert verb(monkeypatch, {"boot server": None}) == CANNOT
    assert out.read_text() == '{"schema_version": 1, "servers": []}\n'


HEAD, TAIL = 2 << 20, 1 << 20


def test_a_node_tells_what_its_planned_drives_hold_as_the_initramfs_does(tmp_path: Path) -> None:
    drives = (("nvme0n1", "S1", 0), ("nvme0c0n1", "S1", 1), ("nvme1n1", "OTHER", 0), ("md0", "S1", 0))
    for name, serial, hidden in drives:
        content = bytes([len(serial)]) * (HEAD + TAIL) + b"end".rjust(TAIL)
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).write_bytes(content)
        (tmp_path / "block" / name / "device").mkdir(parents=True)
        (tmp_path / "block" / name / "size").write_text(f"{len(content) // 512}\n")
        (tmp_path / "block" / name / "hidden").write_text(f"{hidden}\n")
        (tmp_path / "block" / name / "device" / "serial").write_text(f"{serial}  \n")
    (tmp_path / "image").write_text("gpu older 11\n")
    script = collect.ON_NODE.replace("/sys/block", str(tmp_path / "block")).replace("/dev/$", f"{tmp_path}/dev/$")
    script = script.replace("/etc/bringup-image", str(tmp_path / "image"))
    script = script.replace("as_root cat /sys/class/dmi/id/product_uuid", f"echo {UUID}")
    done = subprocess.run(["sh", "-s"], input=f"WANTED='S1 S2'\n{script}", capture_output=True, text=True, check=True)
    told = collect.parse_drives(done.stdout, "gpu001", UUID.upper(), ("S1", "S2"))
    assert told == collect.Told("gpu older 11", {"S1": demo.content(tmp_path / "dev" / "nvme0n1")})


@pytest.mark.parametrize(("files", "runs"), [([], False), (["enabled"], True), (["enabled", "result.json"], False)])
def test_a_node_tells_whether_cloud_init_still_runs(tmp_path: Path, files: list[str], runs: bool) -> None:
    for name in files:
        (tmp_path / name).touch()
    script = collect.ON_NODE.replace("/run/cloud-init", str(tmp_path)).replace("/sys/block", str(tmp_path / "none"))
    script = script.replace("as_root cat /sys/class/dmi/id/product_uuid", f"echo {UUID}")
    done = subprocess.run(["sh", "-s"], input=f"WANTED=\n{script}", capture_output=True, text=True, check=True)
    told = collect.parse_drives(done.stdout, "gpu001", UUID, ())
    assert (told.seeding_s is not None) == runs
    assert told.seeding_s is None or told.seeding_s > 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu a b\n",
        f"gpu a b\n{UUID}\n",
        f"gpu a b\n{UUID}\nseed soon\n",
        f"gpu a b\n{UUID}\nseed done\nS9 {'ab' * 32}\n",
        f"gpu a b\n{UUID}\nseed done\nS1 all\n",
    ],
)
def test_another_answer_about_drives_is_refused(text: str) -> None:
    with pytest.raises(UnreadableAnswer, match="gpu001: ask what its drives hold: expected "):
        collect.parse_drives(text, "gpu001", UUID, ("S1", "S2"))


def test_another_machine_at_the_address_is_a_mismatch() -> None:
    with pytest.raises(IdentityMismatch, match="UUID"):
        collect.parse_drives("gpu a b\nffffffff\nseed done\n", "gpu001", UUID, ("S1",))
