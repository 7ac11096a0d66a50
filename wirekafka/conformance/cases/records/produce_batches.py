"""Produce: batches that are stored as they are, and batches that are refused."""

from __future__ import annotations

from wirekafka.codec.batch import HEADER_BYTES
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.conformance.cases.records.batches import body_of, forged, holding
from wirekafka.conformance.cases.records.logs import CODECS, at, note_log
from wirekafka.conformance.cases.records.produce import BOOK as _BOOK
from wirekafka.conformance.cases.records.requests import fetch
from wirekafka.conformance.stage import TIME_MS, Stage, batch

_GOOD = batch()
_SECOND_MS = 1000


def _of(*records: Record) -> bytes:
    return encode_batch(records, options=BatchOptions())


def _record(key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None]) -> bytes:
    return _of(Record(timestamp=TIME_MS, key=key, value=value, headers=headers))


_ACCEPTED: dict[str, bytes] = {
    "a partial batch behind the batch": _GOOD + _GOOD[:50],
    "a leader epoch of its own": forged(_GOOD, leader_epoch=77),
    "all unused attribute bits": forged(_GOOD, attributes=0x7F80),
    "the bit of a delete horizon": forged(_GOOD, attributes=0x40),
    "a sequence without a producer": forged(_GOOD, base_sequence=5),
    "an epoch without a producer": forged(_GOOD, producer_epoch=5),
    "no timestamps": at(-TIME_MS - 1, -TIME_MS - 1),
    "timestamps of long ago": at(-TIME_MS + 5),
    "unsorted timestamps": at(0, 9 * _SECOND_MS, 5 * _SECOND_MS),
    "a largest timestamp below the records' own": forged(_GOOD, max_timestamp=-1),
    "a largest timestamp above the records' own": forged(_GOOD, max_timestamp=TIME_MS + 9999),
    "offset deltas that repeat": holding([body_of(0), body_of(0, 1)]),
    "offset deltas that skip": holding([body_of(0), body_of(5, 1)]),
    "header names that are no UTF-8": holding([b"\x14\0\0\0\1\1\x02\x04\xff\xfe\1"]),
    "unused attributes of a record": holding([b"\x10\x7f\0\0\x02k\x02v\0"]),
    "500 records": at(*range(500)),
}
for _title, _records in _ACCEPTED.items():

    @_BOOK.play(f"accepted: {_title}", versions="3,9", source="KIP-98")
    def _accepted(stage: Stage, records: bytes = _records) -> None:
        name = stage.create()
        stage.ask(stage.produce_request(name, records))
        if len(records) < 1000:
            stage.ask(fetch(stage, name), 12)
            stage.ask(stage.produce_request(name, _GOOD))


_CONTENTS: dict[str, bytes] = {
    "a null key": _record(None, b"value"),
    "a null value": _record(b"key", None),
    "neither key nor value": _record(None, None),
    "an empty key and an empty value": _record(b"", b""),
    "one header": _record(b"key", b"value", ("name", b"header")),
    "two headers of one name": _record(b"k", b"v", ("name", b"1"), ("name", b"2"), ("other", b"3")),
    "a header without a value": _record(b"k", b"v", ("name", None), ("empty", b"")),
    "a header with an empty name": _record(b"k", b"v", ("", b"header")),
    "a header with a name beyond ASCII": _record(b"k", b"v", ("größe", b"header")),
    "forty headers": _record(b"k", b"v", *((f"name {n}", b"%d" % n) for n in range(40))),
    "bytes that are no text": _record(bytes(range(128, 160)), b"\0\xff" * 20),
    "records of several kinds": _of(
        Record(timestamp=TIME_MS, key=None, value=b"v"),
        Record(timestamp=TIME_MS + 1, key=b"k", value=None, headers=(("n", b"v"),)),
        Record(timestamp=TIME_MS + 2, key=b"", value=b""),
    ),
}
for _title, _records in _CONTENTS.items():

    @_BOOK.play(f"kept: {_title}", versions="3,9", source="KIP-82")
    def _kept(stage: Stage, records: bytes = _records) -> None:
        name = stage.create()
        stage.ask(stage.produce_request(name, records))
        note_log(stage, name)


