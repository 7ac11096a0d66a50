"""Proof that a transactional write belongs to a transaction its coordinator knows of (KIP-890)."""

from __future__ import annotations

from dataclasses import dataclass, field

from wirekafka.codec.batch import BatchHeader
from wirekafka.errors import Error
from wirekafka.log.append import RecordsRefused


@dataclass(slots=True)
class Verification:
    """One producer's question to the coordinator, from before it is asked until it is used.

    `guard` is what an append must show: a new one is made after each marker, so that an answer
    that a marker overtook is worth nothing. `supports_epoch_bump` is true of Transactions V2.
    """

    started_ms: int
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    guard: object = field(default_factory=object)


class Verifications:
    """The verifications under way in one log, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def begin(self, header: BatchHeader, now_ms: int, *, supports_epoch_bump: bool) -> object:
        """The guard to append this batch with, once the coordinator has confirmed it."""
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

    def check(self, header: BatchHeader, guard: object | None, *, is_new_producer: bool) -> None:
        """Check a transactional batch that would open a transaction.

        Raises RecordsRefused: INVALID_TXN_STATE without the right guard,
        OUT_OF_ORDER_SEQUENCE_NUMBER behind a batch that was verified first, or, under
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
        """Forget a producer's verification: its transaction is open, or has ended."""
        self._by_producer.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget verifications that were never used."""
        self._by_producer = {
            producer_id: found
            for producer_id, found in self._by_producer.items()
            if now_ms - found.started_ms < expiration_ms
        }
