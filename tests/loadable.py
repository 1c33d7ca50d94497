"""No test plans a site that could not be loaded: such a plan says nothing about any site that exists.

Importing this module wraps `capacity.build.build` for the whole test process, so it comes before all that imports it.
"""

import functools
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import capacity.build
from capacity.model import Plan
from inventory.site import Site
from inventory.site.model import SiteModel, check

planned = capacity.build.build


def as_written(value: Any) -> Any:
    """A dumped model as values of a parsed site file."""
    if isinstance(value, Mapping):
        return {str(key): as_written(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(as_written(item) for item in value)
    return value if value is None or isinstance(value, (bool, int, float, date)) else str(value)


def assert_loads(site: Site) -> None:
    """A site that a test changed is one that a file can say. pydantic.ValidationError or AssertionError if not."""
    value = as_written(site.model_dump(by_alias=True))
    SiteModel.model_validate(value)
    problems = check(value, site.catalog)
    assert not problems, f"a site that does not load is planned: {problems}"


@functools.wraps(planned)
def build(site: Site, *args: Any, **kwargs: Any) -> Plan:
    assert_loads(site)
    return planned(site, *args, **kwargs)


capacity.build.build = build
