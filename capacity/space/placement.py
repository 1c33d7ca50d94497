"""Space: which device stands in which rack and rack unit, and where the racks stand in the room.

In: devices with their size, mass and nameplate power, and the limits of rack and room. Out: frames `racks` and
`placements` (columns of capacity.model.frames, without the power columns of `racks`), and findings for racks that exceed a
limit.

Rules
- GPU servers fill GPU racks in the order of their index, so a scalable unit is a run of neighbouring racks.
- A switch with servers of its own (leaf, management switch) goes as near as possible to the middle of the racks that it
  serves, within those racks, as far as rack units, mass, power and outlets allow. Of two racks equally near, the one
  with less power is taken: the leaves of low and of high rails then share the two middle racks of an even unit.
- Everything else (spines, cores, service nodes, leaves that found no room) goes into racks of its own in the middle of
  the room when the room has positions for them, otherwise into free room of the GPU racks, spread evenly. Storage that is
  bought stands beside them, in racks that hold nothing else. Tiers stand together where this takes no rack more.
- A rack-scale system fills a rack of its own: its trays stand where the catalogue says, and the rack holds nothing else.
- Servers stand from the bottom up, switches from the top down; rack PDUs are zero-U.
- Racks and rack units of an earlier plan stay. New servers go into new racks behind them, switches also into old ones.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.worst import worst_of
from inventory.catalog import U_M
from inventory.findings import Finding, RemedyOf, finding
from network.wiring.oob import AGGREGATION

COMPUTE, NETWORK, STORAGE = range(3)
"""Uses of racks: with GPU servers; with switches and service nodes; with storage that is bought."""

_KW = 2  # column of power in the tables of needs and of room left

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RackLimits:
    """What a rack may hold (U, kg, kW, m). `mass_kg` is the empty rack; `reserved_*` is kept free for its PDUs."""

    model: str
    height_u: int
    servers: int
    mass_kg: float
    mass_limit_kg: float
    power_limit_kw: float
    width_m: float
    depth_m: float
    reserved_kg: float = 0.0
    reserved_kw: float = 0.0

    @property
    def area_m2(self) -> float:
        """What it covers of the floor."""
        return self.width_m * self.depth_m


Limits = tuple[RackLimits, RackLimits, RackLimits]
"""Limits of racks by their use."""


@dataclass(frozen=True)
class Room:
    """Positions of the room; metres, kg/m2. `at` are the places in a row that racks may take, where these are not the
    first `racks_per_row` ones.
    """

    rows: int
    racks_per_row: int
    rack_pitch_m: float
    row_pitch_m: float
    floor_load_kg_m2: float
    at: tuple[int, ...] = ()

    @property
    def positions(self) -> int:
        return self.rows * self.racks_per_row


@dataclass(frozen=True)
class Held:
    """Frames `racks` and `placements` of an earlier plan."""

    racks: pd.DataFrame
    placements: pd.DataFrame


@dataclass(frozen=True)
class Space:
    """`racks` and `placements` as in capacity.model.frames; `racks` lacks the power columns and has `system`: whether a
    rack-scale system fills it, and `use`: COMPUTE, NETWORK or STORAGE.
    """

    racks: pd.DataFrame
    placements: pd.DataFrame


def place(
    devices: pd.DataFrame,
    unit_nodes: int,
    limits: Limits,
    room: Room,
    inlets: Mapping[str, str],
    outlets_per_rack: Sequence[Mapping[str, int]],
    oob_ports: int,
    held: Held | None = None,
    bottoms: Ints | None = None,
    storage: tuple[str, ...] = (),
) -> Space:
    """Place `devices` (columns of frames.DEVICES; no PDUs and power shelves, their places are `end_placements`).

    `unit_nodes` is the number of servers that share a set of leaves; `inlets` maps a model to its inlet connector, and
    `outlets_per_rack`, for each use of racks, an inlet connector to the outlets for it on all PDUs of a rack. An aggregation
    switch of the management network joins `oob_ports` access switches. Devices of an earlier plan stay where they are; new racks
    then stand behind its racks. `bottoms`, aligned with `devices`, is the lowest
    rack unit of those that stand in a rack-scale system, 0 for others. `storage` are the models of storage that is bought.
    """
    return _Packer(devices, unit_nodes, limits, room, inlets, outlets_per_rack, oob_ports, held, bottoms, storage).run()


class _Packer:
    """State of one placement: what each device needs and what each rack has left, a column per resource.

    Columns: rack units, kg, kW, then cords per inlet connector.
    """

    def __init__(
        self,
        devices: pd.DataFrame,
        unit_nodes: int,
        limits: Limits,
        room: Room,
        inlets: Mapping[str, str],
        outlets_per_rack: Sequence[Mapping[str, int]],
        oob_ports: int,
        held: Held | None,
        bottoms: Ints | None,
        storage: tuple[str, ...],
    ) -> None:
        self.devices = devices.reset_index(drop=True)
        self.unit_nodes, self.oob_ports = unit_nodes, oob_ports
        self.racks = limits
        self.room = room
        bought = self.devices["role"].isin(["storage", "metadata"]) & self.devices["model"].isin(storage)
        self.use = np.where(bought, STORAGE, NETWORK)
        self.use[self.devices["role"] == "gpu"] = COMPUTE
        self.u = self.devices["u_height"].to_numpy(dtype=np.int64)
        self.kg = self.devices["mass_kg"].to_numpy(dtype=np.float64)
        kw = self.devices["nameplate_w"].to_numpy(dtype=np.float64) / 1000
        inlet = self.devices["model"].map(dict(inlets)).to_numpy(dtype=object)
        supplies = self.devices["psu_count"].to_numpy(dtype=np.float64)
        connectors = sorted(outlets_per_rack[COMPUTE])
        cords = [np.where(inlet == connector, supplies, 0.0) for connector in connectors]
        self.needs = np.column_stack([self.u.astype(np.float64), self.kg, kw, *cords])
        self.limits = np.array(
            [
                [
                    rack.height_u,
                    rack.mass_limit_kg - rack.reserved_kg,
                    rack.power_limit_kw - rack.reserved_kw,
                    *(outlets[connector] for connector in connectors),
                ]
                for rack, outlets in zip(limits, outlets_per_rack, strict=True)
            ],
            dtype=np.float64,
        )
        self.home = np.full(len(self.devices), -1, dtype=np.int64)
        self.bottom = np.zeros(len(self.devices), dtype=np.int64) if bottoms is None else bottoms.copy()
        self.held_racks, self.name_digits = 0, 0
        if held is not None:
            self._keep(held)
        self.gpu = np.flatnonzero((self.devices["role"] == "gpu").to_numpy())
        new = self.gpu[self.home[self.gpu] < 0]
        servers = limits[COMPUTE].servers
        self.home[new] = self.held_racks + np.arange(len(new)) // servers
        self.known_racks = self.held_racks + -(-len(new) // servers)
        self._join_systems()
        placed = np.flatnonzero(self.home >= 0)
        self.rack_use = np.full(self.known_racks, len(limits), dtype=np.int64)
        np.minimum.at(self.rack_use, self.home[placed], self.use[placed])
        self.rack_use[self.rack_use == len(limits)] = COMPUTE  # racks of an earlier plan that nothing is left in
        self.free = self.limits[self.rack_use]
        self.free[self.systems] = 0.0
        np.subtract.at(self.free, self.home[placed], self.needs[placed])

    def _join_systems(self) -> None:
        """What hangs on the busbar of a rack-scale system stands in the rack of its servers; `systems` are these
        racks.
        """
        busbar = self.devices["busbar"].to_numpy(dtype=np.int64)
        within = np.flatnonzero(busbar >= 0)
        trays = self.gpu[busbar[self.gpu] >= 0]
        rack = dict(zip(busbar[trays].tolist(), self.home[trays].tolist(), strict=True))
        self.home[within] = [rack[number] for number in busbar[within].tolist()]
        self.systems = np.array(sorted(set(rack.values())), dtype=np.int64)

    def _keep(self, held: Held) -> None:
        """Take over racks and rack units of an earlier plan."""
        self.held_racks = len(held.racks)
        self.name_digits = len(str(held.racks["name"].iloc[0])) - len("r")
        places = held.placements.set_index("device").reindex(self.devices["name"])
        known = np.flatnonzero(places["rack"].notna().to_numpy())
        self.home[known] = pd.Index(held.racks["name"]).get_indexer(pd.Index(places["rack"].iloc[known]))
        self.bottom[known] = places["u_bottom"].iloc[known].to_numpy(dtype=np.int64)

    def run(self) -> Space:
        waiting = self._place_serving_switches()
        own = self._pack_own_racks(waiting)
        if self.known_racks + len(own) > self.room.positions and waiting:
            own = self._pack_own_racks(self._spread(waiting))
        for offset, members in enumerate(own):
            self.home[members] = self.known_racks + offset
        self.rack_use = np.append(self.rack_use, [self.use[members[0]] for members in own]).astype(np.int64)
        return self._frames(len(own))

    def _place_serving_switches(self) -> list[int]:
        """Place leaves and management switches near what they serve; returns all devices that still wait."""
        first, last = self._served_racks()
        waiting: list[int] = []
        for i in np.flatnonzero(self.home < 0).tolist():
            if first[i] < 0 or not self._fit_near(i, int(first[i]), int(last[i])):
                waiting.append(i)
        return waiting

    def _served_racks(self) -> tuple[Ints, Ints]:
        """First and last rack that each device serves (-1 where it serves none in particular)."""
        first = np.full(len(self.devices), -1, dtype=np.int64)
        last = first.copy()
        role, fabric = self.devices["role"].to_numpy(dtype=object), self.devices["fabric"].to_numpy(dtype=object)
        servers = len(self.gpu)
        rack = self.home[self.gpu]

        def serve(members: Ints, start: Ints, stop: Ints) -> None:
            first[members] = rack[np.minimum(start, servers - 1)]
            last[members] = np.maximum(rack[np.clip(stop - 1, 0, servers - 1)], first[members])

        compute = np.flatnonzero((role == "leaf") & (fabric == "compute"))
        unit = self.devices["unit"].to_numpy(dtype=np.int64)[compute]
        serve(compute, unit * self.unit_nodes, (unit + 1) * self.unit_nodes)
        joins = self.devices["name"].str.startswith(AGGREGATION).to_numpy(dtype=bool)
        access = np.flatnonzero((role == "oob") & ~joins)
        for members in (np.flatnonzero((role == "leaf") & (fabric == "inband")), access):
            share = np.arange(len(members) + 1) * servers // max(len(members), 1)
            serve(members, share[:-1], share[1:])
        for number, switch in enumerate(np.flatnonzero(joins).tolist()):
            joined = access[number * self.oob_ports : (number + 1) * self.oob_ports]
            at = self.home[joined]
            first[switch] = np.where(at < 0, first[joined], at).min()
            last[switch] = np.where(at < 0, last[joined], at).max()
        return first, last

    def _fit_near(self, device: int, first: int, last: int) -> bool:
        """Put `device` into the rack of first..last nearest to their middle that has room; False if none has."""
        racks = np.arange(first, last + 1)
        fits = self._fits(device, self.free[racks])
        if not fits.any():
            return False
        distance = np.where(fits, np.abs(racks - (first + last) / 2), np.inf)
        power = -self.free[racks, _KW].round(6)
        self._take(device, int(racks[np.lexsort((racks, power, distance))[0]]))
        return True

    def _spread(self, waiting: list[int]) -> list[int]:
        """Put waiting devices into free room of the GPU racks, most free power first; returns those left over."""
        left = []
        for device in waiting:
            fits = self._fits(device, self.free)
            if fits.any():
                self._take(device, int(np.argmax(np.where(fits, self.free[:, _KW].round(6), -np.inf))))
            else:
                left.append(device)
        return left

    def _pack_own_racks(self, waiting: list[int]) -> list[list[int]]:
        """Racks of network devices in the order given, then those of storage."""
        stores = [device for device in waiting if self.use[device] == STORAGE]
        others = [device for device in waiting if self.use[device] != STORAGE]
        return self._fill(others, self.limits[NETWORK]) + self._deal(self._fill(stores, self.limits[STORAGE]))

    def _fill(self, waiting: list[int], limits: Floats) -> list[list[int]]:
        """The fewest racks for these devices. Those of a tier stand together, a new rack whenever the last one has no room, where
        this takes no more; else each in the first rack with room; else what a search finds (`_Search`).
        """
        needs = self.needs[waiting]
        shares = np.divide(needs, limits, out=np.zeros_like(needs), where=limits > 0)
        large = (shares > 0.5 + 1e-9).sum(axis=0)  # no rack holds two of these
        least = int(max(np.ceil(shares.sum(axis=0) - 1e-9).max(initial=0), large.max(initial=0)))
        best = self._first_fit(waiting, limits, only_last=True)
        if len(best) > least:
            best = min(best, self._first_fit(waiting, limits), key=len)
        if len(best) > least and (shares <= 1 + 1e-9).all():
            rows = tuple(map(tuple, shares.round(9).tolist()))
            searched = _fewest_racks(rows, least, len(best) - 1)
            best = [[waiting[i] for i in rack] for rack in searched] or best
        return best

    def _first_fit(self, order: list[int], limits: Floats, only_last: bool = False) -> list[list[int]]:
        """Devices in this order, each in the first rack with room (`only_last`: the last one alone), else in a new rack."""
        racks: list[list[int]] = []
        left = np.empty((0, len(limits)))
        for device in order:
            open_ = max(0, len(racks) - 1) if only_last else 0
            fits = self._fits(device, left[open_:])
            at = open_ + int(fits.argmax()) if fits.any() else len(racks)
            if at == len(racks):
                racks.append([])
                left = np.vstack([left, limits])
            racks[at].append(device)
            left[at] -= self.needs[device]
        return racks

    def _deal(self, racks: list[list[int]]) -> list[list[int]]:
        """The devices of these racks one by one to each in turn, so that no rack holds all metadata servers; as they were
        where one would hold too much.
        """
        members = [device for rack in racks for device in rack]
        dealt = [members[k :: len(racks)] for k in range(len(racks))]
        fits = all((self.needs[rack].sum(axis=0) <= self.limits[STORAGE] + 1e-9).all() for rack in dealt)
        return dealt if fits else racks

    def _fits(self, device: int, free: Floats) -> npt.NDArray[np.bool_]:
        return (free >= self.needs[device] - 1e-9).all(axis=1)

    def _take(self, device: int, rack: int) -> None:
        self.home[device] = rack
        self.free[rack] -= self.needs[device]

    def _frames(self, own: int) -> Space:
        total = self.known_racks + own
        middle = self._middle()
        order = np.arange(total)
        position = np.where(order < middle, order, order + own)
        position[self.known_racks :] = middle + np.arange(own)
        home = position[self.home]

        use = np.empty(total, dtype=np.int64)
        use[position] = self.rack_use
        height = np.array([limits.height_u for limits in self.racks])[use]
        system = np.zeros(total, dtype=bool)
        system[position[self.systems]] = True
        width = self.name_digits or max(2, len(str(total)))
        names = np.array([f"r{i + 1:0{width}d}" for i in range(total)], dtype=object)
        # Values of a what-if are not checked: panels may take every place, and each rack then has a row of its own (SPACE-ROOM).
        row, in_row = np.divmod(np.arange(total), max(1, self.room.racks_per_row))
        if self.room.at:
            in_row = np.array(self.room.at, dtype=np.int64)[in_row]
        x = np.round((in_row + 0.5) * self.room.rack_pitch_m, 3)
        y = np.round(row * self.room.row_pitch_m, 3)
        bottom = self._rack_units(home, height[home])
        placements = pd.DataFrame(
            {
                "device": self.devices["name"],
                "rack": names[home],
                "u_bottom": bottom,
                "u_height": self.u,
                "x_m": x[home],
                "y_m": y[home],
                "z_m": np.round((bottom - 1 + self.u / 2) * U_M, 4),
            }
        )
        racks = pd.DataFrame(
            {
                "name": names,
                "row": row,
                "position": in_row,
                "x_m": x,
                "y_m": y,
                "model": np.array([limits.model for limits in self.racks], dtype=object)[use],
                "height_u": height,
                "used_u": np.bincount(home, self.u, minlength=total).astype(np.int64),
                "mass_kg": np.round(
                    np.array([limits.mass_kg for limits in self.racks])[use]
                    + np.bincount(home, self.kg, minlength=total),
                    3,
                ),
                "system": system,
                "use": use,
            }
        )
        return Space(racks, placements)

    def _middle(self) -> int:
        """Number of racks before the network racks: the unit boundary nearest the middle that is a rack boundary too."""
        if self.held_racks:
            return self.known_racks
        units = -(-len(self.gpu) // self.unit_nodes)
        servers = self.racks[COMPUTE].servers
        aligned = [unit for unit in range(units + 1) if unit * self.unit_nodes % servers == 0]
        best = min(aligned, key=lambda unit: (abs(unit - units / 2), -unit))
        return min(best * self.unit_nodes // servers, self.known_racks)

    def _rack_units(self, home: Ints, height: Ints) -> Ints:
        """Lowest rack unit of each device: servers stacked from the bottom, everything else from the top.

        `height` are the rack units of each device's rack. Devices with a place keep it; the others go beyond them.
        """
        server = (self.devices["kind"] == "server").to_numpy()
        kept = self.bottom > 0
        extent = np.where(server, self.bottom - 1 + self.u, height - self.bottom + 1)
        stack = 2 * home + server
        held = np.zeros(int(stack.max(initial=-1)) + 1, dtype=np.int64)
        np.maximum.at(held, stack, np.where(kept, extent, 0))
        stacked = held[stack] + _running(stack, np.where(kept, 0, self.u))
        from_top = np.maximum(height - stacked + 1, 1)  # what is higher than its rack sticks out at the top
        placed = np.where(server, stacked - self.u + 1, from_top)
        return np.where(kept, self.bottom, placed)


@functools.lru_cache(maxsize=256)
def _fewest_racks(shares: tuple[tuple[float, ...], ...], least: int, most: int) -> list[list[int]]:
    """`_Search.racks`, once for the same devices: sizes and what-ifs plan them many times."""
    return _Search(np.array(shares)).racks(least, most)


class _Search:
    """Search for the fewest racks: devices that need the same are one kind, and racks are filled one after the other.

    `shares` has a row for each device: what it needs of a rack, 1 being all of it, a column per resource.
    """

    MOST_STEPS = 30_000
    """Racks and kinds in them that are tried for a number of racks, 0.3 s on the machine of the tests: a choice of
    this program. What is not found by then counts as not to be had.
    """

    def __init__(self, shares: Floats) -> None:
        kinds, of, counts = np.unique(shares, axis=0, return_inverse=True, return_counts=True)
        large_first = np.argsort(-kinds.max(axis=1, initial=0), kind="stable")
        self.members = [np.flatnonzero(of == kind).tolist() for kind in large_first]
        self.kinds: list[list[float]] = kinds[large_first].tolist()
        self.counts: list[int] = counts[large_first].tolist()
        self.steps = 0

    def racks(self, least: int, most: int) -> list[list[int]]:
        """Rows of the devices of each rack, in `least` racks or as few more as are found; [] where `most` do not suffice."""
        for number in range(least, most + 1):
            self.steps = 0
            if (fillings := self._fillings(tuple(self.counts), number)) is not None:
                waiting = [iter(kind) for kind in self.members]
                return [
                    sorted(next(waiting[kind]) for kind, many in enumerate(one) for _ in range(many))
                    for one in fillings
                ]
            if evenly := self._evenly(number):
                return evenly
        return []

    def _evenly(self, number: int) -> list[list[int]]:
        """Those first that need most of what is scarce, each in the rack that it leaves least full: for racks that are nearly full
        in several needs, of which the search tries too few ways. [] where one finds no room.
        """
        needs = np.array(self.kinds)
        scarce = np.array(self.counts) @ needs
        full = np.zeros((number, needs.shape[1]))
        racks: list[list[int]] = [[] for _ in range(number)]
        for kind in np.argsort(-(needs @ scarce), kind="stable").tolist():
            need = needs[kind]
            for device in self.members[kind]:
                after = (full + need).max(axis=1)
                at = int(after.argmin())
                if after[at] > 1 + 1e-9:
                    return []
                full[at] += need
                racks[at].append(device)
        return [sorted(rack) for rack in racks]

    def _fillings(self, counts: tuple[int, ...], racks: int) -> list[tuple[int, ...]] | None:
        """How many of each kind stand in each of `racks` racks; None where no way is found."""
        if not any(counts):
            return []
        for one in self._full_racks(counts):
            self.steps += 1
            if self.steps > self.MOST_STEPS:
                return None
            rest = tuple(number - taken for number, taken in zip(counts, one, strict=True))
            needed = (sum(map(operator.mul, rest, column)) for column in zip(*self.kinds, strict=True))
            if max(needed) <= racks - 1 + 1e-6 and (more := self._fillings(rest, racks - 1)) is not None:
                return [one, *more]
        return None

    def _full_racks(self, counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Ways to fill one rack so that no device more fits, most of the largest first, with the largest that waits: it stands
        in some rack, and one that has room can take a device of any later one.
        """
        first = next(kind for kind, number in enumerate(counts) if number)

        def filled(kind: int, left: list[float]) -> Iterator[tuple[tuple[int, ...], list[float]]]:
            """How many of this kind and of later ones, and what they leave."""
            self.steps += 1
            if kind == len(counts):
                yield (), left
                return
            need = self.kinds[kind]
            fits = [int((have + 1e-9) // share) for have, share in zip(left, need, strict=True) if share > 0]
            most = min([counts[kind], *fits])
            for number in range(most, -1 if kind > first else 0, -1):
                if self.steps > self.MOST_STEPS:
                    return
                after = [have - number * share for have, share in zip(left, need, strict=True)]
                for others, spare in filled(kind + 1, after):
                    full = any(have + 1e-9 < share for have, share in zip(spare, need, strict=True))
                    if full or number == counts[kind]:
                        yield (number, *others), spare

        for one, _ in filled(first, [1.0] * len(self.kinds[0])):
            yield (*([0] * first), *one)


def _running(group: Ints, values: Ints) -> Ints:
    """Sum of the values of each row's group (from 0) up to and with the row."""
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(values[order])
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    before = (sums - values[order])[first]
    made = np.empty(len(group), dtype=np.int64)
    made[order] = sums - np.repeat(before, np.diff(first, append=len(group)))
    return made


def end_placements(ends: pd.DataFrame, racks: pd.DataFrame) -> pd.DataFrame:
    """Placements of rack PDUs and power shelves (columns name, rack, u_height, u_bottom).

    Zero-U PDUs stand at the rack's centre, half way up.
    """
    at = racks.set_index("name").loc[ends["rack"]]
    bottom, height = (ends[column].to_numpy(dtype=np.int64) for column in ("u_bottom", "u_height"))
    middle = np.where(bottom > 0, bottom - 1 + height / 2, at["height_u"].to_numpy() / 2)
    return pd.DataFrame(
        {
            "device": ends["name"].to_numpy(),
            "rack": ends["rack"].to_numpy(),
            "u_bottom": bottom,
            "u_height": height,
            "x_m": at["x_m"].to_numpy(),
            "y_m": at["y_m"].to_numpy(),
            "z_m": np.round(middle * U_M, 4),
        }
    )


@dataclass(frozen=True)
class Overload:
    """A rack beyond a limit: id of the finding, the value and its limit, and the site key of the limit. `without_servers`: racks
    without GPU servers are beyond it too, so that fewer servers do not resolve it.
    """

    id: str
    rack: str
    value: float
    limit: float
    key: str
    without_servers: bool = False


_KEYS = {COMPUTE: "", NETWORK: "network.", STORAGE: "storage."}


def check(
    racks: pd.DataFrame,
    limits: Limits,
    room: Room,
    use: pd.Series,
    least_change: Callable[[Overload], list[RemedyOf]],
    keys: Mapping[int, str] = _KEYS,
) -> list[Finding]:
    """Findings for racks (complete `racks` frame) that exceed rack units, mass, power or floor load.

    `use` is aligned with `racks`; `least_change` gives the remedies of an overload; `keys` says where in the site's `rack`
    the limits of each use stand.
    """
    others_kg_m2 = [
        racks.loc[use == number, "mass_kg"] / limits[number].area_m2 for number in keys if number != COMPUTE
    ]
    without_servers = any(bool((one > room.floor_load_kg_m2).any()) for one in others_kg_m2)
    found = []
    for key in dict.fromkeys(keys.values()):
        same = [number for number in keys if keys[number] == key]
        found += _check_alike(racks[use.isin(same)], limits[same[0]], room, key, least_change, without_servers)
    return found


def _check_alike(
    racks: pd.DataFrame,
    rack: RackLimits,
    room: Room,
    key: str,
    least_change: Callable[[Overload], list[RemedyOf]],
    floor_without_servers: bool,
) -> list[Finding]:
    """Findings for racks with the same limits, which stand in the site under rack and `key`."""
    if racks.empty:
        return []
    area_m2 = rack.area_m2
    found = []
    for id_, number, values, limit, limit_key in (
        ("SPACE-RACK-U", "used_u", racks["used_u"], rack.height_u, f"rack.{key}height_u"),
        ("SPACE-RACK-MASS", "load_kg", racks["mass_kg"] - rack.mass_kg, rack.mass_limit_kg, f"rack.{key}mass_limit_kg"),
        ("SPACE-RACK-POWER", "nameplate_kw", racks["nameplate_kw"], rack.power_limit_kw, f"rack.{key}power_limit_kw"),
        ("SPACE-FLOOR-LOAD", "floor_kg_m2", racks["mass_kg"] / area_m2, room.floor_load_kg_m2, "room.floor_load_kg_m2"),
    ):
        worst = worst_of(values, limit)
        if worst is None:
            continue
        name, value = str(racks["name"].iloc[worst.at]), round(worst.value, 3)
        numbers: dict[str, Any] = {number: value, "count": worst.count}
        found.append(
            finding(
                id_,
                name,
                limit=limit,
                limit_source=f"site {limit_key}",
                remedies=least_change(
                    Overload(id_, name, value, limit, limit_key, id_ == "SPACE-FLOOR-LOAD" and floor_without_servers)
                ),
                words={"area_m2": area_m2},
                **numbers,
            )
        )
    return found


def rack_totals(racks: pd.DataFrame, devices: pd.DataFrame, placements: pd.DataFrame) -> pd.DataFrame:
    """`racks` with power per profile, and with the mass and rack units of PDUs and power shelves."""
    at = pd.Index(placements["device"]).get_indexer(pd.Index(devices["name"]))
    own = np.append(pd.Index(racks["name"]).get_indexer(pd.Index(placements["rack"])), -1)[at]
    placed, late = own >= 0, devices["kind"].isin(["pdu", "shelf"]).to_numpy()

    def total(column: str, of: npt.NDArray[np.bool_]) -> Floats:
        values = devices[column].to_numpy(dtype=np.float64)[of]
        return np.bincount(own[of], values, minlength=len(racks)).astype(np.float64)

    return racks.assign(
        mass_kg=(racks["mass_kg"].to_numpy() + total("mass_kg", placed & late)).round(3),
        used_u=racks["used_u"].to_numpy() + total("u_height", placed & late).astype(np.int64),
        **{f"{p}_kw": (total(f"{p}_w", placed) / 1000).round(6) for p in ("seed", "measured", "nameplate")},
    )
