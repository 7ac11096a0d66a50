"""Confirms transactional writes with the coordinator of their transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

from wirekafka.clock import Clock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.coordinator.routing import Routing, TopicPartition
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.transactions.broker_queues import BrokerQueues, Queued
from wirekafka.coordinator.transactions.commands import (
    AddPartitions,
    ProducerIdentity,
    VerifyPartitions,
)
from wirekafka.coordinator.transactions.transaction import EPOCH_BUMPING_TRANSACTIONS
from wirekafka.coordinator.transactions.wire import PartitionErrors, confirm_partitions
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition.internal_topics import TRANSACTIONS_TOPIC
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.runtime.promise import Promise, pause

_TEMPORARY = frozenset(
    {
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NETWORK_EXCEPTION,
        Error.NOT_COORDINATOR,
    }
)
"""Errors that are replaced by NOT_ENOUGH_REPLICAS, which producers of all versions retry."""

_OF_REQUESTS = {
    Error.BROKER_NOT_AVAILABLE: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.NETWORK_EXCEPTION,
    # It is this broker that lacks a permission, so the client must not get this error.
    Error.CLUSTER_AUTHORIZATION_FAILED: Error.INVALID_TXN_STATE,
}
"""Errors of whole requests between brokers, and the errors reported for their partitions."""

_Command = AddPartitions | VerifyPartitions


class Support(Enum):
    """The broker's duties for a transactional write, by the request's version (KIP-890)."""

    EXPLICIT = "the client has added the partitions"
    KNOWS_ABORTABLE = "the client has added them, and knows TRANSACTION_ABORTABLE"
    ADDS = "the broker adds the partitions"


class TransactionalWrite(NamedTuple):
    """A producer's write to partitions within its transaction."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    support: Support


@dataclass(frozen=True, slots=True)
class ConfirmationOptions:
    """The broker options for confirmations; defaults are Kafka's."""

    verifies: bool = True
    """`transaction.partition.verification.enable`. Without it, only partitions that the broker adds
    (`Support.ADDS`) are confirmed."""
    retry_backoff_ms: int = 20
    """`add.partitions.to.txn.retry.backoff.ms`."""
    retry_at_most_ms: int = 100
    """`add.partitions.to.txn.retry.backoff.max.ms`: how long all retries together may take."""

    @classmethod
    def of(cls, config: BrokerConfig) -> ConfirmationOptions:
        """Return the options in a broker's configuration."""
        return cls(
            verifies=config.transaction_partition_verification_enable,
            retry_backoff_ms=config.add_partitions_to_txn_retry_backoff_ms,
            retry_at_most_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
        )


