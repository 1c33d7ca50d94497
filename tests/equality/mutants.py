"""The same seeded mutants in two trees: which of them the tests of each tree kill, and which only the equality report sees.

    python -m tests.equality.mutants --base 20c424f --count 40 --seed 11      draw, run, print the table
    python -m tests.equality.mutants --base 20c424f --table                   print the table of what has run

A mutant is one change of one module that was moved between the two commits: a flipped comparison, another number, or a
branch that is never taken. It is named by its function, its kind and its place among those of that kind in the function, so
that both trees get the same change wherever the function stands now.

Each tree is unpacked from git into a folder of its own and mutated there. First the test modules that import the mutated
module run (where none or too many do: the folder of tests that mirrors its own), then those of its layer, then the equality
report of the shipped sites; the first that fails has killed it. What fails in the tree as it is counts for nothing; it is
asked for as soon as anything fails. A run that goes on longer than its limit counts as killed.

Every result is a line of var/mutants/<seed>/results.jsonl as soon as it is known. A run that is ended goes on there;
`--budget-s` ends it by itself.
"""

import argparse
import ast
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

OWN_TREE = Path(__file__).resolve().parents[2]
LAYERS = ("capacity", "inventory", "network", "validation", "infra")
KINDS = ("comparison", "number", "branch")
MODULE = "<module>"
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
MOST_TESTS = 12
"""A module that more test modules import, or none, is tried by the folder of tests that mirrors its own."""
STAGES = ("tests of the module", "tests of the layer", "equality")


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """A change, by the module at the base commit, the function there, the kind, and its number among those of that kind."""

    module: str
    function: str
    kind: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.module}:{self.function} {self.kind} {self.ordinal}"


@dataclasses.dataclass(frozen=True)
class Place:
    """A node that can be mutated: its mutant, where it stands, and the text that takes its place."""

    mutant: Mutant
    start: int
    end: int
    line: int
    new: str


def places(text: str, module: str) -> list[Place]:
    """Everything in a module that can be mutated, in the order of the file."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found: list[Place] = []
    counts: dict[tuple[str, str], int] = {}

    def add(function: str, kind: str, node: ast.expr, new: str) -> None:
        number = counts[function, kind] = counts.get((function, kind), 0) + 1
        if node.end_lineno is None or node.end_col_offset is None:
            return
        start, end = lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset
        found.append(Place(Mutant(module, function, kind, number), start, end, node.lineno, new))

    def walk(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = node.name if function == MODULE else f"{function}.{node.name}"
            for statement in node.body:
                walk(statement, function)
            return
        if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
            other = ast.Compare(node.left, [FLIPPED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
            add(function, "comparison", node, f"({ast.unparse(other)})")
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
        ):
            value = node.value
            add(function, "number", node, repr(value + 1 if isinstance(value, int) else value * 1.1 + 0.001))
        elif isinstance(node, ast.If):
            add(function, "branch", node.test, "False")
        for inner in ast.iter_child_nodes(node):
            walk(inner, function)

    walk(ast.parse(text), MODULE)
    return found


def mutated(text: str, place: Place) -> str:
    """The module with one place changed."""
    data = text.encode()
    made = (data[: place.start] + place.new.encode() + data[place.end :]).decode()
    ast.parse(made)
    return made


def function_source(text: str, name: str) -> str | None:
    """A function without its texts and positions, to tell whether it is the same one in another module."""
    found: dict[str, ast.AST] = {}

    def walk(node: ast.AST, path: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own = f"{path}.{inner.name}" if path else inner.name
                found.setdefault(own, inner)
                walk(inner, own)

    walk(ast.parse(text), "")
    return ast.dump(found[name]) if name in found else None


# --- The two trees ---


@dataclasses.dataclass
class Unpacked:
    """A commit in a folder of its own."""

    name: str
    commit: str
    root: Path

    @classmethod
    def of(cls, name: str, commit: str, folder: Path) -> "Unpacked":
        """Unpack a commit, always anew: a run that was killed leaves its mutant behind."""
        full = git("rev-parse", f"{commit}^{{commit}}").strip()
        root = folder / f"{name}-{full[:12]}"
        root.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(["git", "archive", full], cwd=OWN_TREE, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(root)], input=packed, check=True)
        return cls(name, full, root)

    def modules(self) -> dict[str, str]:
        """Text of every product module, by its path in the tree."""
        found = {}
        for layer in LAYERS:
            for path in sorted((self.root / layer).rglob("*.py")):
                found[path.relative_to(self.root).as_posix()] = path.read_text()
        return found

    def run(self, command: Sequence[str], limit_s: float) -> tuple[bool, str]:
        """Whether a command of this tree ends well within its limit, and its last lines."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        try:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, f"no end within {limit_s:.0f} s"
        return done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]

    def tests_of(self, module: str) -> list[str]:
        """Test modules that import a module by its dotted name, or the folder that mirrors the module's; perhaps none."""
        dotted = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        parent, _, last = dotted.rpartition(".")
        imports = re.compile(
            rf"^\s*(?:from {re.escape(dotted)} import|import {re.escape(dotted)}\b|from {re.escape(parent)} import .*\b{last}\b)",
            re.MULTILINE,
        )
        found = [
            path.relative_to(self.root).as_posix()
            for path in sorted((self.root / "tests").rglob("test_*.py"))
            if "equality" not in path.parts and imports.search(path.read_text())
        ]
        if 0 < len(found) <= MOST_TESTS:
            return found
        folders = (Path("tests") / folder for folder in Path(module).parents if len(folder.parts) > 1)
        return [str(folder) for folder in folders if any((self.root / folder).rglob("test_*.py"))][:1]


