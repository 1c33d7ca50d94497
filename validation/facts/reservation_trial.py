"""Whether a reservation is empty before its time, its owner's alone in it, and over afterwards: two Jobs without work, one node.

    said = ask(plan, over_ssh(plan))       # plain data; DeviceError when the controller or the API server does not answer

A Job of another account has a node. The reservation is a queue as the plan makes them (platform/queues.py) for the account of the
checks, which begins LEAD_S later; the program of the role kubernetes_reservations opens it. Its owner's Job asks for that node, and
with the lower of the two priorities: Kueue must let it wait until then, and evict the other for it then. Its end is moved to the
time at which it runs: it must be evicted again, and the other come back. Both priorities are below every tier, and the reservation
has GPUs of one node, more than the site's quota: Kueue takes them from the least priority. All is deleted at the end.
"""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from capacity.model import Plan
from capacity.services.platform.queues import (
    API,
    CLOSED,
    CLOSES,
    OPENS,
    amounts_of,
    moment,
    own_amounts,
    reservation,
)
from capacity.services.platform.sharing import profiles
from capacity.services.slurm import CHECK_ACCOUNT
from capacity.services.slurm import design as nodes_of
from inventory.site.sections.reservations import Reservation
from network.drivers.answers import line
from validation.facts.gangs import POLL_S, START_S, Site
from validation.facts.kube import DONE, MESSAGE, CallApi
from validation.facts.kueue import CLUSTER_QUEUES, QUEUE
from validation.facts.quotas import BELOW_ALL
from validation.facts.reclaim import LEAST_BUT_ONE, pair

NAME = "bringup-window"
HAS, OWNS = "bringup-has-node", "bringup-owns-window"
LEAD_S = 20.0
"""From the reservation's creation to its begin: its owner's Job is made and seen to wait. A choice of ours."""
HOURS = 1.0
"""How long it would be if its end were not moved."""
MERGE = "application/merge-patch+json"
CREATED = "metadata.creationTimestamp"
LABELS, STOP = "metadata.labels", "spec.stopPolicy"
QUEUE_FIELDS = ("metadata.name", LABELS, STOP)
NOTHING: dict[str, Any] = {
    "account": "",
    "node": "",
    "before": {"most": 0, "policy": "", "why": ""},
    "start_s": None,
    "started_on": "",
    "evicted": "",
    "queues": [],
    "at": "",
    "end_s": None,
    "back": False,
    "why": "",
}


class Clock:
    """The API server's time: that of a creation, and what has passed since."""

    def __init__(self, created: str, monotonic: Callable[[], float]) -> None:
        self._created, self._monotonic = datetime.datetime.fromisoformat(created.replace("Z", "+00:00")), monotonic
        self._began = monotonic()

    def now(self) -> datetime.datetime:
        return self._created + datetime.timedelta(seconds=self._monotonic() - self._began)

    def since(self, given: datetime.datetime) -> float:
        """Seconds, below 0 before it."""
        return round((self.now() - given).total_seconds(), 1)


class Window:
    """A reservation of the checks' account with the GPUs of one node."""

    def __init__(self, plan: Plan, site: Site, monotonic: Callable[[], float]) -> None:
        self.site, self._monotonic = site, monotonic
        path = f"/apis/{API}/namespaces/{CHECK_ACCOUNT}/localqueues"
        self.path, self.quota = f"{path}/{NAME}", f"{CLUSTER_QUEUES}/reservation-{NAME}"
        wanted, shared = nodes_of(plan, plan.catalog), profiles(plan)
        zero = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
        one = Reservation(name=NAME, account=CHECK_ACCOUNT, gpus=site.largest, start=zero, hours=HOURS)
        amounts = own_amounts(wanted.nodes, {one.queue: one.gpus}, shared)[one.queue]
        covered = list(amounts_of(wanted.nodes, shared))
        self._quota, self._queue = (made.manifest for made in reservation(one, amounts, covered, wanted.gpu_type))

    @contextlib.contextmanager
    def standing(self) -> Iterator[None]:
        """It begins LEAD_S after its creation, while the body runs. What an earlier run left goes first."""
        site = self.site
        self._delete()
        try:
            # closed from the start: the first Job must not come before the program that closes it
            body = {**self._quota, "spec": {**self._quota["spec"], "stopPolicy": CLOSED}}
            site.ask({"verb": "POST", "path": CLUSTER_QUEUES, "body": body, "only": (MESSAGE,)})
            (made,) = site.ask({"verb": "GET", "path": self.quota, "only": (CREATED,)})
            with site.reading("read when the reservation was made"):
                self.clock = Clock(line(made[CREATED] + ""), self._monotonic)
            self.opens = (self.clock.now() + datetime.timedelta(seconds=LEAD_S)).replace(microsecond=0)
            self._label({OPENS: moment(self.opens), CLOSES: moment(self.opens + datetime.timedelta(hours=HOURS))})
            path = self.path.rpartition("/")[0]
            site.ask({"verb": "POST", "path": path, "body": self._queue, "only": (MESSAGE,)})
            yield
        finally:
            self._delete()

    def end(self) -> datetime.datetime:
        """Move its end to now, and give that."""
        now = self.clock.now().replace(microsecond=0)
        self._label({CLOSES: moment(now)})
        return now

    def _label(self, labels: Mapping[str, str]) -> None:
        body = {"metadata": {"labels": labels}}
        self.site.ask({"verb": "PATCH", "path": self.quota, "type": MERGE, "body": body, "only": (MESSAGE,)})

    def policy(self) -> str:
        """Its stopPolicy."""
        (found,) = self.site.ask({"verb": "GET", "path": self.quota, "only": (STOP,)})
        return line(str(found[STOP] or ""))

    def _delete(self) -> None:
        for path in (self.path, self.quota):
            self.site.ask({"verb": "DELETE", "path": path, "only": (MESSAGE,)}, accept=(*DONE, 404))
        self.site.until_gone(self.quota)


