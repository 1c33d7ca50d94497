"""The hardware catalogue: complete entries, each number with a source, lookups that help."""

import re
from pathlib import Path

import pytest
import yaml

from inventory.catalog import Cage, Catalog, CatalogError, DeviceType, Interface, System, load_catalog
from inventory.paths import catalog_dir
from inventory.site.sections.acceptance import known_limits

CATALOG = load_catalog()
DEVICES = sorted(CATALOG.devices.values(), key=lambda device: device.slug)


def numbers_in(value: object, prefix: str = "") -> list[str]:
    """Key paths of all numbers of an entry."""
    if isinstance(value, dict):
        return [
            path for key, inner in value.items() for path in numbers_in(inner, f"{prefix}.{key}" if prefix else key)
        ]
    if isinstance(value, list):
        return [path for inner in value for path in numbers_in(inner, prefix)]
    return [prefix] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


@pytest.mark.parametrize("folder", ["device-types", "gpus", "rack-types", "systems"])
def test_every_number_has_a_source(folder: str) -> None:
    unsourced = []
    for path in sorted((catalog_dir() / folder).glob("*.yaml")):
        entry = yaml.safe_load(path.read_text(encoding="utf-8"))
        sources = entry.pop("sources")
        for key in numbers_in(entry):
            if key == "width":
                continue  # 19 inches is the standard, not a figure
            if not any(key == source or key.startswith((f"{source}.", f"{source}_")) for source in sources):
                unsourced.append(f"{path.name}: {key}")
    assert unsourced == []


SPEAKS_OF = {
    "bringup.air_fraction": r"\bair\b|heat",
    "bringup.cores": r"core|figure",
    "bringup.cpus": r"processor|Intel|CPU|figure",
    "bringup.gpus": r"GPU|OAM",
    "bringup.inlet_c": r"\d C\b|environmental|DGX H100",
    "bringup.memory_gib": r"memory|TB|GB|figure",
    "bringup.nic_slot": r"slot|PCIe|cards",
    "bringup.power.measured_w": r"% of the nameplate|measured|training",
    "bringup.power.nameplate_w": r"\d k?W\b",
    "power-ports": r"nameplate|suppl|cord|inlet",
}
"""What the source of a figure has to speak of, so that texts of neighbouring keys are not interchanged."""
ALONE = [one for one in DEVICES if one.bringup.gpus and one.bringup.psu and not one.slug.startswith("lab-")]
"""GPU servers with supplies of their own."""


@pytest.mark.parametrize("device", ALONE, ids=lambda device: device.slug)
def test_a_source_of_a_server_speaks_of_its_figure(device: DeviceType) -> None:
    strange = {
        key: text for key, text in device.sources.items() if key in SPEAKS_OF and not re.search(SPEAKS_OF[key], text)
    }
    assert not strange
    assert not [key for key, text in device.sources.items() if len(text.split()) < 2]


def test_every_media_part_and_connector_has_a_source() -> None:
    assert all(part.source for table in CATALOG.media_tables.values() for part in table.parts)
    assert all(connector.source for connector in CATALOG.connectors.values())


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.slug)
class TestDeviceType:
    def test_every_connector_is_known(self, device: DeviceType) -> None:
        for connector in [*(p.type for p in device.power_ports), *(o.type for o in device.power_outlets)]:
            assert CATALOG.connector(connector).mates

    def test_as_many_inlets_as_supplies(self, device: DeviceType) -> None:
        if device.kind == "shelf":
            assert len(device.power_ports) == 1  # its modules share the circuit that ends at the shelf
            return
        assert device.psu_count == len(device.power_ports)

    def test_supplies_of_the_needed_count_carry_the_nameplate(self, device: DeviceType) -> None:
        psu = device.bringup.psu
        if psu is None or device.kind == "shelf":
            return
        needed, spare = (int(part) for part in psu.redundancy.split("+"))
        assert needed + spare == psu.count
        assert needed * psu.rating_w >= device.bringup.power.nameplate_w

    def test_ports_by_use_are_interfaces(self, device: DeviceType) -> None:
        names = device.port_names()
        assert len(set(names)) == len(names)
        used = [*device.bringup.fabric_ports, *device.bringup.inband_ports]
        assert len(device.data_port_names()) == device.bringup.data_ports
        used += device.data_port_names()
        assert set(used) <= set(names)

    def test_inlets_fit_an_outlet_of_a_rack_pdu(self, device: DeviceType) -> None:
        if device.kind == "pdu":
            assert device.bringup.pdu is not None
            return
        if device.kind == "shelf":
            return
        outlets = {outlet.type for pdu in DEVICES if pdu.kind == "pdu" for outlet in pdu.power_outlets}
        assert {port.type for port in device.power_ports} <= {m for o in outlets for m in CATALOG.connector(o).mates}


