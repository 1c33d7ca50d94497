"""What the evidence and gate tests share: keys, identities, a small plan."""

import base64
import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from inventory.findings import Finding
from inventory.site import Site
from network.infiniband.subnet import guid_book
from tests.plans import plan_of
from tests.validation import modelled_links, recordings
from validation import countersignatures, device_identity, freeze, plugin
from validation.evidence import Entry, Identity, Mode, Record, strict
from validation.evidence.channels import NAMESPACE, Ledger, challenge
from validation.evidence.keys import signer_of
from validation.evidence.mode import PINNED
from validation.evidence.store import SCHEMA_VERSION, Statement, Store
from validation.facts import Facts, permutation, separation_acts
from validation.facts.answer import answer_from
from validation.facts.node_results import side_by_side
from validation.facts.storage import clients
from validation.facts.storage_acts import canary_sha256, read_by
from validation.forms import fields, rows
from validation.freeze import Frozen
from validation.from_raw import FROM_RAW, Again, computed
from validation.infiniband import best_view, own_part
from validation.readings import adapter_cables, pinged
from validation.register import Item, Register, site_value
from validation.runners.collectives import rows_wanted
from validation.runners.slurm_trials import Preemption
from validation.runners.training import Recording
from validation.storage import inband_ports
from validation.verdict import APPROVAL_ITEM, Verdict, judge

STORE = "5" * 32
"""The id of the evidence store that the devices of the bench were challenged for."""
NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
DIGEST = "ab" * 32
CHECK_FILE = "validation/checks/test_fabric.py"
CLEAN = {"version": "1", "commit": "c0ffee", "unclean": ""}

DEVICES = [
    ("gpu001", "server", "gpu", ""),
    ("gpu002", "server", "gpu", ""),
    ("ctl01", "server", "controller", ""),
    ("sto01", "server", "storage", ""),
    ("leaf01", "switch", "leaf", "inband"),
    ("spine01", "switch", "spine", "inband"),
    ("ibl001", "switch", "leaf", "compute"),
    ("ibs001", "switch", "spine", "compute"),
    ("oob01", "switch", "oob", "oob"),
    ("pdu-r01-a", "pdu", "rack_pdu", ""),
    ("pdu-r01-b", "pdu", "rack_pdu", ""),
]


@dataclass(frozen=True)
class SmallPlan:
    """A plan with a handful of devices, in the columns of capacity.build."""

    site: Site
    findings: Sequence[Finding] = ()
    hash: str = DIGEST
    hashes: Mapping[str, str] = field(default_factory=lambda: {"site.fabric": DIGEST, "frame.cables": "cd" * 32})
    devices: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(DEVICES, columns=["name", "kind", "role", "fabric"])
    )
    racks: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"name": ["r01"]}))
    addresses: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["device", "network", "address"]))
    circuits: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"circuit": ["cb-r01-a", "cb-r01-b"]}))


def frozen(site: str = "lab", *, program: Mapping[str, str] = CLEAN, **parts: Mapping[str, str]) -> Frozen:
    """A freeze with one check file of two files; keywords replace parts."""
    files = {CHECK_FILE: DIGEST, "validation/xids.yaml": DIGEST}
    made: dict[str, Mapping[str, str]] = {
        "accepted": {"accepted/values.jsonl": DIGEST},
        "tables": {"validation/steps.yaml": DIGEST},
        "items": {},
        "limits": {},
        "catalogue": {},
        "devices": device_identity.digests_of(ASSETS, HOST_KEYS),
        "files": files,
        "checks": {CHECK_FILE: DIGEST},
    }
    return Frozen(site, made | parts, {CHECK_FILE: tuple(files)}, program)


def statement_of(said: Mapping[str, Any], signers: frozenset[str], line: int) -> Statement:
    """A statement as the log gives it."""
    (subject,) = said["subject"]
    return Statement(
        said["predicateType"], subject["name"], said["predicate"], signers, line, subject["digest"]["sha256"]
    )


