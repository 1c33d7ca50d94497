"""Serves the provider to the engine: what the experimental SDK's own server lacks.

- Partial failure: `PartialFailure` raised by create, update or read reaches the engine as `ErrorResourceInitFailed`
  (google.rpc.Status details), so that what was done is kept in state and the next run continues.
- Log: lines for the user, attached to a resource (`Engine.Log`).
- An engine that was killed: the provider ends with it, so that no second writer is left behind.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf import any_pb2
from pulumi.provider.experimental import provider as sdk
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2, provider_pb2_grpc, status_pb2

from infra.provider.resource import RefusedError
from infra.provider.values import wire_map

# As the SDK's own server (pulumi/runtime/_grpc_settings.py): 400 MiB a message, and half an hour in which a request may
# wait for the event loop instead of grpc's 30 s.
GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", 400 << 20),
    ("grpc.max_send_message_length", 400 << 20),
    ("grpc.server_max_unrequested_time_in_server", 30 * 60),
]
ENGINE_POLL_S = 0.5


class PartialFailure(Exception):
    """Some devices of a resource are done and others are not; `state` is to be kept, `reasons` to be shown."""

    def __init__(self, resource_id: str, state: dict[str, Any], inputs: dict[str, Any], reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.resource_id, self.state, self.inputs, self.reasons = resource_id, state, inputs, reasons


def partial_failure_status(error: PartialFailure) -> bytes:
    """The `grpc-status-details-bin` trailer from which the engine recovers state and reasons."""
    detail = any_pb2.Any()
    detail.Pack(
        provider_pb2.ErrorResourceInitFailed(
            id=error.resource_id, properties=wire_map(error.state), inputs=wire_map(error.inputs), reasons=error.reasons
        )
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error), details=[detail])
    return bytes(status.SerializeToString())


class Servicer(ProviderServicer):
    """The SDK's servicer, with errors that the user can read and partial failures that keep state."""

    async def _guard(self, verb: Callable[[Any, Any], Awaitable[Any]], request: Any, context: Any) -> Any:
        try:
            return await verb(request, context)
        except PartialFailure as error:
            await context.abort(
                grpc.StatusCode.UNKNOWN, str(error), (("grpc-status-details-bin", partial_failure_status(error)),)
            )
        except RefusedError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    async def Create(self, request: Any, context: Any) -> Any:
        return await self._guard(super().Create, request, context)

    async def Update(self, request: Any, context: Any) -> Any:
        return await self._guard(super().Update, request, context)

    async def Read(self, request: Any, context: Any) -> Any:
        return await self._guard(super().Read, request, context)

    async def Delete(self, request: Any, context: Any) -> Any:
        return await self._guard(super().Delete, request, context)


class EngineLog:
    """Writes lines into the engine's output, attached to a resource."""

    def __init__(self, engine_address: str) -> None:
        self._channel = grpc.aio.insecure_channel(engine_address, options=GRPC_OPTIONS)
        self._engine = engine_pb2_grpc.EngineStub(self._channel)

    async def info(self, urn: str, text: str) -> None:
        """One message on the resource `urn`."""
        await self._engine.Log(engine_pb2.LogRequest(severity=engine_pb2.INFO, message=text, urn=urn, streamId=0))


async def end_with_engine(engine_address: str) -> None:
    """Exit this process as soon as the engine's port no longer answers (it was killed)."""
    host, _, port = engine_address.rpartition(":")
    while True:
        await asyncio.sleep(ENGINE_POLL_S)
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), timeout=5)
        except (OSError, TimeoutError):
            os._exit(1)
        writer.close()


def serve(
    make_provider: Callable[[EngineLog], sdk.Provider], version: str, servicer: type[Servicer] = Servicer
) -> None:
    """Run a provider for the engine named on the command line until the engine ends.

    The engine passes its address as the first argument and reads our port from the first line of output.
    """
    engine_address = next(argument for argument in sys.argv[1:] if not argument.startswith("-"))
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # a lost session is reported by the driver, once

    async def run() -> None:
        server = grpc.aio.server(options=GRPC_OPTIONS)
        provider = make_provider(EngineLog(engine_address))
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(
            servicer(sys.argv[1:], version, provider, engine_address=engine_address), server
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        watch = asyncio.create_task(end_with_engine(engine_address))
        await server.wait_for_termination()
        watch.cancel()

    asyncio.run(run())
