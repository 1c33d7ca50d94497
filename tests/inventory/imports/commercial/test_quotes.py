"""Quotes against the plan's bill of materials."""

from datetime import date
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.catalog import Memory, load_catalog
from inventory.findings import Finding
from inventory.imports.commercial.quotes import compare, cord_of, read_quote
from inventory.imports.core.result import Imported
from inventory.imports.core.source import ImportFault, number
from inventory.imports.core.tables import ColumnMap, column_map, fields, read
from inventory.site.sections.schedule import LeadTime
from tests.findings import names, offers

PATH = Path("quote.csv")
BOM = pd.DataFrame(
    [
        ("gpu", "nvidia-h100-sxm5-80gb", 32, "server nvidia-dgx-h100", 0),
        ("server", "nvidia-dgx-h100", 4, "", 4),
        ("switch", "nvidia-qm9700", 2, "", 2),
        ("cord", "iec-60320-c19 to iec-60320-c20", 24, "", 24),
        ("cable", "dac-400g-splitter-3m, 3 m", 16, "", 16),
    ],
    columns=["item", "model", "quantity", "supplied_with", "order"],
)
TWELVE_CHANNELS = Memory(dimm_gib=64, dimms=48, channels=12, per_channel=2)


def quoted(
    text: str | bytes,
    skus: dict[str, str] | None = None,
    bom: pd.DataFrame = BOM,
    memory: Memory | None = TWELVE_CHANNELS,
) -> Imported:
    data = text if isinstance(text, bytes) else text.encode()
    table = fields(read(data, PATH, "quote"), "quote")
    return compare(
        read_quote(table),
        bom,
        load_catalog(),
        skus or {},
        gpu="nvidia-h100-sxm5-80gb",
        servers=4,
        sockets=2,
        memory=memory,
        storage="weka",
    )


def line(text: str) -> Imported:
    return quoted(f"Part No,Description,Qty\n{text}\n")


def found(result: Imported, severity: str = "error") -> dict[str, str]:
    return {f.id: f.message for f in result.findings if f.severity == severity}


def every(result: Imported, id_: str) -> dict[str, Finding]:
    """The findings of one id by their subject."""
    return {f.subject: f for f in result.findings if f.id == id_}


def verdicts(result: Imported) -> dict[str, str]:
    return dict(zip(result.rows["model"], result.rows["verdict"], strict=True))


def test_a_complete_quote_agrees_and_sums_its_prices() -> None:
    result = quoted(
        "ACME quotation 7;;;;\nPos;P/N;Product;Menge;Unit price;Amount\n"
        "1;DGX H100;AI server;4;$ 300,000.00;$ 1,200,000.00\n"
        "2;QM9700;switch;2;20'000;40'000\n"
        "3;PC-1920;Power cord C19-C20 2 m;24;9,50;228\n"
        "4;dac-400g-splitter-3m, 3 m;;16;;\n"
    )
    assert verdicts(result) == {
        "nvidia-h100-sxm5-80gb": "in the server",
        "nvidia-dgx-h100": "agrees",
        "nvidia-qm9700": "agrees",
        "iec-60320-c19 to iec-60320-c20": "agrees",
        "dac-400g-splitter-3m, 3 m": "agrees",
    }
    assert "1,200,000.00 USD" in result.summary
    assert not found(result)


def test_a_price_in_thousands_is_summed_in_its_currency() -> None:
    result = quoted("PN,Qty,Unit price (kEUR),Total (kEUR)\nDGX H100,4,300,1200\n")
    assert "1,200,000.00 EUR" in result.summary
    assert "IMPORT-PRICE" not in found(result, "warning")
    assert ",EUR," in result.files["lines.csv"].splitlines()[1]
    cells_first = quoted("PN,Qty,Total (USD)\nDGX H100,4,€ 1200\n")
    assert "1,200.00 EUR" in cells_first.summary


