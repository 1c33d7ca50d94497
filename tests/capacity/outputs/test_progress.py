"""Progress of a half-cabled hall, by row, bundle and day."""

from capacity.outputs.documents.progress import in_words, progress
from inventory.findings import finding
from network import compare
from tests.capacity.outputs.test_work import seen
from tests.plans import plan_of

SUMS = ["as_planned", "wrong", "no_link", "not_judged"]


def half_cabled():
    """Two in-band cables of a leaf have no light, two are exchanged, four are recorded."""
    plan = plan_of("lab")
    inband = plan.cables[plan.cables["fabric"] == "inband"]
    ends = [f"{row.b_device}:{row.b_port}" for row in inband[inband["b_device"] == "leaf01"].itertuples()]
    answered = seen(plan, [(ends[0], ends[1])])
    gone = set(ends[2:4])
    far = {f"{answered[d][p]['far']}:{answered[d][p]['far_port']}" for d, p in (end.split(":") for end in gone)}
    for end in gone | {one for one in far if one.split(":")[0] in answered}:
        device, port = end.split(":")
        answered[device][port] = {**answered[device][port], "state": "down", "far": "", "far_port": ""}
    built = inband.set_index("cable_id").iloc[:4].assign(installed_on=["2027-01-04"] * 3 + ["2027-01-05"])
    return plan, compare.topology(plan.cables, answered), built, set(answered)


def test_each_cable_is_counted_once_in_each_kind() -> None:
    plan, found, built, observers = half_cabled()
    made = progress(plan, found, built, observers)
    for by in ("hall", "row", "bundle"):
        assert made.loc[made["by"] == by, "planned"].sum() == len(plan.cables), by
    assert (made[SUMS].sum(axis=1) == made["planned"]).all()
    hall = made[made["by"] == "hall"].iloc[0]
    assert (hall["wrong"], hall["no_link"], hall["recorded"]) == (2, 2, 4)
    inband = (plan.cables["fabric"] == "inband").sum()
    assert hall["as_planned"] == inband - 4
    assert f"{inband - 4:,} of {len(plan.cables):,} cables" in in_words(made)


def test_days_are_those_on_which_cables_were_recorded() -> None:
    plan, found, built, observers = half_cabled()
    made = progress(plan, found, built, observers)
    days = made[made["by"] == "day"].set_index("what")["recorded"]
    assert days.to_dict() == {"2027-01-04": 3, "2027-01-05": 1}
    none = progress(plan, found, built.iloc[:0], observers)
    assert "day" not in set(none["by"])
    assert none["recorded"].sum() == 0


def test_bundles_are_named_by_network_and_racks() -> None:
    plan, found, built, observers = half_cabled()
    made = progress(plan, found, built, observers)
    rack = plan.placements.set_index("device")["rack"]
    one = plan.cables[plan.cables["fabric"] == "inband"].iloc[0]
    racks = sorted(rack[[one["a_device"], one["b_device"]]])
    assert f"inband {racks[0]} - {racks[1]}" in set(made["what"])


def test_cables_of_a_silent_switch_are_not_judged() -> None:
    plan, found, built, observers = half_cabled()
    silent = finding("DEVICE-SILENT", "leaf02", case="no-answer")
    before, after = (progress(plan, some, built, observers).iloc[0] for some in (found, [*found, silent]))
    ends = plan.cables["fabric"].eq("inband") & plan.cables[["a_device", "b_device"]].eq("leaf02").any(axis=1)
    assert after["not_judged"] - before["not_judged"] == ends.sum() == before["as_planned"] - after["as_planned"]


def test_without_observers_nothing_is_judged() -> None:
    plan, _, built, _ = half_cabled()
    made = progress(plan, [finding("DEVICE-SILENT", "leaf01", case="no-answer")], built, set())
    assert made["not_judged"].tolist() == made["planned"].tolist()
