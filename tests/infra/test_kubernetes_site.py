"""What a site of Kubernetes can do today, and that everything else refuses it by name."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from capacity.outputs.ansible_hosts import hosts_of, without_a_role
from capacity.services.platform import design
from infra.cli import main
from inventory.catalog import load_catalog
from inventory.paths import repo_root, site_dir
from inventory.site import Site, SiteError, load_site
from tests.plans import plan_of
from validation.supported_gpus import why_not_tested

NOT_BUILT = "scheduler.kind kubernetes: this is not built for it yet (docs/kubernetes.md)"


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    """The lab's site file with Kubernetes in place of Slurm."""
    text = (site_dir("lab") / "site.yaml").read_text()
    start, end = text.index("scheduler:\n"), text.index("\ntiers: [") + 1
    kind = "scheduler: {kind: kubernetes, accounts: [{name: research, users: [alice]}]}\n"
    path = tmp_path / "site.yaml"
    path.write_text(f'{text[:start]}{kind}versions: {{kubernetes: "1.36.3"}}\n{text[end:]}')
    return path


@pytest.fixture
def site(site_file: Path) -> Site:
    return load_site(site_file)


def test_its_platform_follows_from_its_accounts(site: Site) -> None:
    made = design(dataclasses.replace(plan_of("lab"), site=site))
    assert {one.name for one in made.objects if one.kind == "Namespace"} == {
        "bringup-loads",
        "commissioning",
        "research",
    }


@pytest.mark.usefixtures("plans_kept")
def test_render_writes_its_platform_as_a_file_for_kubectl(
    site: Site, site_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capacity.outputs.documents.installation.documents", lambda plan: {})
    monkeypatch.setattr("capacity.outputs.pdf.prints", lambda plan: {})
    assert main(["render", str(site_file), "--out", str(tmp_path / "out")]) == 0
    written = list(yaml.safe_load_all((tmp_path / "out" / "render" / "platform.yaml").read_text()))
    wanted = design(dataclasses.replace(plan_of("lab"), site=site))
    assert written == [one.manifest for one in wanted.objects]


def test_a_site_with_the_driver_pins_the_container_toolkit_since_pods_with_gpus_need_it(site_file: Path) -> None:
    without = 'versions: {kubernetes: "1.36.3", container-toolkit: null}'
    site_file.write_text(site_file.read_text().replace('versions: {kubernetes: "1.36.3"}', without))
    with pytest.raises(SiteError, match="container-toolkit.*pods with GPUs start by it"):
        load_site(site_file)


def test_ansible_and_the_burn_in_take_it(site: Site) -> None:
    assert without_a_role(dataclasses.replace(plan_of("lab"), site=site)) == ""
    assert why_not_tested(site) is None


def test_its_controllers_and_gpu_nodes_are_the_cluster_and_a_site_of_slurm_has_none() -> None:
    made = hosts_of(plan_of("lab-kubernetes"), load_catalog())
    assert made.groups["kubernetes"] == ["gpu001", "gpu002", "gpu003", "gpu004", "ctl01"]
    assert made.common["bringup_kubernetes"]["version"] == "1.36.3"
    slurm = hosts_of(plan_of("lab"), load_catalog())
    assert "kubernetes" not in slurm.groups
    assert "bringup_kubernetes" not in slurm.common


def test_plays_of_slurm_leave_a_cluster_alone_and_those_of_kubernetes_take_nothing_else() -> None:
    """By the patterns of site.yml: each role of either workload manager stands in plays of that one alone."""
    plays = yaml.safe_load((repo_root() / "playbooks" / "site.yml").read_text())
    for play in plays:
        for role in play["roles"]:
            if role.startswith("slurm_") or role == "munge":
                assert play["hosts"].endswith(":!kubernetes"), play["name"]
            if role.startswith("kube"):
                assert play["hosts"].endswith(":&kubernetes"), play["name"]


@pytest.mark.usefixtures("plans_kept")
def test_a_verb_that_is_not_built_for_it_says_so(
    site_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    assert main(["compare", str(site_file)]) == 2
    assert NOT_BUILT in capsys.readouterr().err


@pytest.mark.usefixtures("plans_kept")
def test_the_gate_judges_it_and_names_the_platforms_items(
    site_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", "--site", str(site_file), "--json", "--out", str(tmp_path / "out")]) == 1
    data = json.loads(capsys.readouterr().out)
    assert set(data["platform"]["counts"]) == {"missing", "not_applicable"}  # it has one controller
    assert "P-01.measured" in {item["id"] for item in data["items"]}
