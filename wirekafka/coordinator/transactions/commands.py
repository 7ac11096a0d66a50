"""The commands of a transaction shard and their replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.transactions.transaction import Transaction
from wirekafka.runtime.machine import Command, command


class ProducerIdentity(NamedTuple):
    """A producer id and its valid epoch."""

    producer_id: int
    producer_epoch: int


@command
class StartProducer(Command[ProducerIdentity]):
    """InitProducerId. The reply is a `ProducerIdentity`.

    `expected` is the identity sent by a producer that recovers from an error (KIP-360).
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None


@command
class AddPartitions(Command[None]):
    """AddPartitionsToTxn, or a request that implies it. The reply is None.

    `client_version` is the transaction.version that the client uses.
    """

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[tuple[str, int]]
    client_version: int


@command
class VerifyPartitions(Command[frozenset[tuple[str, int]]]):
    """Verify partitions (KIP-890). The reply is the set of partitions in the open transaction."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[tuple[str, int]]


@command
class EndTransaction(Command[ProducerIdentity]):
    """EndTxn. The reply is the `ProducerIdentity` for the next transaction."""

    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    client_version: int


@command
class MarkersWritten(Command[None]):
    """Complete a transaction whose markers are all written. The reply is None."""

    transactional_id: str
    producer: ProducerIdentity


@command
class DescribeTransaction(Command[Transaction]):
    """DescribeTransactions. The reply is the `Transaction`, or TRANSACTIONAL_ID_NOT_FOUND."""

    transactional_id: str


@command
class ListTransactions(Command["Listing"]):
    """ListTransactions (KIP-664). The reply is (transactional id, `Transaction`) pairs.

    Empty filters match all; `longer_than_ms` of -1 matches any duration (KIP-994).
    """

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1


Listing = Sequence[tuple[str, Transaction]]

TransactionCommand: TypeAlias = (
    StartProducer
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | MarkersWritten
    | DescribeTransaction
    | ListTransactions
)
