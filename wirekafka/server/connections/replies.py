"""Encodes the responses to all requests of one read into few buffers."""

from __future__ import annotations

from collections import Counter
from struct import Struct
from typing import Any

from wirekafka.apis.shared.routes import Route
from wirekafka.codec.message import Response

_RESPONSE_HEADER = Struct(">ii")
_SIZE = Struct(">i")


class Replies:
    """Encoded responses in the order of their requests, each after its size prefix.

    Small responses share one bytearray; records are referenced, not copied.
    """

    __slots__ = ("buffers", "last", "tail")

    def __init__(self) -> None:
        self.buffers: list[Any] = []
        """Finished bytes and slices of log files."""
        self.tail = bytearray()
        self.last: Response | Counter[int] | None = None
        """The latest response that was encoded, or the number of each error in it, for metrics."""

    @property
    def size_bytes(self) -> int:
        """The size of all responses."""
        size_bytes = len(self.tail)
        return size_bytes + sum(map(len, self.buffers)) if self.buffers else size_bytes

    def add(self, route: Route, correlation_id: int, response: Response) -> None:
        """Encode a response and append it; on an error nothing is appended."""
        buffers, tail = self.buffers, self.tail
        start, first = len(tail), len(buffers)
        head = tail
        tail += _RESPONSE_HEADER.pack(0, correlation_id)
        if route.response_header_is_flexible:
            tail.append(0)
        try:
            tail = route.encode(response, buffers, tail)
        except BaseException:
            del buffers[first:], head[start:]
            self.tail = head
            raise
        size = len(tail) - start - 4
        if tail is not head:
            size += sum(map(len, buffers[first:]))
        _SIZE.pack_into(head, start, size)
        self.tail = tail
        self.last = response

    def add_bare(self, token: bytes) -> None:
        """Append a SASL token without a response header around it."""
        self.tail += _SIZE.pack(len(token)) + token

    def append(self, others: Replies) -> None:
        """Append responses that were collected apart from these."""
        self.last = others.last
        if others.buffers:
            if self.tail:
                self.buffers.append(self.tail)
            self.buffers += others.buffers
            self.tail = others.tail
        else:
            self.tail += others.tail
