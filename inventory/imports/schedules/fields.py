"""What `bringup export programme-…` writes beside plain tasks, and `bringup import programme` reads again.

A scheduling program has one duration per task and no dependency groups. What an activity has besides stands in user-defined
fields (P6) or custom fields (Project), under labels of their own, so that a planner sees it as columns and sends it back.
"""

import re
from dataclasses import dataclass
from typing import Literal

NAME, KIND, GROUP, TRANCHE = "Bringup name", "Bringup kind", "Bringup group", "Bringup tranche"
NEEDS_ROOM, PILOT = "Bringup needs room", "Bringup pilot"
MIN_WEEKS, LIKELY_WEEKS, MAX_WEEKS = "Bringup min weeks", "Bringup likely weeks", "Bringup max weeks"
SAFE_START, P50_FINISH, P90_FINISH, NEEDED_BY = (
    "Bringup latest safe start",
    "Bringup P50 finish",
    "Bringup P90 finish",
    "Bringup needed by",
)
SOURCE = "Bringup source"
"""Topic of the note of P6 that holds the source of an estimate; Project has one note per task."""

ACTIVITY, ITEM, PART, FRAME, TIE = "activity", "item", "tranche", "frame", "tie"
"""Kinds: an activity of the schedule; an item of leadtimes; one tranche of an order; what the groups say, which is made anew
with every plan; a moment that carries a lag."""


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


def plain_text(text: str) -> str:
    """Text without signs that XML or an XER file cannot hold; a space stands in their place."""
    return _CONTROL.sub(" ", text)


@dataclass(frozen=True)
class OwnField:
    """A field of a task: its type, and its number and name in Project (PjCustomField: 188743680 and the field's own)."""

    type: Literal["text", "number", "date"]
    project_id: int
    project_name: str


OWN_FIELDS = {
    NAME: OwnField("text", 188743731, "Text1"),
    KIND: OwnField("text", 188743734, "Text2"),
    GROUP: OwnField("text", 188743737, "Text3"),
    TRANCHE: OwnField("text", 188743740, "Text4"),
    NEEDS_ROOM: OwnField("text", 188743743, "Text5"),
    PILOT: OwnField("text", 188743746, "Text6"),
    MIN_WEEKS: OwnField("number", 188743767, "Number1"),
    LIKELY_WEEKS: OwnField("number", 188743768, "Number2"),
    MAX_WEEKS: OwnField("number", 188743769, "Number3"),
    SAFE_START: OwnField("date", 188743945, "Date1"),
    P50_FINISH: OwnField("date", 188743946, "Date2"),
    P90_FINISH: OwnField("date", 188743947, "Date3"),
    NEEDED_BY: OwnField("date", 188743948, "Date4"),
}
"""Fields by label, in the order of their columns."""
