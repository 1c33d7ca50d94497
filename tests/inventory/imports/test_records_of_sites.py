"""Transport loggers (S003), closure of energy readings (S171) and the monthly report of use (S184), on recorded files."""

from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.imports.core.source import ImportFault, moment
from inventory.imports.core.tables import ColumnMap, Fields, fields, known, read
from inventory.imports.delivery import transport
from inventory.imports.operation import energy, usage
from tests.findings import names

DATA = Path(__file__).parents[2] / "data" / "imports"
LIMITS = {
    "temperature_c": transport.Range(-20.0, 60.0, "data sheet"),
    "humidity_pct": transport.Range(5.0, 95.0, "data sheet"),
    "shock_g": transport.Range(None, 20.0, "data sheet"),
}


def recorded(name: str, kind: str) -> Fields:
    return fields(read((DATA / name).read_bytes(), DATA / name, kind), kind)


def text(content: str, kind: str) -> Fields:
    return fields(read(content.encode(), Path("x.csv"), kind), kind)


def ids(findings) -> list[str]:
    return [f.id for f in findings if f.severity != "info"]


def test_a_logger_in_fahrenheit_is_judged_in_celsius() -> None:
    result = transport.judge(recorded("transport.csv", "transport"), LIMITS)
    assert result.passed
    assert result.extremes["temperature_c"] == pytest.approx((0.0, 22.0), abs=1e-6)
    assert result.extremes["shock_g"] == (0.1, 12.5)


def test_a_shock_over_the_limit_names_sample_time_and_line() -> None:
    tight = LIMITS | {"shock_g": transport.Range(None, 10.0, "vendor")}
    result = transport.judge(recorded("transport.csv", "transport"), tight)
    assert ids(result.findings) == ["IMPORT-TRANSPORT-LIMIT"]
    message = result.findings[-1].message
    assert "1 of 5 samples" in message
    assert "2026-10-01 09:30" in message
    assert "line 6" in message
    assert not result.passed


def test_neither_a_missing_limit_nor_a_missing_quantity_passes() -> None:
    sample = recorded("transport.csv", "transport")
    less = {k: v for k, v in LIMITS.items() if k != "humidity_pct"}
    assert ids(transport.judge(sample, less).findings) == ["IMPORT-LOGGER-NO-LIMIT"]
    more = LIMITS | {"tilt_deg": transport.Range(None, 45.0, "vendor")}
    assert ids(transport.judge(sample, more).findings) == ["IMPORT-LOGGER-LACKS"]


@pytest.mark.parametrize("cell", ["SENSOR FAIL", "", "20 C"])
@pytest.mark.parametrize("column", ["temperature_c", "humidity_pct"])
def test_a_sensor_that_failed_proves_nothing(column: str, cell: str) -> None:
    other = {"temperature_c": "humidity_pct,shock_g", "humidity_pct": "temperature_c,shock_g"}[column]
    lines = [f"2026-10-01 {h:02d}:00,{20 if h == 0 else cell},20,1" for h in range(24)]
    result = transport.judge(text(f"time,{column},{other}\n" + "\n".join(lines), "transport"), LIMITS)
    assert ids(result.findings) == ["IMPORT-LOGGER-UNREAD"]
    assert result.findings[-1].subject == column
    assert result.findings[-1].numbers == {"samples": 23}
    assert not result.passed


@pytest.mark.parametrize(("cell", "passed"), [("", True), ("overflow", False)])
def test_no_shock_between_events_is_fine_and_an_unread_one_is_not(cell: str, passed: bool) -> None:
    lines = [f"2026-10-01 {h:02d}:00,20,40,{1 if h == 0 else cell}" for h in range(4)]
    result = transport.judge(text("time,temperature_c,humidity_pct,shock_g\n" + "\n".join(lines), "transport"), LIMITS)
    assert result.passed is passed


def test_a_logger_that_slept_is_not_trusted() -> None:
    lines = [f"2026-10-01 {h:02d}:00,20" for h in (1, 2, 3, 4, 12)]
    result = transport.judge(text("time,temperature_c\n" + "\n".join(lines), "transport"), LIMITS)
    gap = [f for f in result.findings if f.id == "IMPORT-LOGGER-GAP"]
    assert names(gap[0], "8.0 h")


