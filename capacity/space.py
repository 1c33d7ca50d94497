"""Space: which device stands in which rack and rack unit, and where the racks stand in the room.

In: devices with their size, mass and nameplate power, and the limits of rack and room. Out: frames `racks` and
`placements` (columns of capacity.frames, without the power columns of `racks`) and findings where something does not
fit.

Rules
- GPU servers fill GPU racks in the order of their index, so a scalable unit is a run of neighbouring racks.
- A switch with servers of its own (leaf, management switch) goes as near as possible to the middle of the racks that it
  serves, within those racks, as far as rack units, mass, power and outlets allow. Of two racks equally near, the one with less
  power is taken: the leaves of low rails and of high rails then share the two middle racks of an even unit.
- Everything else (spines, cores, service nodes, leaves that found no room) goes into racks of its own in the middle of
  the room when the room has positions for them, otherwise into free room of the GPU racks, spread evenly.
- Servers stand from the bottom up, switches from the top down; rack PDUs are zero-U.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.findings import Finding

U_M = 0.04445
"""Height of a rack unit in metres (EIA-310: 1.75 inch)."""

_KW = 2  # column of power in the tables of needs and of room left

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RackLimits:
    """What a rack may hold (U, kg, kW, m). `mass_kg` is the empty rack; `reserved_*` is kept free for its PDUs."""

    height_u: int
    servers: int
    mass_kg: float
    mass_limit_kg: float
    power_limit_kw: float
    width_m: float
    depth_m: float
    reserved_kg: float = 0.0
    reserved_kw: float = 0.0


@dataclass(frozen=True)
class Room:
    """Positions of the room; metres, kg/m2."""

    rows: int
    racks_per_row: int
    rack_pitch_m: float
    row_pitch_m: float
    floor_load_kg_m2: float

    @property
    def positions(self) -> int:
        return self.rows * self.racks_per_row


@dataclass(frozen=True)
class Space:
    """`racks` and `placements` as in capacity.frames; `racks` lacks the power columns."""

    racks: pd.DataFrame
    placements: pd.DataFrame
    findings: tuple[Finding, ...]


def place(
    devices: pd.DataFrame,
    unit_nodes: int,
    rack: RackLimits,
    room: Room,
    inlets: Mapping[str, str],
    outlets_per_rack: Mapping[str, int],
) -> Space:
    """Place `devices` (columns of frames.DEVICES; no PDUs, their places are `pdu_placements`).

    `unit_nodes` is the number of servers that share a set of leaves; `inlets` maps a model to its inlet connector, and
    `outlets_per_rack` an inlet connector to the outlets for it on all PDUs of a rack.
    """
    return _Packer(devices, unit_nodes, rack, room, inlets, outlets_per_rack).run()


def gpu_rack_count(servers: int, rack: RackLimits) -> int:
    """Racks for `servers` GPU servers."""
    return -(-servers // rack.servers)


class _Packer:
    """State of one placement: what each device needs and what each rack has left, a column per resource.

    Columns: rack units, kg, kW, then cords per inlet connector.
    """

    def __init__(
        self,
        devices: pd.DataFrame,
        unit_nodes: int,
        rack: RackLimits,
        room: Room,
        inlets: Mapping[str, str],
        outlets_per_rack: Mapping[str, int],
    ) -> None:
        self.devices = devices.reset_index(drop=True)
        self.unit_nodes = unit_nodes
        self.rack = rack
        self.room = room
        self.u = self.devices["u_height"].to_numpy(dtype=np.int64)
        self.kg = self.devices["mass_kg"].to_numpy(dtype=np.float64)
        kw = self.devices["nameplate_w"].to_numpy(dtype=np.float64) / 1000
        inlet = self.devices["model"].map(dict(inlets)).to_numpy(dtype=object)
        supplies = self.devices["psu_count"].to_numpy(dtype=np.float64)
        connectors = sorted(outlets_per_rack)
        cords = [np.where(inlet == connector, supplies, 0.0) for connector in connectors]
        self.needs = np.column_stack([self.u.astype(np.float64), self.kg, kw, *cords])
        self.limits = np.array(
            [
                rack.height_u,
                rack.mass_limit_kg - rack.reserved_kg,
                rack.power_limit_kw - rack.reserved_kw,
                *(outlets_per_rack[connector] for connector in connectors),
            ],
            dtype=np.float64,
        )
        gpu = (self.devices["role"] == "gpu").to_numpy()
        self.gpu = np.flatnonzero(gpu)
        self.gpu_racks = gpu_rack_count(len(self.gpu), rack)
        self.home = np.full(len(self.devices), -1, dtype=np.int64)
        self.home[self.gpu] = np.arange(len(self.gpu)) // rack.servers
        self.free = np.tile(self.limits, (self.gpu_racks, 1))
        np.subtract.at(self.free, self.home[self.gpu], self.needs[self.gpu])
        self.findings: list[Finding] = []

    def run(self) -> Space:
        waiting = self._place_serving_switches()
        own = self._pack_own_racks(waiting)
        if self.gpu_racks + len(own) > self.room.positions and waiting:
            own = self._pack_own_racks(self._spread(waiting))
        for offset, members in enumerate(own):
            self.home[members] = self.gpu_racks + offset
        total = self.gpu_racks + len(own)
        if total > self.room.positions:
            self.findings.append(
                Finding(
                    "SPACE-ROOM",
                    "error",
                    "room",
                    f"{total} racks are needed and the room has {self.room.positions} positions",
                    {"racks": total, "gpu_racks": self.gpu_racks, "other_racks": len(own)},
                    float(self.room.positions),
                    "site room.rows x room.racks_per_row",
                )
            )
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
        """First and last GPU rack that each device serves (-1 where it serves none in particular)."""
        first = np.full(len(self.devices), -1, dtype=np.int64)
        last = first.copy()
        role, fabric = self.devices["role"].to_numpy(dtype=object), self.devices["fabric"].to_numpy(dtype=object)
        servers = len(self.gpu)
        compute = np.flatnonzero((role == "leaf") & (fabric == "compute"))
        unit = self.devices["unit"].to_numpy(dtype=np.int64)[compute]
        first[compute] = unit * self.unit_nodes // self.rack.servers
        last[compute] = (np.minimum((unit + 1) * self.unit_nodes, servers) - 1) // self.rack.servers
        for members in (np.flatnonzero((role == "leaf") & (fabric == "inband")), np.flatnonzero(role == "oob")):
            share = np.arange(len(members) + 1) * servers // max(len(members), 1)
            first[members] = share[:-1] // self.rack.servers
            last[members] = np.maximum(share[1:] - 1, share[:-1]) // self.rack.servers
        return first, np.minimum(last, self.gpu_racks - 1)

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
        """Devices in the order given, a new rack whenever the present one has no room."""
        racks: list[list[int]] = []
        left = np.zeros_like(self.limits)
        for device in waiting:
            if not racks or not self._fits(device, left[None, :])[0]:
                racks.append([])
                left = self.limits.copy()
            racks[-1].append(device)
            left -= self.needs[device]
        return racks

    def _fits(self, device: int, free: Floats) -> npt.NDArray[np.bool_]:
        return (free >= self.needs[device] - 1e-9).all(axis=1)

    def _take(self, device: int, rack: int) -> None:
        self.home[device] = rack
        self.free[rack] -= self.needs[device]

    def _frames(self, own: int) -> Space:
        total = self.gpu_racks + own
        unit_racks = max(1, self.unit_nodes // self.rack.servers)
        middle = self.gpu_racks // 2 // unit_racks * unit_racks
        order = np.arange(total)
        position = np.where(order < middle, order, order + own)
        position[self.gpu_racks :] = middle + np.arange(own)
        home = position[self.home]

        width = max(2, len(str(total)))
        names = np.array([f"r{i + 1:0{width}d}" for i in range(total)], dtype=object)
        row, in_row = np.divmod(np.arange(total), self.room.racks_per_row)
        x = np.round((in_row + 0.5) * self.room.rack_pitch_m, 3)
        y = np.round(row * self.room.row_pitch_m, 3)
        bottom = self._rack_units(home)
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
                "height_u": self.rack.height_u,
                "used_u": np.bincount(home, self.u, minlength=total).astype(np.int64),
                "mass_kg": np.round(self.rack.mass_kg + np.bincount(home, self.kg, minlength=total), 3),
            }
        )
        return Space(racks, placements, tuple(self.findings))

    def _rack_units(self, home: Ints) -> Ints:
        """Lowest rack unit of each device: servers stacked from the bottom, everything else from the top."""
        table = pd.DataFrame({"rack": home, "server": (self.devices["kind"] == "server").to_numpy(), "u": self.u})
        stacked = table.groupby(["rack", "server"])["u"].cumsum().to_numpy()
        return np.where(table["server"], stacked - self.u + 1, self.rack.height_u - stacked + 1)


def pdu_placements(pdus: pd.DataFrame, racks: pd.DataFrame) -> pd.DataFrame:
    """Placements of zero-U rack PDUs (columns name, rack): at the rack's centre, half way up."""
    at = racks.set_index("name").loc[pdus["rack"]]
    return pd.DataFrame(
        {
            "device": pdus["name"].to_numpy(),
            "rack": pdus["rack"].to_numpy(),
            "u_bottom": 0,
            "u_height": 0,
            "x_m": at["x_m"].to_numpy(),
            "y_m": at["y_m"].to_numpy(),
            "z_m": np.round(at["height_u"].to_numpy() * U_M / 2, 4),
        }
    )


