#!/usr/bin/python3
"""Tells accounts by webhook how their jobs ended or were queued again, and the operators which nodes are back in service.

    kubernetes_notices.py --config FILE --state FILE --metrics FILE     one round; a timer starts the next one

--config FILE, JSON: {"accounts": {NAME: URL}, "default": URL, "operators": URL, "names": [NAME, …],
                     "drill": {"account": NAME, "url": URL}}
    names: the accounts of the site, each the namespace of that name. One without a URL of its own has the default; default and
    operators may be missing. drill: where events of the account of acceptance and of nodes go as well; what nobody takes there is
    dropped.

It asks the API server of this machine for Kueue's workloads and for nodes, and compares them with --state. Events:
    end, fail        a workload has finished
    requeue          Kueue evicted a workload and queues it again, with its reason; Kueue's counts of evictions tell
    stop             Kueue evicted a workload and does not queue it again
    node-return      a node was tainted, cordoned or not Ready, and is none of it any more
Each event is in the state before it is sent, and out of it when its hook has answered with a status of 2xx, or that it will never
take that message (REFUSES). It is sent again only where the program ends between these two, or a hook takes it and does not answer;
then with the same `id`. At the first start, and where the state cannot be read, what is there already is no event. A message is
JSON: `text`, which chat programs show, and fields of the event. Where more than AT_ONCE events wait for one URL, those of an
account are one message. Standard library only.
"""

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import queue
import re
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

