"""Answers about objects that nothing changed, from the engine's messages as they are.

A definition of Kueue has 0.7 MB, and the SDK makes a Python object of each value of each message. Most questions of a run are about
objects that stay as they are. Their messages are compared and passed back, and converted only where something differs.
"""

from typing import Any, cast

from google.protobuf import struct_pb2
from pulumi.runtime.proto import provider_pb2

from infra.provider.kubernetes.provider import CHECKED, UID, WANTED, Kubernetes
from infra.provider.server import Servicer
from infra.provider.values import plain_struct


class UnchangedServicer(Servicer):
    """The servicer of the provider `kubernetes`."""

    @property
    def _kubernetes(self) -> Kubernetes:
        return cast(Kubernetes, self._provider)

    async def Check(self, request: Any, context: Any) -> Any:
        looked_at = {key: request.news.fields[key] for key in CHECKED if key in request.news.fields}
        wrong = self._kubernetes.wrong(plain_struct(struct_pb2.Struct(fields=looked_at)))
        failures = [provider_pb2.CheckFailure(property=one.property, reason=one.reason) for one in wrong]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    async def Diff(self, request: Any, context: Any) -> Any:
        if same(request.olds, request.news):
            return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE, hasDetailedDiff=True)
        return await super().Diff(request, context)

    async def Read(self, request: Any, context: Any) -> Any:
        async def unchanged(request: Any, context: Any) -> bool:
            return await self._kubernetes.is_as(plain_struct(request.properties))

        if same(request.properties, request.inputs) and await self._guard(unchanged, request, context):
            return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)
        return await super().Read(request, context)


def same(state: struct_pb2.Struct, inputs: struct_pb2.Struct) -> bool:
    """Whether a state is of these inputs, with nothing beside them."""
    if WANTED in state.fields or UID not in state.fields:
        return False
    keys = set(state.fields) - {UID}
    return keys == set(inputs.fields) and all(state.fields[key] == inputs.fields[key] for key in keys)
