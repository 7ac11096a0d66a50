"""Checks the records of a large compressed batch while it is inflated piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.codec.record import SMALLEST_RECORD_BYTES, invalid
from wirekafka.codec.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, decode_varint

_SMALLEST_LENGTH_BYTE = 2 * (SMALLEST_RECORD_BYTES - 1)
_MOST_HEADERS = 1_000_000
"""As many as Kafka accepts in an array of a request."""


class RecordStream:
    """Reads the records of one batch in order, and holds one inflated piece at a time.

    Every method raises KafkaError: INVALID_RECORD where the records are malformed or end early, or
    the error that inflating the next piece raises.
    """

    def __init__(self, pieces: Iterator[bytes | memoryview]):
        self._pieces = pieces
        self._piece: bytes | memoryview = b""
        self._at = 0
        self._passed = 0
        """The bytes before this piece."""
        self.longest = 0
        """The size in bytes of the largest record so far, without its length prefix."""

    def skip(self, count: int) -> None:
        """Pass records by their lengths; costs about 0.1 us a record."""
        piece, at, longest = self._piece, self._at, self.longest
        for _ in range(count):
            if len(piece) - at < MAX_VARINT_BYTES:
                self._at = at
                self._refill()
                piece, at = self._piece, self._at
            start = at
            try:
                low = piece[at]
                if low < 128:
                    size, at = low >> 1, at + 1
                    if low & 1 or low < _SMALLEST_LENGTH_BYTE:
                        raise invalid(f"Found invalid record size at byte {self._passed + start}")
                else:
                    size, at = decode_varint(piece, at)
                    if size < 0:
                        raise invalid(f"Found negative record size at byte {self._passed + start}")
            except (IndexError, ValueError):
                raise invalid("Found fewer whole records than the batch declares") from None
            if size > longest:
                longest = size
            at += size
            if at > len(piece):
                self._at = at - size
                self._advance(size)
                piece, at = self._piece, self._at
        self._at, self.longest = at, longest

    def last(self) -> tuple[int, int]:
        """Check every field of the last record: its timestamp delta and its offset delta."""
        size = self._varint()
        if size < SMALLEST_RECORD_BYTES - 1:
            raise invalid(f"Found a last record of {size} bytes")
        end = self._position + size
        self.longest = max(self.longest, size)
        self._advance(1)  # The attributes have no bits in use.
        timestamp_delta = self._varint(MAX_VARLONG_BYTES)
        offset_delta = self._varint()
        for _ in ("key", "value"):
            self._advance(max(self._varint(), 0))
        count = self._varint()
        if not 0 <= count <= min((end - self._position) // 2, _MOST_HEADERS):
            raise invalid(f"Found {count} headers in {end - self._position} bytes")
        for _ in range(count):
            name_bytes = self._varint()
            if name_bytes < 0:
                raise invalid("Found a header without a name")
            self._advance(name_bytes)
            self._advance(max(self._varint(), 0))
        if self._position != end:
            raise invalid(f"Found a record whose fields end {end - self._position} bytes before it")
        return timestamp_delta, offset_delta

    def end(self) -> None:
        """Check that nothing follows."""
        if self._at < len(self._piece) or any(map(len, self._pieces)):
            raise invalid("Incorrect declared batch size, records still remaining in file")

    @property
    def _position(self) -> int:
        return self._passed + self._at

    def _varint(self, most_bytes: int = MAX_VARINT_BYTES) -> int:
        unsigned = 0
        for shift in range(0, 7 * most_bytes, 7):
            while self._at >= len(self._piece):
                self._next()
            byte = self._piece[self._at]
            self._at += 1
            unsigned |= (byte & 0x7F) << shift
            if byte < 128:
                unsigned &= (1 << (64 if most_bytes > MAX_VARINT_BYTES else 32)) - 1
                return (unsigned >> 1) ^ -(unsigned & 1)
        raise invalid(f"Found a varint of more than {most_bytes} bytes")

    def _advance(self, size_bytes: int) -> None:
        self._at += size_bytes
        while self._at > len(self._piece):
            self._next()

    def _next(self) -> None:
        """Go on to the next piece, whose first bytes may be passed already."""
        piece = next(self._pieces, None)
        if piece is None:
            raise invalid("Found records that end before the batch declares")
        self._at -= len(self._piece)
        self._passed += len(self._piece)
        self._piece = piece

    def _refill(self) -> None:
        """Join the rest of this piece, less than a varint, with what follows it."""
        rest = bytes(self._piece[self._at :])
        self._passed += self._at
        while len(rest) < MAX_VARINT_BYTES and (piece := next(self._pieces, None)) is not None:
            rest += bytes(piece)
        self._piece, self._at = rest, 0
