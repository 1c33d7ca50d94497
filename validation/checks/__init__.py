"""The checks: what `pytest validation` runs. Each test function is tied to one item of the step register."""
