"""A batch whose records contradict its header, behind a right checksum, and a whole one."""

from __future__ import annotations

import struct

from wirekafka.codec.crc import crc32c
from wirekafka.codec.record import BatchOptions, Record, encode_batch

WHOLE_BATCH = encode_batch([Record(value=b"a"), Record(value=b"b")])


def contradictory_batch(base_offset: int) -> bytes:
    """A batch of two records whose header promises three."""
    records = [Record(value=b"c"), Record(value=b"d")]
    batch = bytearray(encode_batch(records, options=BatchOptions(base_offset=base_offset)))
    struct.pack_into(">i", batch, 57, 3)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


CONTRADICTORY_BATCH = contradictory_batch(2)
