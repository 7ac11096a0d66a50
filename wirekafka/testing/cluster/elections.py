"""Elections of partition leaders in a cluster under test, by Kafka's requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.elections import ElectionType
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.testing.engine import Engine

Condition = Callable[[MetadataImage], bool]
"""The queries of a node's metadata."""

_TIMEOUT_MS = 30_000


def make_preferred(engine: Engine, topic: str, partition: int, order: Sequence[int]) -> None:
    """Order the replicas of a partition, and elect the first replica. Raises KafkaError."""
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    move = kind.ReassignablePartition(partition_index=partition, replicas=list(order))
    response: Any = engine.ask(
        AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS, topics=[kind(name=topic, partitions=[move])]
        ),
        1,
    )
    _check(response.error_code, response.error_message)
    for each in response.responses:
        for result in each.partitions:
            _check(result.error_code, result.error_message)
    try:
        _elect(engine, ElectionType.PREFERRED, topic, partition)
    except KafkaError as error:
        if error.error is not Error.ELECTION_NOT_NEEDED:
            raise


def elect_unclean(engine: Engine, topic: str, partition: int) -> None:
    """Elect a leader outside of the ISR. Raises KafkaError."""
    _elect(engine, ElectionType.UNCLEAN, topic, partition)


def _elect(engine: Engine, kind: ElectionType, topic: str, partition: int) -> None:
    partitions = ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])
    response: Any = engine.ask(
        ElectLeadersRequest(
            election_type=kind, topic_partitions=[partitions], timeout_ms=_TIMEOUT_MS
        ),
        2,
    )
    _check(response.error_code, None)
    for each in response.replica_election_results:
        for result in each.partition_result:
            _check(result.error_code, result.error_message)


def _check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(Error(code), message)
