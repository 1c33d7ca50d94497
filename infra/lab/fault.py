"""What a fault is: infra/lab/faults.py injects and repairs them, the modules of the device kinds define them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from infra.lab.spec import LabSpec

Arguments = Sequence[str]
Undo = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """A fault: what it does, its arguments, and how it is done and undone."""

    text: str
    usage: str
    inject: Callable[[LabSpec, Arguments], tuple[str, Undo]]
    undo: Callable[[LabSpec, Undo], None]
    needs_software: bool = False
    """Breaks what the playbooks installed: the server must run and be configured."""


SoftwareFault = partial(Fault, needs_software=True)
