"""A transactional producer: batches to partitions, committed or aborted together (KIP-98)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from wirekafka.client.client import (
    RETRY_FOR_S,
    BrokerConnection,
    Client,
    CliError,
    ConnectionFailure,
)
from wirekafka.client.delivery import IdAndEpoch, Place, ResponseError
from wirekafka.client.producer import (
    AccessRefused,
    IdempotentProducer,
    ProducerFenced,
    error_of_answer,
)
from wirekafka.codec.record import BatchOptions
from wirekafka.errors import Error
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from wirekafka.protocol.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
)
from wirekafka.protocol.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from wirekafka.protocol.end_txn import EndTxnRequest, EndTxnResponse
from wirekafka.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

LAST_EPOCH = (1 << 15) - 2
"""After a transaction with this epoch the coordinator assigns another producer id."""
_RETRY_EVERY_S = 0.02
_FEATURE, _BUMPS = "transaction.version", 2
"""From this level on, each end of a transaction bumps the epoch, and Produce and TxnOffsetCommit
add what they write to to the transaction (KIP-890)."""
_ADDING_PRODUCE, _PLAIN_PRODUCE = 12, 11
"""The newest versions of Produce with topic names, at that level and below."""
_ADDING_COMMIT, _PLAIN_COMMIT = 5, 4
_BUMPING_END, _PLAIN_END = 5, 4
_NAMED_ADD, _NAMED_FETCH = 3, 9
_ONGOING, _ENDING = "Ongoing", "Prepare"
"""A state of transactions, and the start of the names of others."""


class TransactionRefused(AccessRefused):
    """The user may not use the transactional id."""


class OutcomeUnknown(ConnectionFailure):
    """Nobody has answered whether a transaction is committed, or will be."""


class OffsetAndMetadata(NamedTuple):
    """An offset to commit for a group, with its text."""

    offset: int
    metadata: str = ""


class DescribedTransaction(NamedTuple):
    """The newest transaction of a transactional id, and the producer of the next one."""

    state: str
    """In Kafka's words: Empty, Ongoing, PrepareCommit, CompleteCommit, ..."""
    producer: IdAndEpoch

    @property
    def is_open(self) -> bool:
        """Whether the transaction has begun, and nobody has ended it."""
        return self.state == _ONGOING