def halves(one: Frozen, *keys: str, names: Sequence[str] = ("Jane", "Joe"), line: int = -1) -> tuple[Statement, ...]:
    """The statements of approvers about a freeze, the first with all of it, in lines from ``line`` on."""
    made = []
    for at, (key, name) in enumerate(zip(keys, names, strict=True)):
        said = (freeze.statement if at == 0 else freeze.second)(one, name, NOW - timedelta(days=1))
        made.append(statement_of(said, frozenset({key}), line + at))
    return tuple(made)


def make_key() -> CryptoSigner:
    return signer_of(Ed25519PrivateKey.generate())


def with_key(site: Site, path: Path, key: CryptoSigner) -> Site:
    """The site with this key, kept in a file, as credentials.evidence.key."""
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes)
    evidence = site.credentials.evidence.model_copy(update={"key": f"file:{path}"})
    credentials = site.credentials.model_copy(update={"evidence": evidence})
    return site.model_copy(update={"credentials_given": credentials})


def identity(device: str, **changes: str) -> Identity:
    return Identity(**{"device": device, "channel": "ssh", "text": "", "serial": "", **changes})


def simulated(device: str) -> tuple[Identity, ...]:
    return (identity(device, text="SIMULATED by bringup lab"),)


KINDS = {name: kind for name, kind, *_ in DEVICES}
MACS = {name: f"b8:59:9f:00:00:{number:02x}" for number, name in enumerate(KINDS)}
ASSETS = {name: (f"SN-{name}", MACS[name]) for name in KINDS}
"""What the inventory lists of each device."""
HOST_KEY = Ed25519PrivateKey.generate()
"""The host key of every device of the bench."""


def public_of(key: Ed25519PrivateKey) -> str:
    """A public key as in known_hosts, in base64."""
    return base64.b64encode(_wire(b"ssh-ed25519", key.public_key().public_bytes_raw())).decode()


