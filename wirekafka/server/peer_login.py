"""Authenticates a connection to another node by SASL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from wirekafka.apis.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.apis.sasl_handshake import SaslHandshakeRequest
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.security.sasl.client import ClientExchange
from wirekafka.security.sasl.exchange import AuthenticationFailed

_EARLIEST, _LATEST = 0.85, 0.95
"""Kafka's clients log in again after a share of the session that is random between these."""

Send = Callable[[Request], Awaitable[Any]]
"""Sends a request in the newest common version and returns its response."""


async def log_in(send: Send, mechanism: str, exchange: ClientExchange) -> float | None:
    """Authenticate; returns the delay in ms after which to do so again, None for never (KIP-368).

    Raises AuthenticationFailed with the other node's reason, and what `send` raises.
    """
    shaken = await send(SaslHandshakeRequest(mechanism=mechanism))
    if shaken.error_code == Error.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(shaken.mechanisms)
        raise AuthenticationFailed(f"{mechanism} is none of its mechanisms: {enabled}")
    if shaken.error_code:
        raise AuthenticationFailed(Error.of(shaken.error_code).name)
    session_ms = 0
    token: bytes | None = exchange.first()
    while token is not None:
        answer = await send(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            raise AuthenticationFailed(answer.error_message or Error.of(answer.error_code).name)
        session_ms = answer.session_lifetime_ms
        # In a thread, because SCRAM computes thousands of hashes.
        token = await asyncio.to_thread(exchange.respond, bytes(answer.auth_bytes))
    share = random.uniform(_EARLIEST, _LATEST)  # noqa: S311
    return session_ms * share if session_ms > 0 else None
