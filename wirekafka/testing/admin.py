"""Topics, committed offsets and producers of a broker under test, by Kafka's requests."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.testing.engine import Engine
from wirekafka.testing.settings import topic_settings

_TIMEOUT_MS = 30_000
_FENCING_TIMEOUT_MS = 60_000
_CONCURRENT_WAIT_S = 0.02
_CONCURRENT_TRIES = 250


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The partitions of a new topic; -1 stands for the broker's default.

    With `replicas`, the brokers of each partition, the numbers do not count.
    """

    partitions: int = -1
    replication_factor: int = -1
    replicas: Sequence[Sequence[int]] = ()


def create_topic(
    engine: Engine, name: str, layout: TopicLayout, config: Mapping[str, object] | None
) -> None:
    """Create a topic. Raises KafkaError, such as TOPIC_ALREADY_EXISTS, or ValueError."""
    kind = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        timeout_ms=_TIMEOUT_MS,
        topics=[
            kind(
                name=name,
                num_partitions=-1 if layout.replicas else layout.partitions,
                replication_factor=-1 if layout.replicas else layout.replication_factor,
                assignments=[
                    kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
                    for index, ids in enumerate(layout.replicas)
                ],
                configs=[
                    kind.CreatableTopicConfig(name=key, value=text)
                    for key, text in topic_settings(config).items()
                ],
            )
        ],
    )
    response: Any = engine.ask(request, 7)
    for topic in response.topics:
        _check(topic.error_code, topic.error_message or name)


def delete_topics(engine: Engine, names: list[str]) -> None:
    """Delete topics. Raises KafkaError."""
    if not names:
        return
    state = DeleteTopicsRequest.DeleteTopicState
    response: Any = engine.ask(
        DeleteTopicsRequest(topics=[state(name=name) for name in names], timeout_ms=_TIMEOUT_MS), 6
    )
    for topic in response.responses:
        _check(topic.error_code, str(topic.name))


def committed(engine: Engine, group: str) -> dict[tuple[str, int], int]:
    """The committed offsets of a group, by (topic, partition); empty for an unknown group."""
    kind = OffsetFetchRequest.Group
    response: Any = engine.coordinator("group", group).ask(
        OffsetFetchRequest(groups=[kind(group_id=group, topics=None)], require_stable=False), 8
    )
    (described,) = response.groups
    if described.error_code == Error.NOT_COORDINATOR:
        return {}  # The offsets topic does not exist yet, so no group has offsets.
    _check(described.error_code, group)
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in described.topics
        for each in topic.partitions
    }


def fence(engine: Engine, transactional_id: str) -> None:
    """Fence a transactional id by InitProducerId, as a newer producer with that id does.

    Raises KafkaError, or LookupError if no producer has used the id.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS
    )
    for _ in range(_CONCURRENT_TRIES):
        response: Any = engine.coordinator("transaction", transactional_id).ask(request, 4)
        if response.error_code == Error.NOT_COORDINATOR:
            raise LookupError(f"no producer of transactional.id {transactional_id!r} has started")
        if response.error_code != Error.CONCURRENT_TRANSACTIONS:
            _check(response.error_code, transactional_id)
            return
        # Its open transaction is being aborted.
        time.sleep(_CONCURRENT_WAIT_S)
    _check(response.error_code, transactional_id)


def _check(code: int, about: str) -> None:
    if code:
        raise KafkaError(Error(code), about)
