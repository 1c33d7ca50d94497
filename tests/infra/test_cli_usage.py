"""`bringup usage`: which time is asked, what is printed, and what somebody does where there is nothing."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from infra.cli import main
from network.drivers.errors import BadAnswer
from validation.facts import usage
from validation.facts.shapes import Queried
from validation.facts.usage import AskPrometheus

GPU = "nvidia.com/gpu"
DAY = ("--since", "2026-11-02", "--until", "2026-11-03")


def rows(**hours: float) -> list[Any]:
    """Samples of account__user=GPU-hours."""
    found = []
    for name, value in hours.items():
        account, _, user = name.partition("__")
        labels = {"account": account.replace("_", "-"), "resource": GPU, **({"user": user} if user else {})}
        found.append({"labels": labels, "value": 3600 * value})
    return found


def answering(asked: list[Mapping[str, Any]], missed: int = 0, error: str = "", **hours: float) -> AskPrometheus:
    """A Prometheus that has recorded GPU-hours in the first part of the time, and samples of all hours but the first `missed`."""

    def ask(request: Mapping[str, Any]) -> Queried:
        asked.append(request)
        if error:
            raise BadAnswer("mgmt01", "ask Prometheus for GPU time", "an answer", error, usage.NEXT_STEP)
        ranges: Any = {}
        first = min(one["start"] for one in request["ranges"].values()) + 3600 * missed
        for name, one in request["ranges"].items():
            ends = [end for end in range(one["start"], one["end"] + 1, 3600) if end >= first]
            ranges[name] = [{"labels": {}, "values": [(end, 3600.0) for end in ends]}] if ends else []
        queries = {name: rows(**hours) if name == "used 0" else [] for name in request["queries"]}
        return {"queries": queries, "ranges": ranges}

    return ask


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Mapping[str, Any]]]:
    """Lets the site's only Prometheus answer so; its requests."""
    asked: list[Mapping[str, Any]] = []

    def let(**answer: Any) -> list[Mapping[str, Any]]:
        only = answering(asked, **answer)
        monkeypatch.setattr(usage, "over_ssh", lambda plan: {"mgmt01": only})
        return asked

    return let


def cells(text: str) -> list[list[str]]:
    """The table's rows, as words."""
    return [line.split() for line in text.splitlines()]


