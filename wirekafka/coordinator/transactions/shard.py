"""The transaction coordinator's machine: one instance per partition of `__transaction_state`.

It supports both versions of the protocol. In the first a producer keeps its epoch from one
transaction to the next; in the second (KIP-890) EndTxn bumps it, so that a late request cannot
reach the next transaction.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wirekafka.coordinator.transactions.commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    Listing,
    ListTransactions,
    MarkersWritten,
    ProducerIdentity,
    StartProducer,
    TransactionCommand,
    VerifyPartitions,
)
from wirekafka.coordinator.transactions.records import TransactionRecord
from wirekafka.coordinator.transactions.transaction import (
    EPOCH_BUMPING_TRANSACTIONS,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Deciders, Outcome, Ticket
from wirekafka.runtime.timers import Timers

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig


_UNDECIDED = (TransactionState.EMPTY, TransactionState.ONGOING)


class ProducerIdSource(Protocol):
    """Unused producer ids, from a block that the controller allocated to this broker.

    A shard cannot wait inside a decision, so the coordinator reserves an id before it submits a
    command that may take one.
    """

    async def reserve(self) -> None:
        """Wait until `take` can return an id; raises KafkaError if the controller refuses."""

    def take(self) -> int:
        """The next id. Raises COORDINATOR_LOAD_IN_PROGRESS, a retriable error, if none is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The broker options for transactions; defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    write_timeout_ms: int = 30_000

    @classmethod
    def of(cls, config: BrokerConfig) -> TransactionConfig:
        """Take the options from a broker's configuration."""
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            write_timeout_ms=config.request_timeout_ms,
        )


