"""Completes a decided transaction: its markers are delivered, then the completion is recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from wirekafka.clock import Clock
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.coordinator.transactions.commands import MarkersWritten, ProducerIdentity
from wirekafka.coordinator.transactions.marker_delivery import MarkerDelivery
from wirekafka.coordinator.transactions.markers import Ending
from wirekafka.coordinator.transactions.transaction import Transaction
from wirekafka.coordinator.transactions.wire import PartitionErrors
from wirekafka.errors import Error
from wirekafka.protocol.records.control import Marker
from wirekafka.runtime.machine import Producer
from wirekafka.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

_RETRY_MS = 100
_DONE = frozenset({Error.NONE, Error.INVALID_PRODUCER_EPOCH})
"""INVALID_PRODUCER_EPOCH needs no retry: the producer has a newer epoch in that partition."""

_ROUTINE = frozenset({Error.NOT_LEADER_OR_FOLLOWER})
"""Errors that end with the next change of the metadata; they are not logged."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a coordinator's shard, from its loading until the next change of leader epoch."""

    runtime: Runtime
    coordinator_epoch: int
    """The leader epoch of the shard's partition of `__transaction_state`."""
    is_over: Callable[[], bool]


class Completion:
    """Delivers the markers of a decided transaction, with retries, then records its completion.

    Exactly one delivery or retry is in progress for each partition without a marker, and none once
    the transaction is complete: a marker sent again later could end the next transaction of the
    same producer epoch. It ends early with its term; the next coordinator then completes it.
    """

    def __init__(self, term: Term, transactional_id: str, transaction: Transaction, clock: Clock):
        self._term = term
        self._transactional_id = transactional_id
        self._transaction = transaction
        self._clock = clock
        self._remaining = set(transaction.partitions)
        self._last_failure: object = None

    def begin(self, delivery: MarkerDelivery) -> None:
        """Start the delivery of all markers."""
        self._delivery = delivery
        self._deliver(sorted(self._remaining))

    # Recipient

    def delivered(self, errors: PartitionErrors) -> None:
        """See `Recipient`."""
        if Error.TRANSACTION_COORDINATOR_FENCED in errors.values():
            self._stop_fenced(errors)
            return
        failed = sorted(where for where, error in errors.items() if error not in _DONE)
        self._remaining.difference_update(where for where in errors if where not in failed)
        unwritten = {where: errors[where].name for where in failed if errors[where] not in _ROUTINE}
        if unwritten and self._is_news(unwritten):
            logger.warning(
                "Markers of transaction %s are not written yet: %s",
                self._transactional_id,
                unwritten,
            )
        if failed:
            self._retry(failed)
        elif not self._remaining:
            self._complete()

    def failed(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """See `Recipient`."""
        if self._is_news(repr(error)):
            logger.error(
                "Writing the markers of transaction %s failed; it is retried",
                self._transactional_id,
                exc_info=error,
            )
        self._retry(sorted(partitions))

    # Steps

    def _deliver(self, partitions: Sequence[TopicPartition]) -> None:
        if self._term.is_over():
            return
        transaction = self._transaction
        ending = Ending(
            Producer(transaction.producer_id, transaction.producer_epoch),
            Marker(transaction.commits, self._term.coordinator_epoch, self._clock.now_ms()),
            transaction.client_version,
        )
        self._delivery.deliver(ending, partitions, self)

    def _retry(self, partitions: Sequence[TopicPartition]) -> None:
        self._clock.call_later(_RETRY_MS, partial(self._deliver, partitions))

    def _complete(self) -> None:
        """Record that all markers are written; a refused append is retried."""
        if self._term.is_over():
            return
        transaction = self._transaction
        producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        try:
            ticket = self._term.runtime.post(MarkersWritten(self._transactional_id, producer))
            if ticket.done:
                ticket.result()
        except Exception as error:
            if self._is_news(repr(error)):
                logger.warning(
                    "Completing transaction %s failed; it is retried: %s",
                    self._transactional_id,
                    error,
                )
            self._clock.call_later(_RETRY_MS, self._complete)

    def _stop_fenced(self, errors: PartitionErrors) -> None:
        """Stop, because a partition has a marker of a later coordinator, which completes this."""
        logger.warning(
            "The markers of transaction %s are left to a coordinator later than epoch %d: %s",
            self._transactional_id,
            self._term.coordinator_epoch,
            sorted(
                where
                for where, error in errors.items()
                if error is Error.TRANSACTION_COORDINATOR_FENCED
            ),
        )

    def _is_news(self, failure: object) -> bool:
        """Whether a failure differs from the last failure; only then it is logged."""
        if failure == self._last_failure:
            return False
        self._last_failure = failure
        return True
