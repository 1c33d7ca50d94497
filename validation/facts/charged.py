"""Whether GPU time is charged to who uses it: a Job without work that names somebody else, and what Prometheus records of it.

    said = ask(plan, over_ssh(plan), first(plan))      # plain data; DeviceError where API server or Prometheus does not answer

The Job is one as in gangs.py, of GPUS GPUs in the account `commissioning`. USER makes it, whom the administrator impersonates with
all rights: what is tried is whose name the API server writes, and not what USER may do. Its annotation names OTHER, and so does a
change of the running pod. Then Prometheus has to count its GPUs for USER, and no longer once it is gone. It takes some minutes,
since controllers list pods each minute. The Job is deleted at the end.
"""

import time
from collections.abc import Callable
from typing import Any

from capacity.model import Plan
from capacity.services import telemetry
from capacity.services.platform.submitter import USER as KEY
from capacity.services.slurm import CHECK_ACCOUNT
from validation.facts.gangs import Site
from validation.facts.kube import CallApi
from validation.facts.usage import USED, AskPrometheus, over

NAME = "bringup-usage"
USER, OTHER = "bringup-usage-user", "bringup-usage-other"
GPUS = 2
"""More than one: pods are not what is counted."""
CALLER = {"user": USER, "group": "system:masters"}
SEEN_S = 180.0
"""Until Prometheus has a change: 60 s between two lists of pods (role kubernetes_metrics, kubernetes_metrics_interval_s), a scrape
and an evaluation of telemetry_interval_s. The rest is for a busy machine, a choice of ours."""
HOLD_S = 30.0
"""How long the Job runs on once it is seen. A choice of ours."""
POLL_S = 5.0


def ask(
    plan: Plan,
    call: CallApi,
    prometheus: AskPrometheus,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """node: where the Job ran, '' for nowhere; why: Kueue's words for that. made_by, after: the annotation of its pod, before and
    after the try to change it. seen_s, gone_s: until Prometheus counted it, and no more (None: not in time). counted: its GPUs as
    Prometheus counted them. shown_s: for how long. gpu_s: what it recorded. others: GPUs that it counted for OTHER.
    """
    site, series = Site(plan, call, sleep), f'{USED}{{account="{CHECK_ACCOUNT}",user="{USER}"}}'
    gpus, interval_s = min(GPUS, site.largest), telemetry.interval_s(plan.site)
    said: dict[str, Any] = {"gpus": gpus, **NOTHING}
    began = clock()

    def counted(of: str) -> float:
        rows = prometheus({"queries": {"now": f"sum({of})"}})["queries"]["now"]
        return sum(row["value"] for row in rows) / interval_s

    def until(wanted: bool) -> tuple[float | None, float]:
        """(seconds until GPUs are counted or no more are, None for not in time; how many)."""
        start = clock()
        while True:
            found = counted(series)
            if bool(found) == wanted:
                return round(clock() - start, 1), found
            if clock() - start > SEEN_S:
                return None, found
            sleep(POLL_S)

    with site.job(NAME, 1, gpus=gpus, caller=CALLER, annotations={KEY: OTHER}):
        site.until(NAME, 1)
        _, nodes, why = site.seen(NAME)
        if not nodes:
            return said | {"why": why}
        ((pod, annotations),) = site.annotated(NAME).items()
        said |= {"node": nodes[0], "made_by": annotations.get(KEY, "")}
        site.annotate(pod, {KEY: OTHER}, CALLER)
        said |= {"after": site.annotated(NAME).get(pod, {}).get(KEY, "")}
        said["seen_s"], said["counted"] = until(True)
        shown = clock()
        if said["seen_s"] is not None:
            sleep(HOLD_S)
            said["others"] = counted(series.replace(USER, OTHER))
    said["gone_s"], _ = until(False)
    said["shown_s"] = round(clock() - shown, 1) if said["seen_s"] is not None else 0.0
    rows = prometheus({"queries": {"sum": f"sum({over(series, clock() - began)})"}})["queries"]["sum"]
    return said | {"gpu_s": round(sum(row["value"] for row in rows), 1)}


NOTHING: dict[str, Any] = {
    "node": "",
    "why": "",
    "made_by": "",
    "after": "",
    "seen_s": None,
    "counted": 0.0,
    "others": 0.0,
    "shown_s": 0.0,
    "gone_s": None,
    "gpu_s": 0.0,
}
