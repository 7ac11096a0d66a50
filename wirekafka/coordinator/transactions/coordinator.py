"""The transaction coordinator: a shard per partition of `__transaction_state` that it leads, and
the writing of markers for decided transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from wirekafka.clock import Clock
from wirekafka.coordinator.routing import Routing
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.transactions.commands import (
    EndTransaction,
    Listing,
    ListTransactions,
    ProducerIdentity,
    StartProducer,
)
from wirekafka.coordinator.transactions.completion import Completion, Term
from wirekafka.coordinator.transactions.confirmation import ConfirmationOptions, Confirmations
from wirekafka.coordinator.transactions.marker_delivery import MarkerDelivery
from wirekafka.coordinator.transactions.markers import MarkerWriter
from wirekafka.coordinator.transactions.records import TransactionRecord, TransactionRecordCodec
from wirekafka.coordinator.transactions.shard import (
    ProducerIdSource,
    TransactionConfig,
    TransactionShard,
)
from wirekafka.coordinator.transactions.transaction import Transaction
from wirekafka.replication.partition.internal_topics import TRANSACTIONS_TOPIC
from wirekafka.runtime.observation import Committed
from wirekafka.runtime.replicated_log import ReplicatedLog
from wirekafka.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """The dependencies of the coordinator."""

    config: TransactionConfig
    producer_ids: ProducerIdSource
    markers: MarkerWriter
    routing: Routing
    coordinator_epoch: Callable[[int], int]
    """The leader epoch of a partition of `__transaction_state`."""
    confirmation: Callable[[], ConfirmationOptions] = ConfirmationOptions


class TransactionCoordinator(Shards):
    """The shards of transactions, by transactional id."""

    def __init__(
        self,
        parts: TransactionParts,
        clock: Clock,
        partition_count: Callable[[], int],
        observer_failed: Callable[[Exception], None],
    ):
        super().__init__(TRANSACTIONS_TOPIC, clock, partition_count, observer_failed)
        self._parts = parts
        self._codec = TransactionRecordCodec()
        self._delivery = MarkerDelivery(parts.markers, parts.routing)
        self.confirmations = Confirmations(self, parts.routing, clock, parts.confirmation)

    # Shards

    def elected(self, partition: int, log: ReplicatedLog) -> None:
        """Load the shard again, even an existing one, because its markers carry the new epoch."""
        self.lead(partition, log)

    def make_runtime(self, partition: int, log: ReplicatedLog) -> Runtime:
        """Create the runtime of a shard of transactions on its log."""
        parts = self._parts
        return Runtime(
            lambda: TransactionShard(parts.config, parts.producer_ids),
            log,
            self._codec,
            self._clock,
            write_timeout_ms=parts.config.write_timeout_ms,
            observer_failed=self._observer_failed,
        )

    def loaded(self, partition: int) -> None:
        """Write the markers of transactions decided before, and of each one decided from now on."""
        runtime = self._runtimes[partition]
        term = Term(
            runtime,
            self._parts.coordinator_epoch(partition),
            lambda: self._runtimes.get(partition) is not runtime,
        )
        loaded_offset = runtime.end_offset

        def decided(committed: Committed) -> None:
            # Loaded records may be delivered too, if they are committed only now.
            if committed.end_offset > loaded_offset:
                self._carry_out(term, committed.records)

        runtime.observe(decided)
        undecided = cast(TransactionShard, runtime.machine).undecided()
        # No marker may precede the commit of its decision, which could be lost with this leader.
        # The log calls back during another operation, so the markers are written after that.
        carry_out = partial(self._carry_out, term, undecided)
        runtime.when_committed(partial(self._soon, carry_out))

    # Commands

    async def start_producer(self, command: StartProducer) -> ProducerIdentity:
        """InitProducerId of a transactional producer."""
        self.shard_for(command.transactional_id)  # Before a producer id is reserved in vain.
        await self._parts.producer_ids.reserve()
        started: ProducerIdentity = await self.submit(command.transactional_id, command)
        return started

    async def end(self, command: EndTransaction) -> ProducerIdentity:
        """EndTxn: commit or abort; the identity is for the producer's next transaction."""
        self.shard_for(command.transactional_id)  # Before a producer id is reserved in vain.
        await self._parts.producer_ids.reserve()
        ended: ProducerIdentity = await self.submit(command.transactional_id, command)
        return ended

    async def list_transactions(self, command: ListTransactions) -> Listing:
        """List all transactions; raises COORDINATOR_LOAD_IN_PROGRESS while a shard loads."""
        listed: list[tuple[str, Transaction]] = []
        for runtime in list(self._runtimes.values()):
            listed += await runtime.submit(command)
        return listed

    # Markers

    def _soon(self, callback: Callable[[], None]) -> None:
        self._clock.call_later(0, callback)

    def _carry_out(self, term: Term, records: Sequence[TransactionRecord]) -> None:
        for transactional_id, transaction in records:
            if transaction is not None and transaction.state.is_preparing:
                self._finish(term, transactional_id, transaction)

    def _finish(self, term: Term, transactional_id: str, transaction: Transaction) -> None:
        """Begin to write the markers of a decided transaction and to complete it."""
        Completion(term, transactional_id, transaction, self._clock).begin(self._delivery)
