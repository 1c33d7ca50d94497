"""Joining what the ranks of a collectives sweep measured (workloads/collectives.py). Pure.

    report = joined([rank, rank, ...], source)          # of all ranks of the job
    told = of_one_node([rank, rank], "gpu001", source)  # of one node's ranks alone: its best all-reduce, its transports

The time of a row is that of the slowest rank of its group. algbw = size / time, and busbw = algbw times the factor of nccl-tests'
PERFORMANCE.md: all_reduce 2(n-1)/n, broadcast and send_recv 1, the others (n-1)/n.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from network.drivers.answers import Source
from validation.runners.reports import CollectivesRank, report_of

Row = dict[str, Any]


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
