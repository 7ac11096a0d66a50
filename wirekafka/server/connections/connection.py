"""A client connection: reads bytes, serves whole requests in order, writes their responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Protocol, cast

from wirekafka.apis.shared.call import Call
from wirekafka.clock import Timer
from wirekafka.codec.message import MalformedMessage
from wirekafka.server.connections.accounting import charge_sending
from wirekafka.server.connections.half_closed_connections import HalfClosed
from wirekafka.server.connections.inbox import (
    READ_AHEAD_BYTES,
    SHARED_BYTES,
    STASHED_BYTES,
    Inbox,
    capacity_for,
    request_bytes,
)
from wirekafka.server.connections.outbox import Outbox
from wirekafka.server.connections.parked_request import Parked
from wirekafka.server.connections.pipeline import (
    SMALLEST_REQUEST_BYTES,
    Refused,
    RefusedLater,
    Serve,
)
from wirekafka.server.connections.repeated_warnings import Occasion, RepeatedWarnings
from wirekafka.server.connections.replies import Replies

_unpack_size = Struct(">i").unpack_from
_KEPT_BYTES = 1 << 22
_REPLY_BYTES = 1 << 16


class ConnectionOwner(Protocol):
    """The listener, as its connections see it."""

    inbox: Inbox
    half_closed: HalfClosed
    serve: Serve
    request_limit_bytes: int
    warnings: RepeatedWarnings

    def accept(self, connection: Connection, transport: asyncio.Transport) -> Call | None:
        """Register a new connection; None if it is refused and must be closed."""

    def forget(self, connection: Connection) -> None:
        """Unregister a connection that was closed."""


class Connection(asyncio.BufferedProtocol):
    """Serves the requests of one socket one at a time, as Kafka does by muting the channel.

    A waiting handler parks the connection, and an exceeded quota mutes it: meanwhile no further
    request is served. Bytes are still read, up to a limit, so that a disconnect of the client is
    noticed at once. Produce requests received before a disconnect are served nevertheless, and so
    are requests delayed by a quota.
    """

    def __init__(self, listener: ConnectionOwner):
        self._listener = listener
        self._inbox = listener.inbox
        self._serve_request = listener.serve
        self._limit = listener.request_limit_bytes
        self._check_size: Callable[[int], None] = refuse_size
        self._transport: asyncio.Transport | None = None
        self.call: Call | None = None
        """The client and its current request; None before it is accepted."""
        self._stash = b""
        """The start of an incomplete small request, copied in front of the next bytes read."""
        self._own: memoryview | None = None
        """The buffer of an incomplete large request, or of bytes that arrive while stalled."""
        self._start = 0
        self._end = 0
        self._parked: Parked | None = None
        self._muted: Timer | None = None
        """The timer that unmutes the connection of a throttled client."""
        self._parked_bytes = 0
        """The size of a buffer that was left to a parked request."""
        self._outbox: Outbox | None = None
        self._is_half_closed = False
        self._closes_when_sent = False
        self._reading_paused = False
        self._draining = False
        self._inbox.reads += 1
        self.last_read = self._inbox.reads
        """The sequence number, among the reads of all connections, of the last read from this
        connection."""
        self.last_read_seen = 0
        self.idle_since_ms = 0
        self.frame_since_ms = 0
        self.frames = 0
        self.frames_seen = -1

    # asyncio.BufferedProtocol, called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._outbox = Outbox(self._transport)
        self.call = self._listener.accept(self, self._transport)
        if self.call is None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> Any:
        if self._own is not None:
            return self._own[self._end :]
        shared = self._inbox.buffer
        if not self._stash:
            return shared
        rest = len(self._stash)
        shared[:rest] = self._stash
        return shared[rest:]

    def buffer_updated(self, nbytes: int) -> None:
        inbox = self._inbox
        self.last_read = inbox.reads = inbox.reads + 1
        if self._own is not None:
            self._end += nbytes
            self._continue()
            return
        end = len(self._stash) + nbytes
        self._stash = b""
        shared = inbox.buffer
        at = 0 if self.is_stalled else self._serve(shared, 0, end)
        if at < end:
            self._keep(shared, at, end)

    def eof_received(self) -> bool:
        """Keep the connection open for the requests received so far, within a limit."""
        if self.is_closing or self._draining or not self._is_owed:
            return False
        kept_bytes = self._parked_bytes + (0 if self._own is None else len(self._own))
        self._is_half_closed = self._listener.half_closed.keep(self, kept_bytes)
        return self._is_half_closed

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._outbox = None
        self._own = None
        if self._is_half_closed:
            self._listener.half_closed.forget(self)
        if self._parked is not None:
            parked, self._parked = self._parked, None
            parked.abandon()
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        if self.call is not None:
            self._listener.forget(self)

    def pause_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.is_paused = True

    def resume_writing(self) -> None:
        outbox = self._outbox
        if outbox is None:
            return
        outbox.is_paused = False
        self._flush(outbox)
        if not outbox.is_paused:
            self._continue()

    # For the listener.

    @property
    def peer(self) -> str:
        """The connection's id, which has the client's address, for logs."""
        return self.call.connection_id if self.call is not None else "?"

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed, or is about to be."""
        return self._transport is None or self._transport.is_closing()

    @property
    def software(self) -> tuple[str, str]:
        """The name and version of the client's software, "unknown" if it has sent none."""
        return self.call.client.software if self.call is not None else ("unknown", "unknown")

    @property
    def is_parked(self) -> bool:
        """Whether a handler waits, or a quota mutes the connection."""
        return self._parked is not None or self._muted is not None

    @property
    def _is_owed(self) -> bool:
        """Whether requests that it delays must be served even if no byte follows them."""
        if self._parked is not None:
            return self._parked.must_complete
        own, start, end = self._own, self._start, self._end
        return (
            self._muted is not None
            and own is not None
            and request_bytes(own, start, end) <= end - start
        )

    @property
    def frame_bytes(self) -> int:
        """How many bytes of an incomplete request have arrived."""
        if self.is_stalled:
            return 0
        return len(self._stash) if self._own is None else self._end - self._start

    @property
    def is_stalled(self) -> bool:
        """Whether the broker delays the client: it waits, is muted, or its output is full."""
        outbox = self._outbox
        return self.is_parked or (outbox is not None and outbox.is_paused)

    def serve_with(
        self, serve: Serve, limit_bytes: int, check_size: Callable[[int], None] | None = None
    ) -> None:
        """Serve requests of up to `limit_bytes` by `serve` from the next one on.

        `check_size` is called for a request that is larger, or smaller than a request's header: it
        raises Refused, or returns if the size is allowed.
        """
        self._serve_request = serve
        self._limit = limit_bytes
        self._check_size = check_size or refuse_size

    def release_memory(self) -> None:
        """Drop the buffer of a connection that has been idle for a while."""
        if self._own is not None and self._start == self._end:
            self._own = None
            self._start = self._end = 0

    def close(self) -> None:
        """Close after the pending output is sent."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._outbox is not None and not self._outbox.is_empty:
            self._closes_when_sent = True
            return
        self._transport.close()

    def close_for(self, kind: str, reason: str) -> None:
        """Close as `close` does, and log the reason unless its kind was logged recently."""
        if self._transport is not None and not self._transport.is_closing():
            self._log_closing(logging.WARNING, kind, reason)
            self.close()

    def abort_for(self, kind: str, reason: str) -> None:
        """Close as `abort` does, and log the reason unless its kind was logged recently."""
        self._log_closing(logging.WARNING, kind, reason)
        self.abort()

    def abort(self) -> None:
        """Close the connection at once and drop unsent output."""
        if self._transport is not None:
            self._transport.abort()

    def drain(self) -> None:
        """Close once the response of the current request is sent."""
        self._draining = True
        if self._parked is None:
            self.close()

    # Serving requests.

    def _continue(self) -> None:
        """Serve the requests in the connection's own buffer, then make room for more."""
        own, transport = self._own, self._transport
        if not (own is None or transport is None or transport.is_closing() or self.is_stalled):
            self._start = self._serve(own, self._start, self._end)
            if self._start == self._end:
                self._start = self._end = 0
                if len(own) > _KEPT_BYTES or len(own) <= SHARED_BYTES:
                    self._own = None
        if self._is_half_closed:
            self._end_half_closed()
        else:
            self._make_room()

    def _end_half_closed(self) -> None:
        """Close, after the pending output, once no request that must be served is delayed."""
        if not self._is_owed:
            self._own = None
            self._listener.half_closed.forget(self)
            self.close()

    def _serve(self, data: memoryview, at: int, end: int) -> int:
        """Serve whole requests from `data[at:end]`; returns where the unserved rest starts."""
        call = self.call
        assert call is not None
        replies = Replies()
        try:
            while end - at >= 4:
                (size,) = _unpack_size(data, at)
                if not SMALLEST_REQUEST_BYTES <= size <= self._limit:
                    self._check_size(size)
                stop = at + 4 + size
                if stop > end:
                    break
                self.frames += 1
                parked = self._serve_request(data, at + 4, stop, call, replies)
                at = stop
                if parked is not None:
                    self._parked = parked
                    parked.when_ready(self._resume)
                    if call.needs_buffer:
                        call.needs_buffer = False
                        at = self._hand_over_buffer(data, at, end)
                    break
                if call.wants_close:
                    self._send(replies)
                    self.close()
                    return end
                if call.throttle_ms:
                    self._send(replies)
                    self._mute(call)
                    return at
                if replies.buffers or len(replies.tail) > _REPLY_BYTES:
                    # Small requests can have large responses: send, and check for back-pressure.
                    self._send(replies)
                    replies = Replies()
                    if self.is_stalled or self._transport is None:
                        break
        except (Refused, MalformedMessage, UnicodeDecodeError) as error:
            self._send(replies)
            self._refuse(error)
            return end
        except Exception as error:
            self._close_for_failure(error)
            return end
        self._send(replies)
        if call.metering.began_ns:
            charge_sending(call)
        return at

    def _send(self, replies: Replies) -> None:
        transport = self._transport
        if transport is None:
            return
        if not replies.buffers:
            if replies.tail:
                transport.write(replies.tail)
            return
        if replies.tail:
            replies.buffers.append(replies.tail)
        if self._outbox is not None:
            self._outbox.queue(replies.buffers)
            self._flush(self._outbox)

    def _flush(self, outbox: Outbox) -> None:
        try:
            outbox.flush()
        except OSError as error:
            # The response is incomplete: the client could not parse what follows.
            self._log_closing(logging.ERROR, "a response that cannot be completed", str(error))
            self.abort()
            return
        if self._closes_when_sent and outbox.is_empty:
            self.close()

    def _resume(self, _: object) -> None:
        """Resume the parked handler: the future it waited for is done."""
        parked, call = self._parked, self.call
        if parked is None or call is None:
            return  # The client has disconnected.
        replies = Replies()
        try:
            if not parked.resume(call, replies):
                parked.when_ready(self._resume)
                return
        except Refused as error:
            self._parked = None
            self._refuse(error)
            return
        except Exception as error:
            self._parked = None
            self._close_for_failure(error)
            return
        self._parked = None
        self._parked_bytes = 0
        self._send(replies)
        if call.metering.began_ns:
            charge_sending(call)
        if call.wants_close or self._draining:
            self.close()
            return
        if call.throttle_ms:
            self._mute(call)
        self._continue()

    def _refuse(self, error: Refused | MalformedMessage | UnicodeDecodeError) -> None:
        if isinstance(error, RefusedLater):
            self._log_closing(logging.WARNING, error.kind, str(error))
            self._mute_for(error.delay_ms, partial(self._close_with, error.replies))
            return
        kind = error.kind if isinstance(error, Refused) else "a malformed request"
        self.close_for(kind, str(error))

    def _close_with(self, replies: Replies) -> None:
        self._muted = None
        self._send(replies)
        self.close()

    def _close_for_failure(self, error: Exception) -> None:
        """Close because of an internal error that no response can report."""
        self._log_closing(logging.ERROR, "a failure", "serving it failed", error)
        self.close()

    def _log_closing(
        self, level: int, kind: str, reason: str, error: Exception | None = None
    ) -> None:
        assert self.call is not None
        self._listener.warnings.log(
            level,
            Occasion(self.call.client_host, kind, self.call.now_ms),
            f"Closing the connection of {self.peer}: {reason}",
            exc_info=error,
        )

    def _mute(self, call: Call) -> None:
        """Serve no further request for the throttle time that the response reported."""
        throttle_ms, call.throttle_ms = call.throttle_ms, 0
        if call.metering.began_ns:
            charge_sending(call)
        self._mute_for(throttle_ms, self._unmute)

    def _mute_for(self, delay_ms: int, then: Callable[[], None]) -> None:
        assert self.call is not None
        self._muted = self.call.broker.waiting.clock.call_later(delay_ms, then)

    def _unmute(self) -> None:
        self._muted = None
        self._continue()

    # The buffer.

    def _keep(self, data: memoryview, at: int, end: int) -> None:
        """Copy the unserved rest out of the shared buffer."""
        if self._transport is None or self._transport.is_closing():
            return
        frame = request_bytes(data, at, end)
        # Of a large request too, while little of it has arrived: stalled ones must cost little.
        if not self.is_stalled and min(frame, 4 * (end - at)) <= STASHED_BYTES:
            self._stash = bytes(data[at:end])
            return
        rest = end - at
        self._own = memoryview(bytearray(capacity_for(data, at, end)))
        self._own[:rest] = data[at:end]
        self._start, self._end = 0, rest
        self._make_room()

    def _hand_over_buffer(self, data: memoryview, at: int, end: int) -> int:
        """Leave a buffer to the request that was parked; returns where the unserved rest starts."""
        self._parked_bytes = len(data)
        if data is self._inbox.buffer:
            if at < end:
                self._keep(data, at, end)
            self._inbox.renew()
            return end
        rest = end - at
        self._own = memoryview(bytearray(capacity_for(data, at, end)))
        self._own[:rest] = data[at:end]
        self._start, self._end = 0, rest
        return 0

    def _make_room(self) -> None:
        """Make room in the buffer, or pause reading while it is full and must not grow."""
        own, transport = self._own, self._transport
        if transport is None or transport.is_closing():
            return
        full = False
        if own is not None and self._end == len(own):
            full = self.is_stalled and self._end - self._start >= READ_AHEAD_BYTES
            if not full:
                self._regrow(own)
        if full != self._reading_paused:
            self._reading_paused = full
            if full:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _regrow(self, own: memoryview) -> None:
        rest = self._end - self._start
        capacity = capacity_for(own, self._start, self._end)
        target = own if capacity <= len(own) else memoryview(bytearray(capacity))
        target[:rest] = own[self._start : self._end]
        self._own = target
        self._start, self._end = 0, rest


def refuse_size(size_bytes: int) -> None:
    """Raise Refused for a request that is too large, or smaller than a request's header."""
    raise Refused("a request of a size that is not allowed", f"{size_bytes} bytes")
