"""bmc: TLS certificates of the site's CA for BMCs as delivered, which every other command asks for; restarts of servers."""

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.common import CANNOT, OK, UsageError, add_site, add_verb, planned, progress_lines
from infra.cli.firmware import doors_of
from inventory.paths import read_file, write_file

if TYPE_CHECKING:
    from capacity.model import Plan
    from infra.install.certificates import Contact

CERTIFICATE_BYTES = 64 << 10
"""Most of a certificate's file that is read, with its intermediates."""
ANSWERS = "answers under credentials.bmc.ca already"


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    text = "give BMCs as delivered TLS certificates of the site's CA; restart servers"
    bmc = verbs.add_parser("bmc", help=text, description=text[0].upper() + text[1:] + ".")
    acts = bmc.add_subparsers(title="actions", metavar="ACTION", required=True)
    requests = add_verb(
        acts,
        "requests",
        run_requests,
        "take over BMCs that do not answer under credentials.bmc.ca yet, and have each make a key and a signing request: "
        "SERVER.csr, with what the CA adds in SERVER.ext",
    )
    certificates = add_verb(
        acts,
        "certificates",
        run_certificates,
        "install what the CA gave for these requests: SERVER.pem beside SERVER.csr",
    )
    for act in (requests, certificates):
        add_site(act)
        act.add_argument("--dir", type=Path, required=True, metavar="DIR", help="folder of requests and certificates")
        act.add_argument(
            "--server",
            action="append",
            default=[],
            metavar="NAME",
            help="only this server, also where it answers under the CA already; may be repeated",
        )
    again = add_verb(
        acts,
        "restart",
        run_restart,
        "shut servers down that run no jobs and switch them on again: the power action that S016 asks for",
    )
    add_site(again)
    again.add_argument("--server", action="append", required=True, metavar="NAME", help="this server; may be repeated")
    again.add_argument(
        "--no-scheduler", action="store_true", help="no scheduler stands yet: servers that are on count as idle"
    )
    requests.add_argument(
        "--subject",
        required=True,
        metavar="TEXT",
        help="what the certificates have in common: C=DE,ST=Bavaria,L=Munich,O=Example,OU=BMC. CN is the server's name",
    )


def run_requests(arguments: argparse.Namespace) -> int:
    from infra.install.certificates import extensions, presented_pin, request, subject_of
    from network.drivers import tls

    try:
        subject = subject_of(arguments.subject)
    except ValueError as error:
        raise UsageError(f"--subject {arguments.subject}: {error}") from None

    def one(contact: "Contact") -> str:
        if not arguments.server and tls.verified(contact.address, contact.ca, contact.port):
            return ANSWERS
        ext, pin, csr = _files(arguments, contact, ".ext", ".pin", ".csr")
        made_under = read_file(pin, CERTIFICATE_BYTES) if csr.exists() and pin.exists() else None
        if not arguments.server and made_under == presented_pin(contact).encode():
            return f"kept {csr}, which waits for the CA; --server {contact.name} has the BMC make a new key and request"
        asked = request(contact, subject)
        csr.unlink(missing_ok=True)  # from now on the BMC has another key; the new one is written last
        for path, text in ((ext, extensions(contact.address)), (pin, asked.pin), (csr, asked.csr)):
            write_file(path, text)
        return f"wrote {csr}"

    return _each(arguments, one)


def run_certificates(arguments: argparse.Namespace) -> int:
    from infra.install.certificates import faults, install, presented_pin
    from network.drivers import tls
    from network.drivers.errors import WriteRefused

    def one(contact: "Contact") -> str:
        pem, csr, pin = _files(arguments, contact, ".pem", ".csr", ".pin")
        if not pem.exists():
            return f"left as it is: there is no {pem}"
        try:
            given, asked, pinned = (read_file(path, CERTIFICATE_BYTES) for path in (pem, csr, pin))
            changed = pinned.decode() != presented_pin(contact)
            if changed and tls.verified(contact.address, contact.ca, contact.port):
                return ANSWERS
            found = faults(given, asked, contact.address, contact.ca.read_bytes(), datetime.now(UTC))
        except (OSError, ValueError) as error:
            found = [str(error)]
        if found:
            way = f"sign {csr} again with the extensions in {csr.stem}.ext, or run bringup bmc requests --server {contact.name}"
            raise WriteRefused(contact.name, "install certificate", f"the answer to {csr}", "; ".join(found), way)
        install(contact, pinned.decode(), given.decode())
        return "answers under credentials.bmc.ca"

    return _each(arguments, one)


