"""switches: what a push would change on the compute switches of a RoCE site, and the push itself. Out-of-band switches are compared
with their files; nothing pushes to them (decision 0368)."""

import argparse
from typing import TYPE_CHECKING, Any

from infra.cli.common import JUDGED_NO, OK, UsageError, add_site, add_verb, planned, public_key

if TYPE_CHECKING:
    from network.push import Target

PREVIEW_S = 300.0
"""For all switches together; each driver has its own, smaller budget for a request."""


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    switches = verbs.add_parser(
        "switches", help="compute switches of a RoCE site: compare them with the plan, and configure them"
    )
    parts = switches.add_subparsers(title="verbs", metavar="VERB", required=True)
    preview = add_verb(parts, "preview", run_preview, "ask each switch what a push would change; nothing is written")
    push = add_verb(
        parts,
        "push",
        run_push,
        "configure the switches, each under its own rollback timer, and judge their BGP sessions",
    )
    for verb in (preview, push):
        add_site(verb)
        verb.add_argument("--only", action="append", default=[], metavar="SWITCH", help="this switch; may be repeated")
    preview.add_argument(
        "--network",
        choices=("compute", "oob"),
        default="compute",
        help="whose switches: compute (default), or oob, which are compared and never pushed to",
    )
    push.add_argument(
        "--untested",
        action="store_true",
        help="consent to use a driver that was never run on a device; begin with one switch",
    )


def run_preview(arguments: argparse.Namespace) -> int:
    from network.drivers.errors import DeviceError
    from network.drivers.parallel import within
    from network.push import preview, untested

    system, targets = _access_targets(arguments) if arguments.network == "oob" else _targets(arguments)
    if untested(system):
        print(f"Driver of {system}: {untested(system)}.")
    by_name = {target.name: target for target in targets}
    seen = within(by_name, lambda name: preview(by_name[name], system), PREVIEW_S, "compare configuration")
    for name, said in seen.items():
        print(
            f"{name}: {said}" if isinstance(said, DeviceError) else f"{name}:\n{said}" if said else f"{name}: no change"
        )
    return JUDGED_NO if any(isinstance(said, DeviceError) or said for said in seen.values()) else OK


def run_push(arguments: argparse.Namespace) -> int:
    from network.push import push, untested

    system, targets = _targets(arguments)
    if untested(system) and not arguments.untested:
        raise UsageError(
            f"driver of {system}: {untested(system)}; push --untested --only SWITCH tries it on one switch"
        )
    results = push(targets, os_name=system)
    for one in results:
        print(f"{one.name}: {one.result}{f' ({one.note})' if one.note else ''}")
    return OK if all(one.ok for one in results) else JUDGED_NO


def _access_targets(arguments: argparse.Namespace) -> tuple[str, "list[Target]"]:
    """(network OS, targets) of the out-of-band switches that are asked for."""
    from inventory.delivered.assets import load_assets
    from network import oob, roce
    from network.push import access_targets

    plan = planned(arguments.site)
    known, system = oob.switches(plan), plan.site.oob.nos
    if system is None:
        raise UsageError(f"{plan.site.name}: no configuration of out-of-band switches without oob.nos")
    for name in arguments.only:
        if name not in known:
            raise UsageError(f"{plan.site.name} has no out-of-band switch {name!r}; it has {', '.join(known)}")
    try:
        targets = access_targets(plan, load_assets(plan.site), arguments.only, public_key(plan.site, "switch"))
    except roce.PublicKeyError as error:
        raise UsageError(str(error)) from None
    if not targets:
        raise UsageError(
            f"{plan.site.name}: {system} is not known to run on the out-of-band switches that are asked for"
        )
    return system, targets


def _targets(arguments: argparse.Namespace) -> tuple[str, "list[Target]"]:
    """(network OS, targets) of the compute switches that are asked for."""
    from inventory.delivered.assets import load_assets
    from network import roce
    from network.push import compute_targets

    plan = planned(arguments.site)
    known, system = roce.switches(plan), plan.site.fabric.nos
    if not known or system is None or roce.missing_keys(plan.site):
        keys = ", ".join(roce.missing_keys(plan.site)) if known else "fabric.kind roce"
        raise UsageError(f"{plan.site.name}: no configuration of compute switches without {keys}")
    for name in arguments.only:
        if name not in known:
            raise UsageError(f"{plan.site.name} has no compute switch {name!r}; it has {', '.join(known)}")
    try:
        return system, compute_targets(plan, load_assets(plan.site), arguments.only, public_key(plan.site, "switch"))
    except roce.PublicKeyError as error:
        raise UsageError(str(error)) from None
