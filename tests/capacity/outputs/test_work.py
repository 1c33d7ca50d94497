"""The work list of a comparison: exchanges with rack, unit, cage and label, in the order of a walk."""

from capacity.outputs.documents.work import work_list
from inventory.findings import Finding, finding
from network import compare
from network.as_built import differences
from network.discover import Port
from tests.plans import plan_of


def seen(plan, exchanges):
    """What the switches of the in-band network see after these exchanges of plugs."""
    cables = plan.cables[plan.cables["fabric"] == "inband"]
    pairs = [(f"{row.a_device}:{row.a_port}", f"{row.b_device}:{row.b_port}") for row in cables.itertuples(index=False)]
    there = {end: far for a, b in pairs for end, far in ((a, b), (b, a))}
    for one, two in exchanges:
        at_one, at_two = there[one], there[two]
        there |= {one: at_two, at_two: one, two: at_one, at_one: two}
    switches = set(plan.devices.loc[plan.devices["fabric"] == "inband", "name"])
    answered: dict[str, dict[str, Port]] = {name: {} for name in switches}
    for end, far in there.items():
        device, _, port = end.rpartition(":")
        if device in switches:
            far_device, _, far_port = far.rpartition(":")
            answered[device][port] = Port(state="up", far=far_device, far_port=far_port, age_s=0, ttl_s=4)
    return answered


def test_exchanges_are_listed_with_rack_unit_cage_and_label():
    plan = plan_of("h100-1000-ib")
    leaf = [
        f"{d}:{p}" for d, p in plan.cables.loc[plan.cables["b_device"] == "leaf40", ["b_device", "b_port"]].to_numpy()
    ]
    first = [
        f"{d}:{p}" for d, p in plan.cables.loc[plan.cables["b_device"] == "leaf02", ["b_device", "b_port"]].to_numpy()
    ]
    done = [(leaf[0], leaf[1]), (leaf[1], leaf[2]), (first[3], first[5])]
    findings = compare.topology(plan.cables, seen(plan, done))
    assert sorted(len(one.ports) for one in findings) == [4, 7]
    work = work_list(plan, findings)
    assert work["step"].tolist() == [1, 1, 2, 2, 3, 3]
    assert [f"{d}:{p}" for d, p in work.loc[work["step"] == 1, ["device", "port"]].to_numpy()] == [first[3], first[5]]
    assert set(work.loc[work["step"] > 1, "device"]) == {"leaf40"}
    placed = plan.placements.set_index("device")
    for row in work.to_dict("records"):
        assert (row["rack"], row["u"]) == (placed.at[row["device"], "rack"], placed.at[row["device"], "u_bottom"])
        assert row["label"].startswith(f"{row['device']}:{row['port']} ({row['rack']} U{row['u']}) > ")
        assert row["cage"] >= 1
        assert row["do"].startswith("exchange the plug with that of leaf")


def test_cables_without_light_are_listed_with_both_ends_and_others_are_left_out():
    plan = plan_of("lab")
    row = plan.cables[plan.cables["fabric"] == "inband"].iloc[0]
    ends = (f"{row['a_device']}:{row['a_port']}", f"{row['b_device']}:{row['b_port']}")
    down = finding("LINK-DOWN", row["a_device"], ports=ends, words={"cable": " -- ".join(ends)})
    other = Finding("OUTLET-STATE", "error", "pdu-r01-a", "off", ports=("pdu-r01-a:2",))
    work = work_list(plan, [other, down])
    assert [f"{d}:{p}" for d, p in work[["device", "port"]].to_numpy()] == list(ends)
    assert work["step"].tolist() == [1, 1]
    assert work_list(plan, [other]).empty


def test_cables_that_are_recorded_otherwise_are_looked_at_at_both_ends() -> None:
    plan = plan_of("lab")
    cable = plan.cables[plan.cables["fabric"] == "compute"].set_index("cable_id").iloc[:1]
    built = cable.assign(part="another-part")
    work = work_list(plan, differences(plan.cables, built))
    ends = cable[["a_device", "b_device"]].iloc[0].tolist()
    assert sorted(work["device"]) == sorted(ends)
    assert set(work["finding"]) == {"AS-BUILT-PART"}
    assert (work["label"] != "").all()


def test_lines_are_in_the_order_of_a_walk_every_second_row_backwards() -> None:
    plan = plan_of("h100-1000-ib")
    cables = plan.cables[(plan.cables["fabric"] == "inband") & (plan.cables["stage"] == "node-leaf")]
    rack = plan.placements.set_index("device")["rack"]
    first = cables[~cables["a_device"].map(rack).duplicated()].sample(frac=1, random_state=1)
    ends = [(f"{row.a_device}:{row.a_port}", f"{row.b_device}:{row.b_port}") for row in first.itertuples(index=False)]
    work = work_list(plan, [finding("LINK-DOWN", a, ports=(a, b), words={"cable": f"{a} -- {b}"}) for a, b in ends])
    racks = plan.racks.set_index("name")
    walked = [racks.loc[name, ["row", "position"]].tolist() for name in work.groupby("step").first()["rack"]]
    rows = {row for row, _ in walked}
    assert len(walked) == len(ends)
    assert len(rows) > 2
    assert [row for row, _ in walked] == sorted(row for row, _ in walked)
    for number in rows:
        positions = [position for row, position in walked if row == number]
        assert len(positions) > 1
        assert positions == sorted(positions, reverse=number % 2 == 1)


def test_the_cables_of_a_switch_that_is_cut_off_are_listed_one_by_one() -> None:
    plan = plan_of("lab")
    up = plan.cables[(plan.cables["a_device"] == "leaf01") & (plan.cables["stage"] == "leaf-spine")]
    ends = tuple(
        f"{d}:{p}" for row in up.itertuples() for d, p in ((row.a_device, row.a_port), (row.b_device, row.b_port))
    )
    words = {"others": "spines", "seen": ", ".join(ends), "part": "leaf01"}
    cut = finding("TOPOLOGY-CUT-OFF", "leaf01", case="switch", ports=ends, words=words, cables=len(up))
    work = work_list(plan, [cut])
    assert work["step"].tolist() == [n for n in range(1, len(up) + 1) for _ in "ab"]
    assert [f"{d}:{p}" for d, p in work[["device", "port"]].to_numpy()] == list(ends)
