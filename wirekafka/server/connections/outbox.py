"""The output queue of a connection: buffers and slices of log files, sent by `sendfile`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from wirekafka.log.files import Buffer
from wirekafka.log.slice import LogSlice

Chunk = Buffer | LogSlice

HIGH_WATER_BYTES = 1 << 17
_WAITING_BYTES = 1 << 12
"""How much is written to a transport so that it reports when its socket has room again."""
_READ_BYTES = 1 << 16
"""How much of a file is read at a time where `sendfile` cannot be used."""


class Outbox:
    """Sends chunks in order while the transport accepts them; unsent records stay in their file.

    The kind of transport decides how files are sent: by `sendfile` to the descriptor of a plain
    socket, otherwise (TLS, simulation) by reading them and writing to the transport.
    """

    __slots__ = ("_chunks", "_sender", "_transport", "is_paused")

    def __init__(self, transport: asyncio.Transport):
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._sender: _Sender = (
            _SendfileSender(transport)
            if _is_plain_socket(transport)
            else _TransportSender(transport)
        )
        self._chunks: list[Chunk] = []
        self.is_paused = False
        """Whether the transport has called `pause_writing`."""

    @property
    def is_empty(self) -> bool:
        """Whether all chunks were passed to the transport."""
        return not self._chunks

    def queue(self, chunks: Iterable[Chunk]) -> None:
        """Append chunks, to be sent by `flush`."""
        self._chunks.extend(chunks)

    def flush(self) -> None:
        """Send until the queue is empty or the transport pauses it.

        Raises OSError when a file cannot be read: the response cannot be completed then.
        """
        chunks, transport = self._chunks, self._transport
        while chunks and not self.is_paused:
            if transport.is_closing():
                chunks.clear()  # The descriptor may be another connection's by now.
                return
            chunk = chunks[0]
            if not isinstance(chunk, LogSlice):
                front = self._taken_up_to_file()
                self._sender.write(front, is_followed=bool(chunks))
                continue
            del chunks[0]
            rest = self._sender.send_file(chunk)
            if rest is not None:
                chunks.insert(0, rest)

    def _taken_up_to_file(self) -> list[Buffer]:
        """Remove and return the buffers before the first file slice, for one system call."""
        front: list[Buffer] = []
        for chunk in self._chunks:
            if isinstance(chunk, LogSlice):
                break
            front.append(chunk)
        del self._chunks[: len(front)]
        return front


class _Sender(Protocol):
    """How chunks are written to one kind of transport."""

    def write(self, buffers: list[Buffer], *, is_followed: bool) -> None:
        """Send buffers; `is_followed` if a file slice comes next."""

    def send_file(self, records: LogSlice) -> LogSlice | None:
        """Send part of a slice; returns the unsent rest, or None. Raises OSError."""


class _SendfileSender:
    """Sends files by `sendfile` to the descriptor of a plain socket, past the transport.

    No asyncio or uvloop transport does this for a protocol. The order is kept because it is done
    only while the transport has nothing left to write. When the socket is full, one piece is
    written to the transport, which then reports when there is room again.
    """

    __slots__ = ("_descriptor", "_transport")

    def __init__(self, transport: asyncio.Transport):
        self._transport = transport
        self._descriptor: int = transport.get_extra_info("socket").fileno()

    def write(self, buffers: list[Buffer], *, is_followed: bool) -> None:
        """Write to the descriptor if a file follows, which must not overtake the buffers."""
        if is_followed and not self._transport.get_write_buffer_size():
            data = b"".join(buffers)
            with suppress(OSError):  # The transport gets the same error and handles it.
                data = data[os.write(self._descriptor, data) :]
            if not data:
                return
            buffers = [data]
        self._transport.writelines(buffers)

    def send_file(self, records: LogSlice) -> LogSlice | None:
        """Send as much as the socket takes; returns the unsent rest, or None."""
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
            piece = file.pread(min(size_bytes - sent, _WAITING_BYTES), position + sent)
            if not piece:
                raise _ended(records)
            # A limit of 0 bytes: the transport pauses this as soon as the socket takes no more.
            self._transport.set_write_buffer_limits(high=0)
            self._transport.write(piece)
            self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
            sent += len(piece)
        return LogSlice(file, position + sent, size_bytes - sent) if sent < size_bytes else None


class _TransportSender:
    """Reads files and writes their bytes to the transport, which encrypts or simulates."""

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport):
        self._transport = transport

    def write(self, buffers: list[Buffer], *, is_followed: bool) -> None:
        """Write the buffers to the transport."""
        self._transport.writelines(buffers)

    def send_file(self, records: LogSlice) -> LogSlice | None:
        """Send the next piece; returns the unsent rest, or None."""
        [(file, position, size_bytes)] = records.regions()
        piece = file.pread(min(size_bytes, _READ_BYTES), position)
        if not piece:
            raise _ended(records)
        self._transport.write(piece)
        sent = len(piece)
        return LogSlice(file, position + sent, size_bytes - sent) if sent < size_bytes else None


def _is_plain_socket(transport: asyncio.Transport) -> bool:
    """Whether bytes written to the transport's descriptor reach the peer unchanged (no TLS)."""
    for secret in ("sslcontext", "ssl_object"):
        if transport.get_extra_info(secret) is not None:
            return False
    socket = transport.get_extra_info("socket")
    return socket is not None and socket.fileno() >= 0


def _ended(records: LogSlice) -> OSError:
    [(file, position, size_bytes)] = records.regions()
    return OSError(f"{file.path} ends before {position + size_bytes}")
