"""The lag and the dead letters of share groups whose partitions other brokers lead."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, Cluster, Shape
from compat_tests.wire import Wire
from tests.apis.share_member import acquired, share_acknowledge_request, share_fetch_request
from tests.eventually import eventually
from wirekafka.metadata.image.image import GROUP
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest

APACHE, OURS = 1, 2
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
ACCEPT, RELEASE, REJECT = [1], [2], [3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.running(Shape(), tmp_path_factory.mktemp("cluster")) as running:
        yield running


class Shared:
    """A topic led by one broker, and a share group that the other coordinates.

    The dead letters of the group are for a partition that its coordinator leads.
    """

    def __init__(self, cluster: Cluster, coordinator: int):
        self._cluster = cluster
        self._coordinator = Wire((HOST, cluster.nodes[coordinator].port))
        leader = APACHE + OURS - coordinator
        self._leader = Wire((HOST, cluster.nodes[leader].port))
        self._group = self._coordinated_by(coordinator)
        self._name, self.letters = f"shared-{leader}", f"dlq.{coordinator}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        allowed = {"errors.deadletterqueue.group.enable": "true"}
        topics = [
            NewTopic(self._name, 1, replica_assignment=[[leader]]),
            NewTopic(self.letters, 1, replica_assignment=[[coordinator]], config=allowed),
        ]
        for created in admin.create_topics(topics).values():
            created.result(30)
        self._topic_id = eventually(self._found_id)
        self._configure(
            **{
                "share.auto.offset.reset": "earliest",
                "errors.deadletterqueue.topic.name": self.letters,
            }
        )
        self._epoch = 0

    def produce(self, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        for value in values:
            producer.produce(self._name, value)
        assert producer.flush(30) == 0

    def join(self) -> None:
        """Subscribe the member, and wait for its assignment."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=MEMBER,
            member_epoch=0,
            subscribed_topic_names=[self._name],
        )

        def is_assigned() -> bool:
            response = self._coordinator.ask(request, 1)
            request.member_epoch = 0 if response.error_code else response.member_epoch
            assignment = response.assignment
            return assignment is not None and bool(assignment.topic_partitions)

        eventually(is_assigned, timeout_s=60)

    def fetch(self) -> list[tuple[int, int, int]]:
        """The acquired records."""
        partitions: Any = {(self._topic_id, 0): []} if self._epoch == 0 else {}
        request = share_fetch_request(
            partitions,
            group_id=self._group,
            member_id=MEMBER,
            share_session_epoch=self._epoch,
            max_wait_ms=500,
        )
        response = self._leader.ask(request, 1)
        self._epoch += not response.error_code
        return acquired(response)

    def acknowledge(self, *ranges: tuple[int, int, list[int]]) -> None:
        request = share_acknowledge_request(
            {(self._topic_id, 0): ranges},
            group_id=self._group,
            member_id=MEMBER,
            share_session_epoch=self._epoch,
        )
        response = self._leader.ask(request, 1)
        self._epoch += 1
        assert response.responses[0].partitions[0].error_code == 0, response

    def described(self) -> tuple[int, int, int]:
        """The start offset, the lag and the error of the partition."""
        kind = DescribeShareGroupOffsetsRequest.Group
        topic = kind.Topic(topic_name=self._name, partitions=[0])
        request = DescribeShareGroupOffsetsRequest(
            groups=[kind(group_id=self._group, topics=[topic])]
        )
        [group] = self._coordinator.ask(request, 1).groups
        [found] = group.topics[0].partitions
        return found.start_offset, found.lag, found.error_code

    def dead_letters(self) -> list[dict[str, Any]]:
        """The headers of the dead letters, the names of topic and group left out."""
        consumer = Consumer(
            {"bootstrap.servers": self._cluster.bootstrap, "group.id": "letters", "log_level": 0}
        )
        consumer.assign([TopicPartition(self.letters, 0, 0)])
        found = consumer.consume(1, timeout=20)
        consumer.close()
        headers = [dict(message.headers()) for message in found]
        for each in headers:
            assert each.pop("__dlq.errors.topic") == self._name.encode()
            assert each.pop("__dlq.errors.group") == self._group.encode()
        return headers

    def _coordinated_by(self, id: int) -> str:
        def is_found(group: str) -> bool:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            [found] = self._coordinator.ask(request, 6).coordinators
            assert not found.error_code, found
            return bool(found.node_id == id)

        eventually(lambda: is_found("probe") or True, timeout_s=60)
        return next(name for name in map("group-{}".format, count()) if is_found(name))

    def _found_id(self) -> bytes | None:
        """The topic's id, once both brokers know both topics."""
        topics = [MetadataRequest.Topic(name=name) for name in (self.letters, self._name)]
        ids = [
            wire.ask(MetadataRequest(topics=topics), 12).topics
            for wire in (self._coordinator, self._leader)
        ]
        if any(topic.error_code for found in ids for topic in found):
            return None
        by_name = {topic.name: topic.topic_id for topic in ids[0]}
        topic_id: bytes = by_name[self._name]
        return topic_id

    def _configure(self, **values: str) -> None:
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        changes = [
            kind.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in values.items()
        ]
        resource = kind(resource_type=GROUP, resource_name=self._group, configs=changes)
        response = self._leader.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert response.responses[0].error_code == 0, response


@pytest.mark.parametrize("coordinator", [APACHE, OURS], ids=["by-apache", "by-wirekafka"])
def test_lag_and_dead_letters_concern_partitions_of_the_other_broker(
    cluster: Cluster, coordinator: int
) -> None:
    shared = Shared(cluster, coordinator)
    shared.produce(b"0", b"1", b"2", b"3", b"4")
    shared.join()
    assert eventually(shared.fetch, timeout_s=60)[0][0] == 0
    shared.acknowledge((0, 1, ACCEPT), (2, 2, REJECT), (3, 4, RELEASE))
    [letter] = shared.dead_letters()
    assert letter == {
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"2",
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }
    # The dead letter is not passed over yet, but it is not counted any more.
    eventually(lambda: shared.described() == (2, 2, 0))
