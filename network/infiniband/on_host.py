"""Runs on a host with a subnet manager (`python3 - VERB` over SSH): a request in, one JSON object out. Standard library.

    read    {paths, unit, packages, log}            files, state of the unit, versions, adapter ports, what the SM answers
    apply   {files, unit, packages, pins, log, …}   install what is missing, write, start; the SM answers or it raises
    remove  {paths, unit}                           no subnet manager and no files of it
    fabric  {log, budget_s}                         what infiniband-diags say of the whole fabric
    diagnose {budget_s, options, not_before, sections}  what ibdiagnet writes of the whole fabric
    watch   {lids, budget_s}                        ask these ports by LID without end until this host's manager is master
    stop, start {unit}                              the service alone, as it is configured

Every command has a time budget. A failure is {"error": "…"} with exit status 0, so that it is told from a broken login.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

COMMAND_BUDGET_S = 20
APT_BUDGET_S = 240
APT = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=60", "-o", "Acquire::Retries=3"]
KEEP_CONFIG = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
QUERIES_AT_ONCE = 4
"""Management datagrams share one queue per adapter; more processes only wait for each other."""
POLL_S = 0.3


class HostError(Exception):
    """What went wrong, for the person who reads it."""


def run(*argv: str, budget_s: float = COMMAND_BUDGET_S, check: bool = True) -> str:
    """Output of a command; HostError when it is missing, fails or hangs."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=budget_s, check=False, env=environment)
    except FileNotFoundError:
        raise HostError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"{' '.join(argv[:3])} did not end within {budget_s:g} s") from None
    if check and done.returncode:
        errors = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise HostError(f"{' '.join(argv[:3])}: exit status {done.returncode}: {' '.join(errors)}")
    return done.stdout


def said(*argv: str, budget_s: float = COMMAND_BUDGET_S) -> str:
    """Output of a command, '' where it is missing or fails: for what may rightly not be there."""
    try:
        return run(*argv, budget_s=budget_s)
    except HostError:
        return ""


def versions(packages: list[str]) -> dict[str, str]:
    """Installed version of each package that is installed."""
    out = run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n", *packages, check=False)
    rows = (line.split(" ") for line in out.splitlines())
    return {name: version for status, name, version in rows if status == "installed"}


