"""What the CDs of a site would have written: the boot server's place where servers are started by virtual media.

    Cds(folder of the images).offers()       by MAC with hyphens, from ROLE/ROLE.iso each

A CD tells nobody what it writes, and needs no DHCP.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from capacity.services.boot.life import Report
from capacity.services.boot.starting import Offer, OfferError, parse_offer
from infra.boot import iso
from infra.boot.image import ImageBuildError
from network.drivers.errors import UnreadableAnswer

MAKE = "bringup image build ROLE --iso, and serve it under provisioning.media"


class Cds:
    """Each CD is read once while it does not change."""

    def __init__(self, images: Path) -> None:
        self._images = images
        self._read: dict[Path, tuple[tuple[int, int], dict[str, Offer]]] = {}

    def reports(self) -> Mapping[str, Sequence[Report]]:
        return {}

    def offers(self) -> Mapping[str, Offer]:
        """UnreadableAnswer for a folder without CDs, and for a file that is none of ours."""
        found = {folder / f"{folder.name}.iso" for folder in self._images.glob("*/")}
        there = sorted(path for path in found if path.is_file())
        if not there:
            raise UnreadableAnswer(str(self._images), "read what CDs write", "ROLE/ROLE.iso", "none", MAKE)
        return {mac: offer for path in there for mac, offer in self._offers(path).items()}

    def others(self) -> str:
        return ""

    def _offers(self, path: Path) -> dict[str, Offer]:
        status = path.stat()
        state = (status.st_mtime_ns, status.st_size)
        if self._read.get(path, (None, None))[0] != state:
            try:
                plans = iso.plans(path)
                self._read[path] = state, {name: parse_offer(text) for name, text in plans.items()}
            except (ImageBuildError, OfferError, OSError, UnicodeDecodeError) as error:
                raise UnreadableAnswer(str(path), "read what it writes", "plans of servers", str(error), MAKE) from None
        return self._read[path][1]