def ask(
    plan: Plan,
    call: CallApi,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """What became of both. `account`, `node`: whose the first Job is and where it ran, '' for nowhere; `before`: most pods of the
    owner's Job before the begin, the queue's stopPolicy, and Kueue's words; `start_s`, `end_s`: from begin and end until it ran
    and had no pod, None where not; `evicted`: why Kueue took the node from the first; `queues`: all reservations at the time `at`,
    during this one; `back`: whether the first ran again.
    """
    site = Site(plan, call, sleep)
    accounts = pair(plan)
    account = accounts[0] if accounts else CHECK_ACCOUNT
    said = {**NOTHING, "account": account}
    with site.priority(BELOW_ALL) as low, site.priority(LEAST_BUT_ONE) as high:
        other, owner = site.of(account, high), site.of(CHECK_ACCOUNT, {**low, QUEUE: NAME})
        window = Window(plan, site, monotonic)
        with other.job(HAS, 1, gpus=site.largest):
            other.until(HAS, 1)
            _, nodes, why = other.seen(HAS)
            if not nodes:
                return said | {"why": why}
            said |= {"node": nodes[0]}
            with window.standing(), owner.job(OWNS, 1, gpus=site.largest, node=nodes[0]):
                said |= {"before": _before(owner, window, sleep)}
                said |= _inside(owner, other, window, sleep)
                if said["start_s"] is not None:
                    said |= {"end_s": _after(owner, window, sleep)}
                    other.until(HAS, 1)
                    said |= {"back": other.seen(HAS)[0][0] == 1}
    return said


def _before(owner: Site, window: Window, sleep: Callable[[float], None]) -> dict[str, Any]:
    most, why, policy = 0, "", window.policy()
    while window.clock.since(window.opens) < -POLL_S:
        counts, _, words = owner.seen(OWNS)
        most, why = max(most, counts[1]), words or why
        sleep(POLL_S)
    return {"most": most, "policy": policy, "why": why}


def _inside(owner: Site, other: Site, window: Window, sleep: Callable[[float], None]) -> dict[str, Any]:
    for _ in range(int((LEAD_S + START_S) / POLL_S)):
        (running, _), nodes, why = owner.seen(OWNS)
        start_s = window.clock.since(window.opens)
        if running:
            break
        sleep(POLL_S)
    else:
        return {"why": why}
    (listed,) = owner.ask({"verb": "GET", "path": f"{CLUSTER_QUEUES}?labelSelector={OPENS}", "fields": QUEUE_FIELDS})
    with owner.reading("read the queues of reservations"):
        queues = [
            {
                "queue": str(one["metadata.name"]),
                "opens": str(one[LABELS].get(OPENS, "")),
                "closes": str(one[LABELS].get(CLOSES, "")),
                "policy": str(one[STOP] or ""),
            }
            for one in listed["items"]
        ]
    return {
        "start_s": start_s,
        "started_on": nodes[0],
        "evicted": other.evicted(HAS),
        "queues": queues,
        "at": moment(window.clock.now()),
    }


def _after(owner: Site, window: Window, sleep: Callable[[float], None]) -> float | None:
    """Seconds from the end until the owner's Job has no pod; None where it kept one."""
    ended = window.end()
    for _ in range(int((LEAD_S + START_S) / POLL_S)):
        if owner.seen(OWNS)[0][1] == 0:
            return window.clock.since(ended)
        sleep(POLL_S)
    return None
