"""How many servers fit."""

import pytest

from capacity.build import build
from capacity.sizes import complete
from capacity.whatif import maximise as module
from capacity.whatif.maximise import _largest, maximise
from inventory.site.whatif import Base


@pytest.mark.parametrize("most", [0, 1, 3, 7, 8, 50, 100])
@pytest.mark.parametrize("start", [1, 4, 8, 100])
def test_bisection_finds_the_largest_number_that_fits(most: int, start: int) -> None:
    assert _largest(lambda number: number <= most, start, 100) == most


def test_one_server_more_than_fit_has_the_error_that_is_named() -> None:
    base = Base.read("lab")
    found = maximise(base, ["rack.servers=2"])
    assert found.servers > 0
    assert found.gpus == found.servers * 8
    fits = build(complete(base.changed(["rack.servers=2", f"server.count={found.servers}"])))
    assert not [f for f in fits.findings if f.severity == "error"]
    more = build(complete(base.changed(["rack.servers=2", f"server.count={found.servers + 1}"])))
    assert found.limited_by in {f.id for f in more.findings if f.severity == "error"}
    assert found.plans < 20


def test_free_sizes_follow_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERVERS", 34)
    base = Base.read("b200-256-roce")
    fixed = maximise(base, ["oob.switches=1", "server.count=2"])
    free = maximise(base, ["oob.switches=1", "server.count=2"], free=("oob.switches",))
    assert fixed.limited_by == "OOB-PORTS"
    assert free.servers > fixed.servers
    assert any(setting.startswith("oob.switches=") for setting in free.freed)
