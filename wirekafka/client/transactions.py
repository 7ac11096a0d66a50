"""A transactional producer: batches to partitions, committed or aborted together (KIP-98)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from wirekafka.client.client import (
    RETRY_FOR_S,
    BrokerConnection,
    Client,
    CliError,
    ConnectionFailure,
    CoordinatorRefused,
    check,
)
from wirekafka.codec.message import Request, Response
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error
from wirekafka.protocol.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
)
from wirekafka.protocol.end_txn import EndTxnRequest, EndTxnResponse
from wirekafka.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

_ALL = -1
_RETRY_EVERY_S = 0.02
_FEATURE, _BUMPS = "transaction.version", 2
"""From this level on, each end of a transaction bumps the epoch, and Produce adds partitions to
the transaction (KIP-890)."""
_ADDING_PRODUCE, _PLAIN_PRODUCE = 12, 11
"""The newest versions of Produce with topic names, at that level and below."""
_BUMPING_END, _PLAIN_END = 5, 4
_NAMED_ADD = 3
_FENCED = frozenset(
    {
        Error.PRODUCER_FENCED,
        Error.INVALID_PRODUCER_EPOCH,
        Error.INVALID_PRODUCER_ID_MAPPING,
        Error.UNKNOWN_PRODUCER_ID,
    }
)
"""The last two: the transactional id has not been used for so long that it has expired."""
_MOVED = frozenset(
    {
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.CONCURRENT_TRANSACTIONS,
    }
)

R = TypeVar("R", bound=Response)


class ProducerFenced(CliError):
    """Another producer of the transactional id has begun, or the transaction or the id expired."""


class TransactionRefused(CliError):
    """The user may not use the transactional id."""


class TransactionalProducer:
    """Writes batches in transactions, one at a time; `init` fences other producers of the id.

    After any error but a refusal by `send`'s partition, only `init` makes it usable again: it
    completes or aborts the transaction that was open.
    """

    def __init__(self, client: Client, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        self.transactional_id = transactional_id
        self._client, self._timeout_ms = client, timeout_ms
        self._producer_id, self._epoch = -1, -1
        self._bumps = False
        self._sequences: dict[tuple[str, int], int] = {}
        self._open: set[tuple[str, int]] = set()
        self._leaders: dict[tuple[str, int], int] = {}

    def init(self) -> None:
        """Get a producer id with a new epoch. Raises TransactionRefused, CliError."""
        self._bumps = self._client.any().finalized_level(_FEATURE) >= _BUMPS
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        response = self._ask(
            request, InitProducerIdResponse, lambda answer: answer.error_code, most=None
        )
        self._begin(response.producer_id, response.producer_epoch)

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Append records to a partition as one batch; returns the offset of the first record.

        Raises ProducerFenced, ConnectionFailure, CliError.
        """
        place = (topic, partition)
        if not self._bumps and place not in self._open:
            self._add(topic, partition)
        self._open.add(place)
        options = BatchOptions(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences.get(place, 0),
            is_transactional=True,
        )
        offset = self._deliver(topic, partition, encode_batch(records, options=options))
        self._sequences[place] = options.base_sequence + len(records)
        return offset

    def commit(self) -> None:
        """Make the batches visible. Raises ProducerFenced, CliError."""
        self._end(committed=True)

    def abort(self) -> None:
        """Drop the batches. Raises ProducerFenced, CliError."""
        self._end(committed=False)

    def _begin(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._sequences.clear()
        self._producer_id, self._epoch = producer_id, epoch
        self._open.clear()

    def _end(self, *, committed: bool) -> None:
        if not self._open:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        response = self._ask(
            request,
            EndTxnResponse,
            lambda answer: answer.error_code,
            most=_BUMPING_END if self._bumps else _PLAIN_END,
        )
        if self._bumps:
            self._begin(response.producer_id, response.producer_epoch)
        else:
            self._open.clear()

    def _add(self, topic: str, partition: int) -> None:
        """Add a partition to the transaction, which Produce itself does at newer levels."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[Topic(name=topic, partitions=[partition])],
        )
        self._ask(
            request,
            AddPartitionsToTxnResponse,
            lambda answer: _first(
                result.partition_error_code
                for each in answer.results_by_topic_v3_and_below
                for result in each.results_by_partition
            ),
            most=_NAMED_ADD,
        )

    def _ask(
        self, request: Request, answer: type[R], code_of: Callable[[R], int], *, most: int | None
    ) -> R:
        """Send a request to the coordinator, again while another one takes over, or while the
        previous transaction ends."""
        deadline = time.monotonic() + RETRY_FOR_S
        while True:
            try:
                coordinator = self._client.transaction_coordinator(self.transactional_id)
                response = coordinator.send(request, answer, most=most)
            except ConnectionFailure:
                if time.monotonic() > deadline:
                    raise
                self._client.drop_unusable()
                time.sleep(_RETRY_EVERY_S)
                continue
            except CoordinatorRefused as refused:
                self._check(refused.error)
                raise
            error = Error.of(code_of(response))
            if error not in _MOVED or time.monotonic() > deadline:
                self._check(error)
                return response
            time.sleep(_RETRY_EVERY_S)

    def _check(self, error: Error, subject: str = "", message: str | None = None) -> None:
        name = subject or f"transactional id {self.transactional_id}"
        if error in _FENCED:
            raise ProducerFenced(f"{name}: {error.name}")
        if error is Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise TransactionRefused(
                f"the user may not use the transactional id {self.transactional_id}: it needs"
                f" WRITE and DESCRIBE on it ({error.name})"
            )
        check(error, name, message)

    def _deliver(self, topic: str, partition: int, batch: bytes) -> int:
        deadline = time.monotonic() + RETRY_FOR_S
        request = self._request(topic, partition, batch)
        most = _ADDING_PRODUCE if self._bumps else _PLAIN_PRODUCE
        while True:
            error, message = Error.NONE, None
            try:
                connection = self._leader(topic, partition)
                response = connection.send(request, ProduceResponse, most=most)
                [result] = response.responses[0].partition_responses
                error, message = Error.of(result.error_code), result.error_message
            except ConnectionFailure:
                if time.monotonic() > deadline:
                    raise
                # A batch that was appended before is recognized by its sequence number.
                self._client.drop_unusable()
            else:
                if not error:
                    return result.base_offset
                retries = error.retriable or error in _MOVED
                if not retries or time.monotonic() > deadline:
                    self._check(error, f"{topic}-{partition}", message)
            self._leaders.pop((topic, partition), None)
            time.sleep(_RETRY_EVERY_S)

    def _leader(self, topic: str, partition: int) -> BrokerConnection:
        place = (topic, partition)
        if place not in self._leaders:
            for each in self._client.topic(topic).partitions:
                self._leaders[topic, each.partition_index] = each.leader_id
        if place not in self._leaders:
            raise CliError(f"topic {topic} has no partition {partition}")
        return self._client.node(self._leaders[place])

    def _request(self, topic: str, partition: int, batch: bytes) -> ProduceRequest:
        data = ProduceRequest.TopicProduceData
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=_ALL,
            timeout_ms=int(RETRY_FOR_S * 1000),
            topic_data=[
                data(
                    name=topic,
                    partition_data=[data.PartitionProduceData(index=partition, records=batch)],
                )
            ],
        )


def _first(codes: Iterable[int]) -> int:
    """The first error among codes; 0 if there is none."""
    return next((code for code in codes if code), 0)
