"""Shared storage: what the volume module decides, and the mount units that the role writes for each kind."""

import time
import xml.etree.ElementTree as ET

import pytest
import yaml

from inventory.site import load_site
from tests.playbooks.support import PLAYBOOKS, ansible, load

module = load("library/bringup_gluster_volume.py")

INFO = """<cliOutput><opRet>0</opRet><volInfo><volumes><volume><name>shared</name><statusStr>{status}</statusStr>
<replicaCount>1</replicaCount><bricks><brick uuid="6152">sto01:/srv/data/shared/brick<name>sto01:/srv/data/shared/brick
</name></brick></bricks><options><option><name>network.ping-timeout</name><value>10</value></option></options></volume>
</volumes></volInfo></cliOutput>""".replace("\n", "")
EMPTY = "<cliOutput><opRet>0</opRet><volInfo><volumes><count>0</count></volumes></volInfo></cliOutput>"
PEERS = """<cliOutput><opRet>0</opRet><peerStatus><peer><hostname>172.16.0.13</hostname><hostnames><hostname>sto02
</hostname></hostnames><connected>{connected}</connected></peer></peerStatus></cliOutput>""".replace("\n", "")
NO_PEERS = "<cliOutput><opRet>0</opRet><peerStatus/></cliOutput>"
WANTED = {
    "name": "shared",
    "servers": ["sto01"],
    "brick": "/srv/data/shared/brick",
    "replicas": 1,
    "options": {"network.ping-timeout": 10},
}


class Recorded:
    """A Gluster that answers from a list per command and remembers what it was told."""

    def __init__(self, budget_s=5, **answers):
        self.end = time.monotonic() + budget_s
        self.answers = {key.replace("_", " "): list(texts) for key, texts in answers.items()}
        self.told = []

    def ask(self, *words):
        command = " ".join(words)
        self.told.append(command)
        texts = self.answers.get(" ".join(words[:2]), ["<cliOutput><opRet>0</opRet></cliOutput>"])
        return ET.fromstring(texts[0] if len(texts) == 1 else texts.pop(0))


def test_a_new_volume_is_created_set_and_started():
    gluster = Recorded(peer_status=[NO_PEERS], volume_info=[EMPTY, INFO.format(status="Started")])
    done = module.apply(gluster, WANTED, check=False)
    assert done == ["create shared", "set network.ping-timeout", "start shared"]
    assert "volume create shared sto01:/srv/data/shared/brick" in gluster.told
    assert "volume set shared network.ping-timeout 10" in gluster.told


def test_a_volume_as_wanted_is_left_alone():
    gluster = Recorded(peer_status=[NO_PEERS], volume_info=[INFO.format(status="Started")])
    assert module.apply(gluster, WANTED, check=False) == []
    assert gluster.told == ["peer status", "volume info"]


def test_check_mode_only_asks():
    gluster = Recorded(peer_status=[NO_PEERS], volume_info=[INFO.format(status="Stopped")])
    wanted = {**WANTED, "options": {"network.ping-timeout": 20}}
    assert module.apply(gluster, wanted, check=True) == ["set network.ping-timeout", "start shared"]
    assert gluster.told == ["peer status", "volume info"]


def test_copies_lie_on_different_servers():
    names = ["sto01", "sto02", "sto03"]
    assert module.wanted_bricks(names, "/b") == ("sto01:/b", "sto02:/b", "sto03:/b")
    gluster = Recorded(peer_status=[PEERS.format(connected=1)], volume_info=[EMPTY])
    with pytest.raises(module.GlusterError, match="does not keep what was set"):
        module.apply(gluster, {**WANTED, "servers": ["sto01", "sto02"], "replicas": 2}, check=False)
    assert "volume create shared replica 2 sto01:/srv/data/shared/brick sto02:/srv/data/shared/brick" in gluster.told


def test_a_volume_over_other_bricks_is_never_reshaped():
    gluster = Recorded(peer_status=[PEERS.format(connected=1)], volume_info=[INFO.format(status="Started")])
    with pytest.raises(module.GlusterError, match=r"has 1 copies over sto01:\S+, the site wants 1 over sto01:.*sto02"):
        module.apply(gluster, {**WANTED, "servers": ["sto01", "sto02"]}, check=False)
    assert not any(command.startswith(("volume set", "volume create")) for command in gluster.told)


def test_a_server_that_does_not_join_is_named():
    gluster = Recorded(budget_s=0.5, peer_status=[NO_PEERS, PEERS.format(connected=0)])
    with pytest.raises(module.GlusterError, match="not connected to the pool: sto02"):
        module.apply(gluster, {**WANTED, "servers": ["sto01", "sto02"]}, check=False)
    assert "peer probe sto02" in gluster.told


def test_a_command_that_hangs_is_cut_off(tmp_path, monkeypatch):
    hung = tmp_path / "gluster"
    hung.write_text("#!/bin/sh\nsleep 30\n")
    hung.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(module.GlusterError, match="gluster volume info did not end in"):
        module.Gluster(0.3).ask("volume", "info")