class TransactionalProducer(IdempotentProducer):
    """Writes batches in transactions, one at a time; `init` fences other producers of the id.

    After any error only `init` makes it usable again: it completes or aborts the transaction
    that was open.
    """

    def __init__(self, client: Client, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        super().__init__(client)
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._bumps = False
        self._is_open = False
        self._began_at_s = 0.0
        self._places: set[Place] = set()
        self._groups: set[str] = set()

    def init(self) -> None:
        """Get a producer id with a new epoch. Raises TransactionRefused, CliError."""
        self._bumps = self._finalized_bumps()
        self._init(IdAndEpoch(-1, -1))

    def resume(self, identity: IdAndEpoch) -> None:
        """Go on as a producer of this process or another, between two transactions.

        The epoch must not have been used in a transaction, as sequences begin at 0.
        """
        self._bumps = self._finalized_bumps()
        self._adopt(identity)
        self._close()

    def resume_run(self, *, initial: IdAndEpoch, last: IdAndEpoch | None = None) -> None:
        """Go on with a run, as the only one of its transactional id.

        `initial` is the producer from `init` at the run's start, `last` the producer of the run's
        last transaction that was committed, None before the first. A transaction that the run
        has left open is aborted. Raises ProducerFenced if another producer has begun since.
        """
        described = self.settled()
        self.resume(producer_of_run(described, initial=initial, last=last))
        if described is not None and described.is_open:
            self._is_open = True
            self.abort()
            self.renew()
        elif self._identity == last:
            self.renew()

    def renew(self) -> None:
        """Get the next epoch after a transaction, unless its end has brought it.

        Raises ProducerFenced, CliError.
        """
        if not self._bumps:
            self._init(self._identity)

    def send_offsets(self, group: str, offsets: Mapping[Place, OffsetAndMetadata]) -> None:
        """Commit offsets of a group, without members, within the transaction.

        Raises ProducerFenced, AccessRefused, ConnectionFailure, CliError.
        """
        self._open()
        if not self._bumps and group not in self._groups:
            self._add_group(group)
        self._groups.add(group)
        kind = TxnOffsetCommitRequest.Topic
        topics: dict[str, list[TxnOffsetCommitRequest.Topic.Partition]] = {}
        for (topic, index), (offset, metadata) in offsets.items():
            partition = kind.Partition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(partition)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            topics=[kind(name=name, partitions=each) for name, each in topics.items()],
        )
        self._ask(
            request,
            TxnOffsetCommitResponse,
            lambda: self._client.coordinator(group),
            lambda answer: _first(
                ResponseError(
                    Error.of(each.error_code),
                    (topic.name, each.partition_index),
                    group=group,
                    right="READ",
                )
                for topic in answer.topics
                for each in topic.partitions
            ),
            most=_ADDING_COMMIT if self._bumps else _PLAIN_COMMIT,
            group=group,
        )

    def committed_offsets(self, group: str) -> dict[Place, OffsetAndMetadata]:
        """All offsets of a group, once a transaction of the transactional id that ends has ended.

        Offsets of an open transaction are not awaited. Raises AccessRefused, CliError.
        """
        # A request for all offsets leaves out the partition whose first offset is about to be
        # committed, instead of reporting it as unstable.
        described = self.settled()
        is_open = described is not None and described.is_open
        asked = OffsetFetchRequest.Group(group_id=group, topics=None)
        response = self._ask(
            OffsetFetchRequest(groups=[asked], require_stable=not is_open),
            OffsetFetchResponse,
            lambda: self._client.coordinator(group),
            lambda answer: _first_error_of_offsets(answer.groups[0]),
            most=_NAMED_FETCH,
            group=group,
        )
        return {
            (topic.name, each.partition_index): OffsetAndMetadata(
                each.committed_offset, each.metadata or ""
            )
            for topic in response.groups[0].topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    def commit(self) -> None:
        """Make batches and offsets visible. Raises ProducerFenced, OutcomeUnknown, CliError."""
        try:
            self._end(committed=True)
        except ConnectionFailure as failure:
            raise OutcomeUnknown(
                f"{failure}; it is not known whether the transaction of the transactional id"
                f" {self.transactional_id} is committed"
            ) from failure

    def abort(self) -> None:
        """Drop batches and offsets. Raises ProducerFenced, CliError."""
        self._end(committed=False)

    def describe(self) -> DescribedTransaction | None:
        """The newest transaction of the id; None if the id was never used, or has expired.

        Raises TransactionRefused, CliError.
        """
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        response = self._ask(
            request, DescribeTransactionsResponse, self._coordinator, _error_of_description
        )
        [found] = response.transaction_states
        if found.error_code:
            return None
        producer = IdAndEpoch(found.producer_id, found.producer_epoch)
        return DescribedTransaction(found.transaction_state, producer)

    def _finalized_bumps(self) -> bool:
        return self._client.any().finalized_level(_FEATURE) >= _BUMPS

    def _init(self, expected: IdAndEpoch) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.producer_epoch,
        )
        response = self._ask(request, InitProducerIdResponse, self._coordinator, error_of_answer)
        self._adopt(IdAndEpoch(response.producer_id, response.producer_epoch))
        self._close()

    def settled(self) -> DescribedTransaction | None:
        """The newest transaction, once it is not about to end. Raises as `describe`."""
        deadline = time.monotonic() + RETRY_FOR_S
        while True:
            described = self.describe()
            if described is None or not described.state.startswith(_ENDING):
                return described
            if time.monotonic() > deadline:
                raise CliError(f"{self._name('')}: its last transaction does not end")
            time.sleep(_RETRY_EVERY_S)

    def _coordinator(self) -> BrokerConnection:
        return self._client.transaction_coordinator(self.transactional_id)

    def _begin(self, places: Collection[Place]) -> None:
        self._open()
        new = sorted(set(places) - self._places)
        if new and not self._bumps:
            self._add(new)
        self._places.update(new)

    def _open(self) -> None:
        if not self._is_open:
            self._is_open, self._began_at_s = True, time.monotonic()

    def _close(self) -> None:
        self._is_open = False
        self._places.clear()
        self._groups.clear()

    def _end(self, *, committed: bool) -> None:
        if not self._is_open:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            committed=committed,
        )
        most = _BUMPING_END if self._bumps else _PLAIN_END
        response = self._ask(request, EndTxnResponse, self._coordinator, error_of_answer, most=most)
        if self._bumps:
            self._adopt(IdAndEpoch(response.producer_id, response.producer_epoch))
        self._close()

    def _add(self, places: Sequence[Place]) -> None:
        """Add partitions to the transaction, which Produce itself does at newer levels."""
        topics: dict[str, list[int]] = {}
        for topic, index in places:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.producer_epoch,
            v3_and_below_topics=[
                Topic(name=name, partitions=partitions) for name, partitions in topics.items()
            ],
        )
        self._ask(
            request,
            AddPartitionsToTxnResponse,
            self._coordinator,
            lambda answer: _first(
                ResponseError(
                    Error.of(each.partition_error_code), (topic.name, each.partition_index)
                )
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ),
            most=_NAMED_ADD,
        )

    def _add_group(self, group: str) -> None:
        """Add a group's offsets to the transaction, which TxnOffsetCommit does at newer levels."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            group_id=group,
        )
        self._ask(
            request,
            AddOffsetsToTxnResponse,
            self._coordinator,
            lambda answer: error_of_answer(answer)._replace(group=group),
        )

    def _transactional_id(self) -> str | None:
        return self.transactional_id

    def _newest_produce(self) -> int:
        return _ADDING_PRODUCE if self._bumps else _PLAIN_PRODUCE

    def _batch_options(self) -> BatchOptions:
        return BatchOptions(is_transactional=True)

    def _failure(self, found: ResponseError) -> CliError:
        error, name = found.error, f"the transactional id {self.transactional_id}"
        if error is Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return TransactionRefused(
                f"the user may not use {name}: it needs WRITE and DESCRIBE on it ({error.name})"
            )
        if error is Error.INVALID_TRANSACTION_TIMEOUT:
            return CliError(
                f"{name}: the timeout of {self._timeout_ms} ms is longer than the broker's"
                f" transaction.max.timeout.ms ({error.name})"
            )
        if error is Error.INVALID_TXN_STATE and self._has_timed_out():
            # The coordinator takes the request for a repeated one: with the epoch that it has
            # aborted itself.
            return ProducerFenced(f"{self._name('')}: {self._why_fenced()} ({error.name})")
        return super()._failure(found)

    def _has_timed_out(self) -> bool:
        taken_s = time.monotonic() - self._began_at_s
        return self._is_open and taken_s * 1000 > self._timeout_ms

    def _name(self, group: str) -> str:
        return super()._name(group) if group else f"transactional id {self.transactional_id}"

    def _why_fenced(self) -> str:
        if self._has_timed_out():
            return f"the transaction exceeded its timeout of {self._timeout_ms} ms and was aborted"
        return (
            f"another producer with the transactional id {self.transactional_id} has begun, or"
            " the id has expired"
        )


def producer_of_run(
    described: DescribedTransaction | None, *, initial: IdAndEpoch, last: IdAndEpoch | None
) -> IdAndEpoch:
    """The producer of a run's next transaction, by the state of its transactional id.

    The end of a transaction leads from one producer to the next, and so does the begin of
    another run; therefore only the successor of the run's last producer is the run's own. With the
    `last` one itself the transaction has ended, but the producer was not renewed. Raises
    ProducerFenced if another run has begun, or if the transactional id has expired.
    """
    if described is None:
        raise ProducerFenced("the transactional id has expired, as it was not used for so long")
    found = described.producer
    if last is None:
        is_own = found == initial
    elif last.producer_epoch < LAST_EPOCH:
        is_own = found in (last, last._replace(producer_epoch=last.producer_epoch + 1))
    else:
        is_own = found == last or (
            found.producer_id != last.producer_id and found.producer_epoch == 0
        )
    if not is_own:
        expected = initial if last is None else last
        raise ProducerFenced(
            "another producer with the transactional id has begun: producer id and epoch are"
            f" {found.producer_id} and {found.producer_epoch} after {expected.producer_id} and"
            f" {expected.producer_epoch}"
        )
    return found


def _first(errors: Iterable[ResponseError]) -> ResponseError:
    """The first error that explains the others; none if there is none."""
    found = [each for each in errors if each.error]
    for each in found:
        if each.error is not Error.OPERATION_NOT_ATTEMPTED:
            return each
    return found[0] if found else ResponseError(Error.NONE)


def _first_error_of_offsets(group: OffsetFetchResponse.Group) -> ResponseError:
    if group.error_code:
        return ResponseError(Error.of(group.error_code), group=group.group_id)
    return _first(
        ResponseError(
            Error.of(each.error_code), (topic.name, each.partition_index), right="DESCRIBE"
        )
        for topic in group.topics
        for each in topic.partitions
    )


def _error_of_description(answer: DescribeTransactionsResponse) -> ResponseError:
    error = Error.of(answer.transaction_states[0].error_code)
    return ResponseError(Error.NONE if error is Error.TRANSACTIONAL_ID_NOT_FOUND else error)


__all__ = [
    "AccessRefused",
    "DescribedTransaction",
    "IdAndEpoch",
    "OffsetAndMetadata",
    "OutcomeUnknown",
    "ProducerFenced",
    "TransactionRefused",
    "TransactionalProducer",
    "producer_of_run",
]
