"""What opens and closes reservations; tests/infra/test_reservations.py runs it against a real API server and Kueue."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from capacity.services.platform import queues
from infra.kube.certificates import CLIENT, issue
from tests.playbooks.support import load

module = load("roles/kubernetes_reservations/files/kubernetes_reservations.py")

NOON = datetime.datetime(2027, 12, 4, 12, tzinfo=datetime.UTC)
WINDOW = {module.OPENS: "20271204T120000Z", module.CLOSES: "20271204T140000Z"}


def queue(policy: str | None = None, labels: Any = None, name: str = "reservation-big") -> Any:
    spec = {"cohort": "root"} | ({"stopPolicy": policy} if policy else {})
    return {"metadata": {"name": name, "labels": labels or WINDOW}, "spec": spec}


class Api:
    """Answers in order, and keeps what was asked."""

    def __init__(self, *given: tuple[int, Any]) -> None:
        self.given = list(given)
        self.asked: list[tuple[str, str, Any]] = []

    def call(self, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        self.asked.append((verb, path, body))
        answer = self.given.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_its_words_are_those_of_the_plan() -> None:
    assert (module.OPENS, module.CLOSES, module.TIME) == (queues.OPENS, queues.CLOSES, queues.TIME)
    assert (module.OPEN, module.CLOSED) == (queues.OPEN, queues.CLOSED)
    assert f"/apis/{queues.API}/clusterqueues" == module.QUEUES


@pytest.mark.parametrize(
    ("after_h", "policy"),
    [
        (-1, "HoldAndDrain"),
        (-0.001, "HoldAndDrain"),
        (0, "None"),
        (1.999, "None"),
        (2, "HoldAndDrain"),
        (900, "HoldAndDrain"),
    ],
)
def test_a_queue_is_open_from_its_begin_to_before_its_end(after_h: float, policy: str) -> None:
    assert module.wanted(WINDOW, NOON + datetime.timedelta(hours=after_h)) == policy


@pytest.mark.parametrize(
    "labels",
    [None, {}, [], {module.OPENS: "20271204T120000Z"}, {**WINDOW, module.CLOSES: "soon"}, {**WINDOW, module.OPENS: 5}],
)
def test_a_queue_whose_window_cannot_be_read_is_closed(labels: Any) -> None:
    assert module.wanted(labels, NOON) == "HoldAndDrain"


def test_what_is_as_it_should_be_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api((200, {"items": [queue(), queue("None")]}))
    assert module.apply(api, NOON) == []
    assert [verb for verb, _, _ in api.asked] == ["GET"]
    assert capsys.readouterr().out == ""


def test_it_is_opened_in_time_and_closed_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    before = Api((200, {"items": [queue()]}), (200, {}))
    assert module.apply(before, NOON - datetime.timedelta(hours=1)) == []
    path = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/reservation-big"
    assert before.asked[1] == ("PATCH", path, {"spec": {"stopPolicy": "HoldAndDrain"}})
    inside = Api((200, {"items": [queue("HoldAndDrain")]}), (200, {}))
    assert module.apply(inside, NOON) == []
    assert inside.asked[1] == ("PATCH", path, {"spec": {"stopPolicy": "None"}})
    assert capsys.readouterr().out == "reservation-big: closed\nreservation-big: open\n"


def test_one_that_is_refused_does_not_keep_the_others_and_is_named() -> None:
    listed = {"items": [queue(), queue(name="other"), queue(name="gone")]}
    api = Api((200, listed), (403, {"message": "no"}), (200, {}), (404, {}))
    assert module.apply(api, NOON - datetime.timedelta(days=1)) == ["reservation-big: not HoldAndDrain: status 403: no"]
    assert len(api.asked) == 4
    api = Api((200, listed), module.AskError("PATCH: timed out"), (200, {}), (200, {}))
    assert module.apply(api, NOON - datetime.timedelta(days=1)) == ["PATCH: timed out"]


def test_without_kueue_there_is_nothing_to_do() -> None:
    assert module.apply(Api((404, {"message": "the server could not find the requested resource"})), NOON) == []


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"message": "forbidden"}),
        (200, []),
        (200, {"items": [{}]}),
        (200, {"items": None}),
        (200, {"items": [queue(name="../../secrets")]}),
    ],
)
def test_an_answer_that_is_no_list_of_queues_changes_nothing(answer: Any) -> None:
    api = Api(answer)
    with pytest.raises(module.AskError):
        module.apply(api, NOON - datetime.timedelta(days=1))
    assert len(api.asked) == 1


def test_an_api_server_that_is_away_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = tmp_path / "bringup-reservations.prom"
    given = ["--pki", str(tmp_path), "--metrics", str(metrics)]
    assert module.main(given) == 1
    assert metrics.read_text().endswith("bringup_reservations_round_seconds 0\n"), "there has been no good run yet"
    assert str(tmp_path) in capsys.readouterr().err
    authority = issue("ca", days=30)
    client = issue("bringup:reservations", authority=authority, usages=[CLIENT], days=30)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "reservations.pem").write_bytes(client.pem + client.key_pem)
    assert module.main([*given, "--api-port", "1"]) == 1
    assert "refused" in capsys.readouterr().err


def test_the_time_of_the_last_good_run_is_kept_while_others_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = tmp_path / "bringup-reservations.prom"
    for now, failed, kept in ((1000, [], 1000), (1010, ["refused"], 1000), (1020, [], 1020)):
        monkeypatch.setattr(module.time, "time", lambda now=now: now)
        monkeypatch.setattr(module, "Api", lambda *given: None)
        monkeypatch.setattr(module, "apply", lambda api, at, failed=failed: failed)
        assert module.main(["--metrics", str(metrics)]) == (1 if failed else 0)
        assert metrics.read_text().splitlines()[-1] == f"bringup_reservations_round_seconds {kept}"
    assert metrics.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [metrics]
