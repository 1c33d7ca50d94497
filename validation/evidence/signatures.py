"""Signatures of many lines of the log, verified by other processes while this one reads what the lines say.

In: lines, and the public keys on file. Out: line by line, whether every signature on its batch and its position holds. False
says only that the reader has to look itself: it then finds the words for what is wrong.
"""

import itertools
import json
import multiprocessing
import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as SecuresystemslibError
from securesystemslib.signer import SSlibKey

PARALLEL_FROM = 4000
"""Lines from which other processes are worth their start (0.1 s): a choice of ours."""
CHUNK = 500

_given: tuple[Sequence[bytes], Mapping[str, SSlibKey]] = ((), {})
"""What the processes inherit by fork: nothing is sent to them."""


def hold(lines: Sequence[bytes], keys: Mapping[str, SSlibKey]) -> Generator[bool, None, None]:
    """Whether all signatures of each line hold; False without end for few lines, one processor, or where processes fail."""
    global _given
    others = (os.cpu_count() or 1) - 1
    if len(lines) >= PARALLEL_FROM and others:
        _given = lines, keys
        pool = ProcessPoolExecutor(others, multiprocessing.get_context("fork"))
        try:
            for found in pool.map(_chunk, range(0, len(lines), CHUNK)):
                yield from found
        except (BrokenProcessPool, OSError):
            pass  # the system ended one, or refused one: the reader verifies the rest itself
        finally:
            _given = (), {}
            pool.shutdown(cancel_futures=True)
    yield from itertools.repeat(False)


def _chunk(start: int) -> list[bool]:
    lines, keys = _given
    return [_line_holds(line, keys) for line in lines[start : start + CHUNK]]


def _line_holds(line: bytes, keys: Mapping[str, SSlibKey]) -> bool:
    try:
        found = json.loads(line)
        for name in ("envelope", "position"):
            envelope: Envelope = Envelope.from_dict(found[name])
            pae = envelope.pae()
            for key_id, signature in envelope.signatures.items():
                keys[key_id].verify_signature(signature, pae)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SecuresystemslibError):
        return False
    return True
