"""The plan's page: self-contained, well-formed, safe with hostile texts, and the same for the same plan."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.report import electrical, racks, svg
from capacity.outputs.report import page as report
from capacity.outputs.report.page import SECTIONS
from inventory.findings import Finding
from inventory.site import load_site
from tests.plans import plan_of

SITES = ("lab", pytest.param("h100-1000-ib", marks=pytest.mark.soak), "b200-256-roce", "gb300-nvl72-liquid")
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Reads a page: its tags, ids, links and texts; `faults` names tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at line {self.getpos()[0]} closes another tag")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        return [value or "" for _, attribute, value in self.attributes if attribute == name]


@pytest.fixture(scope="module", params=SITES)
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param)


@pytest.fixture(scope="module")
def text(plan: Plan) -> str:
    return report.render(plan)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_is_well_formed(page):
    assert page.faults == []


def test_the_page_fetches_nothing_and_runs_nothing(page, text):
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    references = page.values("href") + page.values("src") + page.values("xlink:href")
    assert references
    assert all(reference.startswith("#") for reference in references)
    assert not re.search(r"@import|url\(", text)


def test_a_policy_forbids_what_the_page_does_not_need(page):
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.values("content")


def test_every_section_is_there_once_and_every_link_leads_to_one(page):
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {anchor for anchor, _ in SECTIONS} <= set(ids)
    assert {reference.removeprefix("#") for reference in page.values("href")} <= set(ids)


def test_the_same_site_gives_the_same_bytes(plan, text):
    assert report.render(build(load_site(plan.site.name))) == text


def test_the_page_names_its_plan_and_every_finding(plan, page):
    words = "".join(page.texts)
    assert plan.hash in words
    assert all(finding.message in words for finding in plan.findings)


def test_every_picture_has_a_name_for_those_who_cannot_see_it(page):
    pictures = page.tags.count("svg")
    assert pictures >= 4
    assert len([value for value in page.values("aria-label") if value]) == pictures


def test_every_switch_of_a_fabric_is_in_its_picture(plan, page):
    switches = plan.devices[(plan.devices["kind"] == "switch") & plan.devices["fabric"].isin(["compute", "inband"])]
    named = {words.split(",")[0] for words in page.texts}
    assert set(switches["name"]) <= named


HOSTILE = '<script>alert("1")</script> & </td> \' onload="x"'


def test_hostile_texts_are_shown_and_never_become_markup(plan):
    finding = Finding("TEST-HOSTILE", "error", HOSTILE, HOSTILE, {}, 3.0, HOSTILE, HOSTILE)
    page = Page(report.render(dataclasses.replace(plan, findings=(finding,))))
    assert page.faults == []
    assert "script" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.texts.count(HOSTILE) == 4


def test_findings_are_counted_and_the_gravest_come_first(plan):
    def finding(severity: str, number: int) -> Finding:
        return Finding(f"TEST-{severity.upper()}", severity, f"subject {number}", "message")  # type: ignore[arg-type]

    found = (finding("info", 1), finding("error", 2), finding("warning", 3), finding("warning", 4))
    text = report.render(dataclasses.replace(plan, findings=found))
    assert "1 error, 2 warnings, 1 note" in text
    assert text.index("TEST-ERROR") < text.index("TEST-WARNING") < text.index("TEST-INFO")


def test_a_plan_without_findings_says_so(plan):
    assert "No findings" in report.render(dataclasses.replace(plan, findings=()))


def test_each_rack_stands_for_one_kind_and_kinds_are_really_alike(plan):
    held = racks.contents(plan.devices, plan.placements, plan.racks, plan.circuits)
    kinds = racks.kinds(held)
    assert sorted(name for names in kinds for name in names) == sorted(plan.racks["name"])
    assert [len(names) for names in kinds] == sorted((len(names) for names in kinds), reverse=True)
    for names in kinds:
        contents = {tuple((t.u_bottom, t.u_height, t.model) for t in held[name]) for name in names}
        assert len(contents) == 1


def test_a_report_is_replaced_as_a_whole(plan, tmp_path):
    path = tmp_path / "deep" / "report.html"
    assert report.write(plan, path) == path
    first = path.read_bytes()
    report.write(plan, path)
    assert path.read_bytes() == first
    assert list(path.parent.iterdir()) == [path]


def test_svg_elements_escape_their_attributes_and_round_coordinates():
    drawn = svg.element("rect", svg.title("a < b"), x=1.04, y=2, fill_opacity="0.5", cls='"x"', rx=None)
    assert drawn == ('<rect x="1" y="2" fill-opacity="0.5" class="&quot;x&quot;"><title>a &lt; b</title></rect>')
    assert svg.text(0, 0, "<b>") == '<text x="0" y="0">&lt;b&gt;</text>'


def test_the_page_names_the_subnet_managers_and_their_ports(plan: Plan, text: str) -> None:
    rows = plan.cables[plan.cables["stage"] == "manager-leaf"]
    named = "".join(
        f".*{a}.*{b}.*{port}" for a, b, port in rows[["a_device", "b_device", "b_port"]].to_numpy().tolist()
    )
    assert len(rows) == len(plan.site.fabric.subnet_managers)
    assert bool(re.search(f"Subnet managers{named}", text, re.DOTALL)) == bool(len(rows))


def test_every_role_that_stands_in_a_rack_is_in_an_elevation() -> None:
    plan = plan_of("h100-1000-ib")
    held = racks.contents(plan.devices, plan.placements, plan.racks, plan.circuits)
    drawn = racks.shown(held, racks.kinds(held), 10)
    assert {t.role for names in drawn for t in held[names[0]]} == set(plan.devices["role"])


def test_the_electrical_headline_has_failures_alone_and_during_maintenance():
    plan = plan_of("h100-1000-ib")
    pairs = next(finding for finding in plan.findings if finding.id == "POWER-MAINTENANCE").numbers
    text = report.render(plan)
    lost, judged = int((plan.failures["servers_lost"] > 0).sum()), len(plan.failures)
    assert f"<b>{lost:,}</b><span>of {judged:,} single failures lose servers</span>" in text
    assert f"<b>{pairs['pairs']:,.0f}</b><span>of {pairs['judged']:,.0f} failures during maintenance do</span>" in text


def test_the_floor_is_drawn_once(plan, text):
    rack = plan.racks["name"].iloc[0]
    assert len(re.findall(rf"<title>{rack}: [^<]*nameplate", text)) == 1


def test_the_table_of_elements_does_not_round_the_rating_of_the_grid_line() -> None:
    """A firm 1.5 MVA was printed as 2 MVA."""
    assert electrical._elements(plan_of("b200-256-roce"))[0][3] == "1.5 MVA"
