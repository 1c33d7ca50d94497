"""Ansible's hosts of a site, as they pass from one process to the other."""

import json

import pytest

from capacity.outputs.ansible_hosts import hosts_of
from inventory.site import site_names
from tests.plans import plan_of


@pytest.mark.parametrize("site", site_names())
def test_json_gives_every_variable_back_with_its_type(site: str) -> None:
    plan = plan_of(site)
    made = vars(hosts_of(plan, plan.catalog))
    assert repr(json.loads(json.dumps(made))) == repr(made)
