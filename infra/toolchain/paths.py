"""Where the Pulumi CLI lives: a cache shared by all clones, and a link to it in this clone."""

import os
from pathlib import Path

from inventory.paths import repo_root


class ToolchainError(Exception):
    """The CLI could not be made available; the text says why and what to do."""


def tools_dir() -> Path:
    """Folder of this clone's own tools; git ignores it."""
    return repo_root() / ".tools"


def pulumi_link() -> Path:
    """Link to the CLI's folder in the cache. Its `bin` is what goes on PATH. Absent when PATH has a fitting CLI."""
    return tools_dir() / "pulumi"


def cache_dir() -> Path:
    """Cache shared by all clones on this machine: $BRINGUP_CACHE, the system's for root, else the user's own."""
    if chosen := os.environ.get("BRINGUP_CACHE"):
        return Path(chosen) / "toolchain"
    if os.geteuid() == 0:
        return Path("/var/cache/bringup/toolchain")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bringup" / "toolchain"
