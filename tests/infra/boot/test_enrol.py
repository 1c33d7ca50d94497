"""Host keys from a node's console into known_hosts: replaced for their address, refused where another address has them."""

from pathlib import Path

import pytest

from infra import cli
from infra.boot.enrol import EnrolError, enrol
from infra.cli.common import CANNOT, OK
from inventory.paths import site_dir

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
OTHER = "ssh-ed25519 AAAAC3OTHEROTHER"
CONSOLE = f"login:\n-----BEGIN SSH HOST KEY KEYS-----\r\n{KEY} root@gpu001\r\n-----END SSH HOST KEY KEYS-----\n"


def test_a_key_is_put_where_none_was_and_a_new_one_takes_its_place(tmp_path: Path) -> None:
    known = tmp_path / "ssh" / "known_hosts"
    assert enrol(known, "10.0.0.1", [KEY])
    assert not enrol(known, "10.0.0.1", [KEY]), "nothing has changed"
    assert enrol(known, "10.0.0.2", [OTHER])
    assert enrol(known, "10.0.0.1", ["ssh-ed25519 AAAAC3NEW"])
    assert known.read_text() == f"10.0.0.2 {OTHER} console\n10.0.0.1 ssh-ed25519 AAAAC3NEW console\n"
    assert enrol(known, "10.0.0.2", [])
    assert known.read_text() == "10.0.0.1 ssh-ed25519 AAAAC3NEW console\n"


def test_a_key_of_another_server_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    enrol(known, "10.0.0.1", [KEY])
    before = known.read_text()
    with pytest.raises(EnrolError, match=r"of 10\.0\.0\.2 is that of 10\.0\.0\.1 too"):
        enrol(known, "10.0.0.2", [KEY])
    assert known.read_text() == before


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The site lab-metal with its known_hosts beside it."""
    text = (site_dir("lab-metal") / "site.yaml").read_text()
    path = tmp_path / "site.yaml"
    path.write_text(text.replace("/var/lib/bringup/labs/lab-metal/known_hosts", "known_hosts"))
    (tmp_path / "assets.csv").write_text((site_dir("lab-metal") / "assets.csv").read_text())
    return path


def test_the_verb_enrols_what_a_console_shows(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console = site.with_name("console.txt")
    console.write_text(CONSOLE)
    assert cli.main(["boot", "enrol", str(site), "gpu001", str(console)]) == OK
    assert capsys.readouterr().out.startswith("gpu001: 1 host key enrolled for 10.78.1.11, SHA256:")
    assert site.with_name("known_hosts").read_text() == f"10.78.1.11 {KEY} console\n"


@pytest.mark.parametrize(
    ("server", "text", "says"),
    [
        ("gpu009", CONSOLE, "no server gpu009"),
        ("gpu001", "login:\n", "shows no host key"),
        ("gpu001", CONSOLE.replace(KEY, OTHER), "is no host key of type ssh-ed25519"),
        ("gpu001", CONSOLE.replace("END SSH", "cut"), "shows no host key"),
    ],
)
def test_what_is_no_console_of_a_planned_server_enrols_nothing(
    site: Path, capsys: pytest.CaptureFixture[str], server: str, text: str, says: str
) -> None:
    console = site.with_name("console.txt")
    console.write_text(text)
    assert cli.main(["boot", "enrol", str(site), server, str(console)]) == CANNOT
    assert says in capsys.readouterr().err
    assert not site.with_name("known_hosts").exists()
