"""The interface for requests of coordinators and partition leaders to other brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from wirekafka.coordinator.markers import Ending, TopicPartition
from wirekafka.coordinator.share_state.commands import KeyedCommand
from wirekafka.coordinator.transaction_commands import AddPartitions, VerifyPartitions
from wirekafka.errors import Error, KafkaError

PartitionErrors = Mapping[TopicPartition, Error]
"""An error, or NONE, for each partition of a request."""


class MarkerBatch(NamedTuple):
    """The end markers of one transaction for partitions that one broker leads."""

    ending: Ending
    partitions: Sequence[TopicPartition]


class OutgoingBatch(NamedTuple):
    """A record batch for a partition that another broker leads."""

    topic: str
    topic_id: bytes
    partition: int
    records: bytes


class OtherBrokers(Protocol):
    """Requests to a broker, given its id. They return one result per item, in the given order.

    All raise `KafkaError`: BROKER_NOT_AVAILABLE for a broker that is not in service,
    NETWORK_EXCEPTION and REQUEST_TIMED_OUT if no response arrives, or the error of the response as
    a whole. Nothing is retried here.
    """

    async def write_markers(
        self, broker_id: int, batches: Sequence[MarkerBatch]
    ) -> Sequence[PartitionErrors]:
        """Append markers to partitions that the broker leads, and wait until they are committed.

        This is WriteTxnMarkers.
        """

    async def confirm_partitions(
        self, broker_id: int, commands: Sequence[AddPartitions | VerifyPartitions]
    ) -> Sequence[PartitionErrors]:
        """Add partitions to transactions, or verify that they are part of them.

        This is AddPartitionsToTxn; the broker must be the coordinator of all these transactions.
        """

    async def run_on_share_states(
        self, broker_id: int, commands: Sequence[KeyedCommand]
    ) -> Sequence[Any]:
        """Run commands on states of share partitions (Read-, WriteShareGroupState and others).

        All commands are of one type and on states of one group; the broker must be their
        coordinator. Returns the reply to each as in `ShareStates`, or its `KafkaError`.
        """

    async def append(self, broker_id: int, batch: OutgoingBatch) -> None:
        """Append a batch to a partition that the broker leads, and wait until it is committed.

        This is Produce with acks=all. Raises the partition's error.
        """

    async def latest_offsets(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int | KafkaError]:
        """The high watermarks of partitions that the broker leads (ListOffsets)."""


class NoOtherBrokers:
    """An `OtherBrokers` without connections: every broker is BROKER_NOT_AVAILABLE."""

    async def write_markers(
        self, broker_id: int, batches: Sequence[MarkerBatch]
    ) -> Sequence[PartitionErrors]:
        raise KafkaError(Error.BROKER_NOT_AVAILABLE)

    async def confirm_partitions(
        self, broker_id: int, commands: Sequence[AddPartitions | VerifyPartitions]
    ) -> Sequence[PartitionErrors]:
        raise KafkaError(Error.BROKER_NOT_AVAILABLE)

    async def run_on_share_states(
        self, broker_id: int, commands: Sequence[KeyedCommand]
    ) -> Sequence[Any]:
        raise KafkaError(Error.BROKER_NOT_AVAILABLE)

    async def append(self, broker_id: int, batch: OutgoingBatch) -> None:
        raise KafkaError(Error.BROKER_NOT_AVAILABLE)

    async def latest_offsets(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int | KafkaError]:
        raise KafkaError(Error.BROKER_NOT_AVAILABLE)


@dataclass(slots=True)
class Routing:
    """Finds the leaders of partitions, and sends requests to their brokers."""

    node_id: int
    """The id of this broker."""
    leader_of: Callable[[str, int], int | None]
    """Returns the id of the broker that leads a partition, `NO_LEADER` if none does; None if
    there is no such partition in this broker's metadata."""
    other_brokers: OtherBrokers = field(default_factory=NoOtherBrokers)
