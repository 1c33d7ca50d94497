"""BMCs behind requests' transport instead of a network: what each address serves is plain data or raw bytes."""

import io
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.response import HTTPResponse

V1 = "/redfish/v1"

Resources = Mapping[str, Any]
"""{path below /redfish/v1: resource}; bytes and streams are sent as they are, 'status' alone as {"status": 500} is an error."""


def serve(patch: pytest.MonkeyPatch, services: Mapping[str, Resources]) -> list[str]:
    """Answer every request to the hosts of `services` ({address: resources}); returns the URLs asked, as they come."""
    asked: list[str] = []

    def send(self: HTTPAdapter, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        url = urlsplit(str(request.url))
        asked.append(str(request.url))
        path = url.path.removeprefix(V1).strip("/")
        body: Any
        found = services[str(url.hostname)].get(path, {"status": 404})
        status = found["status"] if isinstance(found, dict) and set(found) == {"status"} else 200
        if isinstance(found, bytes | io.RawIOBase):
            body = found
        elif isinstance(found, dict):
            body = json.dumps({"@odata.id": url.path, **found}).encode()
        else:
            body = json.dumps(found).encode()
        raw = HTTPResponse(
            body=io.BytesIO(body) if isinstance(body, bytes) else body,
            headers={"Content-Type": "application/json"},
            status=status,
            preload_content=False,
        )
        return HTTPAdapter.build_response(self, request, raw)

    patch.setattr(HTTPAdapter, "send", send)
    return asked
