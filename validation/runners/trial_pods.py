"""Pods that run a program of ours on nodes of a cluster, say what it found in their termination message, and are deleted.

    found = run_pods(engine, [labelled(pod, run), ...], run, "have said which GPUs they have")
    said, why = message_of(found.get(name))

Nothing that a pod or the API server says of it is believed to have a shape.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from capacity.services.platform.topology import PREFIX
from network.drivers import answers
from network.drivers.errors import DeviceError
from validation.progress import note
from validation.runners.kubernetes import PODS, Kubernetes

TRIED = f"{PREFIX}/tried"
"""Label of the pods of one run."""
BUDGET_S = 300.0
"""From the first pod made to the last one ended: 3,000 pods of 1,000 nodes at 50 a second, and the time that they hold. A choice of
ours."""
POLL_S = 2.0
FIELDS = (
    "metadata.name",
    "status.phase",
    "status.reason",
    "status.message",
    "status.conditions",
    "status.containerStatuses",
)
ENDED = ("Succeeded", "Failed")
MESSAGE_BYTES = 8192


def run_pods(
    engine: Kubernetes, pods: Sequence[Mapping[str, Any]], run: str, progress: str
) -> dict[str, Mapping[str, Any]]:
    """The pods by name once all have ended, or as they are when the budget is spent; they are deleted then.

    run: value of their label TRIED. progress: what those that ended have done. DeviceError where the API server refuses one.
    """
    chosen = f"{PODS}?labelSelector={TRIED}%3D{run}"
    try:
        engine.ask(*({"verb": "POST", "path": PODS, "body": one, "only": ("metadata.name",)} for one in pods))
        return _ended(engine, chosen, len(pods), progress)
    finally:
        engine.ask({"verb": "DELETE", "path": chosen, "only": ("kind",)})


def _ended(engine: Kubernetes, path: str, wanted: int, progress: str) -> dict[str, Mapping[str, Any]]:
    end = time.monotonic() + BUDGET_S
    while True:
        (body,) = engine.ask({"verb": "GET", "path": path, "fields": FIELDS})
        with engine.reading("read pods"):
            found = {str(one["metadata.name"]): one for one in body["items"]}
            over = sum(one["status.phase"] in ENDED for one in found.values())
        if over >= wanted or time.monotonic() > end:
            return found
        note(f"{over} of {wanted} pods {progress}")
        engine.nap(POLL_S)


def message_of(found: Mapping[str, Any] | None) -> tuple[dict[str, Any], str]:
    """(what a pod said, with `began` and `ended` as its kubelet says them; why it said nothing). One of the two is empty."""
    if found is None:
        return {}, "the API server has no such pod any more"
    try:
        state = ((found["status.containerStatuses"] or [{}])[0].get("state") or {}).get("terminated") or {}
        if found["status.phase"] == "Succeeded":
            said = json.loads(str(state["message"])[:MESSAGE_BYTES])
            return {**said, "began": state["startedAt"], "ended": state["finishedAt"]}, ""
        scheduled = [one.get("message") for one in found["status.conditions"] or () if one.get("status") == "False"]
        reasons = [found["status.message"], state.get("message"), state.get("reason"), *scheduled]
        why = next((str(one) for one in reasons if one), f"it is {found['status.phase']}")
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError, DeviceError) as error:
        why = unreadable(error)
    return {}, answers.line(why)


def unreadable(error: Exception) -> str:
    """Why an answer says nothing that cannot be read."""
    return f"an answer that cannot be read: {type(error).__name__}"
