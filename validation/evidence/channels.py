"""The ledger of channels: which devices are proven to be the planned assets, from all records of a log. Pure.

    ledger = Ledger(entries, kinds=..., identifiers=..., host_keys=..., site="...", store="...")
    ledger.doubt("gpu001", record.ended)     # None: it was the real asset then; else one sentence why that is not proven

A device is proven at a time if, within `WINDOW` of it, at least three independent channels (markers.yaml) each showed an
identifier that the inventory lists for it today, one of them a challenge and one from outside of its own session, and none
showed another identifier or a marker of a simulator. Of one channel the newest line of the log decides; another channel of its
group corrects nothing. The records may be of different checks: a run asks each device once on each channel.
"""

import bisect
import functools
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from validation.evidence.mode import PINNED, Identity, declares_simulation
from validation.evidence.sshsig import verifies
from validation.evidence.store import Entry

WINDOW = timedelta(days=7)
"""How far from a record a channel may have been seen. Practice of this suite, not from a standard: a run with its burn-in of
two days and some repetitions fits, the exchange of a device in between shows by its identifiers."""
NONCE_AGE = timedelta(hours=24)
"""How old a challenge may be when the record with its answer ends: facts are gathered at the start of a run. Practice of this
suite, not from a standard."""
CLOCK_SKEW = timedelta(minutes=5)
NAMESPACE = "challenge@bringup"
"""Namespace of the signatures (ssh-keygen -Y sign -n): one that was made for another purpose does not verify."""
_MESSAGE = re.compile(
    r"bringup challenge 2\nsite (\S{1,64})\nstore (\S{1,64})\ndevice (\S{1,64})\nat (\S{1,40})\nnonce ([0-9a-f]{64})\n"
)
_FORMS = (
    ("gpu", re.compile(r"gpu-[0-9a-f-]{36}")),
    ("uuid", re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
    ("mac", re.compile(r"[0-9a-f]{2}([:-][0-9a-f]{2}){5}")),
    ("guid", re.compile(r"(0x)?[0-9a-f]{16}")),
)


@dataclass(frozen=True)
class Channel:
    """One row of `channels` in markers.yaml."""

    group: str
    identifiers: frozenset[str]
    session: bool
    observer: bool
    observers: frozenset[str]
    challenge: str


@dataclass(frozen=True)
class _Rules:
    channels: Mapping[str, Channel]
    kinds: Mapping[str, Mapping[str, int]]
    needed: int

    @functools.cached_property
    def outside(self) -> frozenset[str]:
        """Groups with a channel that is not read over the device's own session."""
        return frozenset(row.group for row in self.channels.values() if row.observer or not row.session)


@functools.cache
def _rules() -> _Rules:
    data = yaml.safe_load((Path(__file__).parent / "markers.yaml").read_text(encoding="utf-8"))
    channels = {
        name: Channel(
            row["group"],
            frozenset(row["identifiers"]),
            row.get("session", False),
            row.get("observer", False),
            frozenset(row.get("observers", ())),
            row.get("challenge", ""),
        )
        for name, row in data["channels"].items()
    }
    return _Rules(channels, data["kinds"], int(data["real_needs_channels"]))


def challenge(site: str, store: str, device: str, at: datetime) -> str:
    """A message that nobody has signed before, for one device of one site and one evidence store."""
    place = f"site {site}\nstore {store}\ndevice {device}\n"
    return f"bringup challenge 2\n{place}at {at.isoformat()}\nnonce {secrets.token_hex(32)}\n"


def form_of(identifier: str) -> str:
    """Which kind of identifier a text is: gpu, uuid, mac, guid, or else serial."""
    text = identifier.strip().lower()
    return next((name for name, form in _FORMS if form.fullmatch(text)), "serial")


@dataclass(frozen=True)
class _Said:
    """What one identity says of its device, whenever it was read: `against` says why it speaks against it, '' that it counts.

    ``readings`` has when and in which line each reading of its channel was made. ``signed``: it counts only with a signature
    that holds. ``challenges``: when the device answered one; None for what is none.
    """

    name: str
    against: str
    readings: list["_Reading"]
    signed: bool
    challenges: list[datetime] | None


_Reading = tuple[datetime, int, str]
"""When one channel said something of a device, the line of the log, and why that speaks against it."""


class Ledger:
    """What the records of a log say of each planned device.

    ``entries``      records whose signatures count; recordings and attestations are left out here
    ``speaking_against``  records of keys that roles.json keeps from counting: they prove nothing, and what they say against
                     a device stays, because nobody signs roles.json
    ``kinds``        kind of each device of the plan (server, switch, pdu)
    ``identifiers``  per device and part (DEVICE:PORT), what the inventory lists today
    ``site``, ``store``  name of the site and id of its evidence store: a challenge of another one was not made for this log
    ``host_keys``    per device, its ed25519 host keys in base64 that are pinned today; none for keys accepted on first use. What
                     was read over the session of a device without one proves nothing
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        kinds: Mapping[str, str],
        identifiers: Mapping[str, Iterable[str]],
        host_keys: Mapping[str, frozenset[str]],
        site: str,
        store: str,
        speaking_against: Iterable[Entry] = (),
    ) -> None:
        self._kinds, self._host_keys, self._place = kinds, host_keys, (site, store)
        self._listed: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for name, texts in identifiers.items():
            for text in texts:
                if text:
                    self._listed[self.owner(name)][form_of(text)].add(_plain(text))
        kept: dict[str, dict[tuple[str, str, str], list[_Reading]]] = defaultdict(lambda: defaultdict(list))
        challenged: dict[str, list[datetime]] = defaultdict(list)
        nonces: dict[str, Identity] = {}
        judged: dict[int, _Said | None] = {}  # by the identity's id: a log says the same of a device many times
        counting = [(entry, True) for entry in entries]
        both = [*counting, *((entry, False) for entry in speaking_against)]
        for entry, counts in sorted(both, key=lambda one: one[0].line):
            record = entry.record
            if record.replayed or record.kind == "attested":
                continue
            for identity in (*record.identities, *record.channels):
                if (key := id(identity)) not in judged:
                    judged[key] = self._judged(identity, kept, challenged)
                said = judged[key]
                if said is None or not (counts or said.against):
                    continue
                if said.signed and not self._signed(identity, said.name, record.ended, nonces):
                    continue
                said.readings.append((record.ended, entry.line, said.against))
                if said.challenges is not None:
                    said.challenges.append(record.ended)
        self._seen = {
            name: [(group, party, _Timeline(found)) for (group, party, _), found in parts.items() if found]
            for name, parts in kept.items()
        }
        self._challenged = {name: sorted(times) for name, times in challenged.items()}
        self._doubts: dict[tuple[str, datetime], str | None] = {}

    def owner(self, device: str) -> str:
        """The planned device that a part such as gpu001:ib0 belongs to; other names as they are."""
        head = device.partition(":")[0]
        return head if head in self._kinds else device

    def planned(self, name: str) -> bool:
        """Whether the plan has a device of this name."""
        return name in self._kinds

    def _allowed(self, name: str) -> Mapping[str, int]:
        """The groups of channels that count for a planned device, and how often; none where nothing says so."""
        return _rules().kinds.get(self._kinds.get(name, ""), {})

    def doubt(self, device: str, at: datetime) -> str | None:
        """Why a device is not proven to have been the planned asset at a time, or None."""
        if (device, at) not in self._doubts:
            self._doubts[device, at] = self._doubt(device, at)
        return self._doubts[device, at]

    def _doubt(self, device: str, at: datetime) -> str | None:
        name = self.owner(device)
        if name not in self._kinds:
            return f"{device} is no device of the plan"
        if name not in self._listed:
            return f"assets.csv does not list {name}"
        allowed = self._allowed(name)
        if not allowed:
            return f"nothing says which channels prove a {self._kinds[name]}"
        parties: set[tuple[str, str]] = set()
        for group, party, timeline in self._seen.get(name, ()):
            against = timeline.newest(at)
            if against:
                return against
            if against is not None and group in allowed:
                parties.add((group, party))
        groups = Counter(group for group, _ in parties)
        count = sum(min(times, allowed[group]) for group, times in groups.items())
        if count < _rules().needed:
            shown = ", ".join(sorted(groups)) or "none"
            return f"{count} of {_rules().needed} independent channels show that {name} is the listed asset ({shown})"
        if not groups.keys() & _rules().outside:
            others = " or ".join(sorted(allowed.keys() & _rules().outside))
            own = "were read over its own session, for which one host key answers"
            return f"all channels of {name} {own}; one has to be the {others}"
        times = self._challenged.get(name, [])
        if bisect.bisect_left(times, at - WINDOW) == bisect.bisect_right(times, at + WINDOW):
            return f"{name} has answered no challenge: a signature by its pinned host key, or a cut seen elsewhere"
        return None

    def _judged(
        self,
        said: Identity,
        kept: Mapping[str, Mapping[tuple[str, str, str], list[_Reading]]],
        challenged: Mapping[str, list[datetime]],
    ) -> _Said | None:
        """What an identity says of its device; None where it says nothing that counts."""
        name, rule = self.owner(said.device), _rules().channels.get(said.channel)
        group = rule.group if rule else ""
        party = self.owner(said.observer) if group == "neighbour" else ""  # two of them count as two channels

        def seen(against: str = "") -> _Said:
            answers = bool(rule and rule.challenge) and not against and group in self._allowed(name)
            signed = bool(rule and rule.challenge == "signature") and not against
            readings = kept[name][group, party, said.channel]
            return _Said(name, against, readings, signed, challenged[name] if answers else None)

        if declares_simulation(said):
            return seen(f"{said.device} declares itself simulated by {said.channel}")
        if rule is None or not said.serial:
            return None
        listed, form = self._listed.get(name, {}), form_of(said.serial)
        if form not in rule.identifiers:
            return None
        if _plain(said.serial) not in listed.get(form, ()):
            if rule.observer or form not in listed:
                return None
            return seen(f"{said.device} says {said.serial} by {said.channel}, which assets.csv does not list for it")
        if rule.session and not (said.enrolled == PINNED and self._host_keys.get(self._session_of(said))):
            return None
        if rule.observer and not self._can_see(rule, self.owner(said.observer), name):
            return None
        return seen()

    def _can_see(self, rule: Channel, observer: str, name: str) -> bool:
        """Whether an observer is another device of the plan, of a kind that can see this."""
        kind = self._kinds.get(observer)
        return kind is not None and observer != name and (not rule.observers or kind in rule.observers)

    def _session_of(self, said: Identity) -> str:
        """Whose session an identity was read over: that of the device that saw it, else the device's own."""
        return self.owner(said.observer or said.device)

    def _signed(self, said: Identity, name: str, at: datetime, nonces: dict[str, Identity]) -> bool:
        """Whether a device signed our message with its pinned host key, for the first time in this log and in time."""
        found = _MESSAGE.fullmatch(said.message)
        if found is None:
            return False
        site, store, device, made, nonce = found.groups()
        try:
            age = at - datetime.fromisoformat(made)
        except (TypeError, ValueError):
            return False
        if nonce in nonces or (site, store, device) != (*self._place, name) or not -CLOCK_SKEW <= age <= NONCE_AGE:
            return False
        if not verifies(said.signature, said.message, NAMESPACE, self._host_keys.get(name, frozenset())):
            return False
        nonces[nonce] = said
        return True


class _Timeline:
    """What one channel said of a device, for the question which reading decides at a time.

    A log can hold a hundred thousand readings, and each record asks: an answer takes logarithmic time (a segment tree). Where
    no reading speaks against the device, it only matters whether there is one, and no tree is made.
    """

    def __init__(self, readings: Iterable[_Reading]) -> None:
        self._readings = sorted(readings, key=lambda one: one[0])
        self._times = [at for at, _, _ in self._readings]
        self._most: list[tuple[int, bool, int]] = []
        if any(against for _, _, against in self._readings):
            keys = [(line, bool(against), number) for number, (_, line, against) in enumerate(self._readings)]
            self._most = [(-1, False, -1)] * len(keys) + keys
            for at in range(len(keys) - 1, 0, -1):
                self._most[at] = max(self._most[2 * at], self._most[2 * at + 1])

    def newest(self, at: datetime) -> str | None:
        """What speaks against the device in the reading within the window that stands last in the log, which corrects earlier
        ones: '' for nothing. Of one line, what speaks against it decides; None where there is no reading."""
        left = bisect.bisect_left(self._times, at - WINDOW)
        right = bisect.bisect_right(self._times, at + WINDOW)
        if left == right:
            return None
        if not self._most:
            return ""
        left, right = left + len(self._readings), right + len(self._readings)
        most = (-1, False, -1)
        while left < right:
            if left & 1:
                most = max(most, self._most[left])
                left += 1
            if right & 1:
                right -= 1
                most = max(most, self._most[right])
            left, right = left // 2, right // 2
        return self._readings[most[2]][2]


def _plain(text: str) -> str:
    return text.strip().lower().removeprefix("0x").replace(":", "").replace("-", "")
