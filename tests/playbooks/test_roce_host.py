"""The program of role roce, on a tree of files like sysfs, and with the real `ip` in a network namespace of its own.

No adapter was there: dcb, rdma and ethtool are scripts that keep what they are told, in the form that dcb(8), rdma-dev(8) and
ethtool(8) print.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from network.roce_host import wanted
from tests.network import dual_stack
from tests.plans import plan_of
from tests.playbooks.support import PLAYBOOKS, load

MODELLED = Path(__file__).parents[1] / "data" / "modelled" / "mlxreg"
PROGRAM = PLAYBOOKS / "roles/roce/files/roce_host.py"
module: Any = load("roles/roce/files/roce_host.py")

DCB = r"""
import json, os, sys
words = sys.argv[1:]
shows = words[0] == "-j"
part, act, _, dev, *rest = words[1:] if shows else words
place = os.path.join(os.environ["STATE"], "dcb-" + dev)
state = json.load(open(place)) if os.path.exists(place) else {
    "dcbx": {"lld_managed": True, "ieee": True},
    "app": {},
    "pfc": {"pfc-cap": 8, "macsec-bypass": False, "delay": 0, "prio-pfc": [False] * 8},
    "ets": {"willing": False, "ets-cap": 8, "cbs": False, "tc-bw": [0] * 8, "tc-tsa": ["vendor"] * 8, "prio-tc": list(range(8))},
}
if act == "show":
    print(json.dumps([state[part]])[1:-1] if shows else "")
    sys.exit()
with open(os.path.join(os.environ["STATE"], "commands"), "a") as log:
    log.write(" ".join(["dcb", *words]) + "\n")
pairs = lambda items: [item.split(":") for item in items]
if part == "dcbx":
    state["dcbx"] = {word: True for word in rest}
elif part == "app":
    state["app"] = {"dscp_prio": [[int(a), int(b)] for a, b in pairs(rest[1:])]}
elif part == "pfc":
    for index, on in pairs(rest[1:]):
        state["pfc"]["prio-pfc"][int(index)] = on == "on"
else:
    key = ""
    for word in rest:
        if ":" not in word:
            key = word
            continue
        index, value = word.split(":")
        state["ets"][key][int(index)] = value if key == "tc-tsa" else int(value)
    if sum(state["ets"]["tc-bw"]) not in (0, 100):
        sys.exit("Error: the sum of all bandwidths has to be 100")
json.dump(state, open(place, "w"))
"""
ETHTOOL = r"""
import os, sys
flag, dev, *rest = sys.argv[1:]
place = os.path.join(os.environ["STATE"], "pause-" + dev)
if flag == "-A":
    open(place, "w").write(" ".join(rest))
told = open(place).read() if os.path.exists(place) else "rx on tx on"
words = told.split()
print(f"Pause parameters for {dev}:\nAutonegotiate:\toff\nRX:\t\t{words[1]}\nTX:\t\t{words[3]}\n")
"""
RDMA = r"""
import os, sys
_, act, old, _, new = sys.argv[1:]
folder = os.path.join(os.environ["SYS"], "class/infiniband")
os.rename(os.path.join(folder, old), os.path.join(folder, new))
config = os.path.join(os.environ["SYS"], "kernel/config/rdma_cm")
os.rename(os.path.join(config, old), os.path.join(config, new))
"""


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def function(tree: Path, *path: str) -> Path:
    """A PCIe function below the bridges of `path`."""
    place = tree / "devices/pci0000:00" / "/".join(path)
    place.mkdir(parents=True, exist_ok=True)
    devices = tree / "bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    (devices / path[-1]).symlink_to(place)
    return place


def gpu(tree: Path, *path: str, vendor: str = "0x10de") -> None:
    place = function(tree, *path)
    write(place / "vendor", vendor)
    write(place / "class", "0x030200")


def adapter(tree: Path, rdma: str, netdev: str, *path: str, layer: str = "Ethernet") -> Path:
    place = function(tree, *path)
    write(place / "class", "0x020000")
    if netdev:
        write(place / "net" / netdev / "address")
    write(tree / "class/infiniband" / rdma / "ports/1/link_layer", layer + "\n")
    (tree / "class/infiniband" / rdma / "device").symlink_to(place)
    return place


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two PCIe switches, each with a GPU and an adapter; the adapters' addresses are in the other order than the GPUs'."""
    root = tmp_path / "sys"
    monkeypatch.setattr(module, "SYS", root)
    gpu(root, "0000:10:01.0", "0000:11:00.0", "0000:18:00.0")
    gpu(root, "0000:20:01.0", "0000:21:00.0", "0000:2a:00.0")
    adapter(root, "mlx5_1", "enp17", "0000:20:01.0", "0000:21:00.0", "0000:29:00.0")
    adapter(root, "mlx5_0", "enp41", "0000:10:01.0", "0000:11:00.0", "0000:1b:00.0")
    adapter(root, "mlx5_2", "", "0000:10:01.0", "0000:11:00.0", "0000:1c:00.0", layer="InfiniBand")
    (root / "kernel/config/rdma_cm").mkdir(parents=True)
    for name in ("mlx5_0", "mlx5_1"):
        for key, value in (("default_roce_mode", "IB/RoCE v1"), ("default_roce_tos", "0")):
            write(root / "kernel/config/rdma_cm" / name / "ports/1" / key, value + "\n")
        (root / "class/net" / name).mkdir(parents=True)
    return root


