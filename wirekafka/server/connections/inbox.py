"""The buffer that connections read into, and how large a connection's own one has to be."""

from __future__ import annotations

from struct import Struct

_unpack_size = Struct(">i").unpack_from
SHARED_BYTES = 1 << 18
STASHED_BYTES = 1 << 16
READ_AHEAD_BYTES = 1 << 20
_LEAST_BYTES = 1 << 12
_MOST_AHEAD = 16


class Inbox:
    """The read buffer shared by all connections of an event loop that hold no unserved bytes.

    The loop calls `get_buffer`, reads and calls `buffer_updated` without a break, so one buffer
    serves all: it stays in the processor's cache, and an idle connection holds none.
    """

    __slots__ = ("buffer", "reads")

    def __init__(self) -> None:
        self.reads = 0
        """Counts the reads, to find the least recently used connection."""
        self.renew()

    def renew(self) -> None:
        """Replace the buffer, because a waiting request still refers to the old buffer."""
        self.buffer = memoryview(bytearray(SHARED_BYTES))


def request_bytes(data: memoryview, at: int, end: int) -> int:
    """The size in bytes of the request that starts at `at`, by its size prefix; 4 if unknown."""
    return 4 + int(_unpack_size(data, at)[0]) if end - at >= 4 else 4


def capacity_for(data: memoryview, at: int, end: int) -> int:
    """The size in bytes of a buffer for `data[at:end]` and further bytes; larger than `end - at`.

    The size depends on the bytes received, not on the announced size: a size prefix alone must not
    make the broker allocate 100 MiB. It grows by factors, so that a large request is copied few
    times.
    """
    rest = end - at
    frame = request_bytes(data, at, end)
    if frame > rest:
        ahead = min(READ_AHEAD_BYTES, _MOST_AHEAD * rest)
        return min(frame, max(_LEAST_BYTES, ahead, 2 * rest))
    return max(2 * rest, STASHED_BYTES)
