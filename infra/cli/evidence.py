"""Verbs about evidence: waive, gate."""

import argparse
import os
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.common import OK, SITE_HELP, add_out, add_site_option, add_verb, planned

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

PASSPHRASE_VARIABLE = "BRINGUP_KEY_PASSPHRASE"


def add(verbs: Any) -> None:
    """Add the verbs to the command line."""
    waive = add_verb(
        verbs, "waive", run_waive, "accept an open item or a plan finding until a date, signed by who answers for it"
    )
    waive.add_argument("item", metavar="ITEM", help="evidence item (S047.measured) or id of a plan finding")
    add_site_option(waive)
    waive.add_argument("--subject", default="*", help="asset or finding subject that it covers (default: all)")
    waive.add_argument("--owner", required=True, help="person who answers for it")
    waive.add_argument(
        "--expires", type=date.fromisoformat, required=True, metavar="YYYY-MM-DD", help="its last day (UTC)"
    )
    waive.add_argument("--reason", required=True, help="why it is acceptable until then")
    add_key(waive)
    add_out(waive)

    gate = add_verb(
        verbs, "gate", run_gate, "judge the evidence of every commissioning step; exit 0 only when go-live is allowed"
    )
    gate.add_argument("--site", metavar="SITE", required=True, help=SITE_HELP)
    gate.add_argument(
        "--rehearsal", action="store_true", help="judge only what the site's lab can exercise; can never allow go-live"
    )
    gate.add_argument("--json", action="store_true", help="print the verdict as JSON and nothing else")
    add_out(gate)


def add_key(arguments: argparse.ArgumentParser) -> None:
    """--key, the private key that signs."""
    arguments.add_argument(
        "--key",
        required=True,
        metavar="REFERENCE",
        help=f"ed25519 key: file:PATH, env:NAME or vault:PATH#FIELD (passphrase, if any: ${PASSPHRASE_VARIABLE})",
    )


def signer(reference: str, base: Path) -> "CryptoSigner":
    """The signer behind a key reference; relative files are looked up in `base`."""
    from inventory.secrets import resolve
    from validation.evidence.keys import load_signer

    passphrase = os.environ.get(PASSPHRASE_VARIABLE)
    return load_signer(resolve(reference, base=base).get_secret_value(), passphrase.encode() if passphrase else None)


def end_of(day: date) -> datetime:
    """The moment at which a day ends, UTC."""
    return datetime.combine(day + timedelta(days=1), time.min, tzinfo=UTC)


def run_waive(arguments: argparse.Namespace) -> int:
    from inventory.paths import var_dir
    from validation.evidence.store import Store
    from validation.register import load_register
    from validation.waive import Waiver, waive

    plan = planned(arguments.site)
    register = load_register()
    store = Store.open(var_dir(plan.site.name, arguments.out) / "evidence")
    key = signer(arguments.key, base=Path.cwd())
    store.enroll(key, role="approver", owner=arguments.owner)
    item = register.items.get(arguments.item)
    waiver = Waiver(arguments.item, arguments.subject, arguments.owner, end_of(arguments.expires), arguments.reason)
    known = register.subjects(item, plan) if item else []
    waive(store, register, waiver, [key], datetime.now(UTC), known)
    print(f"{waiver.item} {waiver.subject} is waived by {waiver.owner} until {arguments.expires}")
    return OK


def run_gate(arguments: argparse.Namespace) -> int:
    from inventory.site import load_site
    from validation import gate

    site = load_site(arguments.site)
    return gate.run(site, rehearsal=arguments.rehearsal, as_json=arguments.json, out=arguments.out)