def _wire(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def signature(message: str, key: Ed25519PrivateKey = HOST_KEY, namespace: str = NAMESPACE) -> str:
    """What `ssh-keygen -Y sign` prints."""
    digest = hashlib.sha512(message.encode()).digest()
    signed = key.sign(b"SSHSIG" + _wire(namespace.encode(), b"", b"sha512", digest))
    public = base64.b64decode(public_of(key))
    blob = _wire(public, namespace.encode(), b"", b"sha512", _wire(b"ssh-ed25519", signed))
    text = base64.b64encode(b"SSHSIG\0\0\0\1" + blob).decode()
    lines = "\n".join(text[start : start + 70] for start in range(0, len(text), 70))
    return f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n"


HOST_KEYS = {name: frozenset({public_of(HOST_KEY)}) for name in KINDS}


def countersigned(entry: Entry, *keys: str, line: int = 0) -> tuple[Entry, tuple[Statement, ...]]:
    """The attestation as its first signer and these keys signed it, and what each of these stated, in a line before it."""
    payload = f"{entry.record.item} {entry.record.subject}".encode()
    first, *_ = sorted(entry.signers - {*keys})
    record = countersignatures.by(entry.record, first)
    said = [
        countersignatures.statement(payload, record.subject, record.item, f"signer {key}", NOW, record.result)
        for key in keys
    ]
    made = dataclasses.replace(entry, record=record, payload=hashlib.sha256(payload).hexdigest())
    return made, tuple(statement_of(one, frozenset({key}), line) for one, key in zip(said, keys, strict=True))


FROZEN = frozen()
RESTS_ON = {freeze.INPUT: FROZEN.digest, f"{freeze.PROGRAM}{CHECK_FILE}": DIGEST}
"""What a record names that was made under ``FROZEN``."""
MADE_BY = {freeze.PROGRAM_STATE: CLEAN}


def rests_on(
    subject: str, identities: Sequence[Identity], host_keys: Mapping[str, frozenset[str]] = HOST_KEYS
) -> dict[str, dict[str, str]]:
    """What a record of devices says of them: rows of assets.csv and known_hosts, as the bench has them."""
    devices = plugin.devices_of({one.device for one in identities}, subject, KINDS)
    return device_identity.configuration_of(devices, device_identity.digests_of(ASSETS, host_keys))


@functools.cache
def answered(device: str, site: str = "lab", at: datetime = NOW - timedelta(hours=1)) -> Identity:
    """A device's answer to a challenge, signed with its host key."""
    message = challenge(site, STORE, device, at)
    return identity(
        device,
        channel="ssh-signature",
        serial=MACS[device],
        enrolled=PINNED,
        message=message,
        signature=signature(message),
    )


def seen_by(observer: str, device: str, channel: str = "lldp") -> Identity:
    """What a neighbour saw of a device."""
    return identity(device, channel=channel, serial=MACS[device], observer=observer, enrolled=PINNED)


def proven(device: str, at: datetime = NOW - timedelta(hours=1)) -> tuple[Identity, ...]:
    """Three channels that prove a device at a time, one of them a challenge."""
    kind, serial = KINDS[device], f"SN-{device}"
    if kind == "server":
        return (identity(device, channel="redfish", serial=serial), answered(device, at=at), seen_by("leaf01", device))
    if kind == "switch":
        others = [name for name in ("leaf01", "spine01", "ibl001") if name != device]
        return (answered(device, at=at), *(seen_by(other, device) for other in others[:2]))
    cut = identity(device, channel="outlet-cut", serial=serial, observer="gpu001")
    return (identity(device, channel="snmp", serial=serial), seen_by("ctl01", device, "arp"), cut)


def mode_of(identities: Sequence[Identity], **rest: Any) -> Mode:
    """What the gate takes a record with these identities for, if the log holds no other; keywords replace the ledger's."""
    made = Record("S062", "measured", "lab", "PASSED", NOW, NOW, "test", "1", identities=tuple(identities))
    asked: dict[str, Any] = {
        "kinds": KINDS,
        "identifiers": ASSETS,
        "host_keys": HOST_KEYS,
        "site": "lab",
        "store": STORE,
        **rest,
    }
    ledger = Ledger([Entry(made, frozenset(), 1, made.mode)], **asked)
    if made.mode != "unproven" or not identities:
        return made.mode
    return "unproven" if any(ledger.doubt(one.device, NOW) for one in identities) else "real"


def judged(*given: Any, **rest: Any) -> Verdict:
    """The verdict of `judge` on a site whose inventory lists and pins the devices of the bench."""
    register, plan, contents, *more = given
    log = contents if contents.store else dataclasses.replace(contents, store=STORE)
    return judge(register, plan, log, *more, **{"asset_ids": ASSETS, "host_keys": HOST_KEYS, **rest})


def store_at(path: Path, **rest: Any) -> Store:
    """An evidence store for which the devices of the bench were challenged."""
    path.mkdir(parents=True, exist_ok=True)
    place = {"schema_version": SCHEMA_VERSION, "site": "lab", "store": STORE}
    (path / "store.json").write_bytes(strict.canonical(place) + b"\n")
    return Store.open(path, **rest)


def judged_alone(register: Register, *given: Any, **rest: Any) -> Verdict:
    """The verdict on a few records without what their groups come after: no group asks for another."""
    groups = {name: dataclasses.replace(group, after=()) for name, group in register.groups.items()}
    return judged(dataclasses.replace(register, groups=groups), *given, **rest)


PLANNED = {"plan supplies": 2, "plan checkpoint_write_gb_s": 1.0}
"""Limits that plan and catalogue give, as the lab has them; `details` puts that of the subject's own plan in."""


def numbers(item: Item, site: Site) -> dict[str, Any]:
    """Value, limit and its source as the check of an item with ``judged`` writes them: the value is its limit, or 0 below it."""
    rule = item.judged
    if rule is None:
        return {}
    for source in rule.limits:
        key = source.removeprefix("site ")
        if source in rule.constants:
            limit: Any = rule.constants[source]
        elif source.startswith("plan "):
            limit = PLANNED[source]
        elif key.startswith("limits."):
            own = site.limits.get(key.removeprefix("limits."))
            limit = own and own.value
        else:
            limit = site_value(site, key)
        if limit is not None:
            break
    else:
        raise AssertionError(f"{item.id}: the site has none of {rule.limits}")
    number = 0 if rule.must == "below" else limit
    if item.floor and rule.must == "at least":
        number = max(number, item.floor.minimum)
    value: Any = {}
    for path in rule.values:
        if not path:
            value = number
            continue
        here, (*above, last) = value, path.split(".")
        for part in above:
            here = here.setdefault("one" if part == "*" else part, {})
        here["one" if last == "*" else last] = number
    unit = item.floor.unit if item.floor else ""
    return {
        "value": value,
        "limit": limit,
        "limit_source": f"{source}: test" if "limits." in source else source,
        "unit": unit,
    }


def answer(data: Mapping[str, Any], device: str = "gpu001") -> bytes:
    """The raw output of a check: what a device answered."""
    said = {"device": device, "channel": "ssh", "data": data, "error": ""}
    return json.dumps(said, sort_keys=True, indent=1).encode()


def swept(
    nodes: Sequence[str],
    per_node: int = 1,
    time_us: float = 500.0,
    device: str = "cpu",
    only: Mapping[str, Any] | None = None,
    largest_b: int = 8 * 10**9,
) -> dict[str, list[str]]:
    """By node, what each of its ranks keeps of a collectives sweep up to the largest size, or of one row: over all ranks, and over
    those of the node."""
    sizes = [*(size for n in range(9) if (size := 8 * 16**n) < largest_b), largest_b]
    world, gpu = len(nodes) * per_node, device != "cpu"
    found: dict[str, list[str]] = {}
    for number in range(world):
        node = nodes[number // per_node]
        spans = [("whole", "whole", world, number == 0)] if world > 1 else []
        if per_node > 1 and len(nodes) > 1:
            spans += [("node", node, per_node, number % per_node == 0)]
        rows = {size: [dict(only)] if only else rows_wanted(sizes, size) for _, _, size, _ in spans}
        rank = {
            "schema_version": 3,
            "rank": number,
            "host": node,
            "device": device,
            "uuid": f"GPU-{number}" if gpu else "",
            "backend": "nccl" if gpu else "gloo",
            "torch": "2.5",
            "world_size": world,
            "iterations": 20 if gpu else 3,
            "transports": {"P2P": 4},
            "spans": [
                {"span": span, "group": group, "size": size, "time_us": [time_us] * len(rows[size]), "wrong": []}
                | ({"rows": rows[size]} if leads else {})
                for span, group, size, leads in spans
            ],
        }
        found.setdefault(node, []).append(json.dumps(rank))
    return found


def swept_in_network(nodes: Sequence[str], on_us: float = 400.0, off_us: float = 500.0) -> dict[str, list[str]]:
    """By node, what each of its eight ranks keeps of all-reduce over all nodes with reduction in the switches, and without."""
    found: dict[str, list[str]] = {node: [] for node in nodes}
    for asked, time_us, algorithm in (("on", on_us, "COLLNET_DIRECT"), ("off", off_us, "RING")):
        for node, texts in swept(nodes, per_node=8, device="NVIDIA H100 80GB HBM3").items():
            for rank in map(json.loads, texts):
                (whole,) = (span for span in rank["spans"] if span["span"] == "whole")
                rows = rows_wanted([8 * 16**7, 8 * 10**9], whole["size"], ("all_reduce",))
                leads = rank["rank"] == 0
                span = {**whole, "time_us": [time_us] * len(rows)} | ({"rows": rows} if leads else {})
                sizes = {str(row["size_b"]): [algorithm] for row in rows} if leads else {}
                channels = 16 if asked == "on" else 0
                told = {
                    "asked": asked,
                    "plugin": "SHARP" if asked == "on" else "",
                    "channels": channels,
                    "algorithms": sizes,
                }
                found[node].append(json.dumps({**rank, "spans": [span], "in_network": told}))
    return found


def kept_by(texts: Sequence[str], samples: str = "") -> bytes:
    """What a node signs of its ranks' files and of what lies beside them (workloads/sign_result.py)."""
    return json.dumps({"ranks": list(texts), "samples": samples}, indent=1).encode()


WRITTEN_BW = """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1906830          0.00               50.00              0.095367
"""
"""What ib_write_bw prints, modelled after perftest's write_bw."""


def permuted(plan: Plan) -> dict[str, Any]:
    """Both runs of a permutation as they have to be: even with adaptive routing, and faster."""
    wanted = permutation.planned(plan)
    assert wanted is not None
    uplinks = [end for each in wanted.uplinks.values() for end in each]

    def run(first: int, rate: str) -> dict[str, Any]:
        sent = {**dict.fromkeys(uplinks, 1_000_000), uplinks[0]: first}
        flows = dict.fromkeys(wanted.ends, WRITTEN_BW.replace("50.00", rate))
        return {"sent": sent, "resent": dict.fromkeys(wanted.ends, 0), "flows": flows}

    runs = {"adaptive": run(1_000_000, "50.00"), "static": run(1_900_000, "31.00")}
    levels = {"adaptive": 0, "static": 15}
    return {"permutation": dataclasses.asdict(wanted), "levels": levels, "runs": runs, "errors": {}}


IN_THE_SUBNET = [name for name, *_, fabric in DEVICES if fabric == "compute"]
"""Switches of the small plan whose raw output of S062 is their part of the InfiniBand subnet."""


def with_parts(recording: Recording) -> Recording:
    """The recording with what its nodes sign: by run and node the events of the attempts that ran there, but those of a node that
    lost its power."""
    parts: dict[str, dict[str, str]] = {}
    for run, ranks in recording.metrics.items():
        files: dict[tuple[str, str], list[str]] = {}
        for rank, events in ranks.items():
            hosts = {event["attempt"]: event["host"] for event in events if event["event"] == "start"}
            for event in events:
                files.setdefault((hosts[event["attempt"]], rank), []).append(json.dumps(event))
        for (node, _), lines in files.items():
            if (run, node) != ("interrupted", recording.outage.get("victim")):
                parts.setdefault(run, {}).setdefault(node, "")
                before = json.loads(parts[run][node])["ranks"] if parts[run][node] else []
                parts[run][node] = kept_by([*before, "\n".join(lines) + "\n"]).decode()
    return dataclasses.replace(recording, parts=parts)


def pinned_to(plan: Plan, folder: Path, keys: Mapping[str, Ed25519PrivateKey]) -> Plan:
    """The plan of a site whose known_hosts pins these keys of its nodes."""
    rows = plan.addresses[plan.addresses["network"] == "provisioning"]
    address = {device: one.split("/")[0] for device, one in zip(rows["device"], rows["address"], strict=True)}
    lines = [f"{address[node]} ssh-ed25519 {public_of(key)}\n" for node, key in keys.items()]
    (folder / "known_hosts").write_text("".join(lines))
    changes = {"host_keys": PINNED, "known_hosts": str(folder / "known_hosts")}
    ssh = plan.site.credentials.ssh.model_copy(update=changes)
    credentials = plan.site.credentials.model_copy(update={"ssh": ssh})
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"credentials_given": credentials}))


