"""What a connection has still to send: buffers, and slices of files that are not read for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress

from wirekafka.log.files import Buffer
from wirekafka.log.slice import LogSlice

Chunk = Buffer | LogSlice

HIGH_WATER_BYTES = 1 << 17
_PIECE_BYTES = 1 << 12
"""What the transport is given to wait with: it is copied, unlike what `sendfile` takes."""


class Outbox:
    """Hands chunks to the transport in order, files' by `sendfile` where the socket takes them.

    Neither loop's transport sends files for a protocol, so the system call goes past it: that
    keeps the order while the transport itself has nothing left to write. When a socket is full,
    one piece goes to the transport, which then says when there is room again; the rest waits in
    its file, not in memory.
    """

    __slots__ = ("_chunks", "_descriptor", "_transport", "is_paused")

    def __init__(self, transport: asyncio.Transport):
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        self._chunks: list[Chunk] = []
        self.is_paused = False
        """Whether the transport has said that it has enough."""

    @property
    def is_empty(self) -> bool:
        """Whether the transport has got everything."""
        return not self._chunks

    def queue(self, chunks: Iterable[Chunk]) -> None:
        """Put chunks behind what is there, to be sent by `flush`."""
        self._chunks.extend(chunks)

    def flush(self) -> None:
        """Send until all is sent or the transport pauses it.

        Raises OSError when a file cannot be read: what was begun cannot be finished then.
        """
        chunks, transport = self._chunks, self._transport
        while chunks and not self.is_paused:
            if transport.is_closing():
                chunks.clear()  # The descriptor may be another connection's by now.
                return
            chunk = chunks[0]
            if not isinstance(chunk, LogSlice):
                self._write(self._taken_up_to_file())
                continue
            del chunks[0]
            rest = self._send_file(chunk)
            if rest is not None:
                chunks.insert(0, rest)

    def _taken_up_to_file(self) -> list[Buffer]:
        """The buffers in front, to go in one system call."""
        front: list[Buffer] = []
        for chunk in self._chunks:
            if isinstance(chunk, LogSlice):
                break
            front.append(chunk)
        del self._chunks[: len(front)]
        return front

    def _write(self, buffers: list[Buffer]) -> None:
        """Past the transport too if a file follows, which must not overtake them."""
        if self._chunks and not self._transport.get_write_buffer_size():
            data = b"".join(buffers)
            with suppress(OSError):  # The transport meets it again, and does what is right.
                data = data[os.write(self._descriptor, data) :]
            if not data:
                return
            buffers = [data]
        self._transport.writelines(buffers)

    def _send_file(self, records: LogSlice) -> LogSlice | None:
        """Send from the file's cached pages; what is left of it, if anything."""
        [(file, position, size_bytes)] = records.regions()
        sent = 0
        if not self._transport.get_write_buffer_size():
            try:
                sent = os.sendfile(self._descriptor, file.fileno(), position, size_bytes)
                if not sent:
                    raise _ended(records)
            except (BlockingIOError, ConnectionError):
                sent = 0
        if sent < size_bytes:
            piece = file.pread(min(size_bytes - sent, _PIECE_BYTES), position + sent)
            if not piece:
                raise _ended(records)
            # Without a limit for once, so that what the socket does not take pauses this.
            self._transport.set_write_buffer_limits(high=0)
            self._transport.write(piece)
            self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
            sent += len(piece)
        return LogSlice(file, position + sent, size_bytes - sent) if sent < size_bytes else None


def _ended(records: LogSlice) -> OSError:
    [(file, position, size_bytes)] = records.regions()
    return OSError(f"{file.path} ends before {position + size_bytes}")
