"""The lab's PDU agent in each dialect, served by snmpsim, against the driver: set and read back through the power state."""

import json
import socketserver
import threading
from pathlib import Path

import pytest

from infra.lab import pdu as lab
from infra.lab.pdu import ON, PduState, records
from infra.lab.spec import Outlet, Pdu
from network.drivers import pdu as driver
from tests.network.drivers.test_pdu import USER, free_udp_port, running_agents

pytestmark = pytest.mark.clock

MODULES = Path(lab.__file__).with_name("snmp_variation")
WATTS = dict.fromkeys(range(1, 7), 240.0)


class PowerDaemon(socketserver.StreamRequestHandler):
    """What the agents ask of the power daemon: readings and sets of PDUs in memory."""

    states: dict[str, PduState]

    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        state = self.states[asked["pdu"]]
        if asked["op"] == "pdu_set" and asked["what"] == "control":
            state.on[asked["index"]] = state.command(int(asked["value"])) == ON
        elif asked["op"] == "pdu_set":
            state.write(asked["what"], asked["index"], asked["value"])
        reply = {"ok": state.readings(WATTS)}
        self.wfile.write(json.dumps(reply).encode() + b"\n")


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """{dialect: port} of the lab's agents."""
    folder, states = tmp_path_factory.mktemp("lab"), dict[str, PduState]()
    for dialect in lab.DIALECTS:
        made = Pdu(dialect, "m", f"S-{dialect}", "02:00:00:00:00:01", "192.0.2.9", "r01", "A", 60.0, 240.0, dialect)
        states[dialect] = PduState.factory(
            made, [Outlet(dialect, n, "A", f"L{(n - 1) % 3 + 1}", "", 0) for n in range(1, 7)]
        )
    handler = type("Handler", (PowerDaemon,), {"states": states})
    with (
        pytest.MonkeyPatch.context() as patch,
        socketserver.ThreadingUnixStreamServer(str(folder / "power"), handler) as server,
    ):
        patch.setenv("BRINGUP_POWER_SOCKET", str(folder / "power"))
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        agents = {
            free_udp_port(): (dialect, "".join(f"{'|'.join(row)}\n" for row in records(state)))
            for dialect, state in states.items()
        }
        with running_agents(folder, agents, MODULES):
            yield {dialect: port for port, (dialect, _) in agents.items()}
        server.shutdown()
        thread.join()


def test_lab_and_driver_have_the_same_dialects():
    assert sorted(lab.DIALECTS) == sorted(driver.DIALECTS)


@pytest.mark.parametrize("dialect", lab.DIALECTS)
def test_an_agent_of_a_dialect_is_read_set_and_read_back(ports, dialect):
    pdu = driver.Pdu("127.0.0.1", USER, name=dialect, serial=f"S-{dialect}", dialect=dialect, port=ports[dialect])
    assert pdu.lacks() == []
    assert pdu.power_w() == 1440
    assert [(p["amps"], p["volts"], p["watts"]) for p in pdu.phases()] == [(2, 240, 480)] * 3
    assert {(o["on"], o["amps"], o["watts"]) for o in pdu.outlets()} == {(True, 1, 240)}
    pdu.set_outlets({2: False, 5: False})
    assert [o["number"] for o in pdu.outlets() if not o["on"]] == [2, 5]
    pdu.set_name(3, "gpu001 psu1")
    assert pdu.outlets()[2]["name"] == "gpu001 psu1"
    pdu.set_thresholds(1, 40, 50)
    assert [(p["near_overload_a"], p["overload_a"]) for p in pdu.phases()] == [(40, 50), (48, 60), (48, 60)]
