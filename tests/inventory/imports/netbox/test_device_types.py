"""NetBox device types in, racks, devices and feeds out and back."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.build import build
from capacity.sizes import load_site
from inventory.catalog import load_catalog
from inventory.findings_registry import registry
from inventory.imports.core.result import Imported
from inventory.imports.core.source import ImportFault
from inventory.imports.core.tables import csv_text, fields, read
from inventory.imports.netbox import device_types
from inventory.paths import catalog_dir
from tests.findings import names
from tests.plans import plan_of

PATH = Path("device.yaml")
SWITCH = """
manufacturer: NVIDIA
model: QX1
slug: nvidia-qx1
u_height: 1
is_full_depth: true
weight: 4.02
weight_unit: kg
console-ports:
  - {name: con0, type: rj-45}
interfaces:
  - {name: "p[1-64]", type: infiniband-ndr, label: front}
  - {name: p1, type: infiniband-ndr}
"""


def taken(text: str) -> Imported:
    return device_types.read_device_type(text, PATH, Path("/catalog"))


def found(result: Imported, severity: str) -> dict[str, str]:
    return {f"{f.id} {f.subject}": f.message for f in result.findings if f.severity == severity}


def test_a_library_entry_says_what_a_plan_needs_beyond_it() -> None:
    result = taken(SWITCH)
    needs = {f.subject.split(": ")[1] for f in result.findings if f.id == "IMPORT-DEVICE-NEEDS"}
    assert {"bringup.power.nameplate_w", "bringup.air_fraction", "bringup.psu", "sources", "power-ports"} <= needs
    assert list(result.files) == ["imports/device-types/nvidia-qx1.yaml"]
    assert result.files["imports/device-types/nvidia-qx1.yaml"] == SWITCH
    assert not result.refused


SERVER = """
manufacturer: Dell
model: PowerEdge XE9680
slug: dell-poweredge-xe9680
u_height: 6
is_full_depth: true
weight: 114.05
weight_unit: kg
interfaces:
  - {name: iDRAC, type: 1000base-t, mgmt_only: true}
  - {name: Gig1, type: 1000base-t}
  - {name: "eth[1-2]", type: 100gbase-x-qsfp28}
  - {name: "ib[0-7]", type: infiniband-ndr}
power-ports:
""" + "".join(f"  - {{name: PSU{n}, type: iec-60320-c20, maximum_draw: 2800}}\n" for n in range(1, 7))
BLOCK = """
bringup:
  kind: server
  gpus: 8
  air_fraction: 1.0
  power: {seed_w: 9800, measured_w: 9800, nameplate_w: 10500}
  psu: {count: 6, rating_w: 2800, redundancy: 4+2, input_v_min: 200, input_v_max: 240, efficiency: 0.94}
  fabric_ports: [ib0, ib1, ib2, ib3, ib4, ib5, ib6, ib7]
  nic_slot: {pcie_gen: 5, x16: 1}
  inband_ports: [eth1, eth2]
