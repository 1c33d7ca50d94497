"""How long imaging takes: over the boot server's link, rack by rack, within the waves of energisation."""

import dataclasses

import pandas as pd
import pytest

from capacity.services.boot.waves import POWER_ON_S, WRITE_BYTES_S, figures, imaging
from inventory.site.sections.provisioning import Provisioning
from tests.plans import plan_of

SENT, WRITTEN = 150_000_000, 600_000_000
OWN_S = POWER_ON_S + 2 * WRITTEN / WRITE_BYTES_S


def linked(name: str, gbps: float):
    plan = plan_of(name)
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"provisioning": Provisioning(link_gbps=gbps)}))


def test_every_gpu_server_is_in_one_rack_of_the_table():
    plan = linked("lab", 1)
    assert imaging(plan, SENT, WRITTEN)["servers"].sum() == plan.site.server.count


def test_the_link_sends_to_one_rack_after_the_other():
    table = imaging(linked("lab", 1), SENT, WRITTEN)
    seconds = SENT * 8 / 1e9
    assert table["sent_s"].tolist() == pytest.approx([2 * seconds, 4 * seconds])
    assert table["ready_s"].tolist() == pytest.approx([2 * seconds + OWN_S, 4 * seconds + OWN_S])


def test_a_rack_of_a_later_wave_starts_when_the_earlier_wave_is_ready():
    plan = linked("lab", 1)
    racks = plan.placements.set_index("device")["rack"]
    first, second = racks["gpu001"], racks["gpu003"]
    ends = [first, second]
    waves = pd.DataFrame({"wave": [1, 2], "first_rack": ends, "last_rack": ends, "energised_kw": [30.0, 60.0]})
    table = imaging(dataclasses.replace(plan, waves=waves), SENT, WRITTEN)
    assert table[["wave", "energised_kw"]].to_numpy().tolist() == [[1, 30.0], [2, 60.0]]
    assert table.at[1, "start_s"] == pytest.approx(table.at[0, "ready_s"])


def test_figures_of_a_site_follow_from_its_link():
    slow, fast = (figures(linked("lab", gbps), SENT, WRITTEN) for gbps in (0.001, 10))
    assert slow["sent_tb"] == fast["sent_tb"] == pytest.approx(4 * SENT / 1e12)
    assert slow["sending_h"] == pytest.approx(4 * SENT * 8 / 1e6 / 3600)
    assert (slow["caches"], fast["caches"]) == (1, 0)
    assert slow["multicast_tb"] == pytest.approx(2 * SENT / 1e12)
