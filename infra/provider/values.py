"""Plain Python data to and from the property values of Pulumi's experimental provider SDK.

The SDK (pinned; tests/infra/provider/test_sdk_contract.py) has two traps: it cannot send an unknown back to the engine,
and it takes floats but no ints. Both are met here and nowhere else.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import struct_pb2
from pulumi.provider.experimental.property_value import Computed, PropertyValue
from pulumi.runtime.rpc import UNKNOWN


def plain(value: PropertyValue) -> Any:
    """Python data of a property value: whole numbers as int, unknowns as the text `UNKNOWN`."""
    inner = value.value
    if isinstance(inner, Computed):
        return UNKNOWN
    if isinstance(inner, str | bool) or inner is None:
        return inner
    if isinstance(inner, float):
        return int(inner) if inner.is_integer() else inner
    if isinstance(inner, Mapping):
        return {key: plain(item) for key, item in inner.items()}
    if isinstance(inner, list | tuple):
        return [plain(item) for item in inner]
    raise TypeError(f"resources of this provider take no {type(inner).__name__}")


def wrap(data: Any) -> PropertyValue:
    """Property value of Python data; `UNKNOWN` becomes the wire form that the engine reads as unknown."""
    if isinstance(data, bool | str) or data is None:
        return PropertyValue(data)
    if isinstance(data, int | float):
        return PropertyValue(float(data))
    if isinstance(data, Mapping):
        return PropertyValue({str(key): wrap(item) for key, item in data.items()})
    if isinstance(data, Sequence):
        return PropertyValue([wrap(item) for item in data])
    raise TypeError(f"cannot be a property value: {type(data).__name__}")


def plain_map(properties: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """`plain` over a property map."""
    return {key: plain(value) for key, value in properties.items()}


def wrap_map(data: Mapping[str, Any]) -> dict[str, PropertyValue]:
    """`wrap` over a dict."""
    return {key: wrap(value) for key, value in data.items()}


def wire_map(data: Mapping[str, Any]) -> struct_pb2.Struct:
    """The protobuf struct of a dict, as error details carry it."""
    return PropertyValue.marshal_map(wrap_map(data))


def plain_struct(data: struct_pb2.Struct) -> dict[str, Any]:
    """Python data of a protobuf struct, as `plain` gives it, ten times as fast. Secrets and unknowns stay as on the wire."""
    return {key: _plain_value(value) for key, value in data.fields.items()}


def _plain_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain_value(item) for item in value.list_value.values]
    if kind == "number_value":
        return int(value.number_value) if value.number_value.is_integer() else value.number_value
    return None if kind in (None, "null_value") else getattr(value, kind)
