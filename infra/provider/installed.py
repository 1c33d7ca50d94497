"""`bringup:nodes:Installed`: the image that every server of one rack runs, written over the network or from a CD, and read back.

Inputs:
    site: name or path of the site; rack: its name
    place: [wave of energisation, place in the order of racks]; at_once: racks that may be written at the same time
    servers: {server: {address, node, serial, uuid, model, role, mac, drives: [...], image, sha256, bios: {...}}}
        address  of the BMC, node of the operating system; mac of the boot port; drives serial numbers
        image    version of the image, sha256 of its root file system
Outputs: `results` {server: "done" or what went wrong}; `steps` {server: step and stop, as the journal has it}.

An apply brings each server through inspect, firmware, bios, image and first boot to ready (infra/install/bring.py). A preview says
what would be written. Deleting the resource leaves the servers and their drives as they are.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from capacity.build import build
from capacity.services import boot
from capacity.services.boot.consents import remedy
from capacity.services.boot.life import BUDGET_S, Life, way_out
from capacity.services.boot.starting import Target, outlook
from infra.boot.built import IMAGES
from infra.boot.collect import Told, ask_drives, boot_server_name
from infra.install.boot_server import BootServer
from infra.install.bring import Bringing, Delivered, Doors, Heard, Journal
from infra.install.cds import Cds
from infra.install.media import INSERT_S
from infra.install.turns import NotBegunError, Turns
from infra.provider.fleet import Reach
from infra.provider.ledger import PowerLedger
from infra.provider.resource import Applied, Data, RefusedError
from infra.provider.servers import connect_bmc, power_budget_s, recorded, site_ledger
from infra.provider.shapes import SILENT, OfRack
from infra.provider.sites import Sites
from inventory.delivered.assets import load_assets
from inventory.delivered.firmware import BundleError, load_bundles
from inventory.paths import var_dir
from inventory.site import Site
from network.drivers.errors import DeviceError
from network.drivers.ssh import SshHost

SERVER_BUDGET_S = sum(BUDGET_S.values()) + 600.0
"""Per server: the time budgets of all its steps, and ten minutes for the looks between them."""
PREVIEW_BUDGET_S = 10.0
"""Per call in a preview: a login, 3 MB of each boot drive, and their hash."""
FAULTY_IMAGE = ("image-broken", "image-altered", "other-image")
"""Stops that speak against the image, not against the server."""


class StoppedError(DeviceError):
    """A server that stands still on its way to ready."""

    def __init__(self, life: Life) -> None:
        next_step = remedy(life.server, life.stopped, life.text)
        super().__init__(life.server, life.step, "ready", f"{life.stopped}: {life.text}", next_step)


class Makes(Protocol):
    """Makes the ways to a server, and the boot server of a site."""

    def boot(self, reference: str) -> Heard: ...

    def doors(self, reference: str, name: str, server: Data, heard: Heard) -> Doors: ...


class OverNetwork:
    """The real ones: Redfish, SSH, the ledger of servers that we switched on."""

    def __init__(self, sites: Sites, ledger: Callable[[Site], PowerLedger] = site_ledger) -> None:
        self._sites, self._ledger = sites, ledger

    def boot(self, reference: str) -> Heard:
        site = self._sites.get(reference)
        if site.provisioning.media:
            return Cds(var_dir(site.name) / IMAGES)
        plan = build(site, assets=load_assets(site))
        host = SshHost(
            boot_server_name(plan), str(boot.boot_server(plan)), self._sites.node(reference), site.timeouts.ssh_s
        )
        return BootServer(host)

    def doors(self, reference: str, name: str, server: Data, heard: Heard) -> Doors:
        site, ledger = self._sites.get(reference), self._ledger(self._sites.get(reference))
        node = SshHost(name, server["node"], self._sites.node(reference), site.timeouts.ssh_s)
        try:
            bundle = load_bundles(site).get(server["model"])
        except BundleError as error:
            raise RefusedError(str(error)) from None

        def firmware(inventory: Mapping[str, str]) -> list[str]:
            return bundle.faults(inventory, lambda package: True) if bundle else []

        def ask() -> Told:
            return ask_drives(node, server["uuid"], server["drives"])

        return Doors(
            connect_bmc(
                name,
                server,
                self._sites.bmc(reference, name),
                max(site.timeouts.bmc_s, power_budget_s(site), INSERT_S if site.provisioning.media else 0.0),
                recorded(site, name, server),
            ),
            heard,
            ask,
            firmware if bundle else None,
            lambda: ledger.has(name, server["serial"]),
            lambda: ledger.add(name, server["serial"]),
            media=f"{site.provisioning.media}/{server['role']}.iso" if site.provisioning.media else "",
        )


class Installed(OfRack):
    """Resource type; see the module's text."""

    token = "bringup:nodes:Installed"
    outputs = frozenset({"results", "steps"})
    devices = "servers"
    one = "image"
    everything = "all servers will be brought to ready"
    everything_of_one = "it will be brought to ready"
    budget_s = SERVER_BUDGET_S
    preview_budget_s = PREVIEW_BUDGET_S

    def __init__(
        self,
        sites: Sites,
        reach: Reach,
        makes: Makes | None = None,
        journal: Callable[[Site], Path] = lambda site: var_dir(site.name) / "pulumi" / "installing",
        **pace: Any,
    ) -> None:
        super().__init__(sites, reach)
        self._makes = makes or OverNetwork(sites)
        self._journal, self._pace = journal, pace
        self._turns: dict[str, Turns] = {}
        self._heard: dict[str, Heard] = {}

    def nothing_done(self, inputs: Data) -> Data:
        return {"results": {}, "steps": {}}

    def check(self, inputs: Data) -> list[tuple[str, str]]:
        """Each server has a boot port, drives of its own, and an image."""
        wrong, owners = [], dict[str, str]()
        for name, server in sorted(inputs["servers"].items()):
            for key in ("mac", "node", "image", "sha256", "drives"):
                if not server[key]:
                    wrong.append((f'servers["{name}"].{key}', f"{name}: {key} is empty"))
            for serial in server["drives"]:
                if serial in owners:
                    wrong.append(
                        (f'servers["{name}"].drives', f"{name}: drive {serial} is one of {owners[serial]} too")
                    )
                owners[serial] = name
        return wrong

    def preview(self, inputs: Data, state: Data | None) -> list[str]:
        """What would be written, server by server; a boot server that does not answer is named."""
        if self._reach.closed():
            return [f"{inputs['rack']}: {SILENT}: {self.everything}"]
        site, wanted = inputs["site"], inputs["servers"]
        heard = self._boot(site)
        try:
            offers = heard.offers()
        except DeviceError as error:
            by_cd = self._sites.get(site).provisioning.media  # whose error says how one is made
            way = "" if by_cd else "; bringup boot render and playbooks/boot.yml set the boot server up"
            return [f"nothing can be installed: {error}{way}"]
        journal = self._lives(site)

        def look(name: str) -> str:
            bringing = self._bringing(site, name, wanted[name], heard)
            offer = offers.get(bringing.delivered.hyphened)
            return outlook(bringing.target, offer, journal.read(name), bringing.now())

        outcome = self._each(wanted, look, "preview")
        return [*outcome.reasons(), *(line for _, line in sorted(outcome.done.items()) if line)]

    def apply(self, inputs: Data, state: Data | None) -> Applied:
        site, wanted = inputs["site"], inputs["servers"]
        journal = self._lives(site)
        turns = self._turns.setdefault(site, Turns())
        wave, place = inputs["place"]
        proven = any(journal.ready_with(version) for version in {server["image"] for server in wanted.values()})
        try:
            with turns.turn((int(wave), int(place)), int(inputs["at_once"]), proven=proven):
                outcome = self._each(
                    wanted, lambda name: self._brought(site, name, wanted[name], turns), "bring to ready"
                )
                lives = {name: journal.read(name) for name in wanted}
                if faulty := [life for life in lives.values() if life.stopped in FAULTY_IMAGE]:
                    turns.failed(
                        f"{faulty[0].server} of rack {inputs['rack']} stands as {faulty[0].stopped}: {faulty[0].text}"
                    )
        except NotBegunError as error:
            raise RefusedError(f"rack {inputs['rack']}: not-begun: {error}; {way_out('not-begun')}") from None
        steps = {name: " ".join(filter(None, (life.step, life.stopped))) for name, life in lives.items()}
        return self._applied(inputs, state, outcome, {"steps": steps})

    def read(self, state: Data) -> Applied:
        return self._read(state, PREVIEW_BUDGET_S, {})

    def delete(self, state: Data) -> list[str]:
        """Nothing is done: see the module's text."""
        return []

    def _observe(self, site: str, name: str, wanted: Data, budget_s: float) -> Data:
        """`wanted` with the image that runs in place of the wanted one. DeviceError where the node does not answer."""
        bringing = self._bringing(site, name, wanted, self._boot(site))
        words = (*bringing.doors.ask().running.split(), "", "", "")
        return wanted | {"role": words[0], "image": words[1], "sha256": words[2]}

    def _brought(self, site: str, name: str, server: Data, turns: Turns) -> list[str]:
        lines: list[str] = []
        bringing = self._bringing(site, name, server, self._boot(site))
        life = bringing.bring(lines.append)
        if not life.stopped or (life.step == "first-boot" and bringing.new_key):
            turns.worked()
        if life.stopped:
            raise StoppedError(life)
        return lines

    def _bringing(self, site: str, name: str, server: Data, heard: Heard) -> Bringing:
        target = Target(name, server["role"], server["image"], server["sha256"], tuple(server["drives"]))
        delivered = Delivered(server["serial"], server["uuid"], server["mac"], server["bios"])
        doors = self._makes.doors(site, name, server, heard)
        return Bringing(target, delivered, doors, self._lives(site), **self._pace)

    def _lives(self, site: str) -> Journal:
        return Journal(self._journal(self._sites.get(site)))

    def _boot(self, site: str) -> Heard:
        if site not in self._heard:
            self._heard[site] = self._makes.boot(site)
        return self._heard[site]
