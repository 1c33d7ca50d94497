"""The first site file: a few lines that say what is wanted; all else comes from a reference design, the catalogue or the planner.

text = site_text(Wanted("hall-1", gpu="h100", fabric="ib", servers=64, power_kw=1200))
"""

from dataclasses import dataclass

from inventory.catalog import Catalog, load_catalog
from inventory.site.effective import complete, offers
from inventory.site.messages import nearest
from inventory.site.references import at, joined, reference
from inventory.site.sections.networks import PREFIXES

IEC_DESIGNS = {"rpp": "iec-400v", "busway": "iec-400v-busway"}
"""Design of 400/230 V by the kind of panels of the design in whose place it distributes power."""
FABRICS = {"ib": "InfiniBand", "roce": "RoCE"}


class NewSiteError(Exception):
    """What was asked for has no reference design, or does not come out even; the message says what there is."""


@dataclass(frozen=True)
class Wanted:
    """What a new site is asked to be. One of servers, gpus and racks; racks of rack-scale systems only.

    ``power_kw``    what the grid gives, kilowatts at power factor 1; 0 lets the planner work it out
    ``power_code``  ``nec`` for the distribution of the design, ``iec`` for 400/230 V in its place
    """

    name: str
    gpu: str
    fabric: str
    servers: int = 0
    gpus: int = 0
    racks: int = 0
    power_kw: float = 0.0
    cooling: str = ""
    power_code: str = "nec"


def gpu_names() -> list[str]:
    """GPUs that a reference design begins with."""
    return sorted({gpu for gpu, _, _ in offers()})


def gpu_named(text: str) -> str:
    """The GPU that somebody wrote; NewSiteError names the nearest, and those that there are."""
    gpu = text.lower()
    if gpu not in gpu_names():
        near = nearest(gpu, gpu_names())
        raise NewSiteError(
            f"no reference design for the GPU {text or '(none given)'}; "
            + (f"nearest: {near}; " if near else "")
            + f"there are designs for {', '.join(gpu_names())}"
        )
    return gpu


def designs_of(gpu: str) -> dict[tuple[str, str], str]:
    """Designs of a GPU: fabric and cooling -> slug."""
    return {(fabric, cooling): slug for (one, fabric, cooling), slug in offers().items() if one == gpu}


def rack_scale(slug: str) -> bool:
    """Whether the servers of a design are trays of a rack-scale system."""
    return at(joined([slug]).value, ("server", "system")) is not None


def design_of(wanted: Wanted) -> str:
    """The slug of the reference design; NewSiteError names those that there are."""
    gpu = gpu_named(wanted.gpu)
    designs = designs_of(gpu)
    fitting = [
        slug
        for (fabric, cooling), slug in designs.items()
        if fabric == wanted.fabric and wanted.cooling in ("", cooling)
    ]
    if not fitting:
        have = ", ".join(f"--fabric {f} --cooling {c} ({slug})" for (f, c), slug in sorted(designs.items()))
        asked = f"--fabric {wanted.fabric}" + (f" --cooling {wanted.cooling}" if wanted.cooling else "")
        raise NewSiteError(
            f"no reference design for {gpu} with {asked}; there is {have}. Another combination: take the nearest design, and "
            "write what differs in the site file"
        )
    return fitting[0]


def site_text(wanted: Wanted, catalog: Catalog | None = None) -> str:
    """The commented site file, at most 15 lines. NewSiteError where no design fits or the counts do not come out even."""
    catalog = catalog or load_catalog()
    design = design_of(wanted)
    values = complete({"based_on": (design,)}, catalog).value
    device = catalog.device(str(at(values, ("server", "model"))))
    trays = int(at(values, ("rack", "servers"))) if at(values, ("server", "system")) else 0
    servers = _servers(wanted, device.bringup.gpus, trays)
    gpus = servers * device.bringup.gpus
    designs = [design]
    if wanted.power_code == "iec":
        designs.append(IEC_DESIGNS[str(at(values, ("electrical", "panels", "kind")))])
    of_racks = f", {servers // trays} racks" if trays else ""
    limit = f"; at most {wanted.power_kw:,.0f} kW from the grid" if wanted.power_kw else ""
    given = at(values, ("addressing",))
    prefixes = ", ".join(f"{key}: {given[key]}" for key in PREFIXES if key in given)
    lines = [
        f"# {gpus:,} GPUs in {servers:,} {device.model}{of_racks}, {FABRICS[wanted.fabric]}{limit}.",
        "# What is not here comes from the reference design or the catalogue, or is worked out. `bringup explain SITE KEY` says",
        "# which; a key written here goes before them (docs/site-file.md).",
        "schema_version: 1",
        f"name: {wanted.name}",
        f"based_on: [{', '.join(designs)}]    # {'; '.join(reference(one).title for one in designs)}",
        f"server: {{count: {servers}}}",
    ]
    if wanted.power_kw:
        lines.append(f"electrical: {{utility: {{firm_mva: {wanted.power_kw / 1000:g}}}}}")
    lines += ["# Prefixes that nothing else at the site may use.", f"addressing: {{{prefixes}}}"]
    return "\n".join(lines) + "\n"


def _servers(wanted: Wanted, gpus_each: int, trays: int) -> int:
    if wanted.racks and not trays:
        raise NewSiteError("--racks counts rack-scale systems, and these servers stand alone: use --servers or --gpus")
    if wanted.gpus and wanted.gpus % gpus_each:
        more = -(-wanted.gpus // gpus_each) * gpus_each
        raise NewSiteError(f"--gpus {wanted.gpus} does not fill servers of {gpus_each} GPUs: use {more}")
    servers = wanted.servers or wanted.gpus // gpus_each or wanted.racks * trays
    if servers < 1:
        raise NewSiteError("how large? Use --servers, --gpus" + (" or --racks" if trays else ""))
    if trays and servers % trays:
        more = -(-servers // trays)
        raise NewSiteError(f"{servers} trays do not fill racks of {trays}: use --racks {more}, {more * trays} trays")
    return servers
