"""The driver of a network OS by its name. Apart from `network.nos`, since drivers bring SSH and HTTPS clients with them."""

from importlib import import_module

from network import nos
from network.nos.driver import Make


def driver(name: str) -> Make:
    """The driver class of one network OS. Raises ValueError that names the known ones."""
    nos.folder(name)
    switch: Make = import_module(f"network.nos.{name}.driver").Switch
    return switch
