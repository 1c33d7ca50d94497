"""What the reference cases on imported files compute; test_reference_cases.py runs them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from inventory.catalog import Memory, load_catalog
from inventory.imports.commercial import quotes
from inventory.imports.core import tables
from inventory.imports.delivery import assembly


def flagged_in_a_quote(description: str, quantity: int, servers: int, storage: str = "weka") -> list[str]:
    """Known errors that one quote line commits on a site of H100 SXM5 servers with two processors of 12 channels."""
    path = Path("quote.csv")
    frame = pd.DataFrame({"part": ["X-1"], "description": [description], "quantity": [str(quantity)]})
    given = tables.fields(tables.read(tables.csv_text(frame).encode(), path, "quote"), "quote")
    bom = pd.DataFrame(columns=["item", "model", "quantity", "supplied_with", "order"])
    result = quotes.compare(
        quotes.read_quote(given),
        bom,
        load_catalog(),
        {},
        gpu="nvidia-h100-sxm5-80gb",
        servers=servers,
        sockets=2,
        memory=Memory(dimm_gib=96, dimms=24, channels=12, per_channel=2),
        storage=storage,
    )
    return sorted({f.err for f in result.findings if f.err})


def connectors_flagged(sku: str, counts: list[int]) -> list[bool]:
    """Per number of power connectors in an assembly record: whether it is flagged for this GPU (ERR-07)."""
    steps = {"S027": assembly.Step(("connector_count",), ("gpu001",))}
    delivered = assembly.Delivered({}, {}, load_catalog().gpu(sku).aux_connectors)
    flags = []
    for count in counts:
        data = f"step,device,connector_count,date,outcome\nS027,gpu001,{count},2026-11-02,passed\n".encode()
        given = tables.fields(tables.read(data, Path("build.csv"), "assembly"), "assembly")
        today = pd.Timestamp("2026-11-20").date()
        flags.append(any(f.err == "ERR-07" for f in assembly.read_assembly(given, steps, delivered, today).findings))
    return flags


COMPUTE: dict[str, Callable[..., Any]] = {
    "flagged_in_a_quote": flagged_in_a_quote,
    "connectors_flagged": connectors_flagged,
}
