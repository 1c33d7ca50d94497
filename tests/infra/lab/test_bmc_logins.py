"""Simulated BMCs with logins of their own, over TLS: the factory's password of each is on its label, and each gets another one."""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from bench.bmcs import LAB, emulator, spec
from infra.install.takeover import take_over
from infra.lab import keys
from infra.lab.paths import LabPaths
from infra.lab.powerd import PowerServer
from infra.metal.bmcs import Load, Machines
from infra.metal.machines import Machine, Power
from inventory.paths import site_dir
from inventory.site import Site, load_site
from network.drivers.credentials import BmcCredentials, bmc_credentials, factory_credentials
from network.drivers.errors import LoginRefused, OtherDeviceChanged, PasswordChangeRequired
from network.drivers.redfish import Bmc

pytestmark = pytest.mark.lab
CALL_S = 20.0
FIRST = "gpu0001"
"""Its BMC does nothing before its password is changed."""
SERVERS = {one.name: one for one in (spec(1), spec(2))}


class Running:
    """Two BMCs as delivered, and a site whose tables have the passwords on their labels and those that they get."""

    def __init__(self, folder: Path) -> None:
        self.paths = LabPaths(LAB)
        keys.bmc_certificate(self.paths, [server.bmc_address for server in SERVERS.values()])
        self.loads = {}
        for name, server in SERVERS.items():
            machine = Machine(name, server.mac, "", False, (), folder, serial=server.serial, uuid=server.uuid)
            self.loads[name] = Load(server, Power(machine, ""), "admin", f"label-{name}", must_change=name == FIRST)
        self.assets = pd.DataFrame(
            {"serial": server.serial, "mgmt_mac": server.bmc_mac} for server in SERVERS.values()
        ).set_index(pd.Index(SERVERS))

    def site(self) -> Site:
        table = self.paths.root / "labels.csv"
        rows = (f"{server.bmc_mac},label-{name},own-{name}\n" for name, server in SERVERS.items())
        table.write_text("mac,factory,own\n" + "".join(rows))
        table.chmod(0o600)
        text = (site_dir("lab") / "site.yaml").read_text()
        home = "/var/lib/bringup/labs/lab/"
        text = text.replace(f'"file:{home}secrets/bmc_password_{{device}}"', '"table:labels.csv#own"')
        text = text.replace(f'"file:{home}secrets/bmc_factory_password"', '"table:labels.csv#factory"')
        path = self.paths.root / "site.yaml"
        path.write_text(text.replace(home, ""))
        return load_site(path)

    def connect(self, name: str) -> Callable[[BmcCredentials], Bmc]:
        server = SERVERS[name]
        return lambda login: Bmc(server.bmc_address, login, CALL_S, name=name, serial=server.serial, uuid=server.uuid)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("BRINGUP_LAB_HOME", folder)
        LabPaths(LAB).root.mkdir()
        made = Running(Path(folder))
        server = PowerServer(Machines(made.paths, made.loads))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        process = emulator(made.paths, list(made.loads.values()), Path(folder) / "bmc.log")
        try:
            yield made
        finally:
            process.terminate()
            process.wait()
            server.shutdown()


def test_each_bmc_opens_with_its_label_and_then_with_its_own_password_alone(running: Running) -> None:
    assert os.geteuid() == 0
    site = running.site()
    own, factory = bmc_credentials(site, running.assets), factory_credentials(site, running.assets)
    assert factory is not None
    one, other = SERVERS
    with pytest.raises(LoginRefused):
        running.connect(one)(factory(other)).identity()
    with pytest.raises(PasswordChangeRequired):
        running.connect(one)(factory(one)).identity()
    for name in SERVERS:
        assert take_over(name, running.connect(name), own(name), factory(name))
        assert running.connect(name)(own(name)).identity()["serial"] == SERVERS[name].serial
    assert running.connect(one)(own(one)).login_refused("admin", own(other).password)
    assert running.connect(one)(own(one)).login_refused("admin", factory(one).password)
    assert not take_over(one, running.connect(one), own(one), factory(one))
    log_servers = ["10.77.0.1", "10.77.0.2"]
    with running.connect(one)(own(one)) as bmc:
        assert bmc.set_log_servers(log_servers)
        assert not bmc.set_log_servers(log_servers)
        assert bmc.set_log_servers(["10.77.0.2"])
        assert bmc.log_servers()["servers"] == ["10.77.0.2"]


def test_another_bmc_that_wants_its_password_changed_is_named_with_the_way_back(running: Running) -> None:
    site = running.site()
    own, factory = bmc_credentials(site, running.assets), factory_credentials(site, running.assets)
    assert factory is not None
    one, other = SERVERS
    here = SERVERS[one].bmc_address

    def crossed(login: BmcCredentials) -> Bmc:
        return Bmc(here, login, CALL_S, name=other, serial=SERVERS[other].serial, uuid=SERVERS[other].uuid)

    with pytest.raises(OtherDeviceChanged, match=f"saw serial {SERVERS[one].serial}.* to go back, log in"):
        take_over(other, crossed, own(other), factory(one))
    running.connect(one)(own(other)).change_password("admin", factory(one).password)  # the way back
    assert take_over(one, running.connect(one), own(one), factory(one))
