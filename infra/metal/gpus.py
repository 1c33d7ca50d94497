"""The GPUs of the virtual machines: NVML as the lab simulates it (infra/lab/nvml), at the addresses of the cards that QEMU has.

    simulated = Simulated(plan, folder)              compiles the library
    simulated.files("gpu001")                        {path: content}: what gives a node its GPUs, also after its next start
    simulated.files("gpu001", {2: {"serial": "X"}})  the same with other values of the GPU that is third by address
    UNPACK                                           the shell command that takes packed(files) on standard input

Nothing computes: slurmd finds device files, and NVML answers from files. Names and evidence say SIMULATED.
"""

import base64
import functools
import importlib.util
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from capacity.model import Plan
from infra.lab import gpus, nvidia
from infra.lab.gpus import Value
from infra.lab.paths import LabError
from infra.lab.planned import gpu_model, gpus_of
from validation.facts.gather import GPU_PYTHON

LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
MODULES = "/opt/bringup/simulated"
STATES = "/var/lib/simulated-gpus"
DEVICES = "/etc/tmpfiles.d/simulated-gpus.conf"
PYTHON = f'#!/bin/sh\n# Written by make demo-metal: a Python with nvidia-ml-py.\nPYTHONPATH={MODULES} exec /usr/bin/python3 "$@"\n'
UNPACK = f"base64 -d | tar -C / -xzf - && ldconfig && systemd-tmpfiles --create {DEVICES} && ls {gpus.IN_NODE}"
GENERATION = 1
"""QEMU 7.2 gives each endpoint a link of 2.5 GT/s (hw/pci/pcie.c, pcie_cap_v1_fill)."""


class Simulated:
    """The GPUs of a plan's nodes. `folder` keeps the compiled library."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder

    @functools.cached_property
    def library(self) -> bytes:
        """The library for the site's driver. LabError where it cannot be compiled."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return nvidia.compile_all(self.folder, self.plan.site.versions["driver"]).library.read_bytes()

    def states(self, node: str, changed: Mapping[int, Mapping[str, Value]] | None = None) -> list[Mapping[str, Value]]:
        """What each GPU of a node says, by address; `changed`: other values by number."""
        site, catalog = self.plan.site, self.plan.catalog
        model = str(self.plan.devices.set_index("name").at[node, "model"])
        lanes = catalog.device(model).bringup.emulated_lanes
        link = {"pcie.gen": GENERATION, "pcie.max_gen": GENERATION, "pcie.width": lanes, "pcie.max_width": lanes}
        found = gpus_of(node, self.plan.gpus, dict(site.versions))
        return [
            {**gpus.factory(gpu, gpu_model(catalog, site.gpu.sku)), **link, **(changed or {}).get(gpu.index, {})}
            for gpu in found
        ]

    def files(self, node: str, changed: Mapping[int, Mapping[str, Value]] | None = None) -> dict[str, bytes]:
        """Content by path on the node."""
        states = self.states(node, changed)
        if not states:
            raise LabError(f"gpus.csv of site {self.plan.site.name} lists no GPU of {node}")
        devices = [
            f"c /dev/nvidia{number} 0666 root root - {gpus.DEVICE_MAJOR}:{number}" for number in range(len(states))
        ]
        folder = str(Path(gpus.IN_NODE).parent)
        rows = [
            "# Written by make demo-metal: device files that nothing stands behind, and the state of simulated GPUs.",
            *devices,
            f"d {folder} 0755 root root -",
            f"L+ {gpus.IN_NODE} - - - - {STATES}",
        ]
        texts = {
            DEVICES: "\n".join([*rows, ""]),
            GPU_PYTHON: PYTHON,
            **{
                f"{STATES}/gpu{number}": "".join(f"{key}={value}\n" for key, value in state.items())
                for number, state in enumerate(states)
            },
        }
        return {
            **{path: text.encode() for path, text in texts.items()},
            LIBRARY: self.library,
            f"{MODULES}/pynvml.py": _bindings(),
        }


def _bindings() -> bytes:
    """The module of nvidia-ml-py, a single file. LabError where it is not installed here."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise LabError("the GPUs of the machines need the Python package nvidia-ml-py: run `make setup`")
    return Path(found.origin).read_bytes()


def packed(files: Mapping[str, bytes]) -> str:
    """The files as one text, for UNPACK. Programs are those in a folder `bin`."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(content), 0o755 if Path(path).parent.name == "bin" else 0o644
            archive.addfile(member, io.BytesIO(content))
    return base64.b64encode(made.getvalue()).decode()
