"""Storage facts of a node: parsing, and commands that never come back."""

import json
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import pytest

from capacity.storage.load import Shared
from network.drivers.errors import DeviceTimeout
from network.drivers.ssh import Completed, SshHost
from tests.findings import names
from validation.facts import storage
from validation.facts import storage_facts as facts
from validation.facts.storage_acts import STORAGE_WRITE
from validation.storage import of_client

pytestmark = pytest.mark.clock

MOUNTINFO = """22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a
97 22 0:61 / /shared rw,relatime - fuse.glusterfs sto01:/shared rw,user_id=0,allow_other
"""
DETAIL = """<cliOutput><opRet>0</opRet><volStatus><volumes><volume><node><hostname>sto01</hostname><path>/srv/data/b</path>
<status>{status}</status><sizeTotal>100</sizeTotal><sizeFree>40</sizeFree><inodesTotal>N/A</inodesTotal><fsName>ext4
</fsName></node></volume></volumes></volStatus></cliOutput>""".replace("\n", "")
CLIENTS = """<cliOutput><opRet>0</opRet><client><hostname>172.16.0.7:49149</hostname></client><client>
<hostname>172.16.0.7:49150</hostname></client></cliOutput>"""


def test_a_mount_is_read_from_the_kernel_and_not_touched():
    assert facts.mounted("/shared", MOUNTINFO) == {
        "source": "sto01:/shared",
        "type": "fuse.glusterfs",
        "options": ["allow_other", "relatime", "rw", "user_id=0"],
    }
    assert facts.mounted("/other", MOUNTINFO) == {}


@pytest.mark.parametrize(
    ("where", "unit"),
    [
        ("/shared", "shared.mount"),
        ("/mnt/ai", "mnt-ai.mount"),
        ("/mnt/ai-data", "mnt-ai\\x2ddata.mount"),
        ("/mnt/ai-data/", "mnt-ai\\x2ddata.mount"),
    ],
)
def test_a_mount_unit_is_named_as_systemd_escapes_its_path(where, unit):
    assert facts.mount_unit(where) == unit
    if escape := shutil.which("systemd-escape"):
        argv = [escape, "--path", "--suffix=mount", where]
        assert subprocess.run(argv, capture_output=True, text=True, timeout=10, check=True).stdout.strip() == unit


def test_the_unit_of_a_missing_mount_can_be_copied_into_a_shell():
    wanted = Shared("glusterfs", "sto01:/ai", "/mnt/ai-data", servers=("sto01",), volume="ai")
    (found,) = of_client(wanted, "gpu001", {"mount": {}})
    assert found.id == "STORAGE-UNMOUNTED"
    assert names(found, "/mnt/ai-data")
    (way,) = found.remedies
    assert "`systemctl status 'mnt-ai\\x2ddata.mount'`" in way.text


def test_of_two_mounts_the_upper_one_counts():
    over = MOUNTINFO + "98 97 0:62 / /shared ro - tmpfs none ro\n"
    assert facts.mounted("/shared", over)["type"] == "tmpfs"


def test_a_call_that_never_returns_costs_its_budget():
    began = time.monotonic()
    with pytest.raises(facts.NoAnswerError, match=r"no answer within 0\.3 s"):
        facts.run(sys.executable, "-c", "import time; time.sleep(30)", budget_s=0.3)
    assert time.monotonic() - began < 20


def test_what_a_command_says_is_the_error():
    with pytest.raises(facts.NoAnswerError, match="No such file or directory"):
        facts.run(sys.executable, "-c", facts.STATVFS, "/nonexistent/folder", budget_s=10)
    with pytest.raises(facts.NoAnswerError, match="no-such-command is not installed"):
        facts.run("no-such-command", budget_s=1)


def test_usage_of_a_folder_that_is_there(tmp_path):
    found = facts.usage(str(tmp_path), 10)
    assert found["total_b"] >= found["free_b"] > 0


def test_bricks_with_missing_numbers_are_still_bricks():
    (brick,) = facts.bricks_of(ET.fromstring(DETAIL.format(status=0)))
    assert (brick["name"], brick["online"], brick["inodes"]) == ("sto01:/srv/data/b", False, 0)


def test_clients_are_counted_once():
    assert facts.clients_of(ET.fromstring(CLIENTS)) == ["172.16.0.7"]


@pytest.mark.parametrize(
    "answer", ["garbage", "", "<cliOutput><opRet>-1</opRet><opErrstr>locked</opErrstr></cliOutput>"]
)
def test_a_gluster_that_does_not_answer_well_is_an_error(tmp_path, monkeypatch, answer):
    gluster = tmp_path / "gluster"
    gluster.write_text(f"#!/bin/sh\necho '{answer}'\n")
    gluster.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(facts.NoAnswerError, match="gluster volume info"):
        facts.ask("volume", "info", budget_s=10)


class Host(SshHost):
    """A node that answers the same to everything, or not at all."""

    def __init__(self, out=None):
        self.name, self.out = "gpu001", out

    def run(self, command, *, stdin=b"", **rest):
        if self.out is None:
            raise DeviceTimeout("gpu001", "run python3", "an answer in 30 s", "none", "look at the node")
        return Completed(0, self.out, "", 0.1)


@pytest.mark.parametrize("out", ["", "{", "[]", "{}", "null"])
def test_garbage_of_a_node_is_its_error(out):
    host = Host(out)
    assert storage.ask(host, {})["error"].startswith("gpu001: storage facts: ")


def test_a_node_that_does_not_answer_is_its_error():
    host = Host()
    assert "expected an answer in 30 s" in storage.ask(host, {})["error"]


def write(folder, rank, clients, budget_s=20):
    request = {"folder": str(folder), "rank": rank, "clients": clients, "size_b": 3 * 1024**2 + 5, "budget_s": budget_s}
    return subprocess.Popen(
        [sys.executable, str(STORAGE_WRITE), json.dumps(request)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_clients_write_at_once_to_files_of_their_own_and_to_one(tmp_path):
    (tmp_path / "run").mkdir()
    both = [write(tmp_path / "run", rank, 2) for rank in (0, 1)]
    times = [json.loads(one.communicate(timeout=60)[0]) for one in both]
    for phase in ("own", "shared"):
        assert max(one[phase]["began"] for one in times) < max(one[phase]["ended"] for one in times)
    size_b = 3 * 1024**2 + 5
    assert [(tmp_path / "run" / name).stat().st_size for name in ("file-0", "file-1", "file")] == [
        size_b,
        size_b,
        2 * size_b,
    ]


def test_a_client_does_not_wait_for_ever_for_the_others(tmp_path):
    (tmp_path / "run").mkdir()
    out, err = (one := write(tmp_path / "run", 0, 2, budget_s=0.5)).communicate(timeout=60)
    assert (out, one.returncode) == ("", 1)
    assert "1 of 2 clients came within 0.5 s" in err
