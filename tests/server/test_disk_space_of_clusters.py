"""What groups have read whose coordinators are other brokers: known, or everything is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.in_process import now
from wirekafka import Cluster
from wirekafka.broker import Broker
from wirekafka.codec.message import Request
from wirekafka.config.own import DiskLimit
from wirekafka.coordinator.routing import NoLinks
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.protocol.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from wirekafka.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.security.acl import DESCRIBE
from wirekafka.server.space.disk_space import DiskSpace
from wirekafka.server.space.other_coordinators import OtherCoordinators

UNKNOWN, NOTHING_UNREAD = -1, (1 << 63) - 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Broker 1 leads the topics, and broker 2 coordinates all groups."""
    with Cluster(2, config={"offsets.topic.num.partitions": 1}) as cluster:
        for topic in ("t", "quiet"):
            cluster.create_topic(topic, config={"wirekafka.retention.keep.unread": "true"})
            cluster.move_leader(topic, 0, 1)
        cluster.produce("t", [str(number) for number in range(10)])
        commit(cluster, "fast", 9)
        cluster.move_leader("__consumer_offsets", 0, 2)
        yield cluster


def commit(cluster: Cluster, group: str, offset: int, topic: str = "t") -> None:
    consumer = Consumer(cluster.client_config() | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def unread_from(cluster: Cluster, topic: str, broker: int = 1) -> int:
    """From where on retention waits, a few seconds later."""

    def find(broker: Broker) -> int:
        return broker.partitions[topic, 0].log.unread_from

    cluster.clock.advance(seconds=6)
    return cluster[broker]._engine.on_broker(find)


def read_up_to(cluster: Cluster, offset: int) -> None:
    """Have the slowest group commit an offset, and wait until broker 1 knows it."""
    commit(cluster, "slow", offset)
    cluster.wait_for(lambda: unread_from(cluster, "t") == offset)


def test_offsets_that_other_brokers_have_are_requested(cluster: Cluster) -> None:
    read_up_to(cluster, 3)
    cluster.wait_for(lambda: unread_from(cluster, "quiet") == NOTHING_UNREAD)
    assert unread_from(cluster, "t", broker=2) == UNKNOWN, "a follower deletes with its leader"
    read_up_to(cluster, 5)


def test_everything_is_kept_while_the_coordinator_does_not_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_up_to(cluster, 5)
    routing = cluster[1]._engine.on_broker(lambda broker: broker.routing)
    monkeypatch.setattr(routing, "links", NoLinks())
    assert unread_from(cluster, "t") == 5, "an answer counts for a minute"
    cluster.wait_for(lambda: unread_from(cluster, "t") == UNKNOWN)
    monkeypatch.undo()
    cluster.wait_for(lambda: unread_from(cluster, "t") == 5)


def test_everything_is_kept_until_a_new_coordinator_has_answered(cluster: Cluster) -> None:
    read_up_to(cluster, 5)
    cluster.move_leader("__consumer_offsets", 0, 1)
    cluster.wait_for(lambda: unread_from(cluster, "t") == 5)
    commit(cluster, "slow", 7)
    cluster.move_leader("__consumer_offsets", 0, 2)
    cluster.wait_for(lambda: unread_from(cluster, "t") == UNKNOWN)
    cluster.wait_for(lambda: unread_from(cluster, "t") == 7)


def test_share_groups_of_other_brokers_hold_what_they_have_not_settled(cluster: Cluster) -> None:
    read_up_to(cluster, 7)
    named = AlterShareGroupOffsetsRequest.Topic
    partition = named.Partition(partition_index=0, start_offset=2)
    request = AlterShareGroupOffsetsRequest(
        group_id="s", topics=[named(topic_name="t", partitions=[partition])]
    )
    response = cluster[2]._engine.ask(request, 0)
    assert response.responses[0].partitions[0].error_code == 0
    cluster.wait_for(lambda: unread_from(cluster, "t") == 2)
    response = cluster[2]._engine.ask(DeleteGroupsRequest(groups_names=["s"]), 2)
    assert response.results[0].error_code == 0
    cluster.wait_for(lambda: unread_from(cluster, "t") == 7)


def test_a_budget_deletes_what_groups_of_all_coordinators_have_read(cluster: Cluster) -> None:
    config = {"internal.segment.bytes": 5_000}
    for topic in ("read", "unread"):
        cluster.create_topic(topic, config=config)
        cluster.move_leader(topic, 0, 1)
        for _ in range(60):
            cluster.produce(topic, ["v" * 900])
    commit(cluster, "slow", 30, "read")
    commit(cluster, "stopped", 0, "unread")
    space: list[DiskSpace] = []

    def keep(broker: Broker) -> int:
        """What the node's housekeeping would do every second; returns the bytes of all logs."""
        if not space:
            space.append(DiskSpace(broker, DiskLimit(100_000, deletes_unread=False)))
        while space[0].work() is not None:
            pass
        return space[0].statuses()[0].freed_bytes

    def starts(broker: Broker) -> tuple[int, int]:
        logs = [broker.partitions[topic, 0].log for topic in ("read", "unread")]
        return logs[0].start_offset, logs[1].start_offset

    assert cluster[1]._engine.on_broker(keep) == 0, "the other coordinator is unknown yet"

    def frees() -> bool:
        cluster.clock.advance(seconds=6)
        return cluster[1]._engine.on_broker(keep) > 0

    cluster.wait_for(frees)
    read, unread = cluster[1]._engine.on_broker(starts)
    assert 20 < read <= 30 and unread == 0
    cluster.produce("read", ["follow"])
    cluster.wait_for(lambda: cluster[2]._engine.on_broker(starts) == (read, 0))


def test_a_coordinator_that_has_not_loaded_all_groups_makes_these_unknown(cluster: Cluster) -> None:
    read_up_to(cluster, 7)

    def resign(broker: Broker) -> None:
        broker.groups.resign(0)  # As when a partition cannot be loaded.

    def lead(broker: Broker) -> None:
        broker.groups.lead(0, broker.partitions["__consumer_offsets", 0])

    cluster[2]._engine.on_broker(resign)
    cluster.wait_for(lambda: unread_from(cluster, "t") != 7)
    assert unread_from(cluster, "t") == UNKNOWN
    cluster[2]._engine.on_broker(lead)
    cluster.wait_for(lambda: unread_from(cluster, "t") == 7)


class Deaf(NoLinks):
    """Links to a broker that does not let this broker see all groups."""

    async def send(self, broker_id: int, client_id: str, request: Request) -> Any:
        assert isinstance(request, DescribeClusterRequest)
        return DescribeClusterResponse(cluster_authorized_operations=0)


def test_a_broker_that_may_not_see_all_groups_knows_none(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(broker: Broker) -> Error:
        with monkeypatch.context() as patched, pytest.raises(KafkaError) as caught:
            patched.setattr(broker.routing, "links", Deaf())
            now(OtherCoordinators(broker).read([2], [("t", 0)]))
        return caught.value.error

    assert cluster[1]._engine.on_broker(ask) is Error.CLUSTER_AUTHORIZATION_FAILED


class Blind(NoLinks):
    """Links to a broker that has a share group, and does not let this broker see the topic."""

    async def send(self, broker_id: int, client_id: str, request: Request) -> Any:
        if isinstance(request, DescribeClusterRequest):
            return DescribeClusterResponse(cluster_authorized_operations=1 << DESCRIBE)
        if isinstance(request, ListGroupsRequest):
            share = ListGroupsResponse.ListedGroup(group_id="s", group_type="share")
            return ListGroupsResponse(groups=[share])
        if isinstance(request, OffsetFetchRequest):
            return OffsetFetchResponse(groups=[_unseen(each) for each in request.groups])
        assert isinstance(request, DescribeShareGroupOffsetsRequest)
        kind = DescribeShareGroupOffsetsResponse.Group
        return DescribeShareGroupOffsetsResponse(groups=[kind(group_id="s", topics=[])])


def _unseen(group: OffsetFetchRequest.Group) -> OffsetFetchResponse.Group:
    kind = OffsetFetchResponse.Group.Topics
    refused = kind.Partitions(partition_index=0, error_code=Error.TOPIC_AUTHORIZATION_FAILED)
    topics = [
        kind(name=each.name, topic_id=each.topic_id, partitions=[refused])
        for each in group.topics or ()
    ]
    return OffsetFetchResponse.Group(group_id=group.group_id, topics=topics)


def test_a_broker_that_may_not_see_a_topic_does_not_know_its_groups(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(broker: Broker) -> Error:
        with monkeypatch.context() as patched, pytest.raises(KafkaError) as caught:
            patched.setattr(broker.routing, "links", Blind())
            now(OtherCoordinators(broker).read([2], [("t", 0)]))
        return caught.value.error

    assert cluster[1]._engine.on_broker(ask) is Error.TOPIC_AUTHORIZATION_FAILED
