"""The seed of a soak: tests that carry the marker `soak` draw other cases each day."""

import os

SEED = int(os.environ.get("SOAK_SEED") or 0)
"""From the environment variable SOAK_SEED, which `make soak` sets to the day (20261123); 0 where those tests do not run."""
