"""SONiC's commands, scripted, for an sshd of this test: `config`, `show`, `vtysh`, `sudo` and `cat` of what is saved.

They keep a switch's state in a folder: running.json, saved.json, checkpoints, and `fault`, whose words say what goes wrong. The
rollback timer of a push runs out when a test calls `expire`, not by a clock.
Messages are those of sonic-utilities (config/main.py), as its own tests expect them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

DATABASES = Path(__file__).parents[2] / "data" / "modelled" / "sonic" / "databases.json"
CONFIG = """\
#!/bin/sh
fault=$(cat {state}/fault)
case "$1" in
checkpoint) cp {state}/running.json "{state}/$2.cp.json"; echo "Checkpoint created successfully." ;;
delete-checkpoint) rm "{state}/$2.cp.json"; echo "Checkpoint deleted successfully." ;;
rollback) cp "{state}/$2.cp.json" {state}/part && mv {state}/part {state}/running.json; echo "Config rolled back successfully." ;;
replace)
    case "$fault" in *refuses*) echo "Failed to replace config due to: Data Loading Failed: mtu 99999" >&2; exit 2 ;; esac
    if [ "$2" = --dry-run ]; then echo "Config replaced successfully."; exit 0; fi
    case "$fault" in *half*) echo "Failed to replace config due to: change applier" >&2; exit 2 ;; esac
    cp "$2" {state}/running.json; echo "Config replaced successfully." ;;
save) cp {state}/running.json {state}/saved.json ;;
*) exit 2 ;;
esac
"""
SHOW = """\
#!/bin/sh
case "$(cat {state}/fault)" in *slow*) sleep 5 ;; *garbled*) echo 'PORT: {{'; exit 0 ;; esac
cat {state}/running.json
"""
SUDO = """\
#!/bin/sh
case "$1 $2" in "cat /etc/sonic/config_db.json") exec cat {state}/saved.json ;; esac
exec "$@"
"""
SLEEP = """\
#!/bin/sh
[ "$1" = {timer_s} ] || exec /bin/sleep "$1"
until [ -e {state}/expired ]; do /bin/sleep 0.05; done
"""
REDIS = """\
#!/usr/bin/python3
import json, sys
rows = json.load(open("{state}/databases.json")).get(sys.argv[2], {{}})
for line in sys.stdin:
    command, *words = line.split()
    if command == "TIME":
        print(1764020000, 250000, sep="\\n")
    elif command == "KEYS":
        print(*(row for row in rows if row.startswith(words[0].rstrip("*"))), sep="\\n")
    elif command == "HMGET":
        print(*(rows.get(words[0], {{}}).get(field, "") for field in words[1:]), sep="\\n")
    else:
        sys.exit(1)
if "short" in open("{state}/fault").read():
    print("ERR max number of clients reached")
"""
TIMER_S = 3971
"""Seconds of a push whose timer a test ends: a number that nothing else sleeps for."""
VTYSH = """\
#!/bin/sh
echo '{{"ipv4Unicast": {{"peers": {{"Ethernet8": {{"state": "Established"}}, "Ethernet16": {{"state": "Active"}}}}}}}}'
"""


def install(folder: Path, running: dict[str, Any]) -> Path:
    """The folder of the switch's state, its commands below `bin`."""
    state, programs = folder / "switch", folder / "bin"
    for made in (state, programs, folder / "home"):
        made.mkdir()
    for name, text in (
        ("config", CONFIG),
        ("show", SHOW),
        ("sleep", SLEEP),
        ("sudo", SUDO),
        ("vtysh", VTYSH),
        ("redis-cli", REDIS),
    ):
        (programs / name).write_text(text.format(state=state, timer_s=TIMER_S))
        (programs / name).chmod(0o755)
    for name in ("running.json", "saved.json"):
        (state / name).write_text(json.dumps(running))
    shutil.copy(DATABASES, state / "databases.json")
    (state / "fault").write_text("")
    return state


def expire(state: Path) -> None:
    """The switch's own timer runs out."""
    (state / "expired").touch()


def environment(folder: Path) -> str:
    """The line of sshd's configuration with which a login finds these commands, and a home of its own."""
    return f"SetEnv PATH={folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin HOME={folder / 'home'}"
