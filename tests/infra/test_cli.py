import hashlib
import json
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from infra import cli
from infra.cli.common import CANNOT, JUDGED_NO, OK
from infra.cli.evidence import end_of
from inventory.paths import repo_root, site_dir
from inventory.site import load_site
from tests.full_sites import full_text

pytestmark = pytest.mark.usefixtures("plans_kept")

VERBS = ["env", "schema", "plan", "optimise", "render", "compare", "attest", "waive", "freeze", "gate"]
LAB_ACTIONS = ["up", "down", "status", "exec", "fault", "repair", "save", "restore"]


@pytest.fixture(autouse=True)
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every verb writes below a folder of the test's own."""
    folder = tmp_path / "var"
    monkeypatch.setenv("BRINGUP_VAR", str(folder))
    return folder


@pytest.fixture
def private_key(tmp_path: Path) -> str:
    """Reference to an ed25519 key of a person."""
    path = tmp_path / "key.pem"
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)
    return f"file:{path}"


LAB_KEY = "file:/var/lib/bringup/labs/lab/secrets/evidence_ed25519"


def variant(folder: Path, old: str, new: str) -> str:
    """Path of a copy of the lab site with one text replaced in its site file."""
    folder.mkdir(exist_ok=True)
    for name in ("assets.csv", "as_built.csv"):
        (folder / name).write_text((site_dir("lab") / name).read_text())
    text = full_text("lab")
    assert old in text
    (folder / "site.yaml").write_text(text.replace(old, new))
    return str(folder / "site.yaml")


@pytest.mark.parametrize("words", [[verb] for verb in VERBS] + [["lab", action] for action in LAB_ACTIONS])
def test_every_verb_explains_itself_and_its_exit_status(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    assert "exit status:" in capsys.readouterr().out


def test_schema_is_json_that_knows_the_site_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema"]) == OK
    assert "fabric" in json.loads(capsys.readouterr().out)["properties"]


def test_schema_goes_to_a_file_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "--out", str(tmp_path / "schema.json")]) == OK
    assert json.loads((tmp_path / "schema.json").read_text())["$schema"].startswith("https://json-schema.org/")
    assert capsys.readouterr().out == ""


def test_env_prints_exports_and_nothing_else(capsys: pytest.CaptureFixture[str], outputs: Path) -> None:
    assert cli.main(["env"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("export ") for line in lines)
    assert (outputs / "pulumi" / "passphrase").exists()


def test_plan_json_is_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "lab", "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["schema_version"] >= 1


def test_plan_writes_its_files_where_asked(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["plan", "lab", "--out", str(tmp_path / "out"), "--html", str(page)]) == OK
    assert (tmp_path / "out" / "plan" / "summary.json").exists()
    assert "<html" in page.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["schema", "--out", "FILE"],
        ["plan", "lab", "--html", "FILE"],
        ["render", "lab", "--out", "FILE"],
        ["export", "manifest", "--site", "lab", "--out", "FILE"],
    ],
    ids=lambda words: words[0],
)
def test_a_path_that_cannot_be_written_is_one_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    below = str(tmp_path / "file" / "x.html")
    assert cli.main([word.replace("FILE", below) for word in words]) == CANNOT
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"bringup: {tmp_path / 'file'}")


@pytest.mark.parametrize(
    "words", [["plan", "lab"], ["compare", "lab", "--set", "room.slack_m=3"]], ids=lambda words: words[0]
)
def test_a_page_of_another_kind_of_file_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--html", str(tmp_path / "bill.xlsx")]) == CANNOT
    assert "name it bill.xlsx.html" in capsys.readouterr().err
    assert not list(tmp_path.glob("bill*"))


def test_a_page_leaves_the_files_beside_it(tmp_path: Path) -> None:
    for name in ("bill.new", "bill.xlsx"):
        (tmp_path / name).write_text("mine")
    page = str(tmp_path / "bill.html")
    assert cli.main(["plan", "lab", "--html", page]) == OK
    assert cli.main(["compare", "lab", "--set", "room.slack_m=3", "--html", page]) == OK
    assert [(tmp_path / name).read_text() for name in ("bill.new", "bill.xlsx")] == ["mine", "mine"]
    assert (tmp_path / "bill.html.xlsx").read_bytes()[:2] == b"PK"


