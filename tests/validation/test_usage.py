"""GPU-hours by account and user: what is asked of Prometheus, and what is made of its answers."""

import dataclasses
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.platform.sharing import profiles
from inventory.site.sections.sharing import GpuSharing
from network.drivers.answers import Source
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import with_request
from tests.plans import plan_of
from validation.facts.shapes import Queried
from validation.facts.telemetry import FACTS
from validation.facts.usage import AT_ONCE, HOUR_S, OBSERVED, USED, Part, over, parts, results, used
from validation.usage import Gap, Row, Usage, by_account, by_user, usage

GPU = "nvidia.com/gpu"
DAY = 24 * HOUR_S
SOURCE = Source("mgmt01", "ask Prometheus for GPU time")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


def part(gpu_h: Mapping[tuple[str, str, str], float], observed: tuple[float, ...] = (1.0, 1.0), since: int = 0) -> Part:
    """gpu_h: GPU-hours; observed: share of each hour."""
    ends = {since + HOUR_S * (at + 1): share * HOUR_S for at, share in enumerate(observed)}
    return Part(since, since + HOUR_S * len(observed), {key: hours * HOUR_S for key, hours in gpu_h.items()}, ends)


# ---- what is asked -----------------------------------------------------------------------------------------------------
def test_time_is_asked_in_parts_of_whole_hours_that_leave_nothing_out() -> None:
    assert parts(0, 2 * DAY + 60, 15) == [(0, DAY), (DAY, 2 * DAY), (2 * DAY, 2 * DAY + 60)]
    assert parts(0, 2 * HOUR_S, 1) == [(0, HOUR_S), (HOUR_S, 2 * HOUR_S)], "few samples in one question"
    assert parts(7, 8, 300) == [(7, 8)]


def test_a_long_time_takes_several_logins_and_each_part_is_asked_once() -> None:
    asked: list[Mapping[str, Any]] = []

    def ask(request: Mapping[str, Any]) -> Queried:
        asked.append(request)
        return {"queries": {name: [] for name in request["queries"]}, "ranges": {}}

    days = AT_ONCE + 2
    found = used(ask, 0, days * DAY, 15)
    assert [(one.since, one.until) for one in found] == [(at * DAY, (at + 1) * DAY) for at in range(days)]
    assert [len(one["queries"]) for one in asked] == [AT_ONCE, 2]
    assert asked[1]["queries"]["used 1"] == {"query": over(USED, DAY), "time": days * DAY}
    assert sum(seconds for one in found for seconds in one.observed.values()) == 0


def test_a_query_that_failed_is_an_error_with_prometheus_own_words() -> None:
    said = {"facts": {"queries": {}, "ranges": {}}, "errors": {"query used 0": "RuntimeError: too many samples"}}
    with pytest.raises(BadAnswer, match="used 0: RuntimeError: too many samples"):
        results(said, SOURCE)


@pytest.mark.parametrize(
    "said",
    [[], {}, {"errors": {}}, {"errors": {}, "facts": {"queries": {"a": [{"labels": {}, "value": "1"}]}, "ranges": {}}}],
)
def test_what_is_no_answer_is_refused(said: Any) -> None:
    with pytest.raises(DeviceError):
        results(said, SOURCE)


# ---- a real Prometheus -------------------------------------------------------------------------------------------------
SAMPLES_FROM = 1_790_000_400
"""A whole hour."""
INTERVAL_S = 15


