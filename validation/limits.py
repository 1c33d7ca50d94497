"""Which limits of the site file a check was judged by: evidence goes stale when one of them changes.

    limits = LimitsRead(site.limits)
    with limits.reading() as read: ...       # read: the keys that were asked for meanwhile, also those that are missing

A record names each as the input `limit.<key>`, with the digest of its value, unit and source.
"""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from inventory.site.sections.acceptance import Limit

PREFIX = "limit."


class LimitsRead(dict[str, Limit]):
    """The limits of a site, which notes the keys that the thread of its maker asks for.

    Other threads are left out: they run beside several checks, and what they read are time budgets.
    """

    def __init__(self, limits: Mapping[str, Limit]) -> None:
        super().__init__(limits)
        self._readers: list[set[str]] = []
        self._thread = threading.get_ident()

    @contextmanager
    def reading(self) -> Iterator[set[str]]:
        """The keys that are read inside, including those of an inner `reading`."""
        keys: set[str] = set()
        self._readers.append(keys)
        try:
            yield keys
        finally:
            self._readers.pop()

    def _note(self, key: str) -> None:
        if threading.get_ident() == self._thread:
            for keys in self._readers:
                keys.add(key)

    def __getitem__(self, key: str) -> Limit:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)


def limit_digest(limit: Limit | None) -> str:
    """SHA-256 of a limit's value, unit and source; of 'null' for one that the site file does not have."""
    said = None if limit is None else {"value": limit.value, "unit": limit.unit, "source": limit.source}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def limit_inputs(limits: Mapping[str, Limit], keys: set[str]) -> dict[str, str]:
    """The inputs of a record that was judged by these limits."""
    return {f"{PREFIX}{key}": limit_digest(limits.get(key)) for key in sorted(keys)}
