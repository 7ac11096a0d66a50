"""A request that waits, and keeps its connection from serving the next request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from wirekafka.apis.shared.call import Call
from wirekafka.server.connections.replies import Replies


class Parked(Protocol):
    """A request that waits; `resume` continues it."""

    @property
    def must_complete(self) -> bool:
        """Whether the request is served even if the client ends its side of the connection.

        A Produce request is a write: with acks=0, the client waits for nothing before it leaves.
        """

    def when_ready(self, callback: Callable[[object], None]) -> None:
        """Call back once there is something to `resume` for."""

    def resume(self, call: Call, replies: Replies) -> bool:
        """Continue until it waits again (False) or ends (True), and then add its response.

        Raises Refused if the connection must be closed.
        """

    def abandon(self) -> None:
        """End the request without a response, because the client has disconnected."""
