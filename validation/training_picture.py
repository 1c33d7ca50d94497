"""The story of an interrupted training run as pictures: loss and nodes over time, and the losses of both runs by step.

In: a story as plain data (validation/training_story.py, Story.as_dict). Out: SVG that takes its colours from the page's
variables, so that it follows a light or dark page. Pure text.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capacity.outputs.report.svg import element, number, picture, text, title

WIDTH = 1120
LEFT, RIGHT = 76, 24
LOSS_TOP, LOSS_HEIGHT = 64, 230
LANE_HEIGHT, LANE_GAP = 24, 8
GLYPH = 7.5
"""Width that a letter inside a bar needs; words that do not fit are left to the legend."""
LOSS_TICKS = 12
TICKS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1200)
LANES = {
    "training": "training",
    "alone": "one node resumes a copy",
    "waiting": "waits for a peer that is gone",
    "dark": "no power",
    "starting": "starts",
}
"""Kinds of bars, in the order of the legend, and their words."""
FLAGS = ("noticed", "node_down", "running", "resumed", "caught_up", "node_back")
FLAG_WORDS = {
    "noticed": "noticed",
    "node_down": "Slurm: node down",
    "running": "Slurm: job starts again",
    "resumed": "training again",
    "caught_up": "caught up",
    "node_back": "node back",
}


class Scale:
    """A linear scale from values to coordinates."""

    def __init__(self, first: float, last: float, start: float, end: float) -> None:
        self.first, self.start = first, start
        self.factor = (end - start) / (last - first or 1.0)

    def __call__(self, value: float) -> float:
        return self.start + (value - self.first) * self.factor


def polyline(points: Sequence[tuple[float, float]], cls: str) -> str:
    """A line through points."""
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return element("path", d=path, cls=cls) if points else ""


def losses(story: Mapping[str, Any]) -> tuple[float, float]:
    """(0, a little above the highest loss)."""
    values = [loss for points in story["curves"].values() for _, _, loss in points]
    return 0.0, max(values) * 1.06


def step_between(last: float, most: int) -> float:
    """The smallest round number that divides `last` into at most `most` parts."""
    return next((tick for tick in TICKS if last / tick <= most), last)


def by_time(story: Mapping[str, Any]) -> str:
    """Loss over seconds from the cut, and below it what each node did."""
    nodes = list(story["lanes"])
    spans = [bar for bars in story["lanes"].values() for bar in bars]
    first = min([begin for _, begin, _ in spans] + [story["curves"]["undisturbed"][0][0]]) - 0.5
    last = max(end for _, _, end in spans) + 0.5
    x = Scale(first, last, LEFT, WIDTH - RIGHT)
    y = Scale(*losses(story), LOSS_TOP + LOSS_HEIGHT, LOSS_TOP)
    lanes_top = LOSS_TOP + LOSS_HEIGHT + 44
    height = lanes_top + len(nodes) * (LANE_HEIGHT + LANE_GAP) + 4
    body = [
        *_time_axis(x, first, last, lanes_top - 26, height - 4),
        *_loss_axis(y),
        *_gap(story, x),
        *_time_curves(story, x, y),
        *_lanes(story, x, lanes_top),
        *_cut(story, x, height - 4),
        *_flags(story, x, height - 4),
        *_gap_words(story, x),
    ]
    label = (
        f"Loss over time: {story['victim']} loses its power at 0 s, training goes on after "
        f"{story['stages']['resumed']:.0f} s from step {story['resumed_step']}"
    )
    return picture(WIDTH, height, label, body, "story")


def _time_axis(x: Scale, first: float, last: float, middle: float, bottom: float) -> Iterator[str]:
    tick = step_between(last - first, 14)
    begin = -(-first // tick) * tick
    for value in (begin + tick * count for count in range(int((last - begin) / tick) + 1)):
        yield element("line", x1=x(value), x2=x(value), y1=LOSS_TOP, y2=bottom, cls="grid")
        yield text(x(value), middle + 8, f"{value:+.0f} s" if value else "0 s", cls="tick", text_anchor="middle")


def _loss_axis(y: Scale) -> Iterator[str]:
    for loss in range(LOSS_TICKS):
        at = y(loss)
        if at < LOSS_TOP:
            return
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, cls="grid")
        yield text(LEFT - 8, at + 4, loss, cls="tick", text_anchor="end")
    yield ""


def _gap(story: Mapping[str, Any], x: Scale) -> Iterator[str]:
    begin, end = x(0.0), x(story["stages"]["resumed"])
    yield element("rect", x=begin, y=LOSS_TOP, width=end - begin, height=LOSS_HEIGHT, cls="gap")


def _gap_words(story: Mapping[str, Any], x: Scale) -> Iterator[str]:
    begin, end = x(0.0), x(story["stages"]["resumed"])
    words = f"no training: {story['stages']['resumed']:.1f} s"
    yield text((begin + end) / 2, LOSS_TOP + LOSS_HEIGHT / 2, words, cls="loud", text_anchor="middle")
    lost = f"work lost: {story['lost_steps']} steps, {story['lost_s']:.1f} s of training"
    yield text((begin + end) / 2, LOSS_TOP + LOSS_HEIGHT / 2 + 20, lost, cls="soft", text_anchor="middle")


def _time_curves(story: Mapping[str, Any], x: Scale, y: Scale) -> Iterator[str]:
    curves = story["curves"]
    points = {name: [(x(at), y(loss)) for at, _, loss in curve] for name, curve in curves.items()}
    redone = [(x(at), y(loss)) for at, step, loss in curves["before"] if step > story["resumed_step"]]
    yield polyline(points["undisturbed"], "undisturbed")
    yield polyline(points["before"], "run")
    yield polyline(redone, "redone")
    yield polyline(points["after"], "run")
    kept = next(
        (
            p
            for p, (_, step, _) in zip(points["before"], curves["before"], strict=True)
            if step == story["resumed_step"]
        ),
        None,
    )
    if kept:
        yield polyline([kept, points["after"][0]], "back")
        yield element(
            "circle", title(f"checkpoint of step {story['resumed_step']}"), cx=kept[0], cy=kept[1], r=5, cls="saved"
        )
        yield text(kept[0], kept[1] + 24, f"checkpoint {story['resumed_step']}", cls="soft", text_anchor="middle")
    for name in ("undisturbed", "after"):
        end = points[name][-1]
        yield element(
            "circle",
            title(f"final loss {story['finals']['undisturbed']['loss_hex']}"),
            cx=end[0],
            cy=end[1],
            r=4,
            cls="final",
        )


def _lanes(story: Mapping[str, Any], x: Scale, top: float) -> Iterator[str]:
    for row, (node, bars) in enumerate(story["lanes"].items()):
        y = top + row * (LANE_HEIGHT + LANE_GAP)
        yield text(
            LEFT - 8, y + LANE_HEIGHT - 7, node, cls="victim" if node == story["victim"] else "node", text_anchor="end"
        )
        yield element("rect", x=LEFT, y=y, width=WIDTH - RIGHT - LEFT, height=LANE_HEIGHT, rx=4, cls="lane")
        for kind, begin, end in bars:
            width = max(x(end) - x(begin), 2.0)
            words = f"{node} {LANES[kind]}, {begin:+.1f} s to {end:+.1f} s"
            yield element(
                "rect", title(words), x=x(begin), y=y, width=width, height=LANE_HEIGHT, rx=4, cls=f"bar-{kind}"
            )
            label = f"{LANES[kind]}, {end - begin:.0f} s"
            if width > len(label) * GLYPH:
                yield text(x(begin) + width / 2, y + LANE_HEIGHT - 7, label, cls="inside", text_anchor="middle")


def _cut(story: Mapping[str, Any], x: Scale, bottom: float) -> Iterator[str]:
    at = x(0.0)
    yield element("line", x1=at, x2=at, y1=LOSS_TOP - 34, y2=bottom, cls="cut")
    yield element("path", d=f"M{number(at + 3)} {LOSS_TOP - 52}l-10 18h7l-4 14 12 -19h-7l5 -13z", cls="bolt")
    yield text(at + 16, LOSS_TOP - 38, f"{story['victim']} loses its power", cls="loud")


def _flags(story: Mapping[str, Any], x: Scale, bottom: float) -> Iterator[str]:
    """A numbered flag per stage; those that would touch stand on two rows."""
    row_ends = [-1e9, -1e9]
    for count, key in enumerate(flagged(story), 1):
        at = x(story["stages"][key])
        row = 0 if at - row_ends[0] > 22 else 1
        row_ends[row] = at
        y = LOSS_TOP - 12 + row * 22
        words = f"{FLAG_WORDS[key]} after {story['stages'][key]:.1f} s"
        yield element("line", x1=at, x2=at, y1=y + 9, y2=bottom, cls=f"flag flag-{key}")
        yield element("circle", title(words), cx=at, cy=y, r=9.5, cls=f"badge badge-{key}")
        yield text(at, y + 4, count, cls="badge-number", text_anchor="middle")


def flagged(story: Mapping[str, Any]) -> list[str]:
    """The stages that get a flag, in the order in which they came."""
    return sorted((key for key in FLAGS if key in story["stages"]), key=lambda key: float(story["stages"][key]))


def flags(story: Mapping[str, Any]) -> list[tuple[int, str, float]]:
    """(number, words, seconds) of the flags in the picture, for its legend."""
    words = {**FLAG_WORDS, "noticed": f"{story['first_by']} noticed first"}
    return [(count, words[key], story["stages"][key]) for count, key in enumerate(flagged(story), 1)]


def by_step(story: Mapping[str, Any]) -> str:
    """Loss by step: the undisturbed run as a broad band, the interrupted one as a line on it."""
    height, top, bottom = 250, 20, 214
    curves = story["curves"]
    steps = [step for points in curves.values() for _, step, _ in points]
    x, y = Scale(0, max(steps), LEFT, WIDTH - RIGHT), Scale(*losses(story), bottom, top)
    tick = int(step_between(max(steps), 14))
    at = {name: [(x(step), y(loss)) for _, step, loss in points] for name, points in curves.items()}
    body = [
        *(element("line", x1=x(s), x2=x(s), y1=top, y2=bottom, cls="grid") for s in range(0, max(steps) + 1, tick)),
        *(text(x(s), bottom + 18, s, cls="tick", text_anchor="middle") for s in range(0, max(steps) + 1, tick)),
        *(
            element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(v), y2=y(v), cls="grid")
            for v in range(min(int(losses(story)[1]) + 1, LOSS_TICKS))
        ),
        *(
            text(LEFT - 8, y(v) + 4, v, cls="tick", text_anchor="end")
            for v in range(min(int(losses(story)[1]) + 1, LOSS_TICKS))
        ),
        polyline(at["undisturbed"], "band"),
        polyline(at["before"], "run"),
        polyline(at["after"], "run"),
        *_step_marks(story, x, top, bottom),
        text(WIDTH - RIGHT, bottom + 34, "step", cls="tick", text_anchor="end"),
    ]
    label = f"Loss by step: both runs end at {story['finals']['undisturbed']['loss_hex']}"
    return picture(WIDTH, height, label, body, "story")


def _step_marks(story: Mapping[str, Any], x: Scale, top: float, bottom: float) -> Iterator[str]:
    saved, cut = x(story["resumed_step"]), x(story["cut_after_step"])
    yield element(
        "rect",
        title("steps that were done twice"),
        x=saved,
        y=top,
        width=max(cut - saved, 1),
        height=bottom - top,
        cls="gap",
    )
    yield element("line", x1=saved, x2=saved, y1=top, y2=bottom, cls="flag flag-resumed")
    yield element("line", x1=cut, x2=cut, y1=top, y2=bottom, cls="cut")
    yield text(saved - 6, top + 12, f"resumed from {story['resumed_step']}", cls="soft", text_anchor="end")
    yield text(cut + 6, top + 12, f"power cut after {story['cut_after_step']}", cls="soft")
