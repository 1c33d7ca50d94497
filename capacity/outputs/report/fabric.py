"""Pictures of the fabrics: switches by tier, grouped by scalable unit, cables as lines.

In: the plan's `devices` and `cables` frames. Out: SVG text. Cables between the same pair of switches are one line.
"""

import pandas as pd

from capacity.outputs.report import svg

WIDTH = 1180
MARGIN = 108
"""Room for the tiers' labels on the left, up to '10,000 servers'."""
CHARACTER_PX = 7.2
"""Width of one character on a box, with air."""
TIER_HEIGHT = 130
BOX_HEIGHT = 18
SERVICE = "service nodes"
"""The group of servers that belong to no scalable unit."""
TIERS = ("core", "spine", "leaf")


def _columns(count: int, left: float, right: float) -> list[float]:
    """Centres of `count` boxes spread evenly between two x coordinates."""
    step = (right - left) / max(count, 1)
    return [left + step * (i + 0.5) for i in range(count)]


def picture(devices: pd.DataFrame, cables: pd.DataFrame, fabric: str, label: str) -> str:
    """The tiers of one fabric ('compute' or 'inband') with every switch, unit and cable; '' where it has no switch."""
    switches = devices[(devices["kind"] == "switch") & (devices["fabric"] == fabric)]
    if switches.empty:
        return ""
    tiers = [tier for tier in TIERS if (switches["role"] == tier).any()]
    position: dict[str, tuple[float, float]] = {}
    body: list[str] = []
    for level, tier in enumerate(tiers):
        names = switches[switches["role"] == tier]["name"].tolist()
        y = 24.0 + level * TIER_HEIGHT
        xs = _columns(len(names), MARGIN, WIDTH - 10)
        position |= {name: (x, y) for name, x in zip(names, xs, strict=True)}
        body.append(svg.text(6, y + 4, f"{len(names):,} {tier}", cls="tier"))
    nodes_y = 24.0 + len(tiers) * TIER_HEIGHT
    links = cables[cables["fabric"] == fabric]
    trunks = links[links["a_device"].isin(position) & links["b_device"].isin(position)]
    edges = trunks[["a_device", "b_device"]].drop_duplicates().itertuples(index=False, name=None)
    lines = [(*position[a], *position[b]) for a, b in edges]
    hosts = links[~links["a_device"].isin(position) | ~links["b_device"].isin(position)]
    node_lines, node_body = _nodes(devices, hosts, position, nodes_y)
    opacity = min(0.7, max(0.05, 60 / (len(lines) + 1)))
    body.insert(0, svg.element("path", d=svg.segments(lines), cls="cable", style=f"opacity:{opacity:.2f}"))
    node_opacity = min(0.7, max(0.08, 60 / (len(node_lines) + 1)))
    body.insert(0, svg.element("path", d=svg.segments(node_lines), cls="cable", style=f"opacity:{node_opacity:.2f}"))
    body += _boxes(switches, position)
    body += node_body
    return svg.picture(WIDTH, nodes_y + 40, label, body, "fabric")


def _boxes(switches: pd.DataFrame, position: dict[str, tuple[float, float]]) -> list[str]:
    """One box a switch; its name is written where there is room, and is always in the tooltip."""
    per_tier = switches["role"].value_counts()
    out = []
    for name, role, unit, rail in switches[["name", "role", "unit", "rail"]].itertuples(index=False, name=None):
        x, y = position[name]
        step = (WIDTH - 10 - MARGIN) / per_tier[role]
        width = min(max(step - 1.5, 1.5), 92)
        words = f"{name}" + (f", unit {unit}" if unit >= 0 else "") + (f", rail {rail}" if rail >= 0 else "")
        box = svg.element(
            "rect",
            svg.title(words),
            x=x - width / 2,
            y=y - BOX_HEIGHT / 2,
            width=width,
            height=BOX_HEIGHT,
            rx=2,
            cls=f"role-{role}",
        )
        out.append(box)
        if width >= CHARACTER_PX * len(name):
            out.append(svg.text(x, y + 4, name, cls="on-box"))
    return out


def _nodes(
    devices: pd.DataFrame, hosts: pd.DataFrame, position: dict[str, tuple[float, float]], y: float
) -> tuple[list[tuple[float, float, float, float]], list[str]]:
    """Lines and boxes of the servers: each server where there is room, else one box for each scalable unit."""
    servers = devices[devices["kind"] == "server"]
    servers = servers[servers["name"].isin(pd.concat([hosts["a_device"], hosts["b_device"]]).unique())]
    if servers.empty:
        return [], []
    if len(servers) <= 16:
        group = servers.set_index("name", drop=False)["name"]
    else:
        group = servers.set_index("name")["unit"].map(lambda unit: f"unit {unit}" if unit >= 0 else SERVICE)
    names = list(dict.fromkeys(group))
    xs = dict(zip(names, _columns(len(names), MARGIN, WIDTH - 10), strict=True))
    forward = hosts["a_device"].isin(group.index)
    host = hosts["a_device"].where(forward, hosts["b_device"]).map(group)
    switch = hosts["b_device"].where(forward, hosts["a_device"])
    pairs = pd.DataFrame({"group": host, "switch": switch}).dropna().drop_duplicates()
    lines = [(xs[g], y, *position[s]) for g, s in pairs.itertuples(index=False, name=None) if s in position]
    width = min((WIDTH - 10 - MARGIN) / len(names) - 3, 110)
    body = [svg.text(6, y + 4, f"{len(servers):,} servers", cls="tier")]
    sizes = group.value_counts()
    role = dict(zip(group, servers["role"], strict=True))
    for name in names:
        words = name if sizes[name] == 1 else f"{name}: {sizes[name]} servers"
        body.append(
            svg.element(
                "rect",
                svg.title(words),
                x=xs[name] - width / 2,
                y=y - BOX_HEIGHT / 2,
                width=width,
                height=BOX_HEIGHT,
                rx=2,
                cls="role-gpu" if role[name] == "gpu" else "role-controller",
            )
        )
        shown = next((text for text in (name, name.removeprefix("unit ")) if len(text) * CHARACTER_PX <= width), "")
        if shown:
            body.append(svg.text(xs[name], y + 4, shown, cls="on-box"))
    return lines, body
