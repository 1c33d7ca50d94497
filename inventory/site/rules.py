"""Rules of the site file that span several keys, or a key and the hardware catalogue.

Each rule reads the sections that it names and runs when these are valid by themselves, so that one bad section does
not hide the faults of the others. What a plan computes (loads, counts, distances) is not judged here: that gives
findings, not site errors.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from inventory import groups
from inventory.catalog import U_M, Catalog, load_catalog, read_yaml
from inventory.gpu_stack import load_stack
from inventory.paths import repo_root
from inventory.site import schema
from inventory.site.messages import MISSING, nearest, shown
from inventory.site.schema import BOM_ITEMS, LEADTIME_ITEMS, SiteModel
from inventory.site.yaml_source import Path, Problem

SAME_VOLTAGE = 0.05
"""Share by which two names of one voltage may differ (400 and 415 V)."""

HOURS_OF_A_YEAR = (8760.0, 8784.0)

Rule = Callable[..., Iterator[Problem]]
_RULES: list[tuple[tuple[str, ...], Rule]] = []


def rule(*sections: str) -> Callable[[Rule], Rule]:
    """Register a rule with the sections that it needs; they are passed in that order, after the catalogue."""

    def register(function: Rule) -> Rule:
        _RULES.append((sections, function))
        return function

    return register


def check(raw: Mapping[str, Any], catalog: Catalog | None = None) -> list[Problem]:
    """The problems that the rules see in a parsed site file."""
    valid = _valid_sections(raw)
    known = catalog or load_catalog()
    return [
        problem
        for sections, function in _RULES
        if all(name in valid for name in sections)
        for problem in function(known, *(valid[name] for name in sections))
    ]


def _valid_sections(raw: Mapping[str, Any]) -> dict[str, Any]:
    valid: dict[str, Any] = {}
    for name, field in SiteModel.model_fields.items():
        key = field.alias or name
        if key not in raw:
            if not field.is_required():
                valid[key] = field.default
            continue
        try:
            valid[key] = _adapter(name).validate_python(raw[key], strict=True)
        except ValidationError:
            continue  # reported by the whole model's validation
    return valid


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def _adapter(name: str) -> TypeAdapter[Any]:
    if name not in _ADAPTERS:
        _ADAPTERS[name] = TypeAdapter(SiteModel.model_fields[name].rebuild_annotation())
    return _ADAPTERS[name]


def _unknown_slug(path: Path, slug: str, known: list[str], what: str, folder: str) -> Problem:
    near = nearest(slug, known)
    do = f"write {near}, or add {folder}/{slug}.yaml" if near else f"choose one of these, or add {folder}/{slug}.yaml"
    return Problem(path, f"an unknown {what}", slug, f"one of {', '.join(sorted(known))}", do, nearest=near)


def _device(catalog: Catalog, path: Path, slug: str, kind: str) -> Iterator[Problem]:
    known = [d.slug for d in catalog.devices.values() if d.kind == kind]
    if slug not in catalog.devices:
        yield _unknown_slug(path, slug, known, f"{kind} model", "inventory/catalog/data/device-types")
    elif catalog.devices[slug].kind != kind:
        found = f"{slug}, a {catalog.devices[slug].kind}"
        yield Problem(path, f"not a {kind}", found, f"one of {', '.join(sorted(known))}", f"name a {kind}")


@rule("server")
def server_model_is_known(catalog: Catalog, server: schema.Server) -> Iterator[Problem]:
    yield from _device(catalog, ("server", "model"), server.model, "server")


@rule("service_nodes")
def service_node_models_are_known(catalog: Catalog, nodes: tuple[schema.ServiceNode, ...]) -> Iterator[Problem]:
    for n, node in enumerate(nodes):
        yield from _device(catalog, ("service_nodes", n, "model"), node.model, "server")
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
    catalog: Catalog, nodes: tuple[schema.ServiceNode, ...]
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


@rule("fabric")
def fabric_switch_is_known_and_carries_the_kind(catalog: Catalog, fabric: schema.Fabric) -> Iterator[Problem]:
    path = ("fabric", "switch_model")
    yield from _device(catalog, path, fabric.switch_model, "switch")
    device = catalog.devices.get(fabric.switch_model)
    if device is None or device.kind != "switch":
        return
    wanted = "ib" if fabric.kind == "ib" else "eth"
    names = {"ib": "InfiniBand", "eth": "Ethernet"}
    if device.bringup.fabric != wanted:
        yield Problem(
            path,
            f"a switch of another kind than fabric.kind {fabric.kind}",
            f"{device.slug}, {names.get(device.bringup.fabric, 'no fabric')}",
            f"an {names[wanted]} switch",
            "mend fabric.kind or fabric.switch_model",
        )
    if fabric.radix > device.bringup.data_ports:
        yield Problem(
            ("fabric", "radix"),
            "more ports than the switch has",
            str(fabric.radix),
            f"at most {device.bringup.data_ports} ({device.slug})",
            f"write {device.bringup.data_ports} or less",
        )


@rule("fabric")
def fabric_has_more_than_one_tier(catalog: Catalog, fabric: schema.Fabric) -> Iterator[Problem]:
    if fabric.tiers == 1:
        yield Problem(
            ("fabric", "tiers"),
            "an option that nothing implements yet",
            "1",
            "auto, 2 or 3: fat trees of one tier are not planned",
            "write auto",
        )


@rule("scheduler")
def scheduler_is_one_that_is_built(catalog: Catalog, scheduler: schema.Scheduler) -> Iterator[Problem]:
    if scheduler.kind == "kubernetes":
        yield Problem(
            ("scheduler", "kind"),
            "an option that nothing implements yet",
            "kubernetes",
            "slurm: no playbook installs Kubernetes and no check judges it",
            "write slurm",
        )


@rule("fabric")
def congestion_control_goes_with_roce(catalog: Catalog, fabric: schema.Fabric) -> Iterator[Problem]:
    path = ("fabric", "congestion_control")
    if fabric.kind == "roce" and fabric.congestion_control is None:
        yield Problem(
            path,
            MISSING,
            "",
            "dcqcn, pfc_only or spectrum_x, since fabric.kind is roce",
            "add 'congestion_control:' in fabric",
        )
    if fabric.kind == "ib" and fabric.congestion_control is not None:
        yield Problem(
            path,
            "a key of another fabric kind",
            fabric.congestion_control,
            "no congestion_control: InfiniBand uses credit flow control (ERR-12)",
            "delete the key",
        )


@rule("fabric", "service_nodes")
def subnet_managers_have_nodes(
    catalog: Catalog, fabric: schema.Fabric, nodes: tuple[schema.ServiceNode, ...]
) -> Iterator[Problem]:
    path = ("fabric", "subnet_managers")
    if fabric.kind != "ib" and fabric.subnet_managers:
        yield Problem(
            path,
            "a key of another fabric kind",
            ", ".join(fabric.subnet_managers),
            "no subnet_managers: Ethernet has none",
            "delete the key",
        )
        return
    count = {node.role: node.count for node in nodes}
    for role in sorted(set(fabric.subnet_managers)):
        wanted = fabric.subnet_managers.count(role)
        if wanted > count.get(role, 0):
            yield Problem(
                path,
                "more subnet managers than nodes of the role",
                f"{wanted} on {role} nodes, of which there are {count.get(role, 0)}",
                f"each subnet manager on a {role} node of its own",
                "name another role, or raise its count in service_nodes",
            )


@rule("server", "fabric")
def one_nic_port_per_rail(catalog: Catalog, server: schema.Server, fabric: schema.Fabric) -> Iterator[Problem]:
    if server.nic.ports != fabric.rails:
        yield Problem(
            ("fabric", "rails"),
            "rails and NIC ports differ",
            f"{fabric.rails} rails, {server.nic.ports} NIC ports",
            "one NIC port per rail: NIC k of every server goes to the leaves of rail k (ERR-11)",
            f"write rails: {server.nic.ports}, or mend server.nic.ports",
        )
    device = catalog.devices.get(server.model)
    if device and device.bringup.fabric_ports and server.nic.ports > len(device.bringup.fabric_ports):
        yield Problem(
            ("server", "nic", "ports"),
            "more ports than the server has",
            str(server.nic.ports),
            f"at most {len(device.bringup.fabric_ports)} ({device.slug})",
            "mend the number or the model",
        )
    switch = catalog.devices.get(fabric.switch_model)
    if switch and switch.kind == "switch" and server.nic.rate_gbps > switch.bringup.rate_gbps:
        yield Problem(
            ("server", "nic", "rate_gbps"),
            "faster than the switch's ports",
            f"{server.nic.rate_gbps}",
            f"at most {switch.bringup.rate_gbps:g} ({switch.slug})",
            "mend the rate or fabric.switch_model",
        )


@rule("inband")
def inband_switches_are_known_and_have_the_ports(catalog: Catalog, inband: schema.Inband) -> Iterator[Problem]:
    for key, uplinks, what in (("spine_model", inband.leaves, "leaves"), ("leaf_model", inband.spines, "spines")):
        slug = getattr(inband, key)
        yield from _device(catalog, ("inband", key), slug, "switch")
        device = catalog.devices.get(slug)
        if device is None or device.kind != "switch":
            continue
        if uplinks > device.bringup.data_ports:
            yield Problem(
                ("inband", what),
                "more than the switch has ports for",
                str(uplinks),
                f"at most {device.bringup.data_ports} ({device.slug}: each leaf has a link to each spine)",
                "take fewer, or a larger switch",
            )
        if inband.rate_gbps > device.bringup.rate_gbps:
            yield Problem(
                ("inband", "rate_gbps"),
                f"faster than the ports of {slug}",
                str(inband.rate_gbps),
                f"at most {device.bringup.rate_gbps:g}",
                f"mend the rate or inband.{key}",
            )
    if inband.links_per_node > inband.leaves:
        yield Problem(
            ("inband", "links_per_node"),
            "more links than leaves",
            str(inband.links_per_node),
            f"at most {inband.leaves}, since each link goes to another leaf",
            "mend one of the two",
        )


@rule("server", "inband", "service_nodes")
def nodes_have_the_inband_ports(
    catalog: Catalog, server: schema.Server, inband: schema.Inband, nodes: tuple[schema.ServiceNode, ...]
) -> Iterator[Problem]:
    for slug in (server.model, *(node.model for node in nodes)):
        device = catalog.devices.get(slug)
        if device and device.kind == "server" and inband.links_per_node > len(device.bringup.inband_ports):
            yield Problem(
                ("inband", "links_per_node"),
                "more links than a server has in-band ports",
                str(inband.links_per_node),
                f"at most {len(device.bringup.inband_ports)} ({slug})",
                "mend the number or the model",
            )


@rule("server", "inband", "service_nodes")
def as_numbers_stay_private(
    catalog: Catalog, server: schema.Server, inband: schema.Inband, nodes: tuple[schema.ServiceNode, ...]
) -> Iterator[Problem]:
    needed = 1 + inband.leaves + server.count + sum(node.count for node in nodes)
    base, last = inband.asn_base, inband.asn_base + needed - 1
    if not any(low <= base and last <= high for low, high in ((64512, 65534), (4200000000, 4294967294))):
        yield Problem(
            ("inband", "asn_base"),
            "AS numbers outside the private ranges",
            f"{base} to {last} ({needed} numbers)",
            "all within 64512-65534 or 4200000000-4294967294 (RFC 6996)",
            "write 4200000000",
        )


@rule("oob")
def management_switch_is_known(catalog: Catalog, oob: schema.Oob) -> Iterator[Problem]:
    yield from _device(catalog, ("oob", "switch_model"), oob.switch_model, "switch")


@rule("gpu")
def gpu_matches_its_sku(catalog: Catalog, gpu: schema.Gpu) -> Iterator[Problem]:
    entry = catalog.gpus.get(gpu.sku)
    if entry is None:
        yield _unknown_slug(("gpu", "sku"), gpu.sku, list(catalog.gpus), "GPU", "inventory/catalog/data/gpus")
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
def nameplate_holds_the_gpus(catalog: Catalog, gpu: schema.Gpu, server: schema.Server) -> Iterator[Problem]:
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
def power_profiles_are_in_order(catalog: Catalog, server: schema.Server) -> Iterator[Problem]:
    power = server.power
    for key in ("seed_w", "measured_w"):
        if getattr(power, key) > power.nameplate_w:
            yield Problem(
                ("server", "power", key),
                "more than the nameplate",
                f"{getattr(power, key):g}",
                f"at most nameplate_w, {power.nameplate_w:g} watts",
                "check which of the two is wrong (ERR-01)",
            )


@rule("server")
def power_cap_lies_between_measured_and_nameplate(catalog: Catalog, server: schema.Server) -> Iterator[Problem]:
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
def supplies_belong_to_the_server_or_to_its_system(catalog: Catalog, server: schema.Server) -> Iterator[Problem]:
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


@rule("server", "rack")
def system_is_known_and_filled(catalog: Catalog, server: schema.Server, rack: schema.Rack) -> Iterator[Problem]:
    if server.system is None:
        return
    if server.system not in catalog.systems:
        yield _unknown_slug(
            ("server", "system"),
            server.system,
            list(catalog.systems),
            "rack-scale system",
            "inventory/catalog/data/systems",
        )
        return
    system = catalog.systems[server.system]
    trays, tray = system.count("compute"), system.part("compute")
    if tray is not None and server.model != tray.model:
        yield Problem(
            ("server", "model"),
            "not a tray of server.system",
            server.model,
            f"{tray.model}, the compute tray of {system.slug}",
            f"write {tray.model}, or name another system",
        )
    if server.count % trays:
        whole = -(-server.count // trays)
        yield Problem(
            ("server", "count"),
            "does not fill its rack-scale systems",
            f"{server.count}",
            f"a multiple of {trays}: {system.slug} is bought with {trays} trays",
            f"write {whole * trays} for {whole} systems",
        )
    if rack.servers != trays:
        yield Problem(
            ("rack", "servers"),
            "another number than the system holds",
            str(rack.servers),
            f"{trays} trays ({system.slug})",
            f"write {trays}",
        )
    if rack.model != system.rack:
        yield Problem(
            ("rack", "model"),
            "another rack than the system comes in",
            rack.model,
            f"{system.rack} ({system.slug})",
            f"write {system.rack}; racks of switches and service nodes go in rack.network",
        )
    shelves = system.count("shelf")
    if server.shelves is not None and server.shelves.count != shelves:
        yield Problem(
            ("server", "shelves", "count"),
            "another number than the system has",
            str(server.shelves.count),
            f"{shelves} ({system.slug})",
            f"write {shelves}, or name the right system",
        )


@rule("server", "power")
def shelves_have_their_circuit(catalog: Catalog, server: schema.Server, power: schema.Power) -> Iterator[Problem]:
    path = ("power", "shelf_circuit")
    if server.system is not None and power.shelf_circuit is None:
        yield Problem(
            path,
            MISSING,
            "",
            f"breaker and phases of one power shelf's circuit, since server.system is {server.system}",
            "add 'shelf_circuit: {breaker_a: ..., phases: 3}' in power",
        )
    if server.shelves is not None and abs(server.shelves.input_v / power.voltage_v - 1) > SAME_VOLTAGE:
        yield Problem(
            ("server", "shelves", "input_v"),
            "another voltage than its circuit has",
            f"{server.shelves.input_v:g}",
            f"power.voltage_v, {power.voltage_v:g} volts",
            "mend one of the two: a shelf takes the line-to-line voltage of its circuit",
        )
    if server.system is None and power.shelf_circuit is not None:
        yield Problem(
            path,
            "a circuit without power shelves",
            f"{power.shelf_circuit.breaker_a:g} A",
            "no shelf_circuit while server.system is not set",
            "delete the key",
        )


def _supply_groups(server: schema.Server) -> list[tuple[str, schema.SupplyGroup]]:
    """The supply groups that the site describes, with their key in `server`."""
    named = (("psu", server.psu), ("shelves", server.shelves))
    return [(key, group) for key, group in named if group is not None]


@rule("server", "power")
def supplies_are_shared_among_the_feeds(
    catalog: Catalog, server: schema.Server, power: schema.Power
) -> Iterator[Problem]:
    for key, group in _supply_groups(server):
        split = group.split_by_feed
        total = sum(split.values())
        if total != group.count:
            yield Problem(
                ("server", key, "split_by_feed"),
                f"does not add up to server.{key}.count",
                f"{' + '.join(map(str, split.values()))} = {total}",
                f"{group.count} supplies in all",
                "mend the split or the count",
            )
        for feed in split:
            if feed not in power.feeds:
                yield Problem(
                    ("server", key, "split_by_feed", feed),
                    "a feed that power.feeds does not have",
                    feed,
                    f"one of {', '.join(power.feeds)}",
                    f"add {feed} to power.feeds or move its supplies",
                )


@rule("server")
def supplies_match_the_model(catalog: Catalog, server: schema.Server) -> Iterator[Problem]:
    for key, group in _supply_groups(server):
        needed, spare = (int(part) for part in group.redundancy.split("+"))
        if needed + spare != group.count:
            yield Problem(
                ("server", key, "redundancy"),
                f"does not add up to server.{key}.count",
                f"{group.redundancy} = {needed + spare}",
                f"{group.count} supplies in all",
                "mend redundancy or count",
            )
        yield from _as_sold(catalog, server, key, group)


def _as_sold(catalog: Catalog, server: schema.Server, key: str, group: schema.SupplyGroup) -> Iterator[Problem]:
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
def nic_slots_match_the_model(catalog: Catalog, server: schema.Server) -> Iterator[Problem]:
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


@rule("power")
def feeds_and_overhead_make_sense(catalog: Catalog, power: schema.Power) -> Iterator[Problem]:
    for feed in sorted({f for f in power.feeds if power.feeds.count(f) > 1}):
        yield Problem(
            ("power", "feeds"),
            "a feed given twice",
            f"[{', '.join(power.feeds)}]",
            "each feed once",
            f"delete one {feed}; two feeds of one name are one feed",
        )
    low, high = power.overhead_pct
    if low > high:
        yield Problem(
            ("power", "overhead_pct"),
            "a range that ends before it starts",
            f"[{low:g}, {high:g}]",
            "[low, high]",
            f"write [{high:g}, {low:g}]",
        )
    if power.code == "nec" and power.derating > 0.8:
        yield Problem(
            ("power", "derating"),
            "more than the code allows",
            f"{power.derating:g}",
            "at most 0.8 under NEC: continuous load is 80 % of the breaker (RC-085a)",
            "write 0.8, or code: iec where IEC rules apply",
        )
    yield from _device(catalog, ("power", "rack_pdu", "model"), power.rack_pdu.model, "pdu")


@rule("storage")
def storage_block_is_known(catalog: Catalog, storage: schema.Storage) -> Iterator[Problem]:
    if storage.block is None:
        return
    path = ("storage", "block")
    fitting = sorted(slug for slug, block in catalog.storage.items() if storage.kind in block.kinds)
    if storage.block not in catalog.storage:
        yield _unknown_slug(
            path, storage.block, sorted(catalog.storage), "building block", "inventory/catalog/data/storage"
        )
    elif storage.block not in fitting:
        yield Problem(
            path,
            "a building block of another file system",
            storage.block,
            f"one of {', '.join(fitting)}, which storage.kind {storage.kind} runs on"
            if fitting
            else "a block of this kind",
            "change storage.block or storage.kind",
        )


@rule("media", "rack")
def media_and_rack_are_known(catalog: Catalog, media: schema.Media, rack: schema.Rack) -> Iterator[Problem]:
    if media.reach_table not in catalog.media_tables:
        yield _unknown_slug(
            ("media", "reach_table"),
            media.reach_table,
            list(catalog.media_tables),
            "media table",
            "inventory/catalog/data/media",
        )
    for path, given in ((("rack",), rack), (("rack", "network"), rack.network), (("rack", "storage"), rack.storage)):
        if given is not None:
            yield from _rack(catalog, path, given)


def _rack(catalog: Catalog, path: Path, rack: schema.Rack | schema.NetworkRack) -> Iterator[Problem]:
    if rack.model not in catalog.racks:
        yield _unknown_slug(
            (*path, "model"), rack.model, list(catalog.racks), "rack type", "inventory/catalog/data/rack-types"
        )
        return
    entry = catalog.racks[rack.model]
    if rack.height_u > entry.u_height:
        yield Problem(
            (*path, "height_u"),
            "more than the rack has",
            str(rack.height_u),
            f"at most {entry.u_height} rack units ({entry.slug})",
            f"write {entry.u_height} or less",
        )
    if rack.mass_limit_kg > entry.max_weight:
        yield Problem(
            (*path, "mass_limit_kg"),
            "more than the rack carries",
            f"{rack.mass_limit_kg:g}",
            f"at most {entry.max_weight:g} kilograms ({entry.slug})",
            f"write {entry.max_weight:g} or less",
        )


@rule("cooling", "room", "rack")
def rooms_are_higher_than_what_stands_in_them(
    catalog: Catalog, cooling: schema.Cooling, room: schema.Room, rack: schema.Rack
) -> Iterator[Problem]:
    given = cooling.ride_through
    if given is None:
        return
    path, found = ("cooling", "ride_through", "room_height_m"), f"{given.room_height_m:g}"
    slugs = [kind.model for kind in (rack, rack.network, rack.storage) if kind is not None]
    models = [catalog.racks[slug] for slug in slugs if slug in catalog.racks]
    tallest = max(models, key=lambda model: model.u_height, default=None)
    if tallest is not None and given.room_height_m < tallest.u_height * U_M - 1e-9:
        yield Problem(
            path,
            "lower than a rack",
            found,
            f"at least the {tallest.u_height * U_M:.2f} metres of {tallest.u_height} rack units ({tallest.slug})",
            "write the height from the floor to the ceiling of the hall",
        )
    if given.room_height_m <= room.tray_height_m:
        yield Problem(
            path,
            "not above the cable trays",
            found,
            f"more than room.tray_height_m, {room.tray_height_m:g} metres",
            "write the height from the floor to the ceiling of the hall, or lower tray_height_m",
        )


@rule("generator")
def generator_start_goes_with_presence(catalog: Catalog, generator: schema.Generator) -> Iterator[Problem]:
    path = ("generator", "start_s")
    if generator.present and generator.start_s is None:
        yield Problem(
            path,
            MISSING,
            "",
            "seconds from loss of utility to load accepted, since present is true",
            "add 'start_s:' in generator (the UPS must ride through it, ERR-18)",
        )
    if not generator.present and generator.start_s is not None:
        yield Problem(
            path,
            "a start time without a generator",
            f"{generator.start_s:g}",
            "no start_s while present is false",
            "delete the key, or write present: true",
        )


@rule("electrical", "power", "generator", "ups")
def electrical_section_fits_the_rest(
    catalog: Catalog,
    electrical: schema.Electrical | None,
    power: schema.Power,
    generator: schema.Generator,
    ups: schema.Ups,
) -> Iterator[Problem]:
    if electrical is None:
        return
    top = ("electrical",)
    if generator.present and electrical.generators is None:
        yield Problem(
            (*top, "generators"),
            MISSING,
            "",
            "the generators, since generator.present is true",
            "add 'generators:' in electrical, or write present: false in generator",
        )
    if electrical.generators is not None and not generator.present:
        yield Problem(
            (*top, "generators"),
            "generators on a site without them",
            "generator.present: false",
            "no electrical.generators while generator.present is false",
            "delete the key, or write present: true and start_s in generator",
        )
    for key, circuit in (("rack_circuit", power.rack_circuit), ("shelf_circuit", power.shelf_circuit)):
        if circuit is not None and circuit.phases == 1:
            yield Problem(
                ("power", key, "phases"),
                "a single-phase circuit below a supply that is planned",
                "1",
                "3, since electrical is given: load flow, voltage drop and fault level take all circuits as three-phase",
                "write phases: 3 with the PDU that belongs to it, or leave out the section electrical",
            )
    board_v = electrical.switchboard_v or power.voltage_v
    differ = abs(board_v - power.voltage_v) > SAME_VOLTAGE * power.voltage_v
    if differ and electrical.pdu_transformers is None:
        yield Problem(
            (*top, "switchboard_v"),
            "another voltage than the rack circuits' without a transformer between",
            f"{board_v:g}",
            f"{power.voltage_v:g} (power.voltage_v), or pdu_transformers",
            "add 'pdu_transformers:' in electrical, or give both the same voltage",
        )
    for key, kind in (("transformers", electrical.transformers), ("pdu_transformers", electrical.pdu_transformers)):
        if kind is not None and kind.load_loss_kw / kind.kva * 100 >= kind.uk_pct:
            yield Problem(
                (*top, key, "load_loss_kw"),
                "losses that the short-circuit voltage does not allow",
                f"{kind.load_loss_kw:g} kW, {kind.load_loss_kw / kind.kva:.2%} of {kind.kva:g} kVA",
                f"less than uk_pct, {kind.uk_pct:g} % of the rating",
                f"write the losses in kilowatts (below {kind.uk_pct / 100 * kind.kva:g}), or correct uk_pct",
            )
    for name in (electrical.waves.feeds or ()) if electrical.waves else ():
        if name not in power.feeds:
            yield Problem(
                (*top, "waves", "feeds"),
                "energises a feed that the site does not have",
                name,
                f"one of power.feeds: {', '.join(power.feeds)}",
                "correct the name, or add the feed to power.feeds",
            )
    for name in electrical.rooms:
        if name not in power.feeds:
            yield Problem(
                (*top, "rooms", name),
                "a room of a feed that the site does not have",
                name,
                f"one of {', '.join(power.feeds)} (power.feeds)",
                "delete the line, or add the feed to power.feeds",
            )
    for place, conductor in (
        (("panels", "feeder"), electrical.panels.feeder),
        (("rack_conductor",), electrical.rack_conductor),
    ):
        if (conductor.ampacity_a is None) != (conductor.ampacity_source is None):
            absent = "ampacity_source" if conductor.ampacity_source is None else "ampacity_a"
            yield Problem(
                (*top, *place, absent),
                MISSING,
                "",
                "ampacity_a and the table that it comes from, with its derating, or neither",
                f"add '{absent}:', or delete the other one",
            )
    if electrical.panels.feeder.length_m is None:
        yield Problem(
            (*top, "panels", "feeder", "length_m"),
            MISSING,
            "",
            "metres from the UPS block or PDU transformer to a panel",
            "add 'length_m:' in feeder (only rack circuits are routed by the plan)",
        )
    spare = {"n": 0, "n+1": 1, "n+2": 2, "2n": electrical.ups_blocks.modules_per_block // 2}[ups.redundancy]
    if electrical.ups_blocks.modules_per_block <= spare or (
        ups.redundancy == "2n" and electrical.ups_blocks.modules_per_block % 2
    ):
        yield Problem(
            (*top, "ups_blocks", "modules_per_block"),
            f"too few modules for {ups.redundancy}" if ups.redundancy != "2n" else "an odd number of modules for 2n",
            str(electrical.ups_blocks.modules_per_block),
            "an even number" if ups.redundancy == "2n" else f"at least {spare + 1} modules",
            "add modules, or change ups.redundancy",
        )


@rule("electrical", "server")
def idle_servers_draw_less_than_working_ones(
    catalog: Catalog, electrical: schema.Electrical | None, server: schema.Server
) -> Iterator[Problem]:
    swing, measured = electrical.swing if electrical else None, server.power.measured_w
    if swing is not None and swing.idle_w >= measured:
        yield Problem(
            ("electrical", "swing", "idle_w"),
            "an idle draw as large as the draw at work",
            f"{swing.idle_w:g}",
            f"below server.power.measured_w, {measured:g} watts, which training draws: the difference is the load step",
            "write what one server draws while its GPUs wait, watts of a server and not of a rack",
        )


@rule("electrical", "power")
def installed_equipment_is_more_than_its_spares(
    catalog: Catalog, electrical: schema.Electrical | None, power: schema.Power
) -> Iterator[Problem]:
    if electrical is None:
        return
    kinds: list[tuple[str, schema.Installed, int]] = [
        ("ups_blocks", electrical.ups_blocks, 0),
        ("transformers", electrical.transformers, electrical.transformers.n_plus),
    ]
    if electrical.generators is not None:
        kinds.append(("generators", electrical.generators, electrical.generators.n_plus))
    for key, given, spare in kinds:
        counts = [
            (("installed",), given.installed),
            *((("installed_by_feed", f), n) for f, n in given.installed_by_feed.items()),
        ]
        for path, count in counts:
            if count is not None and count <= spare:
                yield Problem(
                    ("electrical", key, *path),
                    "no more than the spare ones",
                    str(count),
                    f"at least {spare + 1} to a feed: one that carries load and {spare} spare (n_plus)",
                    "count all that stand there, spare ones included, or lower n_plus",
                )
        for feed in given.installed_by_feed:
            if feed not in power.feeds:
                yield Problem(
                    ("electrical", key, "installed_by_feed", feed),
                    "stands on a feed that the site does not have",
                    feed,
                    f"one of {', '.join(power.feeds)} (power.feeds)",
                    "correct the name, or add the feed to power.feeds",
                )


@rule("cooling")
def supply_stays_above_the_dew_point(catalog: Catalog, cooling: schema.Cooling) -> Iterator[Problem]:
    if cooling.supply_c <= cooling.dewpoint_c:
        yield Problem(
            ("cooling", "supply_c"),
            "not above the dew point",
            f"{cooling.supply_c:g}",
            f"more than dewpoint_c, {cooling.dewpoint_c:g} degrees Celsius: water would condense (RC-112)",
            "raise supply_c or dry the room",
        )


@rule("cooling")
def coolant_goes_with_liquid(catalog: Catalog, cooling: schema.Cooling) -> Iterator[Problem]:
    path = ("cooling", "coolant")
    if cooling.kind == "liquid" and cooling.coolant is None:
        yield Problem(
            path,
            MISSING,
            "",
            "rise, highest supply temperature and distribution units of the coolant loop, since cooling.kind is liquid",
            "add 'coolant: {rise_k: ..., server_max_c: ..., cdu_kw: ...}' in cooling",
        )
    if cooling.kind == "air" and cooling.coolant is not None:
        yield Problem(
            path,
            "a coolant loop of air-cooled servers",
            f"{cooling.coolant.cdu_kw:g} kW units",
            "no coolant while cooling.kind is air",
            "delete the key, or write kind: liquid",
        )


@rule("cooling")
def air_units_fit_their_hall(catalog: Catalog, cooling: schema.Cooling) -> Iterator[Problem]:
    air = cooling.air
    if air is None:
        return
    path = ("cooling", "air")
    if air.path == "raised_floor" and air.tile is None:
        yield Problem(
            (*path, "tile"),
            MISSING,
            "",
            "the tiles, since path is raised_floor",
            "add 'tile: {airflow_m3_s: ..., pressure_pa: ..., per_rack: ...}' in cooling.air, or name another path",
        )
    if air.path != "raised_floor" and air.tile is not None:
        yield Problem(
            (*path, "tile"),
            "tiles without a raised floor",
            f"path {air.path}",
            "no tile unless path is raised_floor (ERR-46: these are alternatives)",
            "delete the key, or write path: raised_floor",
        )
    if (air.path == "duct") != (air.duct is not None):
        yield Problem(
            (*path, "duct"),
            MISSING if air.duct is None else "ducts that no air goes through",
            "" if air.duct is None else f"path {air.path}",
            "the ducts with path duct, and only there (ERR-46: these are alternatives)",
            "add 'duct: {count: ..., width_m: ..., ...}' in cooling.air" if air.duct is None else "delete the key",
        )
    if (air.kind == "in_row") != (air.path == "row"):
        yield Problem(
            (*path, "path"),
            "a way of the air that these units do not have",
            f"{air.path} with {air.kind}",
            "path row with kind in_row, and only there",
            "write path: row" if air.kind == "in_row" else "name raised_floor, duct or room",
        )
    if air.every_racks is not None and air.kind != "in_row":
        yield Problem(
            (*path, "every_racks"),
            "places for coolers that stand elsewhere",
            f"kind {air.kind}",
            "no every_racks unless kind is in_row",
            "delete the key, or write kind: in_row",
        )
    if cooling.kind == "liquid" and air.supply_c is None:
        yield Problem(
            (*path, "supply_c"),
            MISSING,
            "",
            "the supply temperature of the air, since cooling.supply_c is the coolant's",
            "add supply_c in cooling.air",
        )
    supply_c = cooling.supply_c if air.supply_c is None else air.supply_c
    if air.rated_return_c <= air.rated_water_c:
        yield Problem(
            (*path, "rated_return_c"),
            "not above the water",
            f"{air.rated_return_c:g}",
            f"more than rated_water_c, {air.rated_water_c:g} degrees Celsius",
            "copy both from one line of the data sheet",
        )
    if air.supply_c is not None and supply_c <= cooling.dewpoint_c:
        yield Problem(
            (*path, "supply_c"),
            "not above the dew point",
            f"{supply_c:g}",
            f"more than dewpoint_c, {cooling.dewpoint_c:g} degrees Celsius",
            "raise supply_c or dry the room",
        )
    water_c = cooling.plant.water_c if cooling.plant is not None else air.rated_water_c
    if water_c >= supply_c:
        yield Problem(
            ("cooling", "plant", "water_c") if cooling.plant is not None else (*path, "rated_water_c"),
            "too warm for the air",
            f"{water_c:g}",
            f"less than the air's supply temperature, {supply_c:g} degrees Celsius",
            "lower the water's temperature or raise the air's",
        )


@rule("cooling", "room")
def coolers_between_racks_are_no_wider_than_a_place(
    catalog: Catalog, cooling: schema.Cooling, room: schema.Room
) -> Iterator[Problem]:
    air = cooling.air
    if air is not None and air.kind == "in_row" and air.width_m is not None and air.width_m > room.rack_pitch_m:
        yield Problem(
            ("cooling", "air", "width_m"),
            "wider than the place of a rack",
            f"{air.width_m:g}",
            f"at most room.rack_pitch_m, {room.rack_pitch_m:g} metres, while kind is in_row",
            "copy the width of the in-row unit from its data sheet, or correct room.rack_pitch_m",
        )


@rule("cooling", "room")
def distribution_units_leave_places_for_racks(
    catalog: Catalog, cooling: schema.Cooling, room: schema.Room
) -> Iterator[Problem]:
    kept = cooling.coolant.cdu_places_per_row if cooling.coolant is not None else 0
    if kept and kept + room.rpps_per_row >= room.racks_per_row:
        yield Problem(
            ("cooling", "coolant", "cdu_places_per_row"),
            "no place is left for racks",
            f"{kept:g}",
            f"less than room.racks_per_row {room.racks_per_row} without room.rpps_per_row {room.rpps_per_row}",
            "keep fewer places free, or make the rows longer",
        )


@rule("cooling")
def plants_have_what_their_kind_needs(catalog: Catalog, cooling: schema.Cooling) -> Iterator[Problem]:
    plant = cooling.plant
    if plant is None:
        return
    path = ("cooling", "plant")
    chillers = plant.kind.startswith("chiller")
    for key, value in (("chiller_kw", plant.chiller_kw), ("chiller_cop", plant.chiller_cop)):
        if chillers and value is None:
            yield Problem((*path, key), MISSING, "", f"a value, since kind is {plant.kind}", f"add {key}")
        if not chillers and value is not None:
            yield Problem(
                (*path, key),
                "chillers in a plant without any",
                f"{value:g}",
                f"no {key} while kind is {plant.kind}",
                "delete the key, or name a kind with chillers",
            )
    towers = plant.kind in ("chiller_tower", "tower")
    if towers and plant.cycles is None:
        yield Problem((*path, "cycles"), MISSING, "", f"a value, since kind is {plant.kind}", "add cycles")
    if not towers and plant.cycles is not None:
        yield Problem(
            (*path, "cycles"),
            "cycles of concentration of a dry plant",
            f"{plant.cycles:g}",
            f"no cycles while kind is {plant.kind}",
            "delete the key, or name a kind with towers",
        )
    if plant.design_wet_c > plant.design_dry_c:
        yield Problem(
            (*path, "design_wet_c"),
            "above the dry bulb",
            f"{plant.design_wet_c:g}",
            f"at most design_dry_c, {plant.design_dry_c:g} degrees Celsius",
            "swap the two, or correct one of them",
        )


@rule("cooling")
def loop_is_colder_than_its_coolant(catalog: Catalog, cooling: schema.Cooling) -> Iterator[Problem]:
    loop = cooling.coolant.loop if cooling.coolant is not None else None
    if loop is not None and loop.facility_c >= cooling.supply_c:
        yield Problem(
            ("cooling", "coolant", "loop", "facility_c"),
            "not colder than the coolant",
            f"{loop.facility_c:g}",
            f"less than cooling.supply_c, {cooling.supply_c:g} degrees Celsius: the heat goes from coolant to water",
            "lower facility_c or raise supply_c",
        )


@rule("cooling")
def trips_lie_above_the_supply(catalog: Catalog, cooling: schema.Cooling) -> Iterator[Problem]:
    given = cooling.ride_through
    if given is None:
        return
    path = ("cooling", "ride_through")
    air_c = cooling.supply_c if cooling.kind == "air" else cooling.air.supply_c if cooling.air is not None else None
    if air_c is not None and given.trip_c <= air_c:
        yield Problem(
            (*path, "trip_c"),
            "not above the supply",
            f"{given.trip_c:g}",
            f"more than the air's supply temperature, {air_c:g} degrees Celsius",
            "raise trip_c: it is the servers' limit",
        )
    if cooling.kind == "liquid" and given.coolant_trip_c is None:
        yield Problem((*path, "coolant_trip_c"), MISSING, "", "a value, since cooling.kind is liquid", "add it")
    if given.coolant_trip_c is not None and cooling.kind == "liquid" and given.coolant_trip_c <= cooling.supply_c:
        yield Problem(
            (*path, "coolant_trip_c"),
            "not above the supply",
            f"{given.coolant_trip_c:g}",
            f"more than cooling.supply_c, {cooling.supply_c:g} degrees Celsius",
            "raise it: it is the servers' limit",
        )


@rule("cooling")
def cooling_options_are_distinct(catalog: Catalog, cooling: schema.Cooling) -> Iterator[Problem]:
    kinds = [option.kind for option in cooling.options]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        yield Problem(
            ("cooling", "options"), "a kind given twice", kind, "each kind once", f"keep one entry for {kind}"
        )


@rule("weather")
def weather_is_a_file_or_a_year_of_bins(catalog: Catalog, weather: schema.Weather | None) -> Iterator[Problem]:
    if weather is None:
        return
    if (weather.epw is None) == (not weather.bins):
        found = "both" if weather.bins else "neither"
        yield Problem(
            ("weather",), "not one source of weather", found, "either epw or bins", "keep the file where there is one"
        )
    hours = sum(one.hours for one in weather.bins)
    if weather.bins and not HOURS_OF_A_YEAR[0] <= hours <= HOURS_OF_A_YEAR[1]:
        yield Problem(
            ("weather", "bins"),
            "bins that are no year",
            f"{hours:g} hours",
            "8,760 hours together (8,784 in a leap year)",
            "correct the hours of the bins",
        )
    for n, one in enumerate(weather.bins):
        if one.wet_c > one.dry_c:
            yield Problem(
                ("weather", "bins", n, "wet_c"),
                "above the dry bulb",
                f"{one.wet_c:g}",
                f"at most dry_c, {one.dry_c:g} degrees Celsius",
                "swap the two, or correct one of them",
            )


@rule("room")
def panels_leave_room_in_a_row(catalog: Catalog, room: schema.Room) -> Iterator[Problem]:
    if room.rpps_per_row >= room.racks_per_row:
        yield Problem(
            ("room", "rpps_per_row"),
            "panels on all places of a row",
            str(room.rpps_per_row),
            f"fewer than racks_per_row, {room.racks_per_row}",
            "lengthen the rows or take panels out",
        )


@rule("leadtimes", "schedule")
def lead_times_are_dated_ranges(
    catalog: Catalog, leadtimes: dict[str, schema.LeadTime], schedule: schema.Schedule
) -> Iterator[Problem]:
    for item, lead in leadtimes.items():
        path = ("leadtimes", item)
        if item not in LEADTIME_ITEMS:
            near = nearest(item, LEADTIME_ITEMS)
            yield Problem(
                path,
                "an unknown item",
                item,
                f"one of {', '.join(LEADTIME_ITEMS)}",
                f"write {near}" if near else "delete the item",
                nearest=near,
            )
        if lead.min_weeks > lead.max_weeks:
            yield Problem(
                (*path, "min_weeks"),
                "a range that ends before it starts",
                f"{lead.min_weeks:g} to {lead.max_weeks:g}",
                "min_weeks at most max_weeks",
                "swap the two",
            )
        yield from _likely_in_range(path, lead)
        if lead.as_of > schedule.need_date:
            yield Problem(
                (*path, "as_of"),
                "a quote from after go-live",
                shown(lead.as_of),
                f"a date before schedule.need_date, {schedule.need_date}",
                "mend one of the two dates",
            )
    for item in ("gpu", *(["facility"] if schedule.greenfield else [])):
        if item not in leadtimes:
            why = " since schedule.greenfield is true" if item == "facility" else ""
            yield Problem(
                ("leadtimes", item),
                MISSING,
                "",
                f"the dated lead time of {item}{why}",
                f"add '{item}: {{min_weeks: ..., max_weeks: ..., as_of: ..., source: ...}}' in leadtimes",
            )


def _likely_in_range(path: Path, given: schema.LeadTime | schema.Activity) -> Iterator[Problem]:
    likely = given.likely_weeks
    if likely is not None and given.min_weeks <= given.max_weeks and not given.min_weeks <= likely <= given.max_weeks:
        yield Problem(
            (*path, "likely_weeks"),
            "outside its range",
            f"{likely:g}",
            f"between min_weeks and max_weeks, {given.min_weeks:g} to {given.max_weeks:g}",
            "correct it, or leave it out: the middle is taken",
        )


@rule("leadtimes")
def orders_make_an_order(catalog: Catalog, leadtimes: dict[str, schema.LeadTime]) -> Iterator[Problem]:
    for item, lead in leadtimes.items():
        for n, before in enumerate(lead.after):
            if before not in leadtimes:
                near = nearest(before, list(leadtimes))
                yield Problem(
                    ("leadtimes", item, "after", n),
                    "an item without a lead time",
                    before,
                    f"one of {', '.join(leadtimes)}",
                    f"write {near}" if near else f"add {before} to leadtimes, or take it out of after",
                    nearest=near,
                )
    circle = groups.cycle({item: [b for b in lead.after if b in leadtimes] for item, lead in leadtimes.items()})
    if circle:
        yield Problem(
            ("leadtimes", circle[0], "after"),
            "orders that wait for each other",
            " after ".join(circle),
            "an order in which each item can arrive",
            "delete one of these dependencies",
        )


@rule("schedule", "purchase")
def activities_work_on_known_tranches(
    catalog: Catalog, schedule: schema.Schedule, purchase: schema.Purchase
) -> Iterator[Problem]:
    names = [tranche.name for tranche in purchase.tranches]
    for name, activity in schedule.activities.items():
        path = ("schedule", "activities", name, "tranche")
        if activity.tranche is None:
            continue
        if activity.tranche not in names:
            near = nearest(activity.tranche, names)
            do = f"write {near}" if near else "name a tranche of the purchase, or delete the key"
            yield Problem(
                path,
                "an unknown tranche",
                activity.tranche,
                f"one of {', '.join(names) or 'purchase.tranches'}",
                do,
                nearest=near,
            )
        if activity.group != groups.ROOM_GROUP:
            yield Problem(
                path,
                "a tranche of work that is not D04",
                activity.group,
                "a tranche for receiving, racking or cabling (D04)",
                "delete the key: later groups start when the whole of D04 is done",
            )


@rule("leadtimes", "schedule")
def activities_make_an_order(
    catalog: Catalog, leadtimes: dict[str, schema.LeadTime], schedule: schema.Schedule
) -> Iterator[Problem]:
    known = [*schedule.activities, *leadtimes]
    for name, activity in schedule.activities.items():
        path = ("schedule", "activities", name)
        if name in LEADTIME_ITEMS:
            yield Problem(path, "the name of a lead time", name, "a name that no lead time has", "rename the activity")
        if activity.min_weeks > activity.max_weeks:
            found = f"{activity.min_weeks:g} to {activity.max_weeks:g}"
            yield Problem(
                (*path, "min_weeks"),
                "a range that ends before it starts",
                found,
                "min_weeks at most max_weeks",
                "swap the two",
            )
        yield from _likely_in_range(path, activity)
        named: list[tuple[Path, str]] = [(("after", n), before) for n, before in enumerate(activity.after)]
        named += [(("links", n, "activity"), link.activity) for n, link in enumerate(activity.links)]
        for below, before in named:
            if before not in known:
                near = nearest(before, known)
                yield Problem(
                    (*path, *below),
                    "an unknown activity",
                    before,
                    f"one of {', '.join(known)}",
                    f"write {near}" if near else "name an activity of the schedule or an item of leadtimes",
                    nearest=near,
                )
        if activity.group != groups.ROOM_GROUP and not activity.needs_room:
            yield Problem(
                (*path, "needs_room"),
                "only work of D04 can do without the room",
                activity.group,
                "group D04, or no needs_room",
                "delete needs_room, or move receiving and assembly to D04",
            )
    nodes = groups.waits(
        {
            n: groups.Work(a.group, (*a.after, *(link.activity for link in a.links)), a.needs_room)
            for n, a in schedule.activities.items()
        },
        {i: groups.Order(groups.DELIVERED_TO.get(i, "")) for i in leadtimes if i not in schedule.activities},
    )
    circle = groups.cycle(nodes)
    if circle:
        first = next(name for name in circle if name in schedule.activities)
        yield Problem(
            ("schedule", "activities", first, "after" if schedule.activities[first].after else "links"),
            "activities that wait for each other",
            " after ".join(circle),
            "an order in which each activity can start; groups come after those before them",
            "delete one of these dependencies, or move the activity to a later group",
        )
    if schedule.start_date and schedule.start_date >= schedule.need_date:
        yield Problem(
            ("schedule", "start_date"),
            "a start after go-live",
            shown(schedule.start_date),
            f"a date before schedule.need_date, {schedule.need_date}",
            "mend one of the two dates",
        )


@rule("purchase")
def purchase_names_items_of_the_bill(catalog: Catalog, purchase: schema.Purchase) -> Iterator[Problem]:
    named: list[tuple[Path, str]] = [(("purchase", "prices", n, "item"), p.item) for n, p in enumerate(purchase.prices)]
    named += [(("purchase", "owners", item), item) for item in purchase.owners if item != "*"]
    named += [(("purchase", "spares", "rates", item), item) for item in purchase.spares.rates]
    named += [
        (("purchase", "tranches", n, "items", k), item)
        for n, tranche in enumerate(purchase.tranches)
        for k, item in enumerate(tranche.items)
    ]
    for path, item in named:
        if item not in BOM_ITEMS:
            near = nearest(item, BOM_ITEMS)
            do = f"write {near}" if near else "name an item of the bill of materials"
            yield Problem(path, "an unknown item", item, f"one of {', '.join(BOM_ITEMS)}", do, nearest=near)


@rule("purchase")
def prices_can_be_added_up(catalog: Catalog, purchase: schema.Purchase) -> Iterator[Problem]:
    for n, price in enumerate(purchase.prices):
        if price.currency and price.currency != purchase.currency and price.currency not in purchase.exchange:
            yield Problem(
                ("purchase", "prices", n, "currency"),
                "a currency without a rate",
                price.currency,
                f"{purchase.currency}, or a currency of purchase.exchange",
                f"add '{price.currency}: {{rate: ..., as_of: ..., source: ...}}' in purchase.exchange",
            )


@rule("purchase")
def tranches_are_the_whole_order(catalog: Catalog, purchase: schema.Purchase) -> Iterator[Problem]:
    shares: dict[str, float] = {}
    for tranche in purchase.tranches:
        for item in tranche.items or ("all other items",):
            shares[item] = shares.get(item, 0.0) + tranche.share_pct
    for item, share in shares.items():
        if abs(share - 100) > 1e-6:
            yield Problem(
                ("purchase", "tranches"),
                "shares that do not add up",
                f"{item}: {share:g} %",
                "100 % for each item",
                "correct share_pct of the tranches that name it",
            )


@rule("purchase")
def tranches_are_promised_for_a_range(catalog: Catalog, purchase: schema.Purchase) -> Iterator[Problem]:
    for n, tranche in enumerate(purchase.tranches):
        if tranche.promised_latest and not (tranche.promised_date and tranche.promised_date <= tranche.promised_latest):
            yield Problem(
                ("purchase", "tranches", n, "promised_latest"),
                "a range that ends before it starts" if tranche.promised_date else "an end without a beginning",
                shown(tranche.promised_latest),
                f"a date from promised_date, {tranche.promised_date}, on"
                if tranche.promised_date
                else "promised_date beside it",
                "swap the two" if tranche.promised_date else "add promised_date, or write the date there",
            )


@functools.cache
def known_limits() -> dict[str, dict[str, Any]]:
    """The register of limits, inventory/limits.yaml: key -> unit, meaning, max."""
    register: dict[str, dict[str, Any]] = read_yaml(repo_root() / "inventory" / "limits.yaml")
    return register


@rule("limits")
def limits_are_known_and_in_their_unit(catalog: Catalog, limits: dict[str, schema.Limit]) -> Iterator[Problem]:
    register = known_limits()
    for key, limit in limits.items():
        if key not in register:
            near = nearest(key, register)
            yield Problem(
                ("limits", key),
                "an unknown limit",
                key,
                "a key of inventory/limits.yaml",
                f"rename it to {near}" if near else "delete it, or add it to inventory/limits.yaml",
                nearest=near,
            )
            continue
        known = register[key]
        if limit.unit != known["unit"]:
            yield Problem(
                ("limits", key, "unit"),
                "another unit than checks use",
                limit.unit,
                known["unit"],
                f"write {known['unit']} and convert the value",
            )
        low = known.get("min", 0)
        if limit.value < low or limit.value > known.get("max", float("inf")):
            top = f" to {known['max']}" if "max" in known else " or more"
            yield Problem(
                ("limits", key, "value"),
                "an impossible value",
                f"{limit.value:g}",
                f"{low}{top} {known['unit']}",
                f"check the value: {known['meaning']}",
            )


@rule("tiers")
def tiers_are_given_once(catalog: Catalog, tiers: tuple[str, ...]) -> Iterator[Problem]:
    for tier in sorted({t for t in tiers if tiers.count(t) > 1}):
        yield Problem(("tiers",), "a tier given twice", tier, "each tier once", f"delete one {tier}")


@rule("versions", "scheduler", "inband")
def software_in_use_is_pinned(
    catalog: Catalog, versions: dict[str, str], scheduler: schema.Scheduler, inband: schema.Inband
) -> Iterator[Problem]:
    if scheduler.kind == "kubernetes":
        return  # refused for itself
    for component, why in ((scheduler.kind, "scheduler.kind"), (inband.nos, "inband.nos")):
        if component not in versions:
            yield Problem(
                ("versions", component),
                MISSING,
                "",
                f"the pinned version of {component}, since {why} is {component}",
                f"add '{component}: \"...\"' in versions",
            )


@rule("os")
def repositories_are_told_apart_and_complete(catalog: Catalog, os: schema.Os) -> Iterator[Problem]:
    names = [repository.name for repository in os.repositories]
    official = {known["name"] for every in load_stack().repositories_of.values() for known in every}
    for number, repository in enumerate(os.repositories):
        where: Path = ("os", "repositories", number)
        if repository.name in names[:number]:
            yield Problem(
                (*where, "name"), "a repository given twice", repository.name, "each name once", "rename one of them"
            )
        if repository.name in official:
            yield Problem(
                (*where, "name"),
                "the name of NVIDIA's own repository",
                repository.name,
                "a name of your own",
                "rename it: os.nvidia_packages says whether nodes get NVIDIA's own",
            )
        flat = [suite for suite in repository.suites if suite.endswith("/")]
        if flat and (repository.components or len(flat) < len(repository.suites)):
            yield Problem(
                (*where, "components" if repository.components else "suites"),
                "suites with components and a flat repository in one",
                " ".join((*repository.suites, *repository.components)),
                "folders without components, or suites with components",
                f"delete the components of {flat[0]}, or give it an entry of its own",
            )
        if not flat and not repository.components:
            yield Problem(
                (*where, "components"),
                MISSING,
                "",
                f"the components of {', '.join(repository.suites)}, such as main",
                "add 'components: [main]', or write a flat repository's folder with a slash at its end: ./",
            )


@rule("tiers", "scheduler")
def accounts_make_a_tree_of_known_tiers(
    catalog: Catalog, tiers: tuple[str, ...], scheduler: schema.Scheduler
) -> Iterator[Problem]:
    names = [account.name for account in scheduler.accounts]
    parents = {account.name: account.parent for account in scheduler.accounts}
    for number, account in enumerate(scheduler.accounts):
        where: Path = ("scheduler", "accounts", number)
        if account.name in RESERVED_ACCOUNTS:
            why = RESERVED_ACCOUNTS[account.name]
            yield Problem(
                (*where, "name"), "a reserved account", account.name, "a name of your own", f"rename it: {why}"
            )
        if account.name in names[:number]:
            yield Problem((*where, "name"), "an account given twice", account.name, "each account once", "join the two")
        if account.parent is not None and account.parent not in names:
            near = nearest(account.parent, names)
            yield Problem(
                (*where, "parent"),
                "an unknown account",
                account.parent,
                "the name of another account, or no parent",
                f"write {near}" if near else f"add the account {account.parent}, or delete the key",
                nearest=near,
            )
        if _is_its_own_ancestor(account.name, parents):
            yield Problem(
                (*where, "parent"), "a circle", f"{account.name} below itself", "a tree", "give one of them no parent"
            )
        for place, tier in enumerate(account.tiers):
            if tier not in tiers:
                yield _foreign_tier((*where, "tiers", place), tier, tiers)
    for tier in scheduler.tier_limits:
        if tier not in tiers:
            yield _foreign_tier(("scheduler", "tier_limits", tier), tier, tiers)


RESERVED_ACCOUNTS = {
    "root": "Slurm's own account for administrators",
    "commissioning": "the checks of this suite run in it",
}


def _is_its_own_ancestor(name: str, parents: Mapping[str, str | None]) -> bool:
    seen, parent = {name}, parents[name]
    while parent is not None and parent not in seen:
        seen.add(parent)
        parent = parents.get(parent)
    return parent == name


def _foreign_tier(path: Path, tier: str, tiers: tuple[str, ...]) -> Problem:
    return Problem(
        path, "not a tier of this site", tier, f"one of {', '.join(tiers)}", f"add {tier} to tiers, or delete it here"
    )


@rule("scheduler", "credentials")
def slurm_has_a_database_account(
    catalog: Catalog, scheduler: schema.Scheduler, credentials: schema.Credentials
) -> Iterator[Problem]:
    if scheduler.kind == "slurm" and credentials.slurmdbd is None:
        yield Problem(
            ("credentials", "slurmdbd"),
            MISSING,
            "",
            "the password of Slurm's accounting daemon, since scheduler.kind is slurm",
            "add 'slurmdbd: {password: \"file:...\"}' in credentials",
        )


@rule("addressing")
def prefixes_do_not_overlap(catalog: Catalog, addressing: schema.Addressing) -> Iterator[Problem]:
    names = ("oob", "provisioning", "loopbacks", "links")
    for first, second in itertools.combinations(names, 2):
        a, b = getattr(addressing, first), getattr(addressing, second)
        if a.overlaps(b):
            yield Problem(
                ("addressing", second),
                f"overlaps addressing.{first}",
                f"{b} and {a}",
                "prefixes apart from each other",
                "choose another prefix for one of the two",
            )


@rule("credentials")
def ssh_keys_are_files(catalog: Catalog, credentials: schema.Credentials) -> Iterator[Problem]:
    for name in ("ssh", "switch"):
        key = getattr(credentials, name).key
        if not key.startswith("file:"):
            yield Problem(
                ("credentials", name, "key"),
                "not a file",
                f"a reference to {key.split(':')[0]}:",
                "file:PATH, since OpenSSH reads its key from a file",
                "write the key's path as file:PATH",
            )


@rule("versions")
def nvidia_versions_go_together(catalog: Catalog, versions: dict[str, str]) -> Iterator[Problem]:
    for one in load_stack().contradictions(versions):
        yield Problem(
            ("versions", one.pin),
            "does not go with the other NVIDIA versions",
            one.found,
            one.expected,
            f"change one of the pins; see inventory/gpu_stack.yaml ({one.source})",
        )
