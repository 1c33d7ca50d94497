"""Faults of the demo in what is served: other content under a name, altered images, seeds that wait; and another DHCP server."""

import email
import re
import subprocess
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from infra.metal import faults
from infra.metal.machines import Drive
from infra.metal.run import Heard
from infra.metal.segment import LOADERS, Network, Segment

ADDRESS = "10.78.1.11"


def test_other_content_is_served_for_as_long_as_the_block_lasts_and_other_links_keep_theirs(tmp_path: Path) -> None:
    file, link = tmp_path / "root.img.zst", tmp_path / "built"
    file.write_bytes(b"whole")
    link.hardlink_to(file)
    with faults.replaced(file, b"other"):
        assert (file.read_bytes(), link.read_bytes()) == (b"other", b"whole")
    assert file.read_bytes() == b"whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built", "root.img.zst"]


@pytest.mark.needs("zstd")
def test_an_altered_image_unpacks_and_differs_in_one_byte(tmp_path: Path) -> None:
    content = bytes(range(256)) * 8192
    file = tmp_path / "root.img.zst"
    file.write_bytes(subprocess.run(["zstd", "-qc"], input=content, capture_output=True, check=True).stdout)
    said = subprocess.run(["zstd", "-dqc"], input=faults.altered(file), capture_output=True, check=True).stdout
    assert len(said) == 1 << 20
    assert sum(one != other for one, other in zip(said, content, strict=False)) == 1


def test_a_small_drive_has_the_serial_number_of_the_planned_one_and_leaves_its_file(tmp_path: Path) -> None:
    (tmp_path / "s1.raw").write_bytes(b"content")
    made = faults.small(Drive("S1", tmp_path / "s1.raw"))
    assert made.serial == "S1"
    assert made.file.stat().st_size == faults.SMALL_MIB << 20
    assert made.ensure().file.stat().st_size == faults.SMALL_MIB << 20
    assert (tmp_path / "s1.raw").read_bytes() == b"content"


def test_a_waiting_seed_keeps_the_cloud_config_and_asks_for_the_page(tmp_path: Path) -> None:
    seed = tmp_path / "user-data"
    seed.write_text("#cloud-config\nhostname: gpu001\n")
    with faults.waiting_seed(tmp_path, seed, "10.78.1.1") as page:
        config, script = cast(list[Message], email.message_from_bytes(seed.read_bytes()).get_payload())
        assert config.get_content_type() == "text/cloud-config"
        assert cast(bytes, config.get_payload(decode=True)).decode() == "#cloud-config\nhostname: gpu001\n"
        assert script.get_content_type() == "text/x-shellscript"
        assert f"http://10.78.1.1/{faults.PAGE}" in cast(bytes, script.get_payload(decode=True)).decode()
        assert not page.exists()
    assert page.exists(), "a system that was seeded with it ends its start later too"
    assert seed.read_text() == "#cloud-config\nhostname: gpu001\n"


def test_only_what_the_node_itself_asks_for_in_vain_is_counted() -> None:
    log = f'{ADDRESS} "GET /{faults.PAGE} HTTP/1.1" 404 -\n'
    log += f'10.78.1.12 "GET /{faults.PAGE} HTTP/1.1" 404 -\n{ADDRESS} "GET /{faults.PAGE} HTTP/1.1" 200 -\n'
    segment = cast(Segment, SimpleNamespace(log_of_http=lambda: log))
    assert faults.waits(segment, ADDRESS, 0) == 1
    assert faults.waits(segment, ADDRESS, 30) == 0


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    """A segment of its own with dnsmasq, that answers nobody."""
    if not all(path.exists() for path in LOADERS.values()):
        pytest.skip("needs ipxe: infra/setup/metal.sh")
    (tmp_path / "http").mkdir()
    (tmp_path / "dnsmasq.conf").write_text(
        "port=0\nno-ping\ninterface=br0\nbind-interfaces\ndhcp-range=10.78.1.0,static\ndhcp-ignore=tag:!known\n"
    )
    with Segment(Network("bringup-t-metal-faults", "10.78.1.1/24", ()), tmp_path, tmp_path / "state") as made:
        yield made


@pytest.mark.lab
@pytest.mark.needs("dnsmasq", "root")
def test_another_dhcp_server_is_named_on_the_segment_and_gone_after(segment: Segment) -> None:
    assert Heard(segment).others() == ""
    with faults.another_dhcp(segment):
        said = Heard(segment).others()
    assert re.fullmatch(rf"DHCP is answered by {faults.ROGUE_ADDRESS} \([0-9a-f:]{{17}}\) as well", said)
    assert Heard(segment).others() == ""
