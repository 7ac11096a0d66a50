"""An idempotent producer: batches that are appended once each, in their order (KIP-98)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from wirekafka.client.client import (
    RETRY_FOR_S,
    BrokerConnection,
    Client,
    CliError,
    ConnectionFailure,
    CoordinatorRefused,
)
from wirekafka.client.delivery import (
    Delivery,
    IdAndEpoch,
    PartitionBatches,
    PartitionLeaders,
    Place,
    ResponseError,
)
from wirekafka.codec.batch import Buffer
from wirekafka.codec.message import Request, Response
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error
from wirekafka.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER = IdAndEpoch(-1, -1)
_RETRY_EVERY_S = 0.02
_NAMED_PRODUCE = 12
"""The newest version of Produce with topic names."""
_NO_TIMEOUT_MS = (1 << 31) - 1
"""Java clients send it where there is no transaction."""
_FENCED = frozenset(
    {
        Error.PRODUCER_FENCED,
        Error.INVALID_PRODUCER_EPOCH,
        Error.INVALID_PRODUCER_ID_MAPPING,
        Error.UNKNOWN_PRODUCER_ID,
    }
)
_TOO_LARGE = frozenset({Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE})

R = TypeVar("R", bound=Response)


class ProducerFenced(CliError):
    """Another producer of the transactional id has begun, or the transaction or the id expired."""


class AccessRefused(CliError):
    """The user lacks a right, which the message names with its resource."""


class IdempotentProducer:
    """Writes batches. After any error only `init` makes it usable again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._identity = NO_PRODUCER
        self._sequences: dict[Place, int] = {}
        self._leaders = PartitionLeaders(client)

    @property
    def identity(self) -> IdAndEpoch:
        """The producer id and epoch in use; NO_PRODUCER before `init`."""
        return self._identity

    def init(self) -> None:
        """Get a producer id. Raises AccessRefused, CliError."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT_MS
        )
        response = self._ask(request, InitProducerIdResponse, self._client.any, error_of_answer)
        self._adopt(IdAndEpoch(response.producer_id, response.producer_epoch))

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Append records to a partition as one batch; returns the offset of the first record.

        Raises as `send_batches`.
        """
        batch = encode_batch(records, options=self._batch_options())
        [sent] = self._send({(topic, partition): [batch]})
        return sent.base_offset

    def send_batches(self, batches: Mapping[Place, Sequence[Buffer]]) -> dict[Place, int]:
        """Append finished batches, transactional ones in a transaction, to their partitions.

        Their producer, sequences and checksums are set. The batches of a partition are appended
        in order. Returns the end offset of the last batch of each partition. Raises
        ProducerFenced, AccessRefused, ConnectionFailure, CliError.
        """
        return {sent.place: sent.end_offset for sent in self._send(batches)}

    def _send(self, batches: Mapping[Place, Sequence[Buffer]]) -> Sequence[PartitionBatches]:
        self._begin({place for place, each in batches.items() if each})
        sending = [
            PartitionBatches(place, deque(each), self._identity, self._sequences.get(place, 0))
            for place, each in batches.items()
            if each
        ]
        delivery = Delivery(
            self._client,
            self._leaders,
            self._failure,
            transactional_id=self._transactional_id(),
            newest_version=self._newest_produce(),
        )
        delivery.run(sending)
        self._sequences |= {each.place: each.sequence for each in sending}
        return sending

    def _transactional_id(self) -> str | None:
        return None

    def _newest_produce(self) -> int:
        return _NAMED_PRODUCE

    def _batch_options(self) -> BatchOptions:
        return BatchOptions()

    def _begin(self, places: Collection[Place]) -> None:
        """What has to be done before batches are sent to partitions."""

    def _adopt(self, identity: IdAndEpoch) -> None:
        if identity != self._identity:
            self._sequences.clear()
        self._identity = identity

    def _ask(
        self,
        request: Request,
        answer: type[R],
        connect: Callable[[], BrokerConnection],
        error_of: Callable[[R], ResponseError],
        *,
        most: int | None = None,
        group: str = "",
    ) -> R:
        """Send a request to a coordinator, again while another one takes over, or while the
        previous transaction ends."""
        deadline = time.monotonic() + RETRY_FOR_S
        while True:
            try:
                response = connect().send(request, answer, most=most)
            except ConnectionFailure:
                if time.monotonic() > deadline:
                    raise
                self._client.drop_unusable()
                time.sleep(_RETRY_EVERY_S)
                continue
            except CoordinatorRefused as refused:
                raise self._failure(ResponseError(refused.error, group=group)) from None
            found = error_of(response)
            if not found.error:
                return response
            if not found.error.retriable or time.monotonic() > deadline:
                raise self._failure(found)
            time.sleep(_RETRY_EVERY_S)

    def _failure(self, found: ResponseError) -> CliError:
        """The exception for an error of a response."""
        error, place, group = found.error, found.place, found.group
        if error is Error.TOPIC_AUTHORIZATION_FAILED and place:
            return _without_right(f"use the topic {place[0]}", found.right, error)
        if error is Error.GROUP_AUTHORIZATION_FAILED:
            return _without_right(f"use the offsets of the group {group}", "READ", error)
        if error is Error.CLUSTER_AUTHORIZATION_FAILED:
            return AccessRefused(
                "the user may not write: it needs WRITE on a topic, or IDEMPOTENT_WRITE on the"
                f" cluster ({error.name})"
            )
        subject = f"{place[0]}-{place[1]}" if place else self._name(group)
        if error in _TOO_LARGE:
            return CliError(
                f"{subject}: a batch of {found.size_bytes} bytes is larger than the topic's"
                f" max.message.bytes ({error.name})"
            )
        if error in _FENCED:
            return ProducerFenced(f"{subject}: {self._why_fenced()} ({error.name})")
        if found.message:
            return CliError(f"{subject}: {found.message} ({error.name})")
        return CliError(f"{subject}: {error.name}")

    def _name(self, group: str) -> str:
        return f"group {group}" if group else "producer"

    def _why_fenced(self) -> str:
        return "the partition no longer knows the producer"


def error_of_answer(answer: Any) -> ResponseError:
    """The error of a response that has a single error code."""
    return ResponseError(Error.of(answer.error_code))


def _without_right(action: str, right: str, error: Error) -> AccessRefused:
    return AccessRefused(f"the user may not {action}: it needs {right} on it ({error.name})")
