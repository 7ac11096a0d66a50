"""The bytes of one Avro payload, read from its begin to its end."""

from __future__ import annotations

from wirekafka.schemas.schema import ValueMismatch

_MAX_VARINT_BITS = 70


class AvroPayload:
    """A payload, and the position of what comes next. Raises ValueMismatch."""

    def __init__(self, data: bytes):
        self.data = data
        self.position = 0

    def take(self, size_bytes: int) -> bytes:
        """The next bytes."""
        start = self.position
        end = start + size_bytes
        if size_bytes < 0:
            raise ValueMismatch(f"A length is negative: {size_bytes}")
        if end > len(self.data):
            raise ValueMismatch("The payload ends within a value")
        self.position = end
        return self.data[start:end]

    def read_long(self) -> int:
        """An integer of 64 bits at most, 7 bits a byte, the lowest first."""
        data, position = self.data, self.position
        result = shift = 0
        while True:
            if position >= len(data):
                raise ValueMismatch("The payload ends within a value")
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift == _MAX_VARINT_BITS:
                raise ValueMismatch("An integer has more than 64 bits")
        if result >> 64:
            raise ValueMismatch("An integer has more than 64 bits")
        self.position = position
        return (result >> 1) ^ -(result & 1)

    def read_string(self) -> str:
        """A string behind its length."""
        try:
            return self.take(self.read_long()).decode()
        except UnicodeDecodeError as error:
            raise ValueMismatch(f"A string is not UTF-8: {error.reason}") from None
