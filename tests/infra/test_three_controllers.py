"""A cluster with three controllers in a lab of its own, from nothing: its nodes ask through their balancers, and each controller in
turn loses its API server and its member of etcd. Needs what `make setup-controllers` builds.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from capacity.build import build
from infra import lab
from infra.demo import unchanged
from infra.env import environment, mitogen
from infra.kube.access import connect
from inventory.paths import repo_root
from inventory.site import load_site
from tests.infra.lab.helpers import three_controllers
from tests.standing import Standing

pytestmark = [pytest.mark.lab, pytest.mark.soak, pytest.mark.needs("kubernetes-lab", "kueue")]
NAME, OCTET = "test-three", 92
CONFIGURE_S, TRIALS_S = 1800.0, 1800.0
CONTROLLERS, GPU_NODES = 3, 4
VERBS = {"raise": "fault", "repair": "repair"}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """The lab, with the platform in its cluster."""
    folder = tmp_path_factory.mktemp("three")
    path = three_controllers(folder, NAME, OCTET)
    site = load_site(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRINGUP_VAR", str(folder / "var"))
        made = Standing(site, build(site), folder / "var", environment() | mitogen())
        lab.down(NAME)
        try:
            made.run("bringup", "lab", "up", "--site", str(path))
            made.run("pulumi", "config", "set", "bringup:site", str(path), "-s", NAME)
            made.pulumi("up", "--yes", "--skip-preview")
            configure(made)
            made.run("bringup", "kubeconfig", str(path), "--controller", "ctl02")
            made.pulumi("up", "--yes", "--skip-preview")
            yield made
        finally:
            lab.down(NAME)
            (repo_root() / "infra" / "stacks" / f"Pulumi.{NAME}.yaml").unlink(missing_ok=True)


def configure(three: Standing) -> str:
    """What ansible-playbook says."""
    command = ("ansible-playbook", "playbooks/site.yml", "-i", str(three.site.path))
    return three.run(*command, budget_s=CONFIGURE_S).stdout


def test_each_controller_is_lost_in_part_and_missed_by_nobody(three: Standing) -> None:
    said = three.run(
        *("pytest", "validation", "--site", str(three.site.path), "-p", "no:cacheprovider"),
        *("-k", "without_an_api_server or member_of_etcd or one_gpu_less"),
        *(f"--{does}-xid=bringup lab {verb} --site {NAME} gpu-memory" for does, verb in VERBS.items()),
        budget_s=TRIALS_S,
    )
    assert f"{2 * CONTROLLERS + GPU_NODES} passed" in said.stdout


def test_kueue_and_jobset_run_on_two_nodes_each(three: Standing) -> None:
    connection = connect(three.var / NAME / "kubeconfig")
    with httpx.Client(base_url=connection.server, verify=connection.tls, timeout=30) as api:
        for name in ("kueue", "jobset"):
            space = f"namespaces/{name}-system"
            pods = api.get(f"/api/v1/{space}/pods").json()["items"]
            ready = [one for one in pods if {"type": "Ready", "status": "True"}.items() <= condition(one).items()]
            assert len({one["spec"]["nodeName"] for one in ready}) == 2, name
            (budget,) = api.get(f"/apis/policy/v1/{space}/poddisruptionbudgets").json()["items"]
            assert budget["status"]["disruptionsAllowed"] == 1, name


def condition(pod: dict[str, Any]) -> dict[str, str]:
    """Whether a pod is ready, as its status says."""
    (found,) = [one for one in pod["status"]["conditions"] if one["type"] == "Ready"] or [{}]
    return dict(found)


def test_a_second_run_changes_nothing(three: Standing) -> None:
    assert unchanged(configure(three)) == ""
