"""The `bringup` command: what neither `pulumi` nor `ansible-playbook` nor `pytest` is for.

The modules of this package parse arguments, call one library function per verb and show what it returned; they decide
nothing. Libraries are imported by the verb that needs them, so that `bringup env` and `--help` answer at once.
"""

import argparse
import errno
import os
import sys
from collections.abc import Sequence

from infra import collector
from infra.cli import (
    accept,
    bmc,
    boot,
    catalog,
    evidence,
    firmware,
    freeze,
    image,
    imports,
    kubernetes,
    lab,
    site,
    start,
    switches,
    usage,
    validation,
)
from infra.cli.common import CANNOT, EXIT_CODES, UsageError

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""Threads of the library behind NumPy: one where the caller says nothing else, before NumPy is imported. It starts one for each
core, which wait for matrices that no plan has and take a tenth of a second of processor time."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status (see EXIT_CODES)."""
    collector.seldom()
    os.environ.setdefault(BLAS_THREADS, "1")
    arguments = parser().parse_args(argv)
    arguments.own_process = argv is None
    status: int = CANNOT
    try:
        status = arguments.verb(arguments)
        if sys.stdout is not None:  # a shell closed it: >&-
            sys.stdout.flush()
    except expected_errors() as error:
        print(f"bringup: {error}", file=sys.stderr)
        return CANNOT
    except BrokenPipeError:  # `bringup schema | head`: the answer of a verb that had not come to its end is not yes
        _drop_output(arguments)
        return status
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.filename is None and error.errno == errno.ENOSPC:  # of the output: a file has its name
            _drop_output(arguments)
            print(f"bringup: the output cannot be written: {error.strerror}", file=sys.stderr)
            return status
        if error.filename is None:
            raise
        way = "look whether the path is right, its disk has room and you may use it"
        print(f"bringup: {error.filename}: {error.strerror}; {way}", file=sys.stderr)
        return CANNOT
    return status


def _drop_output(arguments: argparse.Namespace) -> None:
    """Send what is still to be written nowhere: Python writes it when it ends, and would end with a status of its own."""
    if arguments.own_process and sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="bringup",
        description="Plan an AI training cluster from one site file, compare the cluster as built with it, and judge its evidence.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for part in (
        start,
        site,
        switches,
        bmc,
        image,
        boot,
        accept,
        freeze,
        catalog,
        lab,
        kubernetes,
        usage,
        imports,
        firmware,
        validation,
        evidence,
    ):
        part.add(verbs)
    return top


def expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose text is meant for the person at the keyboard; anything else is a bug and keeps its traceback."""
    from infra.boot.image import ImageBuildError
    from infra.kube.access import ClusterError
    from infra.lab.paths import LabError
    from infra.stack import StackError
    from infra.toolchain.paths import ToolchainError
    from inventory.catalog import CatalogError
    from inventory.delivered.assets import AssetError
    from inventory.delivered.firmware import BundleError
    from inventory.imports.core.source import ImportFault
    from inventory.secrets import SecretError
    from inventory.site import SiteError
    from network.drivers.errors import DeviceError
    from validation.attest import AttestError
    from validation.evidence.keys import SigningKeyError
    from validation.evidence.store import IntegrityError
    from validation.facts import FactsError
    from validation.freeze import FreezeError
    from validation.runners.burn_in import UnreadableRunError
    from validation.waive import WaiverError

    return (
        AssetError,
        AttestError,
        BundleError,
        CatalogError,
        ClusterError,
        DeviceError,
        FactsError,
        FreezeError,
        ImageBuildError,
        ImportFault,
        IntegrityError,
        LabError,
        SecretError,
        SigningKeyError,
        SiteError,
        StackError,
        ToolchainError,
        UnreadableRunError,
        UsageError,
        WaiverError,
    )
