"""What the site file does not give, and what therefore nobody plans: COOLING-NOT-PLANNED."""

from inventory.findings import Finding, finding, remedy


def not_given(key: str) -> Finding:
    """For information: the site file does not give `key`, and what depends on it is not planned."""
    return finding("COOLING-NOT-PLANNED", key, case=key, remedies=[remedy(fix="given")])
