"""How servers get their operating system: boot server, way of installing, disk encryption."""

import base64
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from pydantic import BeforeValidator, Field, WithJsonSchema

from inventory.catalog import Catalog
from inventory.site.rules import rule
from inventory.site.sections.software import Os
from inventory.site.values import Address, Section
from inventory.site.yaml_source import Problem

INSTALLER_OF = {"autoinstall": "ubuntu", "preseed": "debian"}
"""The distribution that each installer belongs to."""
ENCRYPTED_SYSTEMS = ("debian-12",)
"""Operating systems of which images for encrypted disks are built (infra/boot/images.yaml, key encrypted)."""
FOLDER_URL = r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*$"
"""Without a login: BMCs would keep it."""
PROXY_URL = r"^http://[A-Za-z0-9.:\[\]-]+$"
"""Without a login: the installer's answers are served to whoever has the server's MAC."""


RECOVERY_BITS = range(3072, 8193)
"""Sizes of the RSA key: NIST SP 800-57 part 1 has 3,072 bits for 128 bits of security; a token of LUKS2 holds what 8,192 seal."""


def _recovery_key(value: Any) -> Any:
    try:
        key = load_pem_public_key(value.encode()) if isinstance(value, str) else None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, RSAPublicKey) and key.key_size in RECOVERY_BITS:
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    raise ValueError(
        "an RSA public key of 3072 to 8192 bits in PEM: openssl genrsa -aes256 -out recovery.key 4096; "
        "openssl rsa -in recovery.key -pubout"
    )


RecoveryKey = Annotated[
    str,
    BeforeValidator(_recovery_key),
    WithJsonSchema({"type": "string", "pattern": "^-----BEGIN PUBLIC KEY-----"}),
]


class Provisioning(Section):
    """How servers get their operating system. `bringup boot render` writes it out."""

    method: Literal["image", "autoinstall", "preseed"] = Field(
        default="image",
        description="image: a root image is written and read back before the first boot. autoinstall (Ubuntu) and preseed "
        "(Debian): the distribution's installer runs on each server.",
    )
    installed_by: Literal["hand", "pulumi"] = Field(
        default="hand",
        description="pulumi: `pulumi up` brings each server with known boot port and drives to ready over the network, a few racks "
        "at a time; method image only. hand: you start servers from the network, Pulumi switches power only.",
    )
    server: Address | None = Field(
        default=None,
        description="Address of the boot server in addressing.provisioning (DHCP, TFTP, HTTP). Default: the first management "
        "node, else .1 of the prefix.",
    )
    media: Annotated[str, Field(pattern=FOLDER_URL, max_length=200)] | None = Field(
        default=None,
        description="Folder that BMCs mount the CDs of `bringup image build ROLE --iso` from, for sites without network boot: "
        "http://HOST:PORT/PATH, to which ROLE.iso is added. HOST gives byte ranges, as nginx does. With installed_by pulumi only. "
        "Default: the network.",
    )
    proxy: Annotated[str, Field(pattern=PROXY_URL, max_length=200)] | None = Field(
        default=None,
        description="HTTP proxy that the installers fetch packages through, http://HOST:PORT, such as apt-cacher-ng; with method "
        "preseed or autoinstall only. Default: servers reach the distribution's servers, and a DNS server, themselves.",
    )
    link_gbps: Annotated[float, Field(gt=0, le=800)] = Field(
        default=1.0,
        description="Rate of the boot server's link to the nodes, gigabits per second; waves of imaging are sized by it.",
    )
    console: Annotated[str, Field(pattern=r"^ttyS[0-9]$")] = Field(
        default="ttyS0",
        description="Serial line that the BMCs show as serial over LAN: ttyS0 is COM1, ttyS1 is COM2. Kernels, installers and the "
        "initramfs write to it, at 115,200 baud. It is in the images: build them anew after a change.",
    )
    secure_boot: bool | None = Field(
        default=None,
        description="true: servers verify what they start (UEFI Secure Boot); `pulumi up` sets it by Redfish, S017 asks for it. "
        "false: they do not. Default: it stays as delivered, and nothing asks for it.",
    )
    encrypt: Literal["tpm2"] | None = Field(
        default=None,
        description="tpm2: the root file system in LUKS2, opened by the server's TPM 2.0 (SYS-64); needs recovery_key. Images "
        "of Debian 12 only, and not with secure_boot. /boot is not encrypted; data drives are not touched.",
    )
    recovery_key: RecoveryKey | None = Field(
        default=None,
        description="Public key (RSA, PEM) that each server's recovery key is sealed to. Keep the private one apart: it opens "
        "every drive.",
    )

    @property
    def recovery_der(self) -> str:
        """The recovery key as DER in base64, in one line; '' without one."""
        if self.recovery_key is None:
            return ""
        key = load_pem_public_key(self.recovery_key.encode())
        return base64.b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()