class Confirmations:
    """Confirms writes with transaction coordinators on this broker and on other brokers.

    `coordinator` has the shards that this broker leads; `routing` finds all other shards.
    """

    def __init__(
        self,
        coordinator: Shards,
        routing: Routing,
        clock: Clock,
        options: Callable[[], ConfirmationOptions],
    ):
        self._coordinator = coordinator
        self._routing = routing
        self._clock = clock
        self._options = options
        self._queues: BrokerQueues[_Command, PartitionErrors] = BrokerQueues(
            partial(confirm_partitions, routing)
        )

    async def confirm(self, write: TransactionalWrite) -> dict[TopicPartition, KafkaError]:
        """Verify that the partitions are in the open transaction, or add them (`Support.ADDS`).

        Returns the error, for the response, of each partition outside the transaction.
        """
        return self._refusals(write, await self._attempt(write))

    async def confirm_patiently(
        self, write: TransactionalWrite
    ) -> dict[TopicPartition, KafkaError]:
        """As `confirm`, but retry while the producer's last transaction is still ending.

        Retries end after `ConfirmationOptions.retry_at_most_ms`.
        """
        options = self._options()
        give_up_ms = self._clock.now_ms() + options.retry_at_most_ms
        while True:
            refused = await self._attempt(write)
            is_ending = any(
                each.error is Error.CONCURRENT_TRANSACTIONS for each in refused.values()
            )
            if not is_ending or self._clock.now_ms() >= give_up_ms:
                return self._refusals(write, refused)
            await pause(self._clock, options.retry_backoff_ms)

    async def _attempt(self, write: TransactionalWrite) -> dict[TopicPartition, KafkaError]:
        """Return the coordinator's error for each refused partition, or for all if it fails."""
        adds = write.support is Support.ADDS
        if not adds and not self._options().verifies:
            return {}
        id, producer, partitions, _ = write
        if not id:
            return dict.fromkeys(partitions, KafkaError(Error.INVALID_REQUEST))
        command = (
            AddPartitions(id, producer, partitions, EPOCH_BUMPING_TRANSACTIONS)
            if adds
            else VerifyPartitions(id, producer, partitions)
        )
        try:
            return await self._run(command)
        except KafkaError as error:
            return dict.fromkeys(partitions, error)

    def _refusals(
        self, write: TransactionalWrite, errors: Mapping[TopicPartition, KafkaError]
    ) -> dict[TopicPartition, KafkaError]:
        return {where: _client_error(error, write.support) for where, error in errors.items()}

    async def _run(self, command: _Command) -> dict[TopicPartition, KafkaError]:
        coordinator = self._routing.leader_of(
            TRANSACTIONS_TOPIC, self._coordinator.partition_for(command.transactional_id)
        )
        if coordinator is None or coordinator == NO_LEADER:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE)
        if coordinator != self._routing.node_id:
            return await self._request(coordinator, command)
        if isinstance(command, AddPartitions):
            await self._coordinator.submit(command.transactional_id, command)
            return {}
        confirmed = await self._coordinator.submit(command.transactional_id, command)
        return {
            where: KafkaError(Error.TRANSACTION_ABORTABLE)
            for where in command.partitions - confirmed
        }

    async def _request(
        self, coordinator: int, command: _Command
    ) -> dict[TopicPartition, KafkaError]:
        self._replace_waiting(coordinator, command)
        answer: Promise[PartitionErrors] = Promise()
        self._queues.add(coordinator, Queued(command, answer.set))
        try:
            errors = await answer
        except KafkaError as error:
            if error.error is Error.UNSUPPORTED_VERSION and isinstance(command, VerifyPartitions):
                return {}  # A coordinator before KIP-890 cannot verify anything.
            raise KafkaError(_OF_REQUESTS.get(error.error, error.error)) from error
        found = {
            where: errors.get(where, Error.UNKNOWN_SERVER_ERROR) for where in command.partitions
        }
        return {where: KafkaError(code) for where, code in found.items() if code is not Error.NONE}

    def _replace_waiting(self, coordinator: int, command: _Command) -> None:
        """Remove the waiting command with the same transactional id, if there is one.

        A request has one entry per transactional id, with the newest producer epoch. The removed
        command fails, with an error to retry if the epoch is the same, since the client has then
        most likely sent its request again. Raises INVALID_PRODUCER_EPOCH if `command` has the older
        epoch.
        """
        for queued in self._queues.waiting(coordinator):
            waiting = queued.item
            if waiting.transactional_id != command.transactional_id:
                continue
            epoch = command.producer.producer_epoch
            if waiting.producer.producer_epoch > epoch:
                raise KafkaError(Error.INVALID_PRODUCER_EPOCH)
            is_same = waiting.producer.producer_epoch == epoch
            self._queues.withdraw(coordinator, queued)
            queued.answered(
                KafkaError(Error.NETWORK_EXCEPTION if is_same else Error.INVALID_PRODUCER_EPOCH)
            )
            return


def _client_error(error: KafkaError, support: Support) -> KafkaError:
    """Map an error of the coordinator to the error in a Produce response, as Kafka does."""
    code = error.error
    if code is Error.PRODUCER_FENCED:
        return KafkaError(Error.INVALID_PRODUCER_EPOCH)
    is_unknown = code is Error.TRANSACTION_ABORTABLE and support is Support.EXPLICIT
    if is_unknown or code is Error.INVALID_TXN_STATE:
        return KafkaError(Error.INVALID_TXN_STATE, "Partition was not added to the transaction")
    passes = support is Support.ADDS and code is Error.CONCURRENT_TRANSACTIONS
    if code not in _TEMPORARY or passes:
        return error
    return KafkaError(
        Error.NOT_ENOUGH_REPLICAS,
        "Unable to verify the partition has been added to the transaction. Underlying error: "
        f"{code.name}",
    )
