"""Pulumi's verbs onto an API server.

State of a resource: its inputs as the cluster has them, `__inputs` as they were wanted where that is another, and the object's uid.
Nothing else is kept, so that a heartbeat or a status is no change.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi.provider.experimental import provider as sdk
from pulumi.runtime.rpc import UNKNOWN

from capacity.services.objects_seen import replaced, seen_as
from infra.kube.access import ClusterError, connect
from infra.provider.diff import differences
from infra.provider.kubernetes.api import Api
from infra.provider.kubernetes.rollout import left_out, obstacle, rollout
from infra.provider.resource import RefusedError
from infra.provider.server import EngineLog, PartialFailure
from infra.provider.values import plain_map, wrap_map

WANTED, UID = "__inputs", "__uid"
FORCE, TIMEOUT = "pulumi.com/patchForce", "pulumi.com/timeoutSeconds"
"""Annotations of Pulumi's own provider: take a field over that somebody else has set; how long a roll-out may take."""
ROLLOUT_S = 600.0
"""As Pulumi's own provider waits for a Deployment."""
POLL_S = 0.5
CHECKED = ("apiVersion", "kind", "metadata", "data", "stringData")
OWNER = "app.kubernetes.io/managed-by"
KINDS = {"add": sdk.PropertyDiffKind.ADD, "delete": sdk.PropertyDiffKind.DELETE, "update": sdk.PropertyDiffKind.UPDATE}
Object = dict[str, Any]


