"""Gzip of a text that changes in parts: parts that are as before are not compressed again."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from itertools import groupby
from struct import Struct

_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK = b"\x03\x00"
"""An empty deflate block that ends the stream."""
_trailer = Struct("<II").pack
_LARGE = 1 << 14
"""Parts from this length on are kept; smaller parts are compressed together."""
_LEVEL = 1
"""The text is repetitive: a higher level takes ten times as long for a tenth less."""


class DeflatedParts:
    """The compressed form of the large parts of the last text."""

    def __init__(self) -> None:
        self._known: Mapping[str, tuple[bytes, bytes]] = {}

    def gzip(self, parts: Iterable[str]) -> bytes:
        """The parts, joined and compressed, as one gzip member.

        Each part ends in a full flush, so that its bytes do not depend on the parts before it.
        Several threads may call this, and then do the same work.
        """
        known = self._known
        kept = {}
        out = [_HEADER]
        size = 0
        crc = 0
        for is_large, group in groupby(parts, lambda part: len(part) >= _LARGE):
            for part in group if is_large else ("".join(group),):
                found = known.get(part) or _deflated(part)
                if is_large:
                    kept[part] = found
                raw, deflated = found
                out.append(deflated)
                size += len(raw)
                crc = zlib.crc32(raw, crc)
        self._known = kept
        return b"".join([*out, _LAST_BLOCK, _trailer(crc, size & 0xFFFFFFFF)])


def _deflated(part: str) -> tuple[bytes, bytes]:
    raw = part.encode()
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return raw, compressor.compress(raw) + compressor.flush(zlib.Z_FULL_FLUSH)
