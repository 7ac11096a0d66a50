"""Tracks the verification of transactional writes with their coordinator (KIP-890)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from wirekafka.codec.batch import NO_SEQUENCE, BatchHeader
from wirekafka.errors import Error
from wirekafka.log.append import RecordsRefused


@dataclass(slots=True)
class Verification:
    """The verification of one producer's write, from before the request until the append.

    `guard` must be passed with the append: a marker invalidates the guard, and thereby any response
    that was under way. `supports_epoch_bump` is true for Transactions V2.
    """

    started_ms: int
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    guard: object = field(default_factory=object)


class CoordinatorWrite(NamedTuple):
    """A coordinator's write in a producer's transaction; such batches have no sequence numbers."""

    producer_id: int
    producer_epoch: int
    base_sequence: int = NO_SEQUENCE


class Verifications:
    """The verifications under way in one log, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self, header: BatchHeader | CoordinatorWrite, now_ms: int, *, supports_epoch_bump: bool
    ) -> object:
        """Begin a verification; returns the guard to append the batch with once confirmed."""
        sequence, epoch = header.base_sequence, header.producer_epoch
        found = self._by_producer.get(header.producer_id)
        if found is None:
            found = Verification(now_ms, sequence, epoch, supports_epoch_bump)
            self._by_producer[header.producer_id] = found
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.epoch and sequence < found.lowest_sequence:
            found.lowest_sequence = sequence
        return found.guard

    def is_valid(self, producer_id: int, guard: object) -> bool:
        """Whether the verification with this guard is still in progress: no marker has ended it."""
        found = self._by_producer.get(producer_id)
        return found is not None and found.guard is guard

    def check(self, header: BatchHeader, guard: object | None, *, is_new_producer: bool) -> None:
        """Check a transactional batch that would open a transaction.

        Raises RecordsRefused: INVALID_TXN_STATE without the right guard,
        OUT_OF_ORDER_SEQUENCE_NUMBER above the lowest sequence verified, or, under
        Transactions V2, for a producer without state that does not begin at 0.
        """
        found = self._by_producer.get(header.producer_id)
        if found is None or found.guard is not guard:
            raise RecordsRefused(
                Error.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )
        first = header.base_sequence
        if first > found.lowest_sequence or (
            first != 0 and found.supports_epoch_bump and is_new_producer
        ):
            raise RecordsRefused(
                Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: {first}"
                f" (incoming), {found.lowest_sequence} (earliest seen)",
            )

    def end(self, producer_id: int) -> None:
        """Forget a producer's verification, once its transaction is open or has ended."""
        self._by_producer.pop(producer_id, None)

    def ended_by_marker(self, producer_id: int, epoch: int) -> None:
        """Forget a producer's verification, unless it is for a transaction after the marker.

        Under Transactions V2 a marker has the epoch of the next transaction, whose first batch
        may be waiting for its confirmation here while this marker is on its way.
        """
        found = self._by_producer.get(producer_id)
        if found is not None and not (found.supports_epoch_bump and found.epoch == epoch):
            del self._by_producer[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget verifications that were never used."""
        self._by_producer = {
            producer_id: found
            for producer_id, found in self._by_producer.items()
            if now_ms - found.started_ms < expiration_ms
        }
