"""The channel to a controller in the same process, whose handlers it calls."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.codec.message import Request
from wirekafka.controller import ControllerRole
from wirekafka.metadata.broker.feed import MetadataFeed
from wirekafka.metadata.controller.channel import ControllerChannel


class LocalChannel(ControllerChannel):
    """The channel to a controller in the same process: calls its handlers without encoding."""

    def __init__(self, controller: ControllerRole, feed: MetadataFeed):
        self._controller = controller
        self._feed = feed

    @property
    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """As `ControllerChannel`: empty, since the controller is in this process."""
        return {}

    async def send(self, request: Request, version: int) -> Any:
        """As `ControllerChannel`. A top-level error is raised with its message; over the network
        only its code is known."""
        return await _call_controller(
            registry.declared_by(type(request)), request, ControllerCall(self._controller, version)
        )

    async def follow(self) -> None:
        """As `ControllerChannel`."""
        await self._feed.reached(self._controller.quorum.committed_offset)

    async def forward(self, request: Any, call: Call) -> Any:
        """As `ControllerChannel`. Raises KafkaError for a top-level error."""
        before = self._controller.quorum.end_offset
        response = await _call_controller(
            registry.declared_by(type(request)),
            request,
            ControllerCall(self._controller, call.version, call),
        )
        call.throttle_ms = max(call.throttle_ms, getattr(response, "throttle_time_ms", 0))
        if self._controller.quorum.end_offset > before:
            await self.follow()
        return response


async def _call_controller(declared: registry.Api, request: Any, call: ControllerCall) -> Any:
    assert declared.decide is not None, f"{declared.name} is not for the controller"
    response = declared.decide(request, call)
    return await response if inspect.iscoroutine(response) else response
