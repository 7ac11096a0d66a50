"""The channel of a node that is a controller itself, to the active controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.local_channel import LocalChannel
from wirekafka.codec.message import Request
from wirekafka.controller import ControllerRole
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import ControllerChannel
from wirekafka.server.controllers.remote_channel import RemoteChannel


class QuorumChannel(ControllerChannel):
    """Calls the controller in this process while it is active, and else sends to the other nodes.

    A request that the controller here refuses because it has just ceased to be active is sent to
    its successor, as a request to another node would be.
    """

    def __init__(self, local: LocalChannel, remote: RemoteChannel, controller: ControllerRole):
        self._local = local
        self._remote = remote
        self._controller = controller

    @property
    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """As `ControllerChannel`."""
        return self._channel.controller_versions

    async def send(self, request: Request, version: int) -> Any:
        """As `ControllerChannel`."""
        if self._is_local:
            try:
                return await self._local.send(request, version)
            except KafkaError as error:
                if error.error is not Error.NOT_CONTROLLER or self._controller.is_alone:
                    raise
        return await self._remote.send(request, version)

    async def follow(self) -> None:
        """As `ControllerChannel`."""
        await self._channel.follow()

    async def forward(self, request: Any, call: Call) -> Any:
        """As `ControllerChannel`."""
        if self._is_local:
            try:
                return await self._local.forward(request, call)
            except KafkaError as error:
                if error.error is not Error.NOT_CONTROLLER or self._controller.is_alone:
                    raise
        return await self._remote.forward(request, call)

    def close(self) -> None:
        """Close the connections."""
        self._remote.close()

    @property
    def _is_local(self) -> bool:
        return self._controller.is_active or self._controller.is_alone

    @property
    def _channel(self) -> LocalChannel | RemoteChannel:
        return self._local if self._is_local else self._remote
