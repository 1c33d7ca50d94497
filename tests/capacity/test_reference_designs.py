"""Reference designs without a golden summary: what asks for them, no error in a small plan, counts of published tables."""

import re
from collections.abc import Callable

import pytest

from capacity.build import build
from capacity.outputs.summary import summarise
from capacity.sizes import complete
from inventory.site import Site, parse_site
from inventory.site.new import Wanted, design_of, site_text
from inventory.site.references import at, leaves

OTHER_CODES = re.compile(r"\bNEC\b|\bUL \d|\bIEEE\b|North America")


def iec_site() -> Site:
    """64 DGX H100 on a distribution of 400/230 V, sizes not yet worked out."""
    return parse_site(
        "schema_version: 1\nname: hall\nbased_on: [dgx-superpod-h100, iec-400v]\nserver: {count: 64}\n"
        "electrical: {utility: {firm_mva: 1.2}}\n"
    )


@pytest.mark.parametrize(
    ("wanted", "design", "leaf", "spine", "node_leaf", "leaf_spine"),
    [
        # DGX SuperPOD reference architecture, DGX B200 (RA-11334), table of larger SuperPODs, two scalable units:
        # docs.nvidia.com/dgx-superpod/reference-architecture-scalable-infrastructure-b200, page dgx-superpod-architecture.
        (Wanted("hall", gpu="b200", fabric="ib", servers=64), "dgx-superpod-b200", 16, 8, 512, 512),
        # DGX SuperPOD reference architecture, DGX B300 with Quantum-X800 and AC power (RA-11339-001), table 3, one scalable unit:
        # docs.nvidia.com/dgx-superpod/reference-architecture/scalable-infrastructure-b300-xdr, page dgx-superpod-architecture.
        (Wanted("hall", gpu="b300", fabric="ib", servers=72), "dgx-superpod-b300", 8, 4, 576, 576),
        # DGX SuperPOD reference architecture, DGX B300 with Spectrum-4 Ethernet, table 3, one scalable unit:
        # docs.nvidia.com/dgx-superpod/reference-architecture/scalable-infrastructure-b300, page dgx-superpod-architecture. Its two
        # planes of 400 Gb/s take as many switches and cables as one of 800 Gb/s.
        (Wanted("hall", gpu="b300", fabric="roce", servers=64), "b300-spectrum-x", 16, 8, 512, 512),
        # No table was found. By hand: eight racks with four rails, 18 trays on each of 32 leaves and as many uplinks; 576 uplinks
        # fill nine spines of 64 ports, two links from each leaf to each.
        (Wanted("hall", gpu="gb200", fabric="ib", racks=8), "gb200-nvl72-ndr", 32, 9, 576, 576),
    ],
    ids=lambda value: f"{value.gpu}-{value.fabric}" if isinstance(value, Wanted) else None,
)
def test_a_scalable_unit_plans_without_error_and_with_the_counts_of_its_design(
    wanted: Wanted, design: str, leaf: int, spine: int, node_leaf: int, leaf_spine: int
) -> None:
    assert design_of(wanted) == design
    plan = build(complete(parse_site(site_text(wanted))))
    assert not [(one.id, one.subject, one.message) for one in plan.findings if one.severity == "error"]
    figures = summarise(plan)
    assert figures["devices"]["switches"]["compute"] == {"leaf": leaf, "spine": spine}
    cables = {link: sum(counts.values()) for link, counts in figures["cables"]["compute"].items()}
    managers = cables.pop("manager-leaf", 0)
    assert cables == {"node-leaf": node_leaf, "leaf-spine": leaf_spine}
    assert managers == (2 if plan.site.fabric.subnet_managers else 0)


