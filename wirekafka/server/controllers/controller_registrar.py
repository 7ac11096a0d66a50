"""Registers this node's controller with the active one (KIP-919)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wirekafka.clock import Clock
from wirekafka.codec.message import Request
from wirekafka.errors import KafkaError
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.image.framing import METADATA_FEATURE
from wirekafka.protocol.controller_registration import ControllerRegistrationRequest
from wirekafka.protocol.records import metadata as r
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.observation import Committed
from wirekafka.runtime.promise import pause

logger = logging.getLogger(__name__)

_SUPPORTED_SINCE = 15
"""The metadata.version (3.7-IV0) from which controllers are registered."""
_BACKOFF = Backoff(first_ms=100, longest_ms=30_000, jitter=0.2)


def registration_of(
    controller_id: int, incarnation_id: bytes, endpoints: Sequence[Endpoint]
) -> ControllerRegistrationRequest:
    """Return the request that registers a controller of this version."""
    kind = ControllerRegistrationRequest
    return kind(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        listeners=[kind.Listener(**endpoint._asdict()) for endpoint in endpoints],
        features=[
            kind.Feature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in SUPPORTED.items()
        ],
    )


class ControllerRegistrar:
    """Sends a controller's registration whenever the committed metadata lacks it.

    `note` is an observer of the metadata. A refused or lost request is sent again.
    """

    def __init__(
        self,
        registration: ControllerRegistrationRequest,
        send: Callable[[Request, int], Awaitable[Any]],
        clock: Clock,
    ):
        """`send` sends a request, in a version, to the active controller; it raises KafkaError."""
        self._registration = registration
        self._send = send
        self._clock = clock
        self._is_registered = False
        self._metadata_version = 0
        self._task: asyncio.Task[None] | None = None
        self._is_started = False

    def start(self) -> None:
        """Register the controller if the metadata noted so far lacks it."""
        self._is_started = True
        self._check()

    def stop(self) -> None:
        """Send nothing more."""
        self._is_started = False
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def note(self, committed: Committed) -> None:
        """Check the registration after a batch, or a snapshot, that may have changed it."""
        wanted = self._registration
        is_news = committed.is_snapshot
        if committed.is_snapshot:
            self._is_registered = False
        for record in committed.records:
            match record:
                case r.RegisterControllerRecord(controller_id=wanted.controller_id):
                    self._is_registered = record.incarnation_id == wanted.incarnation_id
                    is_news = True
                case r.FeatureLevelRecord() if record.name == METADATA_FEATURE:
                    self._metadata_version = record.feature_level
                    is_news = True
        if is_news:
            self._check()

    def _check(self) -> None:
        if (
            self._is_started
            and not self._is_registered
            and self._metadata_version >= _SUPPORTED_SINCE
            and self._task is None
        ):
            self._task = asyncio.get_running_loop().create_task(self._register())

    async def _register(self) -> None:
        failures = 0
        while not self._is_registered:
            try:
                response = await self._send(
                    self._registration, type(self._registration).versions.last
                )
                if response.error_code:
                    raise KafkaError.of(response.error_code, response.error_message)
                break
            except KafkaError as error:
                logger.info("The active controller has not registered this one: %s", error)
                await pause(self._clock, _BACKOFF.delay_ms(failures))
                failures += 1
        self._task = None
