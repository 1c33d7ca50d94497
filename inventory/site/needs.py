"""What a site file need not have to be planned, and what asks for it: the section that is missing, with a block to paste.

`bringup plan` needs no secret; what talks to a device or signs evidence does.
"""

from inventory.site.messages import MISSING
from inventory.site.yaml_source import Problem

CREDENTIALS = """\
credentials:
  snmp: {{user: bringup, auth: "vault:kv/bringup/{name}/snmp#auth", priv: "vault:kv/bringup/{name}/snmp#priv"}}
  bmc:
    user: bringup
    password: "vault:kv/bringup/{name}/bmc/{{device}}#password"
    ca: keys/bmc-ca.pem
    factory: {{user: admin, password: "table:~/.config/bringup/{name}-bmc-labels.csv#factory"}}
  ssh: {{user: bringup, key: "file:keys/node", known_hosts: keys/known_hosts}}
  switch: {{user: bringup, key: "file:keys/switch", known_hosts: keys/known_hosts}}
  evidence: {{key: "file:keys/evidence"}}
  slurmdbd: {{password: "vault:kv/bringup/{name}/slurmdbd#password"}}
"""
"""The section as most sites have it: secrets in a vault, keys beside the site file and out of version control. Each BMC has a
password of its own, before its take-over that of its label; S017 fails without either."""


def credentials_missing(name: str) -> Problem:
    """Section credentials, which pulumi, ansible-playbook, compare, pytest validation and the gate ask for."""
    return Problem(
        ("credentials",),
        MISSING,
        "no section credentials: enough for bringup plan, optimise, explain and render",
        "references to the secrets of PDUs, BMCs, nodes and switches, which every command that talks to a device asks for",
        "paste the lines below, and correct the paths",
        paste=CREDENTIALS.format(name=name),
    )
