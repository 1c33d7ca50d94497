"""Switches in maintenance: from the site file to the configuration of every system, and what the plan says of it."""

import dataclasses
import importlib
import json
from typing import Any

import pytest
import yaml

from inventory.site import SiteError
from inventory.site.whatif import changed
from network import render, roce
from network.nos.cumulus import startup
from network.nos.frr import paths
from network.nos.sonic import config_db
from network.wiring import maintenance
from tests.network.nos.sonic_yang import Checker
from tests.plans import plan_of


@pytest.fixture(scope="module")
def configs() -> list[Any]:
    """A leaf and a spine of the RoCE site, in maintenance."""
    made = roce.structured_configs(plan_of("b200-256-roce"))
    first = next(one for one in made.values() if one.aggregate)
    spine = next(one for one in made.values() if not one.aggregate)
    return [dataclasses.replace(one, drained=True) for one in (first, spine)]


@pytest.mark.parametrize("system", ["cumulus", "sonic"])
def test_maintenance_reads_back_from_each_system_and_is_one_change(configs: list[Any], system: str) -> None:
    of = roce.SYSTEMS[system]
    for config in configs:
        text = of.render(config)
        wanted = config.model()
        assert wanted.drained
        assert of.read(text) == wanted
        normal = of.read(of.render(dataclasses.replace(config, drained=False)))
        assert normal == dataclasses.replace(wanted, drained=False)
        assert list(normal.unlike(wanted, ["drained"])) == ["drained: is False, planned True"]


def test_nvues_schema_takes_it_and_refuses_another_word(configs: list[Any]) -> None:
    schema = importlib.import_module(f"nvueschema.models.v{startup.VERSION.replace('.', '_')}").NvueConfig
    for config in configs:
        tree = yaml.safe_load(startup.render(config))[1]["set"]
        schema.model_validate(tree, extra="forbid")
        tree["router"]["bgp"]["graceful-shutdown"] = "soon"
        with pytest.raises(ValueError, match="graceful-shutdown"):
            schema.model_validate(tree, extra="forbid")


@pytest.mark.needs("yanglint")
def test_sonics_models_take_it_and_refuse_another_word(configs: list[Any], tmp_path: Any) -> None:
    checker = Checker(tmp_path)
    tables = json.loads(config_db.render(configs[0]))
    assert checker.complaints(tables) == ""
    tables["BGP_GLOBALS"]["default"]["graceful_shutdown"] = "soon"
    assert "graceful_shutdown" in checker.complaints(tables)


def test_an_inband_switch_in_maintenance_is_rendered_and_read_back() -> None:
    plan = plan_of("lab")
    config = render.structured_config(plan, "spine01")
    assert config["drained"] is False
    normal, drained = (render.render_structured({**config, "drained": on}, "frr") for on in (False, True))
    assert set(drained.splitlines()) - set(normal.splitlines()) == {" bgp graceful-shutdown"}
    said = list(paths.read(drained).unlike(paths.read(normal)))
    assert said == ["is in maintenance (bgp graceful-shutdown), planned: is not"]
    assert list(paths.read(drained).unlike(paths.read(drained))) == []


def found(site: Any, plan: Any) -> list[tuple[str, str]]:
    return [(one.subject, one.severity) for one in maintenance.check(site, plan.devices, plan.cables)]


@pytest.mark.parametrize(
    ("key", "names", "expected"),
    [
        ("inband", [], []),
        ("inband", ["spine01"], [("spine01", "info")]),
        ("inband", ["spine09"], [("spine09", "error")]),
        ("inband", ["spine01", "spine02"], [("spine01", "info"), ("spine02", "info"), ("inband", "warning")]),
        ("inband", ["leaf01"], [("leaf01", "info")]),
        ("inband", ["leaf01", "leaf02"], [("leaf01", "info"), ("leaf02", "info"), ("inband", "warning")]),
        ("fabric", ["ibl001"], [("ibl001", "error")]),
    ],
)
def test_who_has_no_other_way_is_said(key: str, names: list[str], expected: list[tuple[str, str]]) -> None:
    site = changed("lab", [f"{key}.maintenance=[{', '.join(names)}]"])
    assert found(site, plan_of("lab")) == expected


def test_a_compute_leaf_is_the_only_one_of_its_rail() -> None:
    plan = plan_of("b200-256-roce")
    assert found(changed("b200-256-roce", ["fabric.maintenance=[rol001]"]), plan)[-1] == ("compute", "warning")
    spine = next(name for name in roce.switches(plan) if name.startswith("ros"))
    assert found(changed("b200-256-roce", [f"fabric.maintenance=[{spine}]"]), plan) == [(spine, "info")]


def test_a_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(SiteError, match="spine01 is there twice"):
        changed("lab", ["inband.maintenance=[spine01, spine01]"])
