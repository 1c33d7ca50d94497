"""Jobs in stages (S165): each takes what the one before it made, known by its hash, and a stage that fails stops those after it.

    ended = run(…)      # {stage: how its job ended}, from slurm_stages.py or jobset_stages.py
    faults(ended)       # [] where all went as it has to

A stage keeps its artefact on the shared storage in a file named by its SHA-256, and writes that name for the next one, which reads
the file and compares. Both say it in their output, so that the hashes of one stage are held against those of the next.
"""

import itertools
import re
import shlex
from collections.abc import Mapping

from validation.runners.engine import Job

CHAIN = ("preprocess", "train", "evaluate")
"""Stages that hand on, in order (step S165)."""
FAILING, NEVER = "failing", "never"
"""A first stage that fails on purpose, and the stage after it, which must not run."""
WANTED = {**dict.fromkeys(CHAIN, "COMPLETED"), FAILING: "FAILED", NEVER: "CANCELLED"}
ARTEFACT_B = 65536
"""Of the first stage; the others add a line each."""
SAID = re.compile(r"^(\w+) (made|took) ([0-9a-f]{64})$", re.MULTILINE)


def script_of(folder: str, stage: str, before: str = "") -> str:
    """The batch script of a stage, which takes what the stage before it made; without one it makes the first artefact."""
    if before:
        take = (
            f'from=$(cat {before}.name)\necho "$from  $from" | sha256sum --check --quiet -\necho "{stage} took $from"\n'
        )
        make = f'{{ cat "$from"; echo {stage}; }}'
    else:
        take, make = "", f"head -c {ARTEFACT_B} /dev/urandom"
    return f"""#!/bin/bash
set -eu
umask 077
cd {shlex.quote(folder)}
{take}{make} >{stage}.part
made=$(sha256sum <{stage}.part | cut -d" " -f1)
mv {stage}.part "$made"
echo "$made" >{stage}.name
echo "{stage} made $made"
"""


def hashes(ended: Mapping[str, Job]) -> dict[str, dict[str, str]]:
    """{stage: {'made': its artefact, 'took': that of the stage before}} as the stages said it."""
    return {
        stage: {
            what: digest
            for who, what, digest in SAID.findall(ended[stage].output.decode(errors="replace"))
            if who == stage
        }
        for stage in CHAIN
    }


def faults(ended: Mapping[str, Job]) -> list[str]:
    """What went otherwise than it has to."""
    wrong = [
        f"{stage} ended {ended[stage].state}, expected {state}"
        for stage, state in WANTED.items()
        if ended[stage].state != state
    ]
    said = hashes(ended)
    for before, stage in itertools.pairwise(CHAIN):
        made, took = said[before].get("made"), said[stage].get("took")
        if not made or made != took:
            wrong.append(f"{before} made {made or 'nothing'}, {stage} took {took or 'nothing'}")
    if not said[CHAIN[-1]].get("made"):
        wrong.append(f"{CHAIN[-1]} made nothing")
    return wrong
