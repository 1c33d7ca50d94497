"""What switches say to the drivers over HTTPS and SSH, fuzzed: typed data without control characters, or a DeviceError."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from network.drivers.credentials import HttpsCredentials, SshCredentials
from network.drivers.errors import DeviceError
from network.nos.cumulus.driver import Switch as Cumulus
from network.nos.eos.driver import Switch as Eos
from network.nos.eos.driver import parse_diff, with_kept
from network.nos.sonic.driver import Switch as Sonic
from tests.hostile import controls, mutated
from tests.network.nos import eapi, nvue
from tests.network.nos.test_cumulus_driver import CONFIG as STARTUP
from tests.network.nos.test_cumulus_driver import RUNNING as NVUE
from tests.network.nos.test_eos_driver import CONFIG as EOS
from tests.network.nos.test_sonic_driver import CONFIG as CONFIG_DB
from tests.network.nos.test_sonic_driver import RUNNING as TABLES

pytestmark = pytest.mark.clock

FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
HTTPS = HttpsCredentials("netops", "a password", Path("ca.pem"))
SSH = SshCredentials("netops", Path("key"), Path("known_hosts"))
REVISIONS = {"1": nvue.MODELLED["refused"], "applied": nvue.MODELLED["pending"]}
SAID = {
    "system": nvue.MODELLED["system"],
    "interface": nvue.MODELLED["interface"],
    "vrf/default/router/bgp/neighbor": nvue.MODELLED["neighbor"],
    "revision": REVISIONS,
    "revision/1": nvue.MODELLED["refused"],
    "": NVUE,
}


def read(call: Any) -> None:
    """Nothing but a DeviceError on one line leaves the driver, and what it gives has no control characters."""
    refused, said = "", None
    try:
        said = call()
    except DeviceError as error:
        refused = str(error)
    assert refused.isprintable()
    assert not controls(said if isinstance(said, str | dict) else vars(said) if hasattr(said, "__dict__") else said)


@FUZZ
@given(st.data())
def test_nvue(data):
    answers = {path: data.draw(mutated(copy.deepcopy(body))) for path, body in SAID.items()}
    one = Cumulus("rol001", "192.0.2.1", HTTPS)

    def request(operation: str, method: str, path: str, **_: Any) -> tuple[int, bytes]:
        return 200, json.dumps(answers.get(path.removeprefix("/nvue_v1/"), {})).encode()

    device: Any = one._device
    device.request = request  # no switch is there
    for call in (
        one.facts,
        one.neighbours,
        one.get,
        one.saved,
        lambda: one.compare(STARTUP),
        lambda: one.load(STARTUP),
    ):
        read(call)
    read(lambda: one._state("1")[1])


@FUZZ
@given(st.data())
def test_eapi(data):
    answers = {name: data.draw(mutated(copy.deepcopy(body))) for name, body in eapi.MODELLED.items()}
    answers["show configuration sessions detail"] = data.draw(mutated({"sessions": {"a": {"state": "pending"}}}))
    refused = data.draw(st.booleans())
    one = Eos("rol001", "192.0.2.1", HTTPS)

    def request(operation: str, method: str, path: str, *, body: Any, **_: Any) -> tuple[int, bytes]:
        if refused:
            return 200, json.dumps({"error": answers["refused"]}).encode()
        said = [answers.get(command, {"output": data.draw(st.text())}) for command in body["params"]["cmds"]]
        return 200, json.dumps({"result": said}).encode()

    device: Any = one._device
    device.request = request  # no switch is there
    for call in (one.facts, one.neighbours, one.saved, lambda: one.compare(EOS), lambda: one.load(EOS)):
        read(call)


@FUZZ
@given(st.data())
def test_config_db(data):
    said = data.draw(mutated(copy.deepcopy(TABLES)))
    one: Any = Sonic("rol001", "192.0.2.1", SSH)
    one._verb = lambda verb, *_, stdin=b"": json.dumps(said) if verb != "bgp" else "{}"
    for call in (one.get, one.saved, one.neighbours, lambda: one.compare(CONFIG_DB)):
        read(call)


@FUZZ
@given(st.text(), st.text())
def test_texts_of_eos(config, running):
    assert not controls(parse_diff(running))
    assert with_kept(config, running).endswith(config)


@pytest.mark.parametrize("text", ["+\x1b[2J", "+ interface \u202e", "-username a secret 7 b\x07"])
def test_no_escape_sequence_of_a_difference_reaches_a_terminal(text):
    assert parse_diff(text).isprintable()