def test_64_h100_on_iec_400_v_plan_without_error_in_iec_sizes() -> None:
    site = complete(iec_site())
    plan = build(site)
    assert not [(one.id, one.subject, one.message) for one in plan.findings if one.severity == "error"]
    assert not [one.message for one in plan.findings if one.id == "POWER-BREAKER-SIZE"]
    electrical = site.electrical
    assert electrical is not None
    # By hand: the H100 hall draws 0.95 MVA; of three feeds the two that are left after a loss carry it: 480 kVA each, of which
    # the next IEC rating is 630 kVA, 910 A at 400 V.
    assert electrical.transformers.kva == 630
    assert (electrical.transformers.load_loss_kw, electrical.transformers.no_load_kw) == (7.1, 0.99)
    assert summarise(plan)["electrical"]["service"]["mva"] < 1.2


@pytest.mark.parametrize("gpu", ["gb200", "gb300"])
def test_racks_on_iec_busway_plan_without_error_in_iec_sizes(gpu: str) -> None:
    site = parse_site(site_text(Wanted("hall", gpu=gpu, fabric="ib", racks=4, power_code="iec")))
    plan = build(complete(site))
    assert not [(one.id, one.subject, one.message) for one in plan.findings if one.severity == "error"]
    assert not [one.message for one in plan.findings if one.id == "POWER-PDU-LOAD"]  # four feeds share 75 % (RC-086)
    shelves = plan.circuits[plan.circuits["circuit_of"] == "shelf_circuit"]
    assert set(shelves["breaker_a"]) == {63.0}
    assert set(shelves["voltage_v"]) == {400.0}
    electrical = plan.site.electrical
    assert electrical is not None
    # Canalis KTC of 1,000 A: 0.049 and 0.022 milliohm/m at rated current, 35 C, 50 Hz; Icw 50 kA
    assert (electrical.panels.kind, electrical.panels.rating_a, electrical.panels.rating_ka) == ("busway", 1000, 50)
    assert (electrical.panels.feeder.r_ohm_km, electrical.panels.feeder.x_ohm_km) == (0.049, 0.022)


def iec_busway_site() -> Site:
    """Eight GB300 racks on busway of 400/230 V, sizes not yet worked out."""
    return parse_site(site_text(Wanted("hall", gpu="gb300", fabric="ib", racks=8, power_code="iec")))


@pytest.mark.parametrize("made", [iec_site, iec_busway_site])
def test_no_value_of_an_iec_site_rests_on_a_north_american_code(made: Callable[[], Site]) -> None:
    effective = made().effective
    for path, value in leaves(effective.value):
        origin = effective.origin(path)
        assert origin is not None
        if path[0] in ("power", "electrical", "ups", "generator"):
            assert not OTHER_CODES.search(f"{value} {origin.source}"), path
    for key, ladder in effective.ladders.items():
        assert not OTHER_CODES.search(ladder.source), key
    for key, span in effective.spans.items():
        assert not OTHER_CODES.search(span.source), key


@pytest.mark.parametrize(
    "design", ["dgx-superpod-b200", "b200-spectrum-x", "dgx-superpod-b300", "b300-spectrum-x", "mi355x-ethernet"]
)
def test_iec_400v_goes_with_every_design_of_air_cooled_servers(design: str) -> None:
    for order in ([design, "iec-400v"], ["iec-400v", design]):
        site = parse_site(f"schema_version: 1\nname: hall\nbased_on: [{', '.join(order)}]\nserver: {{count: 32}}\n")
        assert (site.power.code, site.power.voltage_v, site.power.rack_pdu.model) == ("iec", 400, "rack-pdu-63a-400v")


@pytest.mark.parametrize("code", ["nec", "iec"])
@pytest.mark.parametrize("gpu", ["h100", "gb300"])
def test_ratings_are_worked_out_from_the_first_rung_of_their_ladder(gpu: str, code: str) -> None:
    """What a design takes over from another one that it is made of is no rung to begin at: a size only grows."""
    effective = parse_site(site_text(Wanted("hall", gpu=gpu, fabric="ib", servers=72, power_code=code))).effective
    for key, ladder in effective.ladders.items():
        begins = {name: at(effective.value, tuple(ladder.full_key(name).split("."))) for name in ladder.rungs[0]}
        assert begins == dict(ladder.rungs[0]), key
