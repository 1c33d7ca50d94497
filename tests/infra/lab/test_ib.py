"""The lab's InfiniBand fabric: what the simulator is told, and a fabric in factory state."""

import os
import socket
import subprocess
from typing import Any

import pytest

from capacity.build import build
from infra import lab
from infra.lab import ib, net
from infra.lab.ib_faults import IB_FAULTS, cable_of
from infra.lab.paths import LabError, LabPaths
from infra.lab.planned import from_plan
from infra.lab.spec import LabSpec
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.site import load_site


@pytest.fixture(scope="module")
def spec():
    site = load_site("lab")
    return from_plan(site, build(site), load_assets(site), load_catalog())


@pytest.fixture
def told(monkeypatch):
    commands = []
    monkeypatch.setattr(ib, "tell", lambda spec, *lines: commands.extend(lines))
    return commands


def test_the_spec_survives_json(spec):
    assert LabSpec.from_json(spec.to_json()) == spec


def test_every_compute_switch_and_adapter_is_simulated(spec):
    text = ib.net_file(spec)
    assert text.count("\nSwitch 9 ") + text.startswith("Switch") == 12
    assert text.count("Ca 1 ") == len(spec.adapters) == 34


def test_both_ends_list_each_cable_at_hdr(spec):
    lines = [line for line in ib.net_file(spec).splitlines() if line.startswith("[")]
    assert len(lines) == 2 * len(spec.ib_cables)
    assert all(line.endswith("4xHDR") for line in lines)


def test_an_adapters_port_has_the_guid_of_the_asset_list(spec):
    """ibsim numbers an adapter's ports from its node GUID."""
    adapter = next(a for a in spec.adapters if (a.device, a.port) == ("gpu002", "ib3"))
    assert f"caguid=0x{int(adapter.guid, 16) - 1:016x}" in ib.net_file(spec)


def test_the_simulator_has_an_address_that_no_node_has(spec):
    assert spec.ib_address not in {server.address for server in spec.servers} | {spec.provisioning.host}


def test_light_returns_only_to_cables_whose_other_end_has_power(spec, told):
    ib.power(spec, "ibl001", True, dark={"gpu001", "ibs002", "gpu009"})
    assert told[0] == 'ReLink "ibl001"'
    assert 'Unlink "ibs002"' in told
    assert sum(line.startswith('Unlink "gpu001 mlx5_') for line in told) == 8


def test_a_server_without_power_has_no_light_at_any_of_its_adapters(spec, told):
    ib.power(spec, "gpu003", False, dark={"gpu003"})
    assert told == [f'Unlink "gpu003 mlx5_{number}"' for number in range(8)]


SIMULATOR, NODE = 900, 901


@pytest.fixture
def places(spec, told, monkeypatch):
    """ibsim's sockets and the node's, as {pid: {(local, remote)}}; clients() answers what ibsim counts."""
    sockets: dict[int, list[Any]] = {SIMULATOR: [], NODE: []}
    counted: list[ib.Client] = []
    monkeypatch.setattr(net, "cgroup_pids", lambda cgroup: {SIMULATOR})
    monkeypatch.setattr(ib, "_udp", lambda pid: sockets[pid])
    reaper = ib.Reaper(spec, LabPaths(spec.name))
    monkeypatch.setattr(reaper, "clients", lambda: counted)
    return reaper, sockets, counted


def client(place, udp, manages=False):
    return ib.Client(place, "mgm01", "mgm01 mlx5_0", udp, manages)


def endpoint(spec, port, device="mgm01"):
    return spec.server(device).address, port


def test_places_of_dead_clients_are_freed_and_those_of_living_ones_kept(spec, told, places):
    reaper, sockets, counted = places
    sockets[SIMULATOR] = [(("0.0.0.0", 7071 + n), endpoint(spec, 5000 + n)) for n in range(3)]
    sockets[NODE] = [(("0.0.0.0", 5001), ("0.0.0.0", 0))]
    counted += [client(0, 5000), client(1, 5001)]  # the client of place 2 left as it should
    assert reaper.reap(lambda device: NODE) == [0]
    assert told == ["X 0"]


def test_a_server_without_power_has_no_living_client(spec, told, places):
    reaper, sockets, counted = places
    sockets[SIMULATOR] = [(("0.0.0.0", 7071), endpoint(spec, 5000))]
    counted += [client(0, 5000, manages=True)]
    assert reaper.reap(lambda device: None) == [0]


def test_the_place_of_a_manager_whose_successor_runs_is_left(spec, told, places):
    """Freeing it would take the port's IsSM flag from the new one."""
    reaper, sockets, counted = places
    sockets[SIMULATOR] = [(("0.0.0.0", 7071 + n), endpoint(spec, 5000 + n)) for n in range(2)]
    sockets[NODE] = [(("0.0.0.0", 5001), ("0.0.0.0", 0))]
    counted += [client(0, 5000, manages=True), client(1, 5001, manages=True)]
    assert reaper.reap(lambda device: NODE) == []
    assert told == []


