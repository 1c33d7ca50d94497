"""A BMC's factory account is closed: the site's account gets the site's password, and the factory's password goes.

take_over("gpu001", connect, own, factory)      `connect` makes its driver with the credentials that it is given
"""

from collections.abc import Callable
from typing import Protocol

from network.drivers.credentials import BmcCredentials
from network.drivers.errors import WriteRefused


class AccountBmc(Protocol):
    """What is needed of `network.drivers.redfish.Bmc`."""

    def login_refused(self, user: str, password: str) -> bool: ...

    def ensure_account(self, user: str, password: str, role: str = "Administrator") -> bool: ...

    def change_password(self, user: str, password: str) -> None: ...


def take_over(
    name: str, connect: Callable[[BmcCredentials], AccountBmc], own: BmcCredentials, factory: BmcCredentials | None
) -> bool:
    """Whether the factory's account was open until now. WriteRefused where it still works afterwards."""
    if factory is None or connect(own).login_refused(factory.user, factory.password):
        return False
    bmc = connect(factory)
    if factory.user != own.user:
        bmc.ensure_account(own.user, own.password)
        bmc = connect(own)
    bmc.change_password(factory.user, own.password)
    if not bmc.login_refused(factory.user, factory.password):
        raise WriteRefused(
            name,
            "close the factory account",
            f"the factory login of {factory.user} refused",
            "it still works",
            "disable that account by hand on the BMC's own page",
        )
    return True
