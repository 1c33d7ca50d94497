"""Plans of the shipped sites, made once per test process: planning takes most of the time of the tests without lab.

    plan = plan_of("lab")       as build(load_site("lab")), with frames of its own

What must be planned anew, such as the second plan of a test of determinism, calls `capacity.build.build`.
"""

import copy
import functools

from capacity.build import build
from capacity.model import Plan
from inventory.site import load_site


def plan_of(name: str) -> Plan:
    """The plan of a shipped site. A test that changes a frame changes no other test's: pandas copies on write."""
    plan = copy.copy(_planned(name))
    for frame, columns in plan.frames().items():
        vars(plan)[frame] = columns.copy(deep=False)
    return plan


@functools.cache
def _planned(name: str) -> Plan:
    return build(load_site(name))
