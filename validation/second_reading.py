"""A sample of nodes is read a second time, by programs of others, and both readings must agree.

In: a node's facts and what testinfra read of it, in the words of validation/facts/second_reader.py. Out: findings. Pure.
An item that one reading lacks was not read. It never counts as agreement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inventory.findings import Finding, finding, remedy
from network.drivers.answers import line
from validation.facts.second_reader import Reading


@dataclass(frozen=True)
class Compared:
    """What a second reading of a node gave: how many items agree, and findings about all others."""

    agreed: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class SecondReadings:
    """The sample of a run: its seed, and for each node of it what the comparison gave."""

    seed: str
    nodes: Mapping[str, Compared] = field(default_factory=dict)


def compare(node: str, first: Reading, second: Reading) -> Compared:
    """What two readings of a node say of each item. A node that could not be read gives one finding, and no agreement."""
    if second.error:
        found = finding("FACTS-NOT-CONFIRMED", node, case="node", words={"problem": line(second.error, 1000)})
        return Compared(0, (found,))
    agreed, findings = 0, list[Finding]()
    for item in sorted({*first.items, *first.unread, *second.items, *second.unread}):
        ours, theirs = first.items.get(item), second.items.get(item)
        if ours is None or theirs is None:
            missing = first if ours is None else second
            why = missing.unread.get(item, "nothing was said")
            words = {
                "item": line(item),
                "problem": line(why, 1000),
                "reader": "the facts" if ours is None else "testinfra",
            }
            findings.append(finding("FACTS-NOT-CONFIRMED", node, case="item", words=words))
        elif line(ours, 4000) != line(theirs, 4000):
            words = {"item": line(item), "ours": line(ours, 1000), "theirs": line(theirs, 1000)}
            findings.append(finding("FACTS-DISAGREE", node, words=words, remedies=[remedy(fix="by-hand")]))
        else:
            agreed += 1
    return Compared(agreed, tuple(findings))
