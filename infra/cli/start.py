"""Verbs of the first minute: new writes a site file of a few lines, explain says where each value of a site comes from."""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from infra.cli.common import OK, UsageError, add_site, add_verb, standard_console
from inventory.paths import SITE_FILE, write_file

T = TypeVar("T")


def add(verbs: Any) -> None:
    """Add the verbs to the command line."""
    new = add_verb(verbs, "new", run_new, "write the site file of a new cluster: a few lines on a reference design")
    new.add_argument("name", metavar="NAME", help="name of the site, and of the folder that its file is written to")
    new.add_argument(
        "--gpu", metavar="GPU", help="h100, b200, gb300, …: what reference designs there are is said otherwise"
    )
    new.add_argument("--fabric", choices=("ib", "roce"), help="InfiniBand, or Ethernet with RoCE")
    new.add_argument("--cooling", choices=("air", "liquid"), help="where the GPU has designs of both")
    size = new.add_mutually_exclusive_group()
    size.add_argument("--servers", type=positive, metavar="N", help="GPU servers, or trays of rack-scale systems")
    size.add_argument("--gpus", type=positive, metavar="N", help="GPUs")
    size.add_argument("--racks", type=positive, metavar="N", help="rack-scale systems, such as NVL72")
    new.add_argument(
        "--power-kw",
        type=kilowatts,
        metavar="KW",
        help="what the grid gives; without it the plan works out what is needed",
    )
    new.add_argument(
        "--power-code",
        choices=("nec", "iec"),
        default="nec",
        help="415 V as NEC has it (default), or 400/230 V as IEC has it",
    )
    new.add_argument("--dir", type=Path, metavar="DIR", help="folder to write to (default: NAME)")

    explain = add_verb(
        verbs, "explain", run_explain, "say where the value of a key comes from, who reads it and what it decides"
    )
    add_site(explain)
    explain.add_argument(
        "key",
        nargs="?",
        metavar="KEY",
        help="a key of the site file, or a section; without it all unconfirmed assumptions",
    )
    explain.add_argument(
        "--to", action="append", default=[], metavar="VALUE", help="also plan the site with this value; may be repeated"
    )


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number of at least 1")
    return int(text)


def kilowatts(text: str) -> float:
    """A number above 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: a number of kilowatts, more than 0")
    return value


def run_new(arguments: argparse.Namespace) -> int:
    from inventory.site import parse_site
    from inventory.site.new import NewSiteError, Wanted, site_text

    folder: Path = arguments.dir or Path(arguments.name)
    path = folder / SITE_FILE
    if path.exists():
        raise UsageError(f"{path} exists, and is left as it is; choose another name, or --dir")
    ask_for_the_rest(arguments)
    wanted = Wanted(
        arguments.name,
        arguments.gpu,
        arguments.fabric,
        arguments.servers or 0,
        arguments.gpus or 0,
        arguments.racks or 0,
        arguments.power_kw or 0.0,
        arguments.cooling or "",
        arguments.power_code,
    )
    try:
        text = site_text(wanted)
    except NewSiteError as error:
        raise UsageError(str(error)) from None
    parse_site(text, str(path))
    write_file(path, text)
    print(f"wrote {path}\n\n{text}\nNext: bringup plan {path}")
    return OK


def ask_for_the_rest(arguments: argparse.Namespace) -> None:
    """Ask on a terminal for what the options do not say, again after an answer that cannot be taken. UsageError where nobody
    can be asked, or nobody answers.
    """
    from inventory.site.new import designs_of, gpu_named, gpu_names, rack_scale

    sized = arguments.servers or arguments.gpus or arguments.racks
    missing = [f"--{name}" for name in ("gpu", "fabric") if getattr(arguments, name) is None]
    missing += [] if sized else ["--servers"]
    if not missing:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        names = ", ".join(missing)
        raise UsageError(f"say {names}: bringup new NAME --gpu h100 --servers 64 --fabric ib --power-kw 1200")
    if arguments.gpu is None:
        arguments.gpu = answer(f"GPU ({', '.join(gpu_names())})", gpu_named)
    designs = designs_of(gpu_named(arguments.gpu))
    if arguments.fabric is None:
        fabrics = sorted({fabric for fabric, _ in designs})
        arguments.fabric = (
            fabrics[0] if len(fabrics) == 1 else answer(f"Fabric ({' or '.join(fabrics)})", one_of(fabrics))
        )
    if not sized:
        in_racks = all(rack_scale(slug) for slug in designs.values())
        setattr(
            arguments,
            "racks" if in_racks else "servers",
            answer("Racks of the rack-scale system" if in_racks else "GPU servers", positive),
        )
    if arguments.power_kw is None:
        arguments.power_kw = answer(
            "What the grid gives, kW (Enter: the plan works out what is needed)",
            lambda text: kilowatts(text) if text else None,
        )


def answer(question: str, read: Callable[[str], T]) -> T:
    """The first answer that can be read. UsageError where the input ends."""
    from inventory.site.new import NewSiteError

    while True:
        try:
            return read(input(f"{question}: ").strip())
        except EOFError:
            raise UsageError("the answers ended too early, and nothing is written") from None
        except (argparse.ArgumentTypeError, NewSiteError) as error:
            print(error)


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Reads one of some words, in capital letters too."""

    def read(text: str) -> str:
        if text.lower() not in choices:
            raise argparse.ArgumentTypeError(f"{text!r}: {' or '.join(choices)}")
        return text.lower()

    return read


