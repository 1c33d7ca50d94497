"""`make setup-controllers`: Kueue, JobSet, kwok, CoreDNS, NVIDIA's device plugin and toolkit, and images for the lab's nodes.

    python -m infra.setup.controllers

The programs first (infra/toolchain/controllers.py), then images of all but kwok and the toolkit for a cluster without a
registry, under the names that `scheduler.registry: docker.io/lab` gives them. Nodes import new images when the role kubelet runs
the next time.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from infra.kube import dns
from infra.kube.manifests import DEVICE_PLUGIN, DRIVER_ROOT, JOBSET, KUEUE, Source, image, image_name
from infra.lab import base, gpus, kubernetes
from infra.lab.paths import LabError
from infra.toolchain import controllers

REGISTRY = "docker.io/lab"
USER = "65532:65532"
"""As in the images that the projects publish, from gcr.io/distroless/static:nonroot."""
NVML_IN_POD = (f"BRINGUP_NVML_HARDWARE={DRIVER_ROOT}{gpus.IN_NODE}", "BRINGUP_NVML_DRIVER_STATE=/tmp")
"""Where the lab's libnvidia-ml.so.1 (infra/lab/nvml/nvml.c) finds the node's simulated GPUs from inside of the plugin's pod."""
PLUGIN = "bin/nvidia-device-plugin"


def archives(built: Path, plugin: Path, coredns: Path) -> dict[str, bytes]:
    """{file name: image archive} of the four. plugin, coredns: programs of the device plugin and of CoreDNS."""
    made = {}
    for source in (KUEUE, JOBSET):
        files = {"manager": built / "bin" / source.name}
        made[_file(source)] = kubernetes.archive(image(source, REGISTRY), files, {}, ["/manager"], user=USER)
    files = {PLUGIN: plugin, **{path.lstrip("/"): Path(path) for path in libraries(plugin)}}
    name = image(DEVICE_PLUGIN, REGISTRY)
    made[_file(DEVICE_PLUGIN)] = kubernetes.archive(name, files, {}, [f"/{PLUGIN}"], env=NVML_IN_POD)
    made["coredns.tar"] = kubernetes.archive(image_name(dns.IMAGE, REGISTRY), {"coredns": coredns}, {}, ["/coredns"])
    return made


def libraries(program: Path) -> list[str]:
    """Paths of the shared libraries that a program is linked with, its loader among them."""
    return sorted(set(re.findall(r"(/\S+) \(0x", base.run(["ldd", str(program)]))))


def add_images(say: Callable[[str], None]) -> None:
    """Write the images beside those of `make setup-platform`, where they differ."""
    built, plugin, coredns = controllers.controllers(), controllers.device_plugin(), controllers.coredns()
    if built is None or plugin is None or coredns is None:
        raise LabError("the controllers are not built: run make setup-controllers")
    kubernetes.ensure(say)
    folder, _, _ = kubernetes.places()
    for name, content in archives(built, plugin, coredns).items():
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            say(f"image {name}")
            scratch = path.with_suffix(".new")
            scratch.write_bytes(content)
            scratch.rename(path)


def main() -> int:
    """Build what is missing; exit status 1 when something could not be had."""
    if (status := controllers.main([])) != 0:
        return status
    try:
        add_images(lambda text: print(f"  {text}", flush=True))
    except LabError as error:
        print(f"Images of the controllers: {error}", file=sys.stderr)
        return 1
    return 0


def _file(source: Source) -> str:
    return f"{source.name}.tar"


if __name__ == "__main__":
    sys.exit(main())
