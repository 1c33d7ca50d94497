"""A plan whose cables stay where as_built.csv records them."""

import dataclasses
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from capacity.accepted import files_of, write
from capacity.model import Plan
from inventory.delivered.as_built import AS_BUILT_FILE, load_as_built
from network.as_built import as_installed, unlike


class AsBuiltError(ValueError):
    """The recorded cables cannot be the plan's."""


def kept_as_built(plan: Plan, planned_from: Callable[[Path], Plan]) -> tuple[Plan, int]:
    """The plan with its cables where as_built.csv beside the site file records them, and how many of them that moves.

    `planned_from` plans the site from the accepted state in a folder, which here is a temporary one with the recorded ends.
    AsBuiltError where nothing is recorded, where a record names a cable that is not planned or gives a port two cables, and where
    the planner puts others on these ports.
    """
    file = plan.site.dir / AS_BUILT_FILE
    built = load_as_built(plan.site)
    if built.empty:
        raise AsBuiltError(f"{file} records no cable")
    try:
        installed = as_installed(plan.cables, built)
    except ValueError as problem:
        raise AsBuiltError(f"{file}: {problem}") from None
    changed = unlike(installed, plan.cables)
    if not changed:
        return plan, 0
    with tempfile.TemporaryDirectory() as folder:
        made = planned_from(
            write(Path(folder), files_of(dataclasses.replace(plan, cables=installed), version("bringup")))
        )
    if moved := unlike(installed, made.cables):
        raise AsBuiltError(
            f"{len(moved)} cables cannot stay where they are: {', '.join(moved[:3])}. The plan gives these ports to "
            "others, as where a server's rail belongs on another leaf: exchange their plugs (bringup compare names them)"
        )
    return made, len(changed)
