"""Secure boot and TPMs of a server, from what its BMC tells (DSP0268: SecureBoot, and ComputerSystem with TrustedModules)."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from network.drivers.answers import Flag, Line
from network.drivers.redfish_power import told

SETUP_MODE = "SetupMode"
"""SecureBootMode without a platform key: the firmware verifies nothing (UEFI specification, section 32.3)."""
TPM_2 = "TPM2_0"
"""InterfaceType of a TPM 2.0."""


class SecureBoot(TypedDict):
    """enabled: SecureBootEnable, what the next boot does. in_force: whether this boot verified what it started
    (SecureBootCurrentBoot). mode: SecureBootMode. None and '' for what the BMC does not tell.
    """

    enabled: Flag | None
    in_force: Flag | None
    mode: Line


class Tpm(TypedDict):
    """One trusted module: InterfaceType (TPM2_0, TPM1_2, …), Status.State and firmware version; '' for what is not told."""

    kind: Line
    state: Line
    firmware: Line


def secure_boot(body: Mapping[str, Any]) -> dict[str, Any]:
    """A SecureBoot resource as `SecureBoot`, not typed yet."""
    current = body.get("SecureBootCurrentBoot")
    return {
        "enabled": body.get("SecureBootEnable"),
        "in_force": None if current is None else current == "Enabled",
        "mode": told(body.get("SecureBootMode")),
    }


def tpms(system: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trusted modules of a ComputerSystem; places without one (Status.State Absent) are left out."""
    found = [
        {
            "kind": told(module.get("InterfaceType")),
            "state": told((module.get("Status") or {}).get("State")),
            "firmware": told(module.get("FirmwareVersion")),
        }
        for module in system.get("TrustedModules") or []
    ]
    return [tpm for tpm in found if tpm["state"] != "Absent"]
