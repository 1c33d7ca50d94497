"""Configurations that are trees, such as NVUE's and SONiC's: what differs, line by line, without showing secrets.

difference({"mtu": 1500}, {"mtu": 9216})    # two lines: + mtu 9216, - mtu 1500
"""

import json
from collections.abc import Iterator
from typing import Any

from network.drivers import answers

HIDDEN = "(not shown)"
Tree = dict[str, Any]
Secret = frozenset[str]
"""Keys below which nothing is shown."""


def difference(before: Tree, after: Tree, secret: Secret = frozenset()) -> str:
    """'- path value' and '+ path value' of two trees, sorted by path, a value that changes as both."""
    old, new = set(_leaves(before)), set(_leaves(after))
    lines = [(path, 0, value) for path, value in old - new] + [(path, 1, value) for path, value in new - old]
    return "\n".join(
        dict.fromkeys(f"{'-+'[comes]} {_line(path, value, secret)}" for path, comes, value in sorted(lines))
    )


def missing(wanted: Tree, staged: Tree, secret: Secret = frozenset()) -> str:
    """Lines of `wanted` that `staged` lacks. What the switch adds by itself, below an empty object too, lacks nothing."""
    found = set(_leaves(staged))
    paths = {path[:depth] for path, _ in found for depth in range(len(path))}
    lacks = [
        (path, value) for path, value in _leaves(wanted) if (path, value) not in found and (value or path not in paths)
    ]
    return "\n".join(dict.fromkeys(_line(path, value, secret) for path, value in lacks))


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """(path, value) of each leaf; an empty object is a leaf without value."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _leaves(value, (*path, str(key)))
    elif tree is not None:
        yield path, "" if tree == {} else tree if isinstance(tree, str) else json.dumps(tree)


def _line(path: tuple[str, ...], value: str, secret: Secret) -> str:
    """A leaf on one line; nothing below a secret key is shown."""
    hidden = next((depth for depth, key in enumerate(path, 1) if key in secret), 0)
    words = [*path[:hidden], HIDDEN] if hidden else [*path, value]
    return " ".join(answers.line(word) for word in words if word)


def shown(tree: Any, secret: Secret) -> Any:
    """The tree without what is below secret keys."""
    if isinstance(tree, dict):
        return {key: HIDDEN if key in secret else shown(value, secret) for key, value in tree.items()}
    return tree


def laid_over(below: Any, above: Any) -> Any:
    """`above`, with what only `below` has."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {
            **below,
            **{key: laid_over(below[key], value) if key in below else value for key, value in above.items()},
        }
    return above
