"""The `bringup` command: what neither `pulumi` nor `ansible-playbook` nor `pytest` is for.

The modules of this package parse arguments, call one library function per verb and show what it returned; they decide
nothing. Libraries are imported by the verb that needs them, so that `bringup env` and `--help` answer at once.
"""

import argparse
import sys
from collections.abc import Sequence

from infra.cli import accept, catalog, evidence, freeze, imports, lab, site, start
from infra.cli.common import CANNOT, EXIT_CODES, OK, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status (see EXIT_CODES)."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.verb(arguments)
        sys.stdout.flush()
    except expected_errors() as error:
        print(f"bringup: {error}", file=sys.stderr)
        return CANNOT
    except BrokenPipeError:  # `bringup schema | head`
        sys.stderr.close()
        return OK
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.filename is None:
            raise
        way = "look whether the path is right, its disk has room and you may use it"
        print(f"bringup: {error.filename}: {error.strerror}; {way}", file=sys.stderr)
        return CANNOT
    return status


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="bringup",
        description="Plan an AI training cluster from one site file, compare the cluster as built with it, and judge its evidence.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for part in (start, site, accept, freeze, catalog, lab, imports, evidence):
        part.add(verbs)
    return top


def expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose text is meant for the person at the keyboard; anything else is a bug and keeps its traceback."""
    from infra.lab.paths import LabError
    from infra.stack import StackError
    from infra.toolchain.paths import ToolchainError
    from inventory.catalog import CatalogError
    from inventory.delivered.assets import AssetError
    from inventory.imports.core.source import ImportFault
    from inventory.secrets import SecretError
    from inventory.site import SiteError
    from network.drivers.errors import DeviceError
    from validation.attest import AttestError
    from validation.evidence.keys import SigningKeyError
    from validation.evidence.store import IntegrityError
    from validation.facts import FactsError
    from validation.freeze import FreezeError
    from validation.waive import WaiverError

    return (
        AssetError,
        AttestError,
        CatalogError,
        DeviceError,
        FactsError,
        FreezeError,
        ImportFault,
        IntegrityError,
        LabError,
        SecretError,
        SigningKeyError,
        SiteError,
        StackError,
        ToolchainError,
        UsageError,
        WaiverError,
    )
