"""GPUs, GPU servers and service nodes of a site file."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from inventory.catalog import Catalog
from inventory.site.messages import MISSING, nearest
from inventory.site.rules import device_of_kind, rule, unknown_slug
from inventory.site.values import Count, Feed, Section, Slug
from inventory.site.yaml_source import Problem


class Gpu(Section):
    """The accelerator that the cluster is built from."""

    sku: Slug = Field(description="GPU slug in inventory/catalog/data/gpus.")
    form_factor: Literal["sxm", "oam", "pcie"] = Field(
        description="Baseboard module (sxm; oam of the OCP) or card (pcie); decides which assembly steps apply."
    )
    tdp_w: float = Field(ge=30, le=3000, description="Thermal design power of one GPU, watts.")


class ServerPower(Section):
    """Three named power profiles of one server, watts at its inlets; never mixed (ERR-01)."""

    seed_w: float = Field(ge=50, le=200_000, description="Rule-of-thumb figure of early planning, watts (RC-071b).")
    measured_w: float = Field(ge=50, le=200_000, description="Highest draw measured under training load, watts.")
    nameplate_w: float = Field(ge=50, le=200_000, description="Rated maximum input, watts: circuits and cooling.")
    cap_w: float | None = Field(
        default=None,
        ge=50,
        le=200_000,
        description="Power cap that BMC and driver enforce at all times, watts. The loss of a feed is judged at it; "
        "purchase, circuits with all feeds up and heat stay at nameplate.",
    )


class SupplyGroup(Section):
    """The supplies that together feed one load, and how they are shared among the feeds."""

    count: int = Field(ge=1, le=24, description="Supplies of the group.")
    rating_w: float = Field(ge=50, le=200_000, description="Output rating of one supply at input_v, watts.")
    split_by_feed: dict[Feed, Annotated[int, Field(ge=0, le=24)]] = Field(
        min_length=1, description="Supplies on each feed; the numbers add up to count."
    )
    input_v: float = Field(
        ge=48, le=800, description="Voltage at the supply's inlet, volts (line to neutral at 415 V: 240)."
    )
    redundancy: Annotated[str, Field(pattern=r"^\d+\+\d+$")] = Field(
        description="Supplies needed at full load + spare ones, such as 4+2; per model (ERR-05)."
    )


class ServerPsu(SupplyGroup):
    """Power supplies of one server, each with a cord to a rack PDU."""


class PowerShelves(SupplyGroup):
    """Power shelves of one rack-scale system: each has a circuit of its own, all feed the rack's DC busbar."""


class ServerNic(Section):
    """Compute-fabric ports of one server."""

    ports: int = Field(ge=1, le=32, description="Fabric ports per server, one per rail.")
    rate_gbps: Literal[100, 200, 400, 800] = Field(description="Rate of one port, gigabits per second.")
    pcie_gen: Literal[3, 4, 5, 6] = Field(description="PCIe generation of the slots; caps the usable rate (ERR-09).")
    x16_per_port: Literal[1, 2] = Field(
        default=1, description="x16 connections to the host behind one port; 2 is socket direct (ConnectX-8 on Gen5)."
    )


class Server(Section):
    """The GPU servers."""

    model: Slug = Field(description="Device type slug in inventory/catalog/data/device-types.")
    count: Count = Field(description="Number of GPU servers.")
    power: ServerPower = Field(description="Power profiles of one server.")
    psu: ServerPsu | None = Field(
        default=None, description="Power supplies of one server; mandatory unless it is a tray of a rack-scale system."
    )
    system: Slug | None = Field(
        default=None,
        description="Rack-scale system that the servers are trays of: a slug in inventory/catalog/data/systems.",
    )
    shelves: PowerShelves | None = Field(
        default=None, description="Power shelves of one rack-scale system; mandatory with system, in place of psu."
    )
    nic: ServerNic = Field(description="Compute-fabric ports of one server.")

    @property
    def supplies(self) -> SupplyGroup:
        """What feeds the servers: the supplies of each one, or the shelves of each rack-scale system."""
        group = self.psu or self.shelves
        if group is None:
            raise ValueError("neither server.psu nor server.shelves: the rules of the site file refuse this")
        return group


class ServiceNode(Section):
    """Servers that are not GPU servers."""

    role: Literal["controller", "storage", "management"] = Field(
        description="What the nodes do. Management nodes alone have a leg in the out-of-band network."
    )
    model: Slug = Field(description="Device type slug in inventory/catalog/data/device-types.")
    count: Annotated[int, Field(ge=1, le=1000)] = Field(description="Number of nodes in this role.")


@rule("server")
def server_model_is_known(catalog: Catalog, server: Server) -> Iterator[Problem]:
    yield from device_of_kind(catalog, ("server", "model"), server.model, "server")


@rule("service_nodes")
def service_node_models_are_known(catalog: Catalog, nodes: tuple[ServiceNode, ...]) -> Iterator[Problem]:
    for n, node in enumerate(nodes):
        yield from device_of_kind(catalog, ("service_nodes", n, "model"), node.model, "server")
    for role, group in itertools.groupby(sorted(n.role for n in nodes)):
        if len(list(group)) > 1:
            yield Problem(
                ("service_nodes",),
                "a role given twice",
                role,
                "each role once",
                f"add up the counts of {role} in one entry",
            )


