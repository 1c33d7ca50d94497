"""The site of the bench of bare metal, and what it makes of the times of servers."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import metal
from bench.metal import Arrival, Run, arrival, shown, site_of_four, summed_up, with_more
from capacity.build import build
from capacity.services import boot
from capacity.services.boot.life import Life
from infra.metal import demo
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.site import load_site

ALONE = Run([Arrival("gpu001", "BIOS", 60.0, 90.0)], 45.0, (0.5, 2.0))
FOUR = Run(
    [
        Arrival(f"gpu{number:03d}", "BIOS", 100.0, ssh_s)
        for number, ssh_s in enumerate((300.0, 330.0, 390.0, 360.0), start=1)
    ],
    50.0,
    (0.5, 8.0),
)


def test_the_planner_takes_the_demos_site_with_four_servers_each_of_which_can_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path / "labs"))
    site = load_site(site_of_four(tmp_path))
    assets = load_assets(site)
    plan = build(site, what_ifs=False, assets=assets)
    assert [finding.message for finding in plan.findings if finding.severity == "error"] == []
    found = boot.intents(plan, assets)
    assert [host["device"] for host in found.servers()] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    drives = [serial for layout in found.layouts.values() for serial in layout.serials]
    assert len({*drives}) == len(drives) == 8
    assert plan.gpus["device"].value_counts().to_dict() == dict.fromkeys(found.layouts, 8)
    assert str(tmp_path / "labs" / "bench-metal" / "pki" / "bmc.pem") == str(site.credentials.bmc.ca)
    assert "labs/lab-metal" not in site.path.read_text()


def test_lists_of_as_many_servers_stay_as_they_are() -> None:
    site = load_site(demo.SITE)
    assets, gpus = load_assets(site), load_gpus(site)
    same_assets, same_gpus = with_more(assets, gpus, 2)
    assert same_assets.equals(assets)
    assert same_gpus.equals(gpus)


def test_times_count_from_the_power_on_of_each_server() -> None:
    times = {"on": 1000.0, "written": 1150.5, "login": 1301.0, "bare": 80.0}
    assert arrival("gpu002", "UEFI", times) == Arrival("gpu002", "UEFI", 150.5, 301.0)


def test_ratios_are_to_the_start_from_the_drives() -> None:
    assert shown(ALONE) == [["gpu001", "BIOS", "60", "90", "2.0"]]


def test_a_run_of_several_says_spread_and_ratio_to_one_alone() -> None:
    said = summed_up(FOUR, ALONE)
    assert "SSH: median 345 s, 90 s between the first and the last" in said
    assert "SSH: 3.8 times as long as one alone" in said
    assert not any("median" in line for line in summed_up(ALONE, None))


def test_a_server_that_does_not_arrive_ends_the_bench_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Life("gpu003", step="image", stopped="timed-out", text="image took longer than 1800 s")
    bringing: Any = SimpleNamespace(lives={"gpu003": late}, bring=lambda names, say: {"gpu003": late})
    said: Any = SimpleNamespace(say=print)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    assert demo.ended(said, lambda: int(demo.from_nothing(said, bringing, {}, ["gpu003"], short=True))) == 1
    assert "gpu003 stands at image: timed-out image took longer than 1800 s" in capsys.readouterr().out


def test_a_machine_that_lacks_something_is_told_and_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metal, "site_of_four", lambda folder: tmp_path)
    monkeypatch.setattr(metal, "Demo", lambda site, images: SimpleNamespace(paths=None, out=tmp_path))
    monkeypatch.setattr(metal, "missing", lambda paths, folder, servers: [f"no memory for {servers}"])
    monkeypatch.setattr(demo, "ended", lambda *given: pytest.fail("begun"))
    assert metal.main(["--at-once", "2"]) == 0
    assert capsys.readouterr().out == "servers from nothing: NOT RUN\nno memory for 2\n"
