"""The cleaner's map from each key to its latest offset, in 24 bytes a key."""

from __future__ import annotations

from hashlib import md5
from struct import Struct

ENTRY_BYTES = 24
"""A 16-byte hash and an offset, as in Kafka: keys themselves are not stored."""

_HASH_BYTES = 16
_OFFSET = Struct(">q")
_PARTS = Struct("<QQ")
_EMPTY = bytes(_HASH_BYTES)
_MOST_PENDING = 1 << 14


class OffsetMap:
    """At most `limit` keys and their latest offsets; offsets are put in growing order.

    Keys seen lately wait in a dict of bounded size, so that a few keys written over and over
    cost one hash for many records.
    """

    __slots__ = ("_entries", "_pending", "_slots", "_stored", "latest_offset", "limit")

    def __init__(self, slots: int, load_factor: float):
        self._slots = max(slots, 8)
        self._entries = bytearray(self._slots * ENTRY_BYTES)
        self._pending: dict[bytes, int] = {}
        self._stored = 0
        self.limit = max(int(self._slots * load_factor), 1)
        self.latest_offset = -1
        """The last offset the map covers: later records must be kept."""

    def __len__(self) -> int:
        self._store_pending()
        return self._stored

    def put_all(self, keys: list[tuple[bytes | None, int]], base_offset: int) -> bool:
        """Store each key's offset, relative to a base; returns whether there was room for all."""
        pending = self._pending
        if self._stored + len(pending) + len(keys) > self.limit or len(pending) > _MOST_PENDING:
            self._store_pending()
            if self._stored + len(keys) > self.limit:
                return self._put_one_by_one(keys, base_offset)
        for key, delta in keys:
            if key is not None:
                pending[key] = base_offset + delta
        return True

    def get(self, key: bytes) -> int:
        """The latest offset of a key; -1 for an unknown one."""
        found = self._pending.get(key)
        if found is not None:
            return found
        digest, at = self._find(key)
        if self._entries[at : at + _HASH_BYTES] != digest:
            return -1
        offset: int = _OFFSET.unpack_from(self._entries, at + _HASH_BYTES)[0]
        return offset

    def _put_one_by_one(self, keys: list[tuple[bytes | None, int]], base_offset: int) -> bool:
        for key, delta in keys:
            if key is None:
                continue
            if self._stored >= self.limit:
                return False
            self._store(key, base_offset + delta)
            self.latest_offset = base_offset + delta
        return True

    def _store_pending(self) -> None:
        for key, offset in self._pending.items():
            self._store(key, offset)
        self._pending.clear()

    def _store(self, key: bytes, offset: int) -> None:
        digest, at = self._find(key)
        entries = self._entries
        if entries[at : at + _HASH_BYTES] != digest:
            entries[at : at + _HASH_BYTES] = digest
            self._stored += 1
        _OFFSET.pack_into(entries, at + _HASH_BYTES, offset)

    def _find(self, key: bytes) -> tuple[bytes, int]:
        """The key's hash, and where its entry is or has to go."""
        digest = md5(key, usedforsecurity=False).digest()
        first, step = _PARTS.unpack(digest)
        entries, slots = self._entries, self._slots
        slot = first % slots
        at = slot * ENTRY_BYTES
        found = entries[at : at + _HASH_BYTES]
        if found != digest and found != _EMPTY:
            step = 1 + step % (slots - 1)
            tries = 0
            while found != digest and found != _EMPTY:
                tries += 1
                # Steps may share a factor with the number of slots; neighbours never do.
                slot = (slot + (step if tries < 32 else 1)) % slots
                at = slot * ENTRY_BYTES
                found = entries[at : at + _HASH_BYTES]
        return digest, at