# Where nothing else is said, these are choices of ours.
CALL_S = 10
"""For each call to the API server: connecting, and each read."""
ASK_S = 60
"""For each list: 20 pages of 10,000 workloads take some seconds."""
PAGE, PAGE_MAX, BODY_MAX = 500, 200, 64 << 20
"""Objects of an answer, answers of a list, and bytes of an answer: 500 nodes of 25 kB, with all their images, are 13 MB."""
SEND_S, SEND_ALL_S = 5, 30
"""For connecting to a hook and each read from it, and for all hooks of a round. A hook that takes a message later gets it twice."""
SENDERS = 32
"""URLs that are sent to at the same time."""
AT_ONCE = 10
"""Events for one URL that are sent one by one; of more, those of each account are one message. Slack takes one a second
(https://docs.slack.dev/apis/web-api/rate-limits)."""
NAMED, NAMED_MESSAGE_MAX = 10, 100
"""Events that such a message names, and how much of their texts: 5,000 characters are too many for some chat programs."""
RETRY_S, RETRY_MAX_S = 15, 300
"""From a failed message to the next try: as long as the hook has failed already, between these two."""
KEPT_S, DRILL_KEPT_S = 86_400, 600
"""How long an event is tried."""
WAITING_MAX = 10_000
"""Events that wait for one hook; the oldest go beyond it."""
MESSAGE_MAX = 300
SAVE_S = 1.0
"""Between two writings of the state while messages are sent."""
REFUSES = (400, 413, 415, 422)
"""Statuses of a hook that will never take this message, but others."""
BUSY = 429
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/workloads"
NODES = "/api/v1/nodes"
OUT_OF_SERVICE = "bringup.local/out-of-service"
REASON = "bringup.local/out-of-service-reason"
OPERATORS, DRILL = "operators", "drill"
"""Hooks that are no account's."""
TRIAL = "bringup-"
"""How names of acceptance's jobs begin, in whatever account: they are nobody's news."""
ACCOUNT = "account:"
"""How the hook of an account is called, before its name."""
HOST = "127.0.0.1"
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,252}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
GOOD = ("Succeeded", "JobFinished")
"""Reasons of Kueue's condition Finished of a job that succeeded (kueue 0.15, workload_types.go; JobFinished before 0.9)."""
REPLACED = "WorkloadSliceReplaced"
"""Of a workload in whose place another one goes on."""
STOPPED = "Deactivated"
UNSAFE = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", "@": " at ", "`": "'", "*": " ", "&": "+"})
"""What chat programs take for mentions, links and code."""
Event = dict[str, Any]


class AskError(Exception):
    """The message says who was asked and what came. It has no URL of a hook."""


class ConfigError(Exception):
    """The message says which hook is wrong, and not its URL."""


# ---- what is asked ---------------------------------------------------------------------------------------------------
class MissingError(AskError):
    """The API server knows no such kind."""


def listed(port: int, path: str, pki: Path) -> Iterator[Any]:
    """All objects of a list, one page in memory; AskError for anything else, perhaps after some objects."""
    end = time.monotonic() + ASK_S
    go_on = ""
    for _ in range(PAGE_MAX):
        more = f"&continue={quote(go_on, safe='')}" if go_on else ""
        body = ask(port, f"{path}?limit={PAGE}{more}", pki)
        try:
            page = json.loads(body)
            items, go_on = list(page["items"]), str((page.get("metadata") or {}).get("continue") or "")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise AskError(f"{path}: no list ({type(error).__name__})") from None
        yield from items
        if not go_on:
            return
        if time.monotonic() > end:
            raise AskError(f"{path}: not read within {ASK_S} s")
    raise AskError(f"{path}: more than {PAGE_MAX} pages")


def ask(port: int, path: str, pki: Path) -> bytes:
    """The body of an answer 200 of this machine's API server."""
    shown = path.partition("?")[0]
    try:
        tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        tls.load_cert_chain(pki / "notices.pem")
        connection = http.client.HTTPSConnection(HOST, port, timeout=CALL_S, context=tls)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read(BODY_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise AskError(f"{shown}: {error}") from None
    if answer.status != http.client.OK:
        kind = MissingError if answer.status == http.client.NOT_FOUND else AskError
        raise kind(f"{shown}: status {answer.status}: {plain(body[:200].decode(errors='replace'))}")
    if len(body) > BODY_MAX:
        raise AskError(f"{shown}: more than {BODY_MAX} bytes")
    return body


def word(given: Any) -> str:
    """A name that the API allows; ValueError for what is none."""
    if not isinstance(given, str) or not WORD.fullmatch(given):
        raise ValueError(f"{str(given)[:80]!r} is no name")
    return given


def plain(given: Any) -> str:
    """A text for people: one line, of bounded length, with nothing that a chat program would act on."""
    text = given if isinstance(given, str) else ""
    line = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * MESSAGE_MAX].translate(UNSAFE))
    return " ".join(line.split())[:MESSAGE_MAX]


def moment(given: Any, now: float) -> str:
    """A time as the API server writes it; that of now for anything else."""
    if isinstance(given, str) and MOMENT.fullmatch(given):
        return given
    return datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions(of: Any) -> dict[str, dict[str, Any]]:
    """Those that hold, by type."""
    return {str(one["type"]): one for one in of or () if one["status"] == "True"}


def job_of(one: dict[str, Any]) -> dict[str, str]:
    """What a workload is called: its job, where it has one."""
    owners = one["metadata"].get("ownerReferences") or ()
    owner = next((each for each in owners if each.get("controller")), owners[0] if owners else None)
    if owner is None:
        return {"job": word(one["metadata"]["name"]), "kind": "Workload"}
    return {"job": word(owner["name"]), "kind": word(owner["kind"])}


def evictions(status: dict[str, Any]) -> dict[str, int]:
    """How often Kueue evicted a workload, by reason, with its cause after a slash."""
    found = {}
    for one in (status.get("schedulingStats") or {}).get("evictions") or ():
        cause = one.get("underlyingCause")
        count = one["count"]
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 1 << 31:
            raise ValueError(f"{str(count)[:80]!r} is no count")
        found[word(one["reason"]) + (f"/{word(cause)}" if cause else "")] = count
    return found


def why_out(one: dict[str, Any]) -> str:
    """Why a node is out of service; '' for one in service."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    for taint in spec.get("taints") or ():
        if taint["key"] == OUT_OF_SERVICE:
            said = (one["metadata"].get("annotations") or {}).get(REASON)
            return plain(said) or plain(taint.get("value")) or "out of service"
    if "Ready" not in conditions(status.get("conditions")):
        return "not Ready"
    return "cordoned" if spec.get("unschedulable") else ""


# ---- what is new -----------------------------------------------------------------------------------------------------
def nothing_known() -> dict[str, Any]:
    """The state of the first start. workloads: {uid: [whether finished, {reason: evictions}]}; nodes: {name: why out}; waiting:
    [{"to": hook, "event": …, "since": Unix time}]; failing: {hook: [since when, not before]}; dropped: {hook: events}; busy:
    {digest of a URL: not before}; asked: when both lists were read.
    """
    return {"workloads": None, "nodes": None, "waiting": [], "failing": {}, "dropped": {}, "busy": {}, "asked": 0.0}


def of_workloads(state: dict[str, Any], items: Iterable[Any], now: float) -> list[Event]:
    """Events of workloads since the state, which is brought up to date. What cannot be read stays as it was known."""
    known, first = state["workloads"] or {}, state["workloads"] is None
    new: dict[str, Any] = {}
    events: list[Event] = []
    for one in items:
        try:
            uid = word(one["metadata"]["uid"])
            finished, before = known.get(uid, (False, {}))
            new[uid] = [finished, before]
            status = one.get("status") or {}
            seen, counts = conditions(status.get("conditions")), evictions(status)
            about = {
                "account": word(one["metadata"]["namespace"]),
                "namespace": one["metadata"]["namespace"],
                **job_of(one),
            }
            found = [] if first else list(_evicted(uid, about, before, counts, seen.get("Evicted") or {}, now))
            if not first and not finished and "Finished" in seen:
                found += _finished(uid, about, seen["Finished"], now)
            # what an older backup of etcd brings back is no news
            new[uid] = [
                finished or "Finished" in seen,
                {key: max(counts.get(key, 0), before.get(key, 0)) for key in {**before, **counts}},
            ]
            events += found
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            print(f"a workload cannot be read: {type(error).__name__}: {error}", file=sys.stderr)
    state["workloads"] = new
    return events


def _evicted(
    uid: str, about: dict[str, str], before: dict[str, int], counts: dict[str, int], said: dict[str, Any], now: float
) -> Iterator[Event]:
    for reason, count in counts.items():
        kind = "stop" if reason.partition("/")[0] == STOPPED else "requeue"
        shown = plain(said.get("message")) if plain(said.get("reason")).startswith(reason.partition("/")[0]) else ""
        # a number beyond AT_ONCE between two rounds tells nobody more
        for number in range(max(before.get(reason, 0), count - AT_ONCE) + 1, count + 1):
            at = moment(said.get("lastTransitionTime") if shown else None, now)
            yield event(f"{uid} {reason} {number}", kind, at, reason=reason, message=shown, **about)


def _finished(uid: str, about: dict[str, str], said: dict[str, Any], now: float) -> Iterator[Event]:
    reason = word(said.get("reason") or "Unknown")
    if reason != REPLACED:
        at = moment(said.get("lastTransitionTime"), now)
        kind = "end" if reason in GOOD else "fail"
        yield event(f"{uid} finished", kind, at, reason=reason, message=plain(said.get("message")), **about)


def of_nodes(state: dict[str, Any], items: Iterable[Any], now: float) -> list[Event]:
    """Nodes that are back in service since the state, which is brought up to date."""
    known = state["nodes"]
    new: dict[str, str] = {}
    events: list[Event] = []
    for one in items:
        try:
            name = word(one["metadata"]["name"])
            before = (known or {}).get(name, "")
            new[name] = before
            new[name] = why_out(one)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            print(f"a node cannot be read: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if known is not None and before and not new[name]:
            at = moment(None, now)
            events.append(event(f"{name} {now:.3f}", "node-return", at, reason="", message=before, node=name))
    state["nodes"] = new
    return events


def event(
    what: str, name: str, at: str, *, reason: str, message: str, account: str = "", job: str = "", **more: str
) -> Event:
    """An event with all fields of a message but its text."""
    given = {"account": account, "job": job, "kind": "", "namespace": "", "node": "", **more}
    return {"id": digest(what), "event": name, **given, "reason": reason, "message": message, "time": at}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def hooks_of(config: dict[str, Any]) -> dict[str, str]:
    """{hook: URL} of all that may be sent to."""
    drill = config.get("drill") or {}
    names = [name for name in config["names"] if name != drill.get("account")]
    made = {ACCOUNT + name: config["accounts"].get(name) or config.get("default") for name in names}
    made |= {OPERATORS: config.get("operators"), DRILL: drill.get("url")}
    return {name: url for name, url in made.items() if url}


def put(state: dict[str, Any], events: list[Event], config: dict[str, Any], now: float) -> None:
    """Let events wait for their hooks. An account's own are left out where it has none."""
    hooks = hooks_of(config)
    for one in events:
        if one["node"]:
            wanted = [OPERATORS, DRILL]
        elif one["account"] == (config.get("drill") or {}).get("account") or one["job"].startswith(TRIAL):
            wanted = [DRILL]
        else:
            wanted = [ACCOUNT + one["account"]]
        state["waiting"] += [{"to": to, "event": one, "since": now} for to in wanted if to in hooks]


def dropped(state: dict[str, Any], config: dict[str, Any], now: float) -> None:
    """Leave out what waits for a hook that is no more, for too long, or behind too many others."""
    hooks = hooks_of(config)
    by_hook: dict[str, list[Any]] = {}
    for one in state["waiting"]:
        by_hook.setdefault(one["to"], []).append(one)
    left: list[Any] = []
    for to, all_of_it in by_hook.items():
        kept_s = DRILL_KEPT_S if to == DRILL else KEPT_S
        # a clock that was set back makes nothing old
        kept = [one for one in all_of_it if now - one["since"] < kept_s][-WAITING_MAX:] if to in hooks else []
        gone = len(all_of_it) - len(kept)
        if gone and to in hooks and to != DRILL:
            state["dropped"][to] = state["dropped"].get(to, 0) + gone
            print(f"{to}: {gone} events were given up", file=sys.stderr)
        left += kept
    state["waiting"] = left
    state["dropped"] = {to: count for to, count in state["dropped"].items() if to in hooks}
    # a hook that nothing waits for is not failing
    waits = {one["to"] for one in left}
    state["failing"] = {to: times for to, times in state["failing"].items() if to in waits}
    state["busy"] = {url: after for url, after in state["busy"].items() if now < after <= now + RETRY_MAX_S}


# ---- what is sent ----------------------------------------------------------------------------------------------------
def text_of(one: Event) -> str:
    """What a person reads of an event."""
    if one["event"] == "node-return":
        return f"Node {one['node']} is back in service. It was out: {one['message']}"
    what = f"{one['account']}: {one['kind']} {one['job']}"
    more = f": {one['message']}" if one["message"] else ""
    return {
        "end": f"{what} has completed",
        "fail": f"{what} has failed ({one['reason']}){more}",
        "requeue": f"{what} was evicted ({one['reason']}) and is queued again{more}",
        "stop": f"{what} was evicted ({one['reason']}) and is not queued again{more}",
    }[one["event"]]


def messages(events: list[Event], one_by_one: bool) -> list[tuple[list[str], bytes]]:
    """(ids of events, body) of each message to one hook. Events of nodes have no account, and are one group as well."""
    made: list[tuple[list[str], bytes]] = []
    groups: dict[str, list[Event]] = {}
    for one in events:
        groups.setdefault(one["account"], []).append(one)
    for account, own in groups.items():
        ids = [one["id"] for one in own]
        if one_by_one or len(own) == 1:
            made += [([one["id"]], body({"text": text_of(one), **one})) for one in own]
            continue
        counts: dict[str, int] = {}
        for one in own:
            counts[one["event"]] = counts.get(one["event"], 0) + 1
        named = [
            {**one, "message": one["message"][:NAMED_MESSAGE_MAX]}
            for one in sorted(own, key=lambda one: one["event"] == "end")[:NAMED]
        ]
        lines = [
            f"{account or 'Nodes'}: {len(own)} events: "
            + ", ".join(f"{count} {kind}" for kind, count in counts.items()),
            *(text_of(one) for one in named),
            *([f"and {len(own) - len(named)} more"] if len(own) > len(named) else []),
        ]
        whole = {"text": "\n".join(lines), "id": digest(" ".join(sorted(ids))), "event": "several", "account": account}
        made.append((ids, body({**whole, "counts": counts, "events": named, "time": own[-1]["time"]})))
    return made


def body(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


class Taken(NamedTuple):
    """What came of a message. why: '' where the hook took it, and without its URL else. refused: it never will. busy_s: it wants no
    other one before. away: no other message to this URL fares better now.
    """

    why: str = ""
    refused: bool = False
    busy_s: float = 0.0
    away: bool = False


REFUSED, NOT_IN_TIME = "nothing listens there", f"not all sent within {SEND_ALL_S} s"


def post(url: str, content: bytes) -> Taken:
    """Send a message. Redirections are not followed."""
    try:
        parts = urlsplit(url)
        host = str(parts.hostname)
        if parts.scheme == "https":
            tls = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=SEND_S, context=tls
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=SEND_S)
        with contextlib.closing(connection):
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, content, {"Content-Type": "application/json", "User-Agent": "bringup"})
            answer = connection.getresponse()
    except ConnectionRefusedError:
        return Taken(REFUSED, away=True)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # the text of some errors has the URL or a part of it
        said = error.strerror if isinstance(error, OSError) and error.errno else ""
        return Taken(f"{type(error).__name__} {said or ''}".strip(), away=True)
    if 200 <= answer.status < 300:
        return Taken()
    why = f"status {answer.status}"
    if answer.status == BUSY:
        after = answer.headers.get("Retry-After") or ""
        wanted = int(after) if re.fullmatch("[0-9]{1,6}", after) else RETRY_S
        return Taken(why, busy_s=min(max(wanted, 1), RETRY_MAX_S), away=True)
    return Taken(why, refused=answer.status in REFUSES)


def send(state: dict[str, Any], config: dict[str, Any], now: float, save: Callable[[], None]) -> None:
    """Send what waits, as far as hooks take it within SEND_ALL_S. The state is saved while they do, and at the end."""
    hooks = hooks_of(config)
    by_hook: dict[str, list[Event]] = {}
    for one in state["waiting"]:
        # a clock that was set back makes nobody wait for longer
        if not now < state["failing"].get(one["to"], (0, 0))[1] <= now + RETRY_MAX_S:
            by_hook.setdefault(one["to"], []).append(one["event"])
    # hooks of one URL are one after the other, those that work first
    by_url: dict[str, list[str]] = {}
    for to in sorted(by_hook, key=lambda to: to in state["failing"]):
        if not now < state["busy"].get(digest(hooks[to]), 0) <= now + RETRY_MAX_S:
            by_url.setdefault(hooks[to], []).append(to)
    tasks: queue.SimpleQueue[tuple[str, list[str]]] = queue.SimpleQueue()
    results: Results = queue.SimpleQueue()
    for task in by_url.items():
        tasks.put(task)
    end = time.monotonic() + SEND_ALL_S

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                _send_to(*tasks.get_nowait(), by_hook, results, end)
                results.put(None)

    for _ in range(min(SENDERS, len(by_url))):
        # one that hangs beyond all limits does not keep the program
        threading.Thread(target=work, daemon=True).start()
    under_way, saved = len(by_url), time.monotonic()
    while under_way:
        try:
            result = results.get(timeout=max(0.0, end + SEND_S - time.monotonic()))
        except queue.Empty:
            break
        if result is None:
            under_way -= 1
            continue
        to, ids, taken = result
        _note(state, to, ids, taken, hooks[to], now)
        if time.monotonic() - saved > SAVE_S:
            save()
            saved = time.monotonic()
    if under_way:
        left = {(one["to"], one["event"]["id"]) for one in state["waiting"]}
        for tos in by_url.values():
            for to in tos:
                waits = any((to, one["id"]) in left for one in by_hook[to])
                if waits and state["failing"].get(to, (0, 0))[1] <= now:
                    _note(state, to, [], Taken(NOT_IN_TIME), hooks[to], now)
    save()


def _send_to(url: str, hooks: list[str], by_hook: dict[str, list[Event]], results: "Results", end: float) -> None:
    """Send to the hooks of one URL until nobody answers there, or the time is up. Another failure is that of its hook alone."""
    few = sum(len(by_hook[to]) for to in hooks) <= AT_ONCE
    away = Taken()
    for to in hooks:
        for ids, content in messages(by_hook[to], few):
            late = time.monotonic() > end
            taken = away if away.why else Taken(NOT_IN_TIME, away=True) if late else post(url, content)
            away = taken if taken.away else away
            results.put((to, ids, taken))
            if taken.why and not taken.refused:
                break
        if away.busy_s:
            return  # the others have not failed


Results = queue.SimpleQueue[tuple[str, list[str], Taken] | None]
"""Of the senders: hook, ids of the events of a message, and what came of it; None at the end of a URL."""


def _note(state: dict[str, Any], to: str, ids: list[str], taken: Taken, url: str, now: float) -> None:
    """What came of a message."""
    if to == DRILL and taken.why == REFUSED:
        state["waiting"] = [one for one in state["waiting"] if one["to"] != DRILL]
        return
    if taken.why:
        print(f"{to}: {taken.why}", file=sys.stderr)
    if taken.busy_s:
        state["busy"][digest(url)] = now + taken.busy_s
    elif not taken.why or taken.refused:
        gone = set(ids)
        state["waiting"] = [one for one in state["waiting"] if one["to"] != to or one["event"]["id"] not in gone]
        state["failing"].pop(to, None)
        if taken.refused and to != DRILL:
            state["dropped"][to] = state["dropped"].get(to, 0) + len(gone)
    else:
        since = state["failing"].get(to, (now, 0))[0]
        state["failing"][to] = [since, now + min(max(RETRY_S, now - since), RETRY_MAX_S)]


# ---- files -----------------------------------------------------------------------------------------------------------
def configured(path: Path) -> dict[str, Any]:
    """The configuration; ConfigError where it is none."""
    try:
        found = json.loads(path.read_text())
        accounts, names = found["accounts"], found["names"]
        given = [*accounts.items(), *((name, found[name]) for name in ("default", OPERATORS) if found.get(name))]
        drill = found.get("drill") or {}
        if drill:
            word(drill["account"])
            given.append((DRILL, drill["url"]))
        for name in [*accounts, *names]:
            word(name)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: {type(error).__name__}: not the configuration that the role writes") from None
    for name, url in given:
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and parts.hostname and not parts.username and parts.port != 0
            good = good and url.isascii() and url.isprintable() and " " not in url
        except (ValueError, AttributeError, TypeError):
            good = False
        if not good:
            raise ConfigError(f"the webhook of {name} is no http or https URL, or has a user in it: correct its secret")
    return dict(found)


def kept(path: Path) -> dict[str, Any]:
    """The state; that of a first start where there is none, or none that can be read."""
    try:
        return sound(json.loads(path.read_text()))
    except FileNotFoundError:
        return nothing_known()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        print(f"{path}: {type(error).__name__}: nothing is told of what was before now", file=sys.stderr)
        return nothing_known()


def sound(found: dict[str, Any]) -> dict[str, Any]:
    """The same state, every part of it read; ValueError and others where one is missing or of another kind."""
    workloads, nodes = found["workloads"], found["nodes"]
    return {
        "workloads": None
        if workloads is None
        else {
            word(uid): [bool(finished), {word(reason): int(count) for reason, count in counts.items()}]
            for uid, (finished, counts) in workloads.items()
        },
        "nodes": None if nodes is None else {word(name): str(why) for name, why in nodes.items()},
        "waiting": [
            {"to": word(one["to"]), "event": told(one["event"]), "since": float(one["since"])}
            for one in found["waiting"]
        ],
        "failing": {word(to): [float(since), float(after)] for to, (since, after) in found["failing"].items()},
        "dropped": {word(to): int(count) for to, count in found["dropped"].items()},
        "busy": {word(url): float(after) for url, after in found["busy"].items()},
        "asked": float(found["asked"]),
    }


def told(one: Event) -> Event:
    """The same event; KeyError for one that no message can be made of."""
    text_of(one)
    return {name: str(one[name]) for name in event("", "end", "", reason="", message="")}


def write(path: Path, text: str, mode: int) -> None:
    """Replace a file in one step."""
    new = path.with_name(f".{path.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(new, path)


def rendered(state: dict[str, Any], config: dict[str, Any], now: float) -> str:
    """What alerts judge, in Prometheus' text format. A hook fails that answers so, or that takes what waits for it too slowly."""
    waiting: dict[str, list[float]] = {}
    for one in state["waiting"]:
        waiting.setdefault(one["to"], []).append(one["since"])

    def failing_since(to: str) -> float:
        oldest = min(waiting.get(to, [now]))
        since: float = state["failing"][to][0] if to in state["failing"] else oldest
        return since if to in state["failing"] or now - oldest > RETRY_MAX_S else 0

    hooks = [to for to in hooks_of(config) if to != DRILL]
    series: dict[str, dict[str, float]] = {
        "bringup_notices_waiting": {to: len(waiting.get(to, ())) for to in hooks},
        "bringup_notices_failing_since_seconds": {to: failing_since(to) for to in hooks},
        "bringup_notices_dropped": {to: state["dropped"].get(to, 0) for to in hooks},
    }
    lines = [ROUND_TYPE, f"{ROUND} {state['asked']:.3f}"]
    for name, values in series.items():
        lines += [f"# TYPE {name} gauge", *(f'{name}{{hook="{to}"}} {value:.15g}' for to, value in values.items())]
    return "\n".join(lines) + "\n"


ROUND = "bringup_notices_round_seconds"
"""When both lists were read and compared; 0 before the first time."""
ROUND_TYPE = f"# TYPE {ROUND} gauge"


def look(state: dict[str, Any], config: dict[str, Any], port: int, pki: Path, now: float) -> bool:
    """Ask for both lists and let what is new wait; whether both were read. One that is not read keeps nothing from the other."""
    read = True
    for path, compare in ((WORKLOADS, of_workloads), (NODES, of_nodes)):
        try:
            put(state, compare(state, listed(port, path, pki), now), config, now)
        except MissingError as error:
            print(f"API server: {error}", file=sys.stderr)
            # before Kueue is installed there are no workloads
            read = read and path == WORKLOADS and state["workloads"] is None
        except AskError as error:
            print(f"API server: {error}", file=sys.stderr)
            read = False
    return read


def round_of(config: dict[str, Any], state: dict[str, Any], port: int, pki: Path, save: Callable[[], None]) -> None:
    """Ask, note what is new, and send what waits."""
    now = time.time()
    if look(state, config, port, pki, now):
        state["asked"] = now
    dropped(state, config, now)
    save()
    send(state, config, now, save)


def main(argv: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--metrics", type=Path, required=True)
    parser.add_argument("--pki", type=Path, default=Path("/etc/kubernetes/pki"))
    parser.add_argument("--api-port", type=int, default=6443)
    given = parser.parse_args(argv)
    try:
        config = configured(given.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        if not given.metrics.exists():
            write(given.metrics, f"{ROUND_TYPE}\n{ROUND} 0\n", 0o644)
        return 1
    state = kept(given.state)
    round_of(config, state, given.api_port, given.pki, lambda: write(given.state, json.dumps(state), 0o600))
    write(given.metrics, rendered(state, config, time.time()), 0o644)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
