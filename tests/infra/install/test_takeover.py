"""The factory's account of a BMC is closed, also where it may only change its password, and after a run that was stopped."""

from collections.abc import Callable

import pytest

from infra.install.takeover import take_over
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import OtherDeviceChanged
from tests.infra.provider.fakes import FakeBmc, FakeServer

OWN = BmcCredentials("bringup", "of-the-site")


def factory_of(user: str) -> BmcCredentials:
    return BmcCredentials(user, "on-the-label")


def delivered(user: str = "ADMIN", must_change: bool = True, planned: str = "S1") -> FakeServer:
    return FakeServer(
        "gpu001", {user: "on-the-label"}, "S1", must_change={user} if must_change else set(), planned_serial=planned
    )


def connect(server: FakeServer) -> Callable[[BmcCredentials], FakeBmc]:
    return lambda credentials: FakeBmc(server, credentials)


@pytest.mark.parametrize("must_change", [False, True])
@pytest.mark.parametrize("user", ["ADMIN", "bringup"])
def test_the_factorys_password_goes_and_the_sites_account_is_there(user: str, must_change: bool) -> None:
    server = delivered(user, must_change)
    assert take_over("gpu001", connect(server), OWN, factory_of(user)) is True
    assert server.passwords == {user: "of-the-site", "bringup": "of-the-site"}
    assert take_over("gpu001", connect(server), OWN, factory_of(user)) is False


def test_a_run_that_was_stopped_after_the_required_change_is_taken_up() -> None:
    server = delivered(must_change=False)
    server.passwords = {"ADMIN": "of-the-site"}
    assert take_over("gpu001", connect(server), OWN, factory_of("ADMIN")) is True
    assert server.passwords["bringup"] == "of-the-site"


def test_a_bmc_with_neither_login_is_left_alone() -> None:
    server = delivered(must_change=False)
    server.passwords = {"ADMIN": "somebody's"}
    assert take_over("gpu001", connect(server), OWN, factory_of("ADMIN")) is False
    assert server.passwords == {"ADMIN": "somebody's"}


def test_another_server_is_named_with_what_was_changed_and_the_way_back() -> None:
    server = delivered(planned="S2")
    with pytest.raises(OtherDeviceChanged) as stopped:
        take_over("gpu001", connect(server), OWN, factory_of("ADMIN"))
    said = str(stopped.value)
    assert "expected serial S2, saw serial S1" in said
    assert "the password of ADMIN there is now the one of gpu001 in credentials.bmc.password" in said
    assert "to go back, log in to its page with that one and set what its label says" in said
    assert "of-the-site" not in said
    assert "on-the-label" not in said
    assert "bringup" not in server.passwords


def test_without_the_factorys_account_in_the_site_file_nothing_is_changed() -> None:
    server = delivered("bringup")
    assert take_over("gpu001", connect(server), OWN, None) is False
    assert server.passwords == {"bringup": "on-the-label"}
