"""The verb boot: what it writes for a site whose boot ports and drives were delivered, and what it refuses."""

import csv
from pathlib import Path

import pytest

from infra import cli
from infra.boot.built import IMAGES
from infra.cli.common import CANNOT, OK
from inventory.delivered.assets import COLUMNS
from inventory.site.new import Wanted, site_text
from tests.capacity.services.boot.cases import IMAGE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own with a site of eight servers, two of them delivered, and an image for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    (tmp_path / "site.yaml").write_text(site_text(Wanted("hall", gpu="h100", fabric="ib", servers=8)))
    deliver(tmp_path, {"gpu001": "02:5e:00:00:00:01", "gpu002": "02:5e:00:00:00:02"})
    image = tmp_path / "var" / "hall" / IMAGES / "gpu" / "image.json"
    image.parent.mkdir(parents=True)
    image.write_text(IMAGE)
    return tmp_path


def deliver(folder: Path, macs: dict[str, str]) -> None:
    with (folder / "assets.csv").open("w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for server, mac in macs.items():
            rows.writerow([f"{server}:eth0", "maker", f"NIC-{server}", "", mac, ""])
            rows.writerows([[f"{server}:boot{n}", "maker", f"DISK-{server}-{n}", "", "", ""] for n in (0, 1)])


def scripts(folder: Path) -> set[str]:
    return {path.name for path in (folder / "var/hall/boot/http/by-mac").iterdir()}


def test_delivered_servers_get_a_script_and_the_others_are_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["boot", "render", "site.yaml"]) == OK
    said = capsys.readouterr().out
    assert said.startswith("2 of ")
    assert "gpu003,MAC of eth0 is not known: add the line gpu003:eth0 to assets.csv" in said
    assert scripts(here) == {"02-5e-00-00-00-01.ipxe", "02-5e-00-00-00-02.ipxe"}


def test_a_server_that_is_gone_finds_no_script_of_an_earlier_rendering(here: Path) -> None:
    assert cli.main(["boot", "render", "site.yaml"]) == OK
    deliver(here, {"gpu002": "02:5e:00:00:00:02"})
    assert cli.main(["boot", "render", "site.yaml"]) == OK
    assert scripts(here) == {"02-5e-00-00-00-02.ipxe"}


def test_two_servers_with_one_mac_leave_the_earlier_rendering_as_it_is(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["boot", "render", "site.yaml"]) == OK
    deliver(here, {"gpu001": "02:5e:00:00:00:01", "gpu002": "02:5e:00:00:00:01"})
    assert cli.main(["boot", "render", "site.yaml"]) == CANNOT
    assert "mgmt_mac 02:5e:00:00:00:01 is already in line 2" in capsys.readouterr().err
    assert len(scripts(here)) == 2


def test_a_broken_description_of_an_image_is_named_with_its_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "var/hall/images/gpu/image.json").write_text("{}")
    assert cli.main(["boot", "render", "site.yaml"]) == CANNOT
    assert "images/gpu/image.json: not the description of an image" in capsys.readouterr().err


def test_a_consent_goes_to_the_plan_of_its_server_and_to_no_other(here: Path) -> None:
    content = "ab" * 32
    assert cli.main(["boot", "render", "site.yaml", "--overwrite", f"gpu001:DISK-gpu001-0:{content}"]) == OK
    plans = here / "var/hall/boot/http/plan"
    assert f"CONSENTS='DISK-gpu001-0={content}'\n" in (plans / "02-5e-00-00-00-01.env").read_text()
    assert "CONSENTS=''\n" in (plans / "02-5e-00-00-00-02.env").read_text()


def test_a_consent_that_names_no_planned_drive_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["boot", "render", "site.yaml", "--overwrite", "gpu001:OTHER:" + "ab" * 32]) == CANNOT
    assert "OTHER is no boot drive of gpu001" in capsys.readouterr().err
    assert not (here / "var/hall/boot").exists()


def test_times_are_told_for_the_image_that_was_built(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("root.img.zst", "esp.img", "core.img", "boot.img", "vmlinuz", "deploy.initrd"):
        (here / "var/hall/images/gpu" / name).write_bytes(bytes(1_000_000))
    assert cli.main(["boot", "times", "site.yaml"]) == OK
    said = capsys.readouterr().out
    assert "8 servers fetch 6 MB each" in said
    assert "Caches near the racks to send within 1 h: 0." in said


def test_without_an_image_the_verb_that_builds_one_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "var/hall/images/gpu/image.json").unlink()
    assert cli.main(["boot", "times", "site.yaml"]) == CANNOT
    assert "bringup image build gpu --site site.yaml" in capsys.readouterr().err
