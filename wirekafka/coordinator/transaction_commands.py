"""What can be asked of a transaction shard, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.transaction import Transaction


class ProducerIdentity(NamedTuple):
    """A producer id, and the epoch that is now valid."""

    producer_id: int
    producer_epoch: int


class StartProducer(NamedTuple):
    """InitProducerId. Answered with a `ProducerIdentity`.

    `expected` is what a producer that recovers from an error thinks it is (KIP-360).
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn, or what implies it. Answered with None.

    `client_version` is the generation of transactions that the request belongs to.
    """

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[tuple[str, int]]
    client_version: int


class VerifyPartitions(NamedTuple):
    """Whether partitions are in the open transaction (KIP-890). Answered with those that are."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[tuple[str, int]]


class EndTransaction(NamedTuple):
    """EndTxn. Answered with the `ProducerIdentity` for the next transaction."""

    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    client_version: int


class MarkersWritten(NamedTuple):
    """Every partition of the decided transaction has its marker. Answered with None."""

    transactional_id: str
    producer: ProducerIdentity


class DescribeTransaction(NamedTuple):
    """Answered with the `Transaction`, or TRANSACTIONAL_ID_NOT_FOUND."""

    transactional_id: str


class ListTransactions(NamedTuple):
    """Answered with (transactional id, `Transaction`) pairs; empty filters pass all (KIP-664).

    `longer_than_ms` of -1 passes transactions of any age (KIP-994).
    """

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1


Listing = Sequence[tuple[str, Transaction]]

TransactionCommand: TypeAlias = (
    StartProducer | AddPartitions | VerifyPartitions | EndTransaction | MarkersWritten
    | DescribeTransaction | ListTransactions
)
