"""Joining what the ranks of a collectives sweep measured (workloads/collectives.py). Pure.

    report = joined([rank, rank, ...], source)          # of all ranks of the job
    told = of_one_node([rank, rank], "gpu001", source)  # of one node's ranks alone: its best all-reduce, its transports

The time of a row is that of the slowest rank of its group. algbw = size / time, and busbw = algbw times the factor of nccl-tests'
PERFORMANCE.md: all_reduce 2(n-1)/n, broadcast and send_recv 1, the others (n-1)/n.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from capacity.model import Plan
from network.drivers.answers import Source
from validation.check import site_limit
from validation.runners.engine import workload_of
from validation.runners.reports import CollectivesRank, report_of

Row = dict[str, Any]
WRITTEN = 3
"""schema_version of what a rank of workloads/collectives.py writes."""
ELEMENT_B = {"float32": 4, "bfloat16": 2}
"""Types that a sweep measures, and the bytes of an element."""
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
ROUNDS = {"gpu": (20, 5), "cpu": (3, 1)}
"""Rounds that are timed, and rounds before them. On CPUs a sweep proves that the measurement runs and no figure: fewer do."""
SMALLEST_B, APART = 8, 16
"""The smallest message, and by which factor the next one is larger."""


# ---- what a sweep has to measure -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Wanted:
    """What each rank of the planned sweep measures. nodes: the GPU nodes, each with so many ranks (`per_node`); spans: by node
    (span, group, its ranks) in the order in which they are measured."""

    per_node: int
    iterations: int
    sizes: tuple[int, ...]
    spans: Mapping[str, tuple[tuple[str, str, int], ...]]
    operations: tuple[str, ...] = OPERATIONS

    @property
    def world(self) -> int:
        """All ranks."""
        return self.per_node * len(self.spans)


def sizes_of(plan: Plan) -> tuple[int, ...]:
    """Message sizes in bytes, up to the largest that the site asks for (limits.collectives_max_size_b)."""
    largest_b = int(site_limit(plan.site, "collectives_max_size_b").value)
    sizes, size_b = [], SMALLEST_B
    while size_b < largest_b:
        sizes.append(size_b)
        size_b *= APART
    return (*sizes, largest_b)


def leaves_of(plan: Plan) -> list[list[str]]:
    """GPU servers by scalable unit, whose ports of a rail end on the same leaf."""
    servers = plan.devices[plan.devices["role"] == "gpu"]
    return [names.tolist() for _, names in servers.groupby("unit", sort=True)["name"]]


def wanted_of(plan: Plan) -> Wanted:
    """The sweep of a plan over all of its GPU nodes. Groups of one rank, and a span whose groups are those of a larger one, are
    not measured."""
    workload, leaves = workload_of(plan), leaves_of(plan)
    nodes = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    groups = {
        "whole": {"whole": nodes},
        "leaf": {f"leaf group {n}": names for n, names in enumerate(leaves, 1)},
        "node": {node: [node] for node in nodes},
    }
    spans: dict[str, list[tuple[str, str, int]]] = {node: [] for node in nodes}
    seen: list[set[frozenset[str]]] = []
    for span, each in groups.items():
        if (parts := {frozenset(members) for members in each.values()}) in seen:
            continue
        seen.append(parts)
        for group, members in each.items():
            if (size := len(members) * workload.ranks_per_node) > 1:
                for node in members:
                    spans[node].append((span, group, size))
    iterations = ROUNDS[workload.computes_on][0]
    return Wanted(
        workload.ranks_per_node, iterations, sizes_of(plan), {one: tuple(each) for one, each in spans.items()}
    )


def rows_wanted(sizes: Sequence[int], ranks: int, operations: Sequence[str] = OPERATIONS) -> list[Row]:
    """What a group of so many ranks measures, in order: the size in bytes is a whole number of elements for each rank."""
    found = []
    for kind, operation, size_b in product(ELEMENT_B, operations, sizes):
        elements = max(size_b // ELEMENT_B[kind] // ranks, 1) * ranks
        found.append({"type": kind, "operation": operation, "size_b": elements * ELEMENT_B[kind]})
    return found


def unlike(wanted: Wanted, ranks: Sequence[Mapping[str, Any]], nodes: Iterable[str]) -> list[str]:
    """In what the ranks of these nodes measured another sweep than the planned one, or less."""
    hosts, rows_of_size = Counter(rank["host"] for rank in ranks), dict[int, list[Row]]()
    found = [
        f"{node}: {hosts[node]} ranks, planned {wanted.per_node}" for node in nodes if hosts[node] != wanted.per_node
    ]
    for rank in ranks:
        name = f"rank {rank['rank']} on {rank['host']}"
        about = (rank["schema_version"], rank["world_size"], rank["iterations"])
        if about != (WRITTEN, wanted.world, wanted.iterations):
            words = f"schema version {about[0]}, {about[1]} ranks, {about[2]} rounds"
            found.append(f"{name} tells of {words}, planned {WRITTEN}, {wanted.world}, {wanted.iterations}")
        told = [(one["span"], one["group"], one["size"]) for one in rank["spans"]]
        planned = list(wanted.spans.get(rank["host"], ()))
        if told != planned:
            found.append(f"{name} measured {told or 'nothing'}, planned {planned or 'nothing'}")
            continue
        for one in rank["spans"]:
            if one["size"] not in rows_of_size:
                rows_of_size[one["size"]] = rows_wanted(wanted.sizes, one["size"], wanted.operations)
            rows = rows_of_size[one["size"]]
            if len(one["time_us"]) != len(rows) or one.get("rows", rows) != rows:
                found.append(f"{name} measured other sizes, types or operations in {one['group']} than planned")
    return found


# ---- joining ---------------------------------------------------------------------------------------------------------


def factor(operation: str, world: int) -> float:
    """busbw / algbw, after nccl-tests' PERFORMANCE.md."""
    if operation in ("broadcast", "send_recv"):
        return 1.0
    return 2 * (world - 1) / world if operation == "all_reduce" else (world - 1) / world