def test_a_date_that_could_be_two_days_is_refused() -> None:
    assert moment("03/04/2026 10:00") is None
    assert moment("31.12.2026 10:00") is not None


def test_the_recorded_month_of_energy_closes() -> None:
    # main 10,000 kWh; RPPs 4,900 + 4,850 = 9,750: 2.5 % between. rpp-a 4,900; PDUs 2,440 + 2,410 = 4,850: 1.02 %
    result = energy.close(recorded("energy.csv", "energy").frame, 1.0, 2.0)
    assert result.passed
    gaps = result.table.set_index("meter")["difference_pct"]
    assert gaps["main"] == pytest.approx(2.5)
    assert gaps["rpp-a"] == pytest.approx(100 * 50 / 4900)


def test_a_meter_that_gives_more_than_it_gets_is_named() -> None:
    frame = recorded("energy.csv", "energy").frame
    frame.loc[(frame["name"] == "pdu-r01-a") & (frame["kwh"] == "3440"), "kwh"] = "4440"
    result = energy.close(frame, 1.0, 2.0)
    assert [(f.id, f.subject) for f in result.findings] == [("IMPORT-ENERGY-OPEN", "rpp-a")]
    assert "counts too much" in result.findings[0].message


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (("3400", "2000"), "IMPORT-ENERGY-OPEN"),
        (("110000", "90000"), "IMPORT-COUNTER-RESET"),
        (("110000", "many"), "IMPORT-READING"),
        (("rpp,rpp-a,main", "rpp,rpp-a,nothing"), "IMPORT-METER-LOST"),
        (("2026-11-30T00:00Z,rpp,rpp-b", "2026-11-29T00:00Z,rpp,rpp-b"), "IMPORT-METER-TIMES"),
        (("rack pdu,pdu-r01-a,rpp-a", "rack pdu,pdu-r01-a,rpp-b"), "IMPORT-ENERGY-OPEN"),
    ],
)
def test_readings_that_cannot_close_are_findings(change: tuple[str, str], finding: str) -> None:
    content = (DATA / "energy.csv").read_text().replace(*change)
    result = energy.close(text(content, "energy").frame, 1.0, 2.0)
    assert finding in ids(result.findings)
    assert not result.passed


def test_power_readings_close_by_their_means_and_compare_with_the_model() -> None:
    frame = text(
        "time,level,name,parent,kw\n2026-11-01,rpp,rpp,,20\n2026-11-02,rpp,rpp,,22\n"
        "2026-11-01,pdu,p,rpp,20\n2026-11-02,pdu,p,rpp,21\n",
        "energy",
    ).frame
    assert energy.close(frame, 1.0, 2.0).passed  # 21 against 20.5: 2.4 %
    table = energy.against_model(energy.mean_kw(frame), {"p": 22.55})
    assert energy.against_model({"idle": 0.0}, {"idle": 0.1}).empty
    assert table.iloc[0]["error_pct"] == pytest.approx(10.0)


def test_mean_power_of_a_counter_is_what_it_ran_over_its_time() -> None:
    frame = counted("2026-11-01T00:00Z,pdu,p,,1000", "2026-11-01T10:00Z,pdu,p,,1205", "2026-11-01T10:00Z,pdu,q,,7")
    assert energy.mean_kw(frame) == {"p": pytest.approx(20.5)}


def counted(*rows: str) -> pd.DataFrame:
    return text("time,level,name,parent,kwh\n" + "\n".join(rows) + "\n", "energy").frame


def test_times_are_compared_as_times_and_not_as_text() -> None:
    frame = counted(
        "31.01.2027 00:00,meter,main,,100",
        "28.02.2027 00:00,meter,main,,200",
        "2027-01-31T00:00Z,pdu,p,main,50",
        "2027-02-28T01:00+01:00,pdu,p,main,150",
    )
    result = energy.close(frame, 1.0)
    assert result.passed, result.findings


