"""Requests of transaction coordinators and of partition leaders to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wirekafka.coordinator.routing import Routing, TopicPartition, by_topic
from wirekafka.coordinator.transactions.commands import AddPartitions, VerifyPartitions
from wirekafka.coordinator.transactions.markers import Ending
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import Topic as AddedTopic
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Transaction = AddPartitionsToTxnRequest.Transaction

_CONFIRMATIONS = "AddPartitionsManager"
"""The client id with which Kafka's brokers confirm partitions."""

PartitionErrors = Mapping[TopicPartition, Error]
"""An error, or NONE, for each partition of a request."""


class MarkerBatch(NamedTuple):
    """The end markers of one transaction for partitions that one broker leads."""

    ending: Ending
    partitions: Sequence[TopicPartition]


async def write_markers(
    routing: Routing, broker_id: int, batches: Sequence[MarkerBatch]
) -> Sequence[PartitionErrors]:
    """Append markers to partitions that a broker leads, and wait until they are committed.

    This is WriteTxnMarkers. Returns the errors for each batch. Raises the errors of `Links.send`.
    """
    request = WriteTxnMarkersRequest(markers=[_marker(batch) for batch in batches])
    client_id = f"broker-{routing.node_id}-txn-marker-sender"
    response = await routing.links.send(broker_id, client_id, request)
    # A request may have several markers of one producer, for different partitions.
    errors = {
        (marker.producer_id, topic.name, each.partition_index): Error.of(each.error_code)
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
    return [
        {
            where: errors[key]
            for where in batch.partitions
            if (key := (batch.ending.producer.id, *where)) in errors
        }
        for batch in batches
    ]


async def confirm_partitions(
    routing: Routing, broker_id: int, commands: Sequence[AddPartitions | VerifyPartitions]
) -> Sequence[PartitionErrors]:
    """Add partitions to transactions, or verify that the transactions have them.

    This is AddPartitionsToTxn; the broker must be the coordinator of all these transactions, and
    each transactional id may occur only once. Returns the errors for each command. Raises the
    errors of `Links.send`, or the error of the response as a whole.
    """
    request = AddPartitionsToTxnRequest(transactions=[_transaction(each) for each in commands])
    response = await routing.links.send(broker_id, _CONFIRMATIONS, request)
    if response.error_code:
        raise KafkaError.of(response.error_code)
    errors = {
        result.transactional_id: {
            (topic.name, each.partition_index): Error.of(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
    return [errors.get(command.transactional_id, {}) for command in commands]


def _marker(batch: MarkerBatch) -> _Marker:
    producer, marker = batch.ending.producer, batch.ending.marker
    return _Marker(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_result=marker.is_commit,
        topics=[
            _Marker.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(batch.partitions).items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=batch.ending.transaction_version,
    )


def _transaction(command: AddPartitions | VerifyPartitions) -> _Transaction:
    return _Transaction(
        transactional_id=command.transactional_id,
        producer_id=command.producer.producer_id,
        producer_epoch=command.producer.producer_epoch,
        verify_only=isinstance(command, VerifyPartitions),
        topics=[
            AddedTopic(name=name, partitions=indexes)
            for name, indexes in by_topic(sorted(command.partitions)).items()
        ],
    )
