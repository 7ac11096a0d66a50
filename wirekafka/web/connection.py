"""A connection of an HTTP server: uvicorn's, with deadlines and a limit on their number.

A request has to come within seconds, however slowly it is sent, and its response has to be taken;
live output may go on. Beyond the limits the connection gives way that has waited longest for a
request, of the address with the most connections.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
STALLED_S = 30.0
"""How long a client may take nothing of a response."""
CONNECTION = "connection"
"""The name of the connection in the state of a request's scope."""


class HttpConnection(H11Protocol):
    """The protocol of one connection."""

    most_connections = 256
    most_of_address = 64
    begun_s = 0.0
    is_live = False
    """Whether the present response is live output, which has no end of its own."""
    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, CONNECTION: self}
        self.begun_s = self.loop.time()
        if self._has_room():
            self._watch_request()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_request()

    def shutdown(self) -> None:
        """End the connection once its response is complete; live output at once."""
        super().shutdown()
        if self.is_live:
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.is_live = False
        # Until there is the head of another request, uvicorn's own time limit is enough.
        if self.conn.their_state is h11.SEND_BODY:
            self._watch_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    @property
    def host(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def is_waiting(self) -> bool:
        """Whether there is no request to respond to."""
        return not self._is_whole and (self.cycle is None or self.cycle.response_complete)

    @property
    def _is_whole(self) -> bool:
        return self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)

    def _watch_request(self) -> None:
        if self._is_whole or self.transport.is_closing():
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _has_room(self) -> bool:
        others = [each for each in self.connections if isinstance(each, HttpConnection)]
        others = [each for each in others if not each.transport.is_closing()]
        waiting = [each for each in others if each is not self and each.is_waiting]
        if Counter(each.host for each in others)[self.host] > self.most_of_address:
            busiest = self.host
        elif len(others) > self.most_connections:
            [(busiest, _)] = Counter(each.host for each in waiting).most_common(1) or [("", 0)]
        else:
            return True
        waiting = [each for each in waiting if each.host == busiest]
        if waiting:
            min(waiting, key=lambda each: each.begun_s).transport.abort()
        return bool(waiting)
