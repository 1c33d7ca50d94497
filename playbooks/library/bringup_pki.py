#!/usr/bin/python3
"""Ansible module: a cluster's certificate authorities and what they sign, kept in one folder of the server that it runs on.

Everything is made by openssl(1). A certificate is one file with its key, so that both change in one step.
"""

import base64
import contextlib
import datetime
import os
import re
import secrets
import subprocess
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_pki
short_description: Certificate authorities, and the certificates and keys of a cluster
description:
  - Makes each authority and each secret once and never anew. A certificate is made anew where it is missing, was asked for
    otherwise (another user, group, address or use), was signed by another authority, or has fewer days left than C(renew_days).
  - Results carry keys - a task that uses this module must have C(no_log).
options:
  folder: {description: Where all is kept; mode 0700., type: path, required: true}
  organisation: {description: First part of the authorities' names., type: str, required: true}
  authorities: {description: 'Names of authorities.', type: list, elements: str, required: true}
  authority_days: {description: Life of an authority., type: int, default: 3650}
  days: {description: Life of a certificate., type: int, default: 365}
  renew_days: {description: A certificate with fewer days left is made anew., type: int, default: 90}
  secrets:
    description: Names of secrets and what they are - C(rsa), an RSA key of 2048 bits, or C(random), 32 bytes in base64.
    type: dict
    default: {}
  certificates:
    description: What to sign.
    type: list
    elements: dict
    default: []
    suboptions:
      host: {description: Server that it is for., type: str, required: true}
      name: {description: Name among those of its server., type: str, required: true}
      authority: {description: Who signs., type: str, required: true}
      user: {description: Common name., type: str, required: true}
      groups: {description: Organisations., type: list, elements: str, default: []}
      addresses: {description: IP addresses and host names., type: list, elements: str, default: []}
      usages: {description: 'C(server), C(client).', type: list, elements: str, required: true}
"""
RETURN = r"""
authorities: {description: Certificate by authority, PEM., type: dict, returned: always}
authority_keys: {description: Key by authority, PEM., type: dict, returned: always}
secrets: {description: Secret by name; of an RSA key also NAME.pub., type: dict, returned: always}
certificates: {description: Certificate and key in one PEM text, by server and name., type: dict, returned: always}
made: {description: What was made (in check mode, what would be), type: list, returned: always}
"""

BUDGET_S = 60
USAGES = {"server": "serverAuth", "client": "clientAuth"}
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F:]*:[0-9a-fA-F:]*")
SAFE = re.compile(r"[A-Za-z0-9 ._:-]+")
"""What a name may have, so that none of it means anything to openssl's configuration or to a path."""
DAY = datetime.timedelta(days=1)


class PkiError(Exception):
    """The message says what could not be made."""


def openssl(*words: str, given: str = "") -> str:
    """Output of openssl; PkiError with its last words."""
    try:
        done = subprocess.run(
            ["openssl", *words], input=given, capture_output=True, text=True, timeout=BUDGET_S, check=False
        )
    except FileNotFoundError:
        raise PkiError("openssl is not installed on this server: install the package openssl") from None
    except subprocess.TimeoutExpired:
        raise PkiError(f"openssl {words[0]}: no end after {BUDGET_S} s") from None
    if done.returncode:
        raise PkiError(f"openssl {words[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def write(path: str, text: str) -> None:
    """Create or replace a file that only root may read, in one step."""
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".bringup-")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def read(path: str) -> str:
    """A file's text, '' where there is none."""
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""


def new_key() -> str:
    return openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


def authority(folder: str, name: str, organisation: str, days: int) -> None:
    """Make an authority. Its certificate comes last: without it the authority is not there."""
    path = os.path.join(folder, name)
    write(f"{path}.key", new_key())
    extensions = ("basicConstraints=critical,CA:true", "keyUsage=critical,digitalSignature,keyCertSign,cRLSign")
    words = [word for extension in extensions for word in ("-addext", extension)]
    subject = f"/CN={organisation} {name}"
    made = openssl(
        *("req", "-x509", "-new", "-config", "/dev/null", "-key", f"{path}.key", "-days", str(days), "-subj", subject),
        *words,
    )
    write(f"{path}.crt", made)


def names(addresses: list[str]) -> str:
    """The value of subjectAltName."""
    return ",".join(f"{'IP' if ADDRESS.fullmatch(one) else 'DNS'}:{one}" for one in addresses)


def subject(wanted: dict[str, Any]) -> str:
    return "".join(f"/O={group}" for group in wanted["groups"]) + f"/CN={wanted['user']}"


def asked(wanted: dict[str, Any]) -> str:
    """What a certificate was made for, as a comment in its file: the next run compares."""
    return f"# {subject(wanted)} {names(wanted['addresses'])} {','.join(wanted['usages'])} by {wanted['authority']}\n"


def sign(folder: str, wanted: dict[str, Any], days: int) -> str:
    """A new key and its certificate, the certificate first."""
    by = os.path.join(folder, wanted["authority"])
    key = new_key()
    extensions = [
        "basicConstraints=critical,CA:false",
        "keyUsage=critical,digitalSignature",
        f"extendedKeyUsage={','.join(USAGES[usage] for usage in wanted['usages'])}",
        "subjectKeyIdentifier=hash",
        "authorityKeyIdentifier=keyid",
    ]
    if wanted["addresses"]:
        extensions.append(f"subjectAltName={names(wanted['addresses'])}")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for file, text in (("key", key), ("extensions", "\n".join(extensions) + "\n")):
            write(os.path.join(scratch, file), text)
        request = openssl(
            "req", "-new", "-config", "/dev/null", "-key", os.path.join(scratch, "key"), "-subj", subject(wanted)
        )
        certificate = openssl(
            *("x509", "-req", "-days", str(days), "-CA", f"{by}.crt", "-CAkey", f"{by}.key"),
            *("-set_serial", f"0x{secrets.token_hex(16)}", "-extfile", os.path.join(scratch, "extensions")),
            given=request,
        )
    return asked(wanted) + certificate + key


def days_left(certificate: str) -> float:
    """Days until a certificate ends."""
    told = openssl("x509", "-noout", "-enddate", "-dateopt", "iso_8601", given=certificate).strip()
    end = datetime.datetime.strptime(told.partition("=")[2], "%Y-%m-%d %H:%M:%SZ")
    return (end.replace(tzinfo=datetime.UTC) - datetime.datetime.now(datetime.UTC)) / DAY


def fits(folder: str, have: str, wanted: dict[str, Any], renew_days: int) -> bool:
    """Whether a certificate is what is wanted, for long enough, and signed by today's authority."""
    if not have.startswith(asked(wanted)):
        return False
    by = os.path.join(folder, wanted["authority"])
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        write(os.path.join(scratch, "have"), have)
        try:
            openssl("verify", "-CAfile", f"{by}.crt", os.path.join(scratch, "have"))
            return days_left(have) >= renew_days
        except PkiError:
            return False


def secret(kind: str) -> str:
    if kind == "rsa":
        return openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    return base64.b64encode(secrets.token_bytes(32)).decode() + "\n"


def check_names(parameters: dict[str, Any]) -> None:
    """PkiError for a name that openssl or a path would read as something else."""
    texts = [parameters["organisation"], *parameters["authorities"], *parameters["secrets"]]
    for one in parameters["certificates"]:
        texts += [one["host"], one["name"], one["user"], *one["groups"], *one["addresses"]]
        if one["authority"] not in parameters["authorities"] or not set(one["usages"]) <= USAGES.keys():
            raise PkiError(f"{one['host']}/{one['name']}: no authority {one['authority']}, or a use that is none")
    for text in texts:
        if not SAFE.fullmatch(text) or text.startswith("."):
            raise PkiError(f"{text!r}: letters, digits, spaces and . _ : - alone, none of them leading dots")


def settle(parameters: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """Make what is missing or spent; everything that there is."""
    folder, made = parameters["folder"], []
    check_names(parameters)
    if not check:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.chmod(folder, 0o700)
    for name in parameters["authorities"]:
        if not read(os.path.join(folder, f"{name}.crt")):
            made.append(f"authority {name}")
            if not check:
                authority(folder, name, parameters["organisation"], parameters["authority_days"])
    for name, kind in parameters["secrets"].items():
        if not read(os.path.join(folder, name)):
            made.append(f"secret {name}")
            if not check:
                write(os.path.join(folder, name), secret(kind))
    found: dict[str, dict[str, str]] = {}
    for wanted in parameters["certificates"]:
        own = os.path.join(folder, wanted["host"])
        path = os.path.join(own, f"{wanted['name']}.pem")
        have = read(path)
        if not have or not fits(folder, have, wanted, parameters["renew_days"]):
            made.append(f"certificate {wanted['host']}/{wanted['name']}")
            if not check:
                os.makedirs(own, mode=0o700, exist_ok=True)
                have = sign(folder, wanted, parameters["days"])
                write(path, have)
        found.setdefault(wanted["host"], {})[wanted["name"]] = have
    kept = {name: read(os.path.join(folder, name)) for name in parameters["secrets"]}
    for name, kind in parameters["secrets"].items():
        if kind == "rsa":
            kept[f"{name}.pub"] = openssl("pkey", "-pubout", given=kept[name]) if kept[name] else ""
    return {
        "authorities": {name: read(os.path.join(folder, f"{name}.crt")) for name in parameters["authorities"]},
        "authority_keys": {name: read(os.path.join(folder, f"{name}.key")) for name in parameters["authorities"]},
        "secrets": kept,
        "certificates": found,
        "made": made,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "organisation": {"type": "str", "required": True},
            "authorities": {"type": "list", "elements": "str", "required": True},
            "authority_days": {"type": "int", "default": 3650},
            "days": {"type": "int", "default": 365},
            "renew_days": {"type": "int", "default": 90},
            "secrets": {"type": "dict", "default": {}, "no_log": False},
            "certificates": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "host": {"type": "str", "required": True},
                    "name": {"type": "str", "required": True},
                    "authority": {"type": "str", "required": True},
                    "user": {"type": "str", "required": True},
                    "groups": {"type": "list", "elements": "str", "default": []},
                    "addresses": {"type": "list", "elements": "str", "default": []},
                    "usages": {"type": "list", "elements": "str", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    try:
        answer = settle(module.params, check=module.check_mode)
    except (PkiError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(answer["made"]), **answer)


if __name__ == "__main__":
    main()
