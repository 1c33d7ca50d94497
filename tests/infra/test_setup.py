"""The frame of `make setup` and its steps, with the commands that would change this machine replaced."""

import re
import subprocess
from pathlib import Path

from inventory.paths import repo_root

SETUP = repo_root() / "infra" / "setup" / "setup.sh"
NOTHING_TO_DO = 'for step in ${STEPS[@]}; do eval "needs_$step() { false; }"; done'


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run bash code after the set-up script's functions have been loaded."""
    return subprocess.run(
        ["bash", "-c", f"source {SETUP}\n{script}"], capture_output=True, text=True, timeout=60, check=False
    )


def test_complete_setup_says_so_and_does_nothing() -> None:
    done = run(f'{NOTHING_TO_DO}; for s in "${{STEPS[@]}}"; do eval "do_$s() {{ echo RAN; }}"; done; main')
    assert done.returncode == 0
    assert done.stdout == "Set-up: everything is in place.\n"


def test_steps_and_their_time_are_announced_before_the_first_runs() -> None:
    done = run(
        f"{NOTHING_TO_DO}; needs_uv() {{ true; }}; needs_nodes() {{ true; }}; do_uv() {{ echo RAN uv; }}; "
        "do_nodes() { echo RAN nodes; }; main"
    )
    announced, ran = done.stdout.split("[1/2]")
    assert "2 step(s), up to about 4 minutes" in announced
    assert "- uv " in announced
    assert "- Node root file system" in announced
    assert re.findall(r"RAN (\w+)", ran) == ["uv", "nodes"]


def test_failing_step_stops_with_what_to_do() -> None:
    done = run(
        f"{NOTHING_TO_DO}; needs_uv() {{ true; }}; needs_nodes() {{ true; }}; "
        "do_uv() { false; echo went on; }; do_nodes() { echo RAN nodes; }; main"
    )
    assert done.returncode == 1
    assert "RAN nodes" not in done.stdout
    assert "went on" not in done.stdout
    assert re.search(r"Set-up stopped at: uv .*\nWhat to do: .*PIP_INDEX_URL", done.stderr)


def test_failing_command_shows_its_output_and_a_good_one_does_not() -> None:
    done = run("quietly echo fine; quietly sh -c 'echo no space left; exit 7'; echo status $?")
    assert done.stdout == ""  # errexit ends the script at the failing command
    assert done.returncode == 7
    assert "no space left" in done.stderr


def test_without_root_the_packages_step_says_what_works_and_goes_on() -> None:
    done = run("is_root() { false; }; missing_packages() { echo frr; }; do_packages")
    assert done.returncode == 0
    assert "Planning, rendering, the gate" in done.stdout
    assert "sudo apt-get install frr" in done.stdout


def test_setup_without_the_packages_does_not_claim_to_be_complete() -> None:
    done = run(
        f"{NOTHING_TO_DO}; needs_packages() {{ true; }}; is_root() {{ false; }}; "
        "missing_packages() { echo frr; }; main"
    )
    assert done.returncode == 0
    assert done.stdout.endswith("Set-up: done, without the system packages named above.\n")


def test_missing_venv_module_names_the_package(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = run(f"suitable_python() {{ echo {python}; }}; cd {tmp_path}; do_uv")
    assert done.returncode == 1
    assert "sudo apt-get install python3-venv" in done.stderr


def packages_step(policy: Path, before: str) -> subprocess.CompletedProcess[str]:
    """The packages step as root where units of `before` exist, and all of them once apt-get has run."""
    return run(f"""
        POLICY={policy}; INSTALLED=false
        is_root() {{ true; }}
        missing_packages() {{ echo frr; echo openssh-server; }}
        unit_file_exists() {{ $INSTALLED || [[ " {before} " == *" $1 "* ]]; }}
        apt_update() {{ true; }}
        quietly() {{
            echo "CALL $*"
            if [ "$1" = apt-get ]; then INSTALLED=true; [ -x "$POLICY" ] && "$POLICY" || echo "POLICY $?"; fi
        }}
        (do_packages)
    """)


def test_daemons_that_apt_brings_are_neither_started_nor_enabled(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    done = packages_step(policy, before="")
    assert "POLICY 101" in done.stdout
    assert re.findall(r"CALL systemctl disable (\S+)", done.stdout) == [
        f"{unit}.service" for unit in ("frr", "lldpd", "prometheus", "snmpd", "ssh")
    ]
    assert not policy.exists()


def test_daemons_that_were_here_before_keep_their_state(tmp_path: Path) -> None:
    done = packages_step(tmp_path / "policy-rc.d", before="ssh")
    assert re.findall(r"CALL systemctl disable (\S+)", done.stdout) == [
        f"{unit}.service" for unit in ("frr", "lldpd", "prometheus", "snmpd")
    ]


def test_policy_that_the_machine_has_is_left_alone(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    policy.chmod(0o755)
    packages_step(policy, before="")
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_package_list_reads_as_names() -> None:
    names = run("wanted_packages").stdout.split()
    assert "frr" in names
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) for name in names)


def test_installed_packages_are_not_missing_and_unknown_ones_are() -> None:
    done = run("wanted_packages() { echo bash no-such-package-at-all; }; missing_packages")
    assert done.stdout.split() == ["no-such-package-at-all"]


def test_ci_runs_the_same_command_as_a_person() -> None:
    assert "exec make test" in (repo_root() / ".ci" / "run").read_text()
