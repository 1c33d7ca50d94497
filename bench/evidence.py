"""Time of reading and judging the evidence of 1,024 servers: `python -m bench.evidence [--records 200000] [--batch 1]`.

A log of made-up records, signed by a collector and a recorder that the site pins, is read and judged as the gate does: without
its memory, and with it. Prints seconds per stage and the peak memory; asserts nothing. Import of the program, plan and hash of
the program are left out: they do not grow with the evidence.
"""

import argparse
import itertools
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from securesystemslib.signer import CryptoSigner

from bench.plan import large_site
from capacity.build import build
from capacity.model import Plan
from inventory.paths import write_file
from inventory.site import Site
from inventory.site.sections.acceptance import AttestRole
from inventory.site.sections.credentials import EvidenceCredentials
from validation import freeze, gate
from validation.device_identity import configuration_of
from validation.evidence.begun import statement
from validation.evidence.keys import signer_of
from validation.evidence.mode import Identity
from validation.evidence.record import Record
from validation.evidence.store import Contents, collector_paused
from validation.evidence.trust import COLLECTOR_ROLE, RECORDER_ROLE, open_store, recorder_of
from validation.register import load_register
from validation.verdict import Verdict
from validation.waive import Waiver

SERVERS = 1024
T = TypeVar("T")
RAW_EVERY, RAW_BYTES = 1024, 64 << 10
"""One raw output for as many records: a check that asks all servers keeps what they said in one file."""


def signing_site(folder: Path) -> tuple[Site, CryptoSigner]:
    """A site of SERVERS servers that pins a collector and a recorder, and the collector; the recorder's key is in `folder`."""
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    path = write_file(folder / "recorder.pem", text)
    path.chmod(0o600)
    collector = signer_of(Ed25519PrivateKey.generate())
    site = large_site(SERVERS)
    roles = {
        COLLECTOR_ROLE: AttestRole(title="collects", keys=(collector.public_key.keyid,)),
        RECORDER_ROLE: AttestRole(title="records", keys=(signer_of(key).public_key.keyid,)),
    }
    evidence = EvidenceCredentials(key=f"file:{path}", recorder=f"file:{path}", role=COLLECTOR_ROLE)
    credentials = site.credentials.model_copy(update={"evidence": evidence})
    attest = site.attest.model_copy(update={"roles": {**site.attest.roles, **roles}})
    return site.model_copy(update={"attest": attest, "credentials_given": credentials}), collector


def records(plan: Plan, count: int) -> Iterator[Record]:
    """Passing records of the device items, server by server, each with three channels and the hashes of its inputs and row."""
    register = load_register()
    items = [item for item in register.items.values() if item.kind in ("measured", "observed", "applied")]
    servers = list(plan.devices.loc[plan.devices["kind"] == "server", "name"])[:SERVERS]
    hashes = dict(list(plan.hashes.items())[:4])
    made = datetime.now(UTC) - timedelta(hours=3)
    for number in range(count):
        item, server = items[number // len(servers) % len(items)], servers[number % len(servers)]
        at = made + timedelta(milliseconds=10 * number)
        yield Record(
            item.step,
            item.kind,
            server,
            "PASSED",
            at,
            at,
            "bringup validation",
            "0.1.0",
            command="pytest validation --site bench",
            value={"found": number},
            detail=f"{number} of {number} as planned",
            identities=tuple(
                Identity(server, channel, "banner of a device", f"SN{server}") for channel in ("ssh", "redfish", "dmi")
            ),
            aliases={server: (f"SN{server}",)},
            inputs=hashes,
            configuration={**freeze.configuration(), **configuration_of([server], {})},
            raw=bytes([number >> 10 & 255]) * RAW_BYTES if number % RAW_EVERY == 0 else None,
        )


def fill(
    site: Site, plan: Plan, collector: CryptoSigner, path: Path, count: int, batch: int, *, announced: bool = False
) -> None:
    """Write the log, without waiting for the disk after each line. ``announced``: each check begins in the line before."""
    store = open_store(site, path, plan=plan.hash, recorder=recorder_of(site))
    store.enroll(collector, COLLECTOR_ROLE, "bench")
    with mock.patch("os.fsync"):
        made = records(plan, count)
        while waiting := list(itertools.islice(made, batch)):
            if announced:
                store.append_statements(
                    [statement(one.item, one.subject, "begun", one.started, "bench") for one in waiting], collector
                )
            store.append(waiting, collector)


def timed(label: str, action: Callable[[], T]) -> T:
    """Run `action`; print its wall time, and the processor time of this process and its ended children."""

    def used() -> float:
        return sum(os.times()[:4])

    start, before = time.perf_counter(), used()
    result = action()
    print(f"{label:<56}{time.perf_counter() - start:8.1f} s{used() - before:8.1f} s of processors", flush=True)
    return result


def judged(plan: Plan, contents: Contents, waivers: Sequence[Waiver]) -> Verdict:
    """The verdict on what was read."""
    return gate.judge(load_register(), plan, contents, waivers, datetime.now(UTC))


def main() -> int:
    """Exit status 0 whatever the times are."""
    arguments = argparse.ArgumentParser(prog="python -m bench.evidence", description=__doc__.splitlines()[0])
    arguments.add_argument("--records", type=int, default=200_000, help="records in the log")
    arguments.add_argument("--batch", type=int, default=1, help="records per line; 1 is the slowest")
    arguments.add_argument(
        "--announced", action="store_true", help="each check announces itself, as those of a site do"
    )
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site, collector = signing_site(folder)
        plan = build(site)
        label = f"{given.records:,} records, {given.batch:,} per line: "
        evidence = folder / "evidence"
        write = partial(fill, site, plan, collector, evidence, given.records, given.batch, announced=given.announced)
        timed(f"{label}write", write)
        for what in ("without memory", "with memory"):
            with collector_paused():
                found = timed(f"{label}read {what}", lambda: gate.read(site, evidence))
                timed(f"{label}judge", partial(judged, plan, *found))
                del found
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
