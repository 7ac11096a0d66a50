"""The prefix or header by which a record names its schema: an id of 4 bytes, or a GUID."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from uuid import UUID

KEY_SCHEMA_ID = "__key_schema_id"
VALUE_SCHEMA_ID = "__value_schema_id"
_ID = Struct(">bi")
_ID_MAGIC, _GUID_MAGIC = 0, 1
_GUID_BYTES = 17


@dataclass(frozen=True, slots=True)
class Framed:
    """The reference to a schema, and the payload that it describes."""

    payload: bytes
    id: int | None = None
    guid: UUID | None = None

    @property
    def reference(self) -> int | UUID:
        """The GUID, or else the id."""
        reference = self.id if self.guid is None else self.guid
        assert reference is not None
        return reference


def framed(
    data: bytes, header: str = VALUE_SCHEMA_ID, headers: Iterable[tuple[str, bytes | None]] = ()
) -> Framed | None:
    """The reference of a key or value, from its header or else its prefix; None without one.

    Any value may begin with the byte 0 by chance: the registry knows whether the id exists.
    """
    for name, value in headers:
        if name == header and value is not None:
            found = _prefixed(value)
            if found is not None:
                # The header of a Protobuf message ends with the indexes of its type.
                return Framed(found.payload + data, found.id, found.guid)
    return _prefixed(data)


def _prefixed(data: bytes) -> Framed | None:
    if len(data) >= _ID.size and data[0] == _ID_MAGIC:
        id = _ID.unpack_from(data)[1]
        # No registry gives negative ids: numbers of 8 bytes may look so.
        return None if id < 0 else Framed(data[_ID.size :], id=id)
    if len(data) >= _GUID_BYTES and data[0] == _GUID_MAGIC:
        return Framed(data[_GUID_BYTES:], guid=UUID(bytes=data[1:_GUID_BYTES]))
    return None


def with_id(id: int, payload: bytes) -> bytes:
    """A payload behind the prefix of its schema's id."""
    return _ID.pack(_ID_MAGIC, id) + payload
