"""A BMC's factory account is closed: the site's account gets the site's password, and the factory's password goes.

take_over("gpu001", connect, own, factory)      `connect` makes its driver with the credentials that it is given

A BMC may let the factory's password do nothing but change it (DSP0266, password change required). Its serial is then compared
afterwards, and another server than the planned one is named with what was changed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from network.drivers.credentials import BmcCredentials
from network.drivers.errors import IdentityMismatch, OtherDeviceChanged, WriteRefused


class AccountBmc(Protocol):
    """What is needed of `network.drivers.redfish.Bmc`, which knows the planned serial and UUID."""

    def login_refused(self, user: str, password: str) -> bool: ...

    def compare_identity(self) -> None: ...

    def ensure_account(self, user: str, password: str, role: str = "Administrator") -> bool: ...

    def change_password(self, user: str, password: str) -> None: ...

    def change_required_password(self, password: str) -> bool: ...


def take_over(
    name: str, connect: Callable[[BmcCredentials], AccountBmc], own: BmcCredentials, factory: BmcCredentials | None
) -> bool:
    """Whether the factory's account was open until now. WriteRefused where it still works afterwards.

    OtherDeviceChanged where a BMC wanted its password changed before it said which server it is, and it is another one.
    """
    if factory is None:
        return False
    changed = replace(factory, password=own.password)
    if connect(own).login_refused(factory.user, factory.password):
        return _goes_on(connect, own, changed)
    bmc = connect(factory)
    if bmc.change_required_password(own.password):
        _is_planned(name, connect(changed), factory.user)
        if factory.user != own.user:
            connect(changed).ensure_account(own.user, own.password)
    else:
        if factory.user != own.user:
            bmc.ensure_account(own.user, own.password)
            bmc = connect(own)
        bmc.change_password(factory.user, own.password)
    if not connect(own).login_refused(factory.user, factory.password):
        raise WriteRefused(
            name,
            "close the factory account",
            f"the factory login of {factory.user} refused",
            "it still works",
            "disable that account by hand on the BMC's own page",
        )
    return True


def _goes_on(connect: Callable[[BmcCredentials], AccountBmc], own: BmcCredentials, changed: BmcCredentials) -> bool:
    """Make the site's account where an earlier run was stopped between the factory's password and that."""
    if changed.user == own.user or not connect(own).login_refused(own.user, own.password):
        return False
    if connect(own).login_refused(changed.user, changed.password):
        return False
    connect(changed).ensure_account(own.user, own.password)
    return True


def _is_planned(name: str, bmc: AccountBmc, user: str) -> None:
    """OtherDeviceChanged unless this is the planned server; its password is the site's already."""
    way_back = (
        f"the password of {user} there is now the one of {name} in credentials.bmc.password: find which server stands at this "
        f"address; to go back, log in to its page with that one and set what its label says; then correct cabling or assets.csv"
    )
    try:
        bmc.compare_identity()
    except IdentityMismatch as error:
        raise OtherDeviceChanged(
            name, "identify after the required change of its password", error.expected, error.seen, way_back
        ) from error
