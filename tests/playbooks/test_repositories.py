"""Repositories of the site: what nodes get for each shipped site, and that apt takes it and no other key."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError

from capacity.outputs import ansible_hosts
from inventory.paths import repo_root, site_dir
from inventory.site import load_site, site_names
from tests.playbooks.support import PLAYBOOKS, ansible, load, tasks_of

lookup = load("lookup_plugins/bringup_repository.py")
packages = load("library/bringup_packages.py")

REAL = [name for name in site_names() if name not in ("lab", "lab-metal", "lab-kubernetes")]
PINNED = "25.05.3"
INI = {"ANSIBLE_INVENTORY_ENABLED": "ini"}
HEADER = "# Written by Ansible (role repositories)."
KINDS = ("armoured", "binary")
"""Forms of a public key."""


@dataclass(frozen=True)
class Signer:
    """A signing key as a person makes it: its gpg home, and the public key in both forms."""

    home: Path
    armoured: Path
    binary: Path

    def gpg(self, *words: str) -> bytes:
        command = ["gpg", "--batch", "--homedir", str(self.home), *words]
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


def made(home: Path) -> Signer:
    home.mkdir(mode=0o700)
    signer = Signer(home, home / "public.asc", home / "public.gpg")
    signer.gpg("--passphrase", "", "--quick-generate-key", "Packages <packages@example.com>", "ed25519", "sign", "1y")
    signer.armoured.write_bytes(signer.gpg("--armor", "--export"))
    signer.binary.write_bytes(signer.gpg("--export"))
    return signer


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the user _apt may enter, with a short path: gpg's agent listens on a socket in it."""
    with TemporaryDirectory(prefix="repo-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def signer(folder: Path) -> Signer:
    return made(folder / "gpg")


Repositories = list[dict[str, Any]]


def book_of(tmp_path: Path, plays: Mapping[str, Repositories]) -> list[str]:
    """Arguments of ansible-playbook that give this machine the role in a play each, by the name that it has there."""
    book, hosts = tmp_path / "book.yml", tmp_path / "hosts.ini"
    role = {"gather_facts": False, "roles": ["repositories"]}
    book.write_text(
        yaml.safe_dump([{**role, "hosts": name, "vars": {"bringup_repositories": one}} for name, one in plays.items()])
    )
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    hosts.write_text("".join(f"{name} {local}\n" for name in plays))
    return [str(book), "-i", str(hosts)]


EMPTY, KEYLESS = "no-repositories", "no-key"


@pytest.fixture(scope="module")
def in_check_mode(signer: Signer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the role says on this machine in check mode, by play, with what it would write; the play that fails is the last."""
    plays: dict[str, Repositories] = {}
    for site in REAL:
        (one,) = ansible_hosts.repositories_of(load_site(site))
        assert one["key"] == str(site_dir(site) / "slurm-packages.asc")  # beside the site file
        plays |= {f"{site}-{kind}": [{**one, "key": str(getattr(signer, kind))}] for kind in KINDS}
    plays |= {EMPTY: ansible_hosts.repositories_of(load_site("lab"))}
    plays |= {KEYLESS: ansible_hosts.repositories_of(load_site("h100-1000-ib"))}
    folder = tmp_path_factory.mktemp("check")
    done = ansible("ansible-playbook", *book_of(folder, plays), "--check", "--diff", var=folder, options=INI)
    said, _, recap = done.stdout.partition("PLAY RECAP")
    parts = [part.partition("] ") for part in said.split("PLAY [")[1:]]
    assert [name for name, _, _ in parts] == list(plays), done.stdout + done.stderr
    results = {line.split()[0]: line for line in recap.splitlines()[1:] if line}
    return {name: text + results[name] for name, _, text in parts}


APT_OF_ITS_OWN = """
mount -t tmpfs tmpfs /etc/apt && mkdir -p /etc/apt/keyrings /etc/apt/sources.list.d || exit 99
"$@"; echo "first run: $?"
"$@"; echo "second run: $?"
cd /etc/apt && for file in $(find keyrings sources.list.d -type f | sort); do echo "== $file"; cat "$file"; done
"""


def ran_twice(tmp_path: Path, plays: Mapping[str, Repositories]) -> str:
    """The role, twice, on this machine with an /etc/apt that only it sees: its output, then every file that is there."""
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = ["unshare", "--mount", "sh", "-c", APT_OF_ITS_OWN, "sh", program, *book_of(tmp_path, plays)]
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg"),
        "BRINGUP_VAR": str(tmp_path),
        **INI,
    }
    done = subprocess.run(
        command, capture_output=True, check=True, timeout=120, env=environment, cwd=repo_root(), text=True
    )
    return done.stdout


def added(output: str, path: str) -> list[str]:
    """Lines of a file that is to be written, as the diff has them."""
    _, _, rest = output.partition(f"+++ after: {path}\n")
    lines = [line for line in rest.split("\n--- ")[0].splitlines() if line.startswith("+")]
    return [line.removeprefix("+") for line in lines if not line.startswith("+# uid")]


@pytest.mark.needs("gpg")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("site", REAL)
def test_a_node_of_each_shipped_site_gets_the_sources_and_the_key(site, kind, signer, in_check_mode):
    said = in_check_mode[f"{site}-{kind}"]
    assert "failed=0" in said, said
    keyring = f"/etc/apt/keyrings/site-slurm{getattr(signer, kind).suffix}"
    assert added(said, "/etc/apt/sources.list.d/site-slurm.sources") == [
        HEADER,
        "Types: deb",
        "URIs: https://packages.example.com/slurm",
        "Suites: noble",
        "Components: main",
        f"Signed-By: {keyring}",
    ]
    assert added(said, keyring)
    assert not Path(keyring).exists()  # check mode


@pytest.mark.needs("root", "unshare", "gpg")
def test_the_second_run_changes_nothing_and_a_key_of_another_fingerprint_gives_no_repository(signer, tmp_path):
    (one,) = ansible_hosts.repositories_of(load_site("h100-1000-ib"))
    fetched = {"name": "fetched", "uris": "https://h/", "suites": ["/"], "components": []}
    fetched |= {"key_url": signer.armoured.as_uri(), "fingerprint": fingerprint(signer)}
    other = {**fetched, "name": "other", "fingerprint": "0" * 40}
    said = ran_twice(tmp_path, {"node": [{**one, "key": str(signer.armoured)}, fetched], "refusing": [other]})
    assert re.findall(r"^node +: .* changed=(\d) .* failed=(\d)", said, re.MULTILINE) == [("2", "0"), ("0", "0")], said
    assert said.count("run: 2\n") == 2, said
    assert f"gave a key without the fingerprint {'0' * 40}" in " ".join(said.split())
    wanted = [f"keyrings/{name}" for name in ("fetched.asc", "other.asc", "site-slurm.asc")]
    wanted += [f"sources.list.d/{name}" for name in ("fetched.sources", "site-slurm.sources")]
    assert re.findall(r"^== (\S+)$", said, re.MULTILINE) == wanted
    assert "Suites: /\nSigned-By: /etc/apt/keyrings/fetched.asc\n" in said


def fingerprint(signer: Signer) -> str:
    rows = [line.split(":") for line in signer.gpg("--with-colons", "--list-keys").decode().splitlines()]
    return next(row[9] for row in rows if row[0] == "fpr")


@pytest.mark.needs("gpg")
def test_a_site_without_repositories_changes_nothing(in_check_mode):
    assert ansible_hosts.repositories_of(load_site("lab")) == []
    assert "failed=0" in in_check_mode[EMPTY]
    assert "changed=0" in in_check_mode[EMPTY]


@pytest.mark.needs("gpg")
def test_a_key_that_is_not_there_is_named_with_its_site_key(in_check_mode):
    assert "failed=1" in in_check_mode[KEYLESS]
    assert "os.repositories, key of site-slurm: cannot read" in in_check_mode[KEYLESS]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no OpenPGP public key"),
        (b"ssh-ed25519 AAAA packages", "no OpenPGP public key"),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n", "private key"),
        (bytes([0x95, 1, 2]), "no OpenPGP public key"),  # a secret key packet
    ],
)
def test_only_a_public_key_goes_to_the_nodes(content, said, tmp_path):
    (tmp_path / "k").write_bytes(content)
    found = lookup.LookupModule()
    found.set_options = lambda **_: None
    with pytest.raises(AnsibleError, match=said):
        found.run([{"name": "site", "key": str(tmp_path / "k")}])


def test_a_repository_of_nvidia_keeps_its_url_and_fingerprint():
    (one, _) = ansible_hosts.nvidia_of(load_site("h100-1000-ib"))["repositories"]
    assert lookup.with_key(one) == {**one, "keyring": "/etc/apt/keyrings/nvidia-cuda.asc"}


def published(root: Path, signer: Signer) -> Path:
    """An apt repository as docs/slurm-packages.md makes it, with one empty package."""
    tree, pool = root / "build" / "DEBIAN", root / "apt" / "pool"
    index = root / "apt" / "dists" / "noble" / "main" / "binary-amd64"
    for made_folder in (tree, pool, index):
        made_folder.mkdir(parents=True)
    (tree / "control").write_text(
        f"Package: slurm-smd-slurmd\nVersion: {PINNED}-1\nArchitecture: amd64\nMaintainer: x <x@example.com>\nDescription: x\n"
    )
    subprocess.run(["dpkg-deb", "-b", str(tree.parent), str(pool)], check=True, capture_output=True, timeout=60)
    scan = subprocess.run(["dpkg-scanpackages", "pool"], cwd=root / "apt", check=True, capture_output=True, timeout=60)
    (index / "Packages").write_bytes(scan.stdout)
    release = (
        "Origin: site\nSuite: noble\nCodename: noble\nComponents: main\nArchitectures: amd64\n"
        f"Date: {formatdate(usegmt=True).replace('GMT', 'UTC')}\nSHA256:\n"
        f" {sha256(scan.stdout).hexdigest()} {len(scan.stdout)} main/binary-amd64/Packages\n"
    )
    suite = root / "apt" / "dists" / "noble"
    (suite / "Release").write_text(release)
    (suite / "InRelease").write_bytes(signer.gpg("--clearsign", "--output", "-", str(suite / "Release")))
    return root / "apt"


@pytest.fixture(scope="module")
def archive(folder: Path, signer: Signer) -> Path:
    return published(folder, signer)


def offered(archive: Path, key: Path) -> str:
    """What the preflight sees of the repository with a key, on this machine and without its own sources."""
    wanted = {"name": "site", "uris": archive.as_uri(), "suites": ["noble"], "components": ["main"], "key": str(key)}
    text: str = packages.offered_by(lookup.with_key(wanted), ["slurm-smd-slurmd"], lambda url: b"", 60)
    return text


@pytest.mark.needs("gpg", "apt-get", "dpkg-deb", "dpkg-scanpackages")
@pytest.mark.parametrize("kind", KINDS)
def test_the_preflight_finds_the_pinned_version_in_a_signed_repository(kind, archive, signer):
    seen = packages.offers(offered(archive, getattr(signer, kind)))
    assert seen == {"slurm-smd-slurmd": [f"{PINNED}-1"]}
    assert packages.not_offered(["slurm-smd-slurmd"], {"slurm-smd-slurmd": PINNED}, seen) == []


@pytest.mark.needs("gpg", "apt-get", "dpkg-deb", "dpkg-scanpackages")
def test_the_preflight_takes_nothing_that_another_key_signed(archive, folder):
    other = made(folder / "other")
    with pytest.raises(packages.PackageError, match="NO_PUBKEY|not signed|signatures couldn't be verified"):
        offered(archive, other.armoured)


def test_a_node_whose_key_or_components_differ_is_asked_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "SOURCES", tmp_path)
    keyring = tmp_path / "site.asc"
    one = {
        "name": "site",
        "uris": "https://h/",
        "suites": ["noble"],
        "components": ["main"],
        "keyring": str(keyring),
        "key_base64": "a2V5",
    }
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "site.sources").write_text("URIs: https://h/\nSuites: noble\nComponents: main\n")
    assert not packages.on_node(one)
    keyring.write_bytes(b"key")
    assert packages.on_node(one)
    assert not packages.on_node({**one, "components": ["other"]})
    keyring.write_bytes(b"old")
    assert not packages.on_node(one)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> dict[tuple[str, str], dict[str, Any]]:
    """What the preflight of site.yml is asked on a controller and a compute node, by site and node."""
    first = yaml.safe_load((PLAYBOOKS / "site.yml").read_text())[0]
    (preflight,) = (task for task in first["pre_tasks"] if "bringup_packages" in task)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for site, nodes in (("lab", ("ctl01", "gpu001")), ("b200-256-roce", ("ctl01", "gpu001"))):
        root = tmp_path_factory.mktemp(site)
        (root / "group_vars").symlink_to(PLAYBOOKS / "group_vars")
        (root / "site.yaml").write_text((site_dir(site) / "site.yaml").read_text())
        (root / "slurm-packages.asc").write_bytes(signer.armoured.read_bytes())
        given = preflight["bringup_packages"]
        told = {"content": "{{ told | to_json }}", "dest": f"{root}/{{{{ inventory_hostname }}}}.json"}
        tasks = [{"ansible.builtin.copy": told, "vars": {**preflight["vars"], "told": given}}]
        known = {**first["vars"], "bringup_probe": {"container": "systemd-nspawn" if site == "lab" else ""}}
        play = {"hosts": "all", "gather_facts": False, "vars": known, "tasks": tasks}
        play["vars_files"] = [str(PLAYBOOKS / name) for name in first["vars_files"]]
        (root / "book.yml").write_text(yaml.safe_dump([play]))
        local = ["-e", "ansible_connection=local", "-e", f"ansible_python_interpreter={sys.executable}"]
        done = ansible(
            *("ansible-playbook", str(root / "book.yml"), "-i", str(root / "site.yaml")),
            *("--limit", ",".join(nodes), *local),
            var=root,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found |= {(site, node): json.loads((root / f"{node}.json").read_text()) for node in nodes}
    return found


def test_a_site_of_the_distribution_installs_its_names(wanted):
    compute = wanted["lab", "gpu001"]
    assert {"slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"} <= set(compute["packages"])
    assert compute["pins"]["slurmd"] == "22.05.8"
    assert not any("slurm-smd" in name for name in (*compute["packages"], *compute["pins"]))


def test_only_machines_get_what_reads_their_hardware(wanted):
    readers = {"dmidecode", "efibootmgr", "nvme-cli"}
    assert readers <= set(wanted["b200-256-roce", "gpu001"]["packages"])
    assert not readers & set(wanted["lab", "gpu001"]["packages"])


def test_servers_with_roce_ports_alone_get_what_measures_them(wanted):
    assert "perftest" in wanted["b200-256-roce", "gpu001"]["packages"]
    assert "perftest" not in wanted["b200-256-roce", "ctl01"]["packages"]
    assert "perftest" not in wanted["lab", "gpu001"]["packages"]


def test_a_site_of_schedmds_release_installs_no_package_of_the_distribution_that_conflicts(wanted):
    listed = yaml.safe_load((PLAYBOOKS / "packages.yaml").read_text())
    compute, controller = wanted["b200-256-roce", "gpu001"], wanted["b200-256-roce", "ctl01"]
    assert {"slurm-smd", "slurm-smd-client", "slurm-smd-slurmd", "munge"} <= set(compute["packages"])
    assert {"slurm-smd-slurmctld", "slurm-smd-slurmdbd", "mariadb-server"} <= set(controller["packages"])
    for node in (compute, controller):
        assert not set(listed["pinned_by"]["slurm"]) & {*node["packages"], *node["pins"]}
        slurms = [name for name in node["packages"] if name.startswith("slurm-")]
        assert {node["pins"][name] for name in slurms} == {PINNED}


def test_the_preflight_is_given_the_repositories_of_the_site_with_their_keys(wanted, signer):
    def asked(site: str, node: str) -> list[str]:
        return [one["name"] for one in wanted[site, node]["repositories"]]

    assert asked("lab", "gpu001") == []
    assert asked("b200-256-roce", "ctl01") == ["site-slurm"]
    assert asked("b200-256-roce", "gpu001") == ["site-slurm", "nvidia-cuda", "nvidia-container-toolkit"]
    (own,) = wanted["b200-256-roce", "ctl01"]["repositories"]
    assert base64.b64decode(own["key_base64"]) == signer.armoured.read_bytes()


def test_repositories_are_there_before_packages_are_installed():
    said = tasks_of("b200-256-roce")
    assert 0 < said.index("repositories : Write the repositories") < said.index("base : Install packages")