def run_explain(arguments: argparse.Namespace) -> int:
    from infra.values_shown import show_assumptions, show_explained
    from inventory.site import load_site
    from inventory.site.explain import assumptions, explain, unconfirmed

    if arguments.to:
        return compare_values(arguments.site, arguments.key, arguments.to)
    site = load_site(arguments.site)
    if arguments.key is None:
        sized = site.effective.sized()
        sizes = [".".join(map(str, one)) for one in unconfirmed(site) if one in sized]
        show_assumptions(standard_console(), list(assumptions(site)), sizes)
        return OK
    path = tuple(arguments.key.split("."))
    shown = {".".join(map(str, size)) for size in site.effective.sized() if size[: len(path)] == path}
    if shown:
        if arguments.own_process and not site.accepted:
            leave_out_arrow()
        from capacity.sizes import complete

        site = complete(site, wanted=shown)
    show_explained(standard_console(), explain(site, arguments.key))
    return OK


def leave_out_arrow() -> None:
    """Let pandas come without Arrow in this process, which sizes use for nothing: its import takes a tenth of a second.

    Frames of plans and of accepted states need it (capacity.model.frames.conform), so a process that makes one keeps it.
    """
    if "pandas" not in sys.modules:
        # None makes each later import a ModuleNotFoundError (Python Language Reference, 5.3.1 "The module cache").
        cast(dict[str, ModuleType | None], sys.modules).setdefault("pyarrow", None)


def compare_values(reference: str, key: str | None, values: Sequence[str]) -> int:
    """The site planned as it is, and with each of the values."""
    from capacity.build import build
    from capacity.sizes import changed, load_site
    from capacity.whatif.optimise import measures
    from infra.values_shown import table

    if key is None:
        raise UsageError("--to needs a KEY: bringup explain SITE KEY --to VALUE")
    rows = []
    for value in [None, *values]:
        plan = build(changed(reference, [f"{key}={value}"]) if value is not None else load_site(reference))
        cost, facility_kw, pue, _, racks, live, *_ = measures(plan)
        errors = sorted({one.id for one in plan.findings if one.severity == "error"})
        money = f"{float(str(cost)):,.0f} {plan.site.purchase.currency}"
        shown = value if value is not None else "as it is"
        rows.append((shown, f"{facility_kw:,.1f}", pue, racks, money, live, ", ".join(errors) or "none"))
    heads = ("value", "#facility kW", "#PUE", "#racks", "#cost", "go-live P90", "errors")
    standard_console().print(table(key, *heads, rows=rows))
    return OK