class TransactionShard:
    """A `Machine` that replays `TransactionRecord`s."""

    def __init__(self, config: TransactionConfig, producer_ids: ProducerIdSource):
        self._config = config
        self._producer_ids = producer_ids
        self._transactions: dict[str, Transaction] = {}
        self.timers = Timers()
        self._deciders: Deciders = {
            StartProducer: self._start_producer,
            AddPartitions: self._add_partitions,
            VerifyPartitions: self._verify_partitions,
            EndTransaction: self._end,
            MarkersWritten: self._complete,
            DescribeTransaction: self._describe,
            ListTransactions: self._list,
        }

    # Machine

    def decide(self, command: TransactionCommand, ticket: Ticket[Any], now_ms: int) -> Outcome:
        """Decide on one command; see `commands` for its reply."""
        return self._deciders[type(command)](command, ticket, now_ms)

    def replay(self, record: TransactionRecord) -> None:
        """Set the state of a transactional id."""
        transactional_id, transaction = record
        if transaction is None:
            self._transactions.pop(transactional_id, None)
            self.timers.cancel(transactional_id)
            return
        self._transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            due_ms = transaction.start_ms + transaction.timeout_ms
        elif transaction.state.is_at_rest:
            due_ms = transaction.last_update_ms + self._config.id_expiration_ms
        else:
            self.timers.cancel(transactional_id)
            return
        self.timers.schedule(transactional_id, due_ms)

    def loaded(self, now_ms: int) -> None:
        """Do nothing: there is no soft state, and every timer follows from a record."""

    def tick(self, key: Hashable, now_ms: int) -> Outcome:
        """Abort a transaction that timed out, or expire an unused transactional id."""
        assert isinstance(key, str)
        transaction = self._transactions[key]
        if transaction.state is TransactionState.ONGOING:
            return Outcome((TransactionRecord(key, _fence(transaction, now_ms)),))
        return Outcome((TransactionRecord(key, None),))

    def snapshot(self) -> Iterable[TransactionRecord]:
        """One record per transactional id."""
        for transactional_id, transaction in self._transactions.items():
            yield TransactionRecord(transactional_id, transaction)

    def undecided(self) -> list[TransactionRecord]:
        """Decided transactions whose markers a new leader has to write."""
        return [
            TransactionRecord(transactional_id, transaction)
            for transactional_id, transaction in self._transactions.items()
            if transaction.state.is_preparing
        ]

    def open_since_ms(self) -> Iterator[int]:
        """The times in ms at which the incomplete transactions began."""
        for transaction in self._transactions.values():
            if not transaction.state.is_at_rest and transaction.start_ms >= 0:
                yield transaction.start_ms

    # InitProducerId

    def _start_producer(
        self, command: StartProducer, ticket: Ticket[ProducerIdentity], now_ms: int
    ) -> Outcome:
        if not 0 < command.timeout_ms <= self._config.max_timeout_ms:
            raise KafkaError(Error.INVALID_TRANSACTION_TIMEOUT)
        transaction = self._transactions.get(command.transactional_id)
        if transaction is None:
            new_id = self._producer_ids.take()
            transaction = Transaction(
                producer_id=new_id, timeout_ms=command.timeout_ms, last_update_ms=now_ms
            )
        _check_expected_id(transaction, command.expected)
        if transaction.state.is_preparing:
            raise KafkaError(Error.CONCURRENT_TRANSACTIONS)
        if transaction.state is TransactionState.ONGOING:
            fenced = TransactionRecord(command.transactional_id, _fence(transaction, now_ms))
            return Outcome((fenced,), ((ticket, KafkaError(Error.CONCURRENT_TRANSACTIONS)),))
        started = self._started(transaction, command, now_ms)
        identity = ProducerIdentity(started.producer_id, started.producer_epoch)
        record = TransactionRecord(command.transactional_id, started)
        return Outcome((record,), ((ticket, identity),))

    def _started(
        self, transaction: Transaction, command: StartProducer, now_ms: int
    ) -> Transaction:
        expected = command.expected
        epoch = transaction.producer_epoch
        if transaction.is_epoch_exhausted and (
            expected is None or expected.producer_epoch == epoch
        ):
            return transaction.rotate(
                now_ms,
                command.timeout_ms,
                self._producer_ids.take(),
                NO_PRODUCER_EPOCH if expected is None else epoch,
            )
        if expected is None:
            return transaction.bump_epoch(now_ms, command.timeout_ms, NO_PRODUCER_EPOCH)
        if epoch == NO_PRODUCER_EPOCH or expected.producer_epoch == epoch:
            return transaction.bump_epoch(now_ms, command.timeout_ms, expected.producer_epoch)
        if expected.producer_epoch == transaction.last_producer_epoch:
            return transaction.resume(now_ms, command.timeout_ms)
        raise KafkaError(Error.PRODUCER_FENCED)

    # AddPartitionsToTxn

    def _add_partitions(self, command: AddPartitions, ticket: Ticket[None], now_ms: int) -> Outcome:
        transaction = self._find(command.transactional_id, command.producer)
        if transaction.producer_epoch != command.producer.producer_epoch:
            raise KafkaError(Error.PRODUCER_FENCED)
        if transaction.state.is_preparing:
            raise KafkaError(Error.CONCURRENT_TRANSACTIONS)
        if (
            transaction.state is TransactionState.ONGOING
            and command.partitions <= transaction.partitions
        ):
            return Outcome.reply(ticket, None)
        added = transaction.add(command.partitions, now_ms, command.client_version)
        return Outcome((TransactionRecord(command.transactional_id, added),), ((ticket, None),))

    def _verify_partitions(
        self, command: VerifyPartitions, ticket: Ticket[frozenset[tuple[str, int]]], now_ms: int
    ) -> Outcome:
        transaction = self._find(command.transactional_id, command.producer)
        if transaction.producer_epoch != command.producer.producer_epoch:
            raise KafkaError(Error.PRODUCER_FENCED)
        if transaction.state.is_preparing:
            raise KafkaError(Error.CONCURRENT_TRANSACTIONS)
        return Outcome.reply(ticket, command.partitions & transaction.partitions)

    # EndTxn

    def _end(
        self, command: EndTransaction, ticket: Ticket[ProducerIdentity], now_ms: int
    ) -> Outcome:
        transaction = self._transactions.get(command.transactional_id)
        if transaction is None:
            raise KafkaError(Error.INVALID_PRODUCER_ID_MAPPING)
        bumps = command.client_version >= EPOCH_BUMPING_TRANSACTIONS
        is_retry = bumps and _is_retried_end(transaction, command.producer)
        if transaction.producer_id != command.producer.producer_id and not (
            is_retry and transaction.producer_epoch == 0
        ):
            raise KafkaError(Error.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != command.producer.producer_epoch and not is_retry:
            raise KafkaError(Error.PRODUCER_FENCED)
        match transaction.state:
            case TransactionState.ONGOING:
                return self._prepare(transaction, command, ticket, now_ms)
            case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
                # Of either outcome: an abort may be of the next transaction, still empty.
                raise KafkaError(Error.CONCURRENT_TRANSACTIONS)
            case _ if _repeats_outcome(transaction, command) and (is_retry or not bumps):
                return Outcome.reply(
                    ticket, ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
                )
            case _ if bumps and not is_retry and not command.commit:
                # No partition was added, but the epoch is bumped too.
                return self._prepare(transaction, command, ticket, now_ms)
            case _:
                raise KafkaError(Error.INVALID_TXN_STATE)

    def _prepare(
        self,
        transaction: Transaction,
        command: EndTransaction,
        ticket: Ticket[ProducerIdentity],
        now_ms: int,
    ) -> Outcome:
        bumps = command.client_version >= EPOCH_BUMPING_TRANSACTIONS
        rotates = bumps and transaction.is_epoch_exhausted
        next_id = self._producer_ids.take() if rotates else NO_PRODUCER_ID
        prepared = transaction.prepare(command.commit, now_ms, command.client_version, next_id)
        identity = (
            ProducerIdentity(next_id, 0)
            if rotates
            else ProducerIdentity(prepared.producer_id, prepared.producer_epoch)
        )
        record = TransactionRecord(command.transactional_id, prepared)
        return Outcome((record,), ((ticket, identity),))

    def _complete(self, command: MarkersWritten, ticket: Ticket[None], now_ms: int) -> Outcome:
        transaction = self._transactions.get(command.transactional_id)
        if (
            transaction is None
            or not transaction.state.is_preparing
            or transaction.producer_id != command.producer.producer_id
            or transaction.producer_epoch != command.producer.producer_epoch
        ):
            return Outcome.reply(ticket, None)
        completed = TransactionRecord(command.transactional_id, transaction.complete(now_ms))
        return Outcome((completed,), ((ticket, None),))

    # Queries

    def _find(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer.producer_id:
            raise KafkaError(Error.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _describe(
        self, command: DescribeTransaction, ticket: Ticket[Transaction], now_ms: int
    ) -> Outcome:
        transaction = self._transactions.get(command.transactional_id)
        if transaction is None:
            raise KafkaError(Error.TRANSACTIONAL_ID_NOT_FOUND)
        return Outcome.reply(ticket, transaction)

    def _list(self, command: ListTransactions, ticket: Ticket[Listing], now_ms: int) -> Outcome:
        listed = [
            (transactional_id, transaction)
            for transactional_id, transaction in self._transactions.items()
            if (not command.states or transaction.state.label in command.states)
            and (not command.producer_ids or transaction.producer_id in command.producer_ids)
            and (
                command.longer_than_ms < 0 or now_ms - transaction.start_ms > command.longer_than_ms
            )
        ]
        return Outcome.reply(ticket, listed)


def _check_expected_id(transaction: Transaction, expected: ProducerIdentity | None) -> None:
    if expected is None or transaction.producer_epoch == NO_PRODUCER_EPOCH:
        return
    if expected.producer_id == transaction.producer_id:
        return
    was_rotated = (
        expected.producer_id == transaction.previous_producer_id
        and expected.producer_epoch >= LAST_USABLE_EPOCH
    )
    if not was_rotated:
        raise KafkaError(Error.PRODUCER_FENCED)


def _fence(transaction: Transaction, now_ms: int) -> Transaction:
    """Abort by the broker, which bumps the epoch for clients of both protocol versions."""
    return transaction.prepare(False, now_ms, EPOCH_BUMPING_TRANSACTIONS)


def _is_retried_end(transaction: Transaction, producer: ProducerIdentity) -> bool:
    """Whether an EndTxn repeats a decided one, with the epoch from before it.

    As in Kafka only the epochs are compared, also if the broker ended the transaction.
    """
    if transaction.state in _UNDECIDED:
        return False
    if transaction.producer_epoch == producer.producer_epoch + 1:
        return True
    return (
        transaction.previous_producer_id == producer.producer_id
        and producer.producer_epoch == LAST_USABLE_EPOCH
        and transaction.producer_epoch == 0
    )


def _repeats_outcome(transaction: Transaction, command: EndTransaction) -> bool:
    wanted = TransactionState.COMPLETE_COMMIT if command.commit else TransactionState.COMPLETE_ABORT
    return transaction.state is wanted
