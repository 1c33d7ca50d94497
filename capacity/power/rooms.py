"""Rooms of the feeds: which feeds are lost together with a room or the grid."""

from collections.abc import Iterable

from inventory.findings import RemedyOf, remedy
from inventory.site import Site

GRID = "grid"


def room_of(site: Site, feed: str) -> str:
    """Electrical room of a feed: the site's, or one of its own."""
    given = site.electrical.rooms if site.electrical else {}
    return given.get(feed, f"room-{feed.lower()}")


def name_of(site: Site, case: str) -> str:
    """What is lost in a state of the plan's frames, by name: "feed B", "room er-1", an element, "grid"; '' for none."""
    return f"room {case}" if case in {room_of(site, feed) for feed in site.power.feeds} else case


def apart(site: Site, sharing: Iterable[str]) -> RemedyOf:
    """A room of its own for each feed of `sharing`; the other feeds keep theirs."""
    alone = tuple(sharing)
    rooms = {feed: f"room-{feed.lower()}" if feed in alone else room_of(site, feed) for feed in site.power.feeds}
    return remedy({"electrical.rooms": rooms}, fix="room-per-feed", feeds=", ".join(alone))


def shared_rooms(site: Site) -> list[str]:
    """Rooms that several feeds share."""
    rooms = [room_of(site, feed) for feed in site.power.feeds]
    return sorted({room for room in rooms if rooms.count(room) > 1})


def shared(site: Site) -> list[str]:
    """What takes several feeds at once when it is lost: a room that they share, the grid."""
    return [GRID, *shared_rooms(site)]
