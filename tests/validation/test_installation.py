"""What the record of servers that were installed over the network proves (S019, S032, S142), and what it does not."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

from capacity.model import Plan
from capacity.services import boot
from capacity.services.boot.record import Installed
from inventory.delivered.assets import load_assets
from tests.capacity.services.boot.cases import IMAGE, image
from tests.plans import plan_of
from validation import assembly
from validation.check import Outcome
from validation.checks import test_installation as checks
from validation.checks import test_nodes as nodes
from validation.evidence.mode import classify
from validation.facts import Facts
from validation.second_reading import SecondReadings

SERVER = "gpu001"
ROOT = "0" * 64
HEALTHY = Path(__file__).parent / "data" / "healthy.json"


@pytest.fixture
def plan() -> Plan:
    return plan_of("lab-metal")


@pytest.fixture
def booting(plan: Plan) -> boot.Intents:
    return boot.intents(plan, load_assets(plan.site))


@pytest.fixture
def record(plan: Plan, booting: boot.Intents) -> Installed:
    """gpu001 as it was installed with the image of the tests."""
    return Installed(
        server=SERVER,
        role="gpu",
        mac=str(booting.hosts.set_index("device").at[SERVER, "mac"]),
        uuid=str(load_assets(plan.site).at[SERVER, "uuid"]),
        maker="SIMULATED (bringup lab)",
        firmware="bios",
        version="0123456789ab",
        sha256=ROOT,
        drives=tuple(booting.layouts[SERVER].serials),
        running=f"gpu 0123456789ab {ROOT}",
        writings=2,
        alike=2,
        written_s=163.5,
        login_s=390.0,
    )


def applied(plan: Plan, booting: boot.Intents, record: Installed | None, images: Any = None) -> Outcome:
    built = {"gpu": image()} if images is None else images
    installed = {} if record is None else {record.server: record}
    return checks.test_server_was_installed_over_the_network_and_read_back(SERVER, plan, built, booting, installed)


def test_an_installed_server_passes_with_its_times_as_simulated(plan: Plan, booting: boot.Intents, record: Installed):
    outcome = applied(plan, booting, record)
    assert outcome.passed
    value = cast(dict[str, Any], outcome.value)
    assert value["read_back"] == {"sha256": ROOT, "drives": ["SIM-DR-1001A", "SIM-DR-1001B"]}
    assert (value["writings"], value["power_on_to_login_s"]) == (2, 390.0)
    assert value["written_alike"] == {"server": SERVER, "times": 2}
    assert outcome.limit is not None
    assert outcome.limit.value == ROOT
    assert classify(outcome.identities) == "simulated"


def test_one_server_of_the_image_that_was_written_twice_alike_shows_it_for_the_others(
    plan: Plan, booting: boot.Intents, record: Installed
):
    def judged(other: Installed) -> Outcome:
        once = {SERVER: replace(record, writings=1, alike=1), other.server: other}
        return checks.test_server_was_installed_over_the_network_and_read_back(
            SERVER, plan, {"gpu": image()}, booting, once
        )

    second = replace(record, server="gpu002")
    assert judged(second).passed
    for other in (replace(second, writings=3, alike=1), replace(second, sha256="f" * 64)):
        outcome = judged(other)
        assert not outcome.passed
        assert outcome.detail.startswith("nobody has seen that installing again gives the same: write one gpu server")


def test_a_server_without_a_record_is_not_judged(plan: Plan, booting: boot.Intents):
    with pytest.raises(pytest.skip.Exception, match="no record says that gpu001 was installed"):
        applied(plan, booting, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": "f" * 64}, "ffffffffffff was read back"),
        ({"drives": ("SIM-DR-1001A",)}, "nothing was read back from SIM-DR-1001B"),
        ({"running": "gpu ffff 00"}, "the node runs gpu ffff 00"),
    ],
)
def test_a_server_with_something_else_fails(
    plan: Plan, booting: boot.Intents, record: Installed, change: dict[str, Any], said: str
):
    outcome = applied(plan, booting, replace(record, **change))
    assert not outcome.passed
    assert said in outcome.detail


def test_a_record_proves_nothing_without_the_image_that_was_built(plan: Plan, booting: boot.Intents, record: Installed):
    outcome = applied(plan, booting, record, images={})
    assert not outcome.passed
    assert "no image of role gpu is built" in outcome.detail


def test_an_image_of_another_role_fails(plan: Plan, booting: boot.Intents, record: Installed):
    other = replace(record, role="storage", running=f"storage 0123456789ab {ROOT}")
    outcome = applied(plan, booting, other, images={"storage": image("storage")})
    assert outcome.detail == "the image of role storage was written, planned is gpu"


def generated(plan: Plan, booting: boot.Intents, images: Any) -> Outcome:
    return checks.test_network_boot_is_generated_for_every_delivered_server(
        "lab-metal", plan.site, plan, images, booting
    )


def test_what_delivered_servers_boot_with_is_generated_the_same_each_time(plan: Plan, booting: boot.Intents):
    first, second = (generated(plan, booting, {"gpu": image()}) for _ in range(2))
    assert first.passed
    assert cast(dict[str, Any], first.value)["servers"] == 2
    assert (first.value, first.raw) == (second.value, second.raw)


def test_a_delivered_server_that_gets_nothing_is_named_with_the_reason(plan: Plan, booting: boot.Intents):
    outcome = generated(plan, booting, {})
    assert not outcome.passed
    assert "gpu001 gets nothing: no image of role gpu: bringup image build gpu" in outcome.detail
    assert "mgm01" not in outcome.detail, "it is planned and not delivered"


def test_a_site_whose_asset_list_has_no_boot_ports_is_not_judged(plan: Plan):
    nobody = boot.intents(plan, pd.DataFrame(columns=["mgmt_mac", "serial"], dtype=str))
    with pytest.raises(pytest.skip.Exception, match=r"assets\.csv names no MAC"):
        generated(plan, nobody, {"gpu": image()})


def test_built_images_are_found_by_role(tmp_path: Path):
    (tmp_path / "images" / "gpu").mkdir(parents=True)
    (tmp_path / "images" / "gpu" / "image.json").write_text(IMAGE)
    assert checks.built(tmp_path) == {"gpu": image()}


def mirrored(firmware: str, entries: list[dict[str, Any]], *, tried: bool) -> list[str]:
    loaders = {"EFI/BOOT/BOOTX64.EFI": "a" * 64}
    members = [{"partition": f"nvme{n}n1p3", "disk": f"nvme{n}n1", "state": "in_sync"} for n in range(2)]
    parts = [{"name": f"nvme{n}n1p2", "disk": f"nvme{n}n1", "uuid": f"u{n}", "loaders": loaders} for n in range(2)]
    array = {"name": "md127", "level": "raid1", "state": "active", "disks": 2, "degraded": 0, "members": members}
    machine = {"arrays": [array], "boot": {"firmware": firmware, "partitions": parts, "entries": entries}}
    model = plan_of("lab-metal").catalog.device("nvidia-dgx-h100")
    return list(assembly.mirror_faults(machine, model, tried=tried))


@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_a_server_seen_to_start_from_each_drive_needs_no_boot_entries(firmware: str):
    assert mirrored(firmware, [], tried=False) != []
    assert mirrored(firmware, [], tried=True) == []


def test_the_base_system_is_the_image_that_was_read_back(record: Installed):
    facts = Facts.read(HEALTHY)
    answer = facts.nodes[SERVER]
    ours = replace(answer, data={**answer.data, "image": f"gpu 0123456789ab {ROOT}"})

    def judged(node: Any) -> Outcome:
        told = replace(facts, nodes={**facts.nodes, SERVER: node})
        return nodes.test_base_system_has_pinned_versions(
            SERVER, plan_of("lab"), told, SecondReadings(""), {SERVER: record}
        )

    assert judged(ours).passed
    assert "image 0123456789ab as read back" in judged(ours).detail
    other = replace(answer, data={**answer.data, "image": f"gpu ffff {ROOT}"})
    assert "runs image gpu ffff, installed was gpu 0123456789ab" in judged(other).detail
    assert "runs image of no name, installed was gpu 0123456789ab" in judged(answer).detail
