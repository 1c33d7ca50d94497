"""Which slices of a plan (names of Plan.hashes) a check reads."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from capacity.model import Plan
from capacity.model.frames import FRAMES
from capacity.outputs import summary
from inventory.site import Site
from validation import checks
from validation.check import check_of
from validation.checks import conftest

EXEMPT = {
    "site.name": "says which site it is; the log of another site does not count",
    "site.limits": "records name each limit that was read (validation/limits.py)",
    "site.timeouts": "how long a device is waited for; what did not answer in time is a failure",
}
"""Slices that a check may read without declaring them, and why."""


def all_checks() -> dict[str, Callable[..., Any]]:
    """Every check of validation/checks by its name."""
    found = {}
    for module in pkgutil.iter_modules(checks.__path__, f"{checks.__name__}."):
        for name, function in vars(importlib.import_module(module.name)).items():
            if (made := check_of(function)) is not None and function.__module__ == module.name:
                found[f"{made.item}-{name}"] = function
    return found


def slice_of(owner: type, name: str) -> str | None:
    """The slice that an attribute of a plan or a site is; None for one that is none."""
    if owner is Plan:
        return f"frame.{name}" if name in FRAMES else "gpus" if name == "gpus" else None
    if name in Site.model_fields:
        made = f"site.{Site.model_fields[name].alias or name}"
        return None if made in EXEMPT else made
    return None


@contextmanager
def traced() -> Iterator[set[str]]:
    """The slices that are read inside, from any plan and site."""
    seen: set[str] = set()

    def tracing(owner: type) -> Callable[[Any, str], Any]:
        def get(self: Any, name: str) -> Any:
            if (made := slice_of(owner, name)) is not None:
                seen.add(made)
            return object.__getattribute__(self, name)

        return get

    with pytest.MonkeyPatch.context() as patch:
        for owner in (Plan, Site):
            patch.setattr(owner, "__getattribute__", tracing(owner))
        yield seen


REACHING = (
    "address_of",
    "address_book",
    "node_credentials",
    "snmp_credentials",
    "switch_credentials",
    "bmc_credentials",
    "pins_node_keys",
    "pinned_host_keys",
)
"""Functions that say where and with which login a device is asked, and by which host key it is known. They are not followed:
another address or login changes no judgement, a device's identities are compared with the asset list, and signatures are verified
by the keys of the day of judging."""


def followed(function: Callable[..., Any]) -> set[str]:
    """The slices that the source of a check reads, with the functions that it gives the plan or the site to, and with its
    fixtures but `facts`: these say what the devices answered.
    """
    source = _Source()
    source.follow(inspect.unwrap(function))
    return source.seen


OWNERS = {"Plan": Plan, "PlanView": Plan, "Site": Site}
PROJECT = ("capacity", "inventory", "network", "validation", "infra", "tests")


class _Source:
    """Reads of plans and sites, found in the source of functions."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._done: set[Any] = set()

    def follow(self, function: Any, owner: type | None = None) -> None:
        """Note what a function reads; `owner` is what its `self` is."""
        function = inspect.unwrap(getattr(function, "_fixture_function", function))
        if not inspect.isfunction(function) or function in self._done:
            return
        if function.__module__.partition(".")[0] not in PROJECT or function.__name__ in REACHING:
            return
        if function.__code__.co_filename == "<string>":  # what dataclass writes into a class
            return
        self._done.add(function)
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        known = self._typed(tree, owner)
        names = _names(function)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and (held := known(node.value)):
                self._read(held, node.attr)
            elif isinstance(node, ast.Call) and any(map(known, _given(node))):
                for value in (node.func, *_given(node)):
                    self._called(_resolved(value, names))
                if _resolved(node.func, names) is summary.part and isinstance(node.args[1], ast.Constant):
                    self.follow(summary.PARTS[str(node.args[1].value)])
            elif isinstance(node, ast.FunctionDef) and node is tree:
                for decorator in node.decorator_list:
                    self._called(_resolved(decorator, names))
        self._fixtures(function, tree)

    def _called(self, made: Any) -> None:
        if not inspect.isclass(made):
            self.follow(made)
        elif any(_owner(note) for note in getattr(made, "__annotations__", {}).values()):
            for method in vars(made).values():
                self.follow(getattr(method, "fget", None) or method, made)

    def _read(self, owner: type, name: str) -> None:
        if (made := slice_of(owner, name)) is not None:
            self.seen.add(made)
            return
        method = inspect.getattr_static(owner, name, None)
        self.follow(getattr(method, "fget", None) or method, owner)

    def _fixtures(self, function: Any, tree: ast.AST) -> None:
        wanted = (
            set(inspect.signature(function).parameters)
            if function.__module__.startswith("validation.checks")
            else set()
        )
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "getfixturevalue"
            ):
                wanted |= {str(one.value) for one in node.args if isinstance(one, ast.Constant)}
        for name in wanted - {"plan", "site", "facts", "register"}:
            fixture = vars(conftest).get(name)
            if hasattr(fixture, "_fixture_function"):
                self.follow(fixture)

    def _typed(self, tree: ast.AST, owner: type | None) -> Callable[[ast.expr], type | None]:
        """What an expression of a function is: Plan, Site or None."""
        env: dict[str, type] = {}

        def known(node: ast.expr) -> type | None:
            if isinstance(node, ast.Name):
                return env.get(node.id)
            if isinstance(node, ast.Attribute):
                inner = known(node.value)
                if inner is Plan and node.attr == "site":
                    return Site
                if inner not in (None, Plan, Site):
                    return _owner(getattr(inner, "__annotations__", {}).get(node.attr))
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("replace", "model_copy")):
                return known(node.args[0]) if node.args else None
            return None

        for node in ast.walk(tree):
            if (
                isinstance(node, ast.arg)
                and node.annotation is not None
                and (kind := _owner(ast.unparse(node.annotation)))
            ):
                env[node.arg] = kind
        if owner is not None:
            env["self"] = owner
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    pairs = [(target, node.value)]
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        pairs = list(zip(target.elts, node.value.elts, strict=False))
                    for name, value in pairs:
                        if isinstance(name, ast.Name) and (kind := known(value)) in (Plan, Site):
                            env[name.id] = kind
        return lambda node: kind if (kind := known(node)) in (Plan, Site) or kind is owner else None


def _owner(note: Any) -> type | None:
    text = note if isinstance(note, str) else getattr(note, "__name__", "")
    return next((OWNERS[word] for word in text.replace("|", " ").split() if word in OWNERS), None)


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _names(function: Any) -> dict[str, Any]:
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in closed}}


def _resolved(node: ast.expr, names: dict[str, Any]) -> Any:
    """The object that a name or `module.name` is; None for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_resolved(node.value, names), node.attr, None)
    return None
