"""The transaction coordinator: a shard per partition of `__transaction_state` it leads, and the
markers that carry out what the shards decide.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol, cast

from wirekafka.clock import Clock
from wirekafka.coordinator.markers import Ending, MarkerWriter, TopicPartition
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.transaction import EPOCH_BUMPING_TRANSACTIONS, Transaction
from wirekafka.coordinator.transaction_commands import (
    AddPartitions,
    EndTransaction,
    Listing,
    ListTransactions,
    MarkersWritten,
    ProducerIdentity,
    StartProducer,
    VerifyPartitions,
)
from wirekafka.coordinator.transaction_records import TransactionRecord, TransactionRecordCodec
from wirekafka.coordinator.transaction_shard import TransactionConfig, TransactionShard
from wirekafka.errors import Error, KafkaError
from wirekafka.log.control import Marker
from wirekafka.replication.machine import Producer
from wirekafka.replication.replicated_log import ReplicatedLog
from wirekafka.replication.runtime import Runtime

logger = logging.getLogger(__name__)

TRANSACTIONS_TOPIC = "__transaction_state"

_RETRY_MS = 100
_DONE = (Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_PRODUCER_EPOCH)
"""A partition that is gone, or whose producer is ahead of the marker, has no use for it."""


_TEMPORARY = frozenset({
    Error.CONCURRENT_TRANSACTIONS, Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR})
"""Errors a producer gets to see as one that every version retries."""


class Support(Enum):
    """What a client that writes in a transaction expects of the broker, by its request version."""

    EXPLICIT = "has added the partitions before"
    TELLS_ABORTABLE = "the same, and knows TRANSACTION_ABORTABLE"
    ADDS = "leaves adding to the broker"


class TransactionalWrite(NamedTuple):
    """A producer writes to partitions within its transaction."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    support: Support


class ProducerIds(Protocol):
    """The broker's supply of fresh producer ids."""

    async def reserve(self) -> None:
        """See to it that `take` has one to give."""

    def take(self) -> int:
        """The next one. Raises COORDINATOR_LOAD_IN_PROGRESS when none is left."""


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """What the coordinator works with."""

    config: TransactionConfig
    producer_ids: ProducerIds
    markers: MarkerWriter
    coordinator_epoch: Callable[[int], int]
    """The leader epoch of a partition of `__transaction_state`."""