def test_a_time_that_could_be_two_is_named_with_the_forms_that_are_read() -> None:
    result = energy.close(counted("01/02/2027,meter,main,,100"), 1.0)
    assert result.findings[0].id == "IMPORT-READING"
    assert names(result.findings[0], "01/02/2027", "main", "2026-12-31T12:00")


def test_readings_stand_until_later_ones_have_all_their_meters() -> None:
    january = counted("2027-01-01,meter,main,,1", "2027-01-31,pdu,p,main,1")
    february = counted("2027-02-01,meter,main,,1", "2027-02-28,pdu,p,main,1")
    hall = counted("2027-01-15,meter,hall,,1")
    assert energy.standing({"january": january, "february": february, "hall": hall}) == ["february", "hall"]


def test_use_is_kept_by_month_with_its_report() -> None:
    given = recorded("usage.csv", "usage")
    result = usage.imported(given, 32, Path("usage.csv"), 1000.0)
    assert sorted(result.files) == ["imports/usage/2026-11.csv", "imports/usage_reports/2026-11.csv"]
    assert "total,mfu_pct,42" in result.files["imports/usage_reports/2026-11.csv"]


def test_rates_without_a_peak_say_that_mfu_is_not_reported() -> None:
    result = usage.imported(recorded("usage.csv", "usage"), 32, Path("usage.csv"), 0.0)
    assert next(f.message for f in result.findings if f.id == "IMPORT-USAGE-NO-PEAK").startswith("MFU is not reported")
    assert "mfu" not in result.files["imports/usage_reports/2026-11.csv"]


def test_the_recorded_month_of_use_adds_up() -> None:
    # job 101: 1,600 GPU-h, 80 idle; 102: 400; 103: 80, all idle. 4 nodes x 8 GPUs x 720 h = 23,040 GPU-h
    result = usage.report(recorded("usage.csv", "usage").frame, 32, 720, 1000)
    assert result.totals["gpu_h_allocated"] == 2080
    assert result.totals["gpu_h_idle"] == 160
    assert result.totals["gpu_h_unallocated"] == 23040 - 2080
    assert result.totals["mfu_pct"] == pytest.approx(100 * (400 * 1600 + 500 * 400) / 2000 / 1000)  # job 103 says none
    assert result.totals["wait_p50_h"] == 0.5
    projects = result.projects.set_index("name")
    assert projects.loc["language", "mfu_pct"] == pytest.approx(50)
    nodes = result.nodes.set_index("name")
    assert nodes.loc["gpu001", "gpu_h"] == 880
    assert result.nodes.iloc[0]["name"] == "gpu001"  # the most idle first


def test_more_hours_than_there_were_is_an_error() -> None:
    assert "IMPORT-USAGE-OVER" in ids(usage.report(recorded("usage.csv", "usage").frame, 1, 24).findings)


def test_a_job_is_counted_once() -> None:
    frame = recorded("usage.csv", "usage").frame
    assert ids(usage.report(pd.concat([frame, frame]), 32, 720).findings) == ["IMPORT-USAGE-TWICE"] * 3


def test_two_months_are_compared_by_their_largest_change() -> None:
    frame = recorded("usage.csv", "usage").frame
    before, now = usage.report(frame.iloc[:1], 32, 720), usage.report(frame, 32, 720)
    table = usage.compare(now, before)
    assert table.iloc[0]["figure"] == "wait_p95_h"  # 0.5 to 1.85 h
    assert table.set_index("figure").loc["gpu_h_allocated", "change"] == 480


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 64), st.floats(0, 700), st.sampled_from("abc"), st.integers(0, 4)), max_size=12)
)
def test_gpu_hours_are_the_same_by_project_and_by_node(jobs: list[tuple[int, float, str, int]]) -> None:
    rows = [
        [str(n), project, " ".join(f"n{k}" for k in range(nodes)), str(gpus), repr(hours)]
        for n, (gpus, hours, project, nodes) in enumerate(jobs)
    ]
    frame = pd.DataFrame(rows, columns=["job", "project", "nodes", "gpus", "elapsed_h"])
    result = usage.report(frame, 10**6, 10**6)
    assert result.projects["gpu_h"].sum() == pytest.approx(sum(g * h for g, h, _, _ in jobs))
    assert result.nodes["gpu_h"].sum() == pytest.approx(sum(g * h for g, h, _, nodes in jobs if nodes))


