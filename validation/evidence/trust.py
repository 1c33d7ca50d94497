"""Whose signature counts for what.

The site file is the root of trust: ``attest.roles.<role>.keys`` pins the fingerprints of the keys that hold a role.
``roles.json`` in the evidence folder only says what a key was enrolled as. A key that the site file does not pin, and
every key enrolled as ``lab``, counts in a rehearsal and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from inventory.site import Site
from validation.evidence.store import LAB_ROLE, Contents

COLLECTOR_ROLE = "collector"
"""The role whose key signs what the checks record: computed, generated, applied, measured and observed items."""


@dataclass(frozen=True)
class Trust:
    """Roles by key id. ``pinned`` comes from the site file, ``enrolled`` from the evidence folder."""

    pinned: Mapping[str, frozenset[str]]
    enrolled: Mapping[str, str]

    def roles(self, key_id: str, *, rehearsal: bool) -> frozenset[str]:
        """The roles that a key holds; at go-live only the pinned ones count."""
        enrolled = self.enrolled.get(key_id, LAB_ROLE)
        if rehearsal:
            return self.pinned.get(key_id, frozenset()) | {enrolled}
        return frozenset() if enrolled == LAB_ROLE else self.pinned.get(key_id, frozenset())

    def any_role(self, key_ids: frozenset[str], *, rehearsal: bool) -> bool:
        """Whether at least one of the keys counts at all."""
        return any(self.roles(key_id, rehearsal=rehearsal) for key_id in key_ids)

    def collected(self, key_ids: frozenset[str], *, rehearsal: bool) -> bool:
        """Whether a key that may record what the checks find is among them: no other one measures."""
        collectors = {COLLECTOR_ROLE, LAB_ROLE} if rehearsal else {COLLECTOR_ROLE}
        return any(self.roles(key_id, rehearsal=rehearsal) & collectors for key_id in key_ids)

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
    )
