"""Reads size-prefixed frames from a connection; large ones are received into their own buffer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from struct import Struct
from typing import Any, Protocol

_SIZE = Struct(">i")
_INBOX_BYTES = 1 << 16
_LEAST_BYTES = 4
_LARGEST_SPARE_BYTES = 16 << 20


class FrameOwner(Protocol):
    """Receives the frames of a `FrameReader`."""

    def received(self, frame: memoryview) -> None:
        """Process a whole frame, without its size prefix; the owner may keep the buffer."""

    def lost(self, reason: str) -> None:
        """Note that the connection is closed; no frame follows."""


class FrameReader(asyncio.BufferedProtocol):
    """The receiving side of a connection to another node.

    Bytes are received into an inbox, from which complete frames are copied. A frame that does not
    fit gets a buffer of its size, into which the rest is received directly: of a large response,
    only the first 64 KiB are copied twice. That buffer is used again once nothing refers to the
    response any more: allocating and zeroing 10 MB costs as much as receiving them.
    """

    def __init__(self, owner: FrameOwner, largest_bytes: int):
        self._owner: FrameOwner | None = owner
        self._largest_bytes = largest_bytes
        self._transport: asyncio.BaseTransport | None = None
        self._inbox = memoryview(bytearray(_INBOX_BYTES))
        self._filled = 0
        self._frame: memoryview | None = None
        """The buffer of a partly received frame, filled up to `_arrived`."""
        self._arrived = 0
        self._spare = bytearray()
        """The buffer of the last large frame."""

    # asyncio.BufferedProtocol, called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> Any:
        if self._frame is not None:
            return self._frame[self._arrived :]
        return self._inbox[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is None:
            self._filled += nbytes
            self._take_frames()
            return
        self._arrived += nbytes
        if self._arrived == len(self._frame):
            frame, self._frame = self._frame, None
            self._deliver(frame)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(str(exc) if exc is not None else "the peer closed the connection")

    # For the owner.

    def forget_owner(self) -> None:
        """Report nothing to the owner from now on, not even the end of the connection."""
        self._owner = None

    def _take_frames(self) -> None:
        inbox, at, end = self._inbox, 0, self._filled
        while end - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(inbox, at)
            if not _LEAST_BYTES <= size <= self._largest_bytes:
                self._refuse(size)
                return
            at += _SIZE.size
            if size > end - at:
                self._frame = self._buffer(size)
                self._arrived = end - at
                self._frame[: self._arrived] = inbox[at:end]
                at = end
                break
            self._deliver(memoryview(bytes(inbox[at : at + size])))
            at += size
        rest = end - at
        if rest:
            inbox[:rest] = bytes(inbox[at:end])
        self._filled = rest

    def _buffer(self, size: int) -> memoryview:
        """Return a buffer for a frame: the last buffer if it is large enough and not in use."""
        spare = self._spare
        if size <= len(spare):
            with suppress(BufferError):
                spare.append(0)  # Fails while a view of the last frame exists.
                return memoryview(spare)[:size]
        buffer = bytearray(size + size // 8)  # The next ones may be slightly larger.
        if size <= _LARGEST_SPARE_BYTES:
            self._spare = buffer
        return memoryview(buffer)[:size]

    def _deliver(self, frame: memoryview) -> None:
        if self._owner is not None:
            self._owner.received(frame)

    def _refuse(self, size_bytes: int) -> None:
        self._filled = 0
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()
        self._lose(f"a response of {size_bytes} bytes")

    def _lose(self, reason: str) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(reason)
