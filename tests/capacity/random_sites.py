"""Random valid sites for hypothesis: a shipped site shrunk to a few racks, with settings drawn for keys of every section.

    @given(sites("h100-1000-ib"))
    def test(drawn: Drawn) -> None:
        plan = build(drawn.site)

A drawn site is the settings of a what-if (inventory.site.whatif), so it goes through the schema and the rules of the site file,
and `repr` gives the command that plans it again. Keys that depend on each other are drawn together; where the rules refuse a
site none the less, hypothesis drops it.
"""

import datetime
import functools
import shlex
from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import assume
from hypothesis import strategies as st

from inventory.catalog import load_catalog
from inventory.groups import DELIVERED_TO, GROUPS
from inventory.site import Site, SiteError
from inventory.site.sections.schedule import LEADTIME_ITEMS
from inventory.site.whatif import Base
from tests.full_sites import FOLDER

Settings = dict[str, Any]

SYSTEMS = ("gb300-nvl72-liquid",)
"""Bases whose servers are trays of rack-scale systems."""
SOURCE = "drawn"
NOTHING: Settings = {}
FIRST_DAY = datetime.date(2026, 11, 1)


@dataclass(frozen=True, repr=False)
class Drawn:
    """A shipped site and the settings that make it another."""

    base: str
    site: Site

    def __repr__(self) -> str:
        file = f"tests/data/sites_in_full/{self.base}.yaml"
        return shlex.join(["bringup", "plan", file, *(w for one in self.site.changes for w in ("--set", one))])


@functools.cache
def base_of(name: str) -> Base:
    """A shipped site file with every key written out, read once: what is drawn for a section is all that it has."""
    return Base.read(str(FOLDER / f"{name}.yaml"))


@st.composite
def sites(draw: st.DrawFn, name: str) -> Drawn:
    """A valid site after a shipped one."""
    feeds = tuple("ABCDE"[: draw(st.integers(1, 5))])
    planned = draw(st.sampled_from([True, True, True, True, False]))
    drawn: Settings = {}
    for section in (
        servers(name, feeds),
        distribution(name, feeds, planned),
        supply(feeds) if planned else unplanned(name),
        racks(name),
        rooms(),
        networks(name),
        coolings(),
        weathers(),
        stores(),
        st.just(NOTHING) | programmes(),
        purchases(),
    ):
        drawn |= draw(section)
    try:
        return Drawn(name, base_of(name).changed([f"{key}={flow(value)}" for key, value in drawn.items()]))
    except SiteError:
        assume(False)
        raise