def test_the_simulators_answer_is_read(spec, tmp_path, monkeypatch):
    """As ibsim 0.10 prints it."""
    reaper = ib.Reaper(spec, LabPaths(spec.name))
    monkeypatch.setattr(LabPaths, "logs", property(lambda self: tmp_path))
    log = tmp_path / "ibsim.log"
    log.write_text("sim> ")
    lines = [
        'Client 0: pid 43437 connected at "ctl01 mlx5_0" port 0x2420a0003008101, lid 1, qp 0 SM',
        'Client 3: pid 44833 connected at "mgm01 mlx5_0" port 0x2420a0003008301, lid 6, qp 0 ',
    ]

    def answer(spec, *commands):
        late = "sim> # end of answer 1sim> "  # of a question whose time had ended
        log.write_text("sim> " + "\n".join([late, *lines, f"sim> {commands[-1]}sim> "]))

    monkeypatch.setattr(ib, "tell", answer)
    assert reaper.clients() == [
        ib.Client(0, "ctl01", "ctl01 mlx5_0", 43437, True),
        ib.Client(3, "mgm01", "mgm01 mlx5_0", 44833, False),
    ]


def test_an_answer_that_does_not_come_is_no_empty_list(spec, tmp_path, monkeypatch):
    reaper = ib.Reaper(spec, LabPaths(spec.name))
    monkeypatch.setattr(LabPaths, "logs", property(lambda self: tmp_path))
    monkeypatch.setattr(ib, "ANSWER_BUDGET_S", 0.05)
    monkeypatch.setattr(ib, "tell", lambda spec, *commands: None)
    (tmp_path / "ibsim.log").write_text("sim> ")
    with pytest.raises(LabError, match="named not all its clients"):
        reaper.clients()


def test_the_simulator_is_asked_once_about_a_client_that_left(spec, told, places, monkeypatch):
    reaper, sockets, _ = places
    sockets[SIMULATOR] = [(("0.0.0.0", 7071), endpoint(spec, 5000)), (("0.0.0.0", 7072), ("0.0.0.0", 0))]
    assert reaper.reap(lambda device: NODE) == []
    monkeypatch.setattr(reaper, "clients", lambda: pytest.fail("asked again"))
    assert reaper.reap(lambda device: NODE) == []


def test_sockets_are_read_as_the_kernel_writes_them():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        assert one.getsockname() in [local for local, _ in ib._udp(os.getpid())]


def test_a_swap_and_its_repair_are_mirror_images(spec, told):
    fault = IB_FAULTS["ib-cable-swap"]
    done, undo = fault.inject(spec, ["ibl003:p2", "gpu002:ib3"])
    assert done == "plugs in ibl003:p2 and ibl004:p2 swapped"
    assert told[-2:] == ['Link "gpu002 mlx5_2"[1] "ibl004"[2]', 'Link "gpu002 mlx5_3"[1] "ibl003"[2]']
    told.clear()
    fault.undo(spec, undo)
    assert told[-2:] == ['Link "gpu002 mlx5_2"[1] "ibl003"[2]', 'Link "gpu002 mlx5_3"[1] "ibl004"[2]']


def test_an_errored_link_counts_and_is_cleared(spec, told):
    _, undo = IB_FAULTS["ib-link-errors"].inject(spec, ["ibl004:p6"])
    IB_FAULTS["ib-link-errors"].undo(spec, undo)
    assert told == [f'PerformanceSet "ibl004"[6] PortCounters.SymbolErrorCounter={count}' for count in (1000, 0)]


@pytest.mark.parametrize("arguments", [["ibl003:p2"], ["ibl003:p2", "ibl003:p2"], ["leaf01:swp1", "leaf02:swp1"]])
def test_what_cannot_be_swapped_is_refused(spec, told, arguments):
    with pytest.raises(LabError):
        IB_FAULTS["ib-cable-swap"].inject(spec, arguments)
    assert told == []


def test_a_port_without_cable_is_named(spec):
    with pytest.raises(LabError, match="ibl003:p99"):
        cable_of(spec, "ibl003:p99")


def test_a_wrapper_says_when_its_tool_is_not_installed(spec, tmp_path):
    ib.seed(spec, "mgm01", tmp_path)
    tool = tmp_path / "usr/local/sbin/sminfo"
    tool.write_text(tool.read_text().replace("tool=/usr/sbin/sminfo", "tool=/nowhere/sminfo"))
    done = subprocess.run([tool], capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, done.stderr) == (127, "/nowhere/sminfo: not found\n")


def test_a_node_without_adapter_gets_no_wrappers(spec, tmp_path):
    ib.seed(spec, "sto01", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert ib.binds(spec, "sto01") == []


@pytest.mark.lab
def test_a_lab_in_factory_state_has_a_lit_fabric(running):
    state = lab.status(running.name)
    assert {view["power"] for view in state.values() if view["kind"] == "ib_switch"} == {"On"}
    assert ib.is_ready(running.paths)


@pytest.mark.lab
def test_an_infiniband_switch_that_dies_draws_no_power_and_comes_back(running):
    lab.fault(running.name, "ib-switch-dead", ["ibs003"])
    dead = running.view("ibs003")
    lab.repair(running.name)
    assert (dead["power"], dead["watts"]) == ("Off", 0)
    assert running.view("ibs003")["power"] == "On"
