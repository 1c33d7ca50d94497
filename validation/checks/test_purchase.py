"""Computed and generated items of what is bought: lanes, memory, drives, storage. Each recounts what the plan claims."""

import math

from capacity import documents, server_design
from capacity.plan import Plan
from capacity.purchase_documents import needs_of
from capacity.storage import LINK_EFFICIENCY
from inventory.catalog import load_catalog
from validation.check import Limit, Outcome, check, judged
from validation.checks.test_design import generated, read_document

SHARE = 1e-9


@check("S010.computed", inputs=("site.server", "site.gpu"))
def test_board_has_the_lanes(subject: str, plan: Plan) -> Outcome:
    model = load_catalog().device(plan.site.server.model)
    board, parts = model.bringup.board, model.bringup
    if board is None:
        return Outcome(
            False, None, f"the catalogue has no lane map of {model.slug}: add its block diagram as bringup.board"
        )
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
    model = load_catalog().device(plan.site.server.model)
    memory, parts = model.bringup.memory, model.bringup
    if memory is None:
        return Outcome(
            False, None, f"the catalogue has no memory map of {model.slug}: add its modules as bringup.memory"
        )
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


@check("S018.computed", inputs=("site.server", "site.storage", "frame.bom"))
def test_drives_last(subject: str, plan: Plan) -> Outcome:
    model = load_catalog().device(plan.site.server.model)
    drives = model.bringup.drives
    if not drives:
        return Outcome(False, None, f"the catalogue has no drives of {model.slug}: add them as bringup.drives")
    needs = needs_of(plan)
    interval = plan.site.storage.checkpoint.interval_min or needs.interval_min
    written = server_design.checkpoint_tb_per_day(needs.checkpoint_tb, plan.site.server.count, interval)
    faults = [fault for d in drives for fault in server_design.drive_faults(d)]
    data = [d for d in drives if d.use == "data"]
    bears = sum(server_design.endurance_tb_per_day(d) for d in data)
    if data and bears and written > bears:
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


@check("S121.computed", inputs=("site.storage", "site.server", "frame.storage"))
def test_storage_needs(subject: str, plan: Plan) -> Outcome:
    storage, checkpoint = plan.site.storage, plan.site.storage.checkpoint
    gpus = plan.site.server.count * load_catalog().device(plan.site.server.model).bringup.gpus
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
    value = {**{k: round(v, 6) for k, v in again.items()}, "usable_pb": storage.usable_pb,
             "interval_min": round(needs.interval_min, 2), "mtti_h": round(needs.mtti_h, 3)}  # fmt: skip
    if wrong or absent:
        open_ = [f.message for f in absent] + [
            f"{name}: plan says {claimed[name]}, recount {again[name]}" for name in wrong
        ]
        return Outcome(False, value, "; ".join(open_))
    found = [f for f in plan.findings if f.id == "STORAGE-RETENTION"]
    good = f"{storage.usable_pb:g} PB, {again['write_gb_s']:.3g} GB/s write, {again['read_gb_s']:.4g} GB/s read"
    return judged(found, value, good, limit=Limit(storage.usable_pb, "PB", "site storage.usable_pb"))


@check("S121.generated", inputs=("site.storage", "frame.storage"))
def test_storage_design_is_written(subject: str, plan: Plan) -> Outcome:
    text = documents.documents(plan)["storage-design.md"]
    own = plan.storage[plan.storage["chosen"] == 1]
    wanted = [plan.hash, "Checkpoint write rate", "Rebuild of a drive", *own["block"]]
    problems = [f"the design does not say {word}" for word in wanted if word not in text]
    problems += ["no building block is chosen"] if own.empty else []
    return generated(
        text, problems, {"lines": len(text.splitlines())}, f"storage design, {len(text.splitlines())} lines"
    )


@check("S122.generated", inputs=("site.storage", "frame.storage"))
def test_technologies_are_compared(subject: str, plan: Plan) -> Outcome:
    text = documents.documents(plan)["storage-comparison.csv"]
    back = read_document(text)
    kinds = load_catalog().storage.values()
    wanted = {block.slug for block in kinds if not block.in_servers or block.slug in set(plan.storage["block"])}
    problems = [f"{slug} is not compared" for slug in sorted(wanted - set(back["block"]))]
    if (back["meets"] == "").any():
        problems.append("an option without a judgement against the needs")
    if int((back["chosen"] == "1").sum()) != 1:
        problems.append("the site's own choice is not one of the options")
    return generated(text, problems, {"options": len(back)}, f"{len(back)} technologies against the same needs")


@check("S123.computed", inputs=("site.storage", "frame.storage", "frame.bom"))
def test_enclosures_suffice(subject: str, plan: Plan) -> Outcome:
    own = plan.storage[plan.storage["chosen"] == 1]
    if own.empty:
        return Outcome(False, None, f"the catalogue has no building block for storage.kind {plan.site.storage.kind}")
    row, needs = own.iloc[0], needs_of(plan)
    block = load_catalog().storage[str(row["block"])]
    box, drive, count = block.enclosure, block.drive, int(row["enclosures"])
    stripe = box.data / (box.data + box.parity)
    usable = count * (box.drives - box.spare_drives) * drive.tb / 1000 * stripe * block.formatted
    write = count * min((box.drives - box.spare_drives) * drive.write_mb_s / 1000 * stripe, box.write_gb_s,
                        box.ports * box.port_gbps * LINK_EFFICIENCY / 8)  # fmt: skip
    value = {
        "enclosures": count,
        "drives": int(row["drives"]),
        "raw_pb": round(float(row["raw_pb"]), 6),
        "usable_pb": round(usable, 6),
        "write_gb_s": round(write, 4),
        "rebuild_h": round(float(row["rebuild_h"]), 3),
        "links": int(row["links"]),
        "mass_kg": round(float(row["mass_kg"]), 1),
        "kw": round(float(row["kw"]), 3),
    }
    faults = []
    if usable < needs.usable_pb * (1 - SHARE) or write < needs.write_gb_s * (1 - SHARE):
        faults.append(
            f"{usable:.4g} PB and {write:.4g} GB/s, needed {needs.usable_pb:g} PB and {needs.write_gb_s:.4g} GB/s"
        )
    if row["drives"] != count * box.drives:
        faults.append(f"{count} enclosures hold {count * box.drives} drives, the plan has {row['drives']}")
    ordered = int(plan.bom.loc[plan.bom["item"] == "storage drive", "quantity"].sum())
    if ordered != (0 if block.in_servers else count * box.drives):
        faults.append(f"the bill of materials has {ordered} drives")
    found = [f for f in plan.findings if f.id == "STORAGE-REBUILD"]
    limit = Limit(needs.usable_pb, "PB", "site storage.usable_pb")
    if faults:
        return Outcome(False, value, "; ".join(faults), unit="PB", limit=limit)
    return judged(found, value, f"{count} enclosures of {block.slug}: {usable:.4g} PB usable", unit="PB", limit=limit)
