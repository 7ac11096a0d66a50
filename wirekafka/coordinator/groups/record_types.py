"""Rows of the table of group records: how each class of records is encoded and decoded."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from struct import Struct
from typing import Any, NamedTuple

from wirekafka.bounded_memory import Remembered
from wirekafka.codec.message import Message

_VERSION = Struct(">h")
_VALUE_PREFIX = _VERSION.pack(0)
_KEYS_BYTES = 512 << 10
"""Of keys kept encoded for each class of records: members get new assignments again and again."""


class RecordType(NamedTuple):
    """A row of the table: a class of records and how it is encoded and decoded.

    `unpack` gets the key, its version included, and the value, None for a tombstone.
    """

    record: type
    key_versions: tuple[int, ...]
    pack: Callable[[Any], tuple[bytes, bytes | None]]
    unpack: Callable[[bytes, bytes | None], Any]


def record_type(record: type, key: type[Message], value: type[Message]) -> RecordType:
    """Return the row of a class of named tuples of the key's fields and the value.

    A value of None is a tombstone.
    """
    prefix = _VERSION.pack(key.key)
    names = [field.name for field in key.fields]

    def pack_key(ids: tuple[Any, ...]) -> bytes:
        return prefix + key(**dict(zip(names, ids, strict=True))).encode(0)

    packed_keys = Remembered[tuple[Any, ...], bytes](_KEYS_BYTES, find=pack_key)
    encoder = cache(partial(value.encoder, 0))
    """Compiled at its first use: the import of this module must be quick."""

    def pack(packed: Any) -> tuple[bytes, bytes | None]:
        content = packed[-1]
        if content is None:
            return packed_keys[packed[:-1]], None
        encoded = encoder()(content, [], bytearray(_VALUE_PREFIX))
        return packed_keys[packed[:-1]], bytes(encoded)

    def unpack(packed_key: bytes, packed: bytes | None) -> Any:
        ids = key.decode(packed_key, 0, _VERSION.size)
        content = None
        if packed is not None:
            (version,) = _VERSION.unpack_from(packed)
            content = value.decode(packed, version, _VERSION.size)
        return record(*(getattr(ids, name) for name in names), content)

    return RecordType(record, (key.key,), pack, unpack)