@rule("service_nodes")
def management_nodes_have_a_port_for_the_oob_network(
    catalog: Catalog, nodes: tuple[ServiceNode, ...]
) -> Iterator[Problem]:
    for n, node in enumerate(nodes):
        device = catalog.devices.get(node.model)
        if node.role == "management" and device is not None and not device.bringup.oob_port:
            able = sorted(slug for slug, entry in catalog.devices.items() if entry.bringup.oob_port)
            yield Problem(
                ("service_nodes", n, "model"),
                "a model without a port for the out-of-band network",
                node.model,
                f"one of {', '.join(able)}",
                "management nodes reach PDUs, BMCs and switches over that port: name a model that has it (bringup.oob_port)",
            )


@rule("gpu")
def gpu_matches_its_sku(catalog: Catalog, gpu: Gpu) -> Iterator[Problem]:
    entry = catalog.gpus.get(gpu.sku)
    if entry is None:
        yield unknown_slug(("gpu", "sku"), gpu.sku, list(catalog.gpus), "GPU", "inventory/catalog/data/gpus")
        return
    if gpu.form_factor != entry.form_factor:
        others = [g.slug for g in catalog.gpus.values() if g.form_factor == gpu.form_factor]
        near = nearest(gpu.sku, others)
        yield Problem(
            ("gpu", "form_factor"),
            "contradicts gpu.sku",
            gpu.form_factor,
            f"{entry.form_factor}: {entry.model}",
            f"write {entry.form_factor}" + (f", or choose the SKU {near}" if near else "") + " (ERR-07)",
        )
    if gpu.tdp_w > entry.tdp_w:
        yield Problem(
            ("gpu", "tdp_w"),
            "more than the SKU draws",
            f"{gpu.tdp_w:g}",
            f"at most {entry.tdp_w:g} watts ({entry.slug})",
            f"write {entry.tdp_w:g}, or less if the GPUs run with a power cap",
        )


@rule("gpu", "server")
def nameplate_holds_the_gpus(catalog: Catalog, gpu: Gpu, server: Server) -> Iterator[Problem]:
    device = catalog.devices.get(server.model)
    gpus_w = gpu.tdp_w * (device.bringup.gpus if device else 0)
    if device and server.power.nameplate_w <= gpus_w:
        yield Problem(
            ("server", "power", "nameplate_w"),
            "less than the GPUs alone draw",
            f"{server.power.nameplate_w:g}",
            f"more than {gpus_w:g} watts: {device.bringup.gpus} GPUs of {gpu.tdp_w:g} watts",
            f"write the rated input of the whole server ({device.slug}: {device.bringup.power.nameplate_w:g})",
        )


@rule("server")
def power_profiles_are_in_order(catalog: Catalog, server: Server) -> Iterator[Problem]:
    power, device = server.power, catalog.devices.get(server.model)
    over = [key for key in ("seed_w", "measured_w") if getattr(power, key) > power.nameplate_w]
    facts = device.bringup.power if device else None
    known = [key for key in over if facts and getattr(power, key) == getattr(facts, key) > power.nameplate_w]
    if device and facts and known:
        most = max(known, key=lambda key: float(getattr(power, key)))
        yield Problem(
            ("server", "power", "nameplate_w"),
            f"less than the catalogue has for {device.slug}",
            f"{power.nameplate_w:g}",
            f"{facts.nameplate_w:g} watts, or at least its {most}, {getattr(power, most):g} watts (ERR-01)",
            f"write {facts.nameplate_w:g}; for another server an entry of its own in catalog/, or seed_w and measured_w beside it",
        )
    for key in (key for key in over if key not in known):
        yield Problem(
            ("server", "power", key),
            "more than the nameplate",
            f"{getattr(power, key):g}",
            f"at most nameplate_w, {power.nameplate_w:g} watts",
            "check which of the two is wrong (ERR-01)",
        )


@rule("server")
def power_cap_lies_between_measured_and_nameplate(catalog: Catalog, server: Server) -> Iterator[Problem]:
    power = server.power
    path = ("server", "power", "cap_w")
    if power.cap_w is None:
        return
    if power.cap_w > power.nameplate_w:
        yield Problem(
            path,
            "a cap above the nameplate",
            f"{power.cap_w:g}",
            f"at most nameplate_w, {power.nameplate_w:g} watts",
            "lower the cap, or delete it: the server cannot draw more than its nameplate",
        )
    if power.cap_w < power.measured_w:
        yield Problem(
            path,
            "a cap below the load",
            f"{power.cap_w:g}",
            f"at least measured_w, {power.measured_w:g} watts, which training draws",
            "raise the cap, or lower measured_w to what was measured with the cap in force",
        )


