"""Time of reading and judging the discovered fabric of `h100-1000-ib`: 640 switches, 8,002 adapters, 24,386 cables.

    python -m bench.infiniband

Prints one line per stage; the output of ibnetdiscover is made up from the plan, with every cable where it belongs.
"""

import sys
import time

from bench.fabric import discovered_text, made_up_guids
from capacity.build import build
from inventory.site import load_site
from network.infiniband import compare, parse, subnet

SITE = "h100-1000-ib"


def main() -> int:
    """Exit status 1 when the fabric is not found to be as planned."""
    plan = build(load_site(SITE))
    guids = made_up_guids(plan)
    text = discovered_text(plan, guids)
    times = {}
    start = time.perf_counter()
    found = parse.discovery(text)
    times["parse"] = time.perf_counter() - start
    start = time.perf_counter()
    findings = compare.topology(plan, found, guids)
    times["compare with the plan"] = time.perf_counter() - start
    start = time.perf_counter()
    subnet.render(plan, guids, subnet.managers(plan)[0])
    times["render a subnet manager"] = time.perf_counter() - start
    for stage, seconds in times.items():
        print(f"{SITE} {stage:<28}{seconds:8.2f} s")
    print(f"{len(found.nodes):,} nodes, {len(found.links) // 2:,} links, {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
