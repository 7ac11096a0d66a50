"""The batches of a partition that a reader may see, by one Fetch after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from wirekafka.client.fetcher import (
    NAMED,
    AbortedTransactions,
    FetchLimits,
    PartitionData,
    fetch_request,
)
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchResponse
from wirekafka.reader.leaders import Leaders, PassingError, Patience, check_answer
from wirekafka.reader.problems import DamagedLog
from wirekafka.reader.source import Isolation
from wirekafka.tables.scan import Batches, DamagedBatch, scan

_WAIT_MS = 500

T = TypeVar("T")


class OffsetOutOfRange(Exception):
    """The log begins after an offset, or ends before it."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Fetches:
    """Reads a partition from its leader by responses of a size."""

    leaders: Leaders
    topic: str
    partition: int
    isolation: Isolation
    size_bytes: int

    def batches(self, start_offset: int, end_offset: int) -> Iterator[Batches]:
        """Fetch up to a safe end what a reader may see; ends early where no more records are.

        Raises OffsetOutOfRange, and DamagedLog for bytes that are no batches.
        """
        position = start_offset
        patience = Patience(f"{self.topic}-{self.partition}")
        while position < end_offset:
            data = self.response(position)
            batches = self._scan(data, position)
            after = end_of(batches)
            if after > position:
                position = after
                patience.renew()
                yield visible(batches, data)
            elif self._safe_end(data) >= end_offset:
                return  # Compaction has removed all records from here to the end.
            elif patience.is_over:
                raise OffsetOutOfRange(position)
            else:
                patience.wait(f"no records arrive from offset {position} on")

    def response(self, offset: int) -> PartitionData:
        """Fetch once; errors that pass are retried. Raises OffsetOutOfRange."""
        limits = FetchLimits(
            committed_only=self.isolation == "read_committed",
            wait_ms=_WAIT_MS,
            partition_bytes=self.size_bytes,
            max_bytes=self.size_bytes,
        )
        request = fetch_request(self.topic, {self.partition: offset}, limits)
        subject = f"{self.topic}-{self.partition}"

        def attempt() -> PartitionData:
            leader = self.leaders.id_of(self.topic, self.partition)
            answer = self.leaders.connection(leader).send(request, FetchResponse, most=NAMED)
            check_answer(answer.error_code, subject)
            for data in (each for topic in answer.responses for each in topic.partitions):
                if data.error_code == Error.OFFSET_OUT_OF_RANGE:
                    raise OffsetOutOfRange(offset)
                check_answer(data.error_code, subject)
                return data
            # A broker that limits the rate of a client answers without partitions.
            time.sleep(answer.throttle_time_ms / 1000)
            raise PassingError("the broker limits the rate")

        return self.leaders.retried(subject, attempt, [self.topic])

    def _scan(self, data: PartitionData, offset: int) -> Batches:
        try:
            return scan(data.records or b"")
        except DamagedBatch as error:
            name = f"{self.topic}-{self.partition}, fetched at offset {offset}"
            raise DamagedLog(name, error.position, error.reason) from None

    def _safe_end(self, data: PartitionData) -> int:
        committed_only = self.isolation == "read_committed"
        return data.last_stable_offset if committed_only else data.high_watermark


def end_of(batches: Batches) -> int:
    """The offset after the last batch; -1 without one."""
    return int(batches["end_offset"][-1]) if len(batches) else -1


def visible(batches: Batches, data: PartitionData) -> Batches:
    """The batches of a response but for control batches and aborted records.

    The response has no aborted transactions where a reader wants their records.
    """
    if not data.aborted_transactions:
        return batches.where(~batches.control)
    hides = AbortedTransactions(data).hides
    keep = np.ones(len(batches), bool)
    for index in batches.transactional.nonzero()[0].tolist():
        keep[index] = not hides(bytes(batches.bytes_of(index)), batches.header(index))
    return batches.where(keep & ~batches.control)


def ahead(source: Iterator[T]) -> Iterator[T]:
    """The elements of an iterator, each computed in a thread while the one before is in use."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, source, None)
        while (element := following.result()) is not None:
            following = pool.submit(next, source, None)
            yield element
