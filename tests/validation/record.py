"""`python -m tests.validation.record`: record data/healthy.json anew from the lab of site `lab`, which must be up,
configured and healthy (`make demo`). Review the change as a diff.

What would tell of the machine that runs the lab, or grows without being judged, is cut or replaced.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from capacity.build import build
from inventory.delivered.assets import load_assets
from inventory.gpu_stack import load_stack
from inventory.paths import repo_root
from inventory.site import load_site
from validation.diagnose import diagnose
from validation.facts import Facts, gather
from validation.facts.answer import KINDS, SCHEMA_VERSION

HEALTHY = Path(__file__).parent / "data" / "healthy.json"
KERNEL, COMMAND_LINE, MEMORY_KIB = "6.1.0-28-amd64", "root=/dev/nvme0n1p2 ro quiet", 4023644


def trimmed(facts: Facts) -> dict[str, Any]:
    """The facts as plain data, without what belongs to this machine or this minute."""
    data: dict[str, Any] = json.loads(json.dumps(asdict(facts), default=str))
    listed = yaml.safe_load((repo_root() / "playbooks" / "packages.yaml").read_text())
    pinned = {package for names in listed["pinned_by"].values() for package in names} | {"systemd"}
    site = load_site("lab")
    pinned |= set(load_stack().packages(site.os.key, site.versions))
    for node in data["nodes"].values():
        found = node["data"]
        found["packages"] = {name: version for name, version in found["packages"].items() if name in pinned}
        found |= {"kernel": KERNEL, "command_line": COMMAND_LINE}
        found["hardware"]["memory_kib"] = MEMORY_KIB
        found["identity"]["boot_id"] = ""
        found.pop("routes", None)
        if "booted_at" in found["storage"]:  # relative to its installation: that is what is judged
            installed = found["storage"]["installed_at"]
            found["storage"] |= {key: round(found["storage"][key] - installed) for key in ("booted_at", "mounted_at")}
            found["storage"]["installed_at"] = 0
    for server in data["telemetry"].values():
        found = server["data"]
        found["alerts"] = [alert for alert in found["alerts"] if alert["labels"]["alertname"] != "ServerRebooted"]
        found["targets"].sort(
            key=lambda target: (target["job"], target["instance"])
        )  # Prometheus has no order of its own
        for target in found["targets"]:
            target |= {"age_s": 0.0, "seconds": 0.0}
    for kind in KINDS:
        for answer in data[kind].values():
            answer["seconds"] = round(answer["seconds"], 1)
    return {"schema_version": SCHEMA_VERSION, **data}


def main() -> int:
    """Exit status 1, and the recording as it was, when the lab is not healthy."""
    site = load_site("lab")
    plan = build(site)
    facts = gather(plan)
    findings = diagnose(plan, load_assets(site), facts)
    for finding in findings:
        print(f"{finding.id} {finding.subject}: {finding.message}", file=sys.stderr)
    if findings:
        return 1
    HEALTHY.write_text(json.dumps(trimmed(facts), indent=1) + "\n")
    print(HEALTHY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
