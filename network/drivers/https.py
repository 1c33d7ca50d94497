"""Requests to a device's HTTPS interface: TLS verified, answers bounded, one time budget for each request.

    device = HttpsDevice("rol001", "10.77.0.13", credentials, port=8765)
    status, body = device.request("read system", "GET", "/nvue_v1/system")

The certificate has to be signed by the CA of the credentials, or be it. The password goes into the Authorization header
and nowhere else: no error, log line or `repr` has it. Proxies and .netrc of the operator's environment are not used,
redirections are not followed. What goes wrong is a DeviceError that names the device.
"""

import logging
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.budget import within
from network.drivers.credentials import HttpsCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceError,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    Unreachable,
)

BUDGET_S = 30.0
"""Time for one request with its answer."""
CONNECT_TIMEOUT_S = 5.0
BODY_BYTES = 16 << 20
"""Largest answer: the whole tree of a switch with 512 ports is about 1 MB."""
REFUSED = (401, 403)
"""HTTP status of a login that is wrong, or may not do this."""

logging.getLogger("httpx").addHandler(logging.NullHandler())


class HttpsDevice:
    """One device behind HTTPS with HTTP Basic. `name` appears in errors."""

    def __init__(
        self, name: str, address: str, credentials: HttpsCredentials, *, port: int = 443, budget_s: float = BUDGET_S
    ) -> None:
        self.name, self.address, self.credentials, self.port, self.budget_s = name, address, credentials, port, budget_s
        self._client: httpx.Client | None = None

    def close(self) -> None:
        """Close kept connections; safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def request(
        self,
        operation: str,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        budget_s: float | None = None,
    ) -> tuple[int, bytes]:
        """(HTTP status, body) of one request; `body`, plain data, goes as JSON.

        Raises DeviceTimeout, Unreachable, IdentityMismatch (another certificate), LoginRefused (401 and 403), UnreadableAnswer
        (more than BODY_BYTES) and BadAnswer for what is no HTTP.
        """
        budget_s = budget_s or self.budget_s
        source = Source(self.name, operation, "look at what answers on this port, then run the same command again")

        def ask() -> tuple[int, bytes]:
            said = bytearray()
            with self._connected().stream(method, path, params=params, json=body) as response:
                for chunk in response.iter_bytes():
                    said += chunk
                    if len(said) > BODY_BYTES:
                        raise source.unreadable(f"at most {BODY_BYTES} bytes", "more")
                return response.status_code, bytes(said)

        try:
            status, said = within(budget_s, ask)
        except DeviceError:
            raise
        except (TimeoutError, httpx.TimeoutException):
            self.close()
            raise DeviceTimeout(
                self.name,
                operation,
                f"an answer within {budget_s:g} s",
                "none",
                "look at the switch's console, then run the same command again",
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            self.close()
            raise self._failed(operation, error) from None
        if status in REFUSED:
            raise LoginRefused(
                self.name,
                operation,
                f"user {self.credentials.user} accepted, with the right to do this",
                f"HTTP status {status}",
                "check credentials.switch of the site file, and the role of this account on the switch",
            )
        return status, said

    def _connected(self) -> httpx.Client:
        if self._client is None:
            credentials = self.credentials
            self._client = httpx.Client(
                base_url=f"https://{_host(self.address)}:{self.port}",
                auth=(credentials.user, credentials.password),
                verify=ssl.create_default_context(cafile=str(credentials.ca)),
                timeout=httpx.Timeout(self.budget_s, connect=CONNECT_TIMEOUT_S),
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    def _failed(self, operation: str, error: Exception) -> DeviceError:
        where, seen = f"{self.address}:{self.port}", answers.line(str(error) or type(error).__name__)
        if isinstance(error, httpx.ConnectError) and "CERTIFICATE_VERIFY_FAILED" in seen:
            return IdentityMismatch(
                self.name,
                operation,
                f"a certificate signed by {self.credentials.ca}",
                seen,
                "find out which device answers here; give the switch a certificate of that CA",
            )
        broken = isinstance(error, httpx.RemoteProtocolError) and "disconnected" in seen
        if isinstance(error, httpx.DecodingError | httpx.RemoteProtocolError | httpx.InvalidURL) and not broken:
            return BadAnswer(
                self.name, operation, f"HTTP at {where}", seen, "look at what answers on this port of the switch"
            )
        return Unreachable(
            self.name,
            operation,
            f"an HTTPS server at {where}",
            seen,
            "check the switch's power and management cable, then run the same command again",
        )


def _host(address: str) -> str:
    """An address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address
