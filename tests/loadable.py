"""No test plans a site that could not be loaded: such a plan says nothing about any site that exists.

Importing this module wraps `capacity.build.build` for the whole test process, so it comes before all that imports it.
The same wrapper keeps the results of stages for modules that ask for it: fixture `stages_kept`.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import pytest

import capacity.build
from capacity.kept import Kept
from capacity.model import Plan
from inventory.site import Site
from inventory.site.model import SiteModel, check

planned = capacity.build.build

_kept: list[Kept] = []
"""What plans of the running module are made from; the last one counts."""


@pytest.fixture(scope="module")
def stages_kept() -> Iterator[None]:
    """Plans of this module take over what a change of the site does not touch, as those of `bringup optimise` do.

    For modules that plan one site with many values: it saves a third of their processor time. Not for tests that plan twice to
    compare, and not for those that replace a stage. tests/capacity/test_kept.py and tests/equality hold such plans against fresh
    ones.
    """
    _kept.append(Kept(most=8))
    yield
    _kept.pop()


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
    if _kept and len(args) < 4:
        kwargs.setdefault("kept", _kept[-1])
    return planned(site, *args, **kwargs)


capacity.build.build = build
