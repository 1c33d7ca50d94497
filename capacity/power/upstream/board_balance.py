"""Balance of the lines of distribution boards: each panel or busway, and all of a feed together (S088).

In: the frames `outlets`, `circuits` and `elements` of the plan, with all feeds up. Out: the line currents of each board, their
difference, and POWER-BOARD-BALANCE. What has no outlet of its own (power shelves, the draw of a rack PDU itself) lies evenly on
all lines.

The difference is in percent of the mean line current, but of at least half of what a line of the board carries
(capacity.power.rack.phase_balance.representative_pct).
"""

import math

import numpy as np
import pandas as pd

from capacity.power.rack import line_currents, phase_balance
from capacity.power.upstream.loading import line_limit_a
from capacity.worst import exceeds, top_row
from inventory.findings import Finding, finding, remedy
from inventory.site import Site

STEP_MOST_PCT = 10.0
"""What step S088 allows on a distribution board."""
LIMIT = "board_imbalance_pct"
PANEL, FEED = "panel", "feed"


def boards(site: Site, outlets: pd.DataFrame, circuits: pd.DataFrame, elements: pd.DataFrame) -> pd.DataFrame:
    """One row a panel, then one a feed: name, kind (panel, feed), feed, L1, L2, L3 (A), half_a (half of what a line carries),
    imbalance_pct. Without a planned supply no rows. Feeds are named by their letter.
    """
    columns = ["name", "kind", "feed", *line_currents.LINES, "half_a", "imbalance_pct"]
    panels = elements[elements["kind"] == PANEL].reset_index(drop=True)
    if panels.empty or circuits.empty:
        return pd.DataFrame(columns=columns)
    own = elements[elements["kind"] == "circuit"].set_index("name")["upstream"]
    panel_of = pd.Index(panels["name"]).get_indexer(pd.Index(own.reindex(circuits["circuit"])))
    used = outlets[outlets["device"] != ""]
    at = pd.Index(circuits["pdu"]).get_indexer(pd.Index(used["pdu"]))
    leg, between = line_currents.of_outlets(list(used["phase"]))
    watts = used["load_w"].to_numpy(dtype=np.float64)
    even = circuits["load_kw"].to_numpy(dtype=np.float64) * 1000 - np.bincount(at, watts, minlength=len(circuits))
    legs = line_currents.leg_watts(leg, at, watts, np.maximum(even, 0.0))
    of_panel = np.zeros((len(panels), line_currents.WIDTH))
    np.add.at(of_panel, panel_of, legs)
    feeds = pd.Index(panels["feed"].unique())
    of_feed = np.zeros((len(feeds), line_currents.WIDTH))
    np.add.at(of_feed, feeds.get_indexer(pd.Index(panels["feed"])), of_panel)
    half = (line_limit_a(panels, site.power.derating) / 2).to_numpy(dtype=np.float64)
    first = panels.groupby("feed", sort=False)["voltage_v"].first()
    volts = np.concatenate([panels["voltage_v"].to_numpy(dtype=np.float64), first.reindex(feeds).to_numpy(np.float64)])
    lines = line_currents.Legs(
        leg, between, volts, np.full(len(volts), 3, dtype=np.int64), site.power.power_factor
    ).line_a(np.concatenate([of_panel, of_feed]))
    halves = np.concatenate([half, pd.Series(half).groupby(panels["feed"], sort=False).sum().reindex(feeds)])
    spread = lines.max(axis=1) - lines.min(axis=1)
    return pd.DataFrame(
        {
            "name": [*panels["name"], *feeds],
            "kind": [*[PANEL] * len(panels), *[FEED] * len(feeds)],
            "feed": [*panels["feed"], *feeds],
            **{name: lines[:, i].round(6) for i, name in enumerate(line_currents.LINES)},
            "half_a": halves.round(6),
            "imbalance_pct": phase_balance.representative_pct(spread, lines.mean(axis=1), halves).round(6),
        }
    )[columns]


def limit_of(site: Site) -> tuple[float, str]:
    """The limit of boards in percent and its source: the site's, where it is stricter than the step."""
    own = site.limits.get(LIMIT)
    if own is not None and own.value <= STEP_MOST_PCT:
        return float(own.value), f"site limits.{LIMIT}"
    return STEP_MOST_PCT, "step S088"


def check(site: Site, judged: pd.DataFrame) -> list[Finding]:
    """POWER-BOARD-BALANCE of the board of `boards` whose lines differ most, where S088 allows less."""
    limit, source = limit_of(site)
    over = judged[[exceeds(float(value), limit) for value in judged["imbalance_pct"]]]
    if over.empty:
        return []
    worst = top_row(over, over["imbalance_pct"])
    amps = [float(worst[line]) for line in line_currents.LINES]
    full, empty = int(np.argmax(amps)), int(np.argmin(amps))
    return [
        finding(
            "POWER-BOARD-BALANCE",
            str(worst["name"]) if worst["kind"] == PANEL else f"feed {worst['name']}",
            case=str(worst["kind"]),
            limit=limit,
            limit_source=source,
            imbalance_pct=math.ceil(float(worst["imbalance_pct"]) * 1000 - 1e-6) / 1000,
            full_a=round(amps[full], 3),
            empty_a=round(amps[empty], 3),
            count=len(over),
            words={"full": line_currents.LINES[full], "empty": line_currents.LINES[empty]},
            remedies=[remedy(fix="racks-on-other-lines"), remedy(fix="racks-of-three")],
        )
    ]
