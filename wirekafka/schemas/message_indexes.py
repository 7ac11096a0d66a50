"""The indexes with which a Protobuf payload begins: which of a schema's messages it is."""

from __future__ import annotations

from wirekafka.schemas.schema import ValueMismatch

_MAX_INDEXES = 40
_MAX_VARINT_BYTES = 10


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes from the outermost message on, and where they end. Raises ValueMismatch."""
    count, end = _zigzag(payload, 0)
    if count == 0:
        return (0,), end
    if not 0 < count <= _MAX_INDEXES:
        raise ValueMismatch(f"{count} indexes of a message are not valid")
    indexes = []
    for _ in range(count):
        index, end = _zigzag(payload, end)
        indexes.append(index)
    return tuple(indexes), end


def _zigzag(payload: bytes, start: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(payload[start : start + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), start + position + 1
    raise ValueMismatch("The indexes of the message are truncated")
