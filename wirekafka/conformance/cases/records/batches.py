"""Batches of records that no encoder makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.codec.batch import HEADER, HEADER_BYTES, checksum, read_header
from wirekafka.codec.compression import Codec, compress
from wirekafka.codec.record import Record, encode_record
from wirekafka.conformance.stage import TIME_MS, batch


def forged(data: bytes, **fields: Any) -> bytes:
    """A batch with other fields in its header and, unless given, the checksum that fits them."""
    header = read_header(data)._replace(**fields)
    changed = bytearray(HEADER.pack(*header) + data[HEADER_BYTES:])
    if "crc" not in fields:
        changed[17:21] = checksum(changed).to_bytes(4, "big")
    return bytes(changed)


def holding(bodies: Sequence[bytes], codec: Codec = Codec.NONE, **fields: Any) -> bytes:
    """A batch around record bytes of any kind."""
    body = compress(codec, b"".join(bodies))
    count = len(bodies)
    usual: dict[str, Any] = {
        "length": HEADER_BYTES - 12 + len(body),
        "attributes": int(codec),
        "count": count,
        "last_offset_delta": count - 1,
        "max_timestamp": TIME_MS + count - 1,
    }
    return forged(batch()[:HEADER_BYTES] + body, **{**usual, **fields})


def body_of(offset_delta: int, timestamp_delta: int = 0) -> bytes:
    """A record as it is in a batch."""
    return encode_record(Record(key=b"k", value=b"v"), offset_delta, timestamp_delta)
