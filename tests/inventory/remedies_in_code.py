"""Which findings a site file can raise, and which of them offer values of site keys: read from the code of the planner.

    raised()          ids that the plan of a site file can have
    with_remedies()   those of them whose calls of `finding` name remedies
    with_values()     those whose remedies are made, somewhere on the way, of site keys with values

The code is followed by names, not run: a function that makes remedies of both sorts counts as one with values. That each of
them works is tried by tests/capacity/test_remedies.py.
"""

import ast
from collections.abc import Iterator
from functools import cache

from capacity.procurement.programme import RULES
from inventory.findings_registry import registry
from inventory.paths import repo_root

PLANNER = ("capacity", "network")
NOT_OF_A_SITE_FILE = (
    *("network.as_built", "network.compare", "network.infiniband.compare"),
    *("capacity.accepted", "capacity.outputs."),
)
"""Modules that judge what devices answer, what was installed and accepted before, and those that only show findings."""

OF_RULES = {f"SCHEDULE-RULE-{name}" for name, *_ in RULES}
RULE = "f'SCHEDULE-RULE-{name}'"
"""The one id that the planner puts together (capacity/procurement/programme.py), as `ast.unparse` writes it."""

Function = ast.FunctionDef | ast.ClassDef


@cache
def modules() -> dict[str, ast.Module]:
    """The planner's modules by their dotted names."""
    return {
        ".".join(path.relative_to(repo_root()).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for layer in PLANNER
        for path in sorted((repo_root() / layer).rglob("*.py"))
    }


@cache
def reached(module: str) -> tuple[str, ...]:
    """The module and those of the planner that it imports or imports from."""
    found = {module}
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return tuple(sorted(found & set(modules())))


@cache
def functions(module: str) -> dict[str, Function]:
    """Functions, methods and classes of a module by name."""
    found: dict[str, Function] = {}
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
    return found


def names(node: ast.AST) -> set[str]:
    """Every name and attribute that an expression uses."""
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return used | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def calls_of(node: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls of a function by its bare name."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == name:
            yield one


def set_in(function: Function, name: str) -> Iterator[ast.AST]:
    """What a function puts under a local name: assigned, looped over, or appended to a list."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.NamedExpr):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            targets = [node.func.value]
        else:
            continue
        if any(isinstance(one, ast.Name) and one.id == name for target in targets for one in ast.walk(target)):
            yield node.iter if isinstance(node, ast.For) else node


def passed_as(module: str, function: Function, name: str) -> Iterator[tuple[str, Function, ast.AST]]:
    """What callers in the planner pass for a parameter of remedies: module, function and argument of each call."""
    if isinstance(function, ast.ClassDef):
        return
    taken = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    if not any(one.arg == name and one.annotation and "RemedyOf" in ast.unparse(one.annotation) for one in taken):
        return
    parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    for where in modules():
        if module not in reached(where):
            continue
        for caller in functions(where).values():
            for call in ast.walk(caller):
                if isinstance(call, ast.Call) and function.name in _called(call):
                    at = parameters.index(name) if name in parameters else len(call.args)
                    given = [*call.args[at : at + 1], *(one.value for one in call.keywords if one.arg == name)]
                    yield from ((where, caller, one) for one in given)


def _called(call: ast.Call) -> set[str]:
    function = call.func
    return {function.attr} if isinstance(function, ast.Attribute) else {getattr(function, "id", "")}


def gives_values(module: str, function: Function, node: ast.AST, seen: set[tuple[str, str, str]]) -> bool:
    """Whether an expression leads to a call of `remedy` with site values."""
    if any(call.args and not isinstance(call.args[0], ast.Constant) for call in calls_of(node, "remedy")):
        return True
    for name in sorted(names(node)):
        if (key := (module, function.name, name)) in seen:
            continue
        seen.add(key)
        if any(gives_values(module, function, value, seen) for value in set_in(function, name)):
            return True
        if any(gives_values(*given, seen) for given in passed_as(module, function, name)):
            return True
        for where in reached(module):
            made = functions(where).get(name)
            if made is not None and gives_values(where, made, made, seen):
                return True
    return False


def _ids(node: ast.AST) -> set[str]:
    """The ids of findings that a text names; f"SCHEDULE-RULE-{name}" names those of the programme's rules."""
    if isinstance(node, ast.JoinedStr):
        return OF_RULES if ast.unparse(node) == RULE else set()
    return {node.value} & set(registry()) if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


@cache
def _mentions() -> dict[str, tuple[str, ...]]:
    """The modules that name each id, of those that judge a site file."""
    found: dict[str, set[str]] = {}
    for module, tree in modules().items():
        if module.startswith(NOT_OF_A_SITE_FILE):
            continue
        for node in ast.walk(tree):
            for id_ in _ids(node):
                found.setdefault(id_, set()).add(module)
    return {id_: tuple(sorted(where)) for id_, where in found.items()}


@cache
def _calls() -> tuple[tuple[str, Function, ast.Call, set[str]], ...]:
    """Every call of `finding` with its module and function, and the ids that its first argument names."""
    return tuple(
        (module, function, call, set().union(*(_ids(one) for one in ast.walk(call.args[0]))))
        for module in modules()
        for function in functions(module).values()
        if isinstance(function, ast.FunctionDef)
        for call in calls_of(function, "finding")
        if call.args
    )


def _calls_for(id_: str) -> list[tuple[str, Function, ast.Call]]:
    """The calls that name an id; where none does, those without a literal id in modules that reach one that names it."""
    literal = [(module, function, call) for module, function, call, ids in _calls() if id_ in ids]
    return literal or [
        (module, function, call)
        for module, function, call, _ in _calls()
        if not isinstance(call.args[0], ast.Constant) and set(reached(module)) & set(_mentions()[id_])
    ]


def raised() -> set[str]:
    """The ids that the plan of a site file can have."""
    return set(_mentions())


@cache
def _remedies() -> dict[str, list[tuple[str, Function, ast.AST]]]:
    return {
        id_: [
            (module, function, keyword.value)
            for module, function, call in _calls_for(id_)
            for keyword in call.keywords
            if keyword.arg in ("remedies", None)
        ]
        for id_ in _mentions()
    }


def with_remedies() -> set[str]:
    """Ids of `raised` whose findings carry remedies."""
    return {id_ for id_, made in _remedies().items() if made}


@cache
def with_values() -> frozenset[str]:
    """Ids of `raised` whose findings carry remedies that are values of site keys."""
    return frozenset(
        id_
        for id_, made in _remedies().items()
        if any(gives_values(module, function, node, set()) for module, function, node in made)
    )
