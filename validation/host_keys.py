"""Which host keys a site pins for which of its devices."""

from collections import Counter

from capacity.model import Plan
from inventory.secrets import site_path
from validation.evidence.mode import PINNED
from validation.evidence.sshsig import read_pinned


def pins_node_keys(plan: Plan) -> bool:
    """Whether the site says that the host keys of its nodes were compared with a written record."""
    return plan.site.credentials.ssh.host_keys == PINNED


def pinned_host_keys(plan: Plan) -> dict[str, frozenset[str]]:
    """Per device, the host keys that the site file's known_hosts pin; none where it says that they came by first use.

    A key of two devices, as images with their host keys leave it, is left out: either could answer for the other.
    """
    found: dict[str, frozenset[str]] = {}
    credentials = plan.site.credentials_given
    if credentials is None:
        return found
    rows = plan.addresses[["device", "network", "address"]]
    kinds = plan.devices.set_index("name")["kind"]
    for kind, network, ssh in (("server", "provisioning", credentials.ssh), ("switch", "oob", credentials.switch)):
        if ssh.host_keys != PINNED:
            continue
        pinned = read_pinned(site_path(ssh.known_hosts, plan.site.dir))
        for device, where, address in rows.itertuples(index=False, name=None):
            if where == network and kinds.get(device) == kind and (keys := pinned.get(address.split("/")[0])):
                found[device] = keys
    devices = Counter(key for keys in found.values() for key in keys)
    return {device: frozenset(key for key in keys if devices[key] == 1) for device, keys in found.items()}
