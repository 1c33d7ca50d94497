"""`python -m infra.toolchain [--check]`: make the Pulumi CLI available to this clone, as a step of `make setup`.

With --check nothing is changed; the exit status says whether the CLI is available (0) or not (1).
"""

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from infra.toolchain.paths import ToolchainError
from infra.toolchain.pulumi_cli import Cli, ensure, installed, on_path, sdk_version

ORIGINS = {"PATH": "found on PATH", "installer": "official release", "built": "built from Go modules"}
PLAIN_STEPS = 10  # lines that a log without a terminal gets during a build


def ensure_visibly(console: Console) -> Cli:
    """Call `ensure` under a progress bar, or with a line per tenth where there is no terminal."""
    if not console.is_terminal:
        said: set[tuple[str, int]] = set()

        def say(what: str, share: float) -> None:
            step = (what, int(share * PLAIN_STEPS))
            if step not in said:
                said.add(step)
                console.print(f"  {what} {share:.0%}" if share else f"  {what}", highlight=False)

        return ensure(say)
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("Pulumi CLI", total=1.0)
        return ensure(lambda what, share: bars.update(task, description=what, completed=share))


def main(argv: list[str]) -> int:
    """Exit status: 0 when the CLI is available, 1 when it is not."""
    if "--check" in argv:
        return 0 if installed() or on_path() else 1
    console = Console()
    try:
        cli = ensure_visibly(console)
    except ToolchainError as error:
        print(f"Pulumi CLI: {error}", file=sys.stderr)
        return 1
    console.print(
        f"  Pulumi CLI {sdk_version()} or newer in {cli.bin} ({ORIGINS[cli.origin]})", highlight=False, soft_wrap=True
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
