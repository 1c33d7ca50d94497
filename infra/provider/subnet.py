"""`bringup:network:SubnetManager`: the InfiniBand subnet manager (opensm) of one host.

Inputs:
    site: name or path of the site; host: its name; address: of its operating system
    guid: of the adapter port that it manages the subnet from; the host's identity for this resource
    files: {path: text} of everything it reads, rendered from the plan; pins: {package: upstream version}
    ready_s: how long a host that was just powered on may take until it answers
    drift: lines by which the host differs, always [] in what is wanted; a refresh fills it
Output `pushed`: the lines that the last push changed.

A push installs what is missing from the host's own package sources, writes the files, starts the service and waits
until this host's manager answers as master or standby; nothing is restarted when nothing differs. What is read back is
the running service: a manager that still runs on older files than those on disk is drift. Deleting the resource stops
the manager and removes its files: the fabric is left without one, as delivered.
"""

from collections.abc import Callable
from typing import Protocol

from infra.provider.fleet import Reach, line
from infra.provider.resource import Applied, Data
from infra.provider.shapes import OfHost, observed_only
from infra.provider.sites import Sites
from inventory.secrets import SecretError
from network.drivers.credentials import SshCredentials
from network.drivers.errors import DeviceError
from network.infiniband.manager import ManagerHost, Wanted


class SubnetHost(Protocol):
    """What this resource needs of a host."""

    def compare(self, wanted: Wanted) -> list[str]: ...

    def apply(self, wanted: Wanted) -> list[str]: ...

    def remove(self) -> None: ...


Connect = Callable[[SshCredentials, Data, float], SubnetHost]
"""A host from credentials, inputs, and the budget of one read in seconds."""


def connect_host(credentials: SshCredentials, inputs: Data, budget_s: float) -> ManagerHost:
    """The host over SSH."""
    return ManagerHost(
        inputs["host"], inputs["address"], credentials, budget_s=budget_s, ready_s=float(inputs["ready_s"])
    )


class SubnetManager(OfHost):
    """Resource type; see the module's text."""

    token = "bringup:network:SubnetManager"
    key = "host"
    everything = "a subnet manager will be set up"

    def __init__(self, sites: Sites, reach: Reach, connect: Connect = connect_host) -> None:
        super().__init__(sites, reach)
        self._connect = connect

    def check(self, inputs: Data) -> list[tuple[str, str]]:
        """There must be files, and the port that they manage the subnet from."""
        wrong = []
        if not inputs["files"]:
            wrong.append(("files", f"{inputs['host']}: a subnet manager needs its configuration"))
        if not inputs["guid"]:
            wrong.append(("guid", f"{inputs['host']}: the GUID of its adapter port is empty; complete assets.csv"))
        return wrong + observed_only(inputs)

    def apply(self, inputs: Data, state: Data | None) -> Applied:
        return self._applied(inputs, self._host(inputs).apply(_wanted(inputs)))

    def delete(self, state: Data) -> list[str]:
        try:
            self._host(state).remove()
        except (DeviceError, SecretError) as error:
            return [line(state["host"], error)]
        return []

    def _compare(self, inputs: Data) -> list[str]:
        return self._host(inputs).compare(_wanted(inputs))

    def _host(self, inputs: Data) -> SubnetHost:
        budget_s = self._sites.get(inputs["site"]).timeouts.ssh_s
        return self._connect(self._sites.node(inputs["site"]), inputs, budget_s)


def _wanted(inputs: Data) -> Wanted:
    return Wanted(inputs["guid"], inputs["files"], inputs["pins"])
