"""The InfiniBand fabric of a plan in ibnetdiscover's words, with GUIDs made up: for measurements, and for tests of readers.

guids = made_up_guids(plan)            {"ibl001": "0002…", "gpu001:ib1": …}
discovered_text(plan, guids)           each cable where it belongs
"""

from collections.abc import Mapping

from capacity.model import Plan
from network.infiniband import subnet


def made_up_guids(plan: Plan) -> dict[str, str]:
    """A GUID for every compute switch and adapter port of a plan, spaced as ibsim and real adapters do."""
    switches = plan.devices.loc[plan.devices["fabric"] == "compute", "name"]
    ports = [*subnet.compute_ports(plan), *(subnet.manager_port(plan, host) for host in subnet.managers(plan))]
    return {name: f"{0x02420A00 << 32 | number * 16 + 1:016x}" for number, name in enumerate([*switches, *ports], 1)}


def discovered_text(plan: Plan, guids: Mapping[str, str], rate: str = "4xNDR") -> str:
    """The whole fabric of a plan in ibnetdiscover's words."""
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    blocks: dict[str, list[tuple[int, str, int]]] = {}
    for a, a_port, b, b_port in cables[["a_device", "a_port", "b_device", "b_port"]].itertuples(index=False, name=None):
        one = (a, int(a_port[1:])) if a in guids else (f"{a}:{a_port}", 1)
        other = (b, int(b_port[1:]))
        blocks.setdefault(one[0], []).append((one[1], *other))
        blocks.setdefault(other[0], []).append((other[1], *one))
    lid = {name: number for number, name in enumerate(blocks, 1)}
    return "\n".join(_block(name, ports, guids, lid, rate) for name, ports in blocks.items())


def _block(
    name: str, ports: list[tuple[int, str, int]], guids: Mapping[str, str], lid: Mapping[str, int], rate: str
) -> str:
    switch = ":" not in name
    head = (
        f'Switch\t64 "{_key(name, guids)}"\t\t# "{name}" base port 0 lid {lid[name]} lmc 0'
        if switch
        else (f'Ca\t1 "{_key(name, guids)}"\t\t# "{_label(name)}"')
    )
    lines = [f"vendid=0x2c9\ndevid=0x1003\n{head}"]
    for port, far, far_port in sorted(ports):
        to = f'"{_key(far, guids)}"[{far_port}]'
        if switch:
            guid = f"({guids[far].lstrip('0')})" if ":" in far else ""
            lines.append(f'[{port}]\t{to}{guid} \t\t# "{_label(far)}" lid {lid[far]} {rate}')
        else:
            own = f"# lid {lid[name]} lmc 0"
            lines.append(f'[{port}]({guids[name].lstrip("0")}) \t{to}\t\t{own} "{far}" lid {lid[far]} {rate}')
    return "\n".join(lines) + "\n"


def _key(name: str, guids: Mapping[str, str]) -> str:
    guid = int(guids[name], 16)
    return f"H-{guid - 1:016x}" if ":" in name else f"S-{guid:016x}"


def _label(name: str) -> str:
    device, _, port = name.partition(":")
    return f"{device} mlx5_{port.removeprefix('ib')}" if port else device
