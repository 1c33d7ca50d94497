"""Measured power and use beside the plan, on recorded inputs."""

import datetime

import pandas as pd
import pytest

from capacity import audit
from capacity.plan import Plan, build
from inventory.site import load_site


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build(load_site("lab"))


@pytest.fixture(scope="module")
def readings(plan: Plan) -> str:
    """What meters say that agree with the plan to the watt."""
    used = plan.outlets[plan.outlets["device"] != ""]
    rows = [
        ("outlet", f"{pdu}:{n}", w)
        for pdu, n, w in used[["pdu", "outlet", "load_w"]].itertuples(index=False, name=None)
    ]
    pdus = used.groupby("pdu")["load_w"].sum()
    rows += [("pdu", str(pdu), w) for pdu, w in pdus.items()]
    feeds = pdus.groupby(plan.circuits.set_index("pdu")["feed"]).sum()
    rows += [("feed", str(feed), w) for feed, w in feeds.items()] + [("site", "lab", feeds.sum())]
    return pd.DataFrame(rows, columns=list(audit.POWER_COLUMNS)).to_csv(index=False)


def test_a_tree_that_adds_up_has_no_finding(plan: Plan, readings: str) -> None:
    frame, findings = audit.power(plan, audit.read_power(readings), 2)
    assert findings == []
    assert set(frame["level"]) == {"pdu", "feed", "site"}
    assert frame["closure_pct"].abs().max() < 1e-6
    assert frame["model_pct"].abs().max() < 5


def test_a_meter_that_is_wrong_is_named_alone(plan: Plan, readings: str) -> None:
    wrong = audit.read_power(readings)
    at = wrong["level"].eq("site")
    wrong.loc[at, "watts"] *= 1.1
    _, findings = audit.power(plan, wrong, 2)
    assert [(f.id, f.subject) for f in findings] == [("POWER-CLOSURE", "lab")]


def test_an_outlet_without_a_reading_is_not_taken_for_zero(plan: Plan, readings: str) -> None:
    known = audit.read_power(readings)
    first = known[known["level"] == "outlet"].index[0]
    _, findings = audit.power(plan, known.drop(index=first), 2)
    assert [f.id for f in findings] == ["POWER-UNREAD"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("level,name\npdu,a\n", "lacks watts"),
        ("level,name,watts,colour\npdu,a,1,red\n", "unknown columns colour"),
        ("level,name,watts\nrack,a,1\n", "level 'rack'"),
        ("level,name,watts\npdu,a,1\npdu,a,2\n", "power.csv:3: a is read twice"),
        ("level,name,watts\npdu,a,-1\n", "watts '-1'"),
        ("level,name,watts\npdu,a,many\n", "watts 'many'"),
        ("", "expected a CSV"),
    ],
)
def test_readings_that_cannot_be_used_name_the_place(text: str, message: str) -> None:
    with pytest.raises(audit.AuditError, match=message):
        audit.read_power(text)


JOBS = """job,account,gpus,submit,start,end,nodes,mfu_pct
1,research,16,2028-03-01T00:00:00,2028-03-01T01:00:00,2028-03-01T11:00:00,gpu1+gpu2,40
2,research,8,2028-03-01T00:00:00,2028-03-01T03:00:00,2028-03-01T13:00:00,gpu3,20
3,services,8,2028-02-28T20:00:00,2028-02-28T23:00:00,2028-03-01T02:00:00,gpu9,
"""


def test_report_of_use_by_hand(plan: Plan) -> None:
    # 32 GPUs for 24 h: 768 GPU-hours. 16 x 10 + 8 x 10 + 8 x 2 (of 27 h) = 256 used, 512 idle.
    day = datetime.datetime(2028, 3, 1)
    nodes = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    jobs = JOBS.replace("gpu1", nodes[0]).replace("gpu2", nodes[1]).replace("gpu3", nodes[2])
    text = audit.usage(plan, audit.read_jobs(jobs), day, day + datetime.timedelta(days=1))
    assert "768 GPU-hours: 256 used, 512 idle (66.7%)" in text
    # MFU of research: (160 x 40 + 80 x 20)/240 = 33.3; waits of 1 h and 3 h.
    assert "| research | 2 | 240 | 33.3 | 2.00 | 3.00 |" in text
    assert "| services | 1 | 16 | not measured | 3.00 | 3.00 |" in text
    assert text.index(f"| {nodes[2]} | 20.0 |") < text.index(f"| {nodes[0]} | 40.0 |")
    assert "gpu9" not in text  # nobody measured its MFU


def test_job_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(audit.AuditError, match=r"jobs.csv:2: job 1 ends before it starts"):
        audit.read_jobs(JOBS.replace("2028-03-01T11", "2028-03-01T00"))
