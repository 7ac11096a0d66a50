"""Offsets that an open transaction commits to a group."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.stage import PreparationFailed, Stage
from wirekafka.errors import Error
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

_INIT, _ADD, _COMMIT, _END = 2, 1, 3, 1
"""The versions of the requests: low ones, which most brokers have."""
_RETRIED = frozenset(
    {
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_NOT_AVAILABLE,
    }
)


class OffsetsTransaction:
    """An open transaction with offsets of one group."""

    def __init__(self, stage: Stage, group: str, text: str = "transaction") -> None:
        self.stage, self.group = stage, group
        self.id = stage.name(text)
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = self._accepted(request, _INIT)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def commit(self, name: str, offsets: dict[int, int]) -> None:
        """Commit the offsets of partitions of a topic, pending until the transaction ends."""
        names = {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }
        self._accepted(AddOffsetsToTxnRequest(**names, group_id=self.group), _ADD)
        topic = TxnOffsetCommitRequest.Topic
        partitions = [
            topic.Partition(
                partition_index=index, committed_offset=offset, committed_metadata="pending"
            )
            for index, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            **names, group_id=self.group, topics=[topic(name=name, partitions=partitions)]
        )
        found = self.stage.do(request, _COMMIT).topics[0].partitions
        refused = [each.error_code for each in found if each.error_code]
        if refused:
            raise PreparationFailed(f"TxnOffsetCommit: {Error.of(refused[0]).name}")

    def end(self, *, is_committed: bool) -> None:
        """Commit or abort the transaction. The group hears of it shortly afterwards."""
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_committed,
        )
        self._accepted(request, _END)

    def _accepted(self, request: Any, version: int) -> Any:
        def answered() -> Any:
            answer = self.stage.do(request, version)
            return None if Error.of(answer.error_code) in _RETRIED else answer

        answer = self.stage.until(answered, f"an answer to {type(request).__name__}")
        if answer.error_code:
            raise PreparationFailed(f"{type(request).__name__}: {Error.of(answer.error_code).name}")
        return answer
