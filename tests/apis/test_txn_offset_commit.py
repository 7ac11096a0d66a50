"""TxnOffsetCommit by topic name and by topic id; errors as Kafka 4.4.0 gave them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.in_process import InProcessBroker
from wirekafka.errors import Error
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

ID = "transaction"
_Topic = TxnOffsetCommitRequest.Topic


class Producer:
    """A transactional producer, and a topic `t` of one partition."""

    def __init__(self, kafka: InProcessBroker):
        self.kafka = kafka
        self.topic_id = kafka.create("t")
        for topic in ("__consumer_offsets", "__transaction_state"):
            kafka.create(topic, 2)
        self.identity = kafka.call(
            InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 5
        )
        assert self.identity.error_code == 0

    def commit(
        self,
        version: int,
        *,
        topic_id: bytes | None = None,
        name: str = "t",
        partition: int = 0,
        group: str = "g",
        generation: int = -1,
        member: str = "",
        transactional_id: str = ID,
    ) -> Any:
        """The response to a commit of one offset."""
        identity = self.identity
        topic = _Topic(
            name=name,
            topic_id=self.topic_id if topic_id is None else topic_id,
            partitions=[_Topic.Partition(partition_index=partition, committed_offset=5)],
        )
        return self.kafka.call(
            TxnOffsetCommitRequest(
                transactional_id=transactional_id,
                group_id=group,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                generation_id_or_member_epoch=generation,
                member_id=member,
                topics=[topic],
            ),
            version,
        )

    def error(self, version: int, **what: Any) -> int:
        """The error code of the one partition."""
        [topic] = self.commit(version, **what).topics
        [partition] = topic.partitions
        code: int = partition.error_code
        return code


@pytest.fixture
def producer(kafka: InProcessBroker) -> Producer:
    return Producer(kafka)


def test_from_version_6_topics_are_named_by_id(producer: Producer) -> None:
    [topic] = producer.commit(6).topics
    assert (topic.name, topic.topic_id) == ("", producer.topic_id)
    [topic] = producer.commit(5).topics
    assert (topic.name, topic.topic_id) == ("t", bytes(16))
    assert topic.partitions[0].error_code == Error.NONE


@pytest.mark.parametrize(
    ("version", "what", "error"),
    [
        (6, {"topic_id": bytes(range(16))}, Error.UNKNOWN_TOPIC_ID),
        (6, {"topic_id": bytes(16)}, Error.UNKNOWN_TOPIC_ID),
        (6, {"partition": 7}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (6, {"partition": -1}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (5, {"name": "nope"}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (5, {"partition": 7}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (6, {"group": "unseen", "generation": 3, "member": "m"}, Error.GROUP_ID_NOT_FOUND),
        (5, {"group": "unseen", "generation": 3, "member": "m"}, Error.ILLEGAL_GENERATION),
        (6, {"group": "unseen", "member": "m"}, Error.NONE),
        (6, {"group": ""}, Error.INVALID_GROUP_ID),
        (5, {"group": ""}, Error.INVALID_GROUP_ID),
        (6, {"transactional_id": ""}, Error.INVALID_REQUEST),
        (5, {"transactional_id": "unseen"}, Error.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_each_failure_has_kafkas_error(
    producer: Producer, version: int, what: dict[str, Any], error: Error
) -> None:
    assert producer.error(version, **what) == error


@pytest.mark.parametrize(
    ("version", "error"), [(6, Error.STALE_MEMBER_EPOCH), (5, Error.ILLEGAL_GENERATION)]
)
def test_another_member_epoch_than_the_consumers_is_reported_as_stale_since_version_6(
    producer: Producer, version: int, error: Error
) -> None:
    joined = producer.kafka.call(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
    )
    assert joined.error_code == Error.NONE
    epoch = joined.member_epoch
    assert producer.error(version, member="m", generation=epoch) == Error.NONE
    assert producer.error(version, member="m", generation=epoch + 1) == error
    assert producer.error(version, member="m", generation=epoch - 1) == error
