"""Encodes and decodes coordinator records that consist of the key's fields and one value."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from wirekafka.codec.message import Message

_VERSION = Struct(">h")
_VALUE_PREFIX = _VERSION.pack(0)


class Packing(NamedTuple):
    """How one class of records is encoded and decoded; a row of the table of records."""

    record: type
    key_versions: tuple[int, ...]
    pack: Callable[[Any], tuple[bytes, bytes | None]]
    unpack: Callable[[bytes, bytes | None], Any]


def packing(record: type, key: type[Message], value: type[Message]) -> Packing:
    """Return the packing of a named tuple of the key's fields and the value.

    A value of None is a tombstone.
    """
    prefix = _VERSION.pack(key.key)
    names = [field.name for field in key.fields]

    def pack(packed: Any) -> tuple[bytes, bytes | None]:
        *ids, content = packed
        packed_key = prefix + key(**dict(zip(names, ids, strict=True))).encode(0)
        return packed_key, None if content is None else _VALUE_PREFIX + content.encode(0)

    def unpack(packed_key: bytes, packed: bytes | None) -> Any:
        ids = key.decode(packed_key, 0, _VERSION.size)
        content = None
        if packed is not None:
            (version,) = _VERSION.unpack_from(packed)
            content = value.decode(packed, version, _VERSION.size)
        return record(*(getattr(ids, name) for name in names), content)

    return Packing(record, (key.key,), pack, unpack)
