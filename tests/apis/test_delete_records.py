"""DeleteRecords: advancing the log start offset; responses as Kafka 4.3 gave them."""

from __future__ import annotations

import pytest

from tests.in_process import InProcessBroker, batch
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.replication.partition.partition import Leadership

Topic = DeleteRecordsRequest.Topic
Partition = Topic.Partition


def delete(
    kafka: InProcessBroker, offset: int, topic: str = "t", index: int = 0, version: int = 2
) -> tuple[int, int]:
    request = DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[Topic(name=topic, partitions=[Partition(partition_index=index, offset=offset)])],
    )
    [answer] = kafka.call(request, version).topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.fixture
def log(kafka: InProcessBroker) -> InProcessBroker:
    kafka.create("t")
    for value in (b"a", b"b", b"c"):
        kafka.partition("t").leader.append_from_client(batch(value), 1, kafka.clock.now_ms())
    return kafka


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_start_moves_up_and_never_back(log: InProcessBroker, version: int) -> None:
    assert delete(log, 2, version=version) == (0, 2)
    assert delete(log, 1, version=version) == (0, 2)
    assert log.partition("t").log.start_offset == 2


def test_minus_1_is_the_high_watermark(log: InProcessBroker) -> None:
    assert delete(log, -1) == (0, 3)
    assert log.partition("t").log.start_offset == 3


@pytest.mark.parametrize("offset", [4, -2])
def test_an_offset_beyond_the_high_watermark_is_out_of_range_1(
    log: InProcessBroker, offset: int
) -> None:
    assert delete(log, offset) == (1, -1)


def test_compacted_topics_are_a_policy_violation_44(kafka: InProcessBroker) -> None:
    kafka.create("c", cleanup_policy="compact")
    assert delete(kafka, 0, "c") == (44, -1)
    kafka.create("both", cleanup_policy="compact,delete")
    assert delete(kafka, 0, "both") == (0, 0)


def test_internal_topics_are_an_invalid_topic_17(kafka: InProcessBroker) -> None:
    kafka.create("__consumer_offsets", cleanup_policy="compact")
    assert delete(kafka, 0, "__consumer_offsets") == (17, -1)


def test_unknown_partitions_are_3_and_moved_ones_6(log: InProcessBroker) -> None:
    assert delete(log, 0, "nope") == (3, -1)
    assert delete(log, 0, index=5) == (3, -1)
    log.partition("t").follow(Leadership(leader_id=2, leader_epoch=1, replicas=(1, 2)))
    assert delete(log, 0) == (6, -1)


def test_a_partition_named_twice_has_one_result(log: InProcessBroker) -> None:
    request = DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[
            Topic(
                name="t",
                partitions=[Partition(partition_index=0, offset=offset) for offset in (1, 2)],
            )
        ],
    )
    [answer] = log.call(request, 2).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (0, 2)


def test_a_topic_requested_twice_is_answered_once(log: InProcessBroker) -> None:
    asked = [Partition(partition_index=index, offset=1) for index in (0, 1)]
    topics = [Topic(name="t", partitions=[each]) for each in asked]
    request = DeleteRecordsRequest(timeout_ms=1000, topics=[*topics, Topic(name="empty")])
    [topic] = log.call(request, 2).topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, 0),
        (1, 3),
    ]
