"""The certificate that a device presents, before anybody trusts it with a login.

    presented("10.77.0.61")                   its certificate as DER; b'' where none is presented
    verified("10.77.0.61", Path("ca.pem"))    whether it holds for this address and was signed by this CA

Nothing is sent but the handshake. Budget: CONNECT_TIMEOUT_S each.
"""

import socket
import ssl
from pathlib import Path

CONNECT_TIMEOUT_S = 5.0
"""For TCP and TLS together: a live device on a management network connects in milliseconds."""


def presented(address: str, port: int = 443) -> bytes:
    """The certificate that is presented now, as DER; b'' where nothing answers with one."""
    try:
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((address, port), timeout=CONNECT_TIMEOUT_S))
    except (OSError, ValueError):
        return b""


def verified(address: str, ca: Path, port: int = 443) -> bool:
    """Whether what is presented was signed by `ca`, is valid now and names this address. False where nothing answers."""
    context = ssl.create_default_context(cafile=str(ca))
    try:
        with (
            socket.create_connection((address, port), CONNECT_TIMEOUT_S) as raw,
            context.wrap_socket(raw, server_hostname=address),
        ):
            return True
    except OSError:
        return False
