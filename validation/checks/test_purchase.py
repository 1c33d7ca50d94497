"""Computed and generated items of what is bought: lanes, memory, drives, storage. Each recounts what the plan claims."""

import math

from capacity.model import Plan
from capacity.outputs.documents import procurement
from capacity.outputs.documents.procurement import needs_of
from capacity.outputs.tables import csv_text
from capacity.space import server_design
from capacity.storage.load import LINK_EFFICIENCY
from inventory.catalog import DeviceType
from validation.check import Limit, Outcome, check, judged
from validation.checks.test_design import generated, read_document

SHARE = 1e-9


def not_in_the_catalogue(model: DeviceType, what: str, add: str) -> Outcome:
    """The outcome of an item about a part that the catalogue does not describe."""
    return Outcome(False, None, f"the catalogue has no {what} of {model.slug}: add {add}")


@check("S010.computed", inputs=("site.server", "site.gpu"))
def test_board_has_the_lanes(subject: str, plan: Plan) -> Outcome:
    model = plan.catalog.device(plan.site.server.model)
    board, parts = model.bringup.board, model.bringup
    if board is None:
        return not_in_the_catalogue(model, "lane map", "its block diagram as bringup.board")
    budget = server_design.lane_budget(board, parts.cpus)
    drives = sum(d.count for d in parts.drives)
    value = {
        "lanes_of_devices": budget.needed,
        "lanes_of_processors": budget.processors,
        "lanes_on_processors": budget.used,
        "pcie_switches": budget.switches,
        "oversubscription_of_each_switch": list(budget.oversubscription),
        "gpus_on": "NVLink-C2C" if "gpu" in board.coherent else "PCIe",
    }
    faults = server_design.board_faults(model)
    gpus = 0 if "gpu" in board.coherent else parts.gpus
    at_x16 = server_design.lanes_needed(gpus, len(parts.fabric_ports), drives)
    if at_x16 > budget.processors and not budget.switches:
        faults.append(
            f"GPUs, NICs and drives take {at_x16} lanes, the processors have {budget.processors}: PCIe switches are missing"
        )
    limit = Limit(
        budget.processors,
        "lanes",
        f"catalogue {model.slug} bringup.board: {parts.cpus} processors of {board.cpu_lanes}",
    )
    good = (
        f"{budget.needed} lanes of devices, {budget.used} of {budget.processors} used, {budget.switches} PCIe switches"
    )
    return Outcome(not faults, value, "; ".join(faults) or good, unit="lanes", limit=limit)


@check("S012.computed", inputs=("site.server", "frame.bom"))
def test_memory_is_balanced(subject: str, plan: Plan) -> Outcome:
    model = plan.catalog.device(plan.site.server.model)
    memory, parts = model.bringup.memory, model.bringup
    if memory is None:
        return not_in_the_catalogue(model, "memory map", "its modules as bringup.memory")
    channels = parts.cpus * memory.channels
    ordered = int(plan.bom.loc[plan.bom["item"] == "dimm", "quantity"].sum())
    value = {
        "installed_gib": memory.dimms * memory.dimm_gib,
        "modules": memory.dimms,
        "channels": channels,
        "ordered": ordered,
        "gb_s_per_gpu": round(channels * memory.gb_s / parts.gpus, 1) if memory.gb_s and parts.gpus else None,
        "cores_per_gpu": round(parts.cores / parts.gpus, 2) if parts.gpus else None,
    }
    faults = server_design.memory_faults(memory, parts.cpus, parts.memory_gib)
    wanted = 0 if memory.soldered else plan.site.server.count * memory.dimms
    if ordered != wanted:
        faults.append(f"{wanted} modules needed, the bill of materials has {ordered}")
    limit = Limit(channels, "channels", f"catalogue {model.slug} bringup.memory")
    good = f"{memory.dimms} modules of {memory.dimm_gib:g} GiB fill {channels} channels alike"
    return Outcome(not faults, value, "; ".join(faults) or good, unit="GiB", limit=limit)


