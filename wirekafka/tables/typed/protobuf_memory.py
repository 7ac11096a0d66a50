"""The memory that Protobuf messages need when they are decoded, by an upper limit.

The library reserves space for all fields of each message, so that two bytes of a payload, an empty
message in a list, may need kilobytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.descriptor import Descriptor

from wirekafka.tables.typed.assembly import CHUNK_BYTES

_MESSAGE_BYTES = 64
_FIELD_BYTES = 16
_BYTES_PER_BYTE = 32
"""Of a payload of strings, numbers and maps: two bytes may be a string in a list."""
_EXACT_FROM_BYTES = 4 << 20
"""The messages of a payload are counted only if they might need more memory."""
_EXCESSIVE_BYTES_PER_BYTE = 64
_MAX_VARINT_BYTES = 10


@dataclass(slots=True)
class _Kind:
    """A message, with the fields that are messages by their number."""

    size_bytes: int
    fields: dict[int, _Kind] = field(default_factory=dict)


class MessageMemory:
    """The memory that payloads of one message need."""

    def __init__(self, descriptor: Descriptor) -> None:
        kinds: dict[str, _Kind] = {}
        self._root = _kind_of(descriptor, kinds)
        inner = [kind.size_bytes for kind in kinds.values() if kind is not self._root]
        self._largest_ratio = max(_BYTES_PER_BYTE, *(each // 2 for each in inner), 0)

    def bytes_of(self, payload: bytes) -> int:
        """The memory of a payload's messages, exactly only where it might be much."""
        estimate = self._root.size_bytes + len(payload) * self._largest_ratio
        if estimate <= _EXACT_FROM_BYTES:
            return estimate
        counted = _counted_bytes(payload, self._root, most_bytes(payload))
        return min(estimate, counted + _BYTES_PER_BYTE * len(payload))


def most_bytes(payload: bytes) -> int:
    """The memory that a payload may need; more is out of all proportion to its size."""
    return CHUNK_BYTES + _EXCESSIVE_BYTES_PER_BYTE * len(payload)


def _kind_of(descriptor: Descriptor, known: dict[str, _Kind]) -> _Kind:
    kind = known.get(descriptor.full_name)
    if kind is None:
        kind = _Kind(_MESSAGE_BYTES + _FIELD_BYTES * len(descriptor.fields))
        known[descriptor.full_name] = kind
        for each in descriptor.fields:
            if each.message_type is not None:
                kind.fields[each.number] = _kind_of(each.message_type, known)
    return kind


def _counted_bytes(payload: bytes, root: _Kind, most_bytes: int) -> int:
    """The memory of the messages of a payload, up to a limit and a bit more.

    What is broken is left to the library.
    """
    total = root.size_bytes
    open_messages = [(root, 0, len(payload))]
    while open_messages:
        kind, position, end = open_messages.pop()
        while position < end and total <= most_bytes:
            tag, position = _varint(payload, position, end)
            match tag & 7:
                case 0:
                    while position < end and payload[position] >= 0x80:
                        position += 1
                    position += 1
                case 1:
                    position += 8
                case 5:
                    position += 4
                case 2:
                    size_bytes, position = _varint(payload, position, end)
                    inner = kind.fields.get(tag >> 3)
                    if inner is not None:
                        total += inner.size_bytes
                        if size_bytes:
                            inner_end = min(position + size_bytes, end)
                            open_messages.append((inner, position, inner_end))
                    position += size_bytes
                # Groups, which no column has, count as if their fields were of the message.
    return total


def _varint(payload: bytes, position: int, end: int) -> tuple[int, int]:
    if position < end and payload[position] < 0x80:
        return payload[position], position + 1
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if position >= end:
            break
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    return 0, end
