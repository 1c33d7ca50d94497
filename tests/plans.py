"""Plans of the shipped sites, made once per test process: planning takes most of the time of the tests without lab.

    plan = plan_of("lab")       as build(load_site("lab")), with frames of its own

What must be planned anew, such as the second plan of a test of determinism, calls `capacity.build.build`. Tests of what is
done with a plan by commands, not of planning, use the fixture `plans_kept`.
"""

import copy
import dataclasses
import functools
import hashlib
from typing import Any

import pandas as pd
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.model.frames import frame_hash
from inventory.catalog import Catalog
from inventory.delivered.assets import load_assets
from inventory.site import Site, load_site


def plan_of(name: str) -> Plan:
    """The plan of a shipped site. A test that changes a frame changes no other test's: pandas copies on write."""
    return _own(_planned(name))


def _own(kept: Plan) -> Plan:
    plan = copy.copy(kept)
    for frame, columns in plan.frames().items():
        vars(plan)[frame] = columns.copy(deep=False)
    return plan


@pytest.fixture
def plans_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that plan a site of the shipped catalogue get the plan made before, in any test of this process, of the
    same site file with the same files beside it.
    """

    def built(
        site: Site,
        catalog: Catalog | None = None,
        assets: pd.DataFrame | None = None,
        baseline: Plan | None = None,
        **options: Any,
    ) -> Plan:
        if catalog is not None or baseline is not None:
            return build(site, catalog, assets, baseline, **options)
        assets = load_assets(site) if assets is None else assets
        files = sorted(
            (str(file.relative_to(site.dir)), file.read_bytes()) for file in site.dir.rglob("*") if file.is_file()
        )
        key = hashlib.sha256(repr((site, frame_hash(assets), files)).encode()).hexdigest()
        if key not in _KEPT:
            _KEPT[key] = build(site, assets=assets)
        return dataclasses.replace(_own(_KEPT[key]), site=site)

    monkeypatch.setattr("capacity.build.build", built)
    monkeypatch.setattr("validation.plugin.build", built)
    monkeypatch.setattr("validation.gate.build", built)


_KEPT: dict[str, Plan] = {}


@functools.cache
def _planned(name: str) -> Plan:
    return build(load_site(name))