def test_plan_screen_counts_devices_and_names_the_report(capsys: pytest.CaptureFixture[str], outputs: Path) -> None:
    assert cli.main(["plan", "lab"]) == OK
    screen = capsys.readouterr().out
    assert "lab-gpu-node" in screen
    assert "0 error(s)" in screen
    assert str(outputs / "lab" / "plan" / "report.html") in screen


def test_plan_with_error_findings_exits_1_and_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = variant(tmp_path / "site", "breaker_a: 60", "breaker_a: 6")
    assert cli.main(["plan", site]) == JUDGED_NO
    assert "POWER-" in capsys.readouterr().out


def test_unknown_site_is_an_error_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "labb"]) == CANNOT
    error = capsys.readouterr().err
    assert "nearest:  lab" in error
    assert "Traceback" not in error


def test_wrong_site_file_is_an_error_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = variant(tmp_path / "site", "radix: 8", "radix: eight")
    assert cli.main(["plan", site]) == CANNOT
    assert "fabric.radix" in capsys.readouterr().err


def test_render_writes_every_switch_and_prints_one(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["render", "lab"]) == OK
    for kind in ("conf", "nft"):
        written = sorted(path.stem for path in (outputs / "lab" / "render").glob(f"*.{kind}"))
        assert written == ["leaf01", "leaf02", "leaf03", "leaf04", "spine01", "spine02"]
    said = capsys.readouterr().out
    papers = sorted(
        path.name for path in (outputs / "lab" / "render").iterdir() if path.suffix not in (".conf", ".nft")
    )
    assert "cable-labels.csv" in papers
    assert all(name in said for name in papers)
    folder = outputs / "lab" / "render"
    assert {"uplinks.sh", "uplinks.service"} <= set(papers)
    head, *lines = (folder / "SHA256SUMS").read_text().splitlines()
    assert head.startswith("# site lab, plan ")
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert set(sums) == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())
    assert cli.main(["render", "lab", "--device", "leaf02"]) == OK
    assert capsys.readouterr().out == (outputs / "lab" / "render" / "leaf02.conf").read_text()


def test_render_of_a_roce_site_writes_its_compute_switches_and_what_is_not_covered(
    outputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capacity.outputs.documents.installation.documents", lambda plan: {})
    monkeypatch.setattr("capacity.outputs.pdf.prints", lambda plan: {})
    assert cli.main(["render", "b200-256-roce"]) == OK
    said = capsys.readouterr().out
    assert "never run on a device" in said
    folder = outputs / "b200-256-roce" / "render"
    written = {path.name for path in (folder / "compute").iterdir()}
    assert written == {
        *(f"rol{n:03}.yaml" for n in range(1, 9)),
        *("ros001.yaml", "ros002.yaml", "host_routes.csv", "secrets.sh"),
    }
    assert "compute/rol001.yaml" in (folder / "SHA256SUMS").read_text()
    assert cli.main(["render", "b200-256-roce", "--device", "rol001"]) == OK
    assert capsys.readouterr().out == (folder / "compute" / "rol001.yaml").read_text()
    written = {path.name for path in (folder / "oob").iterdir()}
    assert written == {*(f"oob{n:02}.yaml" for n in range(1, 5)), "oobagg01.yaml", "secrets.sh"}
    assert cli.main(["render", "b200-256-roce", "--device", "oobagg01"]) == OK
    assert capsys.readouterr().out == (folder / "oob" / "oobagg01.yaml").read_text()
    assert cli.main(["render", "b200-256-roce", "--device", "secrets"]) == CANNOT
    assert "rol001" in capsys.readouterr().err


def test_render_of_an_unknown_switch_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["render", "lab", "--device", "leaf99"]) == CANNOT
    assert "leaf01, leaf02" in capsys.readouterr().err


