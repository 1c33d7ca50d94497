"""The one-line diagram read back: what it leaves out, or says otherwise than the tree of the supply."""

import re
from xml.etree import ElementTree

from capacity.model import Plan

SVG = "{http://www.w3.org/2000/svg}"
TIP = re.compile(r"(?P<name>\S+): .* (?P<load>[\d,]+) kW of (?P<limit>[\d,]+), worst (?P<worst>[\d,]+)")
"""What the diagram says of an element when pointed at."""


def drawn_wrong(plan: Plan, drawing: str) -> tuple[list[str], int]:
    """What the one-line diagram leaves out or says otherwise than the tree, and the trains that feed racks: a transformer, its
    board, and what hangs on it.
    """
    elements = plan.elements.set_index("name")
    root = ElementTree.fromstring(drawing)
    words = [text.text or "" for text in root.iter(f"{SVG}text")]
    named = {word.split("  ")[0] for word in words}
    kinds = elements["kind"]
    problems = [
        f"{name} is not drawn" for name in elements.index[kinds.isin(["utility", "intake"])] if name not in named
    ]

    board = set(elements.loc[plan.circuits["circuit"], "upstream"])
    while above := [name for name in board if kinds.get(name, "") not in ("switchboard", "")]:
        board = board - set(above) | {elements.at[name, "upstream"] for name in above}
    if unfed := board - set(elements.index):
        return [*problems, f"racks hang on {', '.join(map(repr, sorted(unfed)))}, which the tree does not have"], 0
    for feed in plan.site.power.feeds:
        mine = {name for name in board if elements.at[name, "feed"] == feed}
        drawn = mine & named
        if mine - drawn and not any(word.startswith(f"{len(drawn)} of {len(mine)} trains drawn") for word in words):
            problems.append(f"feed {feed}: {min(mine - drawn)} is neither drawn nor counted")

    said = (TIP.match(title.text or "") for title in root.iter(f"{SVG}title"))
    figures = {tip["name"]: (tip["load"], tip["limit"], tip["worst"]) for tip in said if tip}
    problems += [f"{name} is not drawn" for name in elements.index[kinds == "generators"] if name not in figures]
    problems += [f"{name} is drawn and the tree has none" for name in figures if name not in elements.index]
    for name, told in figures.items():
        if name not in elements.index:
            continue
        row = elements.loc[name]
        if told != tuple(f"{row[column]:,.0f}" for column in ("load_kw", "limit_kw", "worst_kw")):
            problems.append(f"{name} is drawn with {told[0]} kW of {told[1]}, worst {told[2]}; the tree says otherwise")
    if not figures:
        problems.append("no element is drawn with its load")
    return problems, len(board)
