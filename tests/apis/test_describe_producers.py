"""DescribeProducers: partitions that have no replica on the broker."""

from __future__ import annotations

from pathlib import Path

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.errors import Error
from wirekafka.protocol.describe_producers import DescribeProducersRequest


def test_a_partition_without_a_replica_here_is_reported_as_such(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    broker.create("orders", partitions=2)
    del broker.broker.partitions["orders", 1]  # As if only another broker had a replica.
    topic = DescribeProducersRequest.TopicRequest(name="orders", partition_indexes=[0, 1, 2])
    response = broker.call(DescribeProducersRequest(topics=[topic]), 0)
    assert [each.error_code for each in response.topics[0].partitions] == [
        Error.NONE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    broker.stop()
