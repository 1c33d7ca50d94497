"""The first site file: at most 15 lines, refused with what there is, and what asks for credentials."""

import pytest
import yaml

from inventory.paths import repo_root
from inventory.site import SiteError, parse_site
from inventory.site.effective import offers
from inventory.site.needs import credentials_missing
from inventory.site.new import FABRICS, NewSiteError, Wanted, site_text
from tests.first_sites import FIRST, text_of


@pytest.mark.parametrize("name", FIRST)
def test_the_file_has_at_most_fifteen_lines_and_reads(name: str) -> None:
    text = text_of(name)
    assert len(text.splitlines()) <= 15
    assert parse_site(text).name == FIRST[name].name


@pytest.mark.parametrize(("gpu", "fabric", "cooling"), offers())
def test_every_offer_can_be_asked_for(gpu: str, fabric: str, cooling: str) -> None:
    text = site_text(Wanted("hall", gpu=gpu, fabric=fabric, cooling=cooling, servers=72))
    assert parse_site(text).server.count == 72
    assert FABRICS[fabric] in text


def test_the_grid_limit_is_written_as_firm_power() -> None:
    values = yaml.safe_load(site_text(Wanted("hall", gpu="h100", fabric="ib", servers=64, power_kw=1200)))
    assert values["electrical"] == {"utility": {"firm_mva": 1.2}}


def test_addressing_is_written_and_never_overlaps() -> None:
    values = yaml.safe_load(text_of("h100"))
    values["addressing"]["links"] = values["addressing"]["loopbacks"]
    with pytest.raises(SiteError) as caught:
        parse_site(yaml.safe_dump(values))
    assert caught.value.problems[0].path[0] == "addressing"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted("hall", gpu="h10", fabric="ib", servers=4), "nearest: h100"),
        (Wanted("hall", gpu="tpu", fabric="ib", servers=4), "there are designs for "),
        (Wanted("hall", gpu="h100", fabric="ib", cooling="liquid", servers=4), "--fabric ib --cooling air"),
        (Wanted("hall", gpu="h100", fabric="ib", gpus=12), "use 16"),
        (Wanted("hall", gpu="h100", fabric="ib", racks=2), "use --servers or --gpus"),
        (Wanted("hall", gpu="gb300", fabric="ib", servers=20), "use --racks 2, 36 trays"),
        (Wanted("hall", gpu="h100", fabric="ib"), "how large?"),
    ],
)
def test_what_has_no_design_or_is_not_even_is_refused_with_what_there_is(wanted: Wanted, says: str) -> None:
    with pytest.raises(NewSiteError) as caught:
        site_text(wanted)
    assert says in str(caught.value)


def test_credentials_are_asked_for_where_they_are_used_with_a_block_to_paste() -> None:
    text = text_of("h100")
    site = parse_site(text)
    with pytest.raises(SiteError) as caught:
        _ = site.credentials
    problem = caught.value.problems[0]
    assert problem.path == ("credentials",)
    shown = str(caught.value).split("  paste:\n\n")[1]
    pasted = parse_site(text + shown)
    assert pasted.credentials.snmp.user == "bringup"
    assert credentials_missing(site.name).paste == problem.paste


def test_the_quickstart_lists_every_offer() -> None:
    text = (repo_root() / "docs" / "quickstart.md").read_text(encoding="utf-8")
    for (gpu, fabric, _), slug in offers().items():
        assert f"| `{gpu}` | `{fabric}` | `{slug}` |" in text
