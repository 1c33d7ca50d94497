"""S032 knows Slurm's packages by where the site takes them from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capacity.model import Plan
from inventory.site.whatif import changed
from tests.plans import plan_of
from validation.check import Outcome
from validation.checks.test_nodes import test_base_system_has_pinned_versions as judged
from validation.facts import Facts
from validation.second_reading import SecondReadings

HEALTHY = Path(__file__).parent / "data" / "healthy.json"
SCHEDMD = [
    "scheduler.packages=schedmd",
    'versions.slurm="25.05.3"',
    "os.repositories=[{name: site, url: 'https://h/', suites: [s], components: [main], key: site.asc}]",
]


@pytest.fixture
def outcome(tmp_path: Path) -> Callable[[str, Plan, dict[str, str]], Outcome]:
    """The judgement of a recorded node where all nodes of its role have other Slurm packages."""

    def of(node: str, plan: Plan, slurm: dict[str, str]) -> Outcome:
        recorded = json.loads(HEALTHY.read_text())
        roles = plan.devices.set_index("name")["role"]
        for name in roles.index[roles == roles[node]]:
            data = recorded["nodes"][name]["data"]
            kept = {
                package: version for package, version in data["packages"].items() if not package.startswith("slurm")
            }
            data["packages"] = kept | slurm
        path = tmp_path / "facts.json"
        path.write_text(json.dumps(recorded))
        return judged(node, plan, Facts.read(path), SecondReadings(""), {})

    return of


def plans() -> tuple[Plan, Plan]:
    plan = plan_of("lab")
    return plan, replace(plan, site=changed("lab", SCHEDMD))


def test_each_origin_has_its_names_and_its_pin(outcome) -> None:
    distribution, schedmd = plans()
    assert outcome("gpu001", distribution, {"slurmd": "22.05.8-4+deb12u3"}).passed
    assert outcome("gpu001", schedmd, {"slurm-smd-slurmd": "25.05.3-1", "slurm-smd": "25.05.3-1"}).passed
    old = outcome("ctl01", schedmd, {"slurm-smd-slurmctld": "25.05.2-1"})
    assert not old.passed
    assert "slurm-smd-slurmctld 25.05.2-1, pinned 25.05.3" in old.detail
    database = outcome("ctl01", schedmd, {"slurm-smd-slurmdbd": "24.11.5-1"})
    assert not database.passed


def test_a_daemon_of_another_origin_is_named_even_in_the_pinned_version(outcome) -> None:
    distribution, schedmd = plans()
    left = outcome("gpu001", schedmd, {"slurmd": "25.05.3-1"})
    assert not left.passed
    assert "slurmd 25.05.3-1 is of origin distribution, planned schedmd" in left.detail
    built = outcome("gpu001", distribution, {"slurm-smd-slurmd": "22.05.8-1"})
    assert not built.passed
    assert "slurm-smd-slurmd 22.05.8-1 is of origin schedmd, planned distribution" in built.detail