def lead_findings(text: str) -> list[Finding]:
    switch = LeadTime(min_weeks=20, max_weeks=40, as_of=date(2026, 11, 1), source="trade press")
    waiting = BOM.assign(lead_item=BOM["item"].map({"switch": "switch", "server": "server"}).fillna(""))
    quote = read_quote(fields(read(text.encode(), PATH, "quote"), "quote"))
    result = compare(
        quote,
        waiting,
        load_catalog(),
        {},
        gpu="nvidia-h100-sxm5-80gb",
        servers=4,
        sockets=2,
        leadtimes={"switch": switch},
    )
    return [f for f in result.findings if f.id == "IMPORT-QUOTE-LEAD"]


@pytest.mark.parametrize(
    ("heading", "quoted_time", "weeks"),
    [
        ("Lead time (weeks)", "95", 95),
        ("Lead time (days)", "350", 50),
        ("Lead time", "40", None),
        ("Lead time", "", None),
    ],
)
def test_a_lead_time_beyond_the_sites_is_a_warning(heading: str, quoted_time: str, weeks: int | None) -> None:
    late = lead_findings(f"PN,Qty,{heading}\nQM9700,2,{quoted_time}\nDGX H100,4,200\n")
    assert len(late) == (weeks is not None)
    if weeks is not None:
        assert late[0].numbers == {"weeks": weeks}
        assert names(late[0], weeks, "switch nvidia-qm9700")
        assert offers(late[0], "leadtimes.switch.max_weeks", weeks)


def test_a_switch_that_the_plan_does_not_have_waits_like_the_others() -> None:
    assert names(lead_findings("PN,Qty,Lead time\nSN2201,1,95\n")[0], 95, "switch nvidia-sn2201")


def test_a_lead_time_that_is_no_number_is_named() -> None:
    unread = lead_findings("PN,Qty,Lead time\nQM9700,2,10-12 wks\n")[0]
    assert names(unread, "10-12 wks", "switch nvidia-qm9700", "leadtimes.switch")


def test_missing_short_and_extra_lines_carry_their_numbers() -> None:
    result = quoted("PN,Qty\nDGX H100,3\nSN2201,1\nQM9700,2\n")
    assert verdicts(result)["nvidia-dgx-h100"] == "quantity differs"
    assert verdicts(result)["nvidia-sn2201"] == "extra"
    short = every(result, "IMPORT-QUOTE-QUANTITY")["server nvidia-dgx-h100"]
    assert (short.numbers, short.limit) == ({"needed": 4, "quoted": 3}, 4)
    assert names(short, 4, 3, "line 2", "1 too few")
    missing = [f for f in every(result, "IMPORT-QUOTE-MISSING").values() if f.numbers == {"needed": 16, "quoted": 0}]
    assert missing
    assert all(names(f, 16) for f in missing)


def test_another_model_in_place_of_the_planned_one_is_an_error() -> None:
    assert "nvidia-dgx-h100" in found(line("DGX B200,server,4"))["IMPORT-WRONG-SKU"]


def test_a_pcie_card_for_an_sxm_site_is_err_07() -> None:
    result = line("900-21010,NVIDIA H100 PCIe 80GB,32")
    assert [f.err for f in result.findings if f.id == "IMPORT-FORM-FACTOR"] == ["ERR-07"]


@pytest.mark.parametrize(
    ("text", "cord", "wrong"),
    [
        ("Cord C13 to C14", ("iec-60320-c13", "iec-60320-c14"), False),
        ("Cord C20 - C19", ("iec-60320-c19", "iec-60320-c20"), False),
        ("Cord C13/C19", ("iec-60320-c13", "iec-60320-c19"), True),
        ("Cord C13 to C20", ("iec-60320-c13", "iec-60320-c20"), True),
    ],
)
def test_cords_that_do_not_pair_are_err_16(text: str, cord: tuple[str, str], wrong: bool) -> None:
    assert cord_of(text) == cord
    assert ("IMPORT-CORD-PAIR" in found(line(f"X,{text},4"))) == wrong


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("24-pin ATX lead", "IMPORT-ATX-LEADS"),
        ("60 A GFCI breaker", "IMPORT-GFCI"),
        ("Lustre OSS, 2 x 200G", "IMPORT-LUSTRE-PARTS"),
        ("64GB DDR5 RDIMM", "IMPORT-DIMM-BALANCE"),  # 80 / 4 servers / 2 processors = 10
    ],
)
def test_words_of_the_seed_errors_are_flagged(text: str, finding: str) -> None:
    assert finding in found(line(f"X,{text},80"), "warning")