def test_a_table_has_hours_by_account_and_user_and_shares(answers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers(vision__alice=76.8, services__serving=7.68, vision=2, bringup_loads=3)
    assert main(["usage", "lab-kubernetes", *DAY]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "lab-kubernetes, 2026-11-02 00:00 to 2026-11-03 00:00 UTC: 32 GPUs, samples of 24.0 of 24.0 h"
    )
    assert "in which they could give 768.0 GPU-hours" in said
    assert ["services", "serving", "7.68", "1.00"] in cells(said)
    assert ["vision", "alice", "76.80", "10.00"] in cells(said)
    assert (
        "unattributed: 5.00 GPU-hours\n  bringup-loads: 3.00 GPU-hours, loads of acceptance\n  vision: 2.00 GPU-hours"
        in said
    )
    assert "no sample" not in said


def test_hours_without_a_sample_are_named_and_no_capacity(answers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers(missed=12, vision__alice=38.4)
    assert main(["usage", "lab-kubernetes", *DAY]) == 0
    said = capsys.readouterr().out
    assert "samples of 12.0 of 24.0 h" in said
    assert ["vision", "alice", "38.40", "10.00"] in cells(said)
    assert "no sample: 12.0 h\n  2026-11-02 00:00 to 2026-11-02 12:00: 12.0 h\n" in said


def test_by_account_has_those_below_it_and_by_user_all_accounts(
    answers: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(vision__alice=6, research__alice=2, research__bob=1)
    assert main(["usage", "lab-kubernetes", *DAY, "--by", "account"]) == 0
    assert ["research", "3.00", "9.00", "0.39"] in cells(capsys.readouterr().out)
    assert main(["usage", "lab-kubernetes", *DAY, "--by", "user"]) == 0
    assert ["alice", "8.00", "1.04"] in cells(capsys.readouterr().out)


def test_json_has_it_all(answers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers(missed=1, vision__alice=6, bringup_loads=3)
    assert main(["usage", "lab-kubernetes", *DAY, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["site"], said["gpus"], said["observed_h"], said["capacity_gpu_hours"]) == (
        "lab-kubernetes",
        32,
        23,
        736,
    )
    assert said["rows"] == [
        {"account": "vision", "parent": "research", "user": "alice", "gpu_hours": 6, "share_pct": 0.8152}
    ]
    assert said["unattributed"] == [
        {"account": "bringup-loads", "user": "", "gpu_hours": 3, "why": "loads of acceptance"}
    ]
    begin, end = "2026-11-02T00:00:00+00:00", "2026-11-02T01:00:00+00:00"
    assert said["without_sample"] == [{"since": begin, "until": end, "hours": 1}]


def test_the_last_days_end_now_at_a_whole_minute(answers: Any) -> None:
    asked = answers(vision__alice=1)
    assert main(["usage", "lab-kubernetes", "--days", "0.5"]) == 0
    ends = [one["time"] for request in asked for name, one in request["queries"].items() if name.startswith("used")]
    begins = [one["start"] - 3600 for request in asked for one in request["ranges"].values()]
    assert max(ends) - min(begins) == 43_200
    assert max(ends) % 60 == 0


def test_a_name_of_a_user_is_no_markup(answers: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    answers(**{"vision__[red]x[/]": 1})
    assert main(["usage", "lab-kubernetes", *DAY]) == 0
    assert "[red]x[/]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--days", "0"), "--days 0: more than 0 and at most 400"),
        (("--days", "401"), "--days 401: more than 0 and at most 400"),
        (("--days", "1", "--since", "2026-11-02"), "--days and --since are two ways to say the same"),
        (("--since", "yesterday"), "--since yesterday: expected a time such as 2026-11-01"),
        (("--since", "2026-11-03", "--until", "2026-11-02"), "has to begin before it ends, in the past"),
        (("--since", "2026-11-03", "--until", "2999-01-01"), "has to begin before it ends, in the past"),
        (("--since", "2020-01-01", "--until", "2026-01-01"), "2192 days: ask for 400 at most"),
    ],
)
def test_a_time_that_is_none_is_refused(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "lab-kubernetes", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_site_of_slurm_is_told_what_to_ask_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "lab", *DAY]) == 2
    said = capsys.readouterr().err
    assert (
        "sreport cluster AccountUtilizationByUser -T gres/gpu -t Hours start=2026-11-02T00:00 end=2026-11-03T00:00"
        in said
    )


def test_a_time_without_any_sample_says_where_to_look(answers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers(missed=24)
    assert main(["usage", "lab-kubernetes", *DAY]) == 2
    said = capsys.readouterr().err
    assert re.search(r"no sample from 2026-11-02 00:00 to 2026-11-03 00:00 UTC. Prometheus keeps \d+ days", said)
    assert "systemctl status bringup-kubernetes-metrics" in said


def test_a_prometheus_that_does_not_answer_is_named(answers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers(error="connection refused")
    assert main(["usage", "lab-kubernetes", *DAY]) == 2
    assert "mgmt01" in (said := capsys.readouterr().err)
    assert "connection refused" in said
    assert "systemctl status prometheus" in said


def test_a_second_server_is_enough_and_the_silent_one_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = answering([], error="connection refused"), answering([], vision__alice=6)
    monkeypatch.setattr(usage, "over_ssh", lambda plan: {"mgmt01": bad, "mgmt02": good})
    assert main(["usage", "lab-kubernetes", *DAY]) == 0
    said = capsys.readouterr().out
    assert ["vision", "alice", "6.00", "0.78"] in cells(said)
    assert "left out: mgmt01" in said
    assert main(["usage", "lab-kubernetes", *DAY, "--json"]) == 0
    (why,) = json.loads(capsys.readouterr().out)["left_out"]
    assert "connection refused" in why