class TransactionCoordinator(Shards):
    """The shards of transactions, by transactional id."""

    def __init__(self, parts: TransactionParts, clock: Clock, partition_count: Callable[[], int]):
        super().__init__(TRANSACTIONS_TOPIC, clock, partition_count)
        self._parts = parts
        self._codec = TransactionRecordCodec()
        self._unwritten: dict[str, dict[TopicPartition, str]] = {}

    # Shards

    def make_runtime(self, partition: int, log: ReplicatedLog) -> Runtime:
        """A shard of transactions on its log."""
        parts = self._parts
        return Runtime(lambda: TransactionShard(parts.config, parts.producer_ids),
                       log, self._codec, self._clock)

    def loaded(self, partition: int) -> None:
        """Go on with what an earlier coordinator decided, and from now on with every decision."""
        runtime = self._runtimes[partition]
        runtime.on_commit = partial(self._carry_out, partition)
        undecided = cast(TransactionShard, runtime.machine).undecided()
        # At a start the partitions that get the markers may be found after this one.
        self._clock.call_later(0, lambda: self._carry_out(partition, undecided))

    # Commands

    async def start_producer(self, command: StartProducer) -> ProducerIdentity:
        """InitProducerId of a transactional producer."""
        await self._parts.producer_ids.reserve()
        started: ProducerIdentity = await self.submit(command.transactional_id, command)
        return started

    async def end(self, command: EndTransaction) -> ProducerIdentity:
        """EndTxn: commit or abort; the identity is for the producer's next transaction."""
        await self._parts.producer_ids.reserve()
        ended: ProducerIdentity = await self.submit(command.transactional_id, command)
        return ended

    async def confirm(self, write: TransactionalWrite) -> dict[TopicPartition, KafkaError]:
        """See that the partitions written to are in the open transaction (KIP-890).

        The partitions that are not, each with the error to tell. Clients of the second generation
        leave it to the broker to add them.
        """
        command = (
            AddPartitions(write.transactional_id, write.producer, write.partitions,
                          EPOCH_BUMPING_TRANSACTIONS)
            if write.support is Support.ADDS
            else VerifyPartitions(write.transactional_id, write.producer, write.partitions))
        try:
            confirmed = await self.submit(write.transactional_id, command)
        except KafkaError as error:
            return dict.fromkeys(write.partitions, _told(error, write.support))
        if write.support is Support.ADDS:
            return {}
        missing = (
            KafkaError(Error.TRANSACTION_ABORTABLE) if write.support is Support.TELLS_ABORTABLE
            else KafkaError(Error.INVALID_TXN_STATE, "Partition was not added to the transaction"))
        return dict.fromkeys(write.partitions - confirmed, missing)

    async def list_transactions(self, command: ListTransactions) -> Listing:
        """Those of every shard; raises COORDINATOR_LOAD_IN_PROGRESS while some are not known."""
        listed: list[tuple[str, Transaction]] = []
        for runtime in list(self._runtimes.values()):
            listed += await runtime.submit(command)
        return listed

    # Markers

    def _carry_out(self, partition: int, records: Sequence[TransactionRecord]) -> None:
        for transactional_id, transaction in records:
            if transaction is not None and transaction.state.is_preparing:
                self._finish(partition, transactional_id, transaction, transaction.partitions)

    def _finish(self, partition: int, transactional_id: str, transaction: Transaction,
                remaining: Iterable[TopicPartition]) -> None:
        """Write the markers that are missing, then note that none is; or try again later."""
        runtime = self._runtimes.get(partition)
        if runtime is None:
            return
        ending = Ending(
            Producer(transaction.producer_id, transaction.producer_epoch),
            Marker(transaction.commits, self._parts.coordinator_epoch(partition),
                   self._clock.now_ms()),
            transaction.client_version,
        )
        errors = self._parts.markers.write(ending, sorted(remaining))
        failed = frozenset(where for where, error in errors.items() if error not in _DONE)

        def settled(lost: frozenset[TopicPartition]) -> None:
            missing = failed | {where for where in lost if errors[where] is Error.NONE}
            if not missing and self._note_end(runtime, transactional_id, ending):
                self._unwritten.pop(transactional_id, None)
                return
            self._clock.call_later(_RETRY_MS, lambda: self._finish(
                partition, transactional_id, transaction, missing))

        self._tell_once(transactional_id, {where: errors[where].name for where in failed})
        # Until then a marker can be lost, and nobody would know that it is to be written again.
        self._parts.markers.when_settled(
            [where for where, error in errors.items() if error is Error.NONE], settled)

    def _tell_once(self, transactional_id: str, failed: dict[TopicPartition, str]) -> None:
        """Tell of markers that could not be written; they are tried ten times a second."""
        if failed and failed != self._unwritten.get(transactional_id):
            self._unwritten[transactional_id] = failed
            logger.warning("Markers of transaction %s are not written yet: %s",
                           transactional_id, failed)

    def _note_end(self, runtime: Runtime, transactional_id: str, ending: Ending) -> bool:
        """Write down that no marker is missing; whether that could be done."""
        try:
            runtime.post(MarkersWritten(transactional_id, ProducerIdentity(*ending.producer)))
        except KafkaError as error:
            logger.warning("The end of transaction %s is not noted yet: %s",
                           transactional_id, error)
            return False
        return True


def _told(error: KafkaError, support: Support) -> KafkaError:
    """What a producer is told when its transaction cannot be asked about, or refuses."""
    if error.error is Error.PRODUCER_FENCED:
        return KafkaError(Error.INVALID_PRODUCER_EPOCH)
    passes = support is Support.ADDS and error.error is Error.CONCURRENT_TRANSACTIONS
    if error.error not in _TEMPORARY or passes:
        return error
    return KafkaError(
        Error.NOT_ENOUGH_REPLICAS,
        "Unable to verify the partition has been added to the transaction. Underlying error: "
        f"{error.error.name}")
