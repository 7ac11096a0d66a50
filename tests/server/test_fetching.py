"""A broker fetches a partition while another broker leads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.metadata.image.image import PartitionImage, TopicImage
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.peers.replica_fetcher import ReplicaFetchers

HERE, THERE = 1, 2


class Recorded:
    """A `Fetching` that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def follow(self, partition: Partition) -> None:
        self.calls.append(f"follow {partition.leader_id} in epoch {partition.leader_epoch}")

    def forget(self, partition: Partition) -> None:
        self.calls.append("forget")

    def configured(self) -> None:
        self.calls.append("configured")

    def lags(self) -> Iterator[tuple[str, Partition, int]]:
        return iter(())

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    yield kafka
    kafka.stop()


def led_by(
    kafka: InProcessBroker, leader: int, leader_epoch: int
) -> tuple[TopicImage, PartitionImage]:
    topic = kafka.broker.image.topics["t"]
    known = topic.partitions[0]
    topic.partitions[0] = replace(
        known,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=known.partition_epoch + 1,
        replicas=[HERE, THERE],
        isr=[leader],
    )
    return topic, topic.partitions[0]


def test_a_node_that_leads_all_partitions_opens_no_connections_to_fetch(
    kafka: InProcessBroker,
) -> None:
    kafka.create("t", 3)
    fetching = kafka.broker.fetching
    assert isinstance(fetching, ReplicaFetchers)
    assert not fetching._fetchers and not fetching._places


def test_fetching_follows_the_leadership(kafka: InProcessBroker) -> None:
    kafka.create("t")
    kafka.partition("t").leading().append_from_client(batch(b"v"), 1, kafka.clock.now_ms())
    recorded = kafka.broker.fetching = Recorded()
    kafka.broker.place_partition(*led_by(kafka, THERE, 5))
    kafka.broker.place_partition(*led_by(kafka, -1, 6))
    kafka.broker.place_partition(*led_by(kafka, HERE, 7))
    kafka.broker.place_partition(*led_by(kafka, THERE, 8))
    kafka.broker.drop_partition(*led_by(kafka, THERE, 8))
    assert recorded.calls == [
        "follow 2 in epoch 5",
        "follow -1 in epoch 6",
        "forget",
        "follow 2 in epoch 8",
        "forget",
    ]


def test_a_changed_configuration_and_the_stop_reach_it(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    recorded = kafka.broker.fetching = Recorded()
    kafka.broker.configure_broker({"num.replica.fetchers": "3"}, {})
    assert kafka.broker.config.num_replica_fetchers == 3
    kafka.stop()
    assert recorded.calls == ["configured", "stop"]
