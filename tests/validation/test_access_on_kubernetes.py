"""What a node of Kubernetes may listen at and pass on (S032, S053), against another node and a site with Slurm."""

import subprocess

import pytest

from capacity.services.cluster import cluster
from inventory.paths import repo_root
from tests.plans import plan_of
from validation import access
from validation.facts import node_facts

SLURM, KUBERNETES = "lab", "lab-kubernetes"
RULES = [
    "type filter hook forward priority filter; policy drop;",
    "ip daddr 10.79.0.0/24 drop",
    'iifname "cni0" accept',
    'oifname "cni0" accept',
]

CHAIN = "table inet bringup_pods {\n\tchain forward {\n" + "".join(f"\t\t{one}\n" for one in RULES) + "\t}\n}\n"


@pytest.mark.parametrize(
    ("site", "node", "open_to", "unplanned"),
    [
        (KUBERNETES, "gpu001", ["tcp/10250", "tcp/10256"], []),
        (KUBERNETES, "ctl01", ["tcp/6443", "tcp/2380"], []),
        (KUBERNETES, "gpu001", ["tcp/6818", "tcp/6443"], ["tcp/6818", "tcp/6443"]),
        (KUBERNETES, "ctl01", ["tcp/6817", "tcp/10250"], ["tcp/6817", "tcp/10250"]),
        (SLURM, "gpu001", ["tcp/6818"], []),
        (SLURM, "ctl01", ["tcp/6817", "tcp/6819"], []),
        (SLURM, "gpu001", ["tcp/10250"], ["tcp/10250"]),
        (SLURM, "mgm01", ["tcp/6818"], ["tcp/6818"]),
    ],
)
def test_ports_are_those_of_the_sites_workload_manager(
    site: str, node: str, open_to: list[str], unplanned: list[str]
) -> None:
    found = access.unplanned_ports(plan_of(site), node, {"listening": open_to, "listeners": {}})
    assert [one.split()[1] for one in found] == unplanned


def test_the_timers_of_the_roles_are_planned_and_no_others() -> None:
    roles = {path.stem for path in (repo_root() / "playbooks/roles").glob("*/templates/*.timer.j2")}
    assert {name for names in access.expected()["timers"].values() for name in names} == roles


def test_a_node_of_kubernetes_passes_packets_on_for_its_pods_alone() -> None:
    plan = plan_of(KUBERNETES)
    assert list(cluster(plan).forwarded) == RULES
    assert access.forwards(plan, "gpu001", {"forwards": True, "forwarded": RULES}) == []


@pytest.mark.parametrize(
    ("site", "node", "rules", "why"),
    [
        (KUBERNETES, "gpu001", [], "passes packets on by the rules (none), planned type filter"),
        (KUBERNETES, "gpu001", RULES[:1] + RULES[2:], "passes packets on by the rules type filter"),
        (KUBERNETES, "gpu001", [RULES[0].replace("drop", "accept"), *RULES[1:]], "policy accept"),
        (KUBERNETES, "ctl01", RULES, "passes packets on between its networks"),
        (SLURM, "gpu001", RULES, "passes packets on between its networks"),
    ],
)
def test_a_node_that_passes_more_on_is_named(site: str, node: str, rules: list[str], why: str) -> None:
    (problem,) = access.forwards(plan_of(site), node, {"forwards": True, "forwarded": rules})
    assert why in problem
    assert access.forwards(plan_of(site), node, {"forwards": False, "forwarded": rules}) == []


def test_the_rules_are_read_from_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_facts, "output", lambda *argv, ok: CHAIN)
    assert node_facts.forwarded() == RULES


@pytest.mark.needs("nft")
def test_nftables_takes_the_rules() -> None:
    argv = ["nft", "--check", "--file", "-"]
    done = subprocess.run(argv, input=CHAIN, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("site", "timer", "planned"),
    [
        (KUBERNETES, "bringup-etcd-backup.timer", True),
        (SLURM, "bringup-etcd-backup.timer", False),
        (KUBERNETES, "bringup-shared.timer", True),
        (SLURM, "bringup-shared.timer", True),
        (KUBERNETES, "nightly.timer", False),
    ],
)
def test_timers_are_those_of_the_sites_roles(site: str, timer: str, planned: bool) -> None:
    found = access.unplanned_jobs(plan_of(site).site, {"scheduled": {timer: ""}})
    assert found == ([] if planned else [f"timer {timer} of no package"])
