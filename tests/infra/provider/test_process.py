"""The provider as a process: it tells its port, and ends with the engine that started it."""

import socket
import subprocess
import sys

import pytest

from inventory.paths import repo_root

END_LIMIT_S = 60


def test_the_provider_ends_when_its_engine_is_gone():
    with socket.create_server(("127.0.0.1", 0)) as engine:
        address = f"127.0.0.1:{engine.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-u", str(repo_root() / "infra" / "provider"), address], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) > 0
            assert process.poll() is None
            engine.close()
            assert process.wait(END_LIMIT_S) == 1
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("module", ["infra.provider.__main__", "infra.provider.kubernetes.__main__"])
def test_a_process_that_only_compares_its_configuration_loads_neither_pandas_nor_drivers(module: str):
    """The engine starts one in each run, and a second one of `bringup`; the program waits for it."""
    code = (
        f"import sys, {module}\n"
        "print([one for one in sys.modules if one in ('pandas', 'paramiko', 'sushy', 'capacity.build')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo_root(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