@settings(max_examples=90, deadline=None)
@given(
    st.sampled_from(["transport", "energy", "usage"]), st.text(max_size=200), st.lists(st.text(max_size=8), max_size=20)
)
def test_any_text_gives_findings_or_a_fault(kind: str, head: str, cells: list[str]) -> None:
    heads = {
        "transport": "time,temperature_c",
        "energy": "time,level,name,parent,kwh",
        "usage": "job,gpus,elapsed_h,nodes",
    }
    rows = "\n".join(",".join(cells[n : n + 4]) for n in range(0, len(cells), 4))
    try:
        given_fields = text(f"{heads[kind]}\n{rows}\n{head}", kind)
    except ImportFault:
        return
    if kind == "transport":
        transport.imported(given_fields, LIMITS, "x")
    elif kind == "energy":
        energy.imported(given_fields, 1.0, 1.0, "", "x")
    else:
        usage.report(given_fields.frame, 8, 720)
        with suppress(ImportFault):
            usage.imported(given_fields, 8, Path("x.csv"), None)


def heading(kind: str, name: str, stated: str, value: str, units: dict[str, str] | None = None) -> Fields:
    """One row of a kind of file with its required fields empty and one column under the heading that is given."""
    names = [n for n, spec in known(kind).items() if spec.get("required") and n != name]
    content = ";".join([*names, stated]) + "\n" + ";".join([*("" for _ in names), value]) + "\n"
    chosen = ColumnMap(units=units or {})
    return fields(read(content.encode(), Path("x.csv"), kind, chosen), kind, chosen)


@pytest.mark.parametrize(
    ("kind", "name", "stated", "value", "kept"),
    [
        ("usage", "elapsed_h", "Elapsed (days)", "2", "48"),
        ("usage", "queued_h", "Queue wait (d)", "0.5", "12"),
        ("usage", "idle_gpu_h", "Idle (GPU-h)", "7", "7"),
        ("energy", "kwh", "Energy (GJ)", "3.6", "1000"),
        ("energy", "kwh", "Energy (GWh)", "1", "1000000"),
        ("energy", "kw", "Power (W, mean)", "500", "0.5"),
        ("gpu_tests", "tflops", "gemm rate (PFLOP/s)", "0.8", "800"),
        ("gpu_tests", "tflops", "Performance (BF16, dense)", "800", "800"),
        ("transport", "temperature_c", "Temp (sensor 1)", "20", "20"),
        ("transport", "temperature_c", "Temp (\N{DEGREE SIGN}F) (warehouse)", "32", "0"),
        ("quote", "lead_weeks", "Lead time (working days ARO)", "50", "10"),
        ("quote", "unit_price", "Unit Price (kUSD)", "13,530.00", "13530000"),
        ("quote", "unit_price", "Unit Price [T\N{EURO SIGN}]", "1,5", "1500"),
        ("quote", "unit_price", "Net price ($M)", "0.4", "400000"),
        ("quote", "total_price", "Total ('000 CHF)", "12", "12000"),
        ("quote", "total_price", "Total (incl. VAT) (EUR)", "12", "12"),
        ("quote", "unit_price", "Unit price (each)", "12", "12"),
        ("quote", "unit_price", "Unit price (EUR/pc)", "12", "12"),
        ("quote", "unit_price", "Price (1)", "12", "12"),
        ("quote", "unit_price", "Unit price kEUR", "12", "12000"),
    ],
)
def test_units_of_headings_are_converted_and_remarks_are_none(
    kind: str, name: str, stated: str, value: str, kept: str
) -> None:
    result = heading(kind, name, stated, value)
    assert result.frame[name].tolist() == [kept]
    assert ids(result.findings) == []
    assert (value != kept) == ("IMPORT-UNIT" in [f.id for f in result.findings])


