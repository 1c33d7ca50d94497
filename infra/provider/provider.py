"""The provider: Pulumi's verbs onto the resource types of this package."""

import asyncio
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from pulumi.provider.experimental import provider as sdk
from pulumi.runtime.rpc import UNKNOWN

from infra.provider.diff import Difference, differences
from infra.provider.resource import Applied, Data, RefusedError, ResourceType
from infra.provider.server import PartialFailure
from infra.provider.values import plain_map, wrap_map
from network.drivers.errors import DeviceError

Answer = TypeVar("Answer")

Planned = Callable[[str, str], Data]
"""(token, SITE/KEY) -> inputs; RefusedError when there is no such resource."""

KINDS = {"add": sdk.PropertyDiffKind.ADD, "delete": sdk.PropertyDiffKind.DELETE, "update": sdk.PropertyDiffKind.UPDATE}

# Resources handled at once. The engine bounds what it sends: pulumi up --parallel, by default four for each processor.
THREADS = 64


class Log(Protocol):
    """Where lines for the user go."""

    async def info(self, urn: str, text: str) -> None: ...


class Bringup(sdk.Provider):
    """Dispatches on the resource's type; all device work runs in threads.

    `types` is called at the first request about a resource: the engine starts a second process of the provider in each
    run, only to compare its configuration, and that one needs neither pandas nor a driver.
    """

    def __init__(self, types: Callable[[], Mapping[str, ResourceType]], log: Log, planned: Planned) -> None:
        self._types, self._log, self._planned = functools.cache(types), log, planned
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resource")

    async def configure(self, request: sdk.ConfigureRequest) -> sdk.ConfigureResponse:
        return sdk.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def check(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        failures = self._type(request.type).check(plain_map(request.new_inputs))
        return sdk.CheckResponse(request.new_inputs, [sdk.CheckFailure(name, reason) for name, reason in failures])

    async def diff(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        kind = self._type(request.type)
        found = input_differences(kind, plain_map(request.old_state), plain_map(request.new_inputs))
        replaced = [difference.path for difference in found if difference.path == kind.key]
        return sdk.DiffResponse(
            changes=bool(found),
            replaces=replaced,
            delete_before_replace=bool(replaced),
            diffs=sorted({_top(difference.path) for difference in found}),
            detailed_diff={
                difference.path: sdk.PropertyDiff(
                    sdk.PropertyDiffKind.UPDATE_REPLACE if difference.path == kind.key else KINDS[difference.kind],
                    input_diff=True,
                )
                for difference in found
            },
        )

    async def create(self, request: sdk.CreateRequest) -> sdk.CreateResponse:
        kind, inputs = self._type(request.type), plain_map(request.properties)
        if request.preview:
            await self._show(request.urn, await self._run(kind.preview, inputs, None))
            return sdk.CreateResponse(None, wrap_map(inputs | dict.fromkeys(kind.outputs, UNKNOWN)))
        applied = await self._apply(kind, request.urn, inputs, None)
        return sdk.CreateResponse(str(inputs[kind.key]), wrap_map(applied.state))

    async def update(self, request: sdk.UpdateRequest) -> sdk.UpdateResponse:
        kind, old, new = self._type(request.type), plain_map(request.olds), plain_map(request.news)
        if request.preview:
            await self._show(request.urn, await self._run(kind.preview, new, old))
            return sdk.UpdateResponse(wrap_map(new | dict.fromkeys(kind.outputs, UNKNOWN)))
        return sdk.UpdateResponse(wrap_map((await self._apply(kind, request.urn, new, old)).state))

    async def read(self, request: sdk.ReadRequest) -> sdk.ReadResponse:
        kind, state = self._type(request.type), plain_map(request.properties)
        if not state:  # an import: the device as it is, with the plan's word for how it is reached and who it is
            return await self._import(kind, request.resource_id)
        observed = await self._run(kind.read, state)
        inputs = inputs_of(kind, observed.state)
        if observed.failures:
            raise PartialFailure(request.resource_id, observed.state, inputs, observed.failures)
        return sdk.ReadResponse(request.resource_id, wrap_map(observed.state), wrap_map(inputs))

    async def _import(self, kind: ResourceType, identifier: str) -> sdk.ReadResponse:
        wanted = await self._run(self._planned, kind.token, identifier)
        observed = await self._run(kind.read, wanted | kind.nothing_done(wanted))
        if observed.failures:
            raise RefusedError(f"{identifier} cannot be imported: {'; '.join(observed.failures)}")
        return sdk.ReadResponse(
            str(wanted[kind.key]), wrap_map(observed.state), wrap_map(inputs_of(kind, observed.state))
        )

    async def delete(self, request: sdk.DeleteRequest) -> None:
        failures = await self._run(self._type(request.type).delete, plain_map(request.properties))
        if failures:
            raise RefusedError("; ".join(failures))

    async def _apply(self, kind: ResourceType, urn: str, inputs: Data, state: Data | None) -> Applied:
        applied = await self._run(kind.apply, inputs, state)
        await self._show(urn, applied.changed)
        if applied.failures:
            raise PartialFailure(str(inputs[kind.key]), applied.state, inputs, applied.failures)
        return applied

    async def _run(self, verb: Callable[..., Answer], *arguments: Any) -> Answer:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, verb, *arguments)
        except DeviceError as error:
            raise RefusedError(str(error)) from error

    async def _show(self, urn: str, lines: list[str]) -> None:
        if lines:
            await self._log.info(urn, "\n".join(lines))

    def _type(self, qualified: str) -> ResourceType:
        """The resource type of a request; the SDK passes the types of the parents along: `Parent$Type`."""
        token = qualified.rpartition("$")[2]
        types = self._types()
        if token not in types:
            raise RefusedError(f"no resource type {token}; there are {', '.join(sorted(types))}")
        return types[token]


def inputs_of(kind: ResourceType, state: Data) -> Data:
    """The part of a state that are inputs."""
    return {key: value for key, value in state.items() if key not in kind.outputs}


def input_differences(kind: ResourceType, state: Data, inputs: Data) -> list[Difference]:
    """What separates a state from desired inputs; outputs take no part."""
    return list(differences(inputs_of(kind, state), inputs))


def _top(path: str) -> str:
    return path.split(".")[0].split("[")[0]