@pytest.mark.parametrize("option", [[], ["--rehearsal"]])
def test_gate_without_evidence_refuses(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gate", "--site", "lab", "--json", *option]) == JUDGED_NO
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["go_live"] is False
    assert verdict["rehearsal"] is bool(option)


def test_waiver_of_an_unknown_item_is_refused(private_key: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--site", "lab", "--owner", "A. Person", "--reason", "spare part is late", "--key", private_key]
    tomorrow = (datetime.now(UTC).date() + timedelta(days=1)).isoformat()
    assert cli.main(["waive", "S999.measured", "--expires", tomorrow, *arguments]) == CANNOT
    assert "no item S999.measured" in capsys.readouterr().err


def test_waiver_reaches_the_gate_of_a_rehearsal(
    tmp_path: Path, private_key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site = variant(tmp_path / "site", LAB_KEY, private_key)
    arguments = ["--site", site, "--owner", "A. Person", "--reason", "spare part is late", "--key", private_key]
    tomorrow = (datetime.now(UTC).date() + timedelta(days=1)).isoformat()
    assert cli.main(["waive", "S062.measured", "--expires", tomorrow, *arguments]) == OK
    assert "does not count it at go-live: the key SHA256:" in capsys.readouterr().out
    cli.main(["gate", "--site", site, "--rehearsal", "--json"])
    items = {item["id"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    assert items["S062.measured"]["status"] == "waived"


def test_a_site_file_that_cannot_be_read_leaves_no_older_verdict(tmp_path: Path) -> None:
    site = variant(tmp_path / "site", LAB_KEY, LAB_KEY)
    reports = tmp_path / "out" / "reports"
    reports.mkdir(parents=True)
    (reports / "gate.html").write_text("AN OLDER GREEN PAGE")
    Path(site).write_text("name: [")
    assert cli.main(["gate", "--site", site, "--out", str(tmp_path / "out")]) == CANNOT
    assert "NOT JUDGED" in (reports / "gate.html").read_text()
    assert json.loads((reports / "gate.json").read_text())["go_live"] is False


def test_waiver_lasts_to_the_end_of_its_last_day() -> None:
    assert end_of(date(2027, 2, 28)) == datetime(2027, 3, 1, tzinfo=UTC)


def test_attest_prints_an_empty_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["attest", "--site", "lab", "--template", "S001.attested"]) == OK
    assert "item: S001.attested" in capsys.readouterr().out


def test_attest_without_a_key_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["attest", "form.yaml", "--site", "lab"]) == CANNOT
    assert "--key" in capsys.readouterr().err


@pytest.mark.usefixtures("plans_kept")
def test_a_controller_that_the_plan_does_not_have_is_named_with_those_that_it_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["kubeconfig", "lab-kubernetes", "--controller", "ctl09"]) == CANNOT
    assert "lab-kubernetes has no controller ctl09; controllers: ctl01" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "mallory"], "no user mallory: scheduler.accounts[...].users has"),
        (["--user", "USER", "--days", "0"], "--days 0: 1 to 365"),
        (["--login"], "lab-kubernetes has no scheduler.login: its users have certificates (--user NAME)"),
        (["--login", "--user", "USER"], "--login is for all users, --user for one: give one of them"),
        (["--user", "USER"], "kubeconfig is missing, which names the cluster: bringup kubeconfig lab-kubernetes"),
    ],
)
def test_a_kubeconfig_of_a_member_is_for_users_of_accounts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path))
    user = next(name for account in load_site("lab-kubernetes").scheduler.accounts for name in account.users)
    words = [user if word == "USER" else word for word in words]
    assert cli.main(["kubeconfig", "lab-kubernetes", *words]) == CANNOT
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_site_of_slurm_has_no_kubeconfig(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kubeconfig", "lab"]) == CANNOT
    assert capsys.readouterr().err == "bringup: lab has no cluster: its scheduler.kind is slurm, not kubernetes\n"


def test_lab_without_root_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["lab", "up"]) == CANNOT
    assert "needs root on Linux" in capsys.readouterr().err