def test_balanced_memory_is_no_finding() -> None:
    assert "IMPORT-DIMM-BALANCE" not in found(line("X,64GB DDR5 RDIMM,96"), "warning")  # 12 per processor


@pytest.mark.parametrize(("modules", "balanced"), [(8, True), (12, False), (16, True), (24, False)])
def test_modules_are_balanced_by_the_channels_of_the_model(modules: int, balanced: bool) -> None:
    eight = Memory(dimm_gib=64, dimms=32, channels=8, per_channel=2)
    text = f"Part No,Description,Qty\nX,64GB DDR5 RDIMM,{modules * 2 * 4}\n"
    wrong = every(quoted(text, memory=eight), "IMPORT-DIMM-BALANCE")
    assert [f.severity for f in wrong.values()] == ([] if balanced else ["warning"])
    assert all(f.numbers == {"modules_per_socket": modules, "size_gb": 64} for f in wrong.values())
    assert all(names(f, modules, "8, 16", "8 channels", "2 slots") for f in wrong.values())


def test_memory_that_the_catalogue_does_not_know_is_not_judged_and_says_so() -> None:
    (one,) = every(quoted("PN,Qty\n64GB DDR5 RDIMM,96\n", memory=None), "IMPORT-DIMM-BALANCE").values()
    assert one.severity == "info"
    assert names(one, 96, 64, "not checked")


def with_spares() -> pd.DataFrame:
    bom = BOM.copy()
    bom["order"] = [2, 5, 3, 26, 18]  # two spare GPUs, one server, one switch, two cords and cables
    return bom


@pytest.mark.parametrize("gpus", [2, 34])
def test_a_quote_of_what_is_to_be_ordered_agrees_with_parts_itemised_or_not(gpus: int) -> None:
    text = f"PN,Qty\nDGX H100,5\nQM9700,3\nC19-C20,26\n'dac-400g-splitter-3m, 3 m',18\nnvidia-h100-sxm5-80gb,{gpus}\n"
    result = quoted(text.replace("'", '"'), bom=with_spares())
    assert set(verdicts(result).values()) == {"agrees"}, result.rows
    assert "IMPORT-QUOTE-QUANTITY" not in found(result, "warning")


def test_a_quote_without_the_spares_is_short_by_them() -> None:
    result = quoted("PN,Qty\nDGX H100,4\n", bom=with_spares())
    short = every(result, "IMPORT-QUOTE-QUANTITY")["server nvidia-dgx-h100"]
    assert short.numbers == {"needed": 5, "quoted": 4}
    assert names(short, "line 2", "1 too few")
    missing = every(result, "IMPORT-QUOTE-MISSING")["gpu nvidia-h100-sxm5-80gb"]
    assert missing.numbers == {"needed": 2, "quoted": 0}  # those in the servers come with them, the spare ones do not


def test_a_total_that_is_not_quantity_times_price_is_named() -> None:
    result = quoted("PN,Qty,Unit price,Total\nDGX H100,4,100,500\n")
    (price,) = every(result, "IMPORT-PRICE").values()
    assert price.severity == "warning"
    assert price.numbers == {"computed": 400, "stated": 500}
    assert names(price, 4, "100.00", "400.00", "500.00")


