"""How many spares: enough that, with a given confidence, none is missing until replacements arrive.

Failures of n parts during the time until a replacement arrives are Poisson distributed with mean n x rate x time; the spares
are the smallest s with P(failures <= s) >= confidence (base stock level of a lot-for-lot policy; Sherbrooke, "Optimal
Inventory Modeling of Systems", chapter 2).
"""

import math

import numpy as np

WEEKS_PER_YEAR = 365.25 / 7
_TAIL_SIGMAS = 12.0


def expected_failures(parts: int, afr_pct: float, weeks: float) -> float:
    """Mean number of failures of `parts` in `weeks`, at an annual failure rate in percent."""
    return parts * afr_pct / 100 * weeks / WEEKS_PER_YEAR


def poisson_spares(mean: float, confidence: float) -> int:
    """The smallest number that a Poisson variable with this mean does not exceed with probability `confidence` (0..1)."""
    if mean <= 0:
        return 0
    sigma = math.sqrt(mean)
    first = max(0, math.floor(mean - _TAIL_SIGMAS * sigma))
    last = math.ceil(mean + _TAIL_SIGMAS * sigma) + 20
    k = np.arange(first, last + 1)
    log_first = first * math.log(mean) - mean - math.lgamma(first + 1)
    logs = log_first + np.concatenate([[0.0], np.cumsum(np.log(mean / k[1:]))])
    below = np.cumsum(np.exp(logs))
    return int(k[min(int(np.searchsorted(below, confidence)), len(k) - 1)])


def share_spares(parts: int, share_pct: float) -> int:
    """Spares where no failure rate is known: a share, rounded up, at least one. A rule of thumb, not a computation."""
    return max(math.ceil(parts * share_pct / 100 - 1e-9), 1) if parts and share_pct else 0
