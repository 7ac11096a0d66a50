"""One client's connection: bytes in, whole requests served in order, replies out in one write."""

from __future__ import annotations

import asyncio
import logging
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from wirekafka.apis.registry import Call
from wirekafka.codec.message import MalformedMessage
from wirekafka.server import dispatch
from wirekafka.server.dispatch import Parked, Refused, Replies
from wirekafka.server.outbox import Outbox

if TYPE_CHECKING:
    from wirekafka.server.listener import Listener

logger = logging.getLogger(__name__)

_unpack_size = Struct(">i").unpack_from
_SMALLEST_REQUEST_BYTES = dispatch.SMALLEST_REQUEST_BYTES
_SHARED_BYTES = 1 << 18
_STASHED_BYTES = 1 << 16
_KEPT_BYTES = 1 << 22
_READ_AHEAD_BYTES = 1 << 20
_REPLY_BYTES = 1 << 16


class Inbox:
    """Where every connection of a loop that has no unserved bytes reads to.

    The loop calls `get_buffer`, reads and calls `buffer_updated` without a break, so one buffer
    serves all: it stays in the processor's cache, and an idle connection holds none.
    """

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Take a new buffer; a request goes on using the old one."""
        self.buffer = memoryview(bytearray(_SHARED_BYTES))


class Connection(asyncio.BufferedProtocol):
    """Serves one socket, one request at a time (Kafka mutes the channel; here nothing is read on).

    A handler that waits parks the connection: bytes are still taken in, up to a limit, so that
    the peer's going away is seen at once, but nothing more is served until it is done.
    """

    def __init__(self, listener: Listener):
        self._listener = listener
        self._inbox = listener.inbox
        self._serve_request = listener.serve
        self._limit = listener.request_limit_bytes
        self._transport: asyncio.Transport | None = None
        self._call: Call | None = None
        self._stash = b""
        """The start of a small request, put before what is read next."""
        self._own: memoryview | None = None
        """Where a large request is put together, or what comes while stalled is kept."""
        self._start = 0
        self._end = 0
        self._parked: Parked | None = None
        self._outbox: Outbox | None = None
        self._closes_when_sent = False
        self._reading_paused = False
        self._draining = False
        self.was_active = True
        self.idle_since_ms = 0
        self.frame_since_ms = 0
        self.frames = 0
        self.frames_seen = 0

    # The protocol the event loop speaks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._outbox = Outbox(self._transport)
        self._call = self._listener.accept(self, self._transport)
        if self._call is None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> Any:
        if self._own is not None:
            return self._own[self._end:]
        shared = self._inbox.buffer
        if not self._stash:
            return shared
        rest = len(self._stash)
        shared[:rest] = self._stash
        return shared[rest:]

    def buffer_updated(self, nbytes: int) -> None:
        self.was_active = True
        if self._own is not None:
            self._end += nbytes
            self._continue()
            return
        end = len(self._stash) + nbytes
        self._stash = b""
        shared = self._inbox.buffer
        at = 0 if self.is_stalled else self._serve(shared, 0, end)
        if at < end:
            self._keep(shared, at, end)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._outbox = None
        self._own = None
        if self._parked is not None:
            parked, self._parked = self._parked, None
            parked.abandon()
        if self._call is not None:
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

    # What the listener asks of it.

    @property
    def peer(self) -> str:
        """Where the client is, for the log."""
        return self._call.connection_id if self._call is not None else "?"

    @property
    def is_parked(self) -> bool:
        return self._parked is not None

    @property
    def frame_bytes(self) -> int:
        """How much has come of a request that is not whole yet."""
        if self.is_stalled:
            return 0
        return len(self._stash) if self._own is None else self._end - self._start

    @property
    def is_stalled(self) -> bool:
        """Whether this side holds up the peer, not the peer itself."""
        outbox = self._outbox
        return self._parked is not None or (outbox is not None and outbox.is_paused)

    def release_memory(self) -> None:
        """Drop the buffer of a connection that has been idle for a while."""
        if self._own is not None and self._start == self._end:
            self._own = None
            self._start = self._end = 0

    def close(self, reason: str | None = None) -> None:
        """Close once what was written is sent; `reason` goes to the log."""
        if self._transport is None or self._transport.is_closing():
            return
        if reason is not None:
            logger.warning("Closing the connection of %s: %s", self.peer, reason)
        if self._outbox is not None and not self._outbox.is_empty:
            self._closes_when_sent = True
            return
        self._transport.close()

    def abort(self) -> None:
        """Cut the connection; what was not sent is lost."""
        if self._transport is not None:
            self._transport.abort()

    def drain(self) -> None:
        """Close as soon as the request under way is answered."""
        self._draining = True
        if self._parked is None:
            self.close()

    # Serving.

    def _continue(self) -> None:
        """Serve what is in the connection's own buffer, then make room for more."""
        own = self._own
        if own is None or self._transport is None or self.is_stalled:
            self._make_room()
            return
        self._start = self._serve(own, self._start, self._end)
        if self._start == self._end:
            self._start = self._end = 0
            if len(own) > _KEPT_BYTES or len(own) <= _SHARED_BYTES:
                self._own = None
        self._make_room()

    def _serve(self, data: memoryview, at: int, end: int) -> int:
        """Serve whole requests from `data[at:end]`; returns where the unserved rest starts."""
        call = self._call
        assert call is not None
        replies = Replies()
        try:
            while end - at >= 4:
                (size,) = _unpack_size(data, at)
                if not _SMALLEST_REQUEST_BYTES <= size <= self._limit:
                    raise Refused(f"a request of {size} bytes")
                stop = at + 4 + size
                if stop > end:
                    break
                self.frames += 1
                parked = self._serve_request(data, at + 4, stop, call, replies)
                at = stop
                if parked is not None:
                    self._parked = parked
                    self._await(parked)
                    if call.needs_buffer:
                        call.needs_buffer = False
                        at = self._give_up(data, at, end)
                    break
                if call.wants_close:
                    self._send(replies)
                    self.close()
                    return end
                if replies.buffers or len(replies.tail) > _REPLY_BYTES:
                    # Small requests can have large responses: send, and see whether it takes more.
                    self._send(replies)
                    replies = Replies()
                    if self.is_stalled or self._transport is None:
                        break
        except (Refused, MalformedMessage, UnicodeDecodeError) as error:
            self._send(replies)
            self.close(str(error))
            return end
        except Exception:
            logger.exception("Closing the connection of %s: serving it failed", self.peer)
            self.close()
            return end
        self._send(replies)
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
            # A response is cut in the middle: the client can make nothing of what would follow.
            logger.error("Closing the connection of %s: %s", self.peer, error)
            self.abort()
            return
        if self._closes_when_sent and outbox.is_empty:
            self.close()

    def _await(self, parked: Parked) -> None:
        waited = parked.waited
        if waited is None:
            asyncio.get_running_loop().call_soon(self._resume, None)
            return
        waited._asyncio_future_blocking = False  # As a task does: the future is being waited for.
        waited.add_done_callback(self._resume)

    def _resume(self, _: object) -> None:
        """What a parked handler waited for is there."""
        parked, call = self._parked, self._call
        if parked is None or call is None:
            return  # The peer has gone.
        replies = Replies()
        try:
            if not parked.resume(call, replies):
                self._await(parked)
                return
        except Refused as error:
            self._parked = None
            self.close(str(error))
            return
        self._parked = None
        self._send(replies)
        if call.wants_close or self._draining:
            self.close()
            return
        self._continue()

    # The buffer.

    def _keep(self, data: memoryview, at: int, end: int) -> None:
        """Take the unserved rest out of the shared buffer."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self.is_stalled and _frame_bytes(data, at, end) <= _STASHED_BYTES:
            self._stash = bytes(data[at:end])
            return
        rest = end - at
        self._own = memoryview(bytearray(_capacity(data, at, end)))
        self._own[:rest] = data[at:end]
        self._start, self._end = 0, rest
        self._make_room()

    def _give_up(self, data: memoryview, at: int, end: int) -> int:
        """Leave a buffer to the request that was parked; returns where the unserved rest starts."""
        if data is self._inbox.buffer:
            if at < end:
                self._keep(data, at, end)
            self._inbox.renew()
            return end
        rest = end - at
        self._own = memoryview(bytearray(_capacity(data, at, end)))
        self._own[:rest] = data[at:end]
        self._start, self._end = 0, rest
        return 0

    def _make_room(self) -> None:
        """See to it that the buffer can take more, or stop reading until it can."""
        own, transport = self._own, self._transport
        if transport is None or transport.is_closing():
            return
        full = False
        if own is not None and self._end == len(own):
            full = self.is_stalled and self._end - self._start >= _READ_AHEAD_BYTES
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
        capacity = _capacity(own, self._start, self._end)
        target = own if capacity <= len(own) else memoryview(bytearray(capacity))
        target[:rest] = own[self._start:self._end]
        self._own = target
        self._start, self._end = 0, rest


def _frame_bytes(data: memoryview, at: int, end: int) -> int:
    """The whole size of the request that starts here, as announced."""
    return 4 + int(_unpack_size(data, at)[0]) if end - at >= 4 else 4


def _capacity(data: memoryview, at: int, end: int) -> int:
    """How large a buffer should be for the rest and more of it; always larger than the rest.

    It grows with what has come, not with what was announced: a length alone is no reason to
    hold 100 MiB. It doubles, so that a large request is not copied over and over.
    """
    rest = end - at
    frame = _frame_bytes(data, at, end)
    if frame > rest:
        return min(frame, max(_READ_AHEAD_BYTES, 2 * rest))
    return max(2 * rest, _STASHED_BYTES)
