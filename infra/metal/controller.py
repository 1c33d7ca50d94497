"""The controller of the demo's cluster: a light node of the lab (infra/lab/node.py) on the segment, beside the virtual machines.

    with Controller(plan, paths, segment, ports, say) as controller:       it takes logins; controller.name, controller.address

It has a disk that outlives the demo, as the virtual machines have. Packages, time and the webhook of alerts come from the lab's
workstation (infra/lab/workstation.py) at the boot server's address.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

from capacity.model import Plan
from infra.boot.enrol import enrol
from infra.lab import base, net, node
from infra.lab.keys import WEBHOOK_PORT, ssh_key
from infra.lab.paths import LabError, LabPaths, lab_home, write_private
from infra.lab.spec import LabSpec, Network, Server, SnmpUser, port_mac
from infra.metal.inband import Port
from infra.metal.segment import Segment
from inventory.paths import repo_root

ROLE = "controller"
READY_S = 120.0
"""For the node to take logins: light nodes boot within seconds (limit node_ready_s of embedded-lab: 90 s for all of a lab)."""
CONNECT_S = 5.0
"""Of one attempt to connect."""
POLL_S = 0.5
UUID = "5d2c1f0a-3a51-5f8e-9a77-2b6f4d9c1c01"
"""Of the demo's controller: made up."""


def light_spec(plan: Plan) -> LabSpec:
    """What is built beside the virtual machines: the controller."""
    site = plan.site
    device = str(plan.devices.loc[plan.devices["role"] == ROLE, "name"].iloc[0])
    own = plan.addresses[plan.addresses["device"] == device].set_index("interface")["address"].str.partition("/")[0]
    row = plan.devices[plan.devices["name"] == device].to_dict("records")[0]
    server = Server(
        name=device,
        role=ROLE,
        model=str(row["model"]),
        serial=f"SIM-{device}",
        uuid=UUID,
        bmc_address=own["bmc"],
        bmc_mac=port_mac(site.name, device, "bmc"),
        address=own["eth0"],
        mac=port_mac(site.name, device, "eth0"),
        ports=tuple(sorted(name for name in own.index if name.startswith("eth"))),
        psus=int(row["psu_count"]),
        psus_needed=1,
        psu_rating_w=0.0,
        input_v=0.0,
        load_w=float(row["measured_w"]),
        bios_version="",
        bmc_version="",
    )
    boot_server, credentials = str(site.provisioning.server), site.credentials
    return LabSpec(
        name=site.name,
        oob=Network(str(site.addressing.oob), boot_server),
        provisioning=Network(str(site.addressing.provisioning), boot_server),
        snmp=SnmpUser(credentials.snmp.user, credentials.snmp.auth_protocol, credentials.snmp.priv_protocol),
        bmc_factory_user=credentials.bmc.user,
        switch_user=credentials.switch.user,
        servers=(server,),
        switches=(),
        pdus=(),
        outlets=(),
        cables=(),
    )


class Controller:
    """The light node for as long as the block lasts. The segment is up; `ports` are its in-band ports, already joined to it."""

    def __init__(
        self, plan: Plan, paths: LabPaths, segment: Segment, ports: Sequence[Port], say: Callable[[str], None]
    ) -> None:
        self.paths, self.segment, self.say = paths, segment, say
        self.spec = light_spec(plan)
        self.server = self.spec.servers[0]
        self.ports = [port for port in ports if port.device == self.server.name]
        self.bay = self.spec.namespace("bay")

    @property
    def name(self) -> str:
        return self.server.name

    def __enter__(self) -> "Controller":
        image = base.ensure(self.say)
        self.spec = replace(self.spec, base_root=str(image.root), debs=str(image.debs))
        write_private(self.paths.spec, self.spec.to_json())
        self.paths.logs.mkdir(exist_ok=True)
        self._keys()
        env = {"BRINGUP_LAB_HOME": str(lab_home()), "PYTHONPATH": str(repo_root()), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [sys.executable, "-m", "infra.lab.workstation", self.spec.name]
        self.segment.start(argv, self.segment.state / "workstation.log", {**os.environ, **env})
        net.ip([f"netns add {self.bay}"])
        try:
            self._plug()
            self.process = node.start(self.spec, self.server, "Hdd")
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        node.cut(self.spec, self.server)
        net.ip([f"netns delete {self.bay}"], force=True)

    def _keys(self) -> None:
        """Its host key, made once and enrolled, and where alerts would go."""
        key = self.paths.device(self.name) / "ssh" / "ssh_host_ed25519_key"
        if not key.exists():
            ssh_key(key, self.name)
        public = " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])
        enrol(self.paths.known_hosts, self.server.address, [public])
        url = f"http://{self.spec.provisioning.host}:{WEBHOOK_PORT}/alerts/demo"
        write_private(self.paths.secrets / "alert_webhook", f"{url}\n")

    def _plug(self) -> None:
        """Its provisioning port, joined to the segment's bridge, and its in-band ports, in the bay until it starts."""
        own = net.short(f"{self.name}.eth0")
        inside = self.segment.network.namespace
        net.ip(
            [f"link add {own} address {self.server.mac} netns {self.bay} type veth peer name ctl-eth0 netns {inside}"]
        )
        net.ip(["link set ctl-eth0 master br0 up"], inside)
        for port in self.ports:
            name = net.short(f"{self.name}.{port.name}")
            net.ip([f"link set {port.tap}x netns {self.bay} name {name}"], inside)

    def _wait(self) -> None:
        """Until it takes connections."""
        end = time.monotonic() + READY_S
        test = self.segment.enter(["bash", "-c", f"exec 3<>/dev/tcp/{self.server.address}/22"])
        while not _connects(test):
            if self.process.poll() is not None or time.monotonic() > end:
                raise LabError(f"{self.name} does not start: {self.paths.logs / f'{self.name}.log'}")
            time.sleep(POLL_S)


def _connects(test: Sequence[str]) -> bool:
    """Whether a test of a connection succeeds within CONNECT_S."""
    try:
        return subprocess.run(test, check=False, capture_output=True, timeout=CONNECT_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False
