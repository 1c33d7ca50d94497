"""The challenge that proves a PDU: one of its outlets is switched off, and the server that hangs there loses a supply.

    seen = outlet_cuts(plan, drained={"gpu001"})     # identities of PDUs and servers, for the ledger of channels

Only for a site that says validation.challenges, and only at drained servers with at least two supplies that all have input.
The outlet is switched on again whatever happens; what then does not come back is raised as a DeviceError.
"""

import time
from collections.abc import Collection

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from network.drivers.credentials import snmp_credentials
from network.drivers.errors import DeviceError, WriteRefused
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc
from validation.evidence import Identity
from validation.facts.answer import Facts
from validation.facts.gather import address_of, asset, bmc_factory

SEEN_S = 30.0
"""Until a BMC reports that a supply has lost or regained its input (engineering experience, not looked up)."""
POLL_S = 0.5


def drained_nodes(facts: Facts) -> set[str]:
    """Nodes that a Slurm controller calls drained, which run nothing; one that another controller calls otherwise is not."""
    said = [node.data.get("slurm", {}).get("nodes", {}) for node in facts.nodes.values()]
    states = [(name, one["state"]) for nodes in said for name, one in nodes.items()]
    return {name for name, state in states if state == "drained"} - {
        name for name, state in states if state != "drained"
    }


def outlet_cuts(plan: Plan, drained: Collection[str]) -> tuple[Identity, ...]:
    """What PDUs and BMCs show when one outlet of each PDU is cut. A PDU without a fit server, or that shows nothing, has none.

    Raises DeviceError if an outlet does not come back.
    """
    if not plan.site.validation.challenges:
        return ()
    assets, snmp, budget_s = load_assets(plan.site), snmp_credentials(plan.site), plan.site.timeouts.snmp_s
    made, found = bmc_factory(plan, assets), []
    rows = plan.outlets[plan.outlets["device"].isin(list(drained))]
    for name, outlets in rows.groupby("pdu"):
        row = outlets.iloc[0]
        server, number, serial = str(row["device"]), int(row["outlet"]), asset(assets, str(name), "serial")
        address, dialect = address_of(plan, str(name), "oob"), plan.pdu_dialect
        with Pdu(address, snmp, budget_s, name=str(name), serial=serial, dialect=dialect) as pdu:
            bmc = made(server)
            try:
                seen_pdu, seen_server = pdu.identity(), bmc.identity()
            except DeviceError:
                continue
            if not cut(pdu, number, bmc):
                continue
        text = f"outlet {number} off and on: a supply of {server} lost its input and regained it"
        found += [
            Identity(str(name), "outlet-cut", text, seen_pdu["serial"], observer=server),
            Identity(server, "supply-lost", text, seen_server["serial"], observer=str(name)),
        ]
    return tuple(found)


def with_input(bmc: Bmc) -> int:
    """How many supplies of a server are healthy and have input."""
    return sum(
        psu["state"] == "Enabled" and psu["health"] == "OK" and bool(psu["input_v"]) for psu in bmc.psus()["psus"]
    )


def cut(pdu: Pdu, number: int, bmc: Bmc, *, seen_s: float = SEEN_S) -> bool:
    """Whether exactly one supply lost its input while the outlet was off, and all had it before and afterwards.

    False without a cut for a server that would lose its last supply, or has lost one already.
    """
    supplies = bmc.psus()["psus"]
    before = with_input(bmc)
    if before < 2 or before != len(supplies):
        return False
    try:
        pdu.set_outlet(number, False)
        lost = _becomes(bmc, before - 1, seen_s)
    finally:
        pdu.set_outlet(number, True)
    if not _becomes(bmc, before, seen_s):
        raise WriteRefused(
            pdu.name,
            f"switch outlet {number} on again",
            f"{before} supplies of {bmc.name} with input",
            f"{with_input(bmc)}",
            "look at the outlet and at the supply; the server runs on its other supplies",
        )
    return lost


def _becomes(bmc: Bmc, wanted: int, seen_s: float) -> bool:
    end = time.monotonic() + seen_s
    while with_input(bmc) != wanted:
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True