def run_restart(arguments: argparse.Namespace) -> int:
    from infra.firmware.flash import FlashError, restart
    from network.drivers.errors import DeviceError
    from network.drivers.parallel import at_once

    plan = planned(arguments.site)
    _refuse_unknown(arguments.server, plan)
    doors, say = doors_of(plan, arguments.server, no_scheduler=arguments.no_scheduler), progress_lines()

    def one(name: str) -> str:
        try:
            restart(name, doors(name), lambda server, text: say(f"{server}: {text}"))
        except (FlashError, DeviceError) as error:
            return str(error)
        say(f"{name}: power is on again")
        return ""

    failed = [why for why in at_once(arguments.server, one).values() if why]
    for why in failed:
        print(why, file=sys.stderr)
    return CANNOT if failed else OK


def _files(arguments: argparse.Namespace, contact: "Contact", *endings: str) -> list[Path]:
    return [arguments.dir / f"{contact.name}{ending}" for ending in endings]


def _each(arguments: argparse.Namespace, work: "Callable[[Contact], str]") -> int:
    """Exit status after `work` on all BMCs that are asked for; what it says, or its error, is a line of each."""
    from network.drivers.errors import DeviceError
    from network.drivers.parallel import at_once

    contact, servers = _contacts(arguments)

    def told(name: str) -> str | DeviceError:
        try:
            return work(contact(name))
        except DeviceError as error:
            return error

    answers = at_once(servers, told)
    failed = [answer for answer in answers.values() if isinstance(answer, DeviceError)]
    for name, answer in answers.items():
        if not isinstance(answer, DeviceError):
            print(f"{name}: {answer}")
    for error in failed:
        print(error, file=sys.stderr)
    return CANNOT if failed else OK


def _contacts(arguments: argparse.Namespace) -> "tuple[Callable[[str], Contact], list[str]]":
    """(what makes the contact to a server's BMC, the servers that are asked for). Passwords are looked up with the contact."""
    from infra.install.certificates import Contact
    from inventory.delivered.assets import load_assets
    from inventory.secrets import site_path
    from network.drivers.credentials import BmcCredentials, bmc_credentials, factory_credentials
    from network.drivers.redfish import Bmc
    from validation.facts.gather import address_book, asset

    plan = planned(arguments.site)
    site, assets, book = plan.site, load_assets(plan.site), address_book(plan)
    servers = _refuse_unknown(arguments.server, plan)
    own, factory = bmc_credentials(site, assets), factory_credentials(site, assets)
    ca = site_path(site.credentials.bmc.ca, site.dir)

    def contact(name: str) -> Contact:
        address = book[name, "bmc"]
        serial, uuid = asset(assets, name, "serial"), asset(assets, name, "uuid")

        def connect(credentials: BmcCredentials) -> Bmc:
            return Bmc(address, credentials, site.timeouts.bmc_s, name=name, serial=serial, uuid=uuid)

        return Contact(name, address, ca, connect, own(name), factory(name) if factory else None)

    return contact, arguments.server or servers


def _refuse_unknown(named: list[str], plan: "Plan") -> list[str]:
    """All servers of the plan. UsageError where one that is named is none of them."""
    servers: list[str] = plan.devices.loc[plan.devices["kind"] == "server", "name"].tolist()
    if unknown := sorted(set(named) - set(servers)):
        raise UsageError(f"{plan.site.name} has no server {', '.join(unknown)}")
    return servers
