"""Shared storage: sized for checkpoints, mounted everywhere, proven by canaries and writes, on links of its own."""

from typing import Any

from capacity.model import Plan
from capacity.outputs.documents.procurement import needs_of
from capacity.storage.load import BUILT_KINDS, checkpoint_load, shared, storage_links
from validation.check import Limit, Outcome, check, judged
from validation.facts import Facts
from validation.facts.gather import identities
from validation.facts.node_results import left_unsigned, side_by_side
from validation.facts.storage import clients
from validation.facts.storage_acts import PHASES, Canary, Writes
from validation.storage import differs, inband_ports, link_faults

LEAST_CHECKPOINTS = 2
"""One that is complete while the next one is written: who overwrites the only one loses all with a crash (ERR-14)."""
DEDICATED_GBPS = 100
"""S125: storage links of 100 to 400 Gb/s."""


@check("S124.computed", inputs=("site.storage",))
def test_checkpoints_fit_and_have_a_rate(subject: str, plan: Plan) -> Outcome:
    load = checkpoint_load(plan.site)
    value = {
        "checkpoint_b": load.checkpoint_b,
        "stall_s": load.stall_s,
        "write_gb_s": load.write_gb_s,
        "held": load.held,
    }
    limit = Limit(LEAST_CHECKPOINTS, "checkpoints", "ERR-14: one complete while the next is written")
    good = (
        f"{load.checkpoint_b / 1e9:g} GB in {load.stall_s:g} s ask for {load.write_gb_s:.4g} GB/s; "
        f"{int(load.held)} checkpoints fit"
    )
    short = f"{load.held:.2g} checkpoints of {load.checkpoint_b / 1e9:g} GB fit into {plan.site.storage.usable_pb:g} PB"
    return Outcome(
        load.held >= LEAST_CHECKPOINTS, value, good if load.held >= LEAST_CHECKPOINTS else short, limit=limit
    )


@check(
    "S125.computed", inputs=("site.storage", "site.inband", "frame.devices", "frame.cables", "frame.bom", "site.gpu")
)
def test_storage_links_carry_a_checkpoint(subject: str, plan: Plan) -> Outcome:
    needs = needs_of(plan)
    links = storage_links(plan.site, plan.catalog, plan.devices, needs.busiest_gb_s)
    ends = plan.cables[(plan.cables["fabric"] == "inband") & plan.cables["a_device"].isin(links.servers)]
    cabled, servers = len(ends), len(links.servers)
    rate = float(ends["rate_gbps"].min()) if cabled else 0.0
    value = {"servers": servers, "links": cabled, "rate_gbps": rate, "gb_s": links.gb_s, "needed": links.needed}
    limit = Limit(
        links.needed, "links", "RC-125: ceil(rate / (raw rate x 0.9)), the larger of checkpoint writes and reads"
    )
    problems = [
        *([f"{cabled} links are cabled, the site asks for {links.links}"] if cabled != links.links else []),
        *([f"{cabled} links, {links.needed} needed"] if cabled < links.needed else []),
        *([f"links of {rate:g} Gb/s, S125 asks for {DEDICATED_GBPS} or more"] if rate < DEDICATED_GBPS else []),
    ]
    good = (
        f"{cabled} links of {rate:g} Gb/s to {servers} servers carry {links.gb_s:g} GB/s; the busier of checkpoint "
        f"writes and reads needs {needs.busiest_gb_s:.4g} GB/s, {links.needed} links"
    )
    if problems:
        return Outcome(False, value, "; ".join(problems), limit=limit)
    return judged([f for f in plan.findings if f.id == "STORAGE-NETWORK"], value, good, limit=limit)