@check("S018.computed", inputs=("site.server", "site.storage", "frame.bom", "site.gpu"))
def test_drive_endurance_covers_service_life(subject: str, plan: Plan) -> Outcome:
    model = plan.catalog.device(plan.site.server.model)
    drives = model.bringup.drives
    if not drives:
        return not_in_the_catalogue(model, "drives", "them as bringup.drives")
    needs = needs_of(plan)
    interval = plan.site.storage.checkpoint.interval_min or needs.interval_min
    written = server_design.checkpoint_tb_per_day(needs.checkpoint_tb, plan.site.server.count, interval)
    faults = [fault for d in drives for fault in server_design.drive_faults(d)]
    data = [d for d in drives if d.use == "data"]
    bears = sum(server_design.endurance_tb_per_day(d) for d in data)
    unknown = [d for d in data if not d.dwpd]
    if unknown:
        faults.append(
            f"dwpd of the data drives of {model.slug} is not known ({unknown[0].count} x {unknown[0].tb:g} TB): add it to "
            f"bringup.drives; each server writes {written:.3g} TB of checkpoints a day"
        )
    elif data and written > bears:
        faults.append(f"each server writes {written:.3g} TB of checkpoints a day, its data drives bear {bears:.3g}")
    ordered = int(plan.bom.loc[plan.bom["item"] == "drive", "quantity"].sum())
    wanted = plan.site.server.count * sum(d.count for d in drives)
    if ordered != wanted:
        faults.append(f"{wanted} drives needed, the bill of materials has {ordered}")
    value = {
        "drives": {
            f"{d.use}, {d.count} x {d.tb:g} TB, RAID {d.raid}": round(server_design.usable_tb(d), 3) for d in drives
        },
        "written_tb_per_day": round(written, 4),
        "endurance_tb_per_day": round(bears, 3),
        "checkpoint_interval_min": round(interval, 2),
    }
    limit = Limit(round(bears, 3), "TB/day", f"catalogue {model.slug} bringup.drives: drive writes per day")
    good = f"{written:.3g} TB of checkpoints a day on data drives that bear {bears:.3g}"
    return Outcome(not faults, value, "; ".join(faults) or good, unit="TB/day", limit=limit)


@check("S121.computed", inputs=("site.storage", "site.server", "frame.storage", "frame.bom", "site.gpu"))
def test_storage_requirements_are_derived(subject: str, plan: Plan) -> Outcome:
    storage, checkpoint = plan.site.storage, plan.site.storage.checkpoint
    gpus = plan.site.server.count * plan.catalog.device(plan.site.server.model).bringup.gpus
    needs = needs_of(plan)
    size_tb = checkpoint.params_b * checkpoint.bytes_per_param / 1000
    again = {
        "checkpoint_tb": size_tb,
        "write_gb_s": size_tb * 1000 / checkpoint.stall_s,
        "read_gb_s": (storage.read_gb_s_per_gpu or 0) * gpus,
        "metadata_ops_s": (storage.metadata_ops_s_per_gpu or 0) * gpus,
        "retained_pb": (checkpoint.retained or 0) * size_tb / 1000,
    }
    claimed = {name: getattr(needs, name) or 0.0 for name in again}
    wrong = [name for name in again if not math.isclose(again[name], claimed[name], rel_tol=SHARE)]
    absent = [f for f in plan.findings if f.id == "STORAGE-NEEDS"]
    value = {
        **{k: round(v, 6) for k, v in again.items()},
        "usable_pb": storage.usable_pb,
        "interval_min": round(needs.interval_min, 2),
        "mtti_h": round(needs.mtti_h, 3),
    }
    if wrong or absent:
        open_ = [f.message for f in absent] + [
            f"{name}: plan says {claimed[name]}, recount {again[name]}" for name in wrong
        ]
        return Outcome(False, value, "; ".join(open_))
    found = [f for f in plan.findings if f.id == "STORAGE-RETENTION"]
    good = f"{storage.usable_pb:g} PB, {again['write_gb_s']:.3g} GB/s write, {again['read_gb_s']:.4g} GB/s read"
    return judged(found, value, good, limit=Limit(storage.usable_pb, "PB", "site storage.usable_pb"))


@check("S121.generated", inputs=("site.storage", "frame.storage", "frame.bom", "site.gpu"))
def test_storage_design_is_written(subject: str, plan: Plan) -> Outcome:
    text = procurement.storage_document(plan)
    own = plan.storage[plan.storage["chosen"] == 1]
    wanted = [plan.hash, "Checkpoint write rate", "Rebuild of a drive", *own["block"]]
    problems = [f"the design does not say {word}" for word in wanted if word not in text]
    problems += ["no building block is chosen"] if own.empty else []
    return generated(
        text, problems, {"lines": len(text.splitlines())}, f"storage design, {len(text.splitlines())} lines"
    )


