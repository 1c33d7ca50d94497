"""Where things are: the clone, a site's folder, and the git-ignored output folder of a site.

Nothing here reads or creates a file; callers create what they write into.
"""

import os
from pathlib import Path

SITE_FILE = "site.yaml"


def repo_root() -> Path:
    """The root of the clone: the folder that holds ``pyproject.toml`` and the layer folders."""
    return Path(__file__).resolve().parent.parent


def sites_dir() -> Path:
    """The folder of the shipped sites, one subfolder each."""
    return repo_root() / "inventory" / "sites"


def site_dir(name: str) -> Path:
    """The folder of the shipped site ``name`` (it need not exist)."""
    return sites_dir() / name


def catalog_dir() -> Path:
    """The folder of the hardware catalogue."""
    return repo_root() / "inventory" / "catalog"


def var_dir(site_name: str, out: Path | None = None) -> Path:
    """Where the verbs write what belongs to a site (plan, render, facts, evidence, reports).

    ``out`` (the ``--out`` option) wins, then ``$BRINGUP_VAR/<site>``, then ``<clone>/var/<site>``.
    """
    if out is not None:
        return out
    base = os.environ.get("BRINGUP_VAR")
    return (Path(base) if base else repo_root() / "var") / site_name
