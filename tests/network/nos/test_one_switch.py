"""A RoCE fabric of one switch: its ports belong to all rails, and each has an address of its rail."""

import importlib
import ipaddress

import pytest
import yaml

from capacity.build import build
from capacity.model import Plan
from inventory.site.whatif import changed
from network import roce
from network.nos.cumulus import startup
from network.nos.sonic import config_db
from network.wiring import rails

ONE = ["fabric.tiers=1", "server.count=8", "fabric.unit_nodes=8"]


@pytest.fixture(scope="module")
def plan() -> Plan:
    made = build(changed("b200-256-roce", ONE))
    assert roce.switches(made) == ["rol001"]
    return made


def test_each_server_port_has_an_address_of_its_rail(plan: Plan) -> None:
    split = rails.rails_of(plan.site, plan.catalog)
    assert split is not None
    links = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "node-leaf")]
    rail_of = links.set_index(["a_device", "a_port"])["rail"]
    assert set(rail_of) == set(range(plan.site.fabric.rails))
    ends = plan.addresses[(plan.addresses["network"] == rails.RAIL) & (plan.addresses["device"] != "rol001")]
    assert len(ends) == len(links)
    for device, port, address in ends[["device", "interface", "address"]].itertuples(index=False, name=None):
        assert ipaddress.IPv4Interface(address).ip in split.rail(int(rail_of[device, port]))


def test_the_switch_reads_back_as_planned_and_passes_nvues_schema(plan: Plan) -> None:
    config = roce.structured_configs(plan)["rol001"]
    assert config.aggregate == ""
    assert config.model().neighbours == frozenset()
    assert len([port for port in config.ports if port.address]) == 8 * plan.site.fabric.rails
    text = startup.render(config)
    schema = importlib.import_module(f"nvueschema.models.v{startup.VERSION.replace('.', '_')}").NvueConfig
    schema.model_validate(yaml.safe_load(text)[1]["set"], extra="forbid")
    assert startup.read(text) == config.model()


def test_its_sonic_tables_read_back_as_planned() -> None:
    made = build(changed("b200-256-roce", [*ONE, "fabric.nos=sonic"]))
    config = roce.structured_configs(made)["rol001"]
    assert config_db.read(config_db.render(config)) == config.model()


def test_every_server_has_a_route_to_each_rail(plan: Plan) -> None:
    rendering = roce.rendering(plan)
    assert {"rol001.yaml", "host_routes.csv"} <= set(rendering.files)
    routes = rails.host_routes(plan.site, plan.catalog, plan.addresses, plan.devices)
    assert (routes[routes["table"] == "main"].groupby("device").size() == plan.site.fabric.rails).all()
