"""What a permutation over parallel paths showed of adaptive routing on a RoCE fabric (facts/spreading.py): S057. Pure.

    found = judge(plan, said)        # faster and more even than a hash of the same flows, and nothing sent again

Adaptive routing cannot be switched off for some packets, so the measured run is held against what a hash gives (`hashed`): each
queue pair of a sender goes to an uplink at random and stays there, an uplink carries at most its rate (balls into bins; fluid,
without the loss by a pause that stops others too, so that the hash looks better than it is). The limit is what a hash reaches in
one of twenty draws.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from capacity.model import Plan
from network.infiniband.wire import FABRIC
from validation.facts.incast_node import PAIRS
from validation.facts.permutation import Permutation, planned
from validation.incast import RATE
from validation.permutation import ONE_LEAF, Found, spread_of

DRAWS, SEED = 2000, 57
"""Draws of the hash, always the same ones."""
ONE_IN_TWENTY = 95
"""Percentile of the draws."""


def judge(plan: Plan, said: Mapping[str, Any]) -> Found:
    """{gb_s, spread, resent, hashed_gb_s, hashed_spread}, and what is wrong.

    gb_s: the sum over all senders, 10^9 bytes a second. spread: of the leaf that is least even, what its uplinks sent from the
    least to the most, over their mean. hashed_gb_s and hashed_spread: what one of twenty hashes reaches or betters.
    """
    wanted = planned(plan)
    if said["errors"] or wanted is None:
        return Found({}, [f"{name}: {why}" for name, why in said["errors"].items()] or [ONE_LEAF])
    if json.loads(json.dumps(said["permutation"])) != json.loads(json.dumps(asdict(wanted))):
        return Found({}, ["its senders or uplinks are not those of the plan"])
    if problems := list(_unread(wanted, said)):
        return Found({}, problems)
    rates = [float(found[1]) for text in said["flows"].values() if (found := RATE.search(text))]
    gb_s, apart = hashed(plan, wanted)
    value = {
        "gb_s": round(sum(rates) / 8, 3),
        "spread": round(max(spread_of([said["sent"][end] for end in ends]) for ends in wanted.uplinks.values()), 4),
        "resent": sum(said["resent"][end] for end in wanted.ends),
        "hashed_gb_s": round(gb_s, 3),
        "hashed_spread": round(apart, 4),
    }
    return Found(value, list(_faults(value)))


def hashed(plan: Plan, wanted: Permutation) -> tuple[float, float]:
    """(10^9 bytes a second, spread of the least even leaf) that one of twenty hashes of these flows reaches or betters."""
    cables = plan.cables[plan.cables["fabric"] == FABRIC]
    gbps = {
        f"{device}:{port}": rate
        for side in ("a", "b")
        for device, port, rate in cables[[f"{side}_device", f"{side}_port", "rate_gbps"]].itertuples(
            index=False, name=None
        )
    }
    draw = np.random.default_rng(SEED)
    total, apart = np.zeros(DRAWS), np.zeros(DRAWS)
    half = len(wanted.flows) // 2
    for ends, flows in zip(wanted.uplinks.values(), (wanted.flows[:half], wanted.flows[half:]), strict=True):
        each = np.repeat([gbps[sender] / PAIRS for sender, _ in flows], PAIRS)
        chosen = draw.integers(0, len(ends), (DRAWS, len(each)))
        offered = np.zeros((DRAWS, len(ends)))
        np.add.at(offered, (np.arange(DRAWS)[:, None], chosen), each)
        carried = np.minimum(offered, [gbps[end] for end in ends])
        total += carried.sum(axis=1)
        apart = np.maximum(apart, (carried.max(axis=1) - carried.min(axis=1)) / carried.mean(axis=1))
    return float(np.percentile(total, ONE_IN_TWENTY)) / 8, float(np.percentile(apart, 100 - ONE_IN_TWENTY))


def _unread(wanted: Permutation, said: Mapping[str, Any]) -> list[str]:
    """Why the run cannot be judged."""
    found = [
        f"{end} sent nothing: {said['flows'].get(end, '').strip()[-200:] or 'ib_write_bw printed nothing'}"
        for end in wanted.ends
        if not RATE.search(said["flows"].get(end, ""))
    ]
    found += [f"{end}: what was sent again is not known" for end in wanted.ends if said["resent"].get(end, -1) < 0]
    for leaf, ends in wanted.uplinks.items():
        if any(said["sent"].get(end, -1) < 0 for end in ends):
            found.append(f"{leaf}: counters of its uplinks began anew or were not read")
        elif not sum(said["sent"][end] for end in ends):
            found.append(f"{leaf}: its uplinks carried nothing of the class")
    return found


def _faults(value: Mapping[str, Any]) -> list[str]:
    found = []
    if value["gb_s"] <= value["hashed_gb_s"]:
        found.append(
            f"{value['gb_s']:.1f} GB/s, and one of twenty hashes of these flows gives {value['hashed_gb_s']:.1f} GB/s: adaptive "
            "routing shows no gain"
        )
    if value["spread"] >= value["hashed_spread"]:
        found.append(
            f"uplinks of a leaf are {value['spread']:.0%} apart, by one of twenty hashes {value['hashed_spread']:.0%}"
        )
    if value["resent"]:
        found.append(f"adapters reported {value['resent']} sequence errors: packets out of order were sent again")
    return found
