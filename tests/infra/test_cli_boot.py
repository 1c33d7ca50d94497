"""The verb boot: what it writes for a site whose boot ports and drives were delivered, and what it refuses."""

import csv
import importlib
from pathlib import Path

import httpx
import pytest

from infra import cli
from infra.boot import image, iso
from infra.boot.built import IMAGES
from infra.cli.common import CANNOT, OK
from infra.install.media import INSERT_S
from inventory.delivered.assets import COLUMNS
from inventory.site.new import Wanted, site_text
from tests.capacity.services.boot.cases import IMAGE
from tests.playbooks.support import load
from tests.playbooks.test_boot_server import MINE, lease, running


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own with a site of eight servers, two of them delivered, and an image for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    (tmp_path / "site.yaml").write_text(site_text(Wanted("hall", gpu="h100", fabric="ib", servers=8)))
    deliver(tmp_path, {"gpu001": "02:5e:00:00:00:01", "gpu002": "02:5e:00:00:00:02"})
    described = tmp_path / "var" / "hall" / IMAGES / "gpu" / "image.json"
    described.parent.mkdir(parents=True)
    described.write_text(IMAGE)
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


A, B = "ab" * 32, "cd" * 32


def test_a_server_that_is_written_again_by_consent_gets_a_seed_and_gets_it_once(here: Path) -> None:
    """Rendered, put in place by the role's module, served, written; and again, with the state that the boot server keeps."""
    lease(here, MINE)
    module, lookup = load("library/bringup_tree.py"), load("lookup_plugins/bringup_tree.py")
    files = ("meta-data", "user-data", "network-config")

    def rendered(*arguments: str) -> None:
        assert cli.main(["boot", "render", "site.yaml", *arguments]) == OK
        tree = module.Tree(str(here / "http"), 0o644, 0o755, check=False, diff=False)
        tree.apply(module.files_of(lookup.archive(here / "var/hall/boot/http")), ["by-mac", "plan", "seed"])

    def written(client: httpx.Client) -> list[int]:
        answers = [client.get(f"/seed/{MINE}/{file}").status_code for file in files]
        assert client.post(f"/report/{MINE}", content="written hash read back from DISK-gpu001-0").status_code == 200
        return answers

    rendered()
    with running(here) as client:
        assert written(client) == [200, 200, 200]
    rendered()
    with running(here) as client:
        assert written(client) == [410, 410, 410], "nobody consented to write it once more"
        for content in (A, B):
            rendered(*(f"--overwrite=gpu001:DISK-gpu001-{n}:{content}" for n in (0, 1)))
            assert written(client) == [200, 200, 200]
            assert written(client) == [410, 410, 410]
    rendered(*(f"--overwrite=gpu001:DISK-gpu001-{n}:{A}" for n in (0, 1)))
    with running(here) as client:
        assert written(client) == [410, 410, 410], "a consent that was used"


def consents_in(here: Path) -> dict[str, str]:
    """By MAC what the rendered plan says of consents."""
    plans = (here / "var/hall/boot/http/plan").glob("*.env")
    lines = {path.stem: path.read_text().splitlines() for path in plans}
    return {mac: next(line for line in text if line.startswith("CONSENTS=")) for mac, text in lines.items()}


