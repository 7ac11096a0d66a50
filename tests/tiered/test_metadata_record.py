"""Records of `__remote_log_metadata`: Apache Kafka's bytes, and what its brokers do not survive."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from dataclasses import replace

import pytest

from wirekafka.log.epochs import EpochEntry
from wirekafka.tiered.metadata_record import (
    MalformedMetadata,
    MetadataRecord,
    decode,
    encode,
    metadata_partition,
)
from wirekafka.tiered.remote_segment import (
    PartitionDeletion,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)

PARTITION = TieredPartition("topic1", urlsafe_b64decode("lZ6vvmajTWKDBUTV6SQAtQ=="), 42)
SEGMENT = RemoteSegment(
    partition=PARTITION,
    id=urlsafe_b64decode("adh9f8BMS4anaUnD8KWfWg=="),
    start_offset=0,
    end_offset=1001,
    broker_id=2,
    max_timestamp_ms=10**9,
    event_ms=2 * 10**9,
    size_bytes=100_500,
    epochs=(EpochEntry(0, 0),),
    has_no_transactions=True,
)
UPDATE = SegmentUpdate(
    partition=PARTITION,
    id=SEGMENT.id,
    broker_id=2,
    event_ms=2 * 10**9 + 1,
    state=SegmentState.COPY_FINISHED,
)
KAFKAS_SEGMENT = bytes.fromhex(
    "01000007746f70696331959eafbe66a34d62830544d5e92400b50000002a0069d87d7fc04c4b86a76949c3f0a59f5a"
    "00000000000000000000000000000003e800000002000000003b9aca00000000007735940002000000000000000000"
    "0000000000018894000001000101"
)
"""Made by the serializer of Apache Kafka 4.4.0, as is the next one."""
KAFKAS_UPDATE = bytes.fromhex(
    "01010007746f70696331959eafbe66a34d62830544d5e92400b50000002a0069d87d7fc04c4b86a76949c3f0a59f5a"
    "00000000020000000077359401000100"
)


@pytest.mark.parametrize(
    ("record", "value"), [(SEGMENT, KAFKAS_SEGMENT), (UPDATE, KAFKAS_UPDATE)], ids=["new", "update"]
)
def test_a_record_has_apache_kafkas_bytes(record: MetadataRecord, value: bytes) -> None:
    assert encode(record) == value
    assert decode(value) == record


def test_custom_metadata_and_several_epochs_survive() -> None:
    segment = replace(
        SEGMENT,
        epochs=(EpochEntry(3, 0), EpochEntry(7, 500)),
        custom_metadata=b"\0key",
        has_no_transactions=False,
    )
    assert decode(encode(segment)) == segment


def test_the_deletion_of_a_partition_is_decoded() -> None:
    deletion = PartitionDeletion(partition=PARTITION, broker_id=1, event_ms=5, state=2)
    assert decode(encode(deletion)) == deletion


@pytest.mark.parametrize(("count", "index"), [(50, 33), (5, 3)])
def test_a_partitions_metadata_is_where_apache_kafka_looks_for_it(count: int, index: int) -> None:
    assert metadata_partition(PARTITION, count) == index


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\x01",
        b"\x02" + KAFKAS_SEGMENT[1:],
        KAFKAS_SEGMENT + b"\0",
        KAFKAS_SEGMENT[:-1],
        b"\x01\x03\x00" + KAFKAS_SEGMENT[3:],
        b"\x01\x00\x01" + KAFKAS_SEGMENT[3:],
        KAFKAS_UPDATE[:-2] + b"\x09\x00",
        b"\x80" * 9,
    ],
    ids=[
        "no-value",
        "empty",
        "frame-only",
        "frame-version",
        "trailing-byte",
        "cut-off",
        "snapshot",
        "record-version",
        "state",
        "endless-varint",
    ],
)
def test_what_ends_the_consumers_of_apache_kafka_is_reported(value: bytes | None) -> None:
    with pytest.raises(MalformedMetadata):
        decode(value)


@pytest.mark.parametrize(
    "record",
    [
        replace(SEGMENT, epochs=()),
        replace(SEGMENT, end_offset=0),
        replace(SEGMENT, start_offset=-1),
        replace(SEGMENT, state=SegmentState.COPY_FINISHED),
        replace(SEGMENT, epochs=(EpochEntry(4, 0), EpochEntry(3, 10))),
        replace(UPDATE, state=SegmentState.COPY_STARTED),
    ],
    ids=["no-epochs", "no-records", "negative", "finished", "epochs-fall", "update-to-started"],
)
def test_what_ends_the_consumers_of_apache_kafka_is_not_written(record: MetadataRecord) -> None:
    with pytest.raises(MalformedMetadata):
        encode(record)
