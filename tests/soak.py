"""What a soak has more of: `make soak` sets SOAK_SEED, by default to today's date (20261123), and prints it.

A test that carries the marker `soak` runs only there (tests.conftest). One whose number of cases is a matter of thoroughness
asks here for it, and draws the same cases in each run.
"""

import os

SEED = int(os.environ.get("SOAK_SEED") or 0)
"""Seed of the cases that no run before had; 0 outside a soak."""


def examples(usual: int, in_a_soak: int) -> int:
    """How many cases hypothesis draws."""
    return in_a_soak if SEED else usual
