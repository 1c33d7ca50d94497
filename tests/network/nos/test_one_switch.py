"""A RoCE fabric of one switch: what is not rendered is said."""

from capacity.build import build
from inventory.site.whatif import changed
from network import roce


def test_a_fabric_of_one_switch_has_no_configuration_and_says_why() -> None:
    plan = build(changed("b200-256-roce", ["fabric.tiers=1", "server.count=8", "fabric.unit_nodes=8"]))
    assert roce.switches(plan) == ["rol001"]
    assert roce.rendering(plan) == roce.Rendering({}, (roce.ONE_SWITCH,))
