"""Reports and offers of a boot server over SSH: read once for all that ask at the same time, none where nobody reported yet."""

from pathlib import Path
from typing import Any, cast

import pytest

from infra.install import boot_server
from infra.install.boot_server import LIST_PLANS, BootServer, Shared
from inventory.paths import repo_root
from network.drivers.errors import BadAnswer
from network.drivers.ssh import Completed, SshHost
from tests.capacity.services.boot.test_starting import RENDERED


class Host:
    """A boot server whose files are texts; None: there is none."""

    name, address = "mgm01", "10.0.0.2"

    def __init__(self, spool: str | None, plans: str, others: str = "") -> None:
        self.spool, self.plans, self.others, self.asked = spool, plans, others, 0

    def run(self, command: Any, *, check: bool = True) -> Completed:
        self.asked += 1
        if command == LIST_PLANS:
            return Completed(0, self.plans, "", 0.1)
        if command[:2] == ["sh", "-c"]:
            return Completed(0, self.others, "", 0.1)
        if self.spool is None:
            return Completed(1, "", "cat: /var/lib/bringup/boot/reports.jsonl: No such file or directory", 0.1)
        return Completed(0, self.spool, "", 0.1)


def served(host: Host, fresh_s: float = 3600.0) -> BootServer:
    return BootServer(cast(SshHost, host), fresh_s)


LINE = '{"time": 5.0, "mac": "02-5e-00-00-00-01", "address": "10.0.0.1", "state": "started", "text": "x"}\n'


def test_reports_and_offers_are_read_by_mac() -> None:
    server = served(Host(LINE, f"== 02-5e-00-00-00-01.env\n{RENDERED}"))
    assert [report.state for report in server.reports()["02-5e-00-00-00-01"]] == ["started"]
    assert server.offers()["02-5e-00-00-00-01"].version == "0123456789ab"


def test_a_boot_server_that_nobody_reported_to_yet_has_no_reports() -> None:
    assert served(Host(None, "")).reports() == {}


def test_who_asks_at_the_same_time_gets_one_answer() -> None:
    host = Host(LINE, "")
    server = served(host)
    for _ in range(50):
        server.reports()
    assert host.asked == 1
    again = served(host, fresh_s=0.0)
    again.reports()
    again.reports()
    assert host.asked == 3


def test_an_error_is_told_to_each_that_asks() -> None:
    server = served(Host(LINE, "== 02-5e-00-00-00-01.env\nreboot\n"))
    for _ in range(2):
        with pytest.raises(BadAnswer, match="bringup boot render, then playbooks/boot.yml"):
            server.offers()


def test_an_empty_answer_is_kept_like_any_other() -> None:
    made: list[int] = []
    shared = Shared(lambda: made.append(1), 3600.0)
    shared.get()
    shared.get()
    assert made == [1]


def test_the_folder_is_the_one_that_the_role_serves_from() -> None:
    defaults = Path("playbooks/roles/boot_server/defaults/main.yml")
    root = (repo_root() / defaults).read_text()
    assert f"boot_server_root: {boot_server.PLANS.removesuffix('/http/plan')}\n" in root


ROGUE = '[{"server": "10.0.0.66", "offered": "10.0.0.99", "mac": "02:00:00:00:00:66"}]'


def test_another_dhcp_server_is_named_by_address_and_mac() -> None:
    assert served(Host("", "", ROGUE)).others() == "DHCP is answered by 10.0.0.66 (02:00:00:00:00:66) as well"
    assert (
        served(Host("", "", ROGUE.replace("02:00:00:00:00:66", "")))
        .others()
        .endswith("10.0.0.66 (MAC unknown) as well")
    )


@pytest.mark.parametrize("said", ["", "[]"])
def test_a_boot_server_alone_on_its_segment_or_without_the_probe_names_nobody(said: str) -> None:
    assert served(Host("", "", said)).others() == ""


@pytest.mark.parametrize("said", ["{", "{}x", '["x"]', '[{"server": "x y", "mac": ""}]', '[{"server": 1}]', "7"])
def test_another_answer_of_the_probe_is_refused(said: str) -> None:
    with pytest.raises(BadAnswer, match="a JSON list of DHCP servers"):
        served(Host("", "", said)).others()
