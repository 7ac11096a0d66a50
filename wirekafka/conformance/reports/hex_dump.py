"""Bytes of requests and answers, in lines of sixteen with their text beside them."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.conformance.wire import WireExchange

_MOST_BYTES = 2048


def exchange_lines(exchange: WireExchange) -> Iterator[str]:
    """The bytes of a request, with the size of its frame, and of the answer, without it."""
    yield f"request, {len(exchange.sent)} bytes"
    yield from hex_lines(exchange.sent)
    if isinstance(exchange.answer, str) and not exchange.received:
        yield f"answer: {exchange.answer}"
        return
    yield f"answer, {len(exchange.received)} bytes without the size of the frame"
    yield from hex_lines(exchange.received)


def hex_lines(data: bytes) -> Iterator[str]:
    """Offset, bytes and ASCII text; of long data only the beginning."""
    for at in range(0, min(len(data), _MOST_BYTES), 16):
        row = data[at : at + 16]
        halves = f"{row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}"
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        yield f"  {at:08x}  {halves}  {text}"
    if len(data) > _MOST_BYTES:
        yield f"  ... {len(data) - _MOST_BYTES} more bytes"
