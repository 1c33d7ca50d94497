"""The devices of a site: names, roles and the facts of their models, before anything is placed or cabled.

In: site, catalogue, compute fabric. Out: a frame with the columns of capacity.model.frames.DEVICES, without the rack PDUs
and the power shelves (their number follows from the racks; see `pdu_devices` and `shelf_devices`), and the supplies of
each model.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from capacity.accepted import Standing
from capacity.model import Plan
from capacity.storage.sizing import Option
from inventory.catalog import Catalog, DeviceType
from inventory.site import Site
from inventory.site.sections.power import RACK_USES
from network.fabric import FatTree, fat_tree_switches
from network.wiring import rails
from network.wiring.inband import placed_block
from network.wiring.oob import AGGREGATION

_SERVICE_PREFIX = {"controller": "ctl", "storage": "sto", "management": "mgm"}
_COMPUTE_PREFIX = {"ib": "ib", "roce": "ro"}
_SYSTEM_NAMES = {"oob": ("oob", 2), "nvlink": ("nvl", 3)}
"""Name and least digits of the switches in rack-scale systems; management switches count on in those of the site."""
_ROLE_LETTER = {"leaf": "l", "spine": "s", "core": "c"}

BUSBAR = "busbar"
"""Role of the load that all devices on the DC busbar of a rack make together."""


Columns = dict[str, Any]
"""Columns of devices by name: an array, or the value that all rows have."""


@dataclass(frozen=True)
class Widths:
    """How the devices that stand are numbered, so that no name changes with growth.

    ``digits``  digits of the number by the letters before it; those of a new kind follow from its count
    ``inside``  management switches of rack-scale systems, in the order of the systems
    ``own``     the site's own management switches
    """

    digits: Mapping[str, int] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    def names(self, prefix: str, count: int, least: int) -> list[str]:
        """`prefix` + 1..count with leading zeros: as many digits as stand, or as the count takes, at least `least`."""
        digits = self.digits.get(prefix) or max(least, len(str(count)))
        return [f"{prefix}{i:0{digits}d}" for i in range(1, count + 1)]


def _numbered(count: int, standing: Sequence[str], others: Collection[str], numbers: Iterable[str]) -> list[str]:
    """Names of `count` devices: those that stand, then the first of `numbers` that neither they nor `others` have."""
    kept = list(standing[:count])
    free = (name for name in numbers if name not in {*standing, *others})
    return kept + list(itertools.islice(free, count - len(kept)))


def servers_and_switches(
    site: Site,
    catalog: Catalog,
    tree: FatTree | None,
    oob_aggregation: int,
    widths: Widths,
    storage: Option | None = None,
) -> pd.DataFrame:
    """Servers, compute switches, in-band switches, management switches and NVLink switches, in this order.

    `storage` is the design whose enclosures and metadata servers are devices, where the site names its block.

    Management switches that rack-scale systems bring along come before the site's own.
    """
    parts = [_gpu_servers(site, catalog, widths)]
    service_index: dict[str, int] = {}
    for node in site.service_nodes:
        prefix = _SERVICE_PREFIX.get(node.role, node.role[:3])
        first = service_index.get(node.role, 0)
        service_index[node.role] = first + node.count
        parts.append(
            _rows(
                widths.names(prefix, first + node.count, 2)[first:],
                "server",
                node.role,
                catalog.device(node.model),
                first=first,
            )
        )
    if storage is not None:
        parts += _storage(site, catalog, storage, service_index.get("storage", 0), widths)
    if tree is not None:
        parts.append(_compute_switches(site, catalog, tree, widths))
    inband = site.inband
    switches: tuple[tuple[Literal["spine", "leaf"], int, str], ...] = (
        ("spine", inband.spines, inband.spine_model),
        ("leaf", inband.leaves, inband.leaf_model),
    )
    for role, count, model in switches:
        rows = _rows(widths.names(role, count, 2), "switch", role, catalog.device(model), fabric="inband")
        rows["asn"] = np.array([inband.as_number(role, int(index)) for index in rows["index"]], dtype=np.int64)
        parts.append(rows)
    inside = _system_devices(site, catalog, "oob", widths)
    parts += [inside, _management_switches(site, catalog, len(inside["name"]), oob_aggregation, widths)]
    nvlink = _system_devices(site, catalog, "nvlink", widths)
    nvlink["nvlink_domain"] = nvlink["busbar"]
    parts.append(nvlink)
    return pd.DataFrame(_joined([part for part in parts if len(part["name"])]))


def _storage(site: Site, catalog: Catalog, storage: Option, first: int, widths: Widths) -> list[Columns]:
    """Enclosures, numbered on from the `first` storage servers of the service nodes, and metadata servers."""
    block = placed_block(site, catalog)
    if block is None:
        return []
    box = block.enclosure
    own = widths.names(_SERVICE_PREFIX["storage"], first + storage.enclosures, 2)[first:]
    enclosures = _rows(own, "server", "storage", catalog.device(box.device), first=first)
    enclosures["mass_kg"] = enclosures["mass_kg"] + box.drives * block.drive.kg
    if not storage.metadata_servers:
        return [enclosures]
    others = widths.names("mds", storage.metadata_servers, 2)
    return [enclosures, _rows(others, "server", "metadata", catalog.device(block.metadata.device))]


def _management_switches(site: Site, catalog: Catalog, inside: int, aggregation: int, widths: Widths) -> Columns:
    """The site's own access switches, numbered on from the `inside` ones of rack-scale systems, and the aggregation."""
    numbers = widths.names("oob", inside + site.oob.switches, 2)
    if widths.inside or widths.own:
        numbers = _numbered(site.oob.switches, widths.own, _inside_names(site, inside, widths), numbers)
    else:
        numbers = numbers[inside:]
    own = [*numbers, *widths.names(AGGREGATION, aggregation, 2)]
    return _rows(own, "switch", "oob", catalog.device(site.oob.switch_model), fabric="oob", first=inside)


