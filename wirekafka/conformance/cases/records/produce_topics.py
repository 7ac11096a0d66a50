"""Produce: what the configuration of a topic refuses, limits and changes."""

from __future__ import annotations

import time
from typing import Any

from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.conformance.cases.records.batches import forged
from wirekafka.conformance.cases.records.logs import BATCH_BYTES, CODECS, at, note_log
from wirekafka.conformance.cases.records.produce import BOOK as _BOOK
from wirekafka.conformance.cases.records.requests import fetch, list_offsets
from wirekafka.conformance.stage import TIME_MS, Stage, batch

_HOUR_MS = 3_600_000


def _now(*after_ms: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch of records at times after now."""
    return at(*(int(time.time() * 1000) - TIME_MS + each for each in after_ms), compression=codec)


def _limited(bytes_: int, **configs: str) -> dict[str, str]:
    return {"max_message_bytes": str(bytes_), **configs}


_LARGE = at(*range(100))
_PACKED = at(*range(100), compression=Codec.GZIP)
_LIMITS: dict[str, tuple[dict[str, str], bytes]] = {
    "a batch of the most bytes": (_limited(BATCH_BYTES), batch()),
    "a batch of a byte too many": (_limited(BATCH_BYTES - 1), batch()),
    "a batch too large and corrupt": (_limited(100), forged(batch(), crc=1)),
    "a batch too large with a base offset": (_limited(100), forged(batch(), base_offset=1)),
    "a batch too large of magic 1": (_limited(100), batch()[:16] + b"\1" + batch()[17:]),
    "a compressed batch of the most bytes": (_limited(len(_PACKED)), _PACKED),
    "a compressed batch of a byte too many": (_limited(len(_PACKED) - 1), _PACKED),
    "a batch that grows beyond the most bytes": (
        _limited(len(_PACKED), compression_type="uncompressed"),
        _PACKED,
    ),
    "a batch that would shrink below the most bytes": (
        _limited(len(_LARGE) - 1, compression_type="gzip"),
        _LARGE,
    ),
    "a limit of 0": (_limited(0), batch()),
}
for _title, (_configs, _records) in _LIMITS.items():

    @_BOOK.play(_title, versions="3,9", source="KIP-126")
    def _limit(stage: Stage, configs: dict[str, str] = _configs, records: bytes = _records) -> None:
        name = stage.create("", 1, **configs)
        stage.ask(stage.produce_request(name, records))
        stage.ask(list_offsets(name, -1), 6)


_BEFORE = {"message_timestamp_before_max_ms": str(_HOUR_MS)}
_AFTER = {"message_timestamp_after_max_ms": str(_HOUR_MS)}
_STAMPED = {"message_timestamp_type": "LogAppendTime"}
_TIMES: dict[str, tuple[dict[str, str], tuple[int, ...], Codec]] = {
    "a time within both bounds": (_BEFORE | _AFTER, (-_HOUR_MS // 2, _HOUR_MS // 2), Codec.NONE),
    "a time before the lower bound": (_BEFORE, (-2 * _HOUR_MS,), Codec.NONE),
    "a time after the upper bound": (_AFTER, (2 * _HOUR_MS,), Codec.NONE),
    "one of three times before the lower bound": (_BEFORE, (0, -2 * _HOUR_MS, 0), Codec.NONE),
    "two of three times after the upper bound": (
        _AFTER,
        (0, 2 * _HOUR_MS, 3 * _HOUR_MS),
        Codec.NONE,
    ),
    "five times before the lower bound": (_BEFORE, (-2 * _HOUR_MS,) * 5, Codec.NONE),
    "a compressed time before the lower bound": (_BEFORE, (0, -2 * _HOUR_MS), Codec.ZSTD),
    "a compressed time after the upper bound": (_AFTER, (0, 2 * _HOUR_MS), Codec.GZIP),
    "a time two hours ahead by default": ({}, (2 * _HOUR_MS,), Codec.NONE),
    "a time half an hour ahead by default": ({}, (_HOUR_MS // 2,), Codec.NONE),
    "a time beyond the bounds that is replaced": (
        _BEFORE | _AFTER | _STAMPED,
        (-2 * _HOUR_MS, 2 * _HOUR_MS),
        Codec.NONE,
    ),
    "bounds of 0": (
        {"message_timestamp_before_max_ms": "0", "message_timestamp_after_max_ms": "0"},
        (-_HOUR_MS, _HOUR_MS),
        Codec.NONE,
    ),
}
for _title, (_configs, _after_ms, _codec) in _TIMES.items():

    @_BOOK.play(_title, versions="7,9", source="KIP-937")
    def _time(
        stage: Stage,
        configs: dict[str, str] = _configs,
        after_ms: tuple[int, ...] = _after_ms,
        codec: Codec = _codec,
    ) -> None:
        name = stage.create("", 1, **configs)
        stage.ask(stage.produce_request(name, _now(*after_ms, codec=codec)))
        stage.ask(list_offsets(name, -1), 6)


_FIXED: dict[str, tuple[dict[str, str], bytes]] = {
    "no time where there is a lower bound": (_BEFORE, at(-TIME_MS - 1)),
    "a time below minus 1": (_BEFORE, at(-TIME_MS - 5)),
    "a time below minus 1 without a bound": ({}, at(-TIME_MS - 5)),
    "a late largest time that no record has": (_AFTER, forged(batch(), max_timestamp=2**45)),
    "an early largest time that no record has": (_AFTER, forged(at(2**45), max_timestamp=TIME_MS)),
    "times that the log stamps": (_STAMPED, batch()),
    "times that the log stamps in gzip": (_STAMPED, batch(compression=Codec.GZIP)),
    "times that the log stamps in snappy": (_STAMPED, batch(compression=Codec.SNAPPY)),
    "times that the log stamps in lz4": (_STAMPED, batch(compression=Codec.LZ4)),
    "times that the log stamps in zstd": (_STAMPED, batch(compression=Codec.ZSTD)),
    "a stamp that the producer claims": (_STAMPED, forged(batch(), attributes=8)),
    "a compressed stamp that the producer claims": (
        _STAMPED,
        forged(batch(compression=Codec.GZIP), attributes=9),
    ),
    "a stamp that the producer claims where the log does not stamp": (
        {},
        forged(batch(), attributes=8, max_timestamp=TIME_MS + 7777),
    ),
    "times that the log stamps as it compresses": (
        _STAMPED | {"compression_type": "gzip"},
        batch(),
    ),
    "times that the log stamps as it decompresses": (
        _STAMPED | {"compression_type": "uncompressed"},
        batch(compression=Codec.LZ4),
    ),
}
for _title, (_configs, _records) in _FIXED.items():

    @_BOOK.play(_title, versions="7,9", source="KIP-32")
    def _fixed(stage: Stage, configs: dict[str, str] = _configs, records: bytes = _records) -> None:
        name = stage.create("", 1, **configs)
        stage.ask(stage.produce_request(name, records))
        stage.ask(fetch(stage, name), 12)
        note_log(stage, name)


def _keys(*keys: bytes | None, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(timestamp=TIME_MS, key=key, value=b"v") for key in keys]
    return encode_batch(records, options=BatchOptions(compression=codec))


_COMPACTED = {"cleanup_policy": "compact"}
_BOTH = {"cleanup_policy": "compact,delete"}
_TOMBSTONE = encode_batch([Record(timestamp=TIME_MS, key=b"k", value=None)])
_OF_COMPACTED: dict[str, tuple[dict[str, str], bytes]] = {
    "one record without a key of a compacted topic": (_COMPACTED, _keys(None)),
    "two of four records without keys": (_COMPACTED, _keys(b"a", None, b"", None)),
    "five records without keys": (_COMPACTED, _keys(*[None] * 5)),
    "five compressed records without keys": (_COMPACTED, _keys(*[None] * 5, codec=Codec.LZ4)),
    "one compressed record without a key": (_COMPACTED, _keys(b"a", None, codec=Codec.ZSTD)),
    "a record without a key where compaction also deletes": (_BOTH, _keys(None)),
    "empty keys of a compacted topic": (_COMPACTED, _keys(b"", b"")),
    "keys of a compacted topic": (_COMPACTED, batch()),
    "a tombstone": (_COMPACTED, _TOMBSTONE),
    "neither a key nor a valid time": (
        _COMPACTED | {"message_timestamp_after_max_ms": "1000"},
        encode_batch([Record(timestamp=2**45, key=None, value=b"v")]),
    ),
}
for _title, (_configs, _records) in _OF_COMPACTED.items():

    @_BOOK.play(_title, versions="7,9", source="KIP-467")
    def _of_compacted(
        stage: Stage, configs: dict[str, str] = _configs, records: bytes = _records
    ) -> None:
        name = stage.create("", 1, **configs)
        stage.ask(stage.produce_request(name, records))
        note_log(stage, name)


def _words(codec: Codec, **options: Any) -> bytes:
    records = [
        Record(timestamp=TIME_MS + number, key=b"%d" % number, value=b"text" * 3)
        for number in range(20)
    ]
    return encode_batch(records, options=BatchOptions(compression=codec, **options))


for _stored in ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"):
    for _sent in (Codec.NONE, *CODECS):

        @_BOOK.play(f"{_sent.name.lower()} to a topic of {_stored}", versions="9", source="KIP-110")
        def _recompressed(stage: Stage, stored: str = _stored, sent: Codec = _sent) -> None:
            """What the log has: the codec, the records, the checksum."""
            name = stage.create("", 1, compression_type=stored)
            stage.ask(stage.produce_request(name, _words(sent)))
            answer = stage.do(fetch(stage, name), 12)
            data = bytes(answer.responses[0].partitions[0].records)
            stage.note("codec", Codec(data[22] & 7).name.lower())
            stage.note("largest time", int.from_bytes(data[35:43], "big") - TIME_MS)
            note_log(stage, name)


for _level, _stored in (
    ("-7", "zstd"),
    ("22", "zstd"),
    ("1", "gzip"),
    ("9", "gzip"),
    ("17", "lz4"),
):

    @_BOOK.play(f"{_stored} of level {_level}", versions="9", source="KIP-390")
    def _with_level(stage: Stage, stored: str = _stored, level: str = _level) -> None:
        """A topic with a level stores records that decompress."""
        options = {"compression_type": stored, f"compression_{stored}_level": level}
        name = stage.create("", 1, **options)
        stage.ask(stage.produce_request(name, _words(Codec.NONE)))
        note_log(stage, name)


@_BOOK.play("a producer's batch that is compressed again", versions="9", source="KIP-98")
def _of_producer(stage: Stage) -> None:
    """Producer, epoch and sequence are kept, and a retry of what was sent is recognized."""
    name = stage.create("", 1, compression_type="lz4")
    records = _words(Codec.GZIP, producer_id=4242, producer_epoch=3, base_sequence=0)
    stage.ask(stage.produce_request(name, records))
    stage.ask(stage.produce_request(name, records))
    answer = stage.do(fetch(stage, name), 12)
    data = bytes(answer.responses[0].partitions[0].records)
    stage.note("producer", int.from_bytes(data[43:51], "big"))
    stage.note("epoch", int.from_bytes(data[51:53], "big"))
    stage.note("sequence", int.from_bytes(data[53:57], "big"))


@_BOOK.play("zstd in versions without it", versions="3,6-7", source="KIP-110")
def _zstd(stage: Stage) -> None:
    """Versions below 7 refuse zstd, and a topic of zstd takes other codecs in any version."""
    name = stage.create()
    stage.ask(stage.produce_request(name, batch(compression=Codec.ZSTD)))
    always = stage.create("always", 1, compression_type="zstd")
    stage.ask(stage.produce_request(always, batch(compression=Codec.ZSTD)))
    stage.ask(stage.produce_request(always, batch(compression=Codec.GZIP)))
    for version in (4, 9, 10, 12):
        stage.ask(fetch(stage, always), version)


_UNREPLICATED = {"min_insync_replicas": "2"}


@_BOOK.play("acks minus 1 without enough replicas", versions="3,9")
def _too_few(stage: Stage) -> None:
    """A topic that needs two replicas in sync and has one refuses, and has nothing appended."""
    name = stage.create("", 1, **_UNREPLICATED)
    stage.ask(stage.produce_request(name, batch()))
    stage.ask(list_offsets(name, -1), 6)
    stage.ask(stage.produce_request(name, batch(), acks=1))