def test_lab_that_is_not_up_says_how_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path / "labs"))
    assert cli.main(["lab", "status"]) == CANNOT
    assert "bringup lab up" in capsys.readouterr().err


def test_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("inventory.site.load_site", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main(["plan", "lab"])


def test_a_what_if_is_planned_elsewhere_than_the_site(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "lab", "--set", "rack.servers=3"]) in (OK, JUDGED_NO)
    assert "What-if, not the site's plan" in capsys.readouterr().out
    assert not (outputs / "lab" / "plan").exists()
    page = (outputs / "lab" / "what-if" / "rack.servers=3" / "report.html").read_text()
    assert "<b>What-if.</b>" in page


def test_a_what_if_is_never_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "lab", "--set", "rack.servers=3", "--record"]) == CANNOT
    assert "never about a what-if" in capsys.readouterr().err


def test_a_wrong_key_of_a_what_if_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "lab", "--set", "rack.servrs=3"]) == CANNOT
    assert "nearest:  servers" in capsys.readouterr().err


def test_two_plans_are_compared(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "lab", "--set", "room.slack_m=3"]) == OK
    assert "cable routed" in capsys.readouterr().out
    assert (outputs / "lab" / "compare.html").exists()
    assert cli.main(["compare", "lab", "b200-256-roce", "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["b"] == "b200-256-roce"


@pytest.mark.parametrize(
    ("site", "changed", "equal"),
    [
        ("b200-256-roce", "leadtimes.pdu.max_weeks=60", False),
        ("lab", "purchase.spares.share_pct=9", False),
        ("lab", "room.slack_m=1.0", True),
    ],
)
def test_plans_do_not_differ_only_where_nothing_does(
    site: str, changed: str, equal: bool, outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", site, "--set", changed]) == OK
    assert ("The plans do not differ." in capsys.readouterr().out) is equal


def test_recorded_facts_and_a_second_plan_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", "lab", "b200-256-roce", "--facts", str(tmp_path / "x")]) == CANNOT
    assert "leave it out" in capsys.readouterr().err


def test_cables_as_built_are_compared_with_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = str(repo_root() / "tests" / "validation" / "data" / "healthy.json")
    site = variant(tmp_path / "site", "name: lab", "name: lab")
    with (tmp_path / "site" / "as_built.csv").open("a") as list_:
        list_.write("gpu001:ib0,gpu001,ib0,ibl001,p9,aoc-200g-100m,,,2026-11-20,Jo\n")
    assert cli.main(["compare", site, "--facts", facts]) == JUDGED_NO
    said = capsys.readouterr().out
    assert "AS-BUILT-CABLE" in said
    assert "; 1 recorded as installed, by row" in said


def test_options_are_ranked_and_the_others_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(["optimise", "lab", "--over", "rack.servers=2..3,power.rack_circuit.breaker_a=16,60", "--json"]) == OK
    )
    made = json.loads(capsys.readouterr().out)
    assert len(made["ranked"]) + len(made["ruled_out"]) == 4
    assert all(row["id"] and row["why"] for row in made["ruled_out"])


def test_evidence_of_the_plan_is_recorded_without_a_device(
    tmp_path: Path, outputs: Path, private_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Path(private_key.removeprefix("file:"))
    key.chmod(0o600)
    site = variant(tmp_path / "site", LAB_KEY, private_key)
    assert cli.main(["plan", site, "--record"]) == OK
    log = (outputs / "lab" / "evidence" / "log.jsonl").read_text()
    assert log.count("\n") >= 1


def test_piped_tables_do_not_break_their_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["optimise", "lab", "--maximise", "servers", "--over", "rack.servers=2"]) == OK
    out = capsys.readouterr().out.splitlines()
    row = next(line for line in out if line.startswith("rack.servers=2"))
    assert "prices" in row
    assert cli.main(["optimise", "lab"]) == CANNOT


def test_a_plan_says_how_often_a_job_is_interrupted_and_how_often_to_checkpoint(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One interruption in 50,677 GPU-hours (Llama 3 405B); Young 1974: sqrt(2 x stall x time between interruptions)."""
    assert cli.main(["plan", "b200-256-roce", "--out", str(tmp_path)]) == OK
    told = capsys.readouterr().out
    between_h = 50677 / 256
    assert f"one in {between_h:.3g} h (" in told
    assert f"a checkpoint each {(2 * 60 * between_h * 3600) ** 0.5 / 60:.3g} min (" in told


def test_long_times_between_interruptions_have_no_exponent(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """32 GPUs of the lab: 50,677 / 32 = 1,584 h."""
    assert cli.main(["plan", "lab", "--out", str(tmp_path)]) == OK
    assert "one in 1,584 h (" in capsys.readouterr().out


def test_out_of_band_switches_are_compared_with_their_files(
    outputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from network import oob, push
    from network.drivers.credentials import HttpsCredentials

    login = HttpsCredentials("ops", "a secret", Path("ca"))
    compared = {}

    def compare(target: push.Target, os_name: str) -> str:
        compared[target.name] = (target.address, target.config, os_name)
        return "" if target.name != "oob02" else "- vlan 30"

    monkeypatch.setattr(push, "switch_https_credentials", lambda site: login)
    monkeypatch.setattr(push, "preview", compare)
    assert cli.main(["switches", "preview", "b200-256-roce", "--network", "oob"]) == JUDGED_NO
    assert "oob01: no change" in (told := capsys.readouterr().out)
    assert "oob02:\n- vlan 30" in told
    assert set(compared) == {"oob01", "oob02", "oob03", "oob04", "oobagg01"}
    _, config, system = compared["oob01"]
    assert (oob.READ[system](config).hostname, system) == ("oob01", "cumulus")
    assert cli.main(["switches", "preview", "b200-256-roce", "--network", "oob", "--only", "oob03"]) == OK
    assert cli.main(["switches", "preview", "b200-256-roce", "--network", "oob", "--only", "rol001"]) == CANNOT
    assert "has no out-of-band switch 'rol001'" in capsys.readouterr().err
    assert cli.main(["switches", "preview", "lab", "--network", "oob"]) == CANNOT
    assert "without oob.nos" in capsys.readouterr().err


def test_compute_switches_are_asked_for_a_preview_and_a_push_needs_consent(
    outputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from network import push
    from network.drivers.credentials import SshCredentials
    from network.drivers.errors import Unreachable

    def compare(target: push.Target, os_name: str) -> str:
        if target.name == "rol002":
            raise Unreachable(target.name, "connect", "an HTTPS server", "nothing", "check the cable")
        return "+ system hostname rol001" if target.name == "rol001" else ""

    login = SshCredentials("ops", Path("key"), Path("known_hosts"))
    wanted = [push.Target(f"rol00{n}", "192.0.2.1", login, "", "") for n in (1, 2, 3)]
    monkeypatch.setattr(push, "compute_targets", lambda plan, assets, only, key: wanted)
    monkeypatch.setattr(push, "preview", compare)
    assert cli.main(["switches", "preview", "b200-256-roce"]) == JUDGED_NO
    assert capsys.readouterr().out.splitlines() == [
        "Driver of cumulus: never run on a device.",
        "rol001:",
        "+ system hostname rol001",
        "rol002: rol002: connect: expected an HTTPS server, saw nothing; check the cable",
        "rol003: no change",
    ]
    assert cli.main(["switches", "push", "b200-256-roce"]) == CANNOT
    assert "never run on a device; push --untested --only SWITCH" in capsys.readouterr().err
    assert cli.main(["switches", "preview", "b200-256-roce", "--only", "leaf01"]) == CANNOT
    assert "has no compute switch 'leaf01'" in capsys.readouterr().err
    assert cli.main(["switches", "preview", "lab"]) == CANNOT
    assert "without fabric.kind roce" in capsys.readouterr().err
