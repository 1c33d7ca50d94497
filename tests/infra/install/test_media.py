"""Starts from a CD: in which order a BMC is asked, and which server is left alone."""

import pytest

from infra.install import media
from network.drivers.errors import WriteRefused

URL = "http://10.77.0.9:8000/management.iso"


class Bmc:
    """A BMC that notes what it is asked to do."""

    def __init__(self, power: str) -> None:
        self.is_at, self.did = power, list[tuple[str, ...]]()

    def state(self) -> dict[str, str]:
        return {"power": self.is_at}

    def eject_media(self) -> bool:
        self.did.append(("eject",))
        return True

    def insert_media(self, image: str) -> bool:
        self.did.append(("insert", image))
        return True

    def set_boot(self, target: str, enabled: str = "Once") -> None:
        self.did.append(("boot", target, enabled))

    def power(self, reset: str, wait: bool = True) -> bool:
        self.did.append(("power", reset))
        return True


def test_a_server_that_is_off_is_started_once_from_the_cd() -> None:
    bmc = Bmc("Off")
    media.start("mgmt01", bmc, URL)
    assert bmc.did == [("eject",), ("insert", URL), ("boot", "Cd", "Once"), ("power", "On")]


@pytest.mark.parametrize("power", ["On", "PoweringOff", ""])
def test_a_server_that_is_not_off_is_left_alone(power: str) -> None:
    bmc = Bmc(power)
    with pytest.raises(WriteRefused, match="mgmt01: start from a CD: expected power Off"):
        media.start("mgmt01", bmc, URL)
    assert bmc.did == []
