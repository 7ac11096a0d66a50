"""Apache Kafka's own log directory, read while its broker runs and when it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.eventually import eventually
from wirekafka.reader import Log

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = (
    SMALL_CLEANER
    + "replica.high.watermark.checkpoint.interval.ms=100\n"
    + "log.cleaner.backoff.ms=100\n"
)
TOPICS = {
    "plain": {"segment.bytes": "1048576"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
    },
    "ledger": {},
}


class Seen(NamedTuple):
    """A record as a client sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@pytest.mark.timeout(240)
def test_a_directory_of_kafka_is_read_as_a_client_reads_its_topics(tmp_path: Path) -> None:
    port, command = prepare(tmp_path, SMALL_JVM, SETTINGS)
    data = tmp_path / "data"
    with running(command, tmp_path, port) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        made = admin.create_topics(
            [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
        )
        for future in made.values():
            future.result(30)
        opened = _write(bootstrap)
        # The compacted topic changes while it is compared.
        compared = [name for name in TOPICS if name != "compacted"]
        expected = {name: _consumed(bootstrap, name) for name in compared}
        with Log.open(data) as log:
            assert set(TOPICS) <= set(log.topics())
            for name, seen in expected.items():
                eventually(lambda name=name, seen=seen: _read(log, name) == seen, timeout_s=20)  # type: ignore[misc]
            stable = _stable_end(bootstrap, "ledger")
            assert log.offsets("ledger", 0).end_offset == stable
        _check_compacted(data)
        del opened  # A transaction that is still open when the broker stops.
    with Log.open(data) as log:
        assert {name: _read(log, name) for name in compared} == expected
        assert log.offsets("ledger", 0).end_offset == stable
        half = len(expected["plain"]) // 2
        assert _read(log, "plain", half) == expected["plain"][half:]
        splits = log.splits("plain", 0, *log.offsets("plain", 0), target_bytes=200_000)
        assert len(splits) > 2
        parts = [row for split in splits for row in _rows(log.read(split, headers=True))]
        assert parts == expected["plain"]
    _check_compacted(data)


def _write(bootstrap: str) -> Producer:
    """Write to all topics; returns the producer of a transaction that is open."""
    for number, codec in enumerate(CODECS):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20}
        )
        for each in range(300):
            key = None if each % 7 == 0 else b"key %d" % (each % 20)
            value = None if each % 11 == 0 else bytes([each % 256]) * (each * 13 % 3000)
            headers = [("name", b"%d" % number), ("empty", None)] if each % 5 == 0 else []
            for topic in ("plain", "stamped"):
                producer.produce(topic, value, key, headers=headers, timestamp=_time(each))
            producer.produce("compacted", value, b"key %d" % (each % 20))
        producer.produce("plain", bytes(900_000), b"large")
        producer.flush()
    producers = []
    for number in range(2):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"bookkeeper {number}"}
        )
        producer.init_transactions(30)
        producers.append(producer)
    for number in range(6):
        for producer in producers:
            producer.begin_transaction()
            for each in range(5):
                producer.produce("ledger", b"%d %d" % (number, each))
            producer.flush()
        producers[0].commit_transaction(30)
        producers[1].abort_transaction(30)
    producers[0].begin_transaction()
    producers[0].produce("ledger", b"open")
    producers[0].flush()
    return producers[0]


def _time(number: int) -> int:
    return 1_700_000_000_000 + number


def _consumed(bootstrap: str, topic: str) -> list[Seen]:
    """All records that a read_committed consumer gets up to the last stable offset."""
    consumer = _consumer(bootstrap)
    end = _end(consumer, topic)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen: list[Seen] = []
    while True:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            headers = tuple((each[0], each[1]) for each in message.headers() or ())
            time = message.timestamp()[1]
            seen.append(Seen(message.offset(), time, message.key(), message.value(), headers))
        [position] = consumer.position([TopicPartition(topic, 0)])
        if position.offset >= end:
            break
    consumer.close()
    return seen


def _stable_end(bootstrap: str, topic: str) -> int:
    consumer = _consumer(bootstrap)
    end = _end(consumer, topic)
    consumer.close()
    return end


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )


def _end(consumer: Consumer, topic: str) -> int:
    end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1]
    return end


def _check_compacted(data: Path) -> None:
    """Whatever has been cleaned, the newest value of each key is there, and nothing twice."""
    with Log.open(data) as log:
        eventually(lambda: log.offsets("compacted", 0).end_offset >= 1500, timeout_s=20)
        rows = _read(log, "compacted")
    offsets = [row.offset for row in rows]
    assert offsets == sorted(set(offsets))
    latest = {row.key: row.value for row in rows}
    for each in range(280, 300):
        value = None if each % 11 == 0 else bytes([each % 256]) * (each * 13 % 3000)
        assert latest[b"key %d" % (each % 20)] == value


def _read(log: Log, topic: str, start_offset: int = 0) -> list[Seen]:
    return list(_rows(log.batches(topic, start={0: start_offset}, headers=True)))


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Seen]:
    for batch in batches:
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        for row, time in zip(batch.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
            yield Seen(row["offset"], time // 1000, row["key"], row["value"], headers)
