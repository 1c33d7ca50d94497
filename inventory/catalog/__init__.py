"""The hardware catalogue: facts about models, each number with its source.

Models of the entries, one module per kind; the entries themselves are in data/.
"""

from inventory.catalog.devices import DeviceType
from inventory.catalog.gpus import Gpu
from inventory.catalog.loading import (
    CONNECTORS,
    SITE_CATALOG,
    Catalog,
    CatalogError,
    load_catalog,
    read_yaml,
    site_catalog,
)
from inventory.catalog.media import MediaPart, Plug
from inventory.catalog.pdus import Pdu
from inventory.catalog.ports import Cage, Interface
from inventory.catalog.racks import U_M
from inventory.catalog.servers import Board, Drives, LaneSwitch, Memory
from inventory.catalog.storage import StorageBlock
from inventory.catalog.systems import System

__all__ = [
    "CONNECTORS",
    "SITE_CATALOG",
    "U_M",
    "Board",
    "Cage",
    "Catalog",
    "CatalogError",
    "DeviceType",
    "Drives",
    "Gpu",
    "Interface",
    "LaneSwitch",
    "MediaPart",
    "Memory",
    "Pdu",
    "Plug",
    "StorageBlock",
    "System",
    "load_catalog",
    "read_yaml",
    "site_catalog",
]
