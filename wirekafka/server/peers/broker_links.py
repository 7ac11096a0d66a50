"""Requests of this broker's coordinators to other brokers, each kind on its own connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.coordinator.markers import TopicPartition
from wirekafka.coordinator.other_brokers import MarkerBatch, OutgoingBatch, PartitionErrors
from wirekafka.coordinator.share_state.commands import KeyedCommand
from wirekafka.coordinator.transaction_commands import AddPartitions, VerifyPartitions
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import Topic as AddedTopic
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest
from wirekafka.server.peers import share_state_requests
from wirekafka.server.peers.broker_connections import BrokerConnections
from wirekafka.server.peers.peer import Peer

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Transaction = AddPartitionsToTxnRequest.Transaction

_CONFIRMATIONS = "AddPartitionsManager"
_SHARE_STATES = "Persister"
_DEAD_LETTERS = "ShareGroupDLQManager"
_LATEST_OFFSETS = "NetworkPartitionMetadataClient"
"""Client ids, as Kafka's brokers send them."""

_ALL, _CONSUMER, _LATEST = -1, -1, -1


class BrokerLinks:
    """The `OtherBrokers` of a broker: one connection per broker and kind of request.

    The kinds are separate because a broker serves a connection's requests one after the other,
    and each waits for a commit. Addresses are those of the brokers' inter-broker listeners in the
    metadata.
    """

    def __init__(
        self,
        image: MetadataImage,
        config: Callable[[], BrokerConfig],
        connections: BrokerConnections,
    ):
        self._image = image
        self._config = config
        self._connections = connections
        self._peers: dict[tuple[int, str], Peer] = {}
        self._is_closed = False

    def close(self) -> None:
        """Close all connections permanently: outstanding and later requests fail."""
        self._is_closed = True
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()

    # OtherBrokers

    async def write_markers(
        self, broker_id: int, batches: Sequence[MarkerBatch]
    ) -> Sequence[PartitionErrors]:
        """See `OtherBrokers`."""
        request = WriteTxnMarkersRequest(markers=[_marker(batch) for batch in batches])
        client_id = f"broker-{self._config().node_id}-txn-marker-sender"
        response = await self._send(broker_id, client_id, request)
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
        self, broker_id: int, commands: Sequence[AddPartitions | VerifyPartitions]
    ) -> Sequence[PartitionErrors]:
        """See `OtherBrokers`. A request may have each transactional id only once."""
        request = AddPartitionsToTxnRequest(transactions=[_transaction(each) for each in commands])
        response = await self._send(broker_id, _CONFIRMATIONS, request)
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

    async def run_on_share_states(
        self, broker_id: int, commands: Sequence[KeyedCommand]
    ) -> Sequence[Any]:
        """See `OtherBrokers`."""
        request = share_state_requests.request_of(commands)
        response = await self._send(broker_id, _SHARE_STATES, request)
        return share_state_requests.replies_of(commands, response)

    async def append(self, broker_id: int, batch: OutgoingBatch) -> None:
        """See `OtherBrokers`."""
        topic = ProduceRequest.TopicProduceData(name=batch.topic, topic_id=batch.topic_id)
        data = topic.PartitionProduceData(index=batch.partition, records=batch.records)
        topic.partition_data = [data]
        request = ProduceRequest(
            acks=_ALL, timeout_ms=self._config().request_timeout_ms, topic_data=[topic]
        )
        response = await self._send(broker_id, _DEAD_LETTERS, request)
        for part in response.responses:
            for result in part.partition_responses:
                if result.error_code:
                    raise KafkaError(Error.of(result.error_code), result.error_message)

    async def latest_offsets(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int | KafkaError]:
        """See `OtherBrokers`."""
        kind = ListOffsetsRequest.Topic
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            topics=[
                kind(
                    name=name,
                    partitions=[
                        kind.Partition(partition_index=index, timestamp=_LATEST)
                        for index in indexes
                    ],
                )
                for name, indexes in _by_topic(partitions).items()
            ],
            timeout_ms=self._config().request_timeout_ms,
        )
        response = await self._send(broker_id, _LATEST_OFFSETS, request)
        return {
            (topic.name, each.partition_index): (
                KafkaError(Error.of(each.error_code)) if each.error_code else each.offset
            )
            for topic in response.topics
            for each in topic.partitions
        }

    # Connections

    async def _send(self, broker_id: int, client_id: str, request: Request) -> Any:
        peer = self._peer(broker_id, client_id)
        return await peer.send(request, timeout_ms=self._config().request_timeout_ms)

    def _peer(self, broker_id: int, client_id: str) -> Peer:
        """Return the connection to a broker's current address. Raises BROKER_NOT_AVAILABLE."""
        broker = self._image.brokers.get(broker_id)
        if broker is None or broker.fenced or self._is_closed:
            raise KafkaError(Error.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in service")
        key = broker_id, client_id
        peer = self._peers.get(key)
        if peer is not None:
            if peer.options.address == self._connections.address_of(broker_id):
                return peer
            self._peers.pop(key).close()
        peer = self._peers[key] = self._connections.connect(broker_id, client_id)
        return peer


def _marker(batch: MarkerBatch) -> _Marker:
    producer, marker = batch.ending.producer, batch.ending.marker
    return _Marker(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_result=marker.is_commit,
        topics=[
            _Marker.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in _by_topic(batch.partitions).items()
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
            for name, indexes in _by_topic(sorted(command.partitions)).items()
        ],
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