def _inside_names(site: Site, count: int, widths: Widths) -> list[str]:
    """Names of the management switches inside rack-scale systems."""
    prefix, least = _SYSTEM_NAMES["oob"]
    numbers = widths.names(prefix, count + max(site.oob.switches, len(widths.own)), least)
    return _numbered(count, widths.inside, widths.own, numbers)


def _system_devices(site: Site, catalog: Catalog, role: str, widths: Widths) -> Columns:
    """The switches with this role in every rack-scale system, in the order of the systems; no rows without any."""
    system = catalog.system(site.server.system) if site.server.system else None
    part = system.part(role) if system else None
    if system is None or part is None:
        return _rows([], "switch", role, catalog.device(site.oob.switch_model))
    prefix, least = _SYSTEM_NAMES[role]
    count = len(part.u) * (site.server.count // system.count("compute"))
    own = _inside_names(site, count, widths) if role == "oob" else widths.names(prefix, count, least)
    rows = _rows(own, "switch", role, catalog.device(part.model), fabric=role)
    rows["busbar"] = (rows["index"] - 1) // len(part.u)
    rows["psu_count"] = 0
    return rows


def system_bottoms(site: Site, catalog: Catalog, devices: pd.DataFrame) -> np.ndarray:
    """Lowest rack unit of each device that stands in a rack-scale system, as the system's entry says; 0 for others."""
    bottoms = np.zeros(len(devices), dtype=np.int64)
    if site.server.system is None:
        return bottoms
    within = (devices["busbar"] >= 0).to_numpy()
    for part in catalog.system(site.server.system).parts:
        rows = np.flatnonzero(within & (devices["model"] == part.model).to_numpy())
        bottoms[rows] = np.array(part.u, dtype=np.int64)[np.arange(len(rows)) % len(part.u)]
    return bottoms


def pdu_devices(site: Site, catalog: Catalog, racks: pd.DataFrame) -> pd.DataFrame:
    """Rack PDUs of every feed of `racks` (`name` and `use`, as placement.place gives them): the device columns and `rack`,
    `feed`, `use` (one of RACK_USES), `circuit_key` and `pdu_key` (keys of the site's power that state their circuit and model);
    ordered by rack, feed, number.
    """
    per_feed = site.power.rack_pdu.per_feed
    feeds = list(site.power.feeds)
    each = len(feeds) * per_feed
    suffixes = [feed.lower() + (str(i + 1) if per_feed > 1 else "") for feed in feeds for i in range(per_feed)]
    rack = racks["name"].to_numpy(dtype=object)
    names = np.array([f"pdu-{name}-{suffix}" for name in rack for suffix in suffixes], dtype=object)
    use = np.repeat(racks["use"].to_numpy(dtype=np.int64), each)
    model = np.array([site.power.pdu_model(name) for name in RACK_USES], dtype=object)[use]
    parts, places = [], []
    for slug in dict.fromkeys(model.tolist()) or [site.power.rack_pdu.model]:
        at = np.flatnonzero(model == slug)
        parts.append(_rows(names[at].tolist(), "pdu", "rack_pdu", catalog.device(slug)))
        places.append(at)
    order = np.argsort(np.concatenate(places), kind="stable")
    rows = {name: values[order] for name, values in _joined(parts).items()}
    rows["index"] = np.arange(1, len(order) + 1)
    rows["psu_count"] = 0
    rows["u_bottom"] = 0
    rows["rack"] = np.repeat(rack, each)
    rows["circuit_key"] = np.array([site.power.key_of(name, "circuit") for name in RACK_USES], dtype=object)[use]
    rows["pdu_key"] = np.array([site.power.key_of(name, "pdu") for name in RACK_USES], dtype=object)[use]
    rows["use"] = np.array(RACK_USES, dtype=object)[use]
    rows["feed"] = np.tile(np.repeat(np.array(feeds, dtype=object), per_feed), len(racks))
    return _frame(rows)


def shelf_devices(site: Site, catalog: Catalog, racks: pd.Series) -> pd.DataFrame:
    """Power shelves of the rack-scale systems in `racks`: the device columns and `rack`, `feed`, `u_bottom`, `circuit_key`,
    `use` (that of GPU racks) and `pdu_key` ("", as they are no rack PDUs).

    Ordered by rack, then from the bottom of the rack, the feeds in turn as the site splits them. No rows without
    rack-scale systems.
    """
    part = catalog.system(site.server.system).part("shelf") if site.server.system else None
    if part is None or site.server.shelves is None:
        return pd.DataFrame()
    order = feed_sequence(site.server.shelves.split_by_feed, site.power.feeds)
    shelf_names = [f"shelf-{rack}-{i + 1}" for rack in racks for i in range(len(part.u))]
    rows = _rows(shelf_names, "shelf", "power_shelf", catalog.device(part.model))
    rows["psu_count"] = 0
    rows["busbar"] = (rows["index"] - 1) // len(part.u)
    rows["rack"] = np.repeat(racks.to_numpy(dtype=object), len(part.u))
    rows["circuit_key"] = "shelf_circuit" if site.power.shelf_circuit is not None else "rack_circuit"
    rows["pdu_key"], rows["use"] = "", RACK_USES[0]
    rows["feed"] = np.tile(np.array([site.power.feeds[i] for i in order], dtype=object), len(racks))
    rows["u_bottom"] = np.tile(np.array(part.u, dtype=np.int64), len(racks))
    return _frame(rows)


def outlets_per_rack(site: Site, catalog: Catalog, inlets: list[str]) -> tuple[dict[str, int], ...]:
    """Outlets on all PDUs of a rack that mate with each of the inlet connectors, for each use of racks in turn."""
    pdus = len(site.power.feeds) * site.power.rack_pdu.per_feed

    def of_model(slug: str) -> dict[str, int]:
        types = [outlet.type for outlet in catalog.device(slug).power_outlets]
        return {inlet: pdus * sum(t in catalog.connector(inlet).mates for t in types) for inlet in inlets if inlet}

    return tuple(of_model(site.power.pdu_model(use)) for use in RACK_USES)


def _gpu_servers(site: Site, catalog: Catalog, widths: Widths) -> Columns:
    server = site.server
    rows = _rows(widths.names("gpu", server.count, 3), "server", "gpu", catalog.device(server.model))
    rows["unit"] = (rows["index"] - 1) // site.fabric.unit_nodes
    rows["psu_count"] = server.psu.count if server.psu else 0
    if server.system:
        rows["busbar"] = (rows["index"] - 1) // catalog.system(server.system).count("compute")
        rows["nvlink_domain"] = rows["busbar"]
    for profile in ("seed_w", "measured_w", "nameplate_w"):
        rows[profile] = float(getattr(server.power, profile))
    return rows


def _compute_switches(site: Site, catalog: Catalog, tree: FatTree, widths: Widths) -> Columns:
    switches = fat_tree_switches(tree)
    kind = _COMPUTE_PREFIX[site.fabric.kind]
    model = catalog.device(site.fabric.switch_model)
    parts = []
    for role, group in switches.groupby("role", sort=False):
        rows = _rows(
            widths.names(f"{kind}{_ROLE_LETTER[str(role)]}", len(group), 3),
            "switch",
            str(role),
            model,
            fabric="compute",
        )
        rows["unit"], rows["rail"] = group["unit"].to_numpy(), group["rail"].to_numpy()
        if site.fabric.asn_base is not None:
            rows["asn"] = rails.as_numbers(site.fabric.asn_base, str(role), tree)
        parts.append(rows)
    return _joined(parts)


def _rows(
    device_names: list[str], kind: str, role: str, model: DeviceType, fabric: str = "", first: int = 0
) -> Columns:
    """Devices of one model, whose columns may be single values. Columns, because frames of each kind of device take longer than
    the one of all.
    """
    power = model.bringup.power
    return {
        "name": np.array(device_names, dtype=object),
        "kind": kind,
        "role": role,
        "fabric": fabric,
        "model": model.slug,
        "unit": -1,
        "rail": -1,
        "index": np.arange(first + 1, first + len(device_names) + 1),
        "asn": 0,
        "nvlink_domain": -1,
        "busbar": -1,
        "psu_count": model.psu_count,
        "u_height": math.ceil(model.u_height),
        "mass_kg": model.mass_kg,
        "seed_w": power.seed_w,
        "measured_w": power.measured_w,
        "nameplate_w": power.nameplate_w,
        "air_fraction": model.bringup.air_fraction,
    }


def _joined(parts: Sequence[Columns]) -> Columns:
    """The rows of all parts one after another, each column an array."""
    return {name: np.concatenate([_values(part, name) for part in parts]) for name in parts[0]}


def _frame(rows: Columns) -> pd.DataFrame:
    """A frame of columns of which some may be single values."""
    return pd.DataFrame({name: _values(rows, name) for name in rows})


def _values(rows: Columns, name: str) -> np.ndarray:
    """A column as an array."""
    value = rows[name]
    if isinstance(value, np.ndarray):
        return value
    return np.full(len(rows["name"]), value, dtype=object if isinstance(value, str) else None)


def with_optics(devices: pd.DataFrame, catalog: Catalog, optics_w: pd.Series) -> pd.DataFrame:
    """`devices` with `optics_w`, watts of what sits in the cages of each, added to the profiles that its model states without
    (bringup.power.without_optics). The nameplate has
    all cages full, and a server's figures are those of the whole machine.
    """
    watts = optics_w.reindex(devices["name"]).fillna(0.0).to_numpy(dtype=np.float64)
    stated = {slug: catalog.device(slug).bringup.power.without_optics for slug in devices["model"].unique()}
    switch = (devices["kind"] == "switch").to_numpy()
    return devices.assign(
        **{
            f"{profile}_w": devices[f"{profile}_w"]
            + np.where(switch & devices["model"].map({s: profile in w for s, w in stated.items()}), watts, 0.0)
            for profile in ("seed", "measured")
        }
    )


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


def widths_of(baseline: Plan | Standing | None) -> Widths:
    """The numbering of what stands."""
    if baseline is None:
        return Widths()
    devices = baseline.devices
    parts = devices["name"].str.extract(r"^([a-z]+)(\d+)$").dropna()
    digits = parts[1].str.len().groupby(parts[0]).first()
    oob = devices[(devices["fabric"] == "oob") & ~devices["name"].str.startswith(AGGREGATION)]
    within = oob["busbar"] >= 0
    return Widths(
        {str(prefix): int(count) for prefix, count in digits.items()},
        tuple(oob.loc[within, "name"]),
        tuple(oob.loc[~within, "name"]),
    )
