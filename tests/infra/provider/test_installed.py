"""`bringup:nodes:Installed`: a rack with a simulated server: create, preview, refresh, delete."""

from pathlib import Path
from typing import Any

import pytest

from infra.install.boot_server import parse_offers
from infra.install.cds import Cds
from infra.install.turns import NotBegunError
from infra.provider.fleet import Reach
from infra.provider.installed import Installed, OverNetwork
from infra.provider.ledger import PowerLedger
from infra.provider.resource import RefusedError
from network.drivers.errors import BadAnswer, compare_identity
from tests.capacity.services.boot.test_starting import RENDERED
from tests.infra.install.simulated import DELIVERED, TARGET, Boot, Clock, Machine

INPUTS: dict[str, Any] = {
    "rack": "r01",
    "place": [1, 0],
    "at_once": 2,
    "servers": {
        "gpu001": {
            "address": "192.0.2.61",
            "node": "192.0.2.11",
            "serial": "SER1",
            "uuid": "uuid-1",
            "model": "lab-gpu-node",
            "role": "gpu",
            "mac": DELIVERED.mac,
            "drives": ["S1", "S2"],
            "image": TARGET.version,
            "sha256": TARGET.sha256,
            "bios": dict(DELIVERED.bios),
        }
    },
}


class Rack:
    """The resource type of one rack with one simulated server."""

    def __init__(self, sites: Any, site_file: Path, folder: Path) -> None:
        self.clock = Clock()
        self.heard = Boot(self.clock)
        self.machine = Machine(self.clock, self.heard)
        self.inputs = {"site": str(site_file), **INPUTS}
        self.kind = Installed(sites, Reach(), self, lambda site: folder, clock=self.clock, sleep=self.clock.sleep)

    def boot(self, reference: str) -> Boot:
        return self.heard

    def doors(self, reference: str, name: str, server: Any, heard: Any) -> Any:
        return self.machine.doors()


@pytest.fixture
def rack(sites, site_file, tmp_path) -> Rack:
    return Rack(sites, site_file, tmp_path / "installing")


def test_create_brings_the_rack_to_ready_and_a_refresh_finds_what_was_wanted(rack):
    applied = rack.kind.apply(rack.inputs, None)
    assert applied.failures == []
    assert applied.state["results"] == {"gpu001": "done"}
    assert applied.state["steps"] == {"gpu001": "ready"}
    assert rack.kind.read(applied.state).state == applied.state


def test_a_stop_is_named_with_its_way_out_and_the_same_command_resumes(rack):
    rack.machine.writes = ("wrong-disk", "no drive with serial number S2")
    with pytest.raises(
        RefusedError, match=r"gpu001: image: expected ready, saw wrong-disk: no drive .*; a planned boot drive"
    ):
        rack.kind.apply(rack.inputs, None)
    rack.machine.writes = None
    assert rack.kind.apply(rack.inputs, None).state["steps"] == {"gpu001": "ready"}


def test_a_preview_says_what_would_be_written_and_touches_nothing(rack):
    assert rack.kind.preview(rack.inputs, None) == [
        "gpu001: stands at inspect; would be written with gpu 0123456789ab on S1, S2, if these drives are empty"
    ]
    assert rack.machine.acts == []
    rack.kind.apply(rack.inputs, None)
    assert rack.kind.preview(rack.inputs, None) == []


def test_a_preview_says_what_is_missing_when_the_boot_server_does_not_answer(rack):
    rack.heard.silent = True
    (line,) = rack.kind.preview(rack.inputs, None)
    assert line.startswith("nothing can be installed: mgm01: read reports: ")


def test_a_refresh_finds_a_node_that_runs_another_image(rack):
    state = rack.kind.apply(rack.inputs, None).state
    rack.machine.runs = "gpu other 11"
    assert rack.kind.read(state).state["servers"]["gpu001"]["image"] == "other"


def test_an_image_that_fails_on_the_first_rack_is_not_written_to_the_next(rack):
    rack.machine.writes = ("image-altered", "root on /dev/nvme0n1p3 reads ff")
    with pytest.raises(RefusedError, match="image-altered"):
        rack.kind.apply(rack.inputs, None)
    rack.machine.acts.clear()
    with pytest.raises(RefusedError, match="rack r02: not-begun: gpu001 of rack r01 stands as image-altered"):
        rack.kind.apply({**rack.inputs, "rack": "r02", "place": [1, 1]}, None)
    assert rack.machine.acts == []


