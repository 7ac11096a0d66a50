"""Topics with records of every kind, for readers whose results are compared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SIZES = (0, 1, 10, 60, 200, 1_000, 20_000)
PARTITIONS = 2


def generate(bootstrap: str, topic: str, seed: int, *, log_append_time: bool = False) -> Producer:
    """Fill a new topic; returns the producer of the transaction that is left open.

    It has batches of every codec, null keys, empty values and values of 1 MB, tombstones, headers,
    committed and aborted transactions, and deleted records.
    """
    source = random.Random(seed)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {"max.message.bytes": "2000000", "retention.ms": "-1"}
    if log_append_time:
        config["message.timestamp.type"] = "LogAppendTime"
    new = NewTopic(topic, PARTITIONS, replication_factor=1, config=config)
    admin.create_topics([new])[topic].result(30)
    codecs = cycle(source.sample(CODECS, len(CODECS)))
    for number, codec in zip(range(8), codecs, strict=False):
        with_transaction = number % 2 == 1
        producer = _producer(bootstrap, codec, f"{topic}-{number}" if with_transaction else None)
        if with_transaction:
            producer.begin_transaction()
        _produce(producer, topic, source)
        if with_transaction and number % 4 == 1:
            producer.abort_transaction()
        elif with_transaction:
            producer.commit_transaction()
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 5)]).values()
    deleted.result(30)
    left_open = _producer(bootstrap, "none", f"{topic}-open")
    left_open.begin_transaction()
    left_open.produce(topic, b"open", partition=1)
    left_open.flush()
    plain = _producer(bootstrap, "none", None)
    plain.produce(topic, b"behind the open transaction", partition=1)
    plain.flush()
    return left_open


def _producer(bootstrap: str, codec: str, transactional_id: str | None) -> Producer:
    settings = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "linger.ms": 5,
        "message.max.bytes": 2_000_000,
        "log_level": 0,
    }
    if transactional_id is not None:
        settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    producer = Producer(settings)
    if transactional_id is not None:
        producer.init_transactions()
    return producer


def _produce(producer: Producer, topic: str, source: random.Random) -> None:
    for key, value, headers in _records(source):
        producer.produce(
            topic,
            value,
            key,
            partition=source.randrange(PARTITIONS),
            timestamp=1_700_000_000_000 + source.randrange(10_000_000),
            headers=headers,
        )
    assert producer.flush(60) == 0


def _records(
    source: random.Random,
) -> Iterator[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Keys, values and headers; one value is of 1 MB."""
    for number in range(60):
        size = 1_000_000 if number == 30 else source.choice(SIZES)
        value = source.randbytes(size // 2) + bytes(size - size // 2)
        key = None if source.random() < 0.3 else source.randbytes(source.choice((0, 4, 300)))
        headers: list[tuple[str, bytes | None]] = [
            (source.choice("abc") * 3, source.choice((None, b"", b"header")))
            for _ in range(source.choice((0, 0, 1, 3)))
        ]
        yield key, None if source.random() < 0.1 else value, headers
