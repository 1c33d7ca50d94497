"""as_built.csv: what is read, and every way in which a line is wrong."""

import pytest

from inventory.delivered.as_built import COLUMNS, load_as_built, parse_as_built
from inventory.delivered.assets import AssetError
from inventory.site import load_site

HEADER = ",".join(COLUMNS)
LINE = "gpu001:ib0,gpu001,ib0,ibl001,p1,aoc-200g-100m,SN1,5,2026-11-20,Jo"


def test_lines_are_read_and_an_empty_length_is_none() -> None:
    frame = parse_as_built(
        f"{HEADER}\n{LINE}\n{LINE.replace('ib0', 'ib1').replace('p1', 'p2').replace('SN1,5', ',')}\n"
    )
    assert frame.index.tolist() == ["gpu001:ib0", "gpu001:ib1"]
    assert frame.at["gpu001:ib0", "length_m"] == 5
    assert frame["length_m"].isna().tolist() == [False, True]


def test_a_site_without_installed_cables_has_none() -> None:
    assert load_as_built(load_site("lab")).empty
    assert load_as_built(load_site("b200-256-roce")).empty


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE + ",x", "11 cells, expected 10"),
        (LINE.replace(",ibl001", ","), "gpu001:ib0: b_device is empty"),
        (LINE.replace(",5,", ",0,"), "length_m '0' is no length"),
        (LINE.replace(",5,", ",nan,"), "length_m 'nan' is no length"),
        (LINE.replace("2026-11-20", "20.11.2026"), "installed_on '20.11.2026' is no day"),
        (f"{LINE}\n{LINE}", "cable gpu001:ib0 is already in line 2"),
        (f"{LINE}\n{LINE.replace('gpu001:ib0', 'x').replace('p1', 'p2')}", "port gpu001:ib0 is already in line 2"),
        (f"{LINE}\n{LINE.replace('ib0', 'ib1').replace('p1', 'p2')}", "serial SN1 is already in line 2"),
    ],
)
def test_a_broken_line_is_named(line: str, message: str) -> None:
    with pytest.raises(AssetError) as caught:
        parse_as_built(f"{HEADER}\n{line}\n")
    assert message in str(caught.value)
