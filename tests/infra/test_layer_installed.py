"""Inputs of `bringup:nodes:Installed` as they follow from plan, asset list and built images."""

from pathlib import Path

import pytest

from capacity.build import build
from capacity.services.boot.waves import order, racks_at_once
from infra.layers.installed import rack_images, servers_of
from infra.layers.nodes import rack_servers
from inventory.delivered.assets import load_assets
from inventory.site.whatif import changed
from tests.capacity.services.boot.cases import IMAGE, image
from tests.plans import plan_of


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "gpu"
    folder.mkdir()
    (folder / "image.json").write_text(IMAGE)
    for part in image().parts.values():
        (folder / part.file).write_bytes(b"x" * 1000)
    return tmp_path


def test_each_delivered_server_is_to_run_the_image_of_its_role_on_its_drives(images: Path) -> None:
    plan = plan_of("lab-metal")
    racks, nothing = rack_images(plan, load_assets(plan.site), "lab-metal", images)
    assert nothing == {}
    servers = {name: server for rack in racks.values() for name, server in rack["servers"].items()}
    assert list(servers) == ["gpu001", "gpu002"]
    assert servers["gpu001"]["drives"] == ["SIM-DR-1001A", "SIM-DR-1001B"]
    assert (servers["gpu001"]["image"], servers["gpu001"]["sha256"]) == ("0123456789ab", "0" * 64)
    assert (servers["gpu001"]["mac"], servers["gpu001"]["node"]) == ("52:54:00:78:00:01", "10.78.1.11")
    assert {rack["place"][0] for rack in racks.values()} == {1}


def test_servers_that_get_an_image_are_switched_on_by_their_installation_alone(images: Path) -> None:
    """With power and empty drives they would write themselves before their turn."""
    plan = plan_of("lab-metal")
    assets = load_assets(plan.site)
    installed = servers_of(rack_images(plan, assets, "lab-metal", images)[0])
    racks = rack_servers(plan, plan.catalog, assets, "lab-metal", installed)
    powered = {name: server.get("power") for rack in racks.values() for name, server in rack["servers"].items()}
    assert {name for name, power in powered.items() if power is None} == installed == {"gpu001", "gpu002"}
    assert {power for name, power in powered.items() if name not in installed} == {"On"}


@pytest.mark.parametrize(
    ("settings", "installed"),
    [
        ([], ["gpu002"]),
        (["provisioning.installed_by=pulumi", "provisioning.media=http://10.78.0.9/images"], ["gpu001", "gpu002"]),
    ],
    ids=["network", "media"],
)
def test_the_boot_server_is_left_out_where_servers_start_from_the_network(
    images: Path, settings: list[str], installed: list[str]
) -> None:
    plan = build(changed("lab-metal", ["provisioning.server=10.78.1.11", *settings]))
    racks, _ = rack_images(plan, load_assets(plan.site), "lab-metal", images)
    assert [name for rack in racks.values() for name in rack["servers"]] == installed


def test_without_an_image_servers_are_named_with_what_to_build(tmp_path: Path) -> None:
    plan = plan_of("lab-metal")
    racks, nothing = rack_images(plan, load_assets(plan.site), "lab-metal", tmp_path)
    assert racks == {}
    assert nothing["gpu001"] == "no image of role gpu: bringup image build gpu"


def test_racks_at_once_follow_from_the_link_and_their_order_from_the_waves() -> None:
    plan = plan_of("lab-metal")
    # Half of 3,600 s at 1 Gb/s is 225 GB: 22 servers of 10 GB each. A rack has up to three servers.
    assert racks_at_once(plan, 10_000_000_000) == 22 // 3
    assert racks_at_once(plan, 10**15) == 1
    assert sorted(order(plan).values()) == [(1, number) for number in range(len(plan.racks))]