for _codec in CODECS:

    @_BOOK.play(f"kept: records in {_codec.name.lower()}", versions="7,9", source="KIP-110")
    def _in_codec(stage: Stage, codec: Codec = _codec) -> None:
        name = stage.create()
        records = at(*range(0, 30_000, 1000), compression=codec)
        stage.ask(stage.produce_request(name, records))
        stage.ask(stage.produce_request(name, batch(compression=codec)))
        answer = stage.do(fetch(stage, name), 12)
        data = bytes(answer.responses[0].partitions[0].records)
        stage.note("the bytes that were sent", data[16 : len(records)] == records[16:])
        note_log(stage, name)


def _refused() -> dict[str, bytes]:
    found = {
        "ten bytes": _GOOD[:10],
        "a header alone": _GOOD[:HEADER_BYTES],
        "zeros behind the batch": _GOOD + bytes(20),
        "garbage behind the batch": _GOOD + b"\x7f" * 30,
        "magic minus 1": _GOOD[:16] + b"\xff" + _GOOD[17:],
        "a flipped bit": _GOOD[:-1] + bytes((_GOOD[-1] ^ 1,)),
        "a checksum of 0": forged(_GOOD, crc=0),
        "a length beyond the bytes": forged(_GOOD, length=1_000_000),
        "a base offset below zero": forged(_GOOD, base_offset=-1),
        "a base offset and a wrong checksum": forged(_GOOD, base_offset=5, crc=1),
        "the largest offset delta": forged(_GOOD, last_offset_delta=2**31 - 1),
        "a count above the last offset delta": forged(_GOOD, count=5),
        "a count of 0": forged(_GOOD, count=0),
        "no records": forged(_GOOD[:61], length=49, count=0, last_offset_delta=-1),
        "more records counted than there are": forged(_GOOD, count=5, last_offset_delta=4),
        "fewer records counted than there are": forged(_GOOD, count=2, last_offset_delta=1),
        "a control batch by its attributes": forged(_GOOD, attributes=0x20),
        "a transactional batch of no producer": forged(_GOOD, attributes=0x10),
        "a sequence below zero": forged(_GOOD, producer_id=9, producer_epoch=0, base_sequence=-5),
        "padding in a record": holding([b"\x12\0\0\0\x02k\x02v\0\0"]),
        "a key beyond its record": holding([b"\x0e\0\0\0\x7e\x02vx"]),
        "a key of length minus 5": holding([b"\x0c\0\0\0\x09\x02v\0"]),
        "a header count below zero": holding([b"\x0e\0\0\0\1\1\1\0"]),
        "more headers than bytes": holding([b"\x0e\0\0\0\1\1\x7e\0"]),
        "a header without a name": holding([b"\x10\0\0\0\1\1\x02\1\1"]),
        "a record of no bytes": holding([b"\0"]),
        "a record of a size below zero": holding([b"\1"]),
        "a record beyond its batch": holding([b"\xfe\xff\xff\xff\x0f"]),
        "a varint that does not end": holding([b"\xff" * 4]),
        "a size that is wrong in its sign alone": holding(
            [bytes((body_of(0)[0] + 1,)) + body_of(0)[1:]]
        ),
    }
    lengths = (-(2**31), -1, 13, 14, 48, 49, 60)
    found |= {f"a length of {each}": forged(_GOOD, length=each) for each in lengths}
    found |= {f"compression {each}": forged(_GOOD, attributes=each) for each in (5, 6)}
    for codec in CODECS:
        name, packed = codec.name.lower(), batch(compression=codec)
        repeated = [body_of(0), body_of(0, 1)]
        found |= {
            f"plain records called {name}": forged(_GOOD, attributes=int(codec)),
            f"one {name} record too many": forged(packed, count=4, last_offset_delta=3),
            f"one {name} record too few": forged(packed, count=2, last_offset_delta=1),
            f"{name} offset deltas that repeat": holding(repeated, codec),
            f"{name} offset deltas that skip": holding([body_of(0), body_of(5, 1)], codec),
        }
    return found


def _nothing(stage: Stage, name: str) -> None:
    """The topic of refused batches stays empty."""


for _title, _records in _refused().items():
    _BOOK.ask(
        f"refused: {_title}",
        lambda s, records=_records: s.produce_request(s.shared("refused", _nothing), records),
        source="KIP-98",
    )
