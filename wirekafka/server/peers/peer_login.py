"""Authenticates a connection to another node by SASL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from wirekafka.client.sasl_client import ClientLogin
from wirekafka.codec.message import Request
from wirekafka.security.sasl.client import ClientExchange

_EARLIEST, _LATEST = 0.85, 0.95
"""Kafka's clients log in again after a random share of the session between these bounds."""

Send = Callable[[Request], Awaitable[Any]]
"""Sends a request in the newest common version and returns its response."""


async def log_in(send: Send, mechanism: str, exchange: ClientExchange) -> float | None:
    """Authenticate; returns the delay in ms until the next login, None for never (KIP-368).

    Raises AuthenticationFailed with the other node's reason, and the errors of `send`.
    """
    login = ClientLogin(mechanism, exchange)
    request: Request | None = login.first()
    while request is not None:
        # In a thread, because SCRAM computes thousands of hashes.
        request = await asyncio.to_thread(login.respond, await send(request))
    share = random.uniform(_EARLIEST, _LATEST)  # noqa: S311
    return login.session_ms * share if login.session_ms > 0 else None
