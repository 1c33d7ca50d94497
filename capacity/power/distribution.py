"""From supplies to feeds: cords, outlets, circuits and feeds, with all feeds up and after the loss of each feed.

In: devices with their rack, the split of their supplies over the feeds, the PDUs of each rack. Out: frames `outlets`,
`circuits`, `feeds` (columns of capacity.frames) and the cords. A device shares its load evenly over the supplies that
still have a feed; a device whose supplies all hang on the lost feed goes dark and loads nobody. PDUs load their own
circuit.

Outlets are given per PDU by a greedy rule: largest load first, to the phase with the least load, then the bank with the
least load, then the lowest number; racks start at rotating phases, so that rows balance. Equal racks are solved once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PROFILES = ("seed_w", "measured_w", "nameplate_w")


@dataclass(frozen=True)
class Outlet:
    """One outlet of the PDU model: number, connector, phase ('L1', 'L1-L2') and bank."""

    number: int
    connector: str
    phase: str
    bank: str


@dataclass(frozen=True)
class Cords:
    """One row per supply: `frame` (device, psu, rack, feed, pdu, inlet); loads in W as (cords,) and (cords, feeds
    lost).
    """

    frame: pd.DataFrame
    share: Floats
    share_after_loss: Floats

    def normal_w(self, device_w: Floats) -> Floats:
        """Load of each cord with all feeds up, for the watts of its device."""
        return self.share * device_w

    def after_loss_w(self, device_w: Floats) -> Floats:
        """Load of each cord (rows) after the loss of each feed (columns)."""
        return self.share_after_loss * device_w[:, None]


def feed_sequence(split: Mapping[str, int], feeds: tuple[str, ...]) -> list[int]:
    """Feed (index into `feeds`) of supply 1, 2, …: round robin over the feeds that still have supplies to take.

    >>> feed_sequence({"A": 2, "B": 1}, ("A", "B"))
    [0, 1, 0]
    """
    left = {i: split.get(feed, 0) for i, feed in enumerate(feeds)}
    sequence = []
    while any(left.values()):
        for i in left:
            if left[i]:
                sequence.append(i)
                left[i] -= 1
    return sequence


def cords(
    devices: pd.DataFrame,
    racks: pd.Series,
    pdus: pd.DataFrame,
    feeds: tuple[str, ...],
    gpu_split: Mapping[str, int],
    inlets: Mapping[str, str],
) -> Cords:
    """A cord for each supply of `devices` (rack of each in `racks`, aligned) to a PDU of its rack and feed.

    GPU servers follow `gpu_split`; other devices take the feeds in turn, starting one further for each device of a
    rack. `pdus` (name, rack, feed) in the order of equipment.pdu_devices; `inlets` maps a model to its inlet connector.
    """
    count = devices["psu_count"].to_numpy(dtype=np.int64)
    device = np.repeat(np.arange(len(devices)), count)
    psu = np.arange(len(device)) - np.repeat(np.cumsum(count) - count, count)
    gpu = (devices["role"] == "gpu").to_numpy()
    offset = np.zeros(len(devices), dtype=np.int64)
    rest = np.flatnonzero(~gpu)
    models = devices["model"].to_numpy(dtype=object)
    inlet = np.array([inlets[model] for model in models], dtype=object)
    offset[rest] = pd.Series(rest).groupby([racks.to_numpy(dtype=object)[rest], inlet[rest]]).cumcount().to_numpy()
    feed = (offset[device] + psu) % len(feeds)
    sequence = np.array(feed_sequence(gpu_split, feeds) or [0], dtype=np.int64)
    feed = np.where(gpu[device], sequence[np.minimum(psu, len(sequence) - 1)], feed)

    on_feed = np.zeros((len(devices), len(feeds)), dtype=np.int64)
    np.add.at(on_feed, (device, feed), 1)
    survivors = (count[:, None] - on_feed)[device]
    alive = (np.arange(len(feeds))[None, :] != feed[:, None]) & (survivors > 0)
    after = np.where(alive, 1.0 / np.maximum(survivors, 1), 0.0)

    rack = racks.to_numpy(dtype=object)[device]
    rack_names = pdus["rack"].drop_duplicates()
    per_feed = len(pdus) // (len(rack_names) * len(feeds))
    rack_code = pd.Index(rack_names).get_indexer(pd.Index(rack))
    turn = pd.Series(np.arange(len(device))).groupby([rack_code, feed]).cumcount().to_numpy() % per_feed
    pdu = (rack_code * len(feeds) + feed) * per_feed + turn
    frame = pd.DataFrame(
        {
            "device": devices["name"].to_numpy(dtype=object)[device],
            "device_index": device,
            "psu": psu + 1,
            "rack": rack,
            "feed": np.array(feeds, dtype=object)[feed],
            "pdu": pdus["name"].to_numpy(dtype=object)[pdu],
            "pdu_index": pdu,
            "inlet": inlet[device],
        }
    )
    return Cords(frame, 1.0 / count[device], after)


def assign_outlets(
    cord: Cords, load_w: Floats, pdus: pd.DataFrame, outlets: list[Outlet], mates: Callable[[str], tuple[str, ...]]
) -> Ints:
    """Index into `outlets` for each cord, -1 where its PDU has no free outlet that mates with its inlet."""
    chosen = np.full(len(load_w), -1, dtype=np.int64)
    rotation = pd.factorize(pdus["rack"])[0] % 3
    inlet = cord.frame["inlet"].to_numpy(dtype=object)
    pdu = cord.frame["pdu_index"].to_numpy()
    order = np.lexsort((cord.frame["psu"], cord.frame["device_index"], -np.round(load_w, 3), pdu))
    starts = np.flatnonzero(np.diff(pdu[order], prepend=-1))

    @cache
    def solve(turn: int, wants: tuple[tuple[str, float], ...]) -> tuple[int, ...]:
        return _balance(outlets, turn, [(mates(connector), watts) for connector, watts in wants])

    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        members = order[start:stop]
        wants = tuple((str(inlet[i]), round(float(load_w[i]), 3)) for i in members)
        chosen[members] = solve(int(rotation[pdu[members[0]]]), wants)
    return chosen


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


def outlet_frame(cord: Cords, chosen: Ints, load_w: Floats, pdus: pd.DataFrame, outlets: list[Outlet]) -> pd.DataFrame:
    """Every outlet of every PDU, spare ones included."""
    each = len(outlets)
    slot = cord.frame["pdu_index"].to_numpy() * each + chosen
    used = chosen >= 0
    device = np.full(len(pdus) * each, "", dtype=object)
    psu = np.zeros(len(pdus) * each, dtype=np.int64)
    watts = np.zeros(len(pdus) * each)
    device[slot[used]] = cord.frame["device"].to_numpy(dtype=object)[used]
    psu[slot[used]] = cord.frame["psu"].to_numpy()[used]
    watts[slot[used]] = load_w[used]
    repeat = np.repeat(np.arange(len(pdus)), each)
    columns = {
        name: np.tile(np.array([getattr(outlet, attribute) for outlet in outlets], dtype=object), len(pdus))
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


def circuit_loads_kw(cord: Cords, device_w: Floats, pdu_w: Floats) -> tuple[Floats, Floats]:
    """Load of each PDU's circuit in kW: (pdus,) with all feeds up, and (pdus, feeds) after the loss of each feed.

    The circuit of a lost feed carries nothing; NaN never occurs.
    """
    pdu = cord.frame["pdu_index"].to_numpy()
    normal = pdu_w + np.bincount(pdu, cord.normal_w(device_w), minlength=len(pdu_w))
    after = cord.after_loss_w(device_w)
    lost = np.column_stack([pdu_w + np.bincount(pdu, after[:, f], minlength=len(pdu_w)) for f in range(after.shape[1])])
    return normal / 1000, lost / 1000


def feed_frame(
    cord: Cords, devices: pd.DataFrame, pdus: pd.DataFrame, feeds: tuple[str, ...], voltage_v: float, profile: str
) -> pd.DataFrame:
    """The `feeds` frame: normal share per profile, and the load after the worst loss of another feed."""
    index = cord.frame["device_index"].to_numpy()
    pdu_feed = pd.Index(feeds).get_indexer(pd.Index(pdus["feed"]))
    table = {"feed": list(feeds), "voltage_v": [voltage_v] * len(feeds)}
    for name in PROFILES:
        normal, lost = circuit_loads_kw(
            cord, devices[name].to_numpy(dtype=np.float64)[index], pdus[name].to_numpy(dtype=np.float64)
        )
        table[name.replace("_w", "_kw")] = np.bincount(pdu_feed, normal, minlength=len(feeds)).round(6).tolist()
        if name == profile:
            per_feed = np.array([np.bincount(pdu_feed, lost[:, f], minlength=len(feeds)) for f in range(len(feeds))])
            np.fill_diagonal(per_feed, 0.0)
            table["loss_kw"] = per_feed.max(axis=0).round(6).tolist()
    return pd.DataFrame(table)