def git(*words: str) -> str:
    """What git says in this repository."""
    return subprocess.run(["git", *words], cwd=OWN_TREE, capture_output=True, text=True, check=True).stdout


def moved(base: str, head: str) -> dict[str, str]:
    """Product modules that git sees renamed between two commits: path at `base` -> path at `head`."""
    found = {}
    for line in git("diff", "-M40%", "--diff-filter=R", "--name-status", base, head, "--", *LAYERS).splitlines():
        _, old, new = line.split("\t")
        if old.endswith(".py") and new.endswith(".py"):
            found[old] = new
    return found


def place_at_head(mutant: Mutant, old: str, renamed: str | None, modules: dict[str, str]) -> tuple[str, Place] | None:
    """Where a mutant of module text `old` stands in the other tree: the module and the place, None where it is no more.

    Looked for in the renamed module first, then in any module with a function of that name and the same body.
    """
    ordered = [path for path in (renamed, mutant.module) if path in modules]
    if mutant.function != MODULE:
        body = function_source(old, mutant.function)
        same = [
            path for path, text in modules.items() if mutant.function.split(".")[-1] in text and path not in ordered
        ]
        ordered += [path for path in same if function_source(modules[path], mutant.function) == body]
    for path in ordered:
        if path is None:
            continue
        for place in places(modules[path], mutant.module):
            if place.mutant == mutant:
                return path, place
    return None


Drawn = tuple[Mutant, tuple[str, Place], tuple[str, Place]]
"""A mutant, and the module and place of it in the tree before and in the tree after."""


def drawn(base: Unpacked, head: Unpacked, count: int, seed: int) -> list[Drawn]:
    """So many mutants of moved modules that both trees have, of each kind as many, spread over the modules."""
    old, new, renames = base.modules(), head.modules(), moved(base.commit, head.commit)
    if not renames:
        raise SystemExit(f"no module was moved between {base.commit[:12]} and {head.commit[:12]}")
    pools: dict[str, dict[str, list[Place]]] = {kind: {} for kind in KINDS}
    for path in sorted(renames):
        for place in places(old[path], path):
            pools[place.mutant.kind].setdefault(path, []).append(place)
    chance = random.Random(seed)
    made: list[Drawn] = []
    while len(made) < count and any(pools.values()):
        kind = KINDS[len(made) % len(KINDS)]
        kind = kind if pools[kind] else next(k for k in KINDS if pools[k])
        path = chance.choice(sorted(pools[kind]))
        options = pools[kind][path]
        place = options.pop(chance.randrange(len(options)))
        if not options:
            del pools[kind][path]
        there = place_at_head(place.mutant, old[path], renames[path], new)
        if there is not None:
            made.append((place.mutant, (path, place), there))
    return made


