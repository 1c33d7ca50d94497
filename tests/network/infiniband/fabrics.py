"""InfiniBand fabrics for tests: the lab's plan, and what ibnetdiscover would say of a plan's fabric."""

from collections.abc import Mapping
from pathlib import Path

from capacity.model import Plan
from network.infiniband.wire import on_the_wire

DATA = Path(__file__).parents[1] / "data" / "infiniband"


def recorded(name: str) -> str:
    """Output of infiniband-diags 44.0 on the fabric of site lab."""
    return (DATA / name).read_text()


def as_tools_write(
    plan: Plan,
    guids: Mapping[str, str],
    rate: str,
    names: str = "rdma_devices",
    domain: str = "",
    planes: int = 1,
    managed: str = "",
    sharp: int = 0,
) -> str:
    """The whole fabric of a plan as ibnetdiscover writes it of real devices (tests/data/modelled/infiniband).

    names: the catalogue's names of adapters that rdma-ndd writes ('rdma_devices', 'rdma_names'). managed: the model in the
    description of managed switches. planes: ASICs of a switch, and ports of an adapter. sharp: port of a switch's aggregation node.
    """
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    model = dict(zip(plan.devices["name"], plan.devices["model"], strict=True))
    wire = on_the_wire(plan)
    nodes: dict[str, list[tuple[int, str, int]]] = {}
    number = {switch: {port: at for at, port in ports.items()} for switch, ports in wire.ports.items()}

    def end(device: str, port: str, plane: int) -> tuple[str, int]:
        """(name of the node, number of its port); an adapter is one node for all planes."""
        return (f"{device}/U{plane}", number[device][port]) if device in number else (f"{device}:{port}", plane)

    for a, a_port, b, b_port in cables[["a_device", "a_port", "b_device", "b_port"]].itertuples(index=False, name=None):
        for plane in range(1, planes + 1):
            one, other = end(a, a_port, plane), end(b, b_port, plane)
            nodes.setdefault(one[0], []).append((one[1], *other))
            nodes.setdefault(other[0], []).append((other[1], *one))
    if sharp:
        for name in [name for name in nodes if "/U" in name]:
            nodes[name].append((sharp, f"{name}/AN", 1))
            nodes[f"{name}/AN"] = [(1, name, sharp)]

    def guid(name: str, port: int = 1) -> int:
        base, _, rest = name.partition("/U")
        return int(guids[base], 16) + (int(rest[0]) - 1 if rest else port - 1) + (8 if name.endswith("/AN") else 0)

    def key(name: str) -> str:
        return f"S-{guid(name):016x}" if "/U" in name and not name.endswith("/AN") else f"H-{guid(name) - 1:016x}"

    def label(name: str) -> str:
        if name.endswith("/AN"):
            return "Mellanox Technologies Aggregation Node"
        if "/U" in name:
            switch, _, asic = name.partition("/")
            return f"MF0;{switch}{domain}:{managed}/{asic}" if managed else f"{switch}{domain}"
        host, _, port = name.partition(":")
        facts = plan.catalog.device(model[host]).bringup
        given = dict(zip(facts.fabric_ports, getattr(facts, names), strict=bool(getattr(facts, names))))
        return f"{host}{domain} {given.get(port, 'mlx5_2')}"

    lid = {name: at for at, name in enumerate(nodes, 1)}
    blocks = []
    for name, ports in nodes.items():
        switch = key(name).startswith("S-")
        system = guid(name.partition("/")[0]) if switch else guid(name)
        head = f"vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{system:x}\n"
        if switch:
            head += f"switchguid=0x{guid(name):x}({guid(name):x})\n"
            head += f'Switch\t64 "{key(name)}"\t\t# "{label(name)}" enhanced port 0 lid {lid[name]} lmc 0'
        else:
            head += f'caguid=0x{guid(name) - 1:x}\nCa\t{planes} "{key(name)}"\t\t# "{label(name)}"'
        lines = [head]
        for port, far, far_port in sorted(ports):
            to = f'"{key(far)}"[{far_port}]'
            if switch:
                at_far = "" if key(far).startswith("S-") else f"({guid(far, far_port):x})"
                lines.append(f'[{port}]\t{to}{at_far} \t\t# "{label(far)}" lid {lid[far]} {rate}')
            else:
                own = f"# lid {lid[name]} lmc 0"
                lines.append(f'[{port}]({guid(name, port):x}) \t{to}\t\t{own} "{label(far)}" lid {lid[far]} {rate}')
        blocks.append("\n".join(lines) + "\n")
    return "#\n# Topology file: generated on Thu Nov 26 12:00:00 2026\n#\n" + "\n".join(blocks)
