"""The gate's page as a person sees it, in Chromium: blockers and who mends them, at the width of a screen and of a phone."""

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from inventory.site import Site
from tests import browser
from tests.validation.bench import NOW, SmallPlan
from tests.validation.bench import judged as judge
from tests.validation.recordings import made
from validation.evidence import Contents
from validation.gate_report import LOOK, OPEN_FIRST, render_broken_page, render_page
from validation.next_steps import todo, who_and_what
from validation.program import checks_of_items
from validation.register import Register
from validation.training_story import tell
from validation.verdict import SubjectVerdict, Verdict

pytestmark = pytest.mark.needs("chromium")
SCREEN_PX, PHONE_PX = 1280, 390
SERIAL = "SN" + "0123456789ABCDEF" * 12
"""Longer than any screen is wide, and without a place to break."""

SEEN = """
  const box = one => one.getBoundingClientRect();
  const seen = one => one.checkVisibility() && box(one).width > 0 && box(one).height > 0;
  const words = one => one.innerText.replace(/\\s+/g, " ").trim();
  const sections = {};
  for (const head of page.querySelectorAll("h2"))
    if (head.nextElementSibling?.tagName === "TABLE")
      sections[words(head)] = [...head.nextElementSibling.querySelectorAll("tbody tr")].filter(seen).map(
        row => [...row.cells].filter(seen).map(words));
  const filtered = name => {
    page.getElementById("f-" + name).click();
    return [...page.querySelectorAll("tr.item")].filter(seen).map(row => words(row.cells[0]));
  };
  const filters = page.querySelector(".filter");
  const fail = filters && filtered("fail"), all = filters && filtered("all");
  for (const one of page.querySelectorAll("details")) one.open = true;
  const edge = page.documentElement.clientWidth + 1;
  const out = [...page.querySelectorAll("body *")].filter(
    one => seen(one) && !one.closest(".wide") && box(one).right > edge);
  return {
    title: page.title, head: words(page.querySelector("h1")), colour: getComputedStyle(page.querySelector("h1")).color,
    text: words(page.body), sections, fail, all,
    out: out.slice(0, 5).map(one => one.outerHTML.slice(0, 200)),
    width: [page.documentElement.scrollWidth, page.documentElement.clientWidth],
    pointing: page.querySelectorAll("a, [src], script").length,
  };
"""
"""What a person sees of the page: words in the order of the screen, tables by their heading, the items that each filter leaves."""


@pytest.fixture(scope="module")
def verdict(register: Register, real_site: Site) -> Verdict:
    """A verdict with items of each status, one of them with words of a device that are longer than a line."""
    found = judge(register, SmallPlan(real_site), Contents(), (), NOW, checked=checks_of_items())
    items = list(found.items)
    missing = [at for at, one in enumerate(items) if one.status == "missing" and one.kind != "attested"]
    for status, at in zip((*OPEN_FIRST, "pass"), missing, strict=False):
        detail = f"gpu001: it says {SERIAL}, and not what was delivered" if status == "fail" else f"it is {status}"
        subjects = tuple(SubjectVerdict(f"gpu{n:03}", status, detail) for n in range(1, 300))
        items[at] = dataclasses.replace(items[at], status=status, detail=detail, subjects=subjects)
    counts = Counter(one.status for one in items)
    reasons = (*found.reasons, f"no switch is called {SERIAL}")
    return dataclasses.replace(found, items=tuple(items), counts=counts, reasons=reasons)


@pytest.mark.parametrize("width_px", [SCREEN_PX, PHONE_PX])
def test_a_person_sees_each_blocker_and_who_mends_it(
    register: Register, verdict: Verdict, tmp_path: Path, width_px: int
) -> None:
    seen = browser.shown(render_page(verdict, register), SEEN, tmp_path, width_px)
    assert (seen["title"], seen["head"]) == ("NO GO-LIVE (lab)", "NO GO-LIVE (lab)")
    assert seen["colour"] == "rgb(179, 38, 30)"
    for said in (*verdict.reasons, *verdict.notices):
        assert " ".join(said.split()) in seen["text"]
    lines = seen["sections"]["Who must do what"]
    assert [line[:2] for line in lines] == [[one.who, one.what] for one in todo(verdict, register)]
    assert all(
        line[2].startswith(f"{len(one.items)}: {one.items[0]}")
        for line, one in zip(lines, todo(verdict, register), strict=True)
    )
    first = next(one for one in verdict.items if one.status == "fail")
    acts = who_and_what(first, register, verdict)
    assert acts is not None
    symbol, _, words = LOOK["fail"]
    assert seen["sections"]["Open items"][0] == [first.item, first.title, f"{symbol}{words}", first.detail, acts[0]]
    assert seen["all"] == [one.item for step in register.steps for one in verdict.items if one.step == step]
    assert seen["fail"] == [one.item for one in verdict.items if one.status == "fail"]


@pytest.mark.parametrize("width_px", [SCREEN_PX, PHONE_PX])
def test_nothing_of_the_page_stands_beside_the_screen(
    register: Register, verdict: Verdict, tmp_path: Path, width_px: int
) -> None:
    """Pictures of a training are wider than a phone, and scroll in their own frame."""
    story = tell(made()).as_dict()
    for page in (render_page(verdict, register, story), render_broken_page("lab", [f"line 3: {SERIAL}"], NOW)):
        seen = browser.shown(page, SEEN, tmp_path, width_px)
        assert seen["out"] == []
        assert seen["width"][0] == seen["width"][1]
        assert seen["pointing"] == 0


def test_blockers_stand_above_a_training_that_went_well(register: Register, verdict: Verdict, tmp_path: Path) -> None:
    story = tell(made()).as_dict()
    blocked = browser.shown(render_page(verdict, register, story), SEEN, tmp_path, PHONE_PX)["text"]
    passed = dataclasses.replace(verdict, word="GO-LIVE", exit_code=0)
    open_ = browser.shown(render_page(passed, register, story), SEEN, tmp_path, PHONE_PX)["text"]
    lost = "A training job lost a node"
    assert blocked.index("Open items") < blocked.index(lost)
    assert open_.index(lost) < open_.index("Open items")
