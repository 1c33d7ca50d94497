"""The program that runs on a host with a subnet manager, against tools that are shell scripts."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from network.infiniband import on_host
from tests.network.infiniband.fabrics import DATA, recorded

pytestmark = pytest.mark.clock

PROGRAM = Path(on_host.__file__)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder of tools that is all of PATH besides the system's own."""

    def tool(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool("ibnetdiscover", f"cat {DATA}/ibnetdiscover.txt")
    tool("ibqueryerrors", f"cat {DATA}/ibqueryerrors.txt")
    tool("sminfo", f"cat {DATA}/sminfo-master.txt")
    tool("ibstat", "[ \"$1\" = -p ] && echo 0x02420a0003008301 || printf '\\t\\tBase lid: 1\\n'")
    tool("systemctl", "echo inactive; exit 3")
    tool("smpquery", f'[ "$1" = nodeinfo ] && echo "# Node info: Lid $2" || cat {DATA}/smpquery-$1.txt')
    return tool


def call(verb, **request):
    done = subprocess.run(
        [sys.executable, PROGRAM, verb, json.dumps(request)], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


def test_lids_of_every_adapter_and_switch_are_found():
    adapters, switches = on_host.lids(recorded("ibnetdiscover.txt"))
    assert len(adapters) == 34
    assert len(switches) == 12
    assert adapters["02420a0003008301"] == "1"
    assert {ports for _, ports in switches.values()} == {"1 8", "1 9"}


def test_the_fabric_is_read_as_the_tools_say_it(tools, tmp_path):
    log = tmp_path / "opensm.log"
    log.write_text("osm_ucast_mgr_process: minhop tables configured\nosm_ucast_mgr_process: ftree tables configured\n")
    answer = call("fabric", budget_s=10, log=str(log))
    assert answer["engine"] == "ftree"
    assert answer["ibnetdiscover"] == recorded("ibnetdiscover.txt")
    assert len(answer["pkeys"]) == 34
    assert len(answer["lanes"]) == len(answer["arbitration"]) == 24


def test_a_tool_that_hangs_is_named_within_its_budget(tools, tmp_path):
    tools("ibnetdiscover", "sleep 30")
    assert "ibnetdiscover did not end within 0.2 s" in call("fabric", budget_s=0.2, log="")["error"]


def test_a_tool_that_fails_is_named_with_its_own_words(tools, tmp_path):
    tools("ibnetdiscover", "echo no port >&2; exit 1")
    assert call("fabric", budget_s=5, log="")["error"] == "ibnetdiscover: exit status 1: no port"


def test_a_missing_tool_is_named(tools, tmp_path, monkeypatch):
    (tmp_path / "ibnetdiscover").unlink()
    assert call("fabric", budget_s=5, log="")["error"] == "ibnetdiscover is not installed"


def test_watching_ends_when_this_host_is_master(tools):
    seen = call("watch", lids=["4", "5"], budget_s=20)
    assert (seen["master"], seen["sent"], seen["lost"]) == (True, 1, [])


def test_watching_counts_what_gets_no_answer_and_keeps_its_budget(tools):
    tools("smpquery", "exit 1")
    tools("sminfo", "echo SMINFO_STANDBY")
    seen = call("watch", lids=["4"], budget_s=1)
    assert not seen["master"]
    assert seen["sent"] == len(seen["lost"]) > 0
    assert seen["watched_s"] < 10


READ = {"paths": [], "unit": "opensm.service", "packages": ["opensm"], "log": "/nowhere"}


def elects(tools, tmp_path, until):
    """sminfo says DISCOVERING until it has been asked `until` times."""
    counted = f'echo >>{tmp_path}/asked; [ "$(wc -l <{tmp_path}/asked)" -gt {until} ]'
    tools("sminfo", f"{counted} && cat {DATA}/sminfo-master.txt || echo 'sminfo: sm lid 1 state 1 SMINFO_DISCOVERING'")
    tools(
        "systemctl",
        'case "$*" in *ActiveState*) printf "ActiveState=active\\nActiveEnterTimestampMonotonic=1\\n";; esac',
    )
    tools("dpkg-query", "true")


def test_a_manager_that_elects_is_read_when_it_has_elected(tools, tmp_path):
    elects(tools, tmp_path, 5)
    assert "SMINFO_MASTER" in call("read", election_s=20, **READ)["manager"]["own"]


def test_a_manager_that_never_elects_is_read_as_it_is(tools, tmp_path):
    elects(tools, tmp_path, 10_000)
    assert "SMINFO_DISCOVERING" in call("read", election_s=0.5, **READ)["manager"]["own"]


IBDIAGNET = """\
for last; do :; done
cp {files}/db_csv.txt $last/ibdiagnet2.db_csv
cp {files}/net_dump_ext.txt $last/ibdiagnet2.net_dump_ext
exit 1
"""
FILES = Path(__file__).parents[2] / "data" / "modelled" / "ibdiagnet"


def asked(**more):
    sections = {"AR_INFO": ["NodeGUID", "e"], "PM_INFO": ["NodeGUID", "PortNumber", "PortXmitDataExtended"]}
    return {"budget_s": 10, "options": ["--routing"], "not_before": 0.0, "sections": sections, **more}


def test_a_diagnosis_gives_the_named_columns_and_the_other_files(tools):
    tools("ibdiagnet", IBDIAGNET.format(files=FILES))
    seen = call("diagnose", **asked())
    assert seen["db_csv"].splitlines()[:4] == [
        "START_AR_INFO",
        "NodeGUID,e",
        "0x0002c90300000001,1",
        "0x0002c90300000002,0",
    ]
    assert "NodeGUID,PortNumber,PortXmitDataExtended\n0x0002c90300000001,1,0x3b9aca00\n" in seen["db_csv"]
    assert "EXTENDED_PORT_INFO" not in seen["db_csv"]
    assert (seen["net_dump_ext"], seen["sharp"]) == ((FILES / "net_dump_ext.txt").read_text(), "")
    assert (seen["sharp_am"], seen["began"] <= seen["ended"]) == ("inactive", True)


def test_a_diagnosis_starts_no_earlier_than_asked(tools):
    tools("ibdiagnet", IBDIAGNET.format(files=FILES))
    not_before = time.time() + 1
    assert call("diagnose", **asked(not_before=not_before))["began"] >= not_before


@pytest.mark.parametrize(
    ("script", "words"), [("exit 1", "wrote no ibdiagnet2.db_csv"), ("sleep 30", "did not end within 0.2 s")]
)
def test_a_diagnosis_that_writes_nothing_is_named(tools, script, words):
    tools("ibdiagnet", script)
    assert words in call("diagnose", **asked(budget_s=0.2 if "sleep" in script else 10))["error"]


def test_a_host_without_ibdiagnet_says_where_it_comes_from(tools):
    assert "ibdiagnet is not installed (package ibutils2" in call("diagnose", **asked())["error"]
