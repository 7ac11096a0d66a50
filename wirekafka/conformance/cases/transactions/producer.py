"""A transactional producer in cases: what it knows, and the requests it makes of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.stage import TRANSACTION, Stage, Unsupported, batch
from wirekafka.errors import Error
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

TIMEOUT_MS = 60_000
_BUSY = frozenset(
    {
        *(Error.CONCURRENT_TRANSACTIONS, Error.COORDINATOR_NOT_AVAILABLE),
        *(Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_ENOUGH_REPLICAS),
    }
)


class ScriptedProducer:
    """A transactional id, the producer id and the epoch of its producer, and its sequences.

    Of level 2 it adds partitions by Produce requests and has a new epoch after each transaction
    (KIP-890); of level 1 it adds them by requests of their own.
    """

    def __init__(
        self, stage: Stage, text: str = "x", *, level: int = 2, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """Start it. Raises Unsupported without the requests of its level."""
        self.stage, self.level = stage, level
        self.id = stage.name(text)
        self.producer_id, self.epoch = -1, -1
        self._timeout_ms = timeout_ms
        self._sequences: dict[tuple[str, int], int] = {}
        newest_end = stage.target.newest(EndTxnRequest, 5)
        if level == 2 and newest_end != 5:
            raise Unsupported("EndTxn v5 is not advertised")
        self.start()

    @property
    def produce_version(self) -> int:
        """The version of Produce requests of its level."""
        return 12 if self.level == 2 else 11

    @property
    def end_version(self) -> int:
        """The version of EndTxn requests of its level."""
        return 5 if self.level == 2 else 4

    # Requests

    def init_request(
        self, *, producer_id: int = -1, epoch: int = -1, timeout_ms: int | None = None
    ) -> InitProducerIdRequest:
        """The request for a producer id; by default one that begins anew."""
        return InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    def add_request(
        self,
        topics: Mapping[str, Iterable[int]],
        *,
        lag: int = 0,
        producer_id: int | None = None,
        verify_only: bool = False,
    ) -> AddPartitionsToTxnRequest:
        """The request that adds partitions; `lag` is taken from the epoch."""
        used = self.producer_id if producer_id is None else producer_id
        return add_request(self.id, used, self.epoch - lag, topics, verify_only=verify_only)

    def add_offsets_request(
        self, group: str, *, lag: int = 0, producer_id: int | None = None
    ) -> AddOffsetsToTxnRequest:
        """The request that adds the offsets of a group."""
        return AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch - lag,
            group_id=group,
        )

    def offsets_request(
        self,
        group: str,
        topics: Mapping[str, Mapping[int, int]],
        *,
        lag: int = 0,
        producer_id: int | None = None,
        metadata: str | None = "",
        leader_epoch: int = -1,
        **member: Any,
    ) -> TxnOffsetCommitRequest:
        """The request that commits offsets; `member` is what the group is shown of a member."""
        kind = TxnOffsetCommitRequest.Topic
        return TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch - lag,
            topics=[
                kind(
                    name=name,
                    topic_id=self.stage.id_of(name),
                    partitions=[
                        kind.Partition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                        for index, offset in partitions.items()
                    ],
                )
                for name, partitions in topics.items()
            ],
            **member,
        )

    def produce_request(
        self,
        topic: str,
        *,
        partition: int = 0,
        count: int = 1,
        lag: int = 0,
        skip: int = 0,
        producer_id: int | None = None,
        is_transactional: bool = True,
        transactional_id: str | None = "",
    ) -> ProduceRequest:
        """The request that appends records; `skip` is added to their first sequence."""
        records = batch(
            count,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch - lag,
            base_sequence=self._sequences.get((topic, partition), 0) + skip,
            is_transactional=is_transactional,
        )
        named = self.id if transactional_id == "" else transactional_id
        return self.stage.produce_request(
            topic, records, partition=partition, transactional_id=named
        )

    def end_request(
        self, *, committed: bool = True, lag: int = 0, producer_id: int | None = None
    ) -> EndTxnRequest:
        """The request that ends the transaction."""
        return EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch - lag,
            committed=committed,
        )

    # Steps that the broker must do

    def start(self) -> None:
        """Get a producer id and an epoch anew."""
        answer = self._accepted(self.init_request(), 4)
        self.adopt(answer.producer_id, answer.producer_epoch)

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Go on with another id or epoch, and sequences from 0."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def add(self, topic: str, *partitions: int) -> None:
        """Add partitions of a topic to the transaction."""
        self._accepted(self.add_request({topic: partitions}), 3)

    def send(self, topic: str, *, partition: int = 0, count: int = 1) -> None:
        """Append records in the transaction."""
        if self.level == 1:
            self.add(topic, partition)
        request = self.produce_request(topic, partition=partition, count=count)
        self._accepted(request, self.produce_version)
        self.sent(topic, partition=partition, count=count)

    def sent(self, topic: str, *, partition: int = 0, count: int = 1) -> None:
        """Count records that a case has sent by itself."""
        key = (topic, partition)
        self._sequences[key] = self._sequences.get(key, 0) + count

    def commit_offsets(
        self, group: str, topics: Mapping[str, Mapping[int, int]], **details: Any
    ) -> None:
        """Commit offsets of a group in the transaction."""
        if self.level == 1:
            self._accepted(self.add_offsets_request(group), 3)
        version = 5 if self.level == 2 else 4
        self._accepted(self.offsets_request(group, topics, **details), version)

    def end(self, *, committed: bool = True) -> None:
        """End the transaction, and wait until its markers are written."""
        answer = self._accepted(self.end_request(committed=committed), self.end_version)
        if self.level == 2:
            self.adopt(answer.producer_id, answer.producer_epoch)
        self.settle()

    def leave(self) -> None:
        """Abort what may be open, so that the case leaves nothing behind."""
        self.stage.do(self.end_request(committed=False), self.end_version)
        self.settle()

    def settle(self) -> None:
        """Wait until no end of a transaction is under way: brokers answer before the end."""
        self.stage.until(lambda: not self.state().startswith("Prepare"), "written markers")

    def state(self) -> str:
        """The state of the transaction."""
        return str(self.described().transaction_state)

    def described(self) -> Any:
        """What the coordinator says of the transaction."""
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        return self.stage.do(request, 0).transaction_states[0]

    def _accepted(self, request: Request, version: int) -> Any:
        """The answer, when the broker has done it. Raises PreparationFailed."""

        def answered() -> Any:
            answer = self.stage.do(request, version)
            codes = list(_codes(answer))
            if any(code in _BUSY for code in codes):
                return None
            failed = [Error.of(code).name for code in codes if code]
            assert not failed, f"{type(request).__name__} v{version}: {failed}"
            return answer

        return self.stage.until(answered, f"an end of {type(request).__name__}")


def add_request(
    id: str,
    producer_id: int,
    epoch: int,
    topics: Mapping[str, Iterable[int]],
    *,
    verify_only: bool = False,
) -> AddPartitionsToTxnRequest:
    """A request that adds partitions to one transaction, in all versions."""
    listed = [Topic(name=name, partitions=[*parts]) for name, parts in topics.items()]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=listed,
        transactions=[
            AddPartitionsToTxnRequest.Transaction(
                transactional_id=id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
                topics=listed,
            )
        ],
    )


def with_one_coordinator(stage: Stage, count: int) -> list[str]:
    """Parts of names of transactional ids that have the same coordinator."""
    node, found, number = stage.coordinator(TRANSACTION, stage.name("x0")), ["x0"], 0
    while len(found) < count:
        number += 1
        if stage.coordinator(TRANSACTION, stage.name(f"x{number}")) == node:
            found.append(f"x{number}")
    return found


def _codes(answer: Any) -> Iterable[int]:
    """The error codes in a part of an answer, at any depth."""
    for field in answer.fields:
        value = getattr(answer, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "fields"):
                    yield from _codes(each)
