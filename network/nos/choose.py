"""The driver of a network OS by its name. Apart from `network.nos`, since drivers bring an SSH client with them."""

from importlib import import_module

from network import nos
from network.nos.frr.driver import Switch


def driver(name: str) -> type[Switch]:
    """The driver class of one network OS. Raises ValueError that names the known ones."""
    nos.folder(name)
    switch: type[Switch] = import_module(f"network.nos.{name}.driver").Switch
    return switch
