"""From supplies to feeds: cords, outlets, circuits and feeds, with all feeds up and after the loss of each feed.

In: the loads with their rack, the split of their supplies over the feeds, and the ends of the circuits. A load is what
a group of supplies feeds together: a device with supplies of its own, each corded to a rack PDU, or the DC busbar of a
rack, whose supplies are the rack's power shelves. A circuit ends at a rack PDU or at a power shelf. Out: frames
`outlets`, `circuits`, `feeds` (columns of capacity.model.frames) and the cords. A load is shared evenly by the supplies that
still have a feed; a load whose supplies all hang on the lost feed goes dark and loads nobody. PDUs and shelves load
their own circuit.

Outlets are given per PDU by a greedy rule: largest load first, to the phase with the least load, then the bank with the
least load, then the lowest number; racks start at rotating phases, so that rows balance. Pair swaps then balance the
phases after the loss of a feed as well. Equal racks are solved once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.rack import phase_balance
from capacity.space.devices import BUSBAR, feed_sequence

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PROFILES = ("seed_w", "measured_w", "nameplate_w")


KEPT = 10_000
"""Assignments of PDUs that are kept, to bound the memory: far more than a plan has (81 that differ at `h100-1000-ib`)."""


@dataclass(frozen=True)
class Outlet:
    """One outlet of the PDU model: number, connector, phase ('L1', 'L1-L2') and bank."""

    number: int
    connector: str
    phase: str
    bank: str


@dataclass(frozen=True, eq=False)
class Outlets:
    """Outlets of rack PDUs of several kinds: `listed` are those of each kind, one kind behind the other, `first` (kinds + 1,)
    where each begins in it and the last ends, `kind` (PDUs,) the kind of each PDU, `bank_limit_w` (kinds,) what a bank carries.
    """

    listed: list[Outlet]
    first: Ints
    kind: Ints
    bank_limit_w: Floats

    def of(self, kind: int) -> tuple[Outlet, ...]:
        """The outlets of one kind of PDU."""
        return tuple(self.listed[self.first[kind] : self.first[kind + 1]])


@dataclass(frozen=True)
class Balance:
    """Per rack PDU, in percent as phase_balance.representative_pct: `normal_pct` with all feeds up, `loss_pct` after the loss of
    the other feed that unbalances it most, and for each of these states the bound that no assignment beats.
    """

    normal_pct: Floats
    bound_pct: Floats
    loss_pct: Floats
    loss_bound_pct: Floats


@dataclass(frozen=True)
class Cords:
    """One row per supply: `frame` (device or busbar, psu, rack, feed, pdu or shelf, inlet); loads in W as (cords,) and
    (cords, feeds lost).
    """

    frame: pd.DataFrame
    share: Floats
    share_after_loss: Floats

    def normal_w(self, load_w: Floats) -> Floats:
        """Load of each cord with all feeds up, for the watts of what it feeds."""
        return self.share * load_w

    def after_loss_w(self, load_w: Floats) -> Floats:
        """Load of each cord (rows) after the loss of each feed (columns)."""
        return self.share_after_loss * load_w[:, None]


def loads(devices: pd.DataFrame, racks: pd.Series, watts: list[str], shelves: pd.DataFrame) -> pd.DataFrame:
    """What supplies feed: name, role, model, rack, supplies, and the columns `watts`.

    Devices with supplies first, in their order, then the busbar of each rack that has `shelves` (name, rack, model), in
    the order of these. `racks` is aligned with `devices`.
    """
    columns = ["name", "role", "model", *watts]
    placed = devices.assign(rack=racks.to_numpy(dtype=object), supplies=devices["psu_count"])
    own = placed.loc[placed["supplies"] > 0, [*columns, "rack", "supplies"]]
    if shelves.empty:
        return own.reset_index(drop=True)
    groups = shelves.groupby("rack", sort=False).agg(model=("model", "first"), supplies=("name", "size"))
    drawn = placed[placed["busbar"] >= 0].groupby("rack")[watts].sum().reindex(groups.index)
    busbars = groups.join(drawn).reset_index()
    busbars = busbars.assign(name=BUSBAR + "-" + busbars["rack"], role=BUSBAR)
    return pd.concat([own, busbars[[*columns, "rack", "supplies"]]], ignore_index=True)


def cords(
    fed: pd.DataFrame,
    ends: pd.DataFrame,
    feeds: tuple[str, ...],
    splits: Mapping[str, Mapping[str, int]],
    inlets: Mapping[str, str],
) -> Cords:
    """A cord for each supply of `fed` (as `loads` gives it) to the end of a circuit of its rack and feed.

    Loads of a role in `splits` follow that split; others take the feeds in turn, starting one further for each device
    of a rack. `ends` (name, kind, rack, feed) are the rack PDUs, in the order of equipment.pdu_devices, and behind them
    the power shelves in the order of equipment.shelf_devices; `inlets` maps a model to its inlet connector.
    """
    count = fed["supplies"].to_numpy(dtype=np.int64)
    load = np.repeat(np.arange(len(fed)), count)
    psu = np.arange(len(load)) - np.repeat(np.cumsum(count) - count, count)
    role, rack_of = fed["role"].to_numpy(dtype=object), fed["rack"].to_numpy(dtype=object)
    inlet = np.array([inlets.get(model, "") for model in fed["model"]], dtype=object)
    offset = np.zeros(len(fed), dtype=np.int64)
    rest = np.flatnonzero(~np.isin(role, list(splits)))
    offset[rest] = _turns(rack_of[rest], inlet[rest])
    feed = (offset[load] + psu) % len(feeds)
    for name, split in splits.items():
        sequence = np.array(feed_sequence(split, feeds) or [0], dtype=np.int64)
        feed = np.where((role == name)[load], sequence[np.minimum(psu, len(sequence) - 1)], feed)

    on_feed = np.zeros((len(fed), len(feeds)), dtype=np.int64)
    np.add.at(on_feed, (load, feed), 1)
    survivors = (count[:, None] - on_feed)[load]
    alive = (np.arange(len(feeds))[None, :] != feed[:, None]) & (survivors > 0)
    after = np.where(alive, 1.0 / np.maximum(survivors, 1), 0.0)

    rack = rack_of[load]
    pdus = ends[ends["kind"] == "pdu"]
    pdu_racks = pdus["rack"].drop_duplicates()
    per_feed = len(pdus) // max(len(pdu_racks) * len(feeds), 1)
    rack_code = pd.Index(pdu_racks).get_indexer(pd.Index(rack))
    turn = _turns(rack_code, feed) % max(per_feed, 1)
    end = (rack_code * len(feeds) + feed) * per_feed + turn
    shelf = (role == BUSBAR)[load]
    end[shelf] = len(pdus) + np.arange(int(shelf.sum()))
    frame = pd.DataFrame(
        {
            "device": fed["name"].to_numpy(dtype=object)[load],
            "device_index": load,
            "psu": psu + 1,
            "rack": rack,
            "feed": np.array(feeds, dtype=object)[feed],
            "pdu": ends["name"].to_numpy(dtype=object)[end],
            "pdu_index": end,
            "inlet": inlet[load],
        }
    )
    return Cords(frame, 1.0 / count[load], after)


def _turns(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Ints:
    """How many entries before each one have both of its values."""
    code = pd.factorize(first)[0] * (len(second) + 1) + pd.factorize(second)[0]
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    turns = np.empty(len(code), dtype=np.int64)
    turns[order] = np.arange(len(code)) - np.repeat(starts, np.diff(starts, append=len(code)))
    return turns


def assign_outlets(
    cord: Cords,
    load_w: Floats,
    pdus: pd.DataFrame,
    outlets: Outlets,
    mates: Callable[[str], tuple[str, ...]],
    after_w: Floats,
) -> Ints:
    """Index into `outlets.listed` for each cord, -1 where its PDU has no free outlet that mates with its inlet, and for what
    has no inlet: a power shelf.

    `after_w` (cords, feeds) are the loads after the loss of each feed: the first assignment goes by the normal loads,
    swaps then balance the phases in every state (capacity.power.rack.phase_balance), within the limit of each bank.
    """
    chosen = np.full(len(load_w), -1, dtype=np.int64)
    rotation = pd.factorize(pdus["rack"])[0] % 3
    inlet = cord.frame["inlet"].to_numpy(dtype=object)
    pdu = cord.frame["pdu_index"].to_numpy()
    order = np.lexsort((cord.frame["psu"], cord.frame["device_index"], -np.round(load_w, 3), pdu))
    order = order[pdu[order] < len(pdus)]
    starts = np.flatnonzero(np.diff(pdu[order], prepend=-1))

    states_w = np.round(np.column_stack([load_w, after_w]), 3)
    fitting = {name: mates(name) for name in set(inlet.tolist())}
    limits_w = outlets.bank_limit_w.tolist()
    given = [outlets.of(kind) for kind in range(len(limits_w))]

    @cache
    def solve(kind: int, turn: int, wants: tuple[str, ...], watts: bytes) -> Ints:
        own = np.array(
            _solve(given[kind], turn, tuple(fitting[name] for name in wants), watts, limits_w[kind]), dtype=np.int64
        )
        return np.where(own >= 0, own + outlets.first[kind], -1)

    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        members = order[start:stop]
        wants = tuple(inlet[members].tolist())
        at = pdu[members[0]]
        chosen[members] = solve(int(outlets.kind[at]), int(rotation[at]), wants, states_w[members].tobytes())
    return chosen


@lru_cache(maxsize=KEPT)
def _solve(
    outlets: tuple[Outlet, ...], turn: int, wants: tuple[tuple[str, ...], ...], watts: bytes, bank_limit_w: float
) -> tuple[int, ...]:
    """Outlets of one PDU for cords that mate with `wants`; `watts` (cords, states) as bytes. Kept from plan to plan: options of
    one site load most of their PDUs alike.
    """
    loads = np.frombuffer(watts, dtype=np.float64).reshape(len(wants), -1)
    phase = pd.factorize(np.array([outlet.phase for outlet in outlets]))[0].astype(np.int64)
    bank = pd.factorize(np.array([outlet.bank for outlet in outlets]))[0].astype(np.int64)
    fits = np.array([[outlet.connector in fitting for outlet in outlets] for fitting in wants])
    first = _balance(list(outlets), turn, [(fitting, float(row[0])) for fitting, row in zip(wants, loads, strict=True)])
    return tuple(phase_balance.improve(first, loads, fits, phase, bank, bank_limit_w).tolist())


def balance_by_pdu(cord: Cords, chosen: Ints, states_w: Floats, outlets: list[Outlet], usable_w: Floats) -> Balance:
    """Imbalance of each PDU in percent, and the bound that no assignment beats; `states_w` (cords, states) with all feeds
    up first, `usable_w` what the circuit of each PDU carries continuously.
    """
    phase = pd.factorize(np.array([outlet.phase for outlet in outlets]))[0].astype(np.int64)
    phases, pdus = int(phase.max()) + 1, len(usable_w)
    used = np.flatnonzero(chosen >= 0)
    end = cord.frame["pdu_index"].to_numpy(dtype=np.int64)[used]
    table = np.zeros((pdus, phases, states_w.shape[1]))
    np.add.at(table, (end, phase[chosen[used]]), states_w[used])
    mean, half = table.mean(axis=1), (usable_w / phases / 2)[:, None]
    spread = phase_balance.representative_pct(table.max(axis=1) - table.min(axis=1), mean, half)
    lost = 1 + spread[:, 1:].argmax(axis=1)
    order = np.argsort(end, kind="stable")
    starts = np.searchsorted(end[order], np.arange(pdus + 1))
    known: dict[bytes, float] = {}

    def bound(watts: Floats) -> float:
        key = np.sort(np.round(watts, 3)).tobytes()
        if key not in known:
            known[key] = phase_balance.bound_pct(np.frombuffer(key)[:, None], phases)
        return known[key]

    bounds = np.zeros((pdus, 2))
    for pdu in range(pdus):
        own = states_w[used[order[starts[pdu] : starts[pdu + 1]]]]
        bounds[pdu] = bound(own[:, 0]), bound(own[:, lost[pdu]])
    states = np.column_stack([np.zeros(pdus, dtype=np.int64), lost])
    means = np.take_along_axis(mean, states, axis=1)
    least = phase_balance.representative_pct(bounds / 100 * means, means, half)
    reached = np.take_along_axis(spread, states, axis=1)
    return Balance(reached[:, 0], least[:, 0], reached[:, 1], least[:, 1])


def _balance(outlets: list[Outlet], turn: int, wants: list[tuple[tuple[str, ...], float]]) -> tuple[int, ...]:
    """Outlet index for each want (connectors, W), in the order given; -1 where none is free."""
    phases = sorted({outlet.phase for outlet in outlets})
    rank = {phase: (i - turn) % len(phases) for i, phase in enumerate(phases)}
    phase_w = dict.fromkeys(phases, 0.0)
    bank_w = dict.fromkeys({outlet.bank for outlet in outlets}, 0.0)
    free = dict(enumerate(outlets))
    result = []
    for connectors, watts in wants:
        fitting = [i for i, outlet in free.items() if outlet.connector in connectors]
        if not fitting:
            result.append(-1)
            continue
        best = min(
            fitting, key=lambda i: (phase_w[free[i].phase], rank[free[i].phase], bank_w[free[i].bank], free[i].number)
        )
        outlet = free.pop(best)
        phase_w[outlet.phase] += watts
        bank_w[outlet.bank] += watts
        result.append(best)
    return tuple(result)


def outlet_frame(cord: Cords, chosen: Ints, load_w: Floats, pdus: pd.DataFrame, outlets: Outlets) -> pd.DataFrame:
    """Every outlet of every PDU, spare ones included."""
    each = np.diff(outlets.first)[outlets.kind]
    start = np.cumsum(each) - each
    repeat = np.repeat(np.arange(len(pdus)), each)
    which = np.arange(len(repeat)) - start[repeat] + outlets.first[outlets.kind][repeat]
    used = np.flatnonzero(chosen >= 0)
    at = cord.frame["pdu_index"].to_numpy(dtype=np.int64)[used]
    slot = start[at] + chosen[used] - outlets.first[outlets.kind[at]]
    device = np.full(len(repeat), "", dtype=object)
    psu = np.zeros(len(repeat), dtype=np.int64)
    watts = np.zeros(len(repeat))
    device[slot] = cord.frame["device"].to_numpy(dtype=object)[used]
    psu[slot] = cord.frame["psu"].to_numpy()[used]
    watts[slot] = load_w[used]
    columns = {
        name: np.array([getattr(outlet, attribute) for outlet in outlets.listed], dtype=object)[which]
        for name, attribute in (("outlet", "number"), ("phase", "phase"), ("bank", "bank"), ("connector", "connector"))
    }
    return pd.DataFrame(
        {
            "pdu": pdus["name"].to_numpy(dtype=object)[repeat],
            "rack": pdus["rack"].to_numpy(dtype=object)[repeat],
            "feed": pdus["feed"].to_numpy(dtype=object)[repeat],
            "device": device,
            "psu": psu,
            "load_w": np.round(watts, 3),
            **columns,
        }
    )


def circuit_loads_kw(cord: Cords, load_w: Floats, lost_w: Floats, end_w: Floats) -> tuple[Floats, Floats]:
    """Load of the circuit of each end in kW: (ends,) with all feeds up, and (ends, feeds) after the loss of each feed.

    `load_w` and `lost_w` are the watts of what each cord feeds, with all feeds up and while a feed is lost. The circuit
    of a lost feed carries nothing; NaN never occurs.
    """
    end = cord.frame["pdu_index"].to_numpy()
    normal = end_w + np.bincount(end, cord.normal_w(load_w), minlength=len(end_w))
    after = cord.after_loss_w(lost_w)
    lost = np.column_stack([end_w + np.bincount(end, after[:, f], minlength=len(end_w)) for f in range(after.shape[1])])
    return normal / 1000, lost / 1000


def feed_frame(
    cord: Cords, fed: pd.DataFrame, ends: pd.DataFrame, feeds: tuple[str, ...], voltage_v: float, profile: str
) -> pd.DataFrame:
    """The `feeds` frame: normal share per profile, and the load after the worst loss of another feed, for which `fed`
    has the column lost_w.
    """
    index = cord.frame["device_index"].to_numpy()
    end_feed = pd.Index(feeds).get_indexer(pd.Index(ends["feed"]))
    lost_w = fed["lost_w"].to_numpy(dtype=np.float64)[index]
    table = {"feed": list(feeds), "voltage_v": [voltage_v] * len(feeds)}
    for name in PROFILES:
        normal, lost = circuit_loads_kw(
            cord, fed[name].to_numpy(dtype=np.float64)[index], lost_w, ends[name].to_numpy(dtype=np.float64)
        )
        table[name.replace("_w", "_kw")] = np.bincount(end_feed, normal, minlength=len(feeds)).round(6).tolist()
        if name == profile:
            per_feed = np.array([np.bincount(end_feed, lost[:, f], minlength=len(feeds)) for f in range(len(feeds))])
            np.fill_diagonal(per_feed, 0.0)
            table["loss_kw"] = per_feed.max(axis=0).round(6).tolist()
    return pd.DataFrame(table)