@check(
    "S125.applied",
    inputs=("site.storage", "site.inband", "site.addressing", "frame.cables", "frame.addresses", "assets"),
)
def test_storage_uses_its_links_only(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    server = node.data["storage"].get("server", {})
    ports, mtu = inband_ports(plan, subject), plan.site.inband.mtu
    problems = link_faults(plan, subject, node.data)
    value = {"ports": ports, "mtu": mtu, "listening": server.get("listening"), "clients": server.get("clients")}
    good = (
        f"{len(ports)} links up with MTU {mtu}, equal-cost routes over all of them; {len(server.get('clients', []))} clients, "
        "all from in-band addresses"
    )
    return Outcome(
        not problems,
        value,
        "; ".join(problems) or good,
        limit=Limit(mtu, "B", "site inband.mtu"),
        identities=node.identities,
        raw=node.raw,
    )


@check("S130.applied", inputs=("site.storage", "frame.devices", "assets"))
def test_the_node_mounts_shared_storage(subject: str, plan: Plan, facts: Facts, canaries: dict[str, Canary]) -> Outcome:
    """Survival of a reboot is judged by what makes it survive: unit and timer enabled, order, and slurmd bound to the
    mount; a node that has booted since the unit was installed must have come up with it."""
    node, canary = facts.nodes[subject], canaries[subject]
    if node.error:
        return Outcome(False, None, node.error)
    seen = node.data["storage"]
    if "error" in seen:
        return Outcome(False, None, seen["error"], identities=node.identities, raw=node.raw)
    wanted = shared(plan.site, plan.devices)
    unread = [f"canary of {other}: {what}" for other, what in canary.read.items() if what]
    usable_b = plan.site.storage.usable_pb * 1e15
    problems = [
        *([f.message for f in differs(wanted, subject, seen["mount"])] if seen["mount"] else ["not mounted"]),
        *_mount_problems(seen, wanted.source),
        *(
            [f"{seen['usage']['total_b']} B, the site wants {usable_b:.0f} B"]
            if seen["usage"].get("total_b", usable_b) < usable_b
            else []
        ),
        *([f"canary: {canary.error}"] if canary.error else []),
        *unread,
        *(["no other node's canary was read"] if not canary.error and not canary.read else []),
        *(["the canaries were not removed"] if not canary.error and not canary.cleaned else []),
    ]
    booted_since = seen["booted_at"] > seen["installed_at"]
    value = {
        "source": seen["mount"].get("source"),
        "options": seen["mount"].get("options"),
        "canaries": len(canary.read),
        "booted_since_installation": booted_since,
    }
    boot = (
        f"mounted {seen['mounted_at'] - seen['booted_at']:.0f} s after the last boot"
        if booted_since
        else ("enabled and ordered; not booted since its installation")
    )
    good = f"{wanted.source} mounted by its unit, {boot}; {len(canary.read)} canaries of other nodes read back equal"
    return Outcome(
        not problems,
        value,
        "; ".join(problems or [good, *left_unsigned(canary.unsigned, [subject])]),
        identities=(*node.identities, *canary.signed.values()),
        raw=side_by_side({subject: canary.raw}, answer=node.raw.decode()) if canary.raw else node.raw,
        configuration=canary.configuration,
    )


def _mount_problems(seen: dict[str, Any], source: str) -> list[str]:
    """What is wrong with the mount's answer, its unit, timer and the services that need them."""
    unit, retry = seen["unit"], seen["retry"]
    late = [name for name, service in seen["needed_by"].items() if not (service["requires"] and service["after"])]
    return [
        *([f"gives no answer: {seen['usage']['error']}"] if "error" in seen["usage"] else []),
        *([f"its unit is {unit['active']}/{unit['sub']}"] if unit["active"] != "active" else []),
        *(
            [f"its unit is {unit['enabled'] or unit['loaded']}, expected enabled"]
            if unit["enabled"] != "enabled"
            else []
        ),
        *([f"its unit mounts {unit['what']}, expected {source}"] if unit["what"] != source else []),
        *(["its unit is not ordered after the network"] if "network-online.target" not in unit["after"] else []),
        *(
            ["the timer that mounts again is not enabled and active"]
            if (retry["active"], retry["enabled"]) != ("active", "enabled")
            else []
        ),
        *([f"{', '.join(late)} may run without it"] if late else []),
    ]


@check(
    "S124.measured", inputs=("site.storage", "site.limits", "frame.devices", "assets", "site.versions", "frame.cables")
)
def test_checkpoint_writes_reach_the_computed_rate(
    subject: str, plan: Plan, facts: Facts, checkpoint_writes: Writes
) -> Outcome:
    """A volume with several copies must also reach the rate while one of them is rebuilt; one copy has no rebuild."""
    load, found = checkpoint_load(plan.site), identities([facts.nodes.get(name) for name in clients(plan)])
    source = "plan checkpoint_write_gb_s: checkpoint bytes / permitted stall (site storage.checkpoint)"
    limit = Limit(load.write_gb_s, "GB/s", source)
    if checkpoint_writes.error or checkpoint_writes.own is None or checkpoint_writes.shared is None:
        return Outcome(False, None, checkpoint_writes.error, limit=limit, identities=found)
    rates = dict(zip(PHASES, (checkpoint_writes.own, checkpoint_writes.shared), strict=True))
    copies = _copies(plan, facts)
    problems = [f"{what}: {rate.gb_s:.4g} GB/s" for what, rate in rates.items() if rate.gb_s < load.write_gb_s]
    if copies != 1:
        problems.append(f"the volume has {copies or 'unknown'} copies: measure during a rebuild as well")
    value = {what: rate.plain() for what, rate in rates.items()} | {"copies": copies}
    left_open = left_unsigned(checkpoint_writes.unsigned, checkpoint_writes.unsigned)
    good = ", ".join(f"{what} {rate.gb_s:.4g} GB/s" for what, rate in rates.items())
    return Outcome(
        not problems,
        value,
        "; ".join(problems or [f"{good}, {limit} needed; one copy, so no rebuild", *left_open]),
        unit="GB/s",
        limit=limit,
        identities=(*found, *checkpoint_writes.signed.values()),
        raw=checkpoint_writes.raw,
        configuration=checkpoint_writes.configuration,
    )


def _copies(plan: Plan, facts: Facts) -> int | None:
    """Copies of each file, as the servers say; None where nobody who knows was asked."""
    wanted = shared(plan.site, plan.devices)
    if wanted.kind not in BUILT_KINDS:
        return None
    for server in wanted.servers:
        node = facts.nodes.get(server)
        if node and not node.error and (volume := node.data["storage"].get("server", {}).get("volume")):
            return int(volume["replicas"])
    return None