@pytest.mark.parametrize(
    ("kind", "name", "stated"),
    [
        ("usage", "elapsed_h", "Elapsed (fortnights)"),
        ("energy", "kwh", "Energy (BTU)"),
        ("energy", "kw", "Power (kVA)"),
        ("gpu_tests", "tflops", "Performance (samples/s)"),
        ("transport", "shock_g", "Shock (ft/s2)"),
        ("quote", "unit_price", "Unit price (per 1000)"),
        ("quote", "unit_price", "Unit price (EUR) (per 100)"),
        ("quote", "unit_price", "Unit price (EUR/m)"),
        ("quote", "unit_price", "Price (m)"),
        ("quote", "total_price", "Total (points)"),
        ("quote", "lead_weeks", "Delivery (date)"),
    ],
)
def test_a_text_in_brackets_that_may_be_a_unit_is_never_ignored(kind: str, name: str, stated: str) -> None:
    result = heading(kind, name, stated, "1")
    errors = [f for f in result.findings if f.severity == "error"]
    assert [f.id for f in errors] == ["IMPORT-UNIT-UNKNOWN"]
    assert f"units: {{{name}: <unit>}}" in errors[0].message


def test_a_map_says_the_unit() -> None:
    result = heading("usage", "elapsed_h", "Elapsed (cluster time)", "2", {"elapsed_h": "days"})
    assert result.frame["elapsed_h"].tolist() == ["48"]
    assert ids(result.findings) == []
    with pytest.raises(ImportFault, match="units of elapsed_h are h, hr"):
        heading("usage", "elapsed_h", "Elapsed", "2", {"elapsed_h": "parsec"})
    with pytest.raises(ImportFault, match="job has no unit"):
        heading("usage", "job", "Job", "2", {"job": "h"})


def test_accounting_in_slurms_own_form_is_read() -> None:
    content = (
        "Month,JobID,Account,AllocGPUS,Elapsed,Queued,NodeList\n"
        '2027-01,1,research,24,2-03:04:30,00:30:00,"gpu[001-002,005]"\n'
        "2027-01,2,product,8,10:00:00.500,1.5,gpu002\n"
        "2027-01,3,product,0,00:00:00,,None assigned\n"
    )
    given_fields = text(content, "usage")
    result = usage.report(given_fields.frame, 32, 744)
    assert ids(result.findings) == []
    assert result.totals["gpu_h_allocated"] == pytest.approx(24 * (51 + 4.5 / 60) + 8 * (10 + 0.5 / 3600))
    assert result.totals["wait_p50_h"] == pytest.approx(1.0)
    hours = dict(zip(result.nodes["name"], result.nodes["gpu_h"], strict=True))
    assert list(hours) == ["gpu002", "gpu001", "gpu005"]
    assert hours["gpu001"] == pytest.approx(8 * (51 + 4.5 / 60))
    brought = usage.imported(given_fields, 32, Path("x.csv"), None, {"gpu001", "gpu002"})
    assert ids(brought.findings) == ["IMPORT-USAGE-NODE"]
    assert "gpu005" in brought.findings[-1].message


@pytest.mark.parametrize(
    ("nodes", "expanded"),
    [
        ("gpu[001-003]", ["gpu001", "gpu002", "gpu003"]),
        ("a[1-2]b[8,10]-ib n7;n8", ["a1b8-ib", "a1b10-ib", "a2b8-ib", "a2b10-ib", "n7", "n8"]),
        ("gpu[9-11],x", ["gpu9", "gpu10", "gpu11", "x"]),
        ("", []),
        ("gpu[001-002", None),
        ("gpu001]", None),
        ("gpu[3-1]", None),
        ("gpu[a-b]", None),
        ("gpu[]", None),
        ("gpu[1-999999999]", None),
        ("[1-9999]x[1-9999]", None),
    ],
)
def test_host_lists_are_expanded(nodes: str, expanded: list[str] | None) -> None:
    assert usage.hosts(nodes) == expanded


def test_a_broken_host_list_is_an_error() -> None:
    content = "month,job,gpus,elapsed_h,nodes\n2027-01,1,8,1,gpu[001\n"
    assert ids(usage.report(text(content, "usage").frame, 8, 744).findings) == ["IMPORT-USAGE-VALUE"]