@rule("os", "provisioning")
def installer_belongs_to_the_distribution(catalog: Catalog, os: Os, provisioning: Provisioning) -> Iterator[Problem]:
    wanted = INSTALLER_OF.get(provisioning.method)
    if wanted is not None and wanted != os.name:
        yield Problem(
            ("provisioning", "method"),
            "the installer of another distribution than os.name",
            f"{provisioning.method}, of {wanted}",
            f"image, or the installer of {os.name}",
            "write image, or correct os.name",
        )


@rule("provisioning")
def pulumi_writes_images_only(catalog: Catalog, provisioning: Provisioning) -> Iterator[Problem]:
    if provisioning.installed_by == "pulumi" and provisioning.method != "image":
        yield Problem(
            ("provisioning", "installed_by"),
            "installation by Pulumi without an image that can be written and read back",
            f"pulumi with method {provisioning.method}",
            "method image: nothing else reports what was read back",
            "write installed_by: hand, or method: image",
        )


@rule("provisioning")
def pulumi_starts_servers_from_media_only(catalog: Catalog, provisioning: Provisioning) -> Iterator[Problem]:
    if provisioning.media and provisioning.installed_by != "pulumi":
        yield Problem(
            ("provisioning", "media"),
            "media that nobody inserts",
            f"{provisioning.media} with installed_by {provisioning.installed_by}",
            "installed_by pulumi: by hand, `bringup boot media` is given the whole address",
            "write installed_by: pulumi, or delete media",
        )


@rule("provisioning")
def only_installers_fetch_packages(catalog: Catalog, provisioning: Provisioning) -> Iterator[Problem]:
    if provisioning.proxy and provisioning.method not in INSTALLER_OF:
        yield Problem(
            ("provisioning", "proxy"),
            "proxy that nobody asks",
            f"{provisioning.proxy} with method {provisioning.method}",
            f"method {' or '.join(INSTALLER_OF)}: an image holds its packages",
            "delete proxy, or write the method of an installer",
        )


@rule("provisioning")
def only_images_are_encrypted(catalog: Catalog, provisioning: Provisioning) -> Iterator[Problem]:
    if provisioning.encrypt and provisioning.method != "image":
        yield Problem(
            ("provisioning", "encrypt"),
            "disk encryption with an installer",
            f"{provisioning.encrypt} with method {provisioning.method}",
            "method image: the installers' answers hold a passphrase, which would lie on the boot server",
            "write method: image, or delete encrypt",
        )


@rule("os", "provisioning")
def encrypted_disks_can_be_opened_again(catalog: Catalog, os: Os, provisioning: Provisioning) -> Iterator[Problem]:
    if not provisioning.encrypt or provisioning.method != "image":
        return
    if provisioning.recovery_key is None:
        yield Problem(
            ("provisioning", "encrypt"),
            "disk encryption without a recovery key",
            f"encrypt {provisioning.encrypt} without recovery_key",
            "recovery_key as well: once a TPM is cleared or a mainboard replaced, nothing else opens the drives",
            "add recovery_key (openssl genrsa -aes256 -out recovery.key 4096; openssl rsa -in recovery.key -pubout), or delete "
            "encrypt",
        )
    if os.key not in ENCRYPTED_SYSTEMS:
        yield Problem(
            ("provisioning", "encrypt"),
            "disk encryption of a system that no such image is built of",
            f"{provisioning.encrypt} with {os.key}",
            f"{', '.join(ENCRYPTED_SYSTEMS)}",
            "correct os, or delete encrypt",
        )


@rule("provisioning")
def encrypted_disks_under_secure_boot_were_never_tried(
    catalog: Catalog, provisioning: Provisioning
) -> Iterator[Problem]:
    if provisioning.encrypt and provisioning.secure_boot:
        yield Problem(
            ("provisioning", "encrypt"),
            "disk encryption with secure boot, which nobody has tried",
            f"encrypt {provisioning.encrypt} with secure_boot",
            "one of both: a TPM that asks for PCR 7 may not open the drives again (decision 0435)",
            "delete secure_boot or encrypt",
        )
