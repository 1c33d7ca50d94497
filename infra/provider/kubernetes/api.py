"""The calls that the provider makes to an API server: server-side apply, read, delete; each within a time budget."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx

from infra.kube.access import ClusterError, Connection, no_answer

FIELD_MANAGER = "bringup-platform"
CALL_S = 30.0
"""One call, and all tries of a call that the server puts off."""
ESTABLISHED_S = 120.0
"""From a new CRD to the kinds that it serves: for Kueue's largest over 30 s on a machine of two cores with a load of 20 (seen)."""
GONE_S = 120.0
"""From a delete to the end of a namespace, whose objects go first."""
POLL_S = 0.2
PUT_OFF = (429, 503)
"""The API server is busy or not ready yet (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/)."""
AT_ONCE = 16
WEBHOOK_DOWN = ("failed calling webhook", "conversion webhook for")
WEBHOOK_WAY_OUT = "The controller behind it does not answer: see why its pods are not ready (kubectl get pods -A)"


class Api:
    """One API server; kinds that it serves are asked once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = httpx.AsyncClient(
            base_url=connection.server,
            verify=connection.tls,
            headers=dict(connection.headers),
            timeout=CALL_S,
            limits=httpx.Limits(max_connections=AT_ONCE),
        )
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def apply(self, manifest: Mapping[str, Any], force: bool) -> dict[str, Any]:
        """The object after `manifest` was applied to it."""
        answer = await self._call(
            "PATCH",
            await self._url(manifest),
            content=json.dumps(manifest),
            params={"fieldManager": FIELD_MANAGER, "force": "true" if force else "false", "fieldValidation": "Strict"},
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
        assert answer is not None
        return answer

    async def read(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """The object as it is; None where the cluster has none, or does not serve its kind."""
        try:
            url = await self._url(manifest)
        except UnservedError:
            return None
        return await self._call("GET", url)

    async def delete(self, manifest: Mapping[str, Any]) -> None:
        """Delete the object and wait until it is gone."""
        try:
            url = await self._url(manifest)
        except UnservedError:
            return
        await self._call("DELETE", url, params={"propagationPolicy": "Background"})
        end = time.monotonic() + GONE_S
        while (left := await self._call("GET", url)) is not None:
            if time.monotonic() > end:
                waits = ", ".join(left.get("spec", {}).get("finalizers") or left["metadata"].get("finalizers") or ())
                raise ClusterError(
                    f"{_named(manifest)} is not gone {GONE_S:g} s after its deletion; it waits for: {waits or 'its objects'}"
                )
            await asyncio.sleep(POLL_S)

    async def pods(self, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """The pods of a namespace that carry these labels."""
        chosen = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
        listed = await self._call("GET", f"/api/v1/namespaces/{namespace}/pods", params=chosen)
        return list((listed or {}).get("items") or ())

    async def established(self, manifest: Mapping[str, Any]) -> None:
        """Wait until the kind of a CustomResourceDefinition is served."""
        end = time.monotonic() + ESTABLISHED_S
        while True:
            live = await self.read(manifest) or {}
            conditions = {one["type"]: one for one in live.get("status", {}).get("conditions") or ()}  # null at first
            if conditions.get("Established", {}).get("status") == "True":
                return
            names = conditions.get("NamesAccepted", {})
            refused = names.get("status") == "False"
            if refused or time.monotonic() > end:
                why = names.get("message") if refused else f"not established within {ESTABLISHED_S:g} s"
                raise ClusterError(f"{_named(manifest)}: the cluster does not serve it: {why}")
            await asyncio.sleep(POLL_S)

    async def _url(self, manifest: Mapping[str, Any]) -> str:
        group, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        root = f"/{'apis' if '/' in group else 'api'}/{group}"
        end = time.monotonic() + (ESTABLISHED_S if "." in group.partition("/")[0] else 0.0)
        while (group, kind) not in self._kinds:
            served = await self._call("GET", root)
            for one in (served or {}).get("resources") or ():
                if "/" not in one["name"]:
                    self._kinds[group, one["kind"]] = one["name"], one["namespaced"]
            if (group, kind) not in self._kinds:
                if time.monotonic() > end or not await self._has_definition(group, kind):
                    raise UnservedError(
                        f"{_named(manifest)}: the cluster has no kind {kind} in {group}: install what brings it first"
                    )
                await asyncio.sleep(POLL_S)
        plural, namespaced = self._kinds[group, kind]
        space = f"/namespaces/{metadata['namespace']}" if namespaced else ""
        return f"{root}{space}/{plural}/{metadata['name']}"

    async def _has_definition(self, group: str, kind: str) -> bool:
        """Whether a CRD defines the kind: then it will be served in a moment."""
        listed = await self._call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        return any(
            one["spec"]["group"] == group.partition("/")[0] and one["spec"]["names"]["kind"] == kind
            for one in (listed or {}).get("items") or ()
        )

    async def _call(self, verb: str, url: str, **more: Any) -> dict[str, Any] | None:
        """The answer as JSON; None for 404 of anything but an apply."""
        end = time.monotonic() + CALL_S
        while True:
            try:
                async with self._turns:
                    answer = await self._http.request(verb, url, **more)
            except httpx.HTTPError as error:
                raise ClusterError(no_answer(self._connection, error, CALL_S)) from None
            if not (answer.status_code in PUT_OFF or _is_webhook_down(answer)) or time.monotonic() > end:
                break
            await asyncio.sleep(min(_seconds(answer.headers.get("Retry-After")), 5.0))
        if answer.status_code == 404 and verb != "PATCH":
            return None
        if answer.status_code >= 400:
            way_out = f". {WEBHOOK_WAY_OUT}" if _is_webhook_down(answer) else ""
            raise ClusterError(f"{verb} {url}: {answer.status_code} {_message(answer)}{way_out}")
        found = answer.json()
        return found if isinstance(found, dict) else None


class UnservedError(ClusterError):
    """The cluster does not know the kind."""


def _named(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 1.0


def _is_webhook_down(answer: httpx.Response) -> bool:
    """Whether the API server refuses an object since a webhook did not answer (k8s.io/apiserver, pkg/admission/plugin/webhook)."""
    return answer.status_code == 500 and any(words in _message(answer) for words in WEBHOOK_DOWN)


def _message(answer: httpx.Response) -> str:
    try:
        return " ".join(str(answer.json()["message"]).split())[:600]
    except (ValueError, KeyError, TypeError):
        return " ".join(answer.text.split())[:200]