# --- Running ---


@dataclasses.dataclass
class Judge:
    """Runs the stages in one tree; what fails without a mutant is left out, as found once per set of tests."""

    tree: Unpacked
    jobs: int
    limit_s: float
    stages: tuple[str, ...]
    sites: tuple[str, ...]
    failing: dict[tuple[str, ...], list[str]] = dataclasses.field(default_factory=dict)

    def judged(self, module: str, place: Place) -> dict[str, object]:
        """By which stage the mutant is killed; '' where none does."""
        tests = {STAGES[0]: self.tree.tests_of(module), STAGES[1]: [f"tests/{module.partition('/')[0]}"]}
        began = time.monotonic()
        for stage in self.stages:
            if stage in tests:
                fine, said = self.tested(module, place, tests[stage]) if tests[stage] else (True, "")
            else:
                fine, said = self.changed(module, place, self.equality())
            if not fine:
                last = next((line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
                why = last or next((line for line in reversed(said.splitlines()) if line.strip()), "")
                return {"killed_by": stage, "why": why[:200], "seconds": round(time.monotonic() - began)}
        return {"killed_by": "", "why": "", "seconds": round(time.monotonic() - began)}

    def changed(self, module: str, place: Place, command: Sequence[str]) -> tuple[bool, str]:
        """Run a command while the module is mutated."""
        path = self.tree.root / module
        text = path.read_text()
        path.write_text(mutated(text, place))
        try:
            return self.tree.run(command, self.limit_s)
        finally:
            path.write_text(text)

    def tested(self, module: str, place: Place, tests: list[str]) -> tuple[bool, str]:
        """Run these tests while the module is mutated. At the first failure they run without it as well, then again
        without what fails there.
        """
        fine, said = self.changed(module, place, self.pytest(tests, "-x"))
        key = tuple(tests)
        if fine or key in self.failing:
            return fine, said
        _, plain = self.tree.run(self.pytest(tests), 6 * self.limit_s)
        self.failing[key] = sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+)", plain, re.MULTILINE)))
        return self.changed(module, place, self.pytest(tests, "-x")) if self.failing[key] else (fine, said)

    def pytest(self, tests: list[str], *more: str) -> list[str]:
        """The command that runs these tests, without those that are known to fail anyway."""
        options = ["-q", "-p", "no:cacheprovider", "-m", "not lab and not gpu", "-n", str(self.jobs), "--no-header"]
        skipped = [word for name in self.failing.get(tuple(tests), []) for word in ("--deselect", name)]
        return ["-m", "pytest", *tests, *options, "-rfE", *skipped, *more]

    def equality(self) -> list[str]:
        """The command that compares the shipped sites with the tree as it is."""
        only = [word for name in self.sites for word in ("--only", name)]
        run = f"import sys; sys.path.insert(0, {str(OWN_TREE)!r}); from tests.equality.__main__ import main; sys.exit(main())"
        common = ["-c", run, "--tree", str(self.tree.root), "--jobs", str(self.jobs), *only]
        none = self.tree.root.parent / "none.yaml"
        none.write_text("accepted: []\n")
        plain = self.tree.root.parent / f"plain-{self.tree.root.name}-{'-'.join(self.sites)}.jsonl.xz"
        if not plain.exists():
            fine, said = self.tree.run([*common, "--accepted", str(none), "--out", str(plain)], 6 * self.limit_s)
            if not plain.exists():
                raise SystemExit(f"the equality report cannot be made of {self.tree.root}: {fine} {said}")
        return [*common, "--accepted", str(none), "--baseline", str(plain)]


def read_results(path: Path) -> dict[tuple[str, str], dict[str, object]]:
    """Results by mutant and tree."""
    if not path.exists():
        return {}
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return {(line["mutant"], line["tree"]): line for line in lines}


def table(results: dict[tuple[str, str], dict[str, object]]) -> Iterator[str]:
    """A line per mutant with what killed it in each tree, and the counts."""
    names = sorted({mutant for mutant, _ in results})
    yield f"{'mutant':80} {'base':22} head"
    for name in names:
        told = [_verdict(results.get((name, tree))) for tree in ("base", "head")]
        yield f"{name:80} {told[0]:22} {told[1]}"
    both = [name for name in names if all((name, tree) in results for tree in ("base", "head"))]
    for what, stages in (("by tests", STAGES[:2]), ("in all", STAGES)):
        counts = {tree: sum(results[name, tree]["killed_by"] in stages for name in both) for tree in ("base", "head")}
        yield f"killed {what}: base {counts['base']}, head {counts['head']} of {len(both)}"


def _verdict(result: dict[str, object] | None) -> str:
    return "not run" if result is None else str(result["killed_by"]) or "survived"


def main(argv: Sequence[str] | None = None) -> int:
    """Run as the arguments say. Exit status 1 where the tests kill fewer mutants at head than at the base."""
    given = arguments(argv)
    folder = given.folder / str(given.seed)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.jsonl"
    if not given.table:
        base = Unpacked.of("base", given.base, folder)
        head = Unpacked.of("head", given.head, folder)
        run(drawn(base, head, given.count, given.seed), base, head, file, given)
    results = read_results(file)
    for line in table(results):
        print(line)
    killed = {
        tree: sum(r["killed_by"] in STAGES[:2] for (_, t), r in results.items() if t == tree)
        for tree in ("base", "head")
    }
    return int(killed["head"] < killed["base"])


def run(
    mutants: Iterable[Drawn],
    base: Unpacked,
    head: Unpacked,
    file: Path,
    given: argparse.Namespace,
) -> None:
    """Judge each mutant in both trees, but for those that have been; ends before a mutant when the budget is spent."""
    ends = time.monotonic() + given.budget_s
    stages = tuple(stage for stage in STAGES if stage not in {STAGES[int(number) - 1] for number in given.leave_out})
    judges = [Judge(tree, given.jobs, given.limit_s, stages, tuple(given.sites.split(","))) for tree in (base, head)]
    for mutant, at_base, at_head in mutants:
        for judge, (module, place) in zip(judges, (at_base, at_head), strict=True):
            if (str(mutant), judge.tree.name) in read_results(file):
                continue
            if time.monotonic() > ends:
                print(f"the budget of {given.budget_s:.0f} s is spent; the same command goes on", file=sys.stderr)
                return
            result = judge.judged(module, place)
            line = {
                "mutant": str(mutant),
                "tree": judge.tree.name,
                "at": f"{module}:{place.line}",
                "new": place.new,
                **result,
            }
            with file.open("a") as results:
                results.write(json.dumps(line, ensure_ascii=False) + "\n")
            print(
                f"{mutant}  {judge.tree.name}  {_verdict(line)}  {result['seconds']} s  {result['why']}",
                file=sys.stderr,
            )


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.equality.mutants", description="Mutants of moved modules.")
    parser.add_argument("--base", default="20c424f", metavar="COMMIT", help="before the moves (default: %(default)s)")
    parser.add_argument("--head", default="HEAD", metavar="COMMIT", help="after them (default: %(default)s)")
    parser.add_argument("--count", type=int, default=40, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=11, metavar="N", help="which ones (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: CPUs)")
    parser.add_argument(
        "--limit-s", type=float, default=600, metavar="S", help="of one run of tests (default: %(default)s)"
    )
    parser.add_argument("--budget-s", type=float, default=86400, metavar="S", help="start no mutant after so long")
    parser.add_argument(
        "--leave-out", default="", metavar="12", help=f"stages by number: {', '.join(STAGES)} (default: none)"
    )
    parser.add_argument(
        "--sites",
        default="lab,b200-256-roce,gb300-nvl72-liquid,h100-1000-ib",
        help="of the equality report (default: shipped)",
    )
    parser.add_argument("--folder", type=Path, default=OWN_TREE / "var" / "mutants", metavar="DIR")
    parser.add_argument("--table", action="store_true", help="print the table of what has run, and run nothing")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
