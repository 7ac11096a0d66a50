"""Compacts the same log with wirekafka and Apache Kafka, and compares the remaining records.

`python -m compat_tests.test_compaction 10000000` does so with as many records, and measures it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from compat_tests.wire import Wire
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from wirekafka.codec.batch import BatchHeader, batches
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.log.checkpoints import CLEANER_OFFSETS, offsets_from
from wirekafka.protocol.produce import ProduceRequest

TOPIC = "compacted"
KEYS = 100
START_MS = 1_780_000_000_000
PER_BATCH = 500
CONFIG = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "1"}
CLEANER = "log.cleaner.backoff.ms"


class Engine(NamedTuple):
    """A running broker and its data directory."""

    bootstrap: str
    data: Path

    @property
    def topic(self) -> Path:
        return self.data / f"{TOPIC}-0"


@pytest.mark.timeout(180)
def test_compaction_keeps_the_same_records_as_apache_kafka(tmp_path: Path) -> None:
    with both(tmp_path) as engines:
        for engine in engines:
            fill(engine, 100_000)
        ends = [compact(engine) for engine in engines]
        ours, theirs = (list(left(engine.topic, ends[0])) for engine in engines)
    assert ends[0] == ends[1] > 60_000
    assert [record.offset for _, record in ours] == [record.offset for _, record in theirs]
    assert KEYS <= len(ours) < 2 * KEYS
    for (our_header, our_record), (their_header, their_record) in zip(ours, theirs, strict=True):
        assert our_record == their_record
        assert shape(our_header) == shape(their_header)
        if not our_header.compression and not our_header.is_transactional:
            assert our_header == their_header  # The checksum too: byte for byte.


def shape(header: BatchHeader) -> BatchHeader:
    """A header without what depends on the run, or on how well a codec compresses."""
    horizon = header.base_timestamp if header.delete_horizon is None else 0
    return header._replace(crc=0, length=0, producer_id=0, base_timestamp=horizon)


@contextmanager
def both(directory: Path) -> Iterator[tuple[Engine, Engine]]:
    """wirekafka and Apache Kafka, with cleaners that check often."""
    theirs = directory / "kafka"
    theirs.mkdir()
    port, command = prepare(theirs, SMALL_JVM, f"{SMALL_CLEANER}{CLEANER}=200\n")
    with (
        live_broker(directory / "ours", f"{CLEANER}=200") as ours,
        running(command, theirs, port) as kafka,
    ):
        yield Engine(ours, directory / "ours"), Engine(kafka, theirs / "data")


def fill(engine: Engine, count: int) -> None:
    """Write the same batches in the same order on every run."""
    admin = AdminClient({"bootstrap.servers": engine.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(30)
    transact(engine)
    wire = Wire.to(engine.bootstrap)
    random, sequence = Random(1), 0
    for number in range(0, count, PER_BATCH):
        records = [
            Record(
                timestamp=START_MS + number + n,
                key=b"key%d" % random.randrange(KEYS),
                value=None if random.random() < 0.02 else random.randbytes(20),
                headers=(("n", b"%d" % n),) if n % 7 == 0 else (),
            )
            for n in range(PER_BATCH)
        ]
        codec = Codec(number // PER_BATCH % 5)
        options = BatchOptions(compression=codec)
        if number % (3 * PER_BATCH) == 0:  # Batches of an idempotent producer, built here.
            options = BatchOptions(
                compression=codec, producer_id=4_000_000, producer_epoch=0, base_sequence=sequence
            )
            sequence += PER_BATCH
        partition = ProduceRequest.TopicProduceData.PartitionProduceData(
            index=0, records=encode_batch(records, options=options)
        )
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[partition])],
        )
        response = wire.ask(request, 11)
        assert response.responses[0].partition_responses[0].error_code == 0, response
    wire.close()


def transact(engine: Engine) -> None:
    """Twenty transactions, every third of them aborted; each record in a batch of its own."""
    producer = Producer(
        {"bootstrap.servers": engine.bootstrap, "transactional.id": "t", "linger.ms": 0}
    )
    producer.init_transactions(30)
    for number in range(20):
        producer.begin_transaction()
        for key in range(3):
            producer.produce(TOPIC, f"value{number}", f"in-{key}", 0, timestamp=START_MS)
            producer.flush(30)
        if number % 3:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def compact(engine: Engine, timeout_s: float = 60) -> int:
    """Wait until the cleaner has cleaned all it can, and return the offset it reached."""
    resource = ConfigResource(
        ResourceType.TOPIC,
        TOPIC,
        incremental_configs=[
            ConfigEntry(
                "min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET
            )
        ],
    )
    admin = AdminClient({"bootstrap.servers": engine.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
    active = max(int(path.stem) for path in engine.topic.glob("*.log"))
    eventually(lambda: cleaned_up_to(engine) == active, timeout_s=timeout_s)
    return active


def cleaned_up_to(engine: Engine) -> int:
    path = engine.data / CLEANER_OFFSETS
    return offsets_from(path.read_bytes()).get((TOPIC, 0), -1) if path.exists() else -1


def left(directory: Path, end_offset: int) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record below an offset that is in the files, with the header of its batch."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for at, header in batches(data):
            if header.base_offset < end_offset and not header.is_control:
                for record in decode_records(data[at : at + header.size_bytes], header):
                    yield header, record


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory, both(Path(directory)) as engines:
        ends = []
        for name, engine in zip(("wirekafka", "Apache Kafka"), engines, strict=True):
            fill(engine, count)
            began_s = time.monotonic()
            ends.append(compact(engine, 3600))
            print(f"{name}: {time.monotonic() - began_s:.1f} s up to {ends[-1]}", flush=True)
        ours, theirs = (
            [(shape(header), record) for header, record in left(engine.topic, ends[0])]
            for engine in engines
        )
        print(
            f"{len(ours)} records left by wirekafka, {len(theirs)} by Apache Kafka;"
            f" {'the same' if ours == theirs else 'NOT THE SAME'}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
