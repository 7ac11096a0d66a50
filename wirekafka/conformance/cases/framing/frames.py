"""Frames of bytes: headers as clients write them."""

from __future__ import annotations

import struct

from wirekafka.codec.frame import encode_frame

CORRELATION_ID = 7
CLIENT_ID = b"\0\3kit"
NULL = b"\xff\xff"


def head(
    key: int, version: int, correlation_id: int = CORRELATION_ID, client_id: bytes = CLIENT_ID
) -> bytes:
    """The header of a request without tags."""
    return struct.pack(">hhi", key, version, correlation_id) + client_id


def text(data: bytes) -> bytes:
    """A string as old versions have it."""
    return struct.pack(">h", len(data)) + data


def compact(data: bytes) -> bytes:
    """A short string as flexible versions have it."""
    assert len(data) < 127
    return bytes([len(data) + 1]) + data


def framed(*parts: bytes) -> bytes:
    """The parts after their size."""
    return encode_frame(parts)
