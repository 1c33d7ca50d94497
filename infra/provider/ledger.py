"""Remembers, outside Pulumi's state, which servers this suite powered on.

A run that is killed between switching a server on and writing its state would forget that it did, and a later destroy
would leave that server running. So the intent is written here before the power button is pressed, as one small file
per server in the site's output folder. In doubt a name is here too much only between that write and the press.
"""

from pathlib import Path


class PowerLedger:
    """One folder, one file per server that we powered on; its text is the server's serial number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, server: str, serial: str) -> None:
        """Note that `server` is about to be powered on by us."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / server).write_text(serial + "\n")

    def has(self, server: str, serial: str) -> bool:
        """Whether we powered on this very server (another serial is another machine under the same name)."""
        entry = self._folder / server
        return entry.exists() and entry.read_text().strip() == serial

    def remove(self, server: str) -> None:
        """Forget it: it is off, or no longer ours."""
        (self._folder / server).unlink(missing_ok=True)