def test_consents_of_earlier_calls_stay_and_are_shown_until_they_are_withdrawn(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given in (f"gpu001:DISK-gpu001-0:{A}", f"gpu001:DISK-gpu001-1:{B}", f"gpu002:DISK-gpu002-0:{A}"):
        assert cli.main(["boot", "render", "site.yaml", "--overwrite", given]) == OK
    first, second = "02-5e-00-00-00-01", "02-5e-00-00-00-02"
    both = {first: f"CONSENTS='DISK-gpu001-0={A} DISK-gpu001-1={B}'", second: f"CONSENTS='DISK-gpu002-0={A}'"}
    assert consents_in(here) == both
    capsys.readouterr()
    assert cli.main(["boot", "render", "site.yaml"]) == OK
    assert consents_in(here) == both
    assert f"gpu001: DISK-gpu001-1 may be overwritten while it holds {B} (--withdraw gpu001:DISK-gpu001-1)" in (
        capsys.readouterr().out
    )
    assert cli.main(["boot", "render", "site.yaml", "--withdraw", "gpu001:DISK-gpu001-0", "--withdraw", "gpu002"]) == OK
    assert consents_in(here) == {first: f"CONSENTS='DISK-gpu001-1={B}'", second: "CONSENTS=''"}
    assert cli.main(["boot", "render", "site.yaml", "--overwrite", f"gpu001:DISK-gpu001-1:{A}"]) == OK
    assert consents_in(here)[first] == f"CONSENTS='DISK-gpu001-1={A}'", "a newer content of the same drive"


def test_a_plan_of_an_earlier_rendering_that_cannot_be_read_is_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["boot", "render", "site.yaml"]) == OK
    plan = here / "var/hall/boot/http/plan/02-5e-00-00-00-01.env"
    plan.write_text("half")
    assert cli.main(["boot", "render", "site.yaml"]) == CANNOT
    assert f"{plan}: line 1 is no assignment" in " ".join(capsys.readouterr().err.split())
    plan.unlink()
    assert cli.main(["boot", "render", "site.yaml"]) == OK


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


URL = "http://10.77.0.9:8000/gpu.iso"


class CdBmc:
    """A BMC of a server that is off; it notes what it is asked to do."""

    name = serial = uuid = ""
    budget_s = 5.0

    def __init__(self) -> None:
        self.did: list[str] = []

    def __enter__(self) -> "CdBmc":
        return self

    def __exit__(self, *_: object) -> None:
        self.did.append("log out")

    def state(self) -> dict[str, str]:
        return {"power": "Off"}

    def insert_media(self, image: str) -> bool:
        self.did.append(f"insert {image}")
        return True

    def eject_media(self) -> bool:
        self.did.append("eject")
        return True

    def set_boot(self, target: str, enabled: str = "Once") -> None:
        self.did.append(f"boot {target} {enabled}")

    def power(self, reset: str, wait: bool = True) -> bool:
        self.did.append(reset)
        return True


@pytest.fixture
def cd_bmc(here: Path, monkeypatch: pytest.MonkeyPatch) -> CdBmc:
    bmc = CdBmc()
    module = importlib.import_module("validation.facts.gather")  # the package has a function of that name
    monkeypatch.setattr(module, "bmc_factory", lambda plan, assets: lambda name: bmc)
    return bmc


def test_a_server_is_started_once_from_a_cd_and_its_cd_is_taken_out(
    cd_bmc: CdBmc, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["boot", "media", "site.yaml", "gpu001", URL]) == OK
    assert cd_bmc.did == ["eject", f"insert {URL}", "boot Cd Once", "On", "log out"]
    assert "bringup boot enrol site.yaml gpu001 FILE" in capsys.readouterr().out
    assert cd_bmc.budget_s == INSERT_S
    assert cli.main(["boot", "media", "site.yaml", "gpu001", "--eject"]) == OK
    assert cd_bmc.did[-2:] == ["eject", "log out"]


def test_a_server_that_is_not_planned_is_named_and_no_bmc_is_asked(
    cd_bmc: CdBmc, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["boot", "media", "site.yaml", "gpu999", URL]) == CANNOT
    assert "no server gpu999" in capsys.readouterr().err
    assert cd_bmc.did == []


def test_a_cd_is_made_of_an_image_of_the_same_recipe_with_the_consent(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: dict[str, str] = {}
    monkeypatch.setattr(image, "is_current", lambda of, folder: True)
    monkeypatch.setattr(iso, "write", lambda folder, of, found, name, console: made.update(found) or "ab12")
    consent = f"gpu001:DISK-gpu001-0:{'cd' * 32}"
    assert cli.main(["image", "build", "gpu", "--site", "site.yaml", "--iso", "--overwrite", consent]) == OK
    assert "gpu.iso: image 0123456789ab for 2 servers, SHA-256 ab12" in capsys.readouterr().out
    assert f"CONSENTS='DISK-gpu001-0={'cd' * 32}'" in made["plan/02-5e-00-00-00-01.env"]


def test_a_consent_without_a_cd_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["image", "build", "gpu", "--site", "site.yaml", "--overwrite", "x"]) == CANNOT
    assert "--overwrite belongs to --iso" in capsys.readouterr().err