def check(racks: pd.DataFrame, rack: RackLimits, room: Room) -> list[Finding]:
    """Findings for racks (complete `racks` frame) that exceed rack units, mass, power or floor load."""
    area = rack.width_m * rack.depth_m
    rules = (
        ("SPACE-RACK-U", racks["used_u"], rack.height_u, "U", "site rack.height_u", "rack units in use"),
        (
            "SPACE-RACK-MASS",
            racks["mass_kg"] - rack.mass_kg,
            rack.mass_limit_kg,
            "kg",
            "site rack.mass_limit_kg",
            "load of the rack",
        ),
        (
            "SPACE-RACK-POWER",
            racks["nameplate_kw"],
            rack.power_limit_kw,
            "kW",
            "site rack.power_limit_kw",
            "nameplate power",
        ),
        (
            "SPACE-FLOOR-LOAD",
            racks["mass_kg"] / area,
            room.floor_load_kg_m2,
            "kg/m2",
            "site room.floor_load_kg_m2",
            f"floor load on a footprint of {area:.2f} m2",
        ),
    )
    findings = []
    for key, values, limit, unit, source, what in rules:
        over = np.flatnonzero(values.to_numpy(dtype=np.float64) > limit + 1e-6)
        for i in over.tolist():
            value = round(float(values.iloc[i]), 2)
            name = str(racks["name"].iloc[i])
            findings.append(
                Finding(
                    key,
                    "error",
                    name,
                    f"{name}: {what} {value:g} {unit}, limit {limit:g} {unit}",
                    {"value": value},
                    float(limit),
                    source,
                )
            )
    return findings