def next_rack_begins_after_a_failure(rack):
    """Whether the image has worked: then a failure on one rack stops no other."""
    turns = rack.kind._turns[rack.inputs["site"]]
    turns.failed("gpu009 of rack r09 stands as image-altered")
    try:
        with turns.turn((1, 1), 2, proven=False):
            return True
    except NotBegunError:
        return False


def test_a_server_that_started_from_the_image_under_a_key_that_nobody_enrolled_shows_that_the_image_works(rack):
    rack.machine.key_known = False
    with pytest.raises(RefusedError, match="unknown-host"):
        rack.kind.apply(rack.inputs, None)
    assert next_rack_begins_after_a_failure(rack)


def test_another_machine_at_the_address_of_a_node_says_nothing_of_the_image(rack, monkeypatch):
    monkeypatch.setattr(rack.machine, "ask", lambda: compare_identity("gpu001", {"UUID": "1"}, {"UUID": "2"}))
    with pytest.raises(RefusedError, match="unknown-host"):
        rack.kind.apply(rack.inputs, None)
    assert not next_rack_begins_after_a_failure(rack)


def test_delete_leaves_server_and_drives(rack):
    state = rack.kind.apply(rack.inputs, None).state
    rack.machine.acts.clear()
    assert rack.kind.delete(state) == []
    assert (rack.machine.acts, rack.machine.power_state) == ([], "On")


def test_check_names_what_is_empty_and_a_drive_in_two_servers(rack):
    server = INPUTS["servers"]["gpu001"]
    inputs = {**rack.inputs, "servers": {"gpu001": server, "gpu002": {**server, "mac": ""}}}
    assert [name for name, _ in rack.kind.check(inputs)] == [
        'servers["gpu002"].mac',
        'servers["gpu002"].drives',
        'servers["gpu002"].drives',
    ]


def test_the_ways_to_a_server_are_made_from_the_site(sites, site_file, tmp_path):
    made = OverNetwork(sites, lambda site: PowerLedger(tmp_path / "on"))
    doors = made.doors(str(site_file), "gpu001", INPUTS["servers"]["gpu001"], Boot(Clock()))
    assert doors.firmware is None, "the site has no bundle"
    assert not doors.ours()
    doors.mark()
    assert doors.ours()


def test_without_network_boot_the_ways_to_a_server_are_its_cd_and_what_is_on_it(
    rack, sites, site_file, tmp_path, monkeypatch
):
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    asked = "\nprovisioning: {installed_by: pulumi, media: 'http://10.77.0.9:8000/cds'}\n"
    site_file.write_text(site_file.read_text() + asked)
    made = OverNetwork(sites, lambda site: PowerLedger(tmp_path / "on"))
    heard = made.boot(str(site_file))
    assert isinstance(heard, Cds)
    doors = made.doors(str(site_file), "gpu001", INPUTS["servers"]["gpu001"], heard)
    assert doors.media == "http://10.77.0.9:8000/cds/gpu.iso"
    monkeypatch.setattr(rack, "boot", made.boot)
    (line,) = rack.kind.preview(rack.inputs, None)
    assert "expected ROLE/ROLE.iso, saw none" in line
    assert line.endswith("bringup image build ROLE --iso, and serve it under provisioning.media")


def test_offers_are_read_from_the_boot_servers_plans_and_a_broken_one_is_named():
    text = f"== 02-5e-00-00-00-01.env\n{RENDERED}"
    assert parse_offers(text, "mgm01")["02-5e-00-00-00-01"].serials == ("S1", "S2")
    with pytest.raises(
        BadAnswer, match=r"mgm01: read /srv/bringup/boot/http/plan/02-5e-00-00-00-02\.env: expected the plan"
    ):
        parse_offers(f"{text}== 02-5e-00-00-00-02.env\nDEVICE='gpu002\n", "mgm01")


def test_a_broken_record_of_a_server_is_named_by_its_file_and_nothing_is_touched(rack, tmp_path):
    (tmp_path / "installing").mkdir()
    (tmp_path / "installing" / "gpu001.json").write_text('{"server": "gpu001"')
    with pytest.raises(BadAnswer, match=r"gpu001: read .*installing/gpu001\.json: expected the record of this server"):
        rack.kind.apply(rack.inputs, None)
    assert rack.machine.acts == []
    (line,) = rack.kind.preview(rack.inputs, None)
    assert "set the file aside" in line