def test_what_is_matched_to_nothing_is_kept_and_named_with_the_way_out() -> None:
    result = line("ZZ-1,Blanking panel,100")
    assert "skus: {ZZ-1:" in found(result, "warning")["IMPORT-QUOTE-UNMATCHED"]
    assert "Blanking panel" in result.files["lines.csv"]


def test_what_is_matched_to_nothing_is_in_the_sum_and_said() -> None:
    result = quoted("Part No;Qty;Total;Currency\nnvidia-qm9700;2;10.000,00;EUR\nstrange thing;1;515.000,00;EUR\n")
    assert "525,000.00 EUR (of these 515,000.00 EUR in lines that are matched to nothing)" in result.summary


@pytest.mark.parametrize("heading", ["Order no.", "Artikelnummer", "Order number"])
def test_usual_headings_of_orders_are_guessed(heading: str) -> None:
    assert verdicts(quoted(f"{heading},Chassis,Pcs\nnvidia-qm9700,a switch,2\n"))["nvidia-qm9700"] == "agrees"


@pytest.mark.parametrize(
    ("text", "servers"), [("Chassis DGX H100, 8 GPUs", 4), ("DGX H100 system", 4), ("Rail kit for DGX H100 system", 0)]
)
def test_a_line_that_names_the_whole_machine_is_the_server(text: str, servers: int) -> None:
    rows = line(f'X-1,"{text}",4').rows.set_index("model")
    assert rows.loc["nvidia-dgx-h100", "quoted"] == servers


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("DGX H100 640GB", 4),
        ("NVIDIA DGX H100, 8 GPUs of 80 GB", 4),
        ("Support for DGX H100, 3 years", 0),
        ("Spare fan module DGX H100", 0),
        ("8 x H100 GPU", 0),
    ],
)
def test_a_line_with_the_name_of_a_dgx_is_the_server(text: str, servers: int) -> None:
    rows = line(f'DGXH-1,"{text}",4').rows.set_index("model")
    assert rows.loc["nvidia-dgx-h100", "quoted"] == servers


@pytest.mark.parametrize(
    ("part", "text", "switches"),
    [
        ("MQM9700-NS2F", "", 2),
        ("MQM9700-NS2R", "QM9700 switch with the other airflow", 0),
        ("X-1", "QM9700 64-port NDR switch, 2 power supplies, P2C airflow, rail kit", 2),
        ("X-1", "Rail kit for QM9700 switch", 0),
        ("X-1", "QM9700 power supply", 0),
        ("MQM9700-XX2F", "", 0),
    ],
)
def test_a_switch_is_matched_by_its_number_and_by_its_name_and_not_with_the_other_airflow(
    part: str, text: str, switches: int
) -> None:
    rows = line(f'{part},"{text}",2').rows.set_index("model")
    assert rows.loc["nvidia-qm9700", "quoted"] == switches


@pytest.mark.parametrize(
    ("part", "text", "slug"),
    [
        ("MSN2201-CB2FC", "", "nvidia-sn2201"),
        ("X-1", "SN2201 48x1G switch", "nvidia-sn2201"),
        ("X-2", "SN4600C 64x100G Cumulus", "nvidia-sn4600c"),
    ],
)
def test_ethernet_switches_of_the_reference_designs_are_matched_by_number_or_name(
    part: str, text: str, slug: str
) -> None:
    switches = pd.DataFrame([("switch", slug, 3, "", 3)], columns=BOM.columns)
    assert (
        verdicts(quoted(f"Part No,Description,Qty\n{part},{text},3\n", bom=pd.concat([BOM, switches])))[slug]
        == "agrees"
    )


def test_a_map_says_what_a_part_number_is() -> None:
    assert verdicts(quoted("PN,Qty\nK-1,4\n", {"K-1": "nvidia-dgx-h100"}))["nvidia-dgx-h100"] == "agrees"


