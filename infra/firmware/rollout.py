"""Which servers get which packages of their bundle, and in which order: computed from what BMCs list, without asking one.

todo = outstanding(bundle, inventory)      # packages that are behind, with the versions that run
table = versions(read, bundles)            # one row per server and item: model, package, server, item, runs, wanted
for stage in stages(servers): ...          # one server of a model, its rack, then rack by rack
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from inventory.delivered.firmware import Bundle, Package

COLUMNS = ("model", "package", "server", "item", "runs", "wanted")
SHOWN = 5


@dataclass(frozen=True)
class Outstanding:
    """A package that a server lacks. `behind`: {item: version that runs}; `absent`: patterns that fit no item."""

    package: Package
    behind: Mapping[str, str]
    absent: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """Servers that are flashed in one go; a stage begins when the one before it has ended without a failure."""

    name: str
    servers: tuple[str, ...]


def outstanding(bundle: Bundle, inventory: Mapping[str, str]) -> list[Outstanding]:
    """The packages that a server with this inventory {item: version} lacks, in the order of installation."""
    found = [Outstanding(p, p.behind(inventory), tuple(p.absent(inventory))) for p in bundle.packages]
    return [one for one in found if one.behind or one.absent]


def versions(inventories: Mapping[str, Mapping[str, str]], bundles: Mapping[str, Bundle]) -> pd.DataFrame:
    """What runs and what is wanted, one row per server and item of its bundle: columns COLUMNS, all text.

    `bundles` by server. An item that the BMC does not list has runs = "" and its pattern as item.
    """
    rows = []
    for server, inventory in inventories.items():
        bundle = bundles[server]
        for package in bundle.packages:
            seen = package.items(inventory)
            rows += [(bundle.model, package.name, server, item, *pair) for item, pair in seen.items()]
            rows += [
                (bundle.model, package.name, server, pattern, "", package.versions[pattern])
                for pattern in package.absent(inventory)
            ]
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=str)


def told(table: pd.DataFrame) -> list[str]:
    """A line for each package and version that runs somewhere: how many servers, and which ones where it is not wanted."""
    lines = []
    for (model, package), rows in table.groupby(["model", "package"], sort=False):
        for (runs, wanted), same in rows.groupby(["runs", "wanted"], sort=False):
            servers = same["server"].unique().tolist()
            items = ", ".join(same["item"].unique()[:SHOWN])
            many = f"{len(servers)} server{'s' if len(servers) != 1 else ''}"
            if runs == wanted:
                lines.append(f"{model} {package}: {wanted} on {many} ({items})")
            else:
                state = runs or "not in the BMC's inventory"
                lines.append(f"{model} {package}: {state} instead of {wanted} on {many} ({items}): {_named(servers)}")
    return lines


def mixed(table: pd.DataFrame) -> list[str]:
    """A line for each package of a model that runs in several versions: which servers run which. [] where all run the same."""
    found: dict[tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]], list[str]] = {}
    for (model, package, item), rows in table.groupby(["model", "package", "item"], sort=False):
        by_version = tuple(
            (str(runs) or "none", tuple(same["server"].unique())) for runs, same in rows.groupby("runs", sort=True)
        )
        if len(by_version) > 1:
            found.setdefault((str(model), str(package), by_version), []).append(str(item))
    return [
        f"{model} {package} is mixed ({', '.join(items[:SHOWN])}): "
        + "; ".join(f"{runs} on {_named(servers)}" for runs, servers in by_version)
        for (model, package, by_version), items in found.items()
    ]


def _named(servers: Sequence[str]) -> str:
    """The first SHOWN of these servers, and how many more there are."""
    more = f" and {len(servers) - SHOWN} more" if len(servers) > SHOWN else ""
    return ", ".join(servers[:SHOWN]) + more


def stages(servers: pd.DataFrame, at_once: int) -> list[Stage]:
    """The order of a roll-out. servers: columns name, model, rack. at_once: most servers of a stage.

    Each model begins with one server; then the others of its rack, then rack by rack. A rack with more than at_once servers
    is taken in parts.
    """
    found = []
    for model, group in servers.groupby("model", sort=False):
        first = group.iloc[0]
        found.append(Stage(f"{model}: one server", (str(first["name"]),)))
        rest = group[group["name"] != first["name"]]
        ordered = sorted(rest.groupby("rack", sort=False), key=lambda pair: pair[0] != first["rack"])
        for rack, members in ordered:
            parts = _parts(members["name"].tolist(), at_once)
            for number, names in enumerate(parts, start=1):
                part = f", part {number} of {len(parts)}" if len(parts) > 1 else ""
                found.append(Stage(f"{model}: rack {rack}{part}", tuple(names)))
    return found


def _parts(names: Sequence[str], most: int) -> list[Sequence[str]]:
    return [names[start : start + most] for start in range(0, len(names), most)]
