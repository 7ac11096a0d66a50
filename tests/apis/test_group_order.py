"""The order in which groups of one request are processed and reported, by Apache Kafka 4.4."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import batches
from wirekafka.codec.message import Request
from wirekafka.codec.record import decode_records
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest

REQUESTED = [*(f"d{number}" for number in range(40)), "", "d3"]

DESCRIBED = (
    "d0 d20 d16 d14 d12 d10 d33 d31 d19 d9 d29 d7 d27 d39 d5 d25 d37 d3 d23 d3 d35 d17 d15 d13 "
    "d1 d21 d11 d32 d2 d22 - d30 d18 d38 d8 d28 d36 d6 d26 d34 d4 d24"
)
"""The response of Apache Kafka; "-" is the group without an id."""
DELETED = (
    "d20 d0 d16 d14 d12 d10 d33 d31 d19 d9 d29 d7 d27 d39 d5 d25 d37 d23 d3 d35 d17 d15 d13 "
    "d21 d1 d11 d32 - d22 d2 d30 d18 d38 d8 d28 d36 d6 d26 d34 d4 d24"
)


def order(text: str) -> list[str]:
    return [name.strip("-") for name in text.split()]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[InProcessBroker]:
    running = InProcessBroker(tmp_path, ManualClock())
    running.create("__consumer_offsets", 50)
    running.create("t")
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ConsumerGroupDescribeRequest(group_ids=REQUESTED), 1),
        (ShareGroupDescribeRequest(group_ids=REQUESTED), 1),
        (StreamsGroupDescribeRequest(group_ids=REQUESTED), 0),
    ],
    ids=["consumer", "share", "streams"],
)
def test_described_groups_are_ordered_by_shard_after_those_without_an_id(
    kafka: InProcessBroker, request_: Request, version: int
) -> None:
    answer: Any = kafka.call(request_, version)
    expected = order(DESCRIBED)
    expected.remove("")
    assert [each.group_id for each in answer.groups] == ["", *expected]


def test_classic_groups_are_described_in_the_order_of_their_shards(kafka: InProcessBroker) -> None:
    answer = kafka.call(DescribeGroupsRequest(groups=REQUESTED), 5)
    assert [each.group_id for each in answer.groups] == order(DESCRIBED)


def test_deleted_groups_are_reported_shard_by_shard_in_the_order_of_a_hash_set(
    kafka: InProcessBroker,
) -> None:
    answer = kafka.call(DeleteGroupsRequest(groups_names=REQUESTED), 2)
    assert [each.group_id for each in answer.results] == order(DELETED)


def test_the_records_of_deleted_groups_are_in_that_order_too(kafka: InProcessBroker) -> None:
    for group in ("d0", "d20"):
        topic = OffsetCommitRequest.Topic
        partition = topic.Partition(partition_index=0, committed_offset=1)
        commit = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[topic(name="t", partitions=[partition])],
        )
        assert kafka.call(commit, 8).topics[0].partitions[0].error_code == 0
    answer = kafka.call(DeleteGroupsRequest(groups_names=["d0", "d20"]), 2)
    assert [each.error_code for each in answer.results] == [0, 0]
    [deleted] = [
        names
        for index in range(50)
        if (names := tombstones(kafka.partition("__consumer_offsets", index).log))
    ]
    assert deleted == ["d20", "d20", "d0", "d0"]  # The offset and the group of each.


def tombstones(log: Any) -> list[str]:
    """The group of each tombstone in a partition of `__consumer_offsets`."""
    codec = GroupRecordCodec()
    data = b"".join(map(bytes, log.read(0, 1 << 20, end_offset=log.end_offset).buffers()))
    return [
        codec.unpack(bytes(record.key or b""), None).group_id
        for at, header in batches(data)
        for record in decode_records(data[at : at + header.size_bytes])
        if record.value is None
    ]