def test_dgx_h100_has_the_figures_of_its_user_guide() -> None:
    device = CATALOG.device("nvidia-dgx-h100")
    psu = device.bringup.psu
    assert psu is not None
    assert (device.u_height, device.mass_kg, device.bringup.power.nameplate_w) == (8, 130.45, 10200)
    assert (psu.count, psu.rating_w, psu.redundancy, device.inlet_type) == (6, 3300, "4+2", "iec-60320-c20")
    assert device.port_names()[-8:] == [f"ib{k}" for k in range(8)]


def test_ranges_of_a_port_name_run_the_last_one_fastest() -> None:
    assert Interface(name="swp[1-2]s[0-1]", type="x").names() == ["swp1s0", "swp1s1", "swp2s0", "swp2s1"]
    assert Interface(name="E[1-2]/[1,5]", type="x").names() == ["E1/1", "E1/5", "E2/1", "E2/5"]
    assert Interface(name="p[1,5-7]", type="x").names() == ["p1", "p5", "p6", "p7"]
    assert Interface(name="eth0", type="x").names() == ["eth0"]


def test_qm9700_has_all_64_ports() -> None:
    device = CATALOG.device("nvidia-qm9700")
    assert [name for name in device.port_names() if name.startswith("p")] == [f"p{n}" for n in range(1, 65)]


def test_q3400_has_144_data_ports_and_one_of_its_own_for_the_fabric_manager() -> None:
    device = CATALOG.device("nvidia-q3400-ra")
    ports = device.data_port_names()
    assert (len(ports), ports[:3], ports[-1]) == (144, ["sw1p1", "sw1p2", "sw2p1"], "sw72p2")
    assert "fnm1" in device.port_names()


@pytest.mark.parametrize("system", CATALOG.systems.values(), ids=lambda system: system.slug)
class TestSystem:
    def test_its_devices_share_no_rack_unit_and_fit_the_rack(self, system: System) -> None:
        units = [
            unit + extra
            for part in system.parts
            for unit in part.u
            for extra in range(int(CATALOG.device(part.model).u_height))
        ]
        assert len(units) == len(set(units))
        assert min(units) >= 1
        assert max(units) <= CATALOG.rack(system.rack).u_height

    def test_only_its_shelves_have_an_inlet(self, system: System) -> None:
        for part in system.parts:
            assert bool(CATALOG.device(part.model).power_ports) == (part.role == "shelf")

    def test_each_model_has_one_role(self, system: System) -> None:
        models = [part.model for part in system.parts]
        assert len(models) == len(set(models))


def test_a_gb300_nvl72_adds_up_to_the_figures_of_its_reference_architecture() -> None:
    system = CATALOG.system("nvidia-gb300-nvl72")
    tray = CATALOG.device("nvidia-gb300-compute-tray")
    assert (system.count("compute"), system.count("nvlink"), system.count("shelf"), system.count("oob")) == (
        18,
        9,
        8,
        2,
    )
    assert system.count("compute") * tray.bringup.gpus == 72
    devices = [(CATALOG.device(part.model), len(part.u)) for part in system.parts]
    assert sum(device.bringup.power.nameplate_w * n for device, n in devices) == 142_000
    mass_kg = CATALOG.rack(system.rack).weight + sum(device.mass_kg * n for device, n in devices)
    assert mass_kg == pytest.approx(1360, abs=1)


def test_pdu_outlets_are_numbered_from_one_and_their_banks_hold_one_phase() -> None:
    for device in DEVICES:
        outlets = device.power_outlets
        assert [outlet.name for outlet in outlets] == [str(n) for n in range(1, len(outlets) + 1)]
        legs = {bank: {o.feed_leg for o in outlets if o.bank == bank} for bank in {o.bank for o in outlets}}
        assert all(len(leg) == 1 for leg in legs.values())


