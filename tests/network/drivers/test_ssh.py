"""The SSH runner against a real sshd of this user on a local port."""

import getpass
import socket
import time

import pytest

from network.drivers import ssh
from network.drivers.credentials import SshCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceTimeout,
    LoginRefused,
    UnknownHostKey,
    Unreachable,
    UnreadableAnswer,
)
from network.drivers.parallel import many
from network.drivers.ssh import SshHost
from tests.network.sshd import serving

pytestmark = [pytest.mark.clock, pytest.mark.needs("sshd")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """(port, folder) of an sshd that lets this user in."""
    folder = tmp_path_factory.mktemp("sshd")
    with serving(folder) as port:
        yield port, folder


def host(server, key="user", known_hosts="known_hosts", budget_s=10.0):
    port, folder = server
    credentials = SshCredentials(getpass.getuser(), folder / key, folder / known_hosts)
    return SshHost("gpu001", "127.0.0.1", credentials, budget_s, port=port)


def test_words_are_quoted_and_standard_input_arrives(server):
    done = host(server).run(["printf", "%s|", "a b", "$(id)", "'"])
    assert done.out == "a b|$(id)|'|"
    assert host(server).run("cat; echo $((1 + 1))", stdin=b"text ").out == "text 2\n"


ECHO = "import json, sys\nprint(json.dumps([sys.argv[1:], json.loads(sys.argv[1])]))\n"


def test_a_program_gets_its_request_and_its_json_comes_back(server):
    request = {"names": ["a b", 'it\'s "quoted" {braces} \\ \n'], "many": list(range(100_000))}
    arguments, returned = host(server).program(ECHO, request)
    assert (len(arguments), returned) == (1, request)
    assert host(server).program(ECHO, 1, python=("timeout", "9", "python3"), budget_s=9)[1] == 1


@pytest.mark.parametrize(("text", "seen"), [("print('{\"cut')", '{"cut'), ("", "nothing")])
def test_a_program_that_prints_no_json_is_a_bad_answer(server, text, seen):
    with pytest.raises(BadAnswer, match=rf"^gpu001: read facts: expected JSON, saw {seen}; run python3 "):
        host(server).program(text, {}, operation="read facts")


def test_a_program_that_fails_or_hangs_is_an_error_of_its_device(server):
    with pytest.raises(BadAnswer, match="SystemExit|exit status 0, saw 3"):
        host(server).program("raise SystemExit(3)", {})
    with pytest.raises(DeviceTimeout):
        host(server).program("import time\ntime.sleep(30)", {}, budget_s=1)


def test_a_command_that_fails_is_an_error_unless_told_otherwise(server):
    assert host(server).run("echo out; echo err >&2; exit 3", check=False).status == 3
    with pytest.raises(BadAnswer, match=r"^gpu001: run .*saw 3: err;"):
        host(server).run("echo err >&2; exit 3")


def test_the_banner_is_read(server):
    assert host(server).banner() == "SIMULATED by a test"


def test_a_command_that_does_not_end_is_killed_within_the_budget(server):
    began = time.monotonic()
    with pytest.raises(DeviceTimeout, match="^gpu001: run sleep 60: expected an end within 1 s"):
        host(server, budget_s=1).run("sleep 60")
    assert time.monotonic() - began < 30


def test_a_command_that_keeps_talking_is_ended_within_the_budget(server):
    began = time.monotonic()
    with pytest.raises(DeviceTimeout, match="^gpu001: .*expected an end within 1 s"):
        host(server, budget_s=1).run("while :; do echo x; sleep 0.1; done")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_output_beyond_the_limit_is_refused_before_the_command_ends(server, monkeypatch, stream):
    monkeypatch.setattr(ssh, "OUTPUT_BYTES", 1 << 20)
    with pytest.raises(UnreadableAnswer, match="^gpu001: .*expected at most 1048576 bytes of output, saw more"):
        host(server).run(f"yes{stream}")


def test_a_banner_with_escape_sequences_is_shown_cleaned(server):
    banner = server[1] / "banner"
    before = banner.read_text()
    banner.write_text("evil\x1b[2J\x9b31m\n")
    try:
        assert host(server).banner().isprintable()
    finally:
        banner.write_text(before)


def test_another_key_is_refused(server):
    with pytest.raises(LoginRefused, match="^gpu001: "):
        host(server, key="stranger").run("true")


@pytest.mark.parametrize("known_hosts", ["other_hosts", "no_hosts"])
def test_a_host_key_that_is_not_the_pinned_one_is_another_device(server, known_hosts):
    with pytest.raises(UnknownHostKey, match="^gpu001: "):
        host(server, known_hosts=known_hosts).run("true")


def test_a_closed_port_is_unreachable_and_a_mute_one_a_timeout(server):
    _, folder = server
    credentials = SshCredentials("root", folder / "user", folder / "known_hosts")
    with pytest.raises(Unreachable, match="^sw: run true: .*refused"):
        SshHost("sw", "127.0.0.1", credentials, 5, port=1).run("true")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        with pytest.raises(DeviceTimeout, match="^sw: run true: "):
            SshHost("sw", "127.0.0.1", credentials, 2, port=mute.getsockname()[1]).run("true")
        assert time.monotonic() - began < 30


def test_many_hosts_give_a_result_or_an_error_each(server):
    port, folder = server
    credentials = SshCredentials(getpass.getuser(), folder / "user", folder / "known_hosts")
    hosts = [SshHost("up", "127.0.0.1", credentials, port=port), SshHost("down", "127.0.0.1", credentials, port=1)]
    answers = many(hosts, lambda h: h.run("echo hello").out)
    assert answers["up"] == "hello\n"
    assert isinstance(answers["down"], Unreachable)


def test_a_login_kept_open_carries_all_commands_of_its_block(server):
    client = ["sh", "-c", "echo $SSH_CONNECTION"]
    alone = host(server)
    with alone.kept_open() as kept:
        first = kept.run(client).out
        with pytest.raises(DeviceTimeout, match="^gpu001: run sleep 60"):
            kept.run("sleep 60", budget_s=1)
        assert kept.run("cat; exit 3", stdin=b"text", check=False).out == "text"
        assert kept.run(client).out == first != alone.run(client).out
    assert kept.run(client).out != first


def test_a_login_that_cannot_be_kept_open_fails_with_the_first_command(server):
    with host(server, key="stranger").kept_open() as kept, pytest.raises(LoginRefused, match="^gpu001: "):
        kept.run("true")
    with host(server, known_hosts="other_hosts").kept_open() as kept, pytest.raises(UnknownHostKey):
        kept.run("true")