def ranks_of(files: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """What the ranks of each node wrote, by number; UnreadableAnswer for a file that is none, or of another node."""
    found = []
    for node, texts in files.items():
        source = Source(node, "read what its ranks measured of the collectives")
        for text in texts:
            rank = report_of(CollectivesRank, text.encode(), source)
            if rank["host"] != node:
                raise source.unreadable(f"ranks that ran on {node}", f"one that ran on {rank['host']}")
            found.append(rank)
    return sorted(found, key=lambda rank: int(rank["rank"]))


def joined(ranks: Sequence[Mapping[str, Any]], source: Source) -> dict[str, Any]:
    """The report of a sweep: {backend, device, torch, world_size, iterations, ranks, rows, nodes}.

    rows has for each span, type, operation and size (bytes) the slowest group: time_us, algbw_mb_s, busbw_mb_s (10^6 B/s),
    its slowest rank, and the median busbw of all groups; wrong_ranks are those of all groups. nodes has for each host its best
    all-reduce among its own ranks, and over what they are connected. UnreadableAnswer where ranks are missing or do not agree.
    """
    if not ranks or [rank["rank"] for rank in ranks] != list(range(ranks[0]["world_size"])):
        wanted = f"ranks 0 to {ranks[0]['world_size'] - 1}" if ranks else "what ranks measured"
        raise source.unreadable(wanted, ", ".join(str(rank["rank"]) for rank in ranks) or "nothing")
    rows = rows_of(ranks, source)
    first = ranks[0]
    each = [{key: rank[key] for key in ("rank", "host", "device", "uuid", "transports")} for rank in ranks]
    about = {key: first[key] for key in ("backend", "device", "torch", "world_size", "iterations")}
    return {**about, "ranks": each, "rows": worst(rows), "nodes": of_nodes(rows, each)}


def of_one_node(ranks: Sequence[Mapping[str, Any]], node: str, source: Source) -> dict[str, Any]:
    """What a node's ranks say of it by itself: {"busbw_mb_s", "transports"}; groups with ranks of other nodes are left out."""
    mine = Counter((one["span"], one["group"], one["size"]) for rank in ranks for one in rank["spans"])
    whole = {(span, group) for (span, group, size), count in mine.items() if count == size}
    whole = {one for one in whole if one[0] == "node"} or whole
    own = [{**rank, "spans": [one for one in rank["spans"] if (one["span"], one["group"]) in whole]} for rank in ranks]
    return of_nodes(rows_of(own, source), own)[node]


def rows_of(ranks: Iterable[Mapping[str, Any]], source: Source) -> list[Row]:
    """One row for each group and measurement; `number` says which measurement it is."""
    groups: dict[tuple[str, str], list[tuple[int, Mapping[str, Any]]]] = {}
    for rank in ranks:
        for part in rank["spans"]:
            groups.setdefault((part["span"], part["group"]), []).append((rank["rank"], part))
    rows = []
    for (span, group), members in groups.items():
        numbers, parts = [number for number, _ in members], [part for _, part in members]
        told = [part["rows"] for part in parts if "rows" in part]
        if len(told) != 1 or any((part["size"], len(part["time_us"])) != (len(parts), len(told[0])) for part in parts):
            raise source.unreadable(f"{parts[0]['size']} ranks of {group} ({span}) that agree", f"{len(parts)} ranks")
        times = np.array([part["time_us"] for part in parts], dtype=float).reshape(len(parts), -1)
        if not (times > 0).all():
            raise source.unreadable("times above 0", f"a time of 0 in {group} ({span})")
        slowest, wrong = times.argmax(axis=0), [set(part["wrong"]) for part in parts]
        for number, row in enumerate(told[0]):
            time_us = float(times[slowest[number], number])
            algbw = row["size_b"] / time_us
            rows.append(
                {
                    "span": span,
                    "group": group,
                    "ranks": len(parts),
                    **row,
                    "number": number,
                    "time_us": time_us,
                    "algbw_mb_s": round(algbw, 3),
                    "busbw_mb_s": round(algbw * factor(row["operation"], len(parts)), 3),
                    "slowest_rank": numbers[slowest[number]],
                    "wrong_ranks": [rank for rank, bad in zip(numbers, wrong, strict=True) if number in bad],
                }
            )
    return rows


def worst(rows: Sequence[Row]) -> list[Row]:
    """For each type, operation and size the row of the slowest group, with what the others had."""
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:  # groups of different sizes round a message size differently
        place = (row["span"], row["type"], row["operation"], row["number"])
        alike.setdefault(place, []).append(row)
    found = []
    for same in alike.values():
        slowest = min(same, key=lambda row: float(row["busbw_mb_s"]))
        wrong = sorted({rank for row in same for rank in row["wrong_ranks"]})
        found.append(
            {
                **{key: value for key, value in slowest.items() if key != "number"},
                "groups": len(same),
                "median_busbw_mb_s": round(statistics.median(row["busbw_mb_s"] for row in same), 3),
                "wrong_ranks": wrong,
                "correct": not wrong,
            }
        )
    return found


def of_nodes(rows: Sequence[Row], ranks: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each host the best all-reduce of its own ranks, and what its ranks say of their transports."""
    hosts = dict.fromkeys(one["host"] for one in ranks)
    found: dict[str, dict[str, Any]] = {host: {"busbw_mb_s": None, "transports": {}} for host in hosts}
    for row in rows:
        host = row["group"] if row["span"] == "node" else next(iter(hosts)) if len(hosts) == 1 else None
        if host is not None and row["operation"] == "all_reduce":
            found[host]["busbw_mb_s"] = max(row["busbw_mb_s"], found[host]["busbw_mb_s"] or 0.0)
    for one in ranks:
        counted = Counter(found[one["host"]]["transports"])
        counted.update(one.get("transports", {}))
        found[one["host"]]["transports"] = dict(counted)
    return found