@check("S122.generated", inputs=("site.storage", "frame.storage", "frame.bom", "site.gpu"))
def test_technologies_are_compared(subject: str, plan: Plan) -> Outcome:
    text = csv_text(procurement.comparison(plan))
    back = read_document(text)
    kinds = plan.catalog.storage.values()
    wanted = {block.slug for block in kinds if not block.in_servers or block.slug in set(plan.storage["block"])}
    problems = [f"{slug} is not compared" for slug in sorted(wanted - set(back["block"]))]
    needs = needs_of(plan)
    rows = {str(row["block"]): row for row in plan.storage.to_dict("records")}
    storage_limit = plan.site.storage.rebuild_limit_h
    for block, said in zip(back["block"], back["falls_short_in"], strict=True):
        short = procurement.unmet(rows[block], needs) if block in rows else []
        late = storage_limit is not None and block in rows and float(rows[block]["rebuild_h"]) > storage_limit
        if late and "rebuild" not in said:
            problems.append(
                f"{block}: a drive is rebuilt in {rows[block]['rebuild_h']:.3g} h, {storage_limit:g} h at most"
            )
        if said != ("; ".join(short) or "nothing"):
            problems.append(
                f"{block}: the comparison says it falls short in {said or 'no word'}, the plan in {short or 'nothing'}"
            )
    missed = back[(back["chosen"] == "1") & (back["falls_short_in"] != "nothing")]
    problems += [
        f"the site's choice {block} falls short in {said}: name another in storage.block, or change the need"
        for block, said in zip(missed["block"], missed["falls_short_in"], strict=True)
    ]
    if int((back["chosen"] == "1").sum()) != 1:
        problems.append("the site's own choice is not one of the options")
    return generated(text, problems, {"options": len(back)}, f"{len(back)} technologies against the same needs")


@check(
    "S123.computed", inputs=("site.storage", "site.inband", "frame.storage", "frame.bom", "frame.devices", "site.gpu")
)
def test_enclosures_suffice(subject: str, plan: Plan) -> Outcome:
    own = plan.storage[plan.storage["chosen"] == 1]
    if own.empty:
        return Outcome(False, None, f"the catalogue has no building block for storage.kind {plan.site.storage.kind}")
    row, needs = own.iloc[0], needs_of(plan)
    block = plan.catalog.storage[str(row["block"])]
    box, drive, meta, count = block.enclosure, block.drive, block.metadata, int(row["enclosures"])
    stripe, working = box.data / (box.data + box.parity), box.drives - box.spare_drives
    body = plan.catalog.device(box.device).bringup
    port_gbps = min(body.rate_gbps or plan.site.inband.rate_gbps, plan.site.inband.rate_gbps)
    net = len(body.inband_ports) * port_gbps * LINK_EFFICIENCY / 8
    usable = count * working * drive.tb / 1000 * stripe * block.formatted
    write = count * min(working * drive.write_mb_s / 1000 * stripe, box.write_gb_s, net)
    read = count * min(working * drive.read_mb_s / 1000, box.read_gb_s, net)
    metadata = (int(row["metadata_servers"]) if meta.least else count) * meta.ops_s
    value = {
        "enclosures": count,
        "drives": int(row["drives"]),
        "raw_pb": round(float(row["raw_pb"]), 6),
        "usable_pb": round(usable, 6),
        "write_gb_s": round(write, 4),
        "read_gb_s": round(read, 4),
        "metadata_ops_s": round(metadata),
        "rebuild_h": round(float(row["rebuild_h"]), 3),
        "links": int(row["links"]),
        "mass_kg": round(float(row["mass_kg"]), 1),
        "kw": round(float(row["kw"]), 3),
    }
    faults = [
        f"{count} enclosures of {block.slug} give {have:.4g} {unit} {what}, {need:.4g} needed: plan again, or name another block "
        "in storage.block"
        for what, have, need, unit in (
            ("usable", usable, needs.usable_pb, "PB"),
            ("write", write, needs.write_gb_s, "GB/s"),
            ("read", read, needs.read_gb_s, "GB/s"),
            ("of metadata", metadata, needs.metadata_ops_s, "operations/s"),
        )
        if need is not None and have < need * (1 - SHARE)
    ]
    chunks = box.data + box.parity
    if box.spread and count < chunks:
        lost = -(-chunks // count)
        faults.append(
            f"{count} enclosures for stripes of {chunks} chunks: the loss of one costs {lost} of them, parity makes up "
            f"for {box.parity}: {chunks} enclosures"
        )
    if row["drives"] != count * box.drives:
        faults.append(f"{count} enclosures hold {count * box.drives} drives, the plan has {row['drives']}")
    ordered = int(plan.bom.loc[plan.bom["item"] == "storage drive", "quantity"].sum())
    if ordered != (0 if block.in_servers else count * box.drives):
        faults.append(f"the bill of materials has {ordered} drives")
    wanted = 0 if block.in_servers or not plan.site.storage.block else count
    standing = int((plan.devices["model"] == box.device).sum()) if not block.in_servers else 0
    if standing != wanted:
        faults.append(f"{standing} devices of {box.device} stand in the plan, {wanted} wanted")
    found = [f for f in plan.findings if f.id == "STORAGE-REBUILD"]
    limit = Limit(needs.usable_pb, "PB", "site storage.usable_pb")
    if faults:
        return Outcome(False, value, "; ".join(faults), unit="PB", limit=limit)
    return judged(found, value, f"{count} enclosures of {block.slug}: {usable:.4g} PB usable", unit="PB", limit=limit)
