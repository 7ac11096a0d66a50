"""Reads of the part of a partition's log that is in remote storage (KIP-405)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.epochs import EpochEntry
from wirekafka.log.lookup import TimestampOffset
from wirekafka.replication.partition.reading import ReadRange, ReadResult

Result = TypeVar("Result", covariant=True)


class Pending(Awaitable[Result], Protocol, Generic[Result]):
    """An awaitable that is in progress already, such as an `asyncio.Future`."""

    def cancel(self) -> object:
        """Abandon the result; no effect if it has arrived."""


@dataclass(slots=True, kw_only=True)
class RemoteResult(ReadResult):
    """The result of a remote read, with the aborted transactions in its range."""

    aborted: Sequence[AbortedTransaction] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStart:
    """What a replica begins with whose older records stay in remote storage."""

    offset: int
    """Where its local log begins: the end of a remote segment."""
    epochs: Sequence[EpochEntry]
    """The leader epochs of all records before."""
    producers: bytes | None
    """The snapshot of the producers at the offset; None if there is none."""


class RemoteLog(Protocol):
    """The records of a partition from the log start offset up to the start of the local log.

    A read starts when its method is called, so that reads of several partitions run concurrently.
    Awaiting it raises `KafkaError`.
    """

    def read(self, wanted: ReadRange, found: RemoteResult) -> Pending[RemoteResult]:
        """Read whole batches from `wanted.offset` on into `found`, which has the offsets set."""

    def offset_for_timestamp(
        self, timestamp: int, limit_ms: int
    ) -> Pending[TimestampOffset | None]:
        """The first remote record with that timestamp in ms or a later one.

        REQUEST_TIMED_OUT after `limit_ms`; 0 stands for the broker's own limit.
        """

    def largest_timestamp(self) -> int:
        """The largest timestamp, in ms, of the remote records; -1 if there are none."""

    async def local_start(self, epoch: int, offset: int) -> LocalStart:
        """What a replica begins with after the remote segment with a record of that epoch."""
