"""Phase balance of one rack PDU: swaps that better a first assignment, and a bound that no assignment beats.

In: outlets (phase, connector, bank) and cords with their watts in each state: normal, and after the loss of each other
feed. The measure is the largest phase load less the smallest over their mean, in percent, in the worst state. A cord
moves only to an outlet that mates with it, and never so that a bank goes above its breaker. What is already as good
stays as it is, so that built racks keep their cords.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROUNDS = 40
"""Swaps at most per PDU: each makes the worst state better, most PDUs need none."""
STARTS, FAR_PCT = 8, 5.0
"""Shuffled starts, and how far above the bound swaps must have ended for them."""
WORTH_PCT = 1.0
"""Percent points that a swap has to gain; less is not worth a changed outlet map."""


def spread_pct(phase_w: Floats) -> Floats:
    """Imbalance in percent for phase loads (…, states, phases), worst state; 0 where nothing is loaded."""
    mean = phase_w.mean(axis=-1)
    spread = phase_w.max(axis=-1) - phase_w.min(axis=-1)
    return np.asarray(
        np.where(mean > 0, spread / np.where(mean > 0, mean, 1.0) * 100, 0.0).max(axis=-1), dtype=np.float64
    )


def representative_pct(spread: Floats, mean: Floats, half: Floats) -> Floats:
    """Difference between lines or phases in percent of their mean, but of at least half of what each carries continuously.

    `spread`, `mean` and `half` in the same unit, A or W. S088 asks for the balance under a representative load, which is half of
    the rating where two feeds share it (RC-086): a few hundred watts on one line of an almost empty PDU use up no line.
    """
    base = np.maximum(mean, half)
    return np.asarray(np.where(base > 0, spread / np.where(base > 0, base, 1.0) * 100, 0.0), dtype=np.float64)


def bound_pct(watts: Floats, phases: int) -> float:
    """Imbalance in percent that no assignment of `watts` (cords, states) to `phases` can beat; the worst state's.

    The fullest phase carries at least the mean, the largest cord, and by the pigeonhole principle the k+1 smallest of
    the k phases + 1 largest cords; the emptiest at most what is left over for the others, and at most the floor(n /
    phases) largest cords. And either two of the phases - 1 largest cords share a phase, or the last phase gets none of
    these.
    """
    return max((_bound(np.sort(state)[::-1], phases) for state in watts.T), default=0.0)


def _bound(ordered: Floats, phases: int) -> float:
    """`bound_pct` of one state; `ordered` from the largest cord to the smallest."""
    total, count = float(ordered.sum()), len(ordered)
    if total <= 0 or phases < 2:
        return 0.0
    fullest = max(total / phases, float(ordered[0]))
    for each in range(1, (count - 1) // phases + 1):
        fullest = max(fullest, float(ordered[each * (phases - 1) : each * phases + 1].sum()))
    emptiest = min((total - fullest) / (phases - 1), float(ordered[: count // phases].sum()))
    spread = fullest - emptiest
    top = float(ordered[: phases - 1].sum())
    apart = fullest - min(emptiest, total - top)
    together = spread
    if phases > 2 and count >= phases - 1:
        shared = max(fullest, float(ordered[phases - 3 : phases - 1].sum()))
        together = shared - min(emptiest, (total - shared) / (phases - 1))
    return max(spread, min(apart, together)) / (total / phases) * 100


def improve(
    chosen: Sequence[int], watts: Floats, fits: npt.NDArray[np.bool_], phase: Ints, bank: Ints, bank_limit_w: float
) -> Ints:
    """Better outlets for the cords of a PDU: the best that swaps make of `chosen` (outlet of each cord, -1 none).

    `watts` (cords, states); `fits` (cords, outlets); `phase` and `bank` of each outlet. Where swaps end FAR_PCT or more
    above the bound, they are tried again from assignments with the largest cord first and from STARTS shuffled ones
    (seeded: equal racks get equal outlets), and the best is kept if it gains WORTH_PCT.
    """
    best = np.array(chosen, dtype=np.int64)
    placed = np.flatnonzero(best >= 0)
    phases = int(phase.max()) + 1
    if len(placed) < 2 or phases < 2:
        return best
    least = bound_pct(watts[placed], phases)
    best = _descend(best, watts, fits, phase, bank, bank_limit_w, least)

    def measure(outlet: Ints) -> float:
        load = np.zeros((watts.shape[1], phases))
        np.add.at(load.T, phase[outlet[placed]], watts[placed])
        return float(spread_pct(load))

    reached = measure(best)
    if reached < least + FAR_PCT:
        return best
    shuffle = np.random.default_rng(0)
    orders = [placed[np.argsort(-watts[placed].max(axis=1), kind="stable")]]
    orders += [shuffle.permutation(placed) for _ in range(STARTS)]
    for order in orders:
        start = _greedy(order, best, watts, fits, phase, bank, bank_limit_w)
        if start is None:
            continue
        tried = _descend(start, watts, fits, phase, bank, bank_limit_w, least)
        if (now := measure(tried)) < reached - WORTH_PCT:
            best, reached = tried, now
    return best


def _greedy(
    order: Ints,
    outlets: Ints,
    watts: Floats,
    fits: npt.NDArray[np.bool_],
    phase: Ints,
    bank: Ints,
    bank_limit_w: float,
) -> Ints | None:
    """Cords in this order, each to the fitting free outlet of the phase that carries least; None where one finds none."""
    outlet = np.full(len(outlets), -1, dtype=np.int64)
    free = np.ones(len(phase), dtype=bool)
    load = np.zeros((int(phase.max()) + 1, watts.shape[1]))
    banked = np.zeros((int(bank.max()) + 1, watts.shape[1]))
    for cord in order:
        room = (banked[bank] + watts[cord]).max(axis=1) <= bank_limit_w
        open_ = np.flatnonzero(free & fits[cord] & room)
        if not len(open_):
            return None
        place = int(open_[load[phase[open_]].max(axis=1).argmin()])
        outlet[cord], free[place] = place, False
        load[phase[place]] += watts[cord]
        banked[bank[place]] += watts[cord]
    return outlet


def _descend(
    outlet: Ints,
    watts: Floats,
    fits: npt.NDArray[np.bool_],
    phase: Ints,
    bank: Ints,
    bank_limit_w: float,
    least: float,
) -> Ints:
    """`outlet` with the best swap, again and again, until `least`, the bound, or until no swap gains WORTH_PCT.

    Moves to a free outlet count as swaps.
    """
    placed = np.flatnonzero(outlet >= 0)
    phases, banks = int(phase.max()) + 1, int(bank.max()) + 1
    states = watts.shape[1]

    def sums(label: Ints, size: int) -> Floats:
        table = np.zeros((states, size))
        np.add.at(table.T, label[outlet[placed]], watts[placed])
        return table

    for _ in range(ROUNDS):
        load, banked = sums(phase, phases), sums(bank, banks)
        now = float(spread_pct(load))
        if now <= least + WORTH_PCT:
            break
        first, target = np.nonzero(fits[placed])
        first = placed[first]
        holder = np.full(len(phase), -1, dtype=np.int64)
        holder[outlet[placed]] = placed
        other = holder[target]
        back = (other < 0) | fits[np.maximum(other, 0), outlet[first]]
        useful = back & (phase[target] != phase[outlet[first]]) & ((other < 0) | (first < other))
        first, target, other = first[useful], target[useful], other[useful]
        if not len(first):
            break
        shift = watts[first] - np.where((other >= 0)[:, None], watts[np.maximum(other, 0)], 0.0)
        after = np.broadcast_to(load, (len(first), states, phases)).copy()
        each = np.arange(len(first))
        after[each, :, phase[outlet[first]]] -= shift
        after[each, :, phase[target]] += shift
        bank_after = np.broadcast_to(banked, (len(first), states, banks)).copy()
        bank_after[each, :, bank[outlet[first]]] -= shift
        bank_after[each, :, bank[target]] += shift
        peak = bank_after.max(axis=(1, 2))
        allowed = peak <= max(bank_limit_w, float(banked.max())) + 1e-6
        gain = np.where(allowed, now - spread_pct(after), -np.inf)
        best = int(gain.argmax())
        if gain[best] < WORTH_PCT:
            break
        if other[best] >= 0:
            outlet[other[best]] = outlet[first[best]]
        outlet[first[best]] = target[best]
    return outlet
