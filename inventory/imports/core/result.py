"""What every import returns: a frame, findings, and the text of each file that it would write beside the site file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from inventory.findings import Finding

SHOWN = 5
"""Names that a message lists before it says how many there are."""


OUTCOMES = {
    **dict.fromkeys(("passed", "pass", "ok", "accept", "accepted", "good", "done"), "passed"),
    **dict.fromkeys(("failed", "fail", "hold", "rma", "reject", "rejected", "nok"), "failed"),
}
"""What people write for the outcome of a test or an inspection, without case and signs."""


@dataclass(frozen=True)
class Imported:
    """`files` maps a path relative to the site's folder to its new text; `summary` is one sentence for a person.

    Writing is refused while a finding is an error: nothing is half imported.
    """

    rows: pd.DataFrame
    summary: str
    findings: tuple[Finding, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Whether a finding forbids writing."""
        return any(finding.severity == "error" for finding in self.findings)


def some(names: Iterable[object]) -> str:
    """The first names of a list, and how many more there are."""
    listed: Sequence[str] = [str(name) for name in names]
    rest = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + rest
