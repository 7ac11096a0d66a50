"""The state of one transactional id and its transitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from wirekafka.coordinator.routing import TopicPartition
from wirekafka.protocol.records.groups_and_transactions import TransactionLogValue

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
LAST_USABLE_EPOCH = 32_766
"""A producer at this epoch gets a new id instead of a bump: 32767 is reserved for fencing."""

FIRST_TRANSACTIONS = 0
EPOCH_BUMPING_TRANSACTIONS = 2
"""`transaction.version` from which every transaction has its own epoch (KIP-890)."""


class TransactionState(IntEnum):
    """Kafka's states, numbered as in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name in responses, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_preparing(self) -> bool:
        """Whether the outcome is decided, but not all markers are written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of one transactional id, as in its last log record; times in ms.

    `last_producer_epoch`, the epoch before the newest, identifies a retried InitProducerId. As in
    Kafka it is not stored: a new coordinator does not know it.
    """

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int
    client_version: int = FIRST_TRANSACTIONS

    # Queries

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next bump needs a new producer id."""
        return self.producer_epoch >= LAST_USABLE_EPOCH

    @property
    def supports_epoch_bump(self) -> bool:
        """Whether the client bumps the epoch with every transaction (KIP-890)."""
        return self.client_version >= EPOCH_BUMPING_TRANSACTIONS

    @property
    def commits(self) -> bool:
        """Whether the decided transaction is committed rather than aborted."""
        assert not self.state.is_at_rest, "a decided transaction"
        return self.state is TransactionState.PREPARE_COMMIT

    # Transitions

    def bump_epoch(self, now_ms: int, timeout_ms: int, last_epoch: int) -> Transaction:
        """InitProducerId with the next epoch (the first is 0)."""
        return self._rest(
            now_ms,
            timeout_ms,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=last_epoch,
        )

    def resume(self, now_ms: int, timeout_ms: int) -> Transaction:
        """A retried InitProducerId, which keeps the producer id and epoch."""
        return self._rest(now_ms, timeout_ms)

    def rotate(self, now_ms: int, timeout_ms: int, new_id: int, last_epoch: int) -> Transaction:
        """InitProducerId with a new producer id, once the epochs are used up."""
        return self._rest(
            now_ms, timeout_ms, producer_id=new_id, producer_epoch=0, last_producer_epoch=last_epoch
        )

    def add(
        self, partitions: Iterable[TopicPartition], now_ms: int, client_version: int
    ) -> Transaction:
        """Add partitions, beginning a transaction if none is open."""
        begins = self.state is not TransactionState.ONGOING
        return replace(
            self,
            previous_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=self.partitions.union(partitions),
            start_ms=now_ms if begins else self.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepare(
        self, commit: bool, now_ms: int, client_version: int, next_id: int = NO_PRODUCER_ID
    ) -> Transaction:
        """Decide to commit or abort; with KIP-890 this bumps the epoch, which fences late requests.

        `next_id` replaces an id whose epochs are used up, once the markers are written.
        """
        bumps = client_version >= EPOCH_BUMPING_TRANSACTIONS
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=next_id,
            producer_epoch=self.producer_epoch + 1 if bumps else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if bumps else self.last_producer_epoch,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            # An abort without a transaction has a start time too, as in Kafka.
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def complete(self, now_ms: int) -> Transaction:
        """Complete the transaction after all markers are written."""
        state = (
            TransactionState.COMPLETE_COMMIT if self.commits else TransactionState.COMPLETE_ABORT
        )
        rotates = self.supports_epoch_bump and self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            state=state,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )

    def _rest(
        self,
        now_ms: int,
        timeout_ms: int,
        *,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        last_producer_epoch: int | None = None,
    ) -> Transaction:
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.producer_epoch if producer_epoch is None else producer_epoch,
            last_producer_epoch=(
                self.last_producer_epoch if last_producer_epoch is None else last_producer_epoch
            ),
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            last_update_ms=now_ms,
        )

    # Log records

    def to_value(self) -> TransactionLogValue:
        """Convert to a log record; its partitions are null in the state EMPTY."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            by_topic.setdefault(topic, []).append(partition)
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [
                TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=ids)
                for topic, ids in by_topic.items()
            ],
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )

    @classmethod
    def from_value(cls, value: TransactionLogValue) -> Transaction:
        """Convert from a log record of any version."""
        return cls(
            producer_id=value.producer_id,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=TransactionState(value.transaction_status),
            partitions=frozenset(
                (each.topic, partition)
                for each in value.transaction_partitions or ()
                for partition in each.partition_ids
            ),
            start_ms=value.transaction_start_timestamp_ms,
            last_update_ms=value.transaction_last_update_timestamp_ms,
            client_version=value.client_transaction_version,
        )
