"""Ansible filter: one message of what the nodes' repositories cannot give, from the preflight of every node."""

from collections.abc import Callable, Mapping
from typing import Any

NODES_SHOWN = 8
PROBLEMS_SHOWN = 8


def nodes(names: list[str]) -> str:
    """'gpu001, gpu002' or, of many, the first with the count: 'gpu001, … gpu008 and 992 more'."""
    shown, more = names[:NODES_SHOWN], len(names) - NODES_SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def preflight_message(looks: Mapping[str, Mapping[str, Any] | None]) -> str:
    """What cannot be had, grouped by package, pin and offered versions; '' when every node can have everything.

    looks: node -> what `bringup_packages` with `preflight` returned there; a node without an answer is left out.
    """
    lacking: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    problems: dict[str, list[str]] = {}
    for node, seen in looks.items():
        for row in (seen or {}).get("missing", []):
            lacking.setdefault((row["package"], row["pin"], tuple(row["offered"])), []).append(node)
        for problem in (seen or {}).get("problems", []):
            problems.setdefault(problem, []).append(node)
    if not lacking:
        return ""
    lines = ["Packages that cannot be had. Nothing was changed on any node."]
    for (package, pin, offered), names in sorted(lacking.items()):
        wanted = f"{package} {pin}" if pin else f"{package} (any version)"
        lines.append(f"- {wanted}: offered {', '.join(offered) or 'no version'}, on {nodes(names)} ({len(names)})")
    shown = sorted(problems.items(), key=lambda item: (-len(item[1]), item[0]))
    lines += [f"- problem: {text}, on {nodes(names)} ({len(names)})" for text, names in shown[:PROBLEMS_SHOWN]]
    if len(shown) > PROBLEMS_SHOWN:
        lines.append(f"- and {len(shown) - PROBLEMS_SHOWN} more problems of sources")
    lines.append(
        "Fix: pin a version under `versions` of the site file that is offered, or make the version available in the nodes'"
        " sources (a mirror, or os.repositories), then run this again."
    )
    return "\n".join(lines)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"bringup_preflight_message": preflight_message}
