"""How long imaging takes: racks in their order, within the waves of energisation, over the boot server's link.

    imaging(plan, 128_000_000)      one row a rack with GPU servers, columns COLUMNS
    figures(plan, 128_000_000)      the whole site in a few numbers

A rack starts when its wave is energised and the link has sent the images of the racks before it; its servers share the link.
Nothing else is on the link. A wave of energisation begins when the one before it is ready.
"""

import math
from typing import Any

import pandas as pd

from capacity.model import Plan
from capacity.services.boot.life import BUDGET_S

POWER_ON_S = 900.0
"""Two starts of a server with eight GPUs: for the network, and from its drives. Not confirmed: planning figure of 7 to 8 minutes of
self-test each; replace by BootProgress times of the first server.
"""
WRITE_BYTES_S = 500e6
"""Writing and reading back on NVMe, bytes of the uncompressed image per second. Not confirmed: planning figure, a quarter of what
one NVMe drive reads; replace by the times between the reports writing, verifying and written.
"""
COLUMNS = ("rack", "wave", "energised_kw", "servers", "start_s", "sent_s", "ready_s")
TARGET_S = 3600.0
"""What `caches` of `figures` is for: the whole site sent within an hour."""


def imaging(plan: Plan, sent_bytes: int, written_bytes: int) -> pd.DataFrame:
    """Times of each rack, seconds from power-on of the first: `start_s`, `sent_s` (its last image is sent), `ready_s`.

    `sent_bytes`: what one server fetches (compressed image, kernel, initramfs); `written_bytes`: size of the root file system.
    """
    seconds = sent_bytes * 8 / (plan.site.provisioning.link_gbps * 1e9)
    own = POWER_ON_S + 2 * written_bytes / WRITE_BYTES_S
    servers = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    rack = plan.placements.set_index("device")["rack"].reindex(servers)
    counts = rack.value_counts().reindex(rack.drop_duplicates()).to_dict()
    rows: list[tuple[Any, ...]] = []
    free = ready = begin = 0.0
    last = 0
    for name, count in counts.items():
        wave, energised = _wave(plan, str(name))
        if wave != last:
            begin, last = ready, wave
        start = max(begin, free)
        free = start + count * seconds
        done = free + own
        ready = max(ready, done)
        rows.append((name, wave, energised, count, start, free, done))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def figures(plan: Plan, sent_bytes: int, written_bytes: int) -> dict[str, float]:
    """Servers, bytes over the link, hours until the last server is ready; how many copies of the image near the racks (caches with
    a link like the boot server's) send everything within TARGET_S; bytes if each rack got one multicast stream.
    """
    table = imaging(plan, sent_bytes, written_bytes)
    servers = int(table["servers"].sum())
    whole_s = servers * sent_bytes * 8 / (plan.site.provisioning.link_gbps * 1e9)
    return {
        "servers": servers,
        "racks": len(table),
        "sent_tb": servers * sent_bytes / 1e12,
        "sending_h": whole_s / 3600,
        "ready_h": float(table["ready_s"].max()) / 3600 if len(table) else 0.0,
        "caches": max(math.ceil(whole_s / TARGET_S) - 1, 0),
        "multicast_tb": len(table) * sent_bytes / 1e12,
    }


def racks_at_once(plan: Plan, sent_bytes: int) -> int:
    """How many racks may be written at the same time: as many as the link sends within half the time budget of a writing, at
    least one. The other half is left for self-test, writing and reading back.
    """
    rate = plan.site.provisioning.link_gbps * 1e9 / 8
    servers = plan.placements.loc[plan.placements["device"].isin(_servers(plan)), "rack"].value_counts()
    largest = int(servers.max()) if len(servers) else 1
    return max(1, int(BUDGET_S["image"] / 2 * rate / sent_bytes) // largest)


def order(plan: Plan) -> dict[str, tuple[int, int]]:
    """By rack: its wave of energisation and its place in the order of the racks."""
    return {str(name): (_wave(plan, str(name))[0], number) for number, name in enumerate(plan.racks["name"])}


def _servers(plan: Plan) -> pd.Series:
    return plan.devices.loc[plan.devices["kind"] == "server", "name"]


def _wave(plan: Plan, rack: str) -> tuple[int, float]:
    """The wave of energisation that a rack belongs to and its released load, kW; (1, 0) without waves."""
    order = {name: number for number, name in enumerate(plan.racks["name"])}
    for wave, first, final, kilowatts in zip(
        plan.waves["wave"], plan.waves["first_rack"], plan.waves["last_rack"], plan.waves["energised_kw"], strict=True
    ):
        if order.get(first, 0) <= order.get(rack, 0) <= order.get(final, 0):
            return int(wave), float(kilowatts)
    return 1, 0.0
