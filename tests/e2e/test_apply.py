"""Pulumi on a standing lab: nothing to do, drift found and mended, nothing secret kept."""

import json
import re
import subprocess

import pytest

from inventory.secrets import resolve
from network.drivers.credentials import snmp_credentials, switch_credentials
from tests.e2e.conftest import Standing
from validation.facts.gather import address_of

pytestmark = pytest.mark.lab

CONTROL_OID = "1.3.6.1.4.1.318.1.1.26.9.2.4.1.5"
"""rPDU2OutletSwitchedControlCommand of PowerNet-MIB; 2 is immediate off."""


def test_a_preview_after_up_expects_no_changes(standing: Standing):
    standing.pulumi("preview", "--expect-no-changes")


def changed_resources(output: str) -> set[str]:
    """Names of the resources that a preview would change, from its JSON."""
    steps = json.loads(output)["steps"]
    return {step["urn"].rsplit("::", 1)[1] for step in steps if step["op"] not in ("same", "refresh", "read")}


def test_drift_of_an_outlet_and_a_leaf_is_found_exactly_and_mended(standing: Standing):
    outlet = standing.plan.outlets[standing.plan.outlets["device"] == "gpu001"].iloc[0]
    snmpset_off(standing, str(outlet["pdu"]), int(outlet["outlet"]))
    ssh = switch_credentials(standing.site)
    line = "vtysh -c 'configure terminal' -c 'ip route 192.0.2.0/24 blackhole'"
    subprocess.run(
        ["ssh", "-i", str(ssh.key), "-o", f"UserKnownHostsFile={ssh.known_hosts}", "-o", "BatchMode=yes",
         f"{ssh.user}@{address_of(standing.plan, 'leaf03', 'oob')}", line],
        check=True, timeout=20, capture_output=True,
    )  # fmt: skip
    preview = standing.pulumi("preview", "--refresh", "--json")
    assert changed_resources(preview.stdout) == {str(outlet["rack"]), "leaf03"}
    standing.pulumi("up", "--refresh", "--yes", "--skip-preview")
    assert standing.findings() == []
    standing.pulumi("preview", "--refresh", "--expect-no-changes")


def snmpset_off(standing: Standing, pdu: str, outlet: int) -> None:
    """Switch an outlet off the way an operator would, with net-snmp; credentials go through its environment's file."""
    user = snmp_credentials(standing.site)
    folder = standing.var / "snmp"
    folder.mkdir(parents=True, exist_ok=True)
    auth = user.auth_protocol.replace("SHA256", "SHA-256").replace("SHA1", "SHA")
    (folder / "snmp.conf").write_text(
        f"defVersion 3\ndefSecurityLevel authPriv\ndefSecurityName {user.user}\ndefAuthType {auth}\n"
        f"defAuthPassphrase {user.auth}\ndefPrivType AES\ndefPrivPassphrase {user.priv}\n"
    )
    (folder / "snmp.conf").chmod(0o600)
    subprocess.run(
        ["snmpset", "-t", "3", "-r", "1", address_of(standing.plan, pdu, "oob"), f"{CONTROL_OID}.{outlet}", "i", "2"],
        env=standing.env | {"SNMPCONFPATH": str(folder), "MIBS": ""}, check=True, timeout=20, capture_output=True,
    )  # fmt: skip


def test_no_secret_is_in_state_evidence_or_reports(standing: Standing):
    credentials = standing.site.credentials
    references = [credentials.snmp.auth, credentials.snmp.priv, credentials.bmc.password]
    references += [credentials.bmc.factory.password] if credentials.bmc.factory else []
    values = [resolve(reference, base=standing.site.dir).get_secret_value().encode() for reference in references]
    state = standing.pulumi("stack", "export", "--show-secrets").stdout.encode()
    assert not [value for value in values if value in state]
    holders = [
        path for path in standing.var.rglob("*")
        if path.is_file() and path.parent.name != "snmp" and any(value in path.read_bytes() for value in values)
    ]  # fmt: skip
    assert holders == []


def test_a_second_run_of_the_playbooks_changes_nothing(standing: Standing):
    recap = re.findall(
        r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", standing.playbook().stdout, re.M
    )
    servers = standing.plan.devices.loc[standing.plan.devices["kind"] == "server", "name"]
    counts = {host: (changed, unreachable, failed) for host, _, changed, unreachable, failed in recap}
    assert counts == dict.fromkeys(servers, ("0", "0", "0"))
