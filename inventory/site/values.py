"""What the sections of a site file are made of: their base, and types of single values.

Units stand in key names: ``_w _kw _a _v _m _u _c _s _pb _gbps _kg _pct _weeks``. Every model is strict (no silent
conversion), refuses unknown keys and is immutable.
"""

import contextlib
import datetime
import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from inventory import secrets

WITHOUT_HOST_BITS = "a prefix without host bits: "
LINK_LOCAL, MULTICAST = ipaddress.IPv6Network("fe80::/10"), ipaddress.IPv6Network("ff00::/8")
"""RFC 4291, 2.4: addresses that no site plans."""


class Section(BaseModel):
    """Base of every part of the site file: strict, closed, immutable."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,
        validate_by_name=False,
        validate_by_alias=True,
        allow_inf_nan=False,
        regex_engine="python-re",
    )


def _network(value: Any) -> Any:
    if isinstance(value, ipaddress.IPv4Network):
        return value
    if not isinstance(value, str):
        raise ValueError("an IPv4 prefix such as 10.77.0.0/24")
    if "/" not in value:
        raise ValueError("an IPv4 prefix with its length, such as 10.77.0.0/24")
    try:
        interface = ipaddress.IPv4Interface(value)
    except ValueError:
        raise ValueError("an IPv4 prefix such as 10.77.0.0/24") from None
    if interface.ip != interface.network.network_address:
        raise ValueError(f"{WITHOUT_HOST_BITS}{interface.network}")
    return interface.network


def _network_ipv6(value: Any) -> Any:
    if isinstance(value, ipaddress.IPv6Network):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise ValueError("an IPv6 prefix with its length, such as fd00:77::/48")
    try:
        interface = ipaddress.IPv6Interface(value)
    except ValueError:
        raise ValueError("an IPv6 prefix such as fd00:77::/48") from None
    if interface.ip != interface.network.network_address:
        raise ValueError(f"{WITHOUT_HOST_BITS}{interface.network}")
    if interface.network.overlaps(LINK_LOCAL) or interface.network.overlaps(MULTICAST):
        raise ValueError(f"an IPv6 prefix that is routed, so none of {LINK_LOCAL} or {MULTICAST}")
    return interface.network


def _address(value: Any) -> Any:
    if isinstance(value, ipaddress.IPv4Address):
        return value
    if not isinstance(value, str):
        raise ValueError("an IPv4 address such as 10.77.0.1")
    try:
        return ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError("an IPv4 address such as 10.77.0.1") from None


def _secret_reference(value: Any) -> Any:
    if isinstance(value, str) and re.match(r"^(env|file|vault):\S", value) and not secrets.is_per_device(value):
        return value
    raise ValueError("a reference: env:NAME, file:PATH or vault:PATH#FIELD, never the secret itself")


def _device_secret_reference(value: Any) -> Any:
    if isinstance(value, str) and re.match(r"^(env|file|vault):\S|^table:[^#\s][^#]*#[^#\s]+$", value):
        unknown = [name for name in secrets.PLACEHOLDER.findall(value) if name not in secrets.OF_THE_DEVICE]
        if not unknown and not (value.startswith("table:") and secrets.PLACEHOLDER.search(value)):
            return value
    raise ValueError(
        "a reference: env:NAME, file:PATH or vault:PATH#FIELD, with {device} or {serial} in it where each device has its own, "
        "or table:PATH#COLUMN, never the secret itself"
    )


_RATIO = re.compile(r"^([0-9]+(?:\.[0-9]+)?):([0-9]+(?:\.[0-9]+)?)$")


def _ratio(value: Any) -> Any:
    """'2:1' (ports down to ports up) as the share 0.5."""
    if isinstance(value, str) and (found := _RATIO.fullmatch(value.strip())):
        down, up = map(float, found.groups())
        return up / down if down else value
    return value


def _version(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError('a version in quotes, such as "22.05.8" (without quotes YAML reads a number or a date)')
    if value.strip().lower() in {"latest", "newest", "current", "stable", "any", "*", ""}:
        raise ValueError("a pinned version: what 'latest' means differs between two days and two nodes (ERR-24)")
    return value


def _moment(value: Any) -> Any:
    """A time with its offset, as YAML reads it or as text, in UTC."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.datetime.fromisoformat(value)
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        raise ValueError("a time with its offset from UTC, such as 2027-12-04T06:00:00Z or 2027-12-04T06:00:00+01:00")
    return value.astimezone(datetime.UTC)


Moment = Annotated[
    datetime.datetime,
    BeforeValidator(_moment),
    PlainSerializer(datetime.datetime.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Network = Annotated[
    ipaddress.IPv4Network,
    BeforeValidator(_network),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\d+\.\d+\.\d+\.\d+/\d+$"}),
]
Ipv6Network = Annotated[
    ipaddress.IPv6Network,
    BeforeValidator(_network_ipv6),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9a-fA-F:.]+/\d+$"}),
]
Address = Annotated[
    ipaddress.IPv4Address,
    BeforeValidator(_address),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "ipv4"}),
]
SecretReference = Annotated[
    str,
    BeforeValidator(_secret_reference),
    WithJsonSchema({"type": "string", "pattern": r"^(env|file|vault):\S+"}),
]
DeviceSecretReference = Annotated[
    str,
    BeforeValidator(_device_secret_reference),
    WithJsonSchema({"type": "string", "pattern": r"^(env|file|vault|table):\S+"}),
]
"""A secret of which each device may have its own (inventory.secrets.for_devices)."""
Version = Annotated[str, BeforeValidator(_version), WithJsonSchema({"type": "string", "minLength": 1})]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9_]*$")]
REPOSITORY_URL = (
    r"^(?:https?://(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+=/-]*)?|file:///[A-Za-z0-9._~+=/-]+)"
    r"$(?!\n)"
)
LOGIN_ISSUER = r"^https://(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+-]+)*/?$(?!\n)"
"""Without query and fragment (OpenID Connect Discovery 1.0, section 3)."""
LOGIN_CLAIM = r"^[A-Za-z_][A-Za-z0-9_.:/-]{0,127}$(?!\n)"
LOGIN_GROUP = r"^[A-Za-z0-9/_][A-Za-z0-9 ._:/@-]{0,126}$(?!\n)"
IMAGE_REGISTRY = r"^[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*$(?!\n)"
"""HOST[:PORT][/PATH] of a name of an image (https://pkg.go.dev/github.com/distribution/reference)."""
REPOSITORY_NAME = r"^[a-z0-9][a-z0-9-]{0,40}$(?!\n)"
REPOSITORY_SUITE = r"^(?:[A-Za-z0-9.][A-Za-z0-9._+/-]*|/)$(?!\n)"
REPOSITORY_COMPONENT = r"^[A-Za-z0-9][A-Za-z0-9._+/-]*$(?!\n)"
Text = Annotated[str, Field(min_length=1)]
Feed = Annotated[str, Field(pattern=r"^[A-Z]$")]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
BisectionShare = Annotated[
    Share,
    BeforeValidator(_ratio),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                {"type": "string", "pattern": _RATIO.pattern},
            ]
        }
    ),
]
"""A share, or a ratio of ports down to ports up such as 2:1."""
Percent = Annotated[float, Field(ge=0, le=100)]
Tier = Literal["inference", "training", "experimentation"]
Count = Annotated[int, Field(ge=1, le=200_000)]


def absent(value: object) -> bool:
    """A key that is not given is no part of a section's hash: files written before the key existed keep theirs."""
    return not value