sources: {u_height: data sheet, weight: data sheet, power-ports: data sheet, interfaces: data sheet, bringup: data sheet}
"""


@pytest.mark.parametrize("lacking", ["nic_slot", "inband_ports"])
def test_a_server_without_what_a_plan_takes_from_it_is_not_complete(lacking: str) -> None:
    block = "".join(line for line in BLOCK.splitlines(keepends=True) if f"  {lacking}:" not in line)
    result = taken(SERVER + block)
    assert list(result.rows["key"]) == [f"bringup.{lacking}"]
    assert list(result.files) == ["imports/device-types/dell-poweredge-xe9680.yaml"]


def test_a_complete_server_of_the_library_plans(tmp_path: Path) -> None:
    result = device_types.read_device_type(SERVER + BLOCK, PATH, Path("catalog"), load_catalog())
    for name, text in result.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "site.yaml").write_text(
        "schema_version: 1\nname: own\nbased_on: [dgx-superpod-h100]\n"
        "server: {count: 8, model: dell-poweredge-xe9680}\n"
    )
    plan = build(load_site(tmp_path / "site.yaml"))
    assert set(plan.devices.loc[plan.devices["role"] == "gpu", "model"]) == {"dell-poweredge-xe9680"}
    assert not [one.message for one in plan.findings if one.severity == "error"]


def test_an_export_of_several_device_types_is_imported_again() -> None:
    catalog = load_catalog()
    slugs = ["nvidia-dgx-h100", "nvidia-qm9700", "rack-pdu-60a-415v"]
    result = device_types.read_device_types(device_types.device_types(catalog, slugs), PATH, Path("/catalog"))
    assert not result.refused
    assert sorted(result.files) == [f"imports/device-types/{slug}.yaml" for slug in slugs]
    assert list(dict.fromkeys(result.rows["device_type"])) == slugs
    assert {f.subject.split(":")[0] for f in result.findings if f.id == "IMPORT-DEVICE-NEEDS"} == set(slugs)
    single = device_types.read_device_types(device_types.device_types(catalog, slugs[:1]), PATH, Path("/catalog"))
    assert "device_type" not in single.rows.columns


def test_a_device_type_that_stands_twice_in_a_file_is_an_error() -> None:
    result = device_types.read_device_types(f"---\n{SWITCH}---\n{SWITCH}", PATH, Path("/catalog"))
    assert "IMPORT-DUPLICATE nvidia-qx1" in found(result, "error")


def test_4_02_kg_is_a_multiple_of_a_hundredth() -> None:
    assert not found(taken(SWITCH), "error")
    assert "multiple of 0.01" in " ".join(found(taken(SWITCH.replace("4.02", "4.023")), "error").values())
    assert "multiple of 0.5" in " ".join(found(taken(SWITCH.replace("u_height: 1", "u_height: 1.2")), "error").values())


def test_keys_without_a_use_are_reported_and_stay_in_the_file() -> None:
    infos = " ".join(found(taken(SWITCH + "colour: green\n"), "info").values())
    assert "colour" in infos
    assert "console-ports" in infos
    assert "interfaces.label" in infos


@pytest.mark.parametrize("slug", sorted(load_catalog().devices))
def test_every_catalogue_entry_comes_through_unchanged(slug: str) -> None:
    text = (catalog_dir() / "device-types" / f"{slug}.yaml").read_text()
    result = taken(text)
    assert not result.refused, result.findings
    entry = result.files.get(f"/catalog/device-types/{slug}.yaml")
    assert entry is not None, [f.message for f in result.findings]
    assert yaml.safe_load(entry) == yaml.safe_load(text)


def test_an_exported_device_type_is_valid_for_the_library() -> None:
    catalog = load_catalog()
    for text in device_types.device_types(catalog, ["nvidia-dgx-h100", "rack-pdu-60a-415v"]).split("---\n")[1:]:
        result = taken(text)
        assert not found(result, "error")
        assert "bringup" not in yaml.safe_load(text)


@pytest.mark.parametrize(
    ("change", "subject", "said"),
    [
        (("slug: nvidia-qx1", "slug: NVIDIA QX1"), "NVIDIA QX1: slug", ("'NVIDIA QX1'", "a-z")),
        (("model: QX1", "x: 1"), "nvidia-qx1: model", ("model",)),
        (("u_height: 1", "u_height: 0.7"), "nvidia-qx1: u_height", (0.7, 0.5)),
        (("weight_unit: kg", "x: 1"), "nvidia-qx1: weight", ("weight_unit",)),
        (("name: p1,", "name: 'p[1-64]',"), "nvidia-qx1: interfaces", ("'p[1-64]'",)),
        (("p1, type: infiniband-ndr", "p1"), "nvidia-qx1: interfaces.p1", ("type",)),
        (("console-ports", "power-ports: 3\nconsole-ports"), "nvidia-qx1: power-ports", ("power-ports",)),
        (
            ("console-ports", "power-outlets: [{name: o1, type: iec, power_port: in9}]\nconsole-ports"),
            "nvidia-qx1: power-outlets.o1",
            ("'in9'",),
        ),
    ],
)
def test_what_the_library_would_refuse_is_refused(
    change: tuple[str, str], subject: str, said: tuple[str | float, ...]
) -> None:
    errors = [f for f in taken(SWITCH.replace(*change)).findings if f.severity == "error"]
    assert [(f.id, f.subject) for f in errors] == [("IMPORT-NETBOX-FORMAT", subject)]
    assert names(errors[0], *said)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        (
            "server",
            {
                "bringup.psu",
                "bringup.gpus",
                "bringup.fabric_ports",
                "bringup.nic_slot",
                "bringup.inband_ports",
            },
        ),
        ("switch", {"bringup.psu", "bringup.fabric", "bringup.data_ports", "bringup.rate_gbps"}),
        ("pdu", {"bringup.pdu"}),
        ("shelf", {"bringup.psu"}),
    ],
)
def test_each_missing_key_of_a_kind_comes_with_what_it_holds(kind: str, missing: set[str]) -> None:
    assert set(device_types.NEEDED_BY_KIND[kind]) == missing
    fixes = {*device_types.NEEDED.values(), *device_types.NEEDED_BY_KIND[kind].values()}
    assert fixes <= set(registry()["IMPORT-DEVICE-NEEDS"].fixes)


def test_what_a_missing_key_holds_is_in_the_table_and_in_the_finding() -> None:
    result = taken(SWITCH)
    fixes = {f.subject.split(": ")[1]: f.remedies[0].text for f in result.findings if f.id == "IMPORT-DEVICE-NEEDS"}
    assert dict(zip(result.rows["key"], result.rows["what"], strict=True)) == fixes
    assert "count, rating_w, redundancy" in fixes["bringup.psu"]


def test_a_value_that_the_catalogue_refuses_is_named_with_its_key() -> None:
    text = (catalog_dir() / "device-types" / "nvidia-qm9700.yaml").read_text()
    result = taken(text.replace("kind: switch", "kind: toaster"))
    refused = [f for f in result.findings if f.severity == "error"]
    assert refused
    assert {f.id for f in refused} == {"IMPORT-DEVICE-INVALID"}
    assert refused[0].subject.startswith("nvidia-qm9700: bringup")


@pytest.mark.parametrize("site", ["lab", "gb300-nvl72-liquid"])
def test_what_netbox_gives_back_has_no_difference(site: str) -> None:
    plan = plan_of(site)
    catalog = load_catalog()
    assets = pd.DataFrame()
    tables = {
        "racks": device_types.racks("s", plan.racks, catalog),
        "devices": device_types.devices("s", plan.devices, plan.placements, assets, catalog),
        "power feeds": device_types.feeds("s", plan.circuits, 0.8),
    }
    for what, table in tables.items():
        kind = f"netbox-{what.replace(' ', '-')}"
        back = fields(read(csv_text(table).encode(), PATH, kind), kind).frame
        result = device_types.compare(what, table, back)
        assert len(result.rows) == 0, result.rows
        assert len(back) == len(table) > 0


def test_a_feed_with_another_breaker_is_named() -> None:
    table = device_types.feeds("s", plan_of("lab").circuits, 0.8)
    other = table.assign(amperage=["32", *table["amperage"][1:]])
    result = device_types.compare("power feeds", table, other.iloc[:-1])
    assert [f.id for f in result.findings] == ["IMPORT-NETBOX-DIFFERS", "IMPORT-NETBOX-MISSING"]
    assert names(result.findings[0], "amperage", 32, 60)
    assert (result.findings[1].severity, result.findings[1].numbers) == ("info", {"count": 1})
    assert names(result.findings[1], table["name"].iloc[-1])


def test_a_name_that_only_netbox_has_is_a_warning() -> None:
    table = device_types.feeds("s", plan_of("lab").circuits, 0.8)
    result = device_types.compare("power feeds", table.iloc[:-1], table)
    assert [(f.id, f.severity) for f in result.findings] == [("IMPORT-NETBOX-MISSING", "warning")]
    last = table["name"].iloc[-1]
    assert names(result.findings[0], 1, last)
    assert result.rows.to_numpy().tolist() == [[last, "name", "", last]]


def test_a_feed_on_another_panel_and_of_direct_current_is_named() -> None:
    table = device_types.feeds("s", plan_of("lab").circuits, 0.8)
    moved = table.copy()
    moved.loc[0, ["power_panel", "supply", "type"]] = ["feed-z", "dc", "redundant"]
    back = fields(read(csv_text(moved).encode(), PATH, "netbox-power-feeds"), "netbox-power-feeds")
    assert not back.findings
    differ = device_types.compare("power feeds", table, back.frame).rows
    assert sorted(differ["column"]) == ["power_panel", "supply", "type"]


def test_names_that_are_given_twice_are_named_and_every_row_is_judged() -> None:
    table = device_types.feeds("s", plan_of("lab").circuits, 0.8)
    again = pd.concat([table.iloc[[0]].assign(amperage="32"), table])
    result = device_types.compare("power feeds", table, again)
    assert [f.id for f in result.findings] == ["IMPORT-NETBOX-TWICE", "IMPORT-NETBOX-DIFFERS"]


def test_another_role_and_another_manufacturer_are_differences() -> None:
    plan = plan_of("lab")
    table = device_types.devices("s", plan.devices, plan.placements, pd.DataFrame(), load_catalog())
    other = table.copy()
    other.loc[0, ["role", "manufacturer"]] = ["toaster", "Acme"]
    assert device_types.compare("devices", table, other).rows["column"].tolist() == ["role", "manufacturer"]


def test_racks_in_inches_and_pounds_are_the_same_racks() -> None:
    table = device_types.racks("s", plan_of("lab").racks, load_catalog())
    inches = table.assign(
        outer_width=[f"{float(x) / 25.4:.2f}" for x in table["outer_width"]],
        outer_depth="",
        outer_unit="Inches",
        max_weight=[f"{float(x) / 0.45359237:.1f}" for x in table["max_weight"]],
        weight="1",
        weight_unit="lb",
    )
    assert set(device_types.compare("racks", table, inches).rows["column"]) == {"weight"}


def test_no_column_that_is_exported_is_called_unknown() -> None:
    plan, catalog = plan_of("lab"), load_catalog()
    tables = {
        "netbox-racks": device_types.racks("s", plan.racks, catalog),
        "netbox-devices": device_types.devices("s", plan.devices, plan.placements, pd.DataFrame(), catalog),
        "netbox-power-feeds": device_types.feeds("s", plan.circuits, 0.8),
    }
    for kind, table in tables.items():
        assert not fields(read(csv_text(table).encode(), PATH, kind), kind).unknown


def test_aliases_are_refused_so_that_nothing_expands() -> None:
    with pytest.raises(ImportFault, match="alias"):
        taken("a: &x [1, 2]\nb: [*x, *x]\n")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200).map(lambda t: SWITCH + t) | st.text(max_size=200))
def test_any_text_gives_findings_or_a_fault(text: str) -> None:
    try:
        taken(text)
    except ImportFault:
        return


@pytest.mark.parametrize("name", ["lab", "b200-256-roce"])
def test_power_feeds_name_their_planned_panel_and_each_rack_has_one_primary(name: str) -> None:
    plan = plan_of(name)
    ends = plan.elements[plan.elements["kind"] == "circuit"]
    panel_of = dict(zip(ends["name"], ends["upstream"], strict=True))
    made = device_types.feeds(name, plan.circuits, 0.8, panel_of)
    assert dict(zip(made["name"], made["power_panel"], strict=True)) == panel_of
    assert (made[made["type"] == "primary"].groupby("rack").size() == 1).all()
    assert set(made.loc[made["type"] == "primary", "rack"]) == set(made["rack"])
    listed = device_types.panels(name, plan.circuits, panel_of)
    assert set(listed["name"]) == set(panel_of.values())
