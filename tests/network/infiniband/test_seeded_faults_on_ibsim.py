"""Faults drawn at random in a fabric of 128 adapters that ibsim simulates: ibnetdiscover looks, the suite judges.

The simulator gets the cables as they are after the faults of one seed, parts without a path to the looker too. What ibnetdiscover
writes of it is parsed and compared as on a site; the same judge as without the simulator says what has to be found. Error counters
are not the simulator's: ibqueryerrors asks a subnet manager, and this fabric has none (the lab's fault ib-link-errors has one).
"""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacity.build import planned
from inventory.site import load_site
from inventory.site.new import Wanted, site_text
from network.infiniband import compare, parse
from tests.network.infiniband import test_seeded_faults as drawn
from tests.network.infiniband.test_seeded_faults import Hall, Halls
from tests.seed import SEED

ADAPTERS, RUNS, HDR_GBPS = 128, 20, 200.0
LIBRARY = Path("/usr/lib")
START_S, TOOL_S = 20.0, 60.0
NODE = re.compile(r'^(Switch|Ca)\t\d+ "[SH]-([0-9a-f]{16})"', re.MULTILINE)


@pytest.fixture(scope="module")
def halls(tmp_path_factory: pytest.TempPathFactory) -> Halls:
    """Sixteen servers of eight adapters on eight leaves and four spines. They count as servers of the lab, whose adapters are named
    mlx5_0 to mlx5_7 as `drawn.description` names them, and links run at HDR, the fastest that ibsim knows.
    """
    path = tmp_path_factory.mktemp("site") / "site.yaml"
    path.write_text(site_text(Wanted("hall", gpu="h100", fabric="ib", servers=16)))
    made = drawn.halls_of(planned(load_site(path)), 1)
    (fabric,) = made.fabrics
    made.plan.devices.loc[made.plan.devices["kind"] == "server", "model"] = load_site("lab").server.model
    made.plan.cables["rate_gbps"] = HDR_GBPS
    assert sum(drawn.device(end) not in fabric.switches for end in fabric.planned) == ADAPTERS
    return made


def net_file(hall: Hall) -> str:
    """The whole hall as ibsim reads it, also what the looker has no path to."""
    seen = hall.seen()
    hall.lit = {drawn.edge(a, b) for a, b in hall.there.items() if hall.dead not in (drawn.device(a), drawn.device(b))}
    said = drawn.text([hall])
    hall.lit = seen
    return NODE.sub(lambda found: f"{'switch' if found[1] == 'Switch' else 'ca'}guid=0x{found[2]}\n{found[0]}", said)


def identity(hall: Hall, end: str) -> str:
    """ibsim's name of the node of an end."""
    name = drawn.node(end, hall)
    return f"S-{hall.guids[name]}" if name in hall.fabric.switches else f"H-{int(hall.guids[name], 16) - 1:016x}"


@contextlib.contextmanager
def simulated(hall: Hall, folder: Path) -> Iterator[dict[str, str]]:
    """The simulator with this hall, and the environment of a tool on an adapter of the part that is looked at."""
    (folder / "net").write_text(net_file(hall))
    socket, log = f"bringup-test-{os.getpid()}", folder / "log"
    env = os.environ | {"IBSIM_SOCKNAME": socket}
    with log.open("w") as out:
        simulator = subprocess.Popen(
            ["ibsim", "-s", str(folder / "net")], stdin=subprocess.PIPE, stdout=out, stderr=out, env=env, text=True
        )
    assert simulator.stdin is not None
    try:
        simulator.stdin.write("# told\n")
        simulator.stdin.flush()
        limit = time.monotonic() + START_S
        while "# told" not in log.read_text():
            assert simulator.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < limit, log.read_text()[-2000:]
            time.sleep(0.05)
        (library,) = LIBRARY.glob("*/umad2sim/libumad2sim.so")
        looker = identity(hall, min(hall.lit_adapters()))
        yield env | {"SIM_HOST": looker, "LD_PRELOAD": str(library)}
    finally:
        simulator.kill()
        simulator.communicate()


def said(env: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TOOL_S, check=False)
    assert done.stdout, done.stderr
    return done.stdout


def compared(hall: Hall, halls: Halls, folder: Path) -> None:
    """One run: simulate, look, compare and judge."""
    with simulated(hall, folder) as env:
        discovered = parse.discovery(said(env, "ibnetdiscover"))
    listed = {name: guid for name, guid in hall.listed.items() if "alien" not in name}
    found = compare.topology(halls.plan, discovered, listed)
    found += compare.errors(
        drawn.errors_of(hall), discovered, listed, halls.plan, drawn.LIMIT, "site limits.ib_link_errors_max"
    )
    try:
        drawn.judge(hall, found)
    except AssertionError as error:
        raise AssertionError(f"seed {hall.seed}, faults {', '.join(hall.said)}: {error}") from error


def runs(halls: Halls, count: int) -> Iterator[Hall]:
    """Halls of the day, as one adapter sees them; without an adapter in the largest part nobody can look."""
    seed, made = SEED * 100_000, 0
    while made < count:
        hall = Hall(halls.fabrics[0], seed, one_view=True)
        seed += 1
        if hall.lit_adapters():
            made += 1
            yield hall


@pytest.mark.needs("ibsim", "ibnetdiscover")
def test_a_fabric_of_128_adapters_on_the_simulator_is_judged_rightly(halls: Halls, tmp_path: Path) -> None:
    for hall in runs(halls, 1):
        compared(hall, halls, tmp_path)


@pytest.mark.soak
@pytest.mark.needs("ibsim", "ibnetdiscover")
def test_twenty_faulty_fabrics_on_the_simulator_are_judged_rightly(halls: Halls, tmp_path: Path) -> None:
    drawn_kinds: set[str] = set()
    for hall in runs(halls, RUNS):
        compared(hall, halls, tmp_path)
        drawn_kinds |= set(hall.said)
    assert len(drawn_kinds) > 5