def test_400g_reach_is_that_of_the_linkx_overview_per_part() -> None:
    parts = [part for part in CATALOG.media("linkx-400g").parts if part.rate_gbps == 400]
    reach = {
        medium: sorted(part.reach_m for part in parts if part.medium == medium) for medium in ("dac", "acc", "mmf")
    }
    assert reach == {"dac": [2, 3, 3], "acc": [5, 5, 5], "mmf": [50]}
    assert max(part.reach_m for part in parts) == 2000


def test_passive_copper_draws_nothing_a_400g_optic_at_most_9_w_and_a_twin_port_one_17() -> None:
    for part in CATALOG.media("linkx-400g").parts:
        for plug in part.plugs:
            if part.medium in ("dac", "cat6a"):
                assert plug.power_w == 0
            else:
                assert 0 < plug.power_w <= {1: 9, 2: 17}[plug.ports]
                assert plug.source


def test_a_single_port_osfp_goes_into_no_switch_and_fins_into_no_server() -> None:
    for table in CATALOG.media_tables.values():
        single = [plug for part in table.parts for plug in part.plugs if plug.form == "osfp" and plug.ports == 1]
        for plug in (plug for plug in single if plug.top == "flat"):
            fitting = {d.kind for d in DEVICES for _, cage in d.cages().values() if plug.fits(cage)}
            assert fitting <= {"server"}, plug.name
        for plug in (plug for part in table.parts for plug in part.plugs if plug.top == "finned"):
            assert {d.kind for d in DEVICES for _, cage in d.cages().values() if plug.fits(cage)} <= {"switch"}


def test_every_port_of_a_shipped_device_has_a_cage_of_a_known_form() -> None:
    for device in DEVICES:
        assert set(device.cages()) == set(device.port_names())
        assert all(cage.form for _, cage in device.cages().values()), device.slug
        listed = [name for given in device.bringup.cages for name in given.names()]
        assert set(listed) <= set(device.port_names())
        assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("slug", "cages", "first"),
    [
        ("nvidia-qm9700", 32, ("p1", "p2")),
        ("nvidia-sn5600", 64, ("swp1s0", "swp1s1")),
        ("nvidia-dgx-h100", 4, ("ib0", "ib3")),
    ],
)
def test_twin_port_cages_hold_the_ports_that_the_maker_names(slug: str, cages: int, first: tuple[str, str]) -> None:
    found = CATALOG.device(slug).cages()
    twin = {number for number, cage in found.values() if cage.ports == 2}
    assert len(twin) == cages
    assert found[first[0]] == found[first[1]]


def test_the_cage_of_two_ports_takes_a_plug_of_two_and_a_faster_qsfp_cage_a_slower_plug() -> None:
    plugs = {plug.name: plug for part in CATALOG.media("linkx-400g").parts for plug in part.plugs}
    assert plugs["osfp-2x400g-sr4-finned"].fits(Cage("osfp", "finned", 2))
    assert not plugs["osfp-2x400g-sr4-finned"].fits(Cage("osfp", "flat", 2))
    assert not plugs["osfp-400g-sr4-flat"].fits(Cage("osfp", "flat", 2))
    assert plugs["qsfp28-100g-sr4"].fits(Cage("qsfp112", "", 1))
    assert not plugs["qsfp112-400g-sr4"].fits(Cage("qsfp28", "", 1))


def test_an_unknown_slug_names_the_nearest() -> None:
    with pytest.raises(CatalogError, match="nearest: nvidia-qm9700"):
        CATALOG.device("qm9700")


def test_a_wrong_entry_names_file_and_key(tmp_path: Path) -> None:
    root = tmp_path / "catalog"
    (root / "device-types").mkdir(parents=True)
    entry = yaml.safe_load((catalog_dir() / "device-types" / "nvidia-qm9700.yaml").read_text(encoding="utf-8"))
    entry["bringup"]["power"]["nameplate_kw"] = 1.72
    (root / "device-types" / "nvidia-qm9700.yaml").write_text(yaml.safe_dump(entry), encoding="utf-8")
    with pytest.raises(CatalogError, match=r"nvidia-qm9700\.yaml(.|\n)*bringup\.power\.nameplate_kw"):
        Catalog(root).device("nvidia-qm9700")


def test_the_register_of_limits_states_unit_and_meaning() -> None:
    for key, body in known_limits().items():
        assert re.fullmatch(r"[a-z0-9_]+", key)
        assert body["unit"]
        assert body["meaning"].endswith(".")