def test_garbage_from_the_command_is_shown(tmp_path, monkeypatch):
    garbage = tmp_path / "gluster"
    garbage.write_text("#!/bin/sh\necho Connection failed. Please check if gluster daemon is operational.; exit 1\n")
    garbage.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(module.GlusterError, match="expected XML, exit status 1: Connection failed"):
        module.Gluster(5).ask("volume", "info")


ROLE = PLAYBOOKS / "roles" / "storage_client"
REST = {"mount_point": "/shared", "volume": "shared"}
KINDS = {
    "glusterfs": ({"kind": "glusterfs", "source": "sto01:/shared", "servers": ["sto01"]}, "log-level=WARNING"),
    "glusterfs on three servers": (
        {"kind": "glusterfs", "source": "sto01:/shared", "servers": ["sto01", "sto02", "sto03"]},
        "log-level=WARNING,backup-volfile-servers=sto02:sto03",
    ),
    "nfs": ({"kind": "nfs", "source": "filer:/export", "servers": []}, "hard,vers=4.2"),
    "lustre": ({"kind": "lustre", "source": "mgs@o2ib:/fs", "servers": []}, "flock"),
}
"""Per case: shared storage of the site, and the mount options besides _netdev."""
REFUSED = {
    "weka": "storage.kind is weka; this role mounts glusterfs, nfs, lustre",
    "glusterfs": "the site has no service node of the role storage",
    "nfs": "storage.source is missing",
}
"""Per kind, on a site with neither storage servers nor a source: what the role says."""


def play(folder, tasks):
    """Output of a play on this machine with the role's own variables."""
    book = folder / "book.yml"
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    book.write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "localhost",
                    "gather_facts": False,
                    "vars_files": [str(ROLE / "vars" / "main.yml")],
                    "vars": {**defaults, "storage_client_needed_by": ["slurmd.service"]},
                    "tasks": tasks,
                }
            ]
        )
    )
    done = ansible("ansible-playbook", str(book), "--check", var=folder)
    return " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module")
def units(tmp_path_factory):
    """The mount unit of each case."""
    folder = tmp_path_factory.mktemp("units")
    template = f"{{{{ lookup('ansible.builtin.template', '{ROLE / 'templates' / 'shared.mount.j2'}') }}}}"
    play(
        folder,
        [
            {
                "ansible.builtin.copy": {"content": template, "dest": str(folder / name)},
                "check_mode": False,
                "vars": {"bringup_storage": {**storage, **REST}},
            }
            for name, (storage, _) in KINDS.items()
        ],
    )
    return {name: (folder / name).read_text() for name in KINDS}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_has_its_mount_unit(units, name):
    storage, options = KINDS[name]
    lines = units[name].splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert (found["What"], found["Type"], found["Options"]) == (
        storage["source"],
        storage["kind"],
        f"_netdev,{options}",
    )
    assert found["Where"] == "/shared"
    assert found["LazyUnmount"] == "yes", "a lost server must not hold up a shutdown"
    assert found["Wants"] == "slurmd.service"
    assert found["After"].startswith("network-online.target")


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    return play(
        tmp_path_factory.mktemp("refusals"),
        [
            {
                "block": [
                    {
                        "ansible.builtin.include_role": {"name": "storage_client"},
                        "vars": {"bringup_storage": {"kind": kind, "source": "", "servers": [], **REST}},
                    }
                ],
                "rescue": [{"ansible.builtin.debug": {"msg": kind}}],
            }
            for kind in REFUSED
        ],
    )


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_role_cannot_mount_is_refused_by_name(refusals, kind):
    assert REFUSED[kind] in refusals


def test_every_server_has_packages_for_the_kind_of_the_lab():
    groups = [
        yaml.safe_load((PLAYBOOKS / "group_vars" / f"{group}.yml").read_text())["node_roles"]
        for group in ("storage", "compute", "controller", "management")
    ]
    listed = yaml.safe_load((PLAYBOOKS / "packages.yaml").read_text())["packages"]
    kind = load_site("lab").storage.kind
    for roles in groups:
        (own,) = [name.replace("{{ bringup_storage.kind }}", kind) for name in roles if name.startswith("storage_")]
        assert listed[own]


def test_rpcbind_runs_for_nfs_before_version_4_only(tmp_path):
    cases = [([], "False"), (["vers=3"], "True"), (["nfsvers=3", "nolock"], "True"), (["vers=4.1"], "False")]
    said = play(
        tmp_path,
        [
            {
                "ansible.builtin.debug": {
                    "msg": f"options {' '.join(options)}: rpcbind {{{{ storage_client_rpcbind }}}}"
                },
                "vars": {"storage_client_options": options},
            }
            for options, _ in cases
        ],
    )
    for options, runs in cases:
        assert f"options {' '.join(options)}: rpcbind {runs}" in said