def probed(probes: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """What routers with the planned filters let a server reach: what is in its own network."""
    own = [name for name, one in probes.items() if one["source_network"] == one["destination_network"]]
    return {"reached": own, "silent": sorted(set(probes) - set(own))}


@functools.cache
def raw_of(item: str, subject: str, largest_b: int = 8 * 10**9) -> bytes:
    """A sound raw output of a check on the lab, from which the gate computes the value again. largest_b: the largest message of a
    sweep of collectives."""
    plan = plan_of("lab")
    if item in TRAINED:
        return recordings.made().as_json()
    gpus = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    in_subnet = plan.devices.loc[plan.devices["fabric"] == "compute", "name"]
    if item == "S062.measured" and subject in {*in_subnet, *IN_THE_SUBNET}:
        subnets = {name: answer_from(said, "subnets", name) for name, said in recorded()["subnets"].items()}
        view = best_view(Facts(subnets=subnets))
        assert view is not None
        return own_part(view, guid_book(load_assets(plan.site))[subject])
    if item == "S057.measured":
        return json.dumps(permuted(plan)).encode()
    if item == "S058.measured":
        return side_by_side({node: kept_by(texts) for node, texts in swept_in_network(gpus).items()})
    if item == "S066.measured":
        return side_by_side({node: kept_by(texts) for node, texts in swept(gpus, largest_b=largest_b).items()})
    if item == "S068.measured":
        told = {
            node: {"nonce": "ab" * 16, "unsent": {}, **probed({what: one._asdict() for what, one in mine.items()})}
            for node, mine in separation_acts.probes(plan).items()
        }
        return side_by_side({node: json.dumps(one).encode() for node, one in told.items()})
    if item == "S124.measured":
        times = {"size_b": 1 << 40, "own": {"began": 1.0, "ended": 1.5}, "shared": {"began": 2.0, "ended": 2.5}}
        return side_by_side({node: json.dumps(times).encode() for node in gpus})
    if item == "S130.applied":
        others = read_by(clients(plan), subject)
        read = {"nonce": "ab" * 16, "read": {other: canary_sha256("ab" * 16, other) for other in others}}
        return side_by_side({subject: json.dumps(read).encode()})
    if item == "S151.measured":
        return kept_by(swept(gpus, per_node=8, device="NVIDIA H100 80GB HBM3")[subject])
    if item in ("S086.observed", "S171.observed"):
        pdus = plan.circuits.loc[plan.circuits["rack"] == subject, "pdu"]
        return b"\n".join(answer(recorded()["pdus"][pdu]["data"], pdu) for pdu in pdus)
    if item == "S143.applied":
        return f"PLAY RECAP ****\n{subject} : ok=9    changed=0    unreachable=0    failed=0    skipped=1\n".encode()
    if item == "S160.measured":
        urgent = {"SubmitTime": "2026-11-21T19:00:57", "StartTime": "2026-11-21T19:00:58"}
        return Preemption("", urgent, {"Restarts": "1"}, "checkpoint 21\nresumed 21\n").as_json()
    if item == "S047.measured":
        ends = adapter_cables(plan, subject)
        text = (Path(__file__).parents[1] / "data" / "modelled" / "mlxlink" / "ndr.json").read_text()
        text = text.replace("IB-NDR", "IB-HDR")
        return json.dumps(
            {f"{host}:{port}": text for host, port in zip(ends["a_device"], ends["a_port"], strict=True)}
        ).encode()
    if item == "S170.observed":
        return json.dumps(modelled_links.of_inband(plan, subject)).encode()
    of = KIND_OF.get(item, "nodes")
    if item == "S054.applied" and subject in recorded()["switches"]:
        of = "switches"
    said = recorded()[of].get(subject, {}).get("data")
    if item == "S062.measured":
        return json.dumps(
            {**json.loads(answer({"lldp": neighbours_of(plan, subject)}, subject)), "not_judged": []}
        ).encode()
    if said is None:  # a device that the lab does not have
        return answer(
            {"version": plan.site.versions.get(plan.site.inband.nos)} if item == "S061.applied" else {}, subject
        )
    if item == "S030.observed":
        said = {**said, "thermal": THERMAL}
    if item == "S144.observed":  # no lab is up for a day
        said = {**said, "clock_day": A_DAY}
    if item == "S054.applied" and of == "nodes":  # at the limit of switches: `numbers` knows one limit of an item
        said = {**said, "links": {port: {**link, "mtu": 9216} for port, link in said["links"].items()}}
    return answer(said, subject)


A_DAY = {"samples": 90, "quarters": 88, "largest_s": [4.1e-05]}
"""What a node's log of its clock says of a whole day."""
KIND_OF = {
    "S020.observed": "bmcs",
    "S030.observed": "bmcs",
    "S031.measured": "bmcs",
    "S061.applied": "switches",
    "S088.observed": "pdus",
}
"""By item, the kind of device that its raw output is the answer of, where that is no node."""


@functools.cache
def recorded() -> dict[str, Any]:
    """What the devices of a healthy lab answered."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "healthy.json").read_text())
    return found


def whole_pings(plan: Plan, node: str, payload_b: int = 8972) -> list[dict[str, Any]]:
    """What a server says of its pings to the others when all of them answer."""
    at = {"target": "192.0.2.1", "source": "", "received": 1}
    return [{"device": other, "ok": True, "payload_b": payload_b, **at} for other in pinged(plan, node)]


THERMAL = {
    "fans": [
        {"chassis": "1", "name": f"Fan {n}", "rpm": 9000, "percent": None, "state": "Enabled", "health": "OK"}
        for n in range(1, 3)
    ],
    "temperatures": [
        {"chassis": "1", "name": "Inlet", "celsius": 24, "context": "Intake", "health": "OK"},
        {"chassis": "1", "name": "Outlet", "celsius": 38, "context": "Exhaust", "health": "OK"},
    ],
}


def neighbours_of(plan: Plan, device: str) -> dict[str, dict[str, Any]]:
    """What a switch sees by LLDP whose in-band cables are as planned."""
    found = {}
    for row in plan.cables[plan.cables["fabric"] == "inband"].to_dict("records"):
        for near, far in (("a", "b"), ("b", "a")):
            if row[f"{near}_device"] == device:
                seen = {"far": row[f"{far}_device"], "far_port": row[f"{far}_port"], "age_s": 9, "ttl_s": 3}
                found[row[f"{near}_port"]] = {"state": "up", **seen}
    return found


def storage_server(plan: Plan, server: str) -> dict[str, Any]:
    """What a storage server says that serves over its in-band links only."""
    ports, prefix = inband_ports(plan, server), str(plan.site.addressing.loopbacks)
    links = {port: {"mtu": plan.site.inband.mtu, "state": "UP"} for port in ports}
    first = prefix.split("/")[0]
    served = {"listening": [f"{first}:24007"], "clients": [first]}
    return {"storage": {"server": served, "routes": [{"destination": prefix, "interfaces": ports}]}, "links": links}


TRAINED = frozenset(item for item in FROM_RAW if item[:4] in ("S176", "S177", "S179", "S181", "S186", "S188"))
"""Items whose raw output is the recording of a training."""


GOOD: dict[str, Any] = {
    "count": 1,
    "day": "2027-02-20",
    "result": "passed, nothing found",
    "serial": "SN-1",
    "text": "yes",
}


def form_of(item: Item) -> dict[str, Any]:
    """A form of a passed act with a value for each field that may stand there."""
    made = {}
    for name in item.form:
        field = fields()[name]
        one = GOOD.get(field.kind, max(1.0, field.least))
        made[name] = [one] if field.many else one
    made |= {"role": item.signers[0], "outcome": "passed", "calibration": "2027-01-20"}
    return made | {name: "2099-01-01" for name in ("expiry",) if name in item.form}


def fitting(item: Item, subject: str, site: Site) -> dict[str, Any]:
    """A form about a subject of the small plan whose readings are those of site file and asset list."""
    listed = {"serial": f"SN-{subject}", "chassis_serial": f"SN-{subject}"}
    stated = {
        "autonomy_min": site.ups.autonomy_min,
        "ride_through_margin_s": site.ups.margin_s,
        "start_s": site.generator.start_s or 1.0,
    }
    return form_of(item) | {name: value for name, value in (listed | stated).items() if name in item.form}


def details(item: Item, subject: str, lab: bool, site: Site) -> dict[str, Any]:
    """What a passing record of the item needs besides the usual fields."""
    device = subject if subject in KINDS else "gpu001"
    made: dict[str, Any] = {"identities": simulated(subject) if lab else proven(device)}
    if item.kind in ("computed", "generated", "attested"):
        made["identities"] = ()
    if item.kind == "attested":
        made |= {"form": fitting(item, subject, site), "inputs": rows(SmallPlan(site), subject)}
    if item.id == APPROVAL_ITEM:
        made["inputs"] = {"plan": DIGEST}
    made |= numbers(item, site)
    if item.id in FROM_RAW and item.id != "S034.measured":
        made["raw"] = raw_of(item.id, subject, int(site.limits["collectives_max_size_b"].value))
        found = computed(item.id, subject, dataclasses.replace(plan_of("lab"), site=site), made["raw"])
        if isinstance(found, Again):  # not for racks and switches that the lab does not have
            made["value"] = json.loads(json.dumps(found.value))
            made |= {} if found.limit is None else {"limit": found.limit}
    if item.floor and item.floor.quantity == "duration_h":
        made["started"] = NOW - timedelta(hours=2 + item.floor.minimum)
    return made
