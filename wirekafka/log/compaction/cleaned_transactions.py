"""Which transactional batches and markers a cleaner may drop (KIP-98, KIP-534)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from wirekafka.codec.batch import BatchHeader, Buffer
from wirekafka.codec.record import decode_records
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.protocol.records.control import ControlType, control_type


class CleanedTransactions:
    """Tracks the transactions of a log while a cleaner reads its batches in order.

    `kept` collects the aborted transactions whose markers are kept: they stay indexed.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]):
        self._ahead = [(each.first_offset, each.last_offset, each) for each in aborted]
        heapq.heapify(self._ahead)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_obsolete(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether a data batch was aborted, or a marker's transaction has no data batches left."""
        if not (header.is_control or header.is_transactional):
            return False
        self._begin_up_to(header.end_offset - 1)
        if header.is_control:
            return self._is_marker_obsolete(header, batch)
        if header.producer_id in self._aborted:
            self._aborted_seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def _is_marker_obsolete(self, header: BatchHeader, batch: Buffer) -> bool:
        if header.count == 0:
            return True
        producer_id = header.producer_id
        match control_type(decode_records(batch, header)[0]):
            case ControlType.ABORT:
                aborted = self._aborted.pop(producer_id, None)
                if aborted is None or producer_id not in self._aborted_seen:
                    return True
                self._aborted_seen.discard(producer_id)
                self.kept.append(aborted)
                return False
            case ControlType.COMMIT:
                if producer_id not in self._committed:
                    return True
                self._committed.discard(producer_id)
                return False
            case _:
                return False

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            aborted = heapq.heappop(self._ahead)[2]
            self._aborted.setdefault(aborted.producer_id, aborted)
