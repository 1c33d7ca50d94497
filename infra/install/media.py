"""Start a server once from a CD that its BMC shows as a drive, so that its boot drives are written (infra/boot/iso.py).

start("mgmt01", bmc, "http://10.0.0.9:8000/management.iso")      DeviceError where it stands still
"""

from collections.abc import Mapping
from typing import Protocol

from capacity.services.boot.life import OTHER_STOPS
from network.drivers.errors import WriteRefused

INSERT_S = 120.0
"""For a BMC to mount an image, and for the power to come on. Not confirmed in a document: some copy the image first."""


class MediaBmc(Protocol):
    """What is needed of `network.drivers.redfish.Bmc`."""

    def state(self) -> Mapping[str, object]: ...

    def eject_media(self) -> bool: ...

    def insert_media(self, image: str) -> bool: ...

    def set_boot(self, target: str, enabled: str = "Once") -> None: ...

    def power(self, reset: str, wait: bool = True) -> bool: ...


def start(name: str, bmc: MediaBmc, image: str) -> None:
    """Insert the image, and switch the server on from it, once. WriteRefused for a server that is not off: what runs on it would be
    cut. What its drives hold is judged by the initramfs, which writes nothing that is not consented to. What is inserted is ejected
    first: a BMC may keep a copy of what was at the same address before.
    """
    power = bmc.state()["power"]
    if power != "Off":
        raise WriteRefused(name, "start from a CD", "power Off", f"power {power or 'not told'}", OTHER_STOPS["in-use"])
    bmc.eject_media()
    bmc.insert_media(image)
    bmc.set_boot("Cd")
    bmc.power("On")
