"""Rooms of the feeds: which feeds are lost together with a room or the grid."""

from inventory.site import Site

GRID = "grid"


def room_of(site: Site, feed: str) -> str:
    """Electrical room of a feed: the site's, or one of its own."""
    given = site.electrical.rooms if site.electrical else {}
    return given.get(feed, f"room-{feed.lower()}")


def in_words(site: Site, case: str) -> str:
    """A state of the plan's frames in words."""
    room = "room " if case in {room_of(site, feed) for feed in site.power.feeds} else ""
    return f"after loss of {room}{case}" if case else "with all feeds up"


def shared_rooms(site: Site) -> list[str]:
    """Rooms that several feeds share."""
    rooms = [room_of(site, feed) for feed in site.power.feeds]
    return sorted({room for room in rooms if rooms.count(room) > 1})


def shared(site: Site) -> list[str]:
    """What takes several feeds at once when it is lost: a room that they share, the grid."""
    return [GRID, *shared_rooms(site)]