def rails(count: int = 2, **more: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": f"rail{index}", "rail": index, **more.get(f"rail{index}", {})} for index in range(count)]


# ---- which adapter is which rail -------------------------------------------------------------------------------------
def test_a_rail_is_the_adapter_nearest_to_its_gpu(tree: Path) -> None:
    found = module.rails_of(rails())
    assert {name: one.rdma for name, one in found.items()} == {"rail0": "mlx5_0", "rail1": "mlx5_1"}


def test_gpus_of_others_and_adapters_of_other_kinds_do_not_count(tree: Path) -> None:
    gpu(tree, "0000:05:01.0", "0000:06:00.0", vendor="0x102b")
    assert module.rails_of(rails())["rail0"].rdma == "mlx5_0"


def test_a_choice_is_refused_with_the_adapters_and_settled_by_a_pci_address(tree: Path) -> None:
    adapter(tree, "mlx5_3", "enp28", "0000:10:01.0", "0000:11:00.0", "0000:1d:00.0")
    with pytest.raises(
        module.RoceError, match=r"rail0: .*GPU 0 \(mlx5_0 0000:1b:00.0, mlx5_3 0000:1d:00.0\).*roce_adapters"
    ):
        module.rails_of(rails())
    assert module.rails_of(rails(rail0={"pci": "0000:1d:00.0"}))["rail0"].rdma == "mlx5_3"
    with pytest.raises(module.RoceError, match="no Ethernet RDMA adapter at 0000:99:00.0"):
        module.rails_of(rails(rail0={"pci": "0000:99:00.0"}))
    with pytest.raises(module.RoceError, match="rail0 are both the adapter mlx5_1"):
        module.rails_of(rails(rail0={"pci": "0000:29:00.0"}))


def test_a_missing_gpu_or_adapter_is_named(tree: Path) -> None:
    with pytest.raises(module.RoceError, match="rail2: it is the adapter of GPU 2, and the kernel shows 2 GPUs"):
        module.rails_of(rails(3))
    (tree / "class/infiniband/mlx5_0/ports/1/link_layer").write_text("InfiniBand\n")
    with pytest.raises(module.RoceError, match="rail0: PCIe leaves open"):
        module.rails_of(rails())


# ---- settings --------------------------------------------------------------------------------------------------------
def test_every_setting_that_is_wanted_can_be_read_and_set() -> None:
    plan = dual_stack.plan()
    fabric = plan.site.fabric.model_copy(update={"load_balancing": "adaptive"})
    adaptive = dataclasses.replace(plan, site=plan.site.model_copy(update={"fabric": fabric}))
    for rail in wanted(adaptive)["gpu001"]["rails"]:
        assert set(rail["settings"]) == set(module.SETTINGS)
    for rail in wanted(plan)["gpu001"]["rails"]:
        assert set(rail["settings"]) == set(module.SETTINGS) - {"adaptive_routing"}


@pytest.mark.needs("root")
@pytest.mark.needs("dcb")
def test_the_program_sets_two_rails_reads_them_back_and_changes_nothing_again(tree: Path, tmp_path: Path) -> None:
    """Interfaces, addresses, routes and rules are the kernel's own, in a network namespace."""
    first = wanted(dual_stack.plan())["gpu001"]
    file = write(tmp_path / "roce.json", json.dumps({"rails": first["rails"][:2]}))
    tools = tmp_path / "tools"
    for name, text in (("dcb", DCB), ("ethtool", ETHTOOL), ("rdma", RDMA)):
        write(tools / name, f"#!{sys.executable}{text}").chmod(0o755)
    driver = write(
        tmp_path / "driver.py",
        f"""
import json, subprocess, sys
from pathlib import Path
sys.path.insert(0, {str(PROGRAM.parent)!r})
import roce_host
roce_host.SYS = Path({str(tree)!r})
real = roce_host.do
def do(*argv):
    real(*argv)
    if argv[:4] == ("ip", "link", "set", "dev") and "name" in argv:
        for place in roce_host.SYS.glob("devices/**/net/" + argv[4]):
            place.rename(place.with_name(argv[-1]))
roce_host.do = do
said = []
for name in ("enp41", "enp17"):
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", "far" + name], check=True)
    subprocess.run(["ip", "link", "set", "dev", "far" + name, "mtu", "9000", "up"], check=True)
for act in ("show", "apply", "apply", "show"):
    roce_host.main([act, {str(file)!r}])
for command in (
    ["ip", "address", "add", "10.9.9.9/24", "dev", "rail0"],
    ["ip", "address", "add", "fd00:9::9/64", "dev", "rail1"],
    ["ip", "link", "set", "dev", "rail1", "mtu", "1500"],
):
    subprocess.run(command, check=True)
roce_host.main(["apply", {str(file)!r}])
""",
    )
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "STATE": str(tmp_path), "SYS": str(tree)}
    done = subprocess.run(
        ["unshare", "--net", sys.executable, str(driver)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, applied, again, shown, mended = (json.loads(line) for line in done.stdout.splitlines())
    assert before["rails"]["rail0"]["netdev"] == "enp41"
    assert {"name", "mtu", "addresses", "pfc", "dscp_priority"} <= set(before["rails"]["rail0"]["differs"])
    assert applied["error"] == ""
    assert {"enp41 is rail0", "mlx5_1 is rail1", "rail0 pfc", "rail1 route_fabric", "rail1 rule_ipv6"} <= set(
        applied["done"]
    )
    assert again["done"] == []
    for rail in first["rails"][:2]:
        one = shown["rails"][rail["name"]]
        assert (one["differs"], one["unread"]) == ([], {})
        lacking = {"traffic_class", "roce_np", "roce_rp", "cnp_dscp"}
        assert {name for name, value in one["values"].items() if value is None} == lacking
        assert {name: value for name, value in one["values"].items() if value is not None} == {
            name: value for name, value in rail["settings"].items() if name not in lacking
        }
    assert mended["done"] == ["rail0 addresses", "rail1 mtu", "rail1 addresses_ipv6"]
    pfc = [
        line for line in (tmp_path / "commands").read_text().splitlines() if line.startswith("dcb pfc set dev rail0")
    ]
    assert pfc == ["dcb pfc set dev rail0 prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off"]


def test_settings_of_doca_ofed_are_set_where_its_files_are(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = module.rails_of(rails())["rail0"]
    ecn = tree / "class/net/enp41/ecn"
    write(tree / "class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=0\n")
    for side in ("roce_np", "roce_rp"):
        write(ecn / side / "enable/3", "0\n")
    write(ecn / "roce_np/cnp_dscp", "0\n")
    assert module.SETTINGS["traffic_class"][0](one, "106") == "0"
    assert module.SETTINGS["roce_np"][0](one, {"3": "1"}) == {"3": "0"}
    for name, value in (("roce_np", {"3": "1"}), ("roce_rp", {"3": "1"}), ("cnp_dscp", "48")):
        module.SETTINGS[name][1](one, value)
        assert module.SETTINGS[name][0](one, value) == value
    module.SETTINGS["traffic_class"][1](one, "106")
    assert (tree / "class/infiniband/mlx5_0/tc/1/traffic_class").read_text() == "106"


def test_adaptive_routing_is_read_and_set_in_the_adapters_register(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = module.rails_of(rails())["rail0"]
    get, put = module.SETTINGS["adaptive_routing"]
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert get(one, True) is None  # without mlxreg
    register = write(tmp_path / "register", (MODELLED / "roce_accl.txt").read_text())
    script = f"""#!/bin/sh
[ "$2" = 0000:1b:00.0 ] || exit 1
case "$*" in
*--set*) sed -i 's/^\\(adaptive_routing_forced_en *| 0x0000000\\)./\\11/' {register} ;;
*) cat {register} ;;
esac
"""
    write(tmp_path / "mlxreg", script).chmod(0o755)
    assert get(one, True) is False
    put(one, True)
    assert get(one, True) is True
    write(register, "-E- Failed to send access register")
    assert get(one, True) is None


def test_the_kernels_own_driver_has_the_mark_of_notifications_in_debugfs(tree: Path) -> None:
    one = module.rails_of(rails())["rail0"]
    place = write(tree / "kernel/debug/mlx5/0000:1b:00.0/cc_params/np_cnp_dscp", "0\n")
    module.SETTINGS["cnp_dscp"][1](one, "48")
    assert place.read_text() == "48"


def test_a_command_that_fails_or_is_not_there_ends_the_run_with_its_words(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "roce.json", json.dumps({"rails": wanted(plan_of("b200-256-roce"))["gpu001"]["rails"][:2]}))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert module.main(["apply", str(file)]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["error"], said["done"]) == ("ip is not installed", [])
    assert module.main(["show", str(file)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rails"]["rail0"]["unread"]["pfc"] == "dcb is not installed"
    assert module.main(["set", str(file)]) == 2
