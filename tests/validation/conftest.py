"""Fixtures of the evidence and gate tests: keys, a store, sites, and evidence for all of a plan."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.signer import CryptoSigner

from inventory.site import Site, load_site
from inventory.site.sections.acceptance import AttestRole
from tests.validation.bench import (
    DIGEST,
    MADE_BY,
    NOW,
    RESTS_ON,
    SmallPlan,
    details,
    make_key,
    rests_on,
    simulated,
    store_at,
    with_key,
)
from validation.evidence import Record, Store
from validation.order import DEVICE_KINDS
from validation.register import Register, load_register

SECOND_APPROVER = "second approver"


@pytest.fixture(autouse=True)
def _plans_kept(plans_kept: None) -> None:
    """The gate and the program plan a site once in a process: what they judge is evidence, not the planner."""


@pytest.fixture(scope="session")
def register() -> Register:
    """The register as it will be when every check covers its whole step: tests of other reasons reach go-live with it."""
    shipped = load_register()
    return dataclasses.replace(
        shipped, items={name: dataclasses.replace(item, partial="") for name, item in shipped.items.items()}
    )


@pytest.fixture(scope="session")
def signer() -> CryptoSigner:
    """The key that collects evidence."""
    return make_key()


@pytest.fixture(scope="session")
def people(register: Register) -> dict[str, CryptoSigner]:
    """One person's key per role of the register, and a second approver's."""
    return {role: make_key() for role in (*register.roles, SECOND_APPROVER)}


@pytest.fixture(scope="session")
def lab_site() -> Site:
    return load_site("lab")


@pytest.fixture(scope="session")
def real_site(lab_site: Site, people: dict[str, CryptoSigner], signer: CryptoSigner, register: Register) -> Site:
    """A site that is no example, pins a key for each role, and has no limit that is laxer than a step allows."""
    roles = {role: AttestRole(title=role, keys=(people[role].public_key.keyid,)) for role in register.roles}
    approvers = (people["approver"].public_key.keyid, people[SECOND_APPROVER].public_key.keyid)
    roles["approver"] = AttestRole(title="approver", keys=approvers)
    roles["collector"] = AttestRole(title="collects evidence", keys=(signer.public_key.keyid,))
    roles["recorder"] = AttestRole(title="records the log", keys=(signer.public_key.keyid,))
    strict = {
        floor.site_limit: lab_site.limits[floor.site_limit].model_copy(update={"value": floor.least or floor.most})
        for item in register.items.values()
        for floor in item.limits
        if not floor.holds(lab_site.limits[floor.site_limit].value)
    }
    return lab_site.model_copy(
        update={
            "example": False,
            "attest": lab_site.attest.model_copy(update={"roles": roles}),
            "limits": {**lab_site.limits, **strict},
        }
    )


@pytest.fixture
def keyed_lab(lab_site: Site, tmp_path: Path, signer: CryptoSigner) -> Site:
    """The lab's site with the collecting key as its lab key."""
    return with_key(lab_site, tmp_path / "evidence_key", signer)


@pytest.fixture
def store(tmp_path: Path, signer: CryptoSigner) -> Store:
    """An empty store in which the collecting key is on file as a lab key."""
    made = store_at(tmp_path / "evidence")
    made.enroll(signer, "lab", "lab")
    return made


@pytest.fixture
def real_store(tmp_path: Path, signer: CryptoSigner, people: dict[str, CryptoSigner]) -> Store:
    """An empty store in which all keys of ``real_site`` are on file."""
    made = store_at(tmp_path / "evidence")
    made.enroll(signer, "collector", "collector")
    for role, key in people.items():
        made.enroll(key, role.removeprefix("second "), f"the {role}")
    return made


@pytest.fixture(scope="session")
def record() -> Callable[..., Record]:
    """Make a passing record of ``S062.measured`` for ``leaf01``; keywords change it."""

    def make(item: str = "S062.measured", subject: str = "leaf01", **changes: Any) -> Record:
        step, kind = item.split(".")
        made = Record(
            step=step,
            kind=kind,  # type: ignore[arg-type]
            subject=subject,
            result="PASSED",
            started=NOW - timedelta(hours=2),
            ended=NOW - timedelta(hours=1),
            tool="test",
            tool_version="1",
            identities=simulated(subject),
            inputs={"site.fabric": DIGEST, **RESTS_ON},
            configuration=MADE_BY,
            host="workstation",
        )
        made = dataclasses.replace(made, **changes)
        if kind not in DEVICE_KINDS:
            return made
        return dataclasses.replace(made, configuration={**made.configuration, **rests_on(subject, made.identities)})

    return make


@pytest.fixture(scope="session")
def passing(register: Register, record: Callable[..., Record]) -> Callable[..., list[Record]]:
    """Passing evidence for all subjects of all items that apply; ``lab``: what a rehearsal asks for, simulated."""

    def make(plan: SmallPlan, *, lab: bool = False) -> list[Record]:
        return [
            record(item.id, subject, **details(item, subject, lab, plan.site))
            for item in register.items.values()
            if register.not_applicable(item, plan.site) is None and (item.lab_exercisable or not lab)
            for subject in register.subjects(item, plan, lab=lab)
        ]

    return make
