"""OffsetForLeaderEpoch: the ends of epochs (KIP-101, KIP-320); responses as Kafka 4.3 gave them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from wirekafka.replication.partition.partition import Leadership

Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
Partition = Topic.OffsetForLeaderPartition


def end_of(
    kafka: InProcessBroker,
    epoch: int,
    *,
    version: int = 4,
    topic: str = "t",
    index: int = 0,
    current: int = -1,
) -> tuple[int, int, int]:
    request = OffsetForLeaderEpochRequest(
        replica_id=-2,
        topics=[
            Topic(
                topic=topic,
                partitions=[
                    Partition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
                ],
            )
        ],
    )
    [answer] = kafka.call(request, version).topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.fixture
def log(kafka: InProcessBroker) -> InProcessBroker:
    """A broker with two records of epoch 0 and one of epoch 3."""
    kafka.create("t")
    partition = kafka.partition("t")
    partition.leader.append_from_client(batch(b"a", b"b"), 1, kafka.clock.now_ms())
    partition.lead(Leadership(leader_id=1, leader_epoch=3, isr=(1,), replicas=(1,)))
    partition.leader.append_from_client(batch(b"c"), 1, kafka.clock.now_ms())
    return kafka


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (0, (0, 0, 2)),
        (1, (0, 0, 2)),
        (2, (0, 0, 2)),
        (3, (0, 3, 3)),
        (4, (0, -1, -1)),
        (-1, (0, -1, -1)),
        (-5, (0, -5, 0)),
    ],
)
def test_the_largest_epoch_up_to_the_requested_with_its_end_offset(
    log: InProcessBroker, epoch: int, answer: Any, version: int
) -> None:
    assert end_of(log, epoch, version=version) == answer


def test_errors_are_reported_per_partition(log: InProcessBroker) -> None:
    assert end_of(log, 0, topic="nope") == (3, -1, -1)
    assert end_of(log, 0, index=4) == (3, -1, -1)
    assert end_of(log, 0, current=2) == (74, -1, -1)
    assert end_of(log, 0, current=4) == (75, -1, -1)
    log.partition("t").follow(Leadership(leader_id=2, leader_epoch=4, replicas=(1, 2)))
    assert end_of(log, 0) == (6, -1, -1)
