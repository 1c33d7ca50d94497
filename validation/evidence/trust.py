"""Whose signature counts for what.

The site file is the root of trust: ``attest.roles.<role>.keys`` pins the fingerprints of the keys that hold a role.
``roles.json`` in the evidence folder only says what a key was enrolled as. A key enrolled as ``lab`` counts in a rehearsal
and nowhere else, and there only if it is the one that ``credentials.evidence.key`` of the site file refers to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from securesystemslib.signer import CryptoSigner

from inventory.secrets import SecretError
from inventory.site import Site
from validation.evidence import strict
from validation.evidence.keys import SigningKeyError, signer_from
from validation.evidence.store import LAB_ROLE, Contents, Store, read_envelope

COLLECTOR_ROLE = "collector"
"""The role whose key signs what the checks record: computed, generated, applied, measured and observed items."""
RECORDER_ROLE = "recorder"
"""The role whose key signs the position of each line and the head of the log."""


@dataclass(frozen=True)
class Trust:
    """Roles by key id. ``pinned`` comes from the site file, ``enrolled`` from the evidence folder.

    ``lab_keys`` are the only keys whose enrolled role counts in a rehearsal; None: that of every key on file does, for
    contents that were read without a site file. ``approvals_last`` is how long approvals of go-live and a half of a freeze do.
    """

    pinned: Mapping[str, frozenset[str]]
    enrolled: Mapping[str, str]
    lab_keys: frozenset[str] | None = None
    approvals_last: timedelta = timedelta.max
    _collected: dict[tuple[frozenset[str], bool, bool], bool] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def roles(self, key_id: str, *, rehearsal: bool) -> frozenset[str]:
        """The roles that a key holds; at go-live only the pinned ones count."""
        enrolled = self.enrolled.get(key_id, LAB_ROLE)
        if rehearsal:
            known = self.lab_keys is None or key_id in self.lab_keys
            return self.pinned.get(key_id, frozenset()) | ({enrolled} if known else frozenset())
        return frozenset() if enrolled == LAB_ROLE else self.pinned.get(key_id, frozenset())

    def roles_of_failure(self, key_id: str, *, rehearsal: bool) -> frozenset[str]:
        """The roles with which a key speaks against an asset: nobody signs roles.json, so it silences no failure."""
        lab = rehearsal and key_id in (self.lab_keys or ())
        pinned = self.pinned.get(key_id, frozenset())
        return self.roles(key_id, rehearsal=rehearsal) | pinned | ({LAB_ROLE} if lab else frozenset())

    def any_role(self, key_ids: frozenset[str], *, rehearsal: bool) -> bool:
        """Whether at least one of the keys counts at all."""
        return any(self.roles(key_id, rehearsal=rehearsal) for key_id in key_ids)

    def collected(self, key_ids: frozenset[str], *, rehearsal: bool, failed: bool = False) -> bool:
        """Whether a key that may record what the checks find is among them: no other one measures.

        ``failed``: what they say is a failure (see ``roles_of_failure``).
        """
        if (known := self._collected.get((key_ids, rehearsal, failed))) is not None:
            return known
        roles = self.roles_of_failure if failed else self.roles
        collectors = {COLLECTOR_ROLE, LAB_ROLE} if rehearsal else {COLLECTOR_ROLE}
        found = any(roles(key_id, rehearsal=rehearsal) & collectors for key_id in key_ids)
        self._collected[key_ids, rehearsal, failed] = found
        return found

    def missing_roles(self, wanted: tuple[str, ...], key_ids: frozenset[str], *, rehearsal: bool) -> tuple[str, ...]:
        """The wanted roles that cannot each be given another one of the keys (maximum matching, few keys)."""
        assigned: dict[str, str] = {}

        def assign(role: str, tried: set[str]) -> bool:
            for key_id in sorted(key_ids):
                if key_id in tried or role not in self.roles(key_id, rehearsal=rehearsal):
                    continue
                tried.add(key_id)
                if key_id not in assigned or assign(assigned[key_id], tried):
                    assigned[key_id] = role
                    return True
            return False

        return tuple(role for role in wanted if not assign(role, set()))


def pinned_keys(site: Site) -> frozenset[str]:
    """Fingerprints of all keys that a site file pins, for whatever role."""
    return frozenset(key_id for holder in site.attest.roles.values() for key_id in holder.keys)


def trust_of(site: Site, contents: Contents) -> Trust:
    """The trust of a site file and an evidence folder."""
    pinned: dict[str, set[str]] = {}
    for role, holder in site.attest.roles.items():
        for key_id in holder.keys:
            pinned.setdefault(key_id, set()).add(role)
    return Trust(
        {key_id: frozenset(roles) for key_id, roles in pinned.items()},
        {key_id: owner.role for key_id, owner in (contents.owners or {}).items()},
        contents.recorders,
        timedelta(days=site.attest.approval_days),
    )


def recorder_keys(site: Site) -> frozenset[str]:
    """Fingerprints of the keys that the site file pins for the role recorder."""
    holder = site.attest.roles.get(RECORDER_ROLE)
    return frozenset(holder.keys) if holder else frozenset()


def lab_key(site: Site) -> frozenset[str]:
    """The fingerprint of the key that signs evidence in a lab; none for a site whose key is no lab key, or is not there."""
    if site.credentials_given is None or site.credentials_given.evidence.role != LAB_ROLE:
        return frozenset()
    try:
        return frozenset({str(recorder_of(site).public_key.keyid)})
    except (SecretError, SigningKeyError):
        return frozenset()


def recorder_of(site: Site) -> CryptoSigner:
    """The key that records: ``credentials.evidence.recorder``, or ``key`` beside it.

    SecretError or SigningKeyError if it is not there, or is none.
    """
    if site.credentials_given is None:
        raise SecretError("the site file has no credentials.evidence.key, which signs each line of the evidence log")
    evidence = site.credentials_given.evidence
    name = "recorder" if evidence.recorder else "key"
    try:
        return signer_from(evidence.recorder or evidence.key, site.dir)
    except (SecretError, SigningKeyError) as error:
        raise type(error)(f"credentials.evidence.{name}, which records the evidence log: {error}") from None


def open_store(site: Site, path: Path, *, plan: str = "", recorder: CryptoSigner | None = None) -> Store:
    """The evidence store of a site, in which only what the site file pins verifies anything.

    ``plan`` is the hash of the plan that new lines are about, ``recorder`` the key that records them.
    """
    recorders = recorder_keys(site) | lab_key(site)
    return Store.open(path, pinned_keys(site), site=site.name, plan=plan, recorders=recorders, recorder=recorder)


def set_aside_another_labs(site: Site, path: Path, now: datetime) -> Path | None:
    """Rename an evidence folder whose log the key of today's lab did not record; returns the new place.

    A lab makes its keys anew at each ``up``, and what an earlier one recorded verifies no more. Only ``lab up`` and ``lab
    restore`` do this: the gate never does.
    """
    if not (path / "log.jsonl").exists():
        return None
    try:
        head = read_envelope(strict.read(path, "head.json", strict.MAX_SMALL).removesuffix(b"\n"))
        ours = bool(set(head.signatures) & (recorder_keys(site) | lab_key(site))) and (path / "store.json").exists()
    except (ValueError, FileNotFoundError):
        ours = False
    if ours:
        return None
    return path.rename(path.with_name(f"{path.name}-{now:%Y%m%dT%H%M%S%fZ}"))
