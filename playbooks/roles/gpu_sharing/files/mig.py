#!/usr/bin/python3
"""Divides all GPUs of this machine by MIG, all alike, or makes them whole. Standard library only.

    mig.py set PROFILE COUNT     COUNT instances of PROFILE on each GPU, such as 1g.10gb 7
    mig.py off                   no instances, MIG disabled

A GPU that is as wanted is left alone. Each change is written to standard output, and what came of it is read back. Nothing may use
the GPUs meanwhile. Commands and their output: NVIDIA Multi-Instance GPU User Guide, "Getting Started with MIG".
"""

import re
import subprocess
import sys
from collections.abc import Sequence

COMMAND_S = 120
GPU = re.compile(r"GPU ([0-9]{1,3}): ")
DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+[0-9]+:")
NOTHING_THERE = re.compile(r"No (GPU|compute) instances found|Not Found", re.IGNORECASE)
MODE = "index,mig.mode.current"


class MigError(Exception):
    """The message names the GPU, what it has and what to do."""


def smi(*words: str, none_is_good: bool = False) -> str:
    """What nvidia-smi says; MigError with its words where it fails. none_is_good: that there is no instance is no failure."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words], capture_output=True, text=True, timeout=COMMAND_S, check=False, errors="replace"
        )
    except FileNotFoundError:
        raise MigError("nvidia-smi is not there: the role nvidia installs the driver") from None
    except subprocess.TimeoutExpired:
        raise MigError(f"nvidia-smi {' '.join(words)}: no answer within {COMMAND_S} s") from None
    said = (done.stdout + done.stderr).strip()
    if done.returncode and not (none_is_good and NOTHING_THERE.search(said)):
        raise MigError(f"nvidia-smi {' '.join(words)}: {said[-400:]}")
    return done.stdout


def enabled() -> dict[str, bool]:
    """{GPU: whether MIG is enabled}. MigError for a GPU without MIG."""
    found = {}
    for line in smi(f"--query-gpu={MODE}", "--format=csv,noheader").splitlines():
        gpu, _, mode = (part.strip() for part in line.partition(","))
        if mode not in ("Enabled", "Disabled"):
            raise MigError(f"GPU {gpu}: its MIG mode is {mode or 'not said'}: it has no MIG, use time_slices")
        found[gpu] = mode == "Enabled"
    if not found:
        raise MigError("nvidia-smi lists no GPU")
    return found


def instances() -> dict[str, list[str]]:
    """{GPU: profiles of its MIG devices}. One whose compute is divided further is named 1c.3g.40gb and so is none of ours."""
    found: dict[str, list[str]] = {}
    gpu = ""
    for line in smi("-L").splitlines():
        if one := GPU.match(line):
            gpu = one[1]
            found[gpu] = []
        elif (device := DEVICE.match(line)) and gpu:
            found[gpu].append(device[1])
    return found


def clear(gpu: str) -> None:
    """No instance on a GPU."""
    smi("mig", "-i", gpu, "-dci", none_is_good=True)
    smi("mig", "-i", gpu, "-dgi", none_is_good=True)


def divide(profile: str, count: int) -> list[str]:
    """`count` instances of a profile on each GPU; what was changed."""
    done = []
    for gpu, on in enabled().items():
        if not on:
            smi("-i", gpu, "-mig", "1")
            done.append(f"GPU {gpu}: MIG enabled")
    pending = [gpu for gpu, on in enabled().items() if not on]
    if pending:
        raise MigError(
            f"GPU {', '.join(pending)}: MIG is still disabled. It is in use, or needs a reset: stop what uses it, then "
            "nvidia-smi --gpu-reset, or restart the machine"
        )
    wanted = [profile] * count
    for gpu, has in instances().items():
        if has != wanted:
            clear(gpu)
            smi("mig", "-i", gpu, "-cgi", ",".join(wanted), "-C")
            done.append(f"GPU {gpu}: {count} x {profile}")
    for gpu, has in instances().items():
        if has != wanted:
            raise MigError(f"GPU {gpu}: it has {', '.join(has) or 'no instance'}, wanted {count} x {profile}")
    return done


def whole() -> list[str]:
    """MIG disabled on all GPUs; what was changed."""
    done = []
    for gpu, on in enabled().items():
        if on:
            clear(gpu)
            smi("-i", gpu, "-mig", "0")
            done.append(f"GPU {gpu}: MIG disabled")
    left = [gpu for gpu, on in enabled().items() if on]
    if left:
        raise MigError(f"GPU {', '.join(left)}: MIG is still enabled. Stop what uses it, or restart the machine")
    return done


def main(words: Sequence[str]) -> int:
    try:
        match words:
            case ["set", profile, count] if re.fullmatch(r"[1-9]g\.[0-9]{1,3}gb", profile) and count in "12345678":
                done = divide(profile, int(count))
            case ["off"]:
                done = whole()
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except MigError as error:
        print(error, file=sys.stderr)
        return 1
    for line in done:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
