"""What `bringup plan` says of assumptions: the study of --sensitivity with its file, and which of them matter most."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from inventory.paths import write_file

if TYPE_CHECKING:
    from capacity.model import Plan
    from capacity.whatif.sensitivity import Sensitivity

FILE = "sensitivity.csv"
MOST_NAMED = 5


def studied(plan: "Plan", folder: Path, anew: bool) -> "Sensitivity | None":
    """The study of this plan: made now, or the one that lies in the folder from an earlier run; None where there is none."""
    from capacity.outputs.tables import inert
    from capacity.whatif import sensitivity

    if anew:
        found = with_bar(plan)
        shown = inert(found.frame.assign(plan=plan.hash))
        write_file(folder / FILE, shown.to_csv(index=False, lineterminator="\n"))
        return found
    try:
        frame = pd.read_csv(folder / FILE)
    except (OSError, ValueError):
        return None
    if not {*sensitivity.COLUMNS, "plan"} <= set(frame.columns) or set(frame["plan"]) != {plan.hash}:
        return None
    return sensitivity.read(frame)


def with_bar(plan: "Plan") -> "Sensitivity":
    """The study, with a bar on standard error while it is made."""
    from capacity.whatif import sensitivity
    from inventory.site.loading import shown_path
    from inventory.site.whatif import Base

    columns = (
        TextColumn("Planning both ends of each assumption"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None)

    def progress(done: int, of: int) -> None:
        bar.start()  # not before the processes have started, which a thread beside them would disturb
        bar.update(task, completed=done, total=of)

    try:
        return sensitivity.study(Base(plan.site, plan.site.given, shown_path(plan.site.path)), progress=progress)
    finally:
        bar.stop()


def as_dict(plan: "Plan", found: "Sensitivity | None") -> dict[str, Any]:
    """Plain data for JSON: how many values are assumed, and the ones that matter most.

    `moves` are the largest changes of power (kW), racks, cost and go-live (days) in `seen_in`: this site, or a typical hall whose
    shares are taken of this plan.
    """
    from capacity.whatif import sensitivity
    from inventory.site.explain import assumptions

    effects = {row["key"]: row["effect"] for row in found.by_key()} if found else {}
    base, most = sensitivity.measures(plan), []
    for one in sensitivity.that_matter(plan.site, found)[:MOST_NAMED]:
        hall = sensitivity.in_typical_hall(plan.site, one) if found is None else None
        most.append(
            {
                "key": one.key,
                "value": one.value,
                "low": one.span.low,
                "high": one.span.high,
                "source": one.span.source,
                "effect": hall.effect if hall is not None else effects.get(one.key),
                "moves": sensitivity.moved(plan.site, one, base, found),
                "seen_in": "this site" if found is not None else hall.named if hall is not None else None,
            }
        )
    return {"count": sum(1 for _ in assumptions(plan.site)), "studied": found is not None, "most_important": most}
