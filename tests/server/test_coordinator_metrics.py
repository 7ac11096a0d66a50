"""The counts of the group coordinator and of conversions in `/metrics`, as Apache Kafka 4.4's.

The events are those whose counts were compared with the JMX beans of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.eventually import eventually
from tests.raw_client import RawClient
from tests.server.test_monitoring import Monitored
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.sync_group import SyncGroupRequest
from wirekafka.server.monitoring.coordinators import RecentRates

PREFIX = "kafka_server_group_coordinator_metrics"
LEAVES = -1


class Coordinator:
    """A broker whose groups are asked by raw requests."""

    def __init__(self, monitored: Monitored, client: RawClient):
        self.monitored, self.client = monitored, client

    def ask(self, request: Request, version: int) -> Any:
        """The response, once the partition of the group is loaded."""
        found: list[Any] = []

        def is_loaded() -> bool:
            found.append(self.client.call(request, version))
            return getattr(found[-1], "error_code", 0) != Error.NOT_COORDINATOR

        eventually(is_loaded)
        return found[-1]

    def count(self, name: str) -> float:
        return self.monitored.value(f"{PREFIX}_{name}_count")

    def commit(self, group: str, *partitions: int, metadata: str = "") -> list[int]:
        topic = OffsetCommitRequest.Topic
        offsets = [
            topic.Partition(partition_index=index, committed_offset=1, committed_metadata=metadata)
            for index in partitions
        ]
        request = OffsetCommitRequest(group_id=group, topics=[topic(name="t", partitions=offsets)])
        codes: list[int] = []

        def is_loaded() -> bool:
            codes[:] = [each.error_code for each in self.ask(request, 8).topics[0].partitions]
            return Error.NOT_COORDINATOR not in codes

        eventually(is_loaded)
        return codes


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    found = Monitored(
        tmp_path_factory.mktemp("coordinator") / "data",
        "--set",
        "offsets.retention.check.interval.ms=50",
        "--set",
        "offsets.topic.num.partitions=1",
    )
    with found.serving:
        yield found


@pytest.fixture(scope="module")
def coordinator(monitored: Monitored) -> Iterator[Coordinator]:
    with RawClient(monitored.serving.port) as client:
        topic = CreateTopicsRequest.CreatableTopic
        created = CreateTopicsRequest(
            topics=[topic(name="t", num_partitions=4, replication_factor=1)], timeout_ms=10_000
        )
        assert client.call(created, 5).topics[0].error_code == 0
        client.call(FindCoordinatorRequest(key="g"), 0)  # Creates the topic of offsets.
        yield Coordinator(monitored, client)


def test_each_committed_offset_is_counted_but_not_a_refused_one(coordinator: Coordinator) -> None:
    before = coordinator.count("offset_commit")
    assert coordinator.commit("committed", 0, 1) == [0, 0]
    assert coordinator.commit("committed", 0, metadata="x" * 5000) == [12]
    assert coordinator.count("offset_commit") == before + 2
    assert coordinator.monitored.value(f"{PREFIX}_offset_commit_rate") > 0


def test_deleted_offsets_are_counted_but_not_those_of_a_deleted_group(
    coordinator: Coordinator,
) -> None:
    coordinator.commit("deleted", 0, 1, 2)
    before = coordinator.count("offset_deletion")
    topic = OffsetDeleteRequest.Topic
    partitions = [topic.Partition(partition_index=index) for index in (0, 3)]
    request = OffsetDeleteRequest(
        group_id="deleted", topics=[topic(name="t", partitions=partitions)]
    )
    assert coordinator.ask(request, 0).error_code == 0
    deleted = coordinator.client.call(DeleteGroupsRequest(groups_names=["deleted"]), 1)
    assert [each.error_code for each in deleted.results] == [0]
    assert coordinator.count("offset_deletion") == before + 1


def test_expired_offsets_are_counted(coordinator: Coordinator) -> None:
    before = coordinator.count("offset_expiration")
    topic = OffsetCommitRequest.Topic
    partitions = [topic.Partition(partition_index=0, committed_offset=1)]
    request = OffsetCommitRequest(
        group_id="expired", retention_time_ms=1, topics=[topic(name="t", partitions=partitions)]
    )
    coordinator.ask(request, 2)
    eventually(lambda: coordinator.count("offset_expiration") == before + 1)


def test_a_new_epoch_of_a_consumer_group_is_counted_but_not_that_of_a_member_that_leaves(
    coordinator: Coordinator,
) -> None:
    before = coordinator.count("consumer_group_rebalance")

    def beat(member: str, epoch: int) -> None:
        joins = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id="consumers",
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=["t"] if joins else None,
            topic_partitions=[] if joins else None,
            rebalance_timeout_ms=60_000 if joins else -1,
        )
        assert coordinator.ask(request, 1).error_code == 0

    beat("one", 0)
    beat("two", 0)
    beat("two", LEAVES)
    beat("one", LEAVES)
    assert coordinator.count("consumer_group_rebalance") == before + 2


def test_a_new_epoch_of_a_share_group_is_counted(coordinator: Coordinator) -> None:
    before = coordinator.count("share_group_rebalance")
    member = "AAAAAAAAAAAAAAAAAAAAAA"

    def beat(epoch: int, topics: list[str] | None) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id="sharing", member_id=member, member_epoch=epoch, subscribed_topic_names=topics
        )
        assert coordinator.ask(request, 1).error_code == 0

    beat(0, ["t"])
    # The states of the share partitions are written, which is one more epoch.
    eventually(lambda: coordinator.count("share_group_rebalance") >= before + 1)
    after = coordinator.count("share_group_rebalance")
    beat(LEAVES, None)
    assert coordinator.count("share_group_rebalance") == after


def test_a_new_epoch_of_a_streams_group_is_counted(coordinator: Coordinator) -> None:
    before = coordinator.count("streams_group_rebalance")
    request = StreamsGroupHeartbeatRequest
    subtopology = StreamsGroupTopologyValue.Subtopology(subtopology_id="0", source_topics=["t"])
    joined = request(
        group_id="streams",
        member_id="one",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        process_id="p",
        topology=request.Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        client_tags=[],
    )
    assert coordinator.ask(joined, 1).error_code == 0
    assert coordinator.count("streams_group_rebalance") == before + 1
    left = request(group_id="streams", member_id="one", member_epoch=LEAVES)
    assert coordinator.ask(left, 1).error_code == 0
    assert coordinator.count("streams_group_rebalance") == before + 1


def test_a_generation_of_a_classic_group_is_counted_once_its_leader_has_assigned(
    coordinator: Coordinator,
) -> None:
    before = coordinator.count("group_completed_rebalance")
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = coordinator.ask(join, 3)
    assert joined.error_code == 0 and joined.leader == joined.member_id
    assert coordinator.count("group_completed_rebalance") == before
    sync = SyncGroupRequest(
        group_id="classic", generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert coordinator.ask(sync, 3).error_code == 0
    assert coordinator.count("group_completed_rebalance") == before + 1


def test_the_partitions_of_the_coordinator_are_counted_by_state(coordinator: Coordinator) -> None:
    coordinator.commit("any", 0)
    value = coordinator.monitored.value
    assert value(f"{PREFIX}_num_partitions", state="active") == 1
    assert value(f"{PREFIX}_num_partitions", state="loading") == 0


def test_records_that_are_compressed_anew_are_counted_as_conversions(
    monitored: Monitored, coordinator: Coordinator
) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    stored = topic.CreatableTopicConfig(name="compression.type", value="gzip")
    coordinator.client.call(
        CreateTopicsRequest(
            topics=[topic(name="gzip", num_partitions=1, replication_factor=1, configs=[stored])],
            timeout_ms=10_000,
        ),
        5,
    )
    for codec in ("none", "gzip", "lz4"):
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{monitored.serving.port}",
                "compression.type": codec,
                "linger.ms": 50,
            }
        )
        for name in ("gzip", "t"):
            for _ in range(3):
                producer.produce(name, b"x" * 1000)
        assert producer.flush(30) == 0
    name = "kafka_server_brokertopicmetrics_producemessageconversions_total"
    assert monitored.value(name, topic="gzip") == monitored.value(name) == 6
    assert monitored.value(name, topic="t") == 0


def test_rates_are_those_of_the_last_half_minute() -> None:
    rates = RecentRates()
    assert rates.of((10, 0), 1_000) == (0.0, 0.0)
    assert rates.of((30, 0), 11_000) == (2.0, 0.0)
    assert rates.of((90, 1), 31_000) == pytest.approx((80 / 30, 1 / 30))
    assert rates.of((90, 1), 71_000) == (0.0, 0.0)
