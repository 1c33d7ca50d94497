"""Who boots from which MAC; who gets nothing, and why; MACs that contradict each other are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.services.boot import BootError, boot_server, files, intents
from tests.capacity.services.boot.cases import all_delivered, delivered, image, servers
from tests.plans import plan_of

PLAN = plan_of("lab")
GPUS = [name for name in servers(PLAN) if name.startswith("gpu")]


def test_the_mac_of_the_boot_port_is_that_of_its_line_in_the_asset_list():
    found = intents(PLAN, delivered({"gpu001": "02:5e:00:00:00:01"}))
    (host,) = found.servers()
    assert (host["device"], host["mac"], host["source"]) == ("gpu001", "02:5e:00:00:00:01", "assets.csv")
    address = PLAN.addresses.query("device == 'gpu001' and network == 'provisioning'")["address"].item()
    assert host["address"] == address


def test_a_server_without_a_known_mac_gets_nothing_and_is_named_with_the_line_to_add():
    found = intents(PLAN, delivered({"gpu001": "02:5e:00:00:00:01"}))
    assert set(found.nothing) == set(servers(PLAN)) - {"gpu001"}
    assert found.nothing["gpu002"] == "MAC of eth0 is not known: add the line gpu002:eth0 to assets.csv"


def test_a_server_without_delivered_boot_drives_gets_nothing():
    found = intents(PLAN, delivered({"gpu001": "02:5e:00:00:00:01"}, drives=0))
    assert "boot drives" in found.nothing["gpu001"]
    assert found.hosts.empty


def test_the_mac_that_the_bmc_reports_is_taken_where_the_asset_list_has_none():
    assets = delivered({"gpu001": "02:5e:00:00:00:01"}).drop("gpu001:eth0")
    found = intents(PLAN, assets, {"gpu001": {"eth0": "02:5e:00:00:00:07", "eth1": "02:5e:00:00:00:08"}})
    assert found.hosts[["mac", "source"]].to_numpy().tolist() == [["02:5e:00:00:00:07", "BMC"]]


def test_of_several_reported_nics_none_is_guessed():
    assets = delivered({"gpu001": "02:5e:00:00:00:01"}).drop("gpu001:eth0")
    found = intents(PLAN, assets, {"gpu001": {"NIC.1": "02:5e:00:00:00:07", "NIC.2": "02:5e:00:00:00:08"}})
    assert found.nothing["gpu001"].startswith("the BMC reports 2 NICs and none is named eth0")


def test_a_bmc_that_reports_another_mac_than_the_asset_list_is_refused():
    with pytest.raises(BootError, match="gpu001: assets.csv has 02:5e:00:00:00:01 .* reports eth0 02:5e:00:00:00:07"):
        intents(PLAN, delivered({"gpu001": "02:5e:00:00:00:01"}), {"gpu001": {"eth0": "02:5e:00:00:00:07"}})


def test_two_servers_with_one_mac_are_refused_and_both_are_named():
    with pytest.raises(BootError, match="02:5e:00:00:00:01 belongs to gpu001 and gpu003"):
        intents(PLAN, delivered({"gpu001": "02:5e:00:00:00:01", "gpu003": "02:5e:00:00:00:01"}))


def test_a_boot_port_with_the_mac_of_a_bmc_is_refused():
    bmc = PLAN.addresses.query("device == 'gpu002' and network == 'bmc'")["mac"].item()
    with pytest.raises(BootError, match=r"belongs to gpu001 and gpu002 \(management port\)"):
        intents(PLAN, delivered({"gpu001": bmc}))


def test_all_contradictions_are_told_at_once():
    macs = {name: "02:5e:00:00:00:01" if n < 2 else "02:5e:00:00:00:02" for n, name in enumerate(GPUS)}
    with pytest.raises(BootError) as refused:
        intents(PLAN, delivered(macs))
    assert len(str(refused.value).splitlines()) == 2


def test_the_boot_server_is_the_first_management_node():
    address = PLAN.addresses.query("device == 'mgm01' and network == 'provisioning'")["address"].item()
    assert f"{boot_server(PLAN)}/24" == address


MACS = st.integers(0, 2**40 - 1).map(lambda n: "02:" + n.to_bytes(5).hex(":"))


@settings(deadline=None)
@given(st.lists(MACS, min_size=len(GPUS), max_size=len(GPUS), unique=True))
def test_each_mac_has_one_lease_and_one_script_and_no_other_mac_has_any(macs):
    known = set(PLAN.addresses["mac"])
    if known & set(macs):
        return
    found = intents(PLAN, delivered(dict(zip(GPUS, macs, strict=True))))
    made = files(PLAN, found, {"gpu": image()}, "")
    leased = [line for line in made["dnsmasq.conf"].splitlines() if line.startswith("dhcp-host=")]
    assert sorted(line.split("=")[1].split(",")[0] for line in leased) == sorted(macs)
    assert len({line.split(",")[1] for line in leased}) == len(macs)
    scripts = {name.rpartition("/")[2] for name in made if "/by-mac/" in name}
    assert scripts == {f"{mac.replace(':', '-')}.ipxe" for mac in macs}


def test_every_server_of_a_delivered_site_boots_where_images_exist():
    found = intents(PLAN, all_delivered(PLAN))
    made = files(PLAN, found, {role: image(role) for role in set(found.hosts["role"])}, "")
    assert made["nothing.csv"] == "device,why_it_gets_nothing\n"
