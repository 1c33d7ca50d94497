"""Cables as installed against the plan's cables. Pure: frames in, findings out.

    AS-BUILT-CABLE   a cable that is recorded at other ports than planned, or that the plan does not have
    AS-BUILT-PART    a cable of another part than planned, or shorter than its route

A record is what somebody wrote down; what is there, discovery says (network/compare.py). Cables that are not recorded yet are no
finding.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from inventory.findings import Finding, finding, remedy


def differences(cables: pd.DataFrame, built: pd.DataFrame) -> list[Finding]:
    """Differences between the plan's cables and `built` (inventory.delivered.as_built), by cable id; any end may be the first."""
    columns = ["a_device", "a_port", "b_device", "b_port", "part", "length_m"]
    planned = cables.set_index("cable_id")[columns].to_dict("index")
    return [one for cable, row in built[columns].to_dict("index").items() for one in _of(str(cable), row, planned)]


def as_installed(cables: pd.DataFrame, built: pd.DataFrame) -> pd.DataFrame:
    """The plan's cables with the ends that `built` records. ValueError for a cable that the plan does not have, and for a port that
    has two cables then: the other one is not recorded where it is.
    """
    made = cables.copy()
    unknown = built.index.difference(pd.Index(cables["cable_id"]))
    if len(unknown):
        raise ValueError(f"{unknown[0]} is no cable of the plan: remove its line, or plan it")
    at = pd.Index(made["cable_id"]).get_indexer(built.index)
    for column in ("a_device", "a_port", "b_device", "b_port"):
        made.loc[made.index[at], column] = built[column].to_numpy()
    ends = pd.concat([made[f"{end}_device"] + ":" + made[f"{end}_port"] for end in "ab"])
    twice = ends[ends.duplicated()]
    if len(twice):
        both = made["cable_id"].reindex(ends.index[ends == twice.iloc[0]])
        raise ValueError(f"{twice.iloc[0]} would have two cables, {' and '.join(both)}: record both where they are")
    return made


def unlike(cables: pd.DataFrame, other: pd.DataFrame) -> list[str]:
    """Cables of the first frame that the second does not have between these ends, as 'A:PORT -- B:PORT'."""
    columns = ["a_device", "a_port", "b_device", "b_port"]
    there = {frozenset(_ends(row)) for row in other[columns].to_dict("records")}
    return [
        " -- ".join(ends) for row in cables[columns].to_dict("records") if frozenset(ends := _ends(row)) not in there
    ]


def _of(cable: str, row: dict[Any, Any], planned: dict[Any, dict[Any, Any]]) -> Iterator[Finding]:
    ends = _ends(row)
    if cable not in planned:
        words = {"cable": cable, "ends": " -- ".join(ends)}
        yield finding("AS-BUILT-CABLE", _device(ends[0]), case="unknown", ports=ends, words=words)
        return
    wanted = _ends(planned[cable])
    if set(ends) != set(wanted):
        yield finding(
            "AS-BUILT-CABLE",
            _device(wanted[0]),
            case="ends",
            ports=wanted,
            words={"cable": cable, "ends": " -- ".join(ends), "planned": " -- ".join(wanted)},
            remedies=[remedy(fix="move"), remedy(fix="record")],
        )
    if row["part"] != planned[cable]["part"]:
        words = {"cable": cable, "part": row["part"], "planned": planned[cable]["part"]}
        yield finding("AS-BUILT-PART", _device(wanted[0]), case="part", ports=wanted, words=words)
    length_m, needed_m = float(row["length_m"]), float(planned[cable]["length_m"])
    if length_m < needed_m:  # an empty cell is NaN and less than nothing
        yield finding(
            "AS-BUILT-PART",
            _device(wanted[0]),
            case="short",
            limit=needed_m,
            limit_source="plan cables.length_m",
            ports=wanted,
            words={"cable": cable},
            length_m=length_m,
        )


def _ends(row: dict[Any, Any]) -> tuple[str, str]:
    return f"{row['a_device']}:{row['a_port']}", f"{row['b_device']}:{row['b_port']}"


def _device(end: str) -> str:
    return end.rpartition(":")[0]
