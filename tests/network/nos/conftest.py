"""What the tests of SONiC's two renderings share."""

import pytest

from tests.network.nos.sonic_yang import Checker


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    """SONiC's published YANG models."""
    return Checker(tmp_path_factory.mktemp("yang"))
