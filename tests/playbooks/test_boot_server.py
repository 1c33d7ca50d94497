"""The boot server: images to anybody, seeds to the server that holds the lease, once; reports kept."""

import http.client
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.playbooks.support import load

pytestmark = pytest.mark.clock


module: Any = load("roles/boot_server/files/boot_server.py")
MINE, OTHER = "02-5e-00-00-00-01", "02-5e-00-00-00-02"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "http"
    for name in ("images/gpu/1/root.img", f"seed/{MINE}/user-data", f"seed/{OTHER}/user-data", f"plan/{MINE}.env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (tmp_path / "secret").write_text("not served")
    lease(tmp_path, MINE)
    return tmp_path


def lease(folder: Path, mac: str, until: float | None = None) -> None:
    end = int(until if until is not None else time.time() + 3600)
    (folder / "leases").write_text(f"{end} {mac.replace('-', ':')} 127.0.0.1 gpu001 *\n")


@pytest.fixture
def server(folder: Path) -> Iterator[httpx.Client]:
    with running(folder) as client:
        yield client


class running:
    """A server on a free port for as long as the block lasts."""

    def __init__(self, folder: Path) -> None:
        self.served = module.BootServer(("127.0.0.1", 0), folder / "http", folder / "leases", folder / "reports")
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.served.server_address[1]}", timeout=10)

    def __enter__(self) -> httpx.Client:
        threading.Thread(target=self.served.serve_forever, daemon=True).start()
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.served.shutdown()
        self.served.server_close()


def test_images_go_to_anybody(folder, server):
    (folder / "leases").write_text("")
    assert server.get("/images/gpu/1/root.img").text == "images/gpu/1/root.img"


def test_a_seed_goes_to_the_server_that_holds_the_lease(server):
    assert server.get(f"/seed/{MINE}/user-data").status_code == 200
    assert server.get(f"/plan/{MINE}.env").status_code == 200


def test_a_seed_of_another_server_is_refused(server):
    refused = server.get(f"/seed/{OTHER}/user-data")
    assert refused.status_code == 403
    assert refused.text == f"127.0.0.1 is leased to {MINE}: not yours\n"


def test_without_a_lease_there_is_no_seed(folder, server):
    lease(folder, MINE, until=1)
    assert server.get(f"/seed/{MINE}/user-data").status_code == 403
    (folder / "leases").unlink()
    assert server.get(f"/seed/{MINE}/user-data").status_code == 403


def test_a_seed_is_gone_once_its_server_is_written_until_it_has_another_content(folder, server):
    seed = folder / "http" / "seed" / MINE
    (seed / "meta-data").write_text("instance-id: a\n")
    assert server.post(f"/report/{MINE}", content="written abc").status_code == 200
    assert server.get(f"/seed/{MINE}/user-data").status_code == 410
    assert server.get(f"/plan/{MINE}.env").status_code == 200
    os.utime(seed / "user-data", (time.time() + 10, time.time() + 10))
    assert server.get(f"/seed/{MINE}/user-data").status_code == 410, "the same content, later"
    (seed / "meta-data").write_text("instance-id: b\n")
    assert server.get(f"/seed/{MINE}/user-data").status_code == 200


def test_a_seed_that_was_used_before_the_last_one_stays_used(folder, server):
    meta = folder / "http" / "seed" / MINE / "meta-data"
    for text in "ab":
        meta.write_text(text)
        assert server.get(f"/seed/{MINE}/meta-data").status_code == 200
        server.post(f"/report/{MINE}", content="written abc")
    for text in "ab":
        meta.write_text(text)
        assert server.get(f"/seed/{MINE}/meta-data").status_code == 410


def test_a_seed_that_came_while_its_server_was_written_with_an_earlier_one_is_not_used(folder, server):
    meta = folder / "http" / "seed" / MINE / "meta-data"
    meta.write_text("a")
    assert server.get(f"/seed/{MINE}/meta-data").text == "a"
    meta.write_text("b")
    server.post(f"/report/{MINE}", content="written abc")
    assert server.get(f"/seed/{MINE}/meta-data").text == "b"
    meta.write_text("a")
    assert server.get(f"/seed/{MINE}/meta-data").status_code == 410


def test_a_file_that_is_just_being_put_in_place_is_no_part_of_a_seed(folder, server):
    server.post(f"/report/{MINE}", content="written abc")
    (folder / "http" / "seed" / MINE / ".bringup-x").write_text("half")
    assert server.get(f"/seed/{MINE}/user-data").status_code == 410


def test_a_server_whose_writing_broke_off_gets_its_seed_again(server):
    server.get(f"/seed/{MINE}/user-data")
    server.post(f"/report/{MINE}", content="image-broken root: end of file")
    assert server.get(f"/seed/{MINE}/user-data").status_code == 200


def test_a_used_seed_stays_used_when_the_boot_server_starts_again(folder):
    with running(folder) as client:
        client.post(f"/report/{MINE}", content="written abc")
    with running(folder) as client:
        assert client.get(f"/seed/{MINE}/user-data").status_code == 410


def test_reports_are_kept_as_lines_with_mac_state_and_text(folder, server):
    server.post(f"/report/{MINE}", content="wrong-disk no drive with serial number S1\nx")
    (line,) = (folder / "reports").read_text().splitlines()
    said = json.loads(line)
    assert (said["mac"], said["state"], said["text"]) == (MINE, "wrong-disk", "no drive with serial number S1 x")


def test_nobody_reports_for_another_server(folder, server):
    assert server.post(f"/report/{OTHER}", content="written abc").status_code == 403
    assert not (folder / "reports").exists()


@pytest.mark.parametrize("content", ["", "Written x", "x" * 5000])
def test_what_is_no_report_is_refused(folder, server, content):
    assert server.post(f"/report/{MINE}", content=content).status_code == 400
    assert not (folder / "reports").exists()


@pytest.mark.parametrize("path", ["/", "/../secret", "/images/../../secret", "/.hidden", "/images", "/nothing"])
def test_nothing_outside_the_folder_and_no_folder_is_served(server, path):
    raw = http.client.HTTPConnection(server.base_url.host, server.base_url.port or 80, timeout=10)
    raw.request("GET", path)  # as it is written: other clients take `..` out
    assert raw.getresponse().status == 404
    raw.close()


def test_a_link_out_of_the_folder_is_not_followed(folder, server):
    (folder / "http/images/link").symlink_to(folder / "secret")
    assert server.get("/images/link").status_code == 404


def test_a_report_that_a_power_cut_left_half_is_passed_over_and_the_next_one_stands_on_its_own_line(folder, capsys):
    with running(folder) as client:
        client.post(f"/report/{MINE}", content="written abc")
    with (folder / "reports").open("a") as reports:
        reports.write('{"time": 17')
    with running(folder) as client:
        assert client.get(f"/seed/{MINE}/user-data").status_code == 410
        assert client.post(f"/report/{MINE}", content="started image gpu 1").status_code == 200
    assert "line 2 is no report and is passed over" in capsys.readouterr().out
    assert json.loads((folder / "reports").read_text().splitlines()[2])["state"] == "started"