class Kubernetes(sdk.Provider):
    """One cluster, that of the kubeconfig in the provider's configuration or in $KUBECONFIG."""

    def __init__(self, log: EngineLog | None = None) -> None:
        self._log = log
        self._path = ""
        self._made: Api | None = None

    async def configure(self, request: sdk.ConfigureRequest) -> sdk.ConfigureResponse:
        given = plain_map(request.args).get("kubeconfig")
        self._path = str(given or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        return sdk.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def check(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        return sdk.CheckResponse(request.new_inputs, self.wrong(plain_map(request.new_inputs)))

    def wrong(self, wanted: Object) -> list[sdk.CheckFailure]:
        """What is wrong with the inputs of an object; those of CHECKED are looked at."""
        metadata = wanted.get("metadata")
        wrong = [sdk.CheckFailure(key, "is missing") for key in ("apiVersion", "kind") if not wanted.get(key)]
        if not isinstance(metadata, dict) or not metadata.get("name"):
            wrong.append(sdk.CheckFailure("metadata.name", "is missing: this provider makes up no names"))
        if wanted.get("kind") == "Secret":
            # Of one without content the state has its name alone, whatever a controller writes into it.
            why = "this provider keeps no content of Secrets: it would be in Pulumi's state"
            wrong += [sdk.CheckFailure(key, why) for key in ("data", "stringData") if wanted.get(key)]
        return wrong

    async def diff(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        old, new = _inputs(plain_map(request.old_state)), plain_map(request.new_inputs)
        found, anew = list(differences(old, new)), replaced(old, new)
        detail = {one.path: sdk.PropertyDiff(KINDS[one.kind], input_diff=True) for one in found}
        detail |= dict.fromkeys(anew, sdk.PropertyDiff(sdk.PropertyDiffKind.UPDATE_REPLACE, input_diff=True))
        return sdk.DiffResponse(
            changes=bool(found),
            replaces=anew,
            delete_before_replace=bool(anew),
            diffs=sorted({one.path.split(".")[0].split("[")[0] for one in found}),
            detailed_diff=detail,
        )

    async def create(self, request: sdk.CreateRequest) -> sdk.CreateResponse:
        wanted = plain_map(request.properties)
        if request.preview:
            return sdk.CreateResponse(None, wrap_map(wanted | {UID: UNKNOWN}))
        partial = _is_patch(request.urn)
        try:
            live = await self._api.read(wanted)
            if partial and live is None:
                raise RefusedError(
                    f"{_named(wanted)} is not registered: start its kubelet under this name, then run pulumi up again"
                )
            if not partial and live is not None and not _is_ours(live, wanted):
                raise RefusedError(
                    f"{_named(wanted)} exists and is not ours (label {OWNER}). Delete it, or give it this label: "
                    "then it is taken over"
                )
            state = await self._applied(wanted)
            why = await self._not_rolled_out(wanted, request.urn)
        except ClusterError as error:
            raise RefusedError(str(error)) from None
        if why:
            left = "It stays as it is for you to look at; correct it and run pulumi up again"
            raise PartialFailure(_identity(wanted), state, wanted, [f"{_named(wanted)}: {why}. {left}"])
        return sdk.CreateResponse(_identity(wanted), wrap_map(state))

    async def update(self, request: sdk.UpdateRequest) -> sdk.UpdateResponse:
        wanted = plain_map(request.news)
        if request.preview:
            return sdk.UpdateResponse(wrap_map(wanted | {UID: UNKNOWN}))
        try:
            state = await self._applied(wanted)
            if why := await self._not_rolled_out(wanted, request.urn):
                raise RefusedError(
                    f"{_named(wanted)}: {why}. {await self._rolled_back(_wanted(plain_map(request.olds)), request.urn)}"
                )
        except ClusterError as error:
            raise RefusedError(str(error)) from None
        return sdk.UpdateResponse(wrap_map(state))

    async def read(self, request: sdk.ReadRequest) -> sdk.ReadResponse:
        state = plain_map(request.properties)
        if UID not in state:
            raise RefusedError(
                f"{request.resource_id} cannot be imported by this provider: declare it, then run pulumi up"
            )
        wanted = _wanted(state)
        try:
            live = await self._api.read(wanted)
        except ClusterError as error:
            raise RefusedError(str(error)) from None
        if live is None:
            return sdk.ReadResponse(None, {}, {})
        seen, now = seen_as(wanted, live), rollout(live)
        if now and now.failed:  # the next update applies it again and waits
            reason = f"{_named(wanted)} has not rolled out: {now.seen}"
            raise PartialFailure(request.resource_id, _state(wanted, live), seen, [reason])
        return sdk.ReadResponse(request.resource_id, wrap_map(_state(wanted, live)), wrap_map(seen))

    async def delete(self, request: sdk.DeleteRequest) -> None:
        wanted = _wanted(plain_map(request.properties))
        try:
            if not _is_patch(request.urn):
                await self._api.delete(wanted)
            elif await self._api.read(wanted) is not None:
                # Applying nothing gives up the fields that only we set.
                bare = {key: wanted[key] for key in ("apiVersion", "kind")} | {
                    "metadata": {"name": wanted["metadata"]["name"]}
                }
                await self._api.apply(bare, force=False)
        except ClusterError as error:
            raise RefusedError(str(error)) from None

    async def is_as(self, state: Object) -> bool:
        """Whether the cluster has the object, the same one, as a state has it that differs in nothing from what was wanted."""
        wanted = _inputs(state)
        try:
            live = await self._api.read(wanted)
        except ClusterError as error:
            raise RefusedError(str(error)) from None
        if live is None or _state(wanted, live) != state:
            return False
        now = rollout(live)
        return now is None or not now.failed

    @property
    def _api(self) -> Api:
        if self._made is None:
            self._made = Api(connect(Path(self._path)))
        return self._made

    async def _applied(self, wanted: Object) -> Object:
        live = await self._api.apply(wanted, force=_annotation(wanted, FORCE) == "true")
        if wanted["kind"] == "CustomResourceDefinition":
            await self._api.established(wanted)
        return _state(wanted, live)

    async def _not_rolled_out(self, wanted: Object, urn: str) -> str:
        """Why the object has not rolled out, after it had its time; '' once it has, and for kinds that have no roll-out.

        Nodes that a DaemonSet which counts as rolled out has left out are named in the log of the resource `urn`.
        """
        if rollout(wanted) is None:
            return ""
        given = _annotation(wanted, TIMEOUT)
        began, budget = time.monotonic(), float(given) if given.isdigit() else ROLLOUT_S
        while True:
            live = await self._api.read(wanted)
            now = rollout(live) if live is not None else None
            if live is None or now is None:
                return "somebody deleted it during its roll-out"
            took = time.monotonic() - began
            if now.done:
                if self._log and (lacking := left_out(live, await self._pods(live))):
                    await self._log.info(urn, f"{_named(wanted)} has rolled out, but {lacking}")
                return ""
            if now.failed or took > budget:
                pods = await self._pods(live)
                words = (now.seen, left_out(live, pods), obstacle(pods))
                return f"not rolled out after {took:.0f} s: {'. '.join(word for word in words if word)}".rstrip(". ")
            await asyncio.sleep(POLL_S)

    async def _pods(self, live: Object) -> list[Object]:
        labels = live.get("spec", {}).get("selector", {}).get("matchLabels", {})
        return await self._api.pods(live["metadata"].get("namespace", ""), labels)

    async def _rolled_back(self, before: Object, urn: str) -> str:
        """Apply what was there before; what came of it."""
        try:
            await self._applied(before)
            why = await self._not_rolled_out(before, urn)
        except ClusterError as error:
            why = str(error)
        if why:
            return f"Rolling back to what was there before failed as well: {why}"
        return "Rolled back: what was there before runs again"


def _state(wanted: Object, live: Object) -> Object:
    seen = seen_as(wanted, live)
    return seen | ({} if seen == wanted else {WANTED: wanted}) | {UID: str(live["metadata"].get("uid", ""))}


def _wanted(state: Object) -> Object:
    wanted: Object = state.get(WANTED) or _inputs(state)
    return wanted


def _inputs(state: Object) -> Object:
    return {key: value for key, value in state.items() if key not in (WANTED, UID)}


def _annotation(wanted: Object, name: str) -> str:
    return str((wanted["metadata"].get("annotations") or {}).get(name, ""))


def _is_patch(urn: str) -> bool:
    """`urn:pulumi:STACK::PROJECT::PARENTS$TYPE::NAME` of a type that labels what the cluster made."""
    return urn.split("::")[-2].endswith("Patch")


def _is_ours(live: Mapping[str, Any], wanted: Object) -> bool:
    labels, ours = live["metadata"].get("labels") or {}, wanted["metadata"].get("labels") or {}
    return OWNER in ours and labels.get(OWNER) == ours[OWNER]


def _identity(wanted: Object) -> str:
    metadata = wanted["metadata"]
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)


def _named(wanted: Object) -> str:
    return f"{wanted['kind']} {_identity(wanted)}"