def unit_state(unit: str) -> dict[str, str]:
    """ActiveState, UnitFileState, and when it was last started in seconds since boot ('' when it does not run)."""
    out = run("systemctl", "show", unit, "-p", "ActiveState,UnitFileState,ExecMainStartTimestampMonotonic,FragmentPath")
    pairs = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    started_s = int(pairs.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    return {
        "active": pairs.get("ActiveState", ""),
        "enabled": pairs.get("UnitFileState", ""),
        "started_s": str(started_s),
    }


def engine(log: str) -> str:
    """The routing engine that the running manager used last, as its log says; '' when it has routed nothing."""
    try:
        text = Path(log).read_text(errors="replace")
    except OSError:
        return ""
    found = re.findall(r"(\w+) tables configured", text)
    return found[-1] if found else ""


def ports() -> list[str]:
    """GUIDs of this host's adapter ports."""
    return re.findall(r"0x([0-9a-f]{16})", said("ibstat", "-p"))


def own_lid() -> str:
    found = re.search(r"Base lid:\s+(\d+)", said("ibstat"))
    return found[1] if found else ""


def manager() -> dict[str, str]:
    """sminfo of the master, and of the manager at this host's own port."""
    lid = own_lid()
    return {"master": said("sminfo"), "own": said("sminfo", lid) if lid not in ("", "0") else ""}


def settled(budget_s: float) -> dict[str, str]:
    """`manager()` once this host's is master or standby, or as it is when the time is up: between them it elects."""
    end = time.monotonic() + budget_s
    while True:
        seen = manager()
        if any(word in seen["own"] for word in ("MASTER", "STANDBY")) or time.monotonic() > end:
            return seen
        time.sleep(POLL_S)


def read(request: dict[str, Any]) -> dict[str, Any]:
    state = unit_state(request["unit"])
    files, newer = {}, []
    for path in request["paths"]:
        try:
            files[path] = Path(path).read_text()
        except FileNotFoundError:
            continue
        since_boot_s = time.clock_gettime(time.CLOCK_MONOTONIC) - (time.time() - os.stat(path).st_mtime)
        # a file written in the second of the start belongs to it
        if state["active"] == "active" and since_boot_s > float(state["started_s"]) + 1:
            newer.append(path)
    return {
        "files": files,
        "newer": newer,
        "unit": state,
        "packages": versions(request["packages"]),
        "ports": ports(),
        "manager": settled(request["election_s"]) if state["active"] == "active" else manager(),
        "engine": engine(request["log"]),
    }


def upstream(version: str) -> str:
    """'3.3.23-2+b1' -> '3.3.23' (Debian policy 5.6.12: [epoch:]upstream[-revision]); the same as inventory.debian."""
    rest = version.split(":", 1)[-1]
    return rest.rpartition("-")[0] or rest


def install(packages: list[str], pins: dict[str, str]) -> None:
    """Packages that are missing or of another version than pinned; a pin is an upstream version (3.3.23)."""
    have = versions(packages)
    todo = [name for name in packages if name not in have or (name in pins and upstream(have[name]) != pins[name])]
    if todo:
        words = [f"{name}={pins[name]}-*" if name in pins else name for name in todo]
        run(*APT, "update", budget_s=APT_BUDGET_S)
        run(
            *APT,
            *KEEP_CONFIG,
            "--no-install-recommends",
            "--allow-downgrades",
            "install",
            *words,
            budget_s=APT_BUDGET_S,
        )


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_text(text)
        new.chmod(0o644)
        new.replace(path)


def apply(request: dict[str, Any]) -> dict[str, Any]:
    """Files first: a package that starts its service on installation then starts it as it shall be."""
    write(request["files"])
    run("systemctl", "daemon-reload")
    install(request["packages"], request["pins"])
    expected = f"0x{request['guid']}"
    if request["guid"] not in ports():
        raise HostError(
            f"no adapter port {expected} on this host: it has {', '.join(ports()) or 'none'}; nothing was started"
        )
    run("systemctl", "enable", request["unit"])
    run("systemctl", "restart", request["unit"])
    own = settled(request["start_s"])["own"]
    if not any(word in own for word in ("MASTER", "STANDBY")):
        tail = said("tail", "-n", "3", request["log"]).strip().replace("\n", " | ")
        raise HostError(f"the subnet manager is neither master nor standby after {request['start_s']:g} s; log: {tail}")
    return read(request)


def remove(request: dict[str, Any]) -> dict[str, Any]:
    if unit_state(request["unit"])["active"] != "inactive":
        run("systemctl", "stop", request["unit"])
    said("systemctl", "disable", request["unit"])
    for path in request["paths"]:
        Path(path).unlink(missing_ok=True)
    run("systemctl", "daemon-reload")
    # The package brings a unit of the same name, which would start with defaults at the next boot.
    said("systemctl", "disable", request["unit"])
    return read(request)


def lids(text: str) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Of ibnetdiscover's output: {adapter port GUID: LID} and {switch GUID: (LID, its first and last linked port)}."""
    adapters = {
        m[1].zfill(16): m[2] for m in re.finditer(r'^\[\d+\]\(([0-9a-f]+)\)\s+"\S+"\[\d+\]\s+# lid (\d+) ', text, re.M)
    }
    switches: dict[str, tuple[str, str]] = {}
    for block in re.split(r"\n(?=Switch\s)", text)[1:]:
        head = re.match(r'Switch\s+\d+ "S-([0-9a-f]+)".*? lid (\d+) ', block)
        linked = re.findall(r"^\[(\d+)\]", block.split("\n\n")[0], re.M)
        if head and linked:
            switches[head[1].zfill(16)] = (head[2], f"{linked[0]} {linked[-1]}")
    return adapters, switches


def fabric(request: dict[str, Any]) -> dict[str, Any]:
    """Raw output of the tools. `pkeys` by port GUID; `lanes` and `arbitration` by 'switch GUID/port'."""
    budget_s = request["budget_s"]
    found = run("ibnetdiscover", budget_s=budget_s)
    adapters, switches = lids(found)
    asked: dict[tuple[str, str], tuple[str, ...]] = {
        ("pkeys", guid): ("smpquery", "pkeys", lid) for guid, lid in adapters.items()
    }
    for guid, (lid, linked) in switches.items():
        for port in dict.fromkeys(linked.split()):
            asked["lanes", f"{guid}/{port}"] = ("smpquery", "sl2vl", lid, port)
            asked["arbitration", f"{guid}/{port}"] = ("smpquery", "vlarb", lid, port)
    with ThreadPoolExecutor(QUERIES_AT_ONCE) as pool:
        texts = list(pool.map(lambda argv: said(*argv), asked.values()))
    answers: dict[str, dict[str, str]] = {"pkeys": {}, "lanes": {}, "arbitration": {}}
    for (kind, name), text in zip(asked, texts, strict=True):
        answers[kind][name] = text
    errors = run("ibqueryerrors", "--threshold-file", "/dev/null", budget_s=budget_s, check=False)
    return {
        "ibnetdiscover": found,
        "ibqueryerrors": errors,
        "manager": manager(),
        "engine": engine(request["log"]),
        **answers,
    }


def diagnose(request: dict[str, Any]) -> dict[str, Any]:
    """Files of ibdiagnet, of its database only the named columns of sections: '' for one that it did not write. It starts at
    `not_before` (seconds since 1970) at the earliest; `began` and `ended` are such times too. `sharp_am` is the state of the
    aggregation manager's service on this host.

    ibdiagnet ends with another status than 0 where it finds something to report, so only its files say whether it ran.
    """
    if shutil.which("ibdiagnet") is None:
        raise HostError("ibdiagnet is not installed (package ibutils2 of NVIDIA's DOCA or MLNX_OFED)")
    time.sleep(max(0.0, request["not_before"] - time.time()))
    with tempfile.TemporaryDirectory(prefix="ibdiagnet-") as folder:
        began = time.time()
        run("ibdiagnet", *request["options"], "-o", folder, budget_s=request["budget_s"], check=False)
        ended = time.time()
        database = Path(folder) / "ibdiagnet2.db_csv"
        if not database.exists():
            raise HostError("ibdiagnet wrote no ibdiagnet2.db_csv: run it on the host by hand")
        with database.open(errors="replace") as lines:
            cut = "".join(cut_to(request["sections"], lines))
        files = {
            name: path.read_text(errors="replace") if (path := Path(folder) / f"ibdiagnet2.{name}").exists() else ""
            for name in ("net_dump_ext", "sharp")
        }
    sharp_am = run("systemctl", "is-active", "sharp_am", check=False).strip()
    return {"began": began, "ended": ended, "db_csv": cut, "sharp_am": sharp_am, **files}


def cut_to(sections: dict[str, list[str]], lines: Iterable[str]) -> Iterator[str]:
    """These columns of these sections of a database of ibdiagnet, which for 8,192 adapters has hundreds of megabytes. A row of
    another length than its head stays whole: whoever reads it names it.
    """
    inside, head = "", list[str]()
    for line in lines:
        if line.startswith("START_"):
            inside, head = line.removeprefix("START_").strip(), []
        if inside in sections:
            if line.startswith(("START_", "END_")) or not line.strip():
                inside = "" if line.startswith("END_") else inside
                yield line
                continue
            cells = [cell.strip() for cell in next(csv.reader([line]))]
            head = head or cells
            places = [place for place, name in enumerate(head) if name in sections[inside]]
            yield ",".join(cells[place] for place in places) + "\n" if len(cells) == len(head) else line
        elif line.startswith("END_"):
            inside = ""


def watch(request: dict[str, Any]) -> dict[str, Any]:
    """Datagrams that are routed by LID, one port after the other, until this host's manager is the master or time is up.

    They travel through the switches' forwarding tables, as the traffic of jobs does: `lost` lists LIDs without answer.
    """
    own, targets = own_lid(), request["lids"]
    if not own:
        raise HostError("this host's adapter has no LID: no subnet manager has set it up")
    began, sent, lost, master = time.monotonic(), 0, list[str](), False
    while not master and time.monotonic() - began < request["budget_s"]:
        lid = targets[sent % len(targets)]
        sent += 1
        if "Node info" not in said("smpquery", "nodeinfo", lid):
            lost.append(lid)
        master = "SMINFO_MASTER" in said("sminfo", own)
    return {"master": master, "sent": sent, "lost": lost, "watched_s": time.monotonic() - began}


def stop(request: dict[str, Any]) -> dict[str, Any]:
    run("systemctl", "stop", request["unit"])
    return unit_state(request["unit"])


def start(request: dict[str, Any]) -> dict[str, Any]:
    run("systemctl", "start", request["unit"])
    return unit_state(request["unit"])


VERBS = {
    "watch": watch,
    "stop": stop,
    "start": start,
    "read": read,
    "apply": apply,
    "remove": remove,
    "fabric": fabric,
    "diagnose": diagnose,
}


def main() -> None:
    verb, request = sys.argv[1], json.loads(sys.argv[2])
    try:
        answer = VERBS[verb](request)
    except (HostError, OSError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
