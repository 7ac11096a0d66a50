"""Produce: what is appended, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

from wirekafka.codec.batch import with_prefix
from wirekafka.codec.crc import crc32c
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import TIME_MS, Stage, batch
from wirekafka.protocol.produce import ProduceRequest

BOOK = Book(ProduceRequest, "produce", ConformanceLevel.CORE, "ProduceRequest.json")

_GZIP, _ZSTD = 1, 4
_LARGE = encode_batch([Record(0, TIME_MS, None, b"x" * 1_100_000)], options=BatchOptions())
_LATER = encode_batch([Record(0, 2**45, b"k", b"v")], options=BatchOptions())


def patched(records: bytes, at: int, layout: str, value: Any, *, fix_crc: bool = True) -> bytes:
    """A batch with one header field changed and, by default, its checksum updated."""
    changed = bytearray(records)
    struct.pack_into(layout, changed, at, value)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


_BATCHES: dict[str, bytes] = {
    "a wrong checksum": patched(batch(), 17, ">I", 12345, fix_crc=False),
    "magic 0": patched(batch(), 16, ">b", 0, fix_crc=False),
    "magic 1": patched(batch(), 16, ">b", 1, fix_crc=False),
    "magic 3": patched(batch(), 16, ">b", 3, fix_crc=False),
    "two batches": batch() + batch(),
    "nothing": b"",
    "half a header": batch()[:30],
    "a batch cut short": batch()[:-5],
    "bytes after the batch": batch() + b"\0\0\0",
    "a length of 0": patched(batch(), 8, ">i", 0, fix_crc=False),
    "a count too high": patched(batch(), 57, ">i", 4),
    "a count too low": patched(batch(), 57, ">i", 2),
    "a count below zero": patched(batch(), 57, ">i", -1),
    "a last offset delta too high": patched(batch(), 23, ">i", 5),
    "a negative last offset delta": patched(batch(), 23, ">i", -1),
    "a base offset": b"".join(bytes(part) for part in with_prefix(batch(), 7, 3)),
    "unknown compression": patched(batch(), 21, ">h", 7),
    "gzip that is none": patched(batch(), 21, ">h", _GZIP),
    "a control batch": batch(is_control=True),
    "LogAppendTime": patched(batch(), 21, ">h", 8),
    "a producer id without sequence": batch(producer_id=5, producer_epoch=0),
    "a negative epoch": batch(producer_id=5, producer_epoch=-2, base_sequence=0),
    "an unused attribute bit": patched(batch(), 21, ">h", 0x80),
    "zstd": batch(compression=_ZSTD),
}

for _what, _records in _BATCHES.items():

    @BOOK.play(_what, source="KIP-98")
    def _append(stage: Stage, records: bytes = _records) -> None:
        name = stage.create()
        stage.ask(stage.produce_request(name, records))


BOOK.ask("to a missing topic", lambda s: s.produce_request(s.missing, batch()))
BOOK.ask("to a missing partition", lambda s: s.produce_request(s.topic, batch(), partition=9))
BOOK.ask("to a negative partition", lambda s: s.produce_request(s.topic, batch(), partition=-1))
BOOK.ask("with acks 2", lambda s: s.produce_request(s.topic, batch(), acks=2))
BOOK.ask("with acks minus 2", lambda s: s.produce_request(s.topic, batch(), acks=-2))
BOOK.ask("keyless to a compacted topic", lambda s: s.produce_request(s.compacted, batch(key=None)))
BOOK.ask("too much", lambda s: s.produce_request(s.topic, _LARGE), source="KIP-126")
BOOK.ask("far in the future", lambda s: s.produce_request(s.topic, _LATER), source="KIP-937")
BOOK.ask("to the metadata log", lambda s: s.produce_request("__cluster_metadata", batch()))
BOOK.ask("no topics", lambda _: ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]))


@BOOK.play("the sequences of a producer", versions="9", source="KIP-98")
def _sequences(stage: Stage) -> None:
    """Sequences: in order, repeated, with a gap, after an epoch's bump, of an older epoch."""
    name = stage.create()

    def send(sequence: int, epoch: int = 0, count: int = 3, producer_id: int = 4242) -> None:
        records = batch(
            count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        stage.ask(stage.produce_request(name, records))

    for sequence in (0, 3, 6, 3, 0, 9, 12, 15):
        send(sequence)
    # By now the first batch is no longer among the five that are remembered.
    send(0)
    send(20)
    send(18)
    send(4, epoch=1)
    send(0, epoch=1)
    send(21)
    send(3, epoch=1)
    send(3, epoch=1, count=2)
    send(1, epoch=1)
    for producer_id, sequence in ((4343, 7), (4343, 10), (44, 2**31 - 3), (44, 0), (44, 3)):
        send(sequence, producer_id=producer_id)
