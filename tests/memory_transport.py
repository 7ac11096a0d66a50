"""An asyncio transport without a socket: bytes come in by `feed` and go out by hooks."""

from __future__ import annotations

import asyncio
from typing import Any

Address = tuple[str, int]


class _NoSocket:
    def fileno(self) -> int:
        return -1


class MemoryTransport(asyncio.Transport):
    """One end of a connection. Subclasses deliver written bytes, and handle the end."""

    def __init__(self, local: Address, peer: Address):
        super().__init__()
        self.protocol: Any = None
        self._local = local
        self._peer = peer
        self._is_closing = False
        self._is_paused = False
        self._unread = bytearray()

    # What subclasses define.

    def sent(self, data: bytes) -> None:
        """The protocol has written this."""
        raise NotImplementedError

    def closed(self) -> None:
        """The protocol closes the connection; earlier data still arrives."""
        raise NotImplementedError

    def aborted(self) -> None:
        """The protocol aborts the connection; data in flight is lost."""
        raise NotImplementedError

    def call_soon(self, callback: Any, *arguments: Any) -> None:
        """Call back from the loop."""
        asyncio.get_running_loop().call_soon(callback, *arguments)

    # Called by the other end or the network.

    def feed(self, data: bytes) -> None:
        """Deliver bytes; they are kept until there is a protocol."""
        if self._is_closing:
            return
        self._unread += data
        while (
            self._unread
            and self.protocol is not None
            and not self._is_paused
            and not self._is_closing
        ):
            if not isinstance(self.protocol, asyncio.BufferedProtocol):
                unread, self._unread = bytes(self._unread), bytearray()
                self.protocol.data_received(unread)
                continue
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(self._unread))  # type: ignore[arg-type]
            buffer[:size] = self._unread[:size]  # type: ignore[index]
            del self._unread[:size]
            self.protocol.buffer_updated(size)

    def end(self) -> None:
        """Deliver the end of what the other side sends, which may still receive."""
        if self.protocol is not None and not self._is_closing and not self.protocol.eof_received():
            self.close()

    def vanish(self) -> None:
        """End the connection, and notify the protocol."""
        if not self._is_closing:
            self._is_closing = True
            self.call_soon(self._lost)

    def kill(self) -> None:
        """End the connection without notifying the protocol, whose process has ended."""
        self._is_closing = True
        self.protocol = None

    # Called by the protocol.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {"peername": self._peer, "sockname": self._local, "socket": _NoSocket()}
        return known.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        """Never 0, since bytes would then be sent to a socket instead of this transport."""
        return 1

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing and data:
            self.sent(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self.call_soon(self.feed, b"")

    def close(self) -> None:
        if not self._is_closing:
            self.closed()
            self.vanish()

    def abort(self) -> None:
        if not self._is_closing:
            self.aborted()
            self.vanish()

    def _lost(self) -> None:
        protocol, self.protocol = self.protocol, None
        if protocol is not None:
            protocol.connection_lost(None)
