"""The certificate that a broker presents, whether or not it is trusted."""

from __future__ import annotations

import socket
import ssl

from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig


def peer_certificate(address: Address, config: ClientConfig, timeout_s: float) -> bytes | None:
    """Return the certificate as DER; None if no TLS connection can be made. Nothing else is sent.

    Raises ConfigError for a client whose own keys cannot be used.
    """
    from wirekafka.security import tls_context

    context = tls_context.client_context(config).context
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, timeout=timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as encrypted,
        ):
            return encrypted.getpeercert(binary_form=True)
    except (OSError, ValueError, OverflowError):
        return None  # ValueError: Metadata may have names that no host has.