def flow(value: Any) -> str:
    """A value on one line, as a setting has it."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False).removesuffix("...\n").strip()


def numbers(low: float, high: float, step: float = 0.1) -> st.SearchStrategy[float]:
    """Round numbers, as people write them."""
    return st.integers(0, round((high - low) / step)).map(lambda n: round(low + n * step, 6))


def maybe(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Settings]:
    """Some of these keys; a double underscore stands for a dot."""
    return st.fixed_dictionaries({}, optional={key.replace("__", "."): value for key, value in keys.items()})


def or_none(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | value


@st.composite
def servers(draw: st.DrawFn, name: str, feeds: tuple[str, ...]) -> Settings:
    """How many, how their supplies are split among the feeds and how many they need, and a power cap or none."""
    server = base_of(name).site.server
    group, key = server.supplies, "server.shelves" if server.system else "server.psu"
    even = [feeds[n % len(feeds)] for n in range(group.count)]
    on = draw(st.just(even) | st.lists(st.sampled_from(feeds), min_size=group.count, max_size=group.count))
    needed = draw(st.integers(1 if server.system else int(group.redundancy.split("+")[0]), group.count))
    split: dict[str, int] = {feed: on.count(feed) for feed in feeds}
    if draw(st.booleans()):
        split = {feed: count for feed, count in split.items() if count}
    power = server.power
    return {
        "server.count": draw(st.integers(1, 4).map(lambda n: 18 * n) if server.system else st.integers(1, 40)),
        f"{key}.split_by_feed": split,
        f"{key}.redundancy": f"{needed}+{group.count - needed}",
        "server.power.cap_w": draw(or_none(numbers(power.measured_w, power.nameplate_w, 10))),
        **draw(st.fixed_dictionaries({}, optional={f"{key}.rating_w": numbers(1000, group.rating_w, 100)})),
    }


@st.composite
def distribution(draw: st.DrawFn, name: str, feeds: tuple[str, ...], planned: bool) -> Settings:
    """Feeds, code, voltage, circuits, profile, PDUs."""
    server = base_of(name).site.server
    code = draw(st.sampled_from(["nec", "iec"]))
    volts = draw(st.sampled_from([(415, 240), (400, 230), (380, 220), (208, 208)][: 2 if server.system else 4]))
    circuit = st.fixed_dictionaries(
        {"breaker_a": st.sampled_from([16, 20, 30, 32, 60, 63, 80, 100, 125]), "phases": st.just(3)}
    )
    if not planned:
        circuit = circuit | st.just({"breaker_a": 30, "phases": 1})
    drawn = {
        "power.feeds": list(feeds),
        "power.code": code,
        "power.derating": draw(numbers(0.5, 0.8 if code == "nec" else 1.0)),
        "power.voltage_v": volts[0],
        f"server.{'shelves' if server.system else 'psu'}.input_v": volts[0 if server.system else 1],
        "power.rack_circuit": draw(circuit),
    }
    if server.system:
        drawn["power.shelf_circuit"] = draw(circuit)
    return drawn | draw(
        maybe(
            power__pue=numbers(1.0, 3.0),
            power__power_factor=numbers(0.5, 1.0, 0.05),
            power__profile=st.sampled_from(["seed", "measured", "nameplate"]),
            power__rack_pdu__per_feed=st.integers(1, 2),
            power__rack_pdu__model=st.sampled_from(["lab-pdu-24", "rack-pdu-60a-415v"]),
            power__overhead_pct=st.sampled_from([[0, 0], [10, 20]]),
        )
    )


@st.composite
def unplanned(draw: st.DrawFn, name: str) -> Settings:
    """No supply above the rack circuits."""
    present = draw(st.booleans())
    return {
        "electrical": None,
        "generator": {"present": present, **({"start_s": draw(numbers(1, 600, 1))} if present else {})},
        **draw(upses(st.sampled_from(["n", "n+1", "n+2", "2n"]))),
    }


def upses(redundancy: st.SearchStrategy[str]) -> st.SearchStrategy[Settings]:
    return st.fixed_dictionaries(
        {
            "ups.redundancy": redundancy,
            "ups.module_kw": st.sampled_from([50, 100, 200, 500, 1000]),
            "ups.scope": st.sampled_from(["it", "it_and_cooling"]),
            "ups.autonomy_min": numbers(0, 30, 0.5),
        }
    )


@st.composite
def supply(draw: st.DrawFn, feeds: tuple[str, ...]) -> Settings:
    """The section electrical, with UPS and generators."""
    redundancy = draw(st.sampled_from(["n", "n+1", "n+2", "2n"]))
    least = {"n": 1, "n+1": 2, "n+2": 3, "2n": 2}[redundancy]
    modules = draw(st.integers(least, 6))
    present = draw(st.booleans())
    drawn: Settings = draw(upses(st.just(redundancy)))
    full, stated = modules + (redundancy == "2n" and modules % 2), draw(st.booleans())
    drawn["electrical.ups_blocks.modules_per_block"] = full if stated else None
    drawn["electrical.ups_blocks.most_modules"] = None if stated else full
    drawn["generator"] = {"present": present, **({"start_s": draw(numbers(1, 120, 1))} if present else {})}
    drawn["electrical.generators"] = draw(generators()) if present else None
    board_v = draw(st.sampled_from([None, 400, 415, 480, 690]))
    kind = draw(or_none(transformer_types(100, 1000)) if board_v is None else transformer_types(100, 1000))
    drawn |= {"electrical.switchboard_v": board_v, "electrical.pdu_transformers": kind}
    rooms = st.dictionaries(st.sampled_from(feeds), st.sampled_from(["er-a", "er-b"]))
    drawn["electrical.rooms"] = draw(rooms)
    drawn["electrical.waves"] = draw(or_none(waves(feeds)))
    drawn["electrical.panels"] = draw(panels())
    drawn["electrical.rack_conductor"] = draw(conductors(or_none(numbers(1, 80))))
    return drawn | draw(
        maybe(
            electrical__concurrently_maintainable=st.booleans(),
            electrical__utility__services=st.integers(1, 4),
            electrical__utility__tie=st.booleans(),
            electrical__utility__voltage_kv=st.sampled_from([0.48, 4.16, 10, 13.8, 34.5]),
            electrical__utility__firm_mva=numbers(0.1, 20),
            electrical__utility__fault_mva=numbers(10, 1000, 10),
            electrical__utility__max_step_mw=or_none(numbers(0.1, 5)),
            electrical__utility__growth_pct=numbers(0, 500, 10),
            electrical__medium_voltage__rating_a=st.sampled_from([50, 630, 1200]),
            electrical__transformers=st.builds(
                lambda kind, spare: kind | {"n_plus": spare}, transformer_types(200, 3000), st.integers(0, 2)
            ),
            electrical__switchboards__rating_a=st.sampled_from([400, 1600, 4000]),
            electrical__switchboards__continuous=numbers(0.5, 1.0),
            electrical__ups_blocks__efficiency=numbers(0.5, 1.0, 0.05),
            electrical__ups_blocks__permitted_load=numbers(0.5, 1.0, 0.05),
            electrical__ups_blocks__max_step_pct=or_none(numbers(10, 100, 10)),
            electrical__ups_blocks__rating_ka=or_none(numbers(10, 65, 5)),
            electrical__max_drop_pct=numbers(1, 20, 0.5),
            electrical__frequency_hz=st.sampled_from([50, 60]),
            electrical__power_factor=numbers(0.5, 1.0, 0.05),
            electrical__drain_s=or_none(numbers(10, 7200, 10)),
            electrical__tariff=st.none(),
            electrical__swing=or_none(
                st.fixed_dictionaries({"idle_w": numbers(0, 6000, 100), "source": st.just(SOURCE)})
            ),
        )
    )


def generators() -> st.SearchStrategy[Settings]:
    return st.fixed_dictionaries(
        {
            "kw": st.sampled_from([100, 800, 2500]),
            "n_plus": st.integers(0, 2),
            "transfer_s": numbers(0, 60, 1),
            "fuel_h": numbers(1, 96, 1),
            "source": st.just(SOURCE),
        },
        optional={"max_step_pct": numbers(10, 100, 10), "litres_per_kwh": numbers(0.2, 0.4)},
    )


@st.composite
def transformer_types(draw: st.DrawFn, low_kva: int, high_kva: int) -> Settings:
    kva = draw(st.integers(low_kva // 50, high_kva // 50)) * 50
    uk_pct = draw(numbers(2, 10, 0.25))
    return {
        "kva": kva,
        "uk_pct": uk_pct,
        "load_loss_kw": round(kva * draw(numbers(0.002, 0.019, 0.001)), 3),
        "no_load_kw": draw(numbers(0, 5)),
        "source": SOURCE,
    }


def waves(feeds: tuple[str, ...]) -> st.SearchStrategy[Settings]:
    return st.fixed_dictionaries(
        {"energised_kw": numbers(1, 2000, 1), "ramp_kw_min": numbers(1, 500, 1), "source": st.just(SOURCE)},
        optional={
            "feeds": st.lists(st.sampled_from(feeds), min_size=1, unique=True),
            "cooling_kw": numbers(1, 2000, 1),
        },
    )


@st.composite
def conductors(draw: st.DrawFn, length_m: st.SearchStrategy[float | None]) -> Settings:
    made = {
        "size": "drawn Cu",
        "r_ohm_km": draw(numbers(0.05, 5, 0.05)),
        "x_ohm_km": draw(numbers(0, 0.2, 0.01)),
        "length_m": draw(length_m),
        "source": SOURCE,
    }
    if draw(st.booleans()):
        made |= {"ampacity_a": draw(numbers(20, 1000, 10)), "ampacity_source": SOURCE}
    return made


def panels() -> st.SearchStrategy[Settings]:
    return st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["rpp", "busway"]),
            "rating_a": st.sampled_from([100, 250, 400, 1000]),
            "rating_ka": numbers(10, 65, 5),
            "circuits": st.integers(1, 42),
            "feeder": conductors(numbers(1, 100, 1)),
        },
        optional={"width_m": numbers(0.3, 1.5), "depth_m": numbers(0.3, 1.5), "source": st.just(SOURCE)},
    )


@st.composite
def racks(draw: st.DrawFn, name: str) -> Settings:
    """Racks and their limits; that of a rack-scale system stays what it is sold in."""
    other = st.fixed_dictionaries(
        {
            "model": st.sampled_from(["rack-48u-600", "rack-48u-800"]),
            "height_u": st.integers(12, 48),
            "mass_limit_kg": numbers(300, 1360, 10),
            "power_limit_kw": numbers(2, 60, 0.5),
        }
    )
    drawn = draw(maybe(rack__storage=or_none(other), rack__power_limit_kw=numbers(10, 200, 0.5)))
    if name in SYSTEMS:
        return drawn | draw(maybe(rack__network=or_none(other), rack__mass_limit_kg=numbers(600, 1500, 10)))
    return drawn | draw(
        maybe(
            rack__network=or_none(other),
            rack__servers=st.integers(1, 6) | st.just(30),
            rack__height_u=st.integers(12, 48) | st.just(1),
            rack__mass_limit_kg=numbers(300, 1360, 10),
        )
    )


@st.composite
def rooms(draw: st.DrawFn) -> Settings:
    """Halls of which some are too small, with places for panels or without."""
    rpps = draw(st.integers(0, 3))
    return {
        "room.rows": draw(st.integers(1, 8)),
        "room.racks_per_row": draw(st.integers(rpps + 1, 20)),
        "room.rpps_per_row": rpps,
        **draw(
            maybe(
                room__rack_pitch_m=numbers(0.6, 1.2),
                room__row_pitch_m=numbers(1, 6),
                room__tray_height_m=numbers(0, 5),
                room__slack_m=numbers(0, 5),
                room__altitude_m=numbers(-400, 4000, 100),
                room__floor_load_kg_m2=numbers(300, 3000, 50),
                room__aisle_min_m=or_none(numbers(0.6, 3)),
                room__length_m=or_none(numbers(3, 60)),
                room__width_m=or_none(numbers(3, 60)),
                room__walkway_min_m=or_none(numbers(0.6, 3)),
            )
        ),
    }


@st.composite
def networks(draw: st.DrawFn, name: str) -> Settings:
    """Service nodes, compute fabric of either kind, in-band and management network."""
    rate = base_of(name).site.server.nic.rate_gbps
    known = (("ib", "nvidia-qm9700", 64, 400), ("roce", "nvidia-sn5600", 128, 400), ("ib", "nvidia-q3400-ra", 144, 800))
    kind, model, ports, _ = draw(st.sampled_from([one for one in known if one[3] >= rate]))
    counts = {
        role: draw(st.integers(least, 3)) for role, least in (("controller", 1), ("management", 0), ("storage", 0))
    }
    nodes = [{"role": r, "model": "generic-service-node-2u", "count": n} for r, n in counts.items() if n]
    managers = draw(st.integers(0, min(2, counts["controller"]))) if kind == "ib" else 0
    links = draw(st.integers(1, 2))
    rails = base_of(name).site.fabric.rails if draw(st.booleans()) else draw(st.integers(1, 4))
    return {
        "service_nodes": nodes,
        "fabric.kind": kind,
        "fabric.switch_model": model,
        "fabric.radix": 2 * draw(st.integers(2, ports // 2)),
        "fabric.congestion_control": draw(st.sampled_from(["dcqcn", "pfc_only", "spectrum_x"]))
        if kind == "roce"
        else None,
        "fabric.subnet_managers": ["controller"] * managers,
        "fabric.rails": rails,
        "server.nic.ports": rails,
        "fabric.unit_nodes": draw(st.sampled_from([1, 2, 4, 8, 16, 18, 32, 36, 72, 200])),
        "inband.links_per_node": links,
        "inband.leaves": draw(st.integers(links, 8)),
        "inband.spines": draw(st.integers(1, 6)),
        "oob.switches": draw(st.integers(1, 12)),
        **draw(
            maybe(
                fabric__bisection=numbers(0.1, 1.0),
                fabric__tiers=st.sampled_from(["auto", 1, 2, 3]),
                fabric__leaf_uplinks=or_none(st.integers(1, 40)),
                media__reach_table=st.sampled_from(["linkx-400g", "linkx-800g"]),
                inband__rate_gbps=st.sampled_from([10, 25, 100]),
                addressing__links=st.sampled_from(["172.18.0.0/20", "172.18.0.0/32"]),
                addressing__oob=st.sampled_from(["172.19.0.0/20", "172.19.0.0/31"]),
            )
        ),
    }


@st.composite
def coolings(draw: st.DrawFn) -> Settings:
    """Kind, coolant, air units, plant, ride-through and options, each above what it needs to be warmer than."""
    kind = draw(st.sampled_from(["air", "liquid"]))
    dewpoint_c, air_c, coolant_c = draw(numbers(2, 15, 1)), draw(numbers(16, 32, 1)), draw(numbers(25, 45, 1))
    made: Settings = {
        "kind": kind,
        "class": draw(st.sampled_from(["A1", "A2", "A3", "A4", "H1"])),
        "n_plus": draw(st.integers(0, 2)),
        "supply_c": coolant_c if kind == "liquid" else air_c,
        "dewpoint_c": dewpoint_c,
        "chilled_water": draw(st.booleans()),
    }
    if kind == "liquid":
        made["coolant"] = draw(coolants(coolant_c))
    has_air = draw(st.sampled_from([True, True, True, False]))
    if has_air:
        made["air"] = draw(air_units(air_c))
    if draw(st.sampled_from([True, True, False])):
        made["plant"] = draw(plants(air_c if has_air else 30))
    if draw(st.booleans()):
        trips = {"coolant_trip_c": coolant_c + draw(numbers(1, 30, 1))} if kind == "liquid" else {}
        made["ride_through"] = {
            "trip_c": max(25.0, air_c + draw(numbers(1, 20, 1))),
            **trips,
            "room_height_m": draw(numbers(5.1, 8)),
            "metal_share": draw(numbers(0.1, 1.0)),
            "restart_s": draw(numbers(0, 600, 10)),
            "storage_m3": draw(numbers(0, 50, 5)),
            "source": SOURCE,
        }
    option = st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["air", "hybrid", "liquid"]),
            "air_fraction": numbers(0, 1),
            "rack_air_kw": numbers(1, 80, 1),
            "source": st.just(SOURCE),
        },
        optional={"liquid_water_c": numbers(10, 50, 1), "cdu_pump_w_per_kw": numbers(0, 30, 1)},
    )
    made["options"] = draw(st.lists(option, max_size=3, unique_by=lambda one: one["kind"]))
    return draw(st.sampled_from([{}, {"cooling": made}, {"cooling": made}]))


@st.composite
def coolants(draw: st.DrawFn, coolant_c: float) -> Settings:
    loop = st.fixed_dictionaries(
        {
            "facility_c": numbers(10, coolant_c - 1, 1),
            "facility_rise_k": numbers(2, 20, 1),
            "cdu_ua_kw_k": numbers(5, 500, 5),
            "cdu_head_kpa": numbers(10, 300, 10),
            "cdu_pump_kw": numbers(0, 20, 1),
            "branch_bore_mm": numbers(15, 80, 0.5),
            "branch_m": numbers(1, 60, 1),
            "branch_bends": st.integers(0, 20),
            "rack_kpa": numbers(10, 150, 10),
            "rack_l_min": numbers(20, 300, 10),
            "volume_l": numbers(10, 5000, 10),
            "source": st.just(SOURCE),
        },
    )
    return draw(
        st.fixed_dictionaries(
            {"rise_k": numbers(2, 20, 0.5), "server_max_c": numbers(30, 60, 1), "cdu_kw": numbers(50, 1500, 50)},
            optional={
                "racks_per_loop": st.integers(1, 8),
                "cdus_per_loop": st.integers(1, 4),
                "loop": loop,
            },
        )
    )


@st.composite
def air_units(draw: st.DrawFn, air_c: float) -> Settings:
    kind = draw(st.sampled_from(["crah", "in_row", "rear_door", "fan_wall"]))
    path = "row" if kind == "in_row" else draw(st.sampled_from(["raised_floor", "duct", "room"]))
    made: Settings = {
        "kind": kind,
        "path": path,
        "model": "drawn unit",
        "sensible_kw": draw(numbers(10, 500, 5)),
        "airflow_m3_s": draw(numbers(0.5, 30)),
        "rated_return_c": draw(numbers(24, 45, 1)),
        "rated_water_c": draw(numbers(6, min(air_c - 1, 20), 1)),
        "fan_kw": draw(numbers(0, 15)),
        "rise_k": draw(numbers(5, 25, 1)),
        "leakage_pct": draw(numbers(0, 60, 5)),
        "supply_c": air_c,
        "containment": draw(st.sampled_from(["hot", "cold", "none"])),
        "rows_per_zone": draw(st.integers(1, 4)),
        "source": SOURCE,
    }
    if path == "raised_floor":
        made["tile"] = {
            "airflow_m3_s": draw(numbers(0.1, 1)),
            "pressure_pa": draw(numbers(5, 60, 5)),
            "per_rack": draw(st.integers(1, 4)),
        }
    if path == "duct":
        made["duct"] = {
            "count": draw(st.integers(1, 12)),
            "width_m": draw(numbers(0.2, 3)),
            "height_m": draw(numbers(0.2, 3)),
            "length_m": draw(numbers(1, 80, 1)),
            "bends": draw(st.integers(0, 8)),
            "available_pa": draw(numbers(10, 500, 10)),
        }
    if kind == "in_row":
        made |= draw(maybe(width_m=numbers(0.3, 0.6), every_racks=st.integers(1, 6)))
    elif kind != "rear_door":
        made |= draw(maybe(width_m=numbers(0.6, 4)))
    rack_air = st.fixed_dictionaries({"airflow_m3_s": numbers(0.1, 5), "source": st.just(SOURCE)})
    return made | draw(maybe(units_per_zone=st.integers(1, 6), rack_air=rack_air))


@st.composite
def plants(draw: st.DrawFn, air_c: float) -> Settings:
    kind = draw(st.sampled_from(["chiller_tower", "chiller_dry", "dry_cooler", "tower"]))
    dry_c = draw(numbers(-5, 50, 1))
    made: Settings = {
        "kind": kind,
        "reject_kw": draw(numbers(50, 3000, 50)),
        "reject_fan_kw": draw(numbers(0, 50, 1)),
        "approach_k": draw(numbers(1, 15, 0.5)),
        "design_dry_c": dry_c,
        "design_wet_c": dry_c - draw(numbers(0, 15, 1)),
        "water_c": draw(numbers(6, air_c - 1, 1)),
        "water_rise_k": draw(numbers(2, 15, 0.5)),
        "pump_kpa": draw(numbers(10, 500, 10)),
        "pump_efficiency": draw(numbers(0.3, 1.0)),
        "economiser": draw(st.booleans()),
        "other_pct": draw(numbers(0, 10, 0.5)),
        "source": SOURCE,
    }
    if kind.startswith("chiller"):
        made |= {"chiller_kw": draw(numbers(50, 3000, 50)), "chiller_cop": draw(numbers(1.5, 12))}
    if kind.endswith("tower"):
        made["cycles"] = draw(numbers(1.5, 10))
    return made | draw(
        maybe(
            pump_l_s=numbers(1, 150, 1),
            reject_rise_k=numbers(2, 10, 0.5),
            reject_pump_kpa=numbers(10, 400, 10),
            n_plus=st.integers(0, 2),
        )
    )


@st.composite
def weathers(draw: st.DrawFn) -> Settings:
    """That of the base, none, a file that is not there, or bins."""
    bins = draw(st.lists(st.tuples(numbers(-20, 45, 1), numbers(0, 20, 1)), min_size=1, max_size=6))
    drawn = {
        "source": SOURCE,
        "bins": [{"dry_c": dry, "wet_c": dry - below, "hours": 8760 / len(bins)} for dry, below in bins],
    }
    given = [{}, {"weather": None}, {"weather": {"source": SOURCE, "epw": "absent.epw"}}, {"weather": drawn}]
    return draw(st.sampled_from(given))


@st.composite
def stores(draw: st.DrawFn) -> Settings:
    """A building block and a kind that it carries, or none of them."""
    block = draw(or_none(st.sampled_from(sorted(load_catalog().storage.values(), key=lambda one: one.slug))))
    kind = draw(st.sampled_from(block.kinds if block else ["nfs", "lustre", "weka", "gpfs", "ceph", "glusterfs"]))
    return {
        "storage.block": block.slug if block else None,
        "storage.kind": kind,
        "storage.usable_pb": draw(numbers(0.1, 10)),
        **draw(
            maybe(
                storage__checkpoint__params_b=numbers(1, 1000, 1),
                storage__checkpoint__stall_s=numbers(5, 600, 5),
                storage__checkpoint__interval_min=or_none(numbers(5, 600, 5)),
                storage__checkpoint__retained=or_none(st.integers(1, 500)),
                storage__read_gb_s_per_gpu=or_none(numbers(0.05, 1, 0.05)),
                storage__metadata_ops_s_per_gpu=or_none(numbers(1, 200, 1)),
                storage__rebuild_limit_h=or_none(numbers(1, 100, 1)),
            )
        ),
    }


def dates(last: datetime.date, first: datetime.date = FIRST_DAY) -> st.SearchStrategy[datetime.date]:
    return st.dates(first, last)


@st.composite
def ranges(draw: st.DrawFn) -> Settings:
    """Least, most and perhaps the likely number of weeks."""
    low, width = draw(numbers(0, 60, 0.5)), draw(numbers(0, 60, 0.5))
    made = {"min_weeks": low, "max_weeks": low + width, "source": SOURCE}
    if draw(st.booleans()):
        made["likely_weeks"] = low + draw(st.sampled_from([0.0, 0.5, 1.0])) * width
    return made


@st.composite
def programmes(draw: st.DrawFn) -> Settings:
    """Lead times, calendar, tranches and work: an activity comes after earlier ones of its group or of a group before it."""
    need = draw(dates(datetime.date(2032, 1, 1), datetime.date(2026, 12, 1)))
    greenfield = draw(st.booleans())
    items = draw(st.lists(st.sampled_from(LEADTIME_ITEMS), unique=True))
    items = list(dict.fromkeys(["gpu", *(["facility"] if greenfield else []), *items]))
    leads: Settings = {}
    for item in items:
        after = draw(st.lists(st.sampled_from(sorted(leads)), max_size=2, unique=True)) if leads else []
        leads[item] = draw(ranges()) | {"as_of": draw(dates(min(need, datetime.date(2027, 6, 1)))), "after": after}
    tranches = draw(st.just([]) | st.lists(st.integers(10, 90), min_size=1, max_size=1))
    shares = [tranches[0], 100 - tranches[0]] if tranches else []
    parts: list[Settings] = [
        {"name": f"t{n + 1}", "share_pct": share, **draw(st.just(NOTHING) | promises())}
        for n, share in enumerate(shares)
    ]
    activities: Settings = {}
    for n, group in enumerate(sorted(draw(st.lists(st.sampled_from(sorted(GROUPS)), max_size=10)))):
        earlier = [one for one in activities if before(activities[one]["group"], group)]
        earlier += [
            i for i in leads if i in DELIVERED_TO and group != "D00" and before("D01", group) and i != "facility"
        ]
        work: Settings = {"group": group, **draw(ranges())}
        if earlier:
            work["after"] = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True))
            work["links"] = draw(st.lists(links(earlier), max_size=2, unique_by=lambda one: one["activity"]))
        if group == "D04":
            work |= {"needs_room": draw(st.booleans())}
            work |= draw(maybe(tranche=st.sampled_from([part["name"] for part in parts]))) if parts else {}
        activities[f"w{n + 1}"] = work | draw(
            maybe(continuous=st.booleans(), pilot=st.booleans(), start_date=dates(datetime.date(2030, 1, 1)))
        )
    calendar = st.fixed_dictionaries(
        {
            "working_days": st.lists(
                st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), min_size=1, unique=True
            ),
            "holidays": st.lists(dates(datetime.date(2031, 1, 1)), max_size=6, unique=True),
            "worked": st.lists(dates(datetime.date(2031, 1, 1)), max_size=2, unique=True),
            "source": st.just(SOURCE),
        }
    )
    return {
        "leadtimes": leads,
        "schedule": {
            "need_date": need,
            "greenfield": greenfield,
            "activities": activities,
            "calendar": draw(or_none(calendar)),
            "start_date": draw(or_none(dates(need - datetime.timedelta(days=1)))),
        },
        "purchase.tranches": parts,
    }


def promises() -> st.SearchStrategy[Settings]:
    days = st.tuples(dates(datetime.date(2029, 1, 1)), st.integers(0, 200))
    return days.map(
        lambda one: {
            "promised_date": one[0],
            "promised_latest": one[0] + datetime.timedelta(days=one[1]),
            "source": SOURCE,
        }
    )


def links(earlier: list[str]) -> st.SearchStrategy[Settings]:
    return st.fixed_dictionaries(
        {"activity": st.sampled_from(earlier), "type": st.sampled_from(["FS", "SS", "FF", "SF"])},
        optional={"lag_days": st.integers(-60, 60), "lag_working_days": st.integers(-30, 30)},
    )


@functools.cache
def before(first: str, second: str) -> bool:
    """Whether a group is another or done before it."""
    return first == second or any(before(first, group) for group in GROUPS[second].after)


def purchases() -> st.SearchStrategy[Settings]:
    """Prices, owners and spares as they are, or without; limits that not every site has."""
    return maybe(
        purchase__prices=st.just([]),
        purchase__owners=st.just({}),
        purchase__spares=st.fixed_dictionaries(
            {"share_pct": numbers(0, 100, 1), "confidence_pct": numbers(50, 99, 1)},
            optional={"restock_weeks": numbers(1, 100, 1)},
        ),
        limits=st.fixed_dictionaries(
            {"os_eol_min_months": limit(st.just(12), "months")},
            optional={
                "pdu_load_pct": limit(numbers(10, 100, 1), "%"),
                "phase_imbalance_pct": limit(numbers(0, 100, 1), "%"),
                "burn_in_required_h": limit(numbers(1, 200, 1), "h"),
            },
        ),
    )


def limit(value: st.SearchStrategy[float], unit: str) -> st.SearchStrategy[Settings]:
    return st.fixed_dictionaries({"value": value, "unit": st.just(unit), "source": st.just(SOURCE)})