@rule("server")
def supplies_belong_to_the_server_or_to_its_system(catalog: Catalog, server: Server) -> Iterator[Problem]:
    if server.system is None:
        if server.psu is None:
            yield Problem(("server", "psu"), MISSING, "", "the power supplies of one server", "add 'psu:' in server")
        if server.shelves is not None:
            yield Problem(
                ("server", "shelves"),
                "power shelves without a rack-scale system",
                f"{server.shelves.count} shelves",
                "no shelves while server.system is not set",
                "delete the key, or name the system in server.system",
            )
        return
    if server.psu is not None:
        yield Problem(
            ("server", "psu"),
            "supplies of a server that has none",
            f"{server.psu.count} supplies",
            f"no psu: the trays of {server.system} hang on the busbar of their rack",
            "delete the key and describe the rack's power shelves in server.shelves",
        )
    if server.shelves is None:
        yield Problem(
            ("server", "shelves"),
            MISSING,
            "",
            f"the power shelves of one rack, since server.system is {server.system}",
            "add 'shelves:' in server",
        )


def supply_groups(server: Server) -> list[tuple[str, SupplyGroup]]:
    """The supply groups that the site describes, with their key in `server`."""
    named = (("psu", server.psu), ("shelves", server.shelves))
    return [(key, group) for key, group in named if group is not None]


@rule("server")
def supplies_match_the_model(catalog: Catalog, server: Server) -> Iterator[Problem]:
    for key, group in supply_groups(server):
        needed, spare = (int(part) for part in group.redundancy.split("+"))
        if needed + spare != group.count:
            yield Problem(
                ("server", key, "redundancy"),
                f"does not add up to server.{key}.count",
                f"{group.redundancy} = {needed + spare}",
                f"{group.count} supplies in all",
                "correct redundancy or count",
            )
        yield from _as_sold(catalog, server, key, group)


def _as_sold(catalog: Catalog, server: Server, key: str, group: SupplyGroup) -> Iterator[Problem]:
    """Count, rating and input of a supply group against the models of the catalogue."""
    system = catalog.systems.get(server.system or "")
    part = system.part("shelf") if system else None
    slug = server.model if key == "psu" else part.model if part else ""
    device = catalog.devices.get(slug)
    if device is None or device.bringup.psu is None or device.kind != ("server" if key == "psu" else "shelf"):
        return
    sold = device.bringup.psu
    if key == "psu" and group.count != sold.count:
        yield Problem(
            ("server", "psu", "count"),
            "another number than the model has",
            str(group.count),
            f"{sold.count} ({device.slug})",
            f"write {sold.count}, or name the right model",
        )
    if key == "psu" and group.rating_w > sold.rating_w:
        yield Problem(
            ("server", "psu", "rating_w"),
            "more than the supply delivers",
            f"{group.rating_w:g}",
            f"at most {sold.rating_w:g} watts ({device.slug})",
            f"write {sold.rating_w:g}, or correct the catalogue with the data sheet of a stronger supply (ERR-05)",
        )
    needed, as_sold = (int(text.split("+")[0]) for text in (group.redundancy, sold.redundancy))
    if key == "psu" and group.count == sold.count and needed < as_sold:
        yield Problem(
            ("server", "psu", "redundancy"),
            "fewer supplies than the model needs",
            f"{group.redundancy}: {needed} carry full load",
            f"{sold.redundancy}: {as_sold} of {sold.count} ({device.slug})",
            f"write {sold.redundancy}; what runs on fewer is a server under server.power.cap_w, which the plan then counts with "
            "(ERR-05)",
        )
    if key == "shelves" and group.rating_w > sold.count * sold.rating_w:
        yield Problem(
            ("server", "shelves", "rating_w"),
            "more than the shelf delivers",
            f"{group.rating_w:g}",
            f"at most {sold.count * sold.rating_w:g} watts: {sold.count} modules of {sold.rating_w:g} ({device.slug})",
            f"write {sold.count * sold.rating_w:g} or less",
        )
    if not sold.input_v_min <= group.input_v <= sold.input_v_max:
        yield Problem(
            ("server", key, "input_v"),
            "outside the supply's input range",
            f"{group.input_v:g}",
            f"{sold.input_v_min:g} to {sold.input_v_max:g} volts ({device.slug})",
            "at 415 V three-phase a supply sees 240 V, line to neutral; on 100 to 127 V it delivers less, if at all (ERR-02)"
            if key == "psu"
            else "a shelf takes the line-to-line voltage of its circuit, power.voltage_v",
        )


@rule("server")
def nic_slots_match_the_model(catalog: Catalog, server: Server) -> Iterator[Problem]:
    device = catalog.devices.get(server.model)
    slot = device.bringup.nic_slot if device else None
    if device is None or slot is None:
        return
    for key, built in (("pcie_gen", slot.pcie_gen), ("x16_per_port", slot.x16)):
        given = getattr(server.nic, key)
        if given != built:
            yield Problem(
                ("server", "nic", key),
                "another connection than the model has",
                str(given),
                f"{built} ({device.slug}): the usable rate follows from the slot, not from the card (ERR-09)",
                f"write {built}, or name the right model",
            )