def series(name: str, labels: str, value: float, spans: list[tuple[int, int]]) -> list[str]:
    """A series with a sample at the end of each interval of some times, seconds from SAMPLES_FROM; as lines of OpenMetrics."""
    at = [at for begin, end in spans for at in range(begin + INTERVAL_S, end + 1, INTERVAL_S)]
    return [f"{name}{{{labels}}} {value} {SAMPLES_FROM + one}" for one in at]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Prometheus that has recorded three hours: 8 GPUs of alice in the first and 15 minutes more, and nothing in the
    second half of the second hour.
    """
    folder = tmp_path_factory.mktemp("prometheus")
    up = [(0, 5400), (7200, 10_800)]
    lines = [
        *series(USED, f'account="vision",user="alice",resource="{GPU}"', 8 * INTERVAL_S, [(0, 4500)]),
        *series(OBSERVED, "", INTERVAL_S, up),
        "# EOF",
    ]
    (folder / "samples").write_text("\n".join(lines) + "\n")
    making = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "samples", "data"]
    subprocess.run(making, cwd=folder, check=True, capture_output=True, timeout=60)
    (folder / "prometheus.yml").write_text("{}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = shutil.which("prometheus")
    assert program is not None
    flags = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y"]
    with (folder / "log").open("w") as log:
        started = subprocess.Popen(
            [program, *flags, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _ready(url, started, folder / "log")
        yield url
    finally:
        started.terminate()
        started.wait(30)


def _ready(url: str, started: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert started.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


@pytest.mark.needs("prometheus", "promtool")
def test_hours_of_a_real_prometheus_are_exact_and_what_it_missed_is_named(prometheus: str, plan: Plan) -> None:
    def ask(request: Mapping[str, Any]) -> Queried:
        text = with_request(FACTS, {"prometheus": prometheus, "parts": [], "queries": {}, **request})
        done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, timeout=60, check=True)
        return results(json.loads(done.stdout), SOURCE)

    whole = used(ask, SAMPLES_FROM, SAMPLES_FROM + 3 * HOUR_S, INTERVAL_S)
    found = usage(plan, [whole])
    assert found.rows == (Row("vision", "alice", 10.0),)
    assert found.observed_h == 2.5
    assert found.gaps == (Gap(SAMPLES_FROM + HOUR_S, SAMPLES_FROM + 2 * HOUR_S, 0.5),)
    cut = usage(plan, [used(ask, SAMPLES_FROM + 600, SAMPLES_FROM + 5400, INTERVAL_S)])
    assert [round(row.gpu_hours, 9) for row in cut.rows] == [round(8 * (4500 - 600) / HOUR_S, 9)]
    assert round(cut.observed_h, 9) == round(4800 / HOUR_S, 9)
    assert cut.gaps == ()
    split = [
        one for at in (0, 1, 2) for one in used(ask, SAMPLES_FROM + at * HOUR_S, SAMPLES_FROM + (at + 1) * HOUR_S, 1)
    ]
    assert usage(plan, [split]).rows == found.rows, "no sample counts twice"


# ---- what is made of it --------------------------------------------------------------------------------------------------
def test_hours_are_by_account_and_user_and_those_of_nobody_apart(plan: Plan) -> None:
    found = usage(
        plan,
        [
            [
                part({("vision", "alice", GPU): 3, ("services", "serving", GPU): 8, ("vision", "", GPU): 1}),
                part(
                    {("vision", "alice", GPU): 1, ("vision", "bob", GPU): 5, ("bringup-loads", "", GPU): 4}, since=7200
                ),
            ]
        ],
    )
    assert found.rows == (Row("services", "serving", 8), Row("vision", "bob", 5), Row("vision", "alice", 4))
    assert [(row.account, row.gpu_hours, row.why.partition(":")[0]) for row in found.unattributed] == [
        ("bringup-loads", 4, "loads of acceptance"),
        ("vision", 1, "no user"),
    ]
    assert (found.observed_h, found.capacity_h) == (4, 4 * 32)
    assert found.share_pct(8) == pytest.approx(100 * 8 / 128)


def test_an_account_has_its_own_hours_and_those_of_accounts_below_it(plan: Plan) -> None:
    found = usage(plan, [[part({("vision", "alice", GPU): 3, ("research", "bob", GPU): 2, ("vision", "", GPU): 1})]])
    assert [(row.account, row.gpu_hours, found.with_below(row.account)) for row in by_account(found)] == [
        ("research", 2, 6),
        ("vision", 4, 4),
    ]
    assert found.parents["vision"] == "research"
    assert found.parents["research"] == ""


def test_a_user_has_the_hours_of_all_accounts(plan: Plan) -> None:
    found = usage(
        plan, [[part({("vision", "alice", GPU): 3, ("research", "alice", GPU): 2, ("research", "bob", GPU): 9})]]
    )
    assert by_user(found) == [Row("", "bob", 9), Row("", "alice", 5)]


def test_a_part_of_a_gpu_is_that_share_of_it_and_what_the_plan_has_not_is_in_no_sum(plan: Plan) -> None:
    shared = (GpuSharing(servers=("gpu004",), time_slices=4),)
    sharing = dataclasses.replace(plan, site=plan.site.model_copy(update={"gpu_sharing": shared}))
    (profile,) = profiles(sharing)
    amounts = {("vision", "alice", profile.resource): 4.0, ("vision", "alice", "nvidia.com/mig-1g.10gb"): 7.0}
    found = usage(sharing, [[part(amounts)]])
    assert found.rows == (Row("vision", "alice", 1),)
    assert found.other == {"nvidia.com/mig-1g.10gb": 7}


def test_of_two_servers_each_part_is_of_the_one_with_more_samples(plan: Plan) -> None:
    key = ("vision", "alice", GPU)
    away = [part({key: 1}, (0.5, 0.0)), part({key: 2}, since=7200)]
    other = [part({key: 4}, (1.0, 1.0)), part({key: 1}, (1.0, 0.2), since=7200)]
    found = usage(plan, [away, other])
    assert found.rows == (Row("vision", "alice", 6),)
    assert found.gaps == ()


def test_hours_without_samples_are_named_together_where_they_follow_each_other(plan: Plan) -> None:
    found = usage(plan, [[part({}, (1.0, 0.5, 0.0)), part({}, (0.0, 0.96, 0.94), since=3 * HOUR_S)]])
    assert [(gap.since // HOUR_S, gap.until // HOUR_S, round(gap.hours, 2)) for gap in found.gaps] == [
        (1, 4, 2.5),
        (5, 6, 0.06),
    ]


def test_without_any_sample_nothing_is_a_share(plan: Plan) -> None:
    found: Usage = usage(plan, [[part({}, (0.0,))]])
    assert (found.observed_h, found.share_pct(1)) == (0, 0)
