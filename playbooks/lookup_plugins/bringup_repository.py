"""Ansible lookup: a package repository with the place of its keyring on the node and, where the site has it, its key.

In:  repositories, each with name, uris, suites, components, and either key (a path on this machine) or key_url.
Out: the same with keyring, and key_base64 for a key of the site. A public key only: anything else is an error.
"""

import base64
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from inventory.secrets import SecretError, readable

DOCUMENTATION = r"""
name: bringup_repository
short_description: Package repository with its keyring and the content of its key
options:
  _terms: {description: Repositories., required: true}
"""

KEYRINGS = Path("/etc/apt/keyrings")
MOST_BYTES = 1_000_000
ARMOUR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
PUBLIC_KEY_TAG = 6
"""RFC 9580, section 5: packet types. A binary public key begins with a packet of this one; 5 is a secret key."""


def packet_tag(first: int) -> int | None:
    """Type of an OpenPGP packet by its first byte (RFC 9580, section 4.2); None if it begins none."""
    if not first & 0x80:
        return None
    return first & 0x3F if first & 0x40 else first >> 2 & 0x0F


def suffix(content: bytes) -> str:
    """'asc' of an ASCII-armoured public key, 'gpg' of a binary one: apt goes by the name. ValueError for anything else."""
    if b"PRIVATE KEY" in content:
        raise ValueError("it holds a private key; export the public one: gpg --armor --export KEY")
    if content.startswith(ARMOUR):
        return "asc"
    if content and packet_tag(content[0]) == PUBLIC_KEY_TAG:
        return "gpg"
    raise ValueError("it is no OpenPGP public key, ASCII-armoured or binary: gpg --armor --export KEY makes one")


def with_key(repository: dict[str, Any]) -> dict[str, Any]:
    """The repository with its keyring, and with its key where it is the site's. SecretError, ValueError or OSError."""
    if "key" not in repository:
        return {**repository, "keyring": str(KEYRINGS / f"{repository['name']}.asc")}
    path = readable(Path(repository["key"]), f"os.repositories, key of {repository['name']}")
    with path.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    ending = suffix(content)
    return {
        **repository,
        "keyring": str(KEYRINGS / f"{repository['name']}.{ending}"),
        "key_base64": base64.b64encode(content).decode(),
    }


class LookupModule(LookupBase):
    def run(
        self, terms: list[dict[str, Any]], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        found = []
        for repository in terms:
            try:
                found.append(with_key(dict(repository)))
            except SecretError as error:
                raise AnsibleError(str(error)) from None
            except (ValueError, OSError) as error:
                name, path = repository["name"], repository.get("key", "")
                raise AnsibleError(f"os.repositories, key of {name}: {path}: {error}") from None
        return found
