"""burnin.py with a fault in the products of one rank: what the burn-in must find. Lies beside burnin.py.

    burnin_faults.py flipped-bit 0 1.5 --duration-s 20 --results FOLDER

flipped-bit   one bit of one product changes
always-wrong  every product of the rank has the same wrong bit: only another GPU's result shows it
delay         each product takes five times as long once its precision has computed for so many seconds (third argument)
hang          the device finishes nothing any more after as many seconds

Faults are made in the workload, never in the settings of a GPU. Everything after the third argument is burnin.py's own.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

sys.path.insert(
    0, os.path.dirname(os.path.abspath(__file__))
)  # the Python of --python need not have this package installed
burnin: Any = importlib.import_module("burnin")

TIMES = 4
"""Length of the delay in products. On a GPU it is a kernel that spins for that many cycles of a clock of CLOCK_HZ."""
CLOCK_HZ = 1.5e9


def faulty(fault: str, after_s: float, multiply: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The products of one precision with a fault in them."""
    calls, began, delay_s = 0, 0.0, 0.0

    def product() -> Tensor:
        nonlocal calls, began, delay_s
        calls += 1
        if calls == 2:  # the first product is the one that all others are compared with
            began = time.monotonic()
        late = calls > 2 and time.monotonic() - began > after_s
        if late and fault == "hang":
            while True:
                time.sleep(1)
        made = multiply()
        if late and fault == "delay":
            delay_s = delay_s or TIMES * (time.monotonic() - began) / calls
            if made.is_cuda:
                torch.cuda._sleep(int(delay_s * CLOCK_HZ))
            else:
                time.sleep(delay_s)
        if fault == "always-wrong" or (fault == "flipped-bit" and calls == 3):
            burnin.bits(made)[0, 0] ^= 1
        return made

    return product


def main() -> int:
    fault, rank, after_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    del sys.argv[1:4]
    if int(os.environ["RANK"]) == rank:
        right = burnin.multiplier
        burnin.multiplier = lambda *given: faulty(fault, after_s, right(*given))
    return int(burnin.main())


if __name__ == "__main__":
    sys.exit(main())