def test_a_map_finds_headings_that_nobody_would_guess() -> None:
    chosen = ColumnMap(columns={"part": "Foo", "quantity": "Bar"}, heading_row=2)
    table = fields(read(b"x,y\nFoo,Bar\nDGX H100,4\n", PATH, "quote", chosen), "quote", chosen)
    assert table.frame["quantity"].tolist() == ["4"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.50", 1234.5),
        ("1.234,50", 1234.5),
        ("1'234", 1234),
        ("1,234", 1234),
        ("12,5", 12.5),
        ("(300)", -300),
        ("$ 1,200", 1200),
        ("1.234.567", 1234567),
        ("EUR 7", 7),
        ("n/a", None),
        ("", None),
        ("1e400", None),
        ("-", None),
    ],
)
def test_numbers_as_people_write_them(text: str, value: float | None) -> None:
    assert number(text) == value


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda t: f"part,qty\n{t}".encode())))
def test_any_bytes_give_lines_or_a_fault(data: bytes) -> None:
    try:
        quoted(data)
    except ImportFault:
        return


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["DGX H100", "QM9700", "ZZ", "C19 C20"]), st.integers(0, 50)), min_size=1, max_size=8
    )
)
def test_every_quoted_piece_is_counted_once(lines: list[tuple[str, int]]) -> None:
    result = quoted("pn,qty\n" + "".join(f"{part},{count}\n" for part, count in lines))
    assert result.rows["quoted"].sum() == sum(count for part, count in lines if part != "ZZ")


NUMBERED = pd.DataFrame(
    [
        ("transceiver", "osfp-2x400g-sr4-finned", 8, "", 8),
        ("cable", "mmf-mpo12-apc-straight, 15 m", 16, "", 16),
        ("cable", "dac-400g-splitter-3m, 1.5 m", 4, "", 4),
        ("cord", "iec-60320-c13 to iec-60320-c14, 2 m", 10, "", 10),
        ("cord", "iec-60320-c13 to iec-60320-c14, 3 m", 6, "", 6),
    ],
    columns=["item", "model", "quantity", "supplied_with", "order"],
)


def test_maker_numbers_of_optics_fibres_and_cables_match_the_lines_of_the_bill() -> None:
    text = "MMA4Z00-NS,800G optic,8\nMFP7E10-N015,fibre,16\nMCP7Y00-N01A,splitter,4\n,Cord C13 to C14 2 m,10\nX,C14/C13 cord 3m,6\n"
    result = quoted(f"Part No,Description,Qty\n{text}", bom=NUMBERED)
    assert set(verdicts(result).values()) == {"agrees"}


def test_a_quote_of_cords_without_lengths_is_judged_on_their_sum() -> None:
    result = quoted("Part No,Description,Qty\nX,Cord C13 to C14,16\n", bom=NUMBERED)
    assert verdicts(result)["iec-60320-c13 to iec-60320-c14"] == "agrees"


@pytest.mark.parametrize(
    "heads",
    [
        "Vendor Part Number,Part Description,Qty Ordered,Net Unit Price,Extended Net Price",
        "Item Code,Desc,Quoted Qty,Unit Sell Price,Line Amount",
        "Material No.,Description of Goods,Total Qty,Price per Unit,Subtotal",
        "Mfr Part No,Line Description,Quantity Ordered,Unit List Price,Total Cost",
    ],
)
def test_usual_headings_are_known(heads: str) -> None:
    result = quoted(f"{heads}\nMQM9700-NS2F,switch,2,100,200\n")
    assert verdicts(result)["nvidia-qm9700"] == "agrees"
    assert result.rows.set_index("model").loc["nvidia-qm9700", "amount"] == "200.00"


@pytest.mark.parametrize("text", ["heading_row: !!int", "sheet: !!bool x", "columns: {part: !!timestamp x}"])
def test_a_column_map_with_a_value_that_its_tag_cannot_have_names_the_place(text: str) -> None:
    with pytest.raises(ImportFault, match="not valid YAML: .* line 1, column"):
        column_map(text, Path("map.yaml"))
