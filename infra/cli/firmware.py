"""firmware: what runs on the site's servers against its bundles, and the roll-out by stages."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from infra.cli.common import CANNOT, JUDGED_NO, OK, UsageError, add_site, add_verb, planned, progress_lines

if TYPE_CHECKING:
    import pandas as pd

    from capacity.model import Plan
    from infra.firmware.flash import Doors
    from inventory.delivered.firmware import Bundle
    from network.drivers.redfish import Bmc

AT_ONCE = 16
"""Servers of a stage: two racks of four air-cooled servers, twice over. Site choice of this program; --at-once changes it."""


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    text = "compare the firmware of all servers with the site's bundles, and roll a bundle out"
    firmware = verbs.add_parser("firmware", help=text, description=text[0].upper() + text[1:] + ".")
    acts = firmware.add_subparsers(title="actions", metavar="ACTION", required=True)
    plan = add_verb(
        acts,
        "plan",
        run_plan,
        "list firmware that differs from the bundles, and the order in which apply would install it",
    )
    apply = add_verb(
        acts, "apply", run_apply, "install what differs: one server of a model, its rack, then rack by rack"
    )
    for act in (plan, apply):
        add_site(act)
        act.add_argument(
            "--server", action="append", default=[], metavar="NAME", help="only this server; may be repeated"
        )
        act.add_argument(
            "--at-once", type=int, default=AT_ONCE, metavar="N", help=f"most servers of a stage (default: {AT_ONCE})"
        )
    apply.add_argument(
        "--no-scheduler",
        action="store_true",
        help="no scheduler stands yet: servers that are on count as idle",
    )


def run_plan(arguments: argparse.Namespace) -> int:
    from infra.firmware import rollout

    plan, servers, bundles = _chosen(arguments)
    inventories, silent = _inventories(plan, servers["name"].tolist())
    table = rollout.versions(inventories, bundles)
    for line in rollout.told(table):
        print(line)
    for line in silent.values():
        print(line, file=sys.stderr)
    todo = servers[servers["name"].isin(table.loc[table["runs"] != table["wanted"], "server"])]
    for number, stage in enumerate(rollout.stages(todo, arguments.at_once), start=1):
        print(f"stage {number}, {stage.name}: {', '.join(stage.servers)}")
    return CANNOT if silent else JUDGED_NO if len(todo) else OK


def run_apply(arguments: argparse.Namespace) -> int:
    from infra.firmware import rollout
    from infra.firmware.apply import roll_out

    plan, servers, bundles = _chosen(arguments)
    names = servers["name"].tolist()
    inventories, silent = _inventories(plan, names)
    if silent:
        for line in silent.values():
            print(line, file=sys.stderr)
        print(
            "nothing was changed: repair these BMCs, or leave their servers out by naming the others with --server",
            file=sys.stderr,
        )
        return CANNOT
    todo = [name for name in names if rollout.outstanding(bundles[name], inventories[name])]
    doors = doors_of(plan, arguments.server, no_scheduler=arguments.no_scheduler)
    stages = rollout.stages(servers[servers["name"].isin(todo)], arguments.at_once)
    say = progress_lines()

    def read_again(names: Iterable[str]) -> dict[str, str]:
        """Take the versions of these servers as they are now; which of them do not answer, and why."""
        answers, unread = _inventories(plan, list(names))
        inventories.update(answers)
        for name in unread:
            inventories.pop(name, None)
        return unread

    def after(stage: rollout.Stage) -> None:
        read_again(stage.servers)
        for line in rollout.mixed(rollout.versions(inventories, bundles)):
            say(f"after {stage.name}: {line}")

    outcome = roll_out(stages, bundles, doors, say, after)
    unread = read_again(todo) if outcome.failed else {}
    report = rollout.mixed(rollout.versions(inventories, bundles))
    for line in report or [f"no package runs in two versions on {len(inventories)} servers that answer"]:
        print(line)
    for name in unread:
        print(f"{name}: what it runs now is not known, its BMC does not answer", file=sys.stderr)
    for text in outcome.failed:
        print(text, file=sys.stderr)
    if outcome.failed:
        print(f"stopped after this stage: {outcome.untouched} servers of later stages are untouched", file=sys.stderr)
        return CANNOT
    print(f"{len(todo)} servers brought to their bundles, {len(names) - len(todo)} had them")
    return OK


def _chosen(arguments: argparse.Namespace) -> "tuple[Plan, pd.DataFrame, dict[str, Bundle]]":
    """(plan, servers that have a bundle: columns name, model, rack; bundle by server). UsageError where there is none."""
    from inventory.delivered.firmware import FIRMWARE_DIR, load_bundles

    plan = planned(arguments.site)
    if arguments.at_once < 1:
        raise UsageError(f"--at-once {arguments.at_once}: a stage has at least one server")
    bundles = load_bundles(plan.site)
    if not bundles:
        raise UsageError(
            f"{plan.site.name} has no bundles: write {plan.site.dir / FIRMWARE_DIR}/MODEL.yaml (docs/firmware.md)"
        )
    servers = plan.devices.loc[plan.devices["kind"] == "server", ["name", "model"]].merge(
        plan.placements[["device", "rack"]], left_on="name", right_on="device"
    )
    if unknown := sorted(set(arguments.server) - set(servers["name"])):
        raise UsageError(f"{plan.site.name} has no server {', '.join(unknown)}")
    if arguments.server:
        servers = servers[servers["name"].isin(arguments.server)]
        if without := servers.loc[~servers["model"].isin(list(bundles)), "model"].unique().tolist():
            raise UsageError(f"no bundle of {', '.join(without)}; there are bundles of {', '.join(bundles)}")
    servers = servers[servers["model"].isin(list(bundles))].reset_index(drop=True)
    return plan, servers, {name: bundles[model] for name, model in servers[["name", "model"]].itertuples(index=False)}


def _inventories(plan: "Plan", names: list[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """({server: {item: version}}, {server that did not answer: why})."""
    from inventory.delivered.assets import load_assets
    from network.drivers.errors import DeviceError
    from network.drivers.parallel import at_once
    from validation.facts.gather import bmc_factory

    made = bmc_factory(plan, load_assets(plan.site))

    def ask(name: str) -> dict[str, str] | DeviceError:
        try:
            return made(name).firmware()
        except DeviceError as error:
            return error

    answers: Mapping[str, dict[str, str] | DeviceError] = at_once(names, ask)
    read = {name: answer for name, answer in answers.items() if not isinstance(answer, DeviceError)}
    return read, {name: str(answer) for name, answer in answers.items() if isinstance(answer, DeviceError)}


def doors_of(plan: "Plan", named: Collection[str], *, no_scheduler: bool) -> Callable[[str], "Doors"]:
    """What gives the ways to a server. named: servers that the person has named, also those that serve the cluster."""
    from infra.firmware.flash import SHUTDOWN_S, Doors
    from inventory.delivered import power_acts
    from inventory.delivered.assets import load_assets
    from inventory.paths import var_dir
    from validation.facts.gather import bmc_factory

    assets = load_assets(plan.site)
    from_plan, folder = bmc_factory(plan, assets), power_acts.folder_of(var_dir(plan.site.name))
    role = plan.devices.set_index("name")["role"]

    def busy(server: str) -> str:
        if role[server] != "gpu":
            return "" if server in named else f"it serves the cluster ({role[server]}): name it by --server {server}"
        return "" if no_scheduler else _busy(plan, server)

    def made(server: str) -> "Bmc":
        bmc = from_plan(server)
        bmc.acted = power_acts.recorder(folder, server, bmc.serial)
        return bmc

    def patient(server: str) -> "Bmc":
        bmc = made(server)
        bmc.budget_s = max(bmc.budget_s, SHUTDOWN_S)
        return bmc

    return lambda server: Doors(
        made(server), patient(server), lambda: busy(server), lambda: _ac_cycle(plan, server, assets)
    )


def _busy(plan: "Plan", server: str) -> str:
    from network.drivers.errors import DeviceError
    from validation.runners import slurm

    try:
        known = slurm.connect(plan).nodes()
    except DeviceError as error:
        return f"it is on, and whether jobs run on it is not known ({error}); where no scheduler stands yet, say --no-scheduler"
    state = known[server].state if server in known else "unknown to it"
    if state == "drained":
        return ""
    return (
        f"Slurm calls it {state}, and jobs may run on it: "
        f"scontrol update NodeName={server} State=DRAIN Reason=maintenance, then wait until it is drained"
    )


def _ac_cycle(plan: "Plan", server: str, assets: "pd.DataFrame") -> None:
    from infra.firmware.flash import DARK_S, FlashError
    from network.drivers.credentials import snmp_credentials
    from network.drivers.errors import DeviceError
    from network.drivers.parallel import many
    from network.drivers.pdu import Pdu
    from validation.facts.gather import address_of, asset

    outlets = plan.outlets[plan.outlets["device"] == server]
    if outlets.empty:
        raise FlashError(
            server,
            "activating",
            "no outlet of a rack PDU feeds it (it has a power shelf): switch the shelf or the tray off by hand",
        )
    snmp, budget_s = snmp_credentials(plan.site), plan.site.timeouts.snmp_s
    numbers = {str(name): [int(number) for number in rows["outlet"]] for name, rows in outlets.groupby("pdu")}
    pdus = [
        Pdu(
            address_of(plan, name, "oob"),
            snmp,
            budget_s,
            name=name,
            serial=asset(assets, name, "serial"),
            dialect=plan.pdu_dialect,
        )
        for name in numbers
    ]

    def switch(on: bool) -> list[DeviceError]:
        answers = many(pdus, lambda pdu: pdu.set_outlets(dict.fromkeys(numbers[pdu.name], on)))
        return [answer for answer in answers.values() if isinstance(answer, DeviceError)]

    failed = switch(False)
    if not failed:
        time.sleep(DARK_S)
    failed += switch(True)  # also where one was not switched off
    if failed:
        raise failed[0]
