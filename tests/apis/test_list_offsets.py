"""ListOffsets: ends, timestamps, epochs; responses as Kafka 4.3 gave them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.codec.record import Record, encode_batch
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.replication.partition.partition import Leadership

Topic = ListOffsetsRequest.Topic
Partition = Topic.Partition
T0 = 1_700_000_000_000


def list_offset(
    kafka: InProcessBroker,
    timestamp: int,
    *,
    version: int = 11,
    topic: str = "t",
    index: int = 0,
    epoch: int = -1,
    **options: Any,
) -> Any:
    request = ListOffsetsRequest(
        topics=[
            Topic(
                name=topic,
                partitions=[
                    Partition(
                        partition_index=index, current_leader_epoch=epoch, timestamp=timestamp
                    )
                ],
            )
        ],
        **{"replica_id": -1, **options},
    )
    [partition] = kafka.call(request, version).topics[0].partitions
    return partition


def fields(answer: Any) -> tuple[int, int, int, int]:
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.fixture
def log(kafka: InProcessBroker) -> InProcessBroker:
    """A broker with five records in two batches, at T0+0, 1, 2 and T0+10, 11."""
    kafka.create("t")
    for records in (batch(b"a", b"b", b"c", timestamp=T0), batch(b"d", b"e", timestamp=T0 + 10)):
        kafka.partition("t").leader.append_from_client(records, 1, kafka.clock.now_ms())
    return kafka


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (-1, (0, -1, 5, 0)),
        (-2, (0, -1, 0, 0)),
        (-3, (0, T0 + 11, 4, 0)),
        (-4, (0, -1, 0, 0)),
        (-5, (0, -1, -1, -1)),
        (-6, (0, -1, -1, -1)),
        (-7, (35, -1, -1, -1)),
        (0, (0, T0, 0, 0)),
        (T0 + 1, (0, T0 + 1, 1, 0)),
        (T0 + 3, (0, T0 + 10, 3, 0)),
        (T0 + 11, (0, T0 + 11, 4, 0)),
        (T0 + 12, (0, -1, -1, -1)),
    ],
    ids=[
        "latest",
        "earliest",
        "max timestamp",
        "earliest local",
        "latest tiered",
        "earliest pending upload",
        "unknown",
        "zero",
        "within a batch",
        "between batches",
        "the last",
        "none at or after",
    ],
)
def test_a_timestamp_finds_its_offset(log: InProcessBroker, timestamp: int, answer: Any) -> None:
    assert fields(list_offset(log, timestamp)) == answer


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_are_known_from_their_version_on(
    log: InProcessBroker, timestamp: int, first: int
) -> None:
    assert list_offset(log, timestamp, version=first - 1).error_code == 35
    assert list_offset(log, timestamp, version=first).error_code == 0


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_returns_the_log_ends(log: InProcessBroker, version: int) -> None:
    latest = list_offset(log, -1, version=version)
    assert (latest.error_code, latest.offset) == (0, 5)
    assert latest.leader_epoch == (0 if version >= 4 else -1)
    assert list_offset(log, -2, version=version).offset == 0


def test_an_empty_log_has_ends_and_no_timestamps(kafka: InProcessBroker) -> None:
    kafka.create("t")
    assert fields(list_offset(kafka, -1)) == (0, -1, 0, 0)
    assert fields(list_offset(kafka, -3)) == (0, -1, -1, -1)
    assert fields(list_offset(kafka, 5)) == (0, -1, -1, -1)


def test_the_earliest_offset_follows_deleted_records(log: InProcessBroker) -> None:
    log.partition("t").delete_records(2)
    assert fields(list_offset(log, -2)) == (0, -1, 2, 0)
    assert fields(list_offset(log, 0)) == (0, T0 + 2, 2, 0)


def test_latest_is_the_last_stable_offset_when_read_committed(log: InProcessBroker) -> None:
    partition = log.partition("t")
    partition.leader.append_from_client(
        batch(
            b"open",
            timestamp=T0 + 20,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        ),
        1,
        log.clock.now_ms(),
        object(),
    )
    assert list_offset(log, -1).offset == 6
    assert list_offset(log, -1, isolation_level=1).offset == 5
    assert fields(list_offset(log, T0 + 15, isolation_level=1)) == (0, -1, -1, -1)
    assert list_offset(log, T0 + 15).offset == 5


def test_leader_epochs_are_checked(log: InProcessBroker) -> None:
    log.partition("t").lead(Leadership(leader_id=1, leader_epoch=2, isr=(1,), replicas=(1,)))
    errors = {epoch: list_offset(log, -1, epoch=epoch).error_code for epoch in (-5, -1, 1, 2, 3)}
    assert errors == {-5: 74, -1: 0, 1: 74, 2: 0, 3: 75}


def test_unknown_partitions_are_3_and_moved_ones_6(log: InProcessBroker) -> None:
    assert list_offset(log, -1, topic="nope").error_code == 3
    assert list_offset(log, -1, index=1).error_code == 3
    log.partition("t").follow(Leadership(leader_id=2, leader_epoch=1, replicas=(1, 2)))
    assert list_offset(log, -1).error_code == 6
    assert list_offset(log, -1, replica_id=-2).offset == 5


def test_a_new_leader_below_the_old_high_watermark_is_offset_not_available_78(
    log: InProcessBroker,
) -> None:
    partition = log.partition("t")
    partition.lead(Leadership(leader_id=1, leader_epoch=1, isr=(1, 2), replicas=(1, 2)))
    partition.set_high_watermark(3)
    assert list_offset(log, -1).error_code == 78
    partition.leader.follower_fetched(2, 5, 0, -1, log.clock.now_ms())
    assert fields(list_offset(log, -1)) == (0, -1, 5, 1)


def test_a_partition_requested_twice_is_an_invalid_request_42(log: InProcessBroker) -> None:
    twice = [Partition(partition_index=0, timestamp=-1)] * 2
    response = log.call(
        ListOffsetsRequest(replica_id=-1, topics=[Topic(name="t", partitions=twice)]), 7
    )
    [answer] = response.topics[0].partitions
    assert fields(answer) == (42, -1, -1, -1)


def test_a_topic_requested_twice_is_answered_once(log: InProcessBroker) -> None:
    first, second = Partition(partition_index=0, timestamp=-1), Partition(partition_index=1)
    empty = Topic(name="empty", partitions=[])
    topics = [Topic(name="t", partitions=[first]), empty, Topic(name="t", partitions=[second])]
    [topic] = log.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics
    assert [each.error_code for each in topic.partitions] == [0, 3]
    topics = [Topic(name="t", partitions=[first]), Topic(name="t", partitions=[first])]
    [topic] = log.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics
    assert [each.error_code for each in topic.partitions] == [42]


def test_the_first_record_is_the_newest_where_none_has_a_timestamp(kafka: InProcessBroker) -> None:
    kafka.create("t")
    assert fields(list_offset(kafka, -3)) == (0, -1, -1, -1)
    for _ in range(2):
        records = encode_batch([Record(timestamp=-1, value=b"v")] * 2)
        kafka.partition("t").leader.append_from_client(records, 1, kafka.clock.now_ms())
    assert fields(list_offset(kafka, -3)) == (0, -1, 0, 0)


def test_the_log_keeps_its_timestamps_over_a_restart(
    tmp_path: Any, manual_clock: ManualClock
) -> None:
    first = InProcessBroker(tmp_path / "d", manual_clock)
    first.create("t")
    first.partition("t").leader.append_from_client(
        batch(b"a", b"b", timestamp=T0), 1, manual_clock.now_ms()
    )
    first.stop()
    second = InProcessBroker(tmp_path / "d", manual_clock)
    assert fields(list_offset(second, T0 + 1))[:3] == (0, T0 + 1, 1)
    assert fields(list_offset(second, -1))[:3] == (0, -1, 2)
    second.stop()
