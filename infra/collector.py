"""Python's garbage collector in processes whose objects stay until they end: those of a plan, of libraries, of what is declared.

seldom()      at the start of such a process
"""

import atexit
import gc

ALLOCATIONS_BETWEEN_COLLECTIONS = 500_000
"""Objects made between two runs of the garbage collector. With Python's 700 it takes a tenth of the time of a plan and frees
almost nothing: classes and modules stay, and frames are freed by their reference counts."""


def seldom() -> None:
    """Collect after half a million new objects, and not once more at the end."""
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    # Without it Python's collector looks through all libraries and frames once more at exit: 0.13 to 0.19 s (decision 0337).
    atexit.register(gc.freeze)
