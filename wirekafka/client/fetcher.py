"""Fetches one topic's partitions from their leaders, record by record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from wirekafka.client.client import RETRY_FOR_S, Client, CliError, check
from wirekafka.codec.batch import BatchHeader, batches
from wirekafka.codec.record import Record, decode_records
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.records.control import ControlType, control_type

_PARTITION_BYTES = 1 << 20
NAMED = 12
"""The newest version of Fetch in which requests name topics, rather than give their ids."""
_EARLIEST = -2

PartitionData = FetchResponse.FetchableTopicResponse.PartitionData


class FetchedRecord(NamedTuple):
    """A record with its topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class FetchLimits(NamedTuple):
    """The isolation, the sizes and the wait of a Fetch."""

    committed_only: bool
    wait_ms: int = 0
    partition_bytes: int = _PARTITION_BYTES
    max_bytes: int = 50 << 20


class TopicFetcher:
    """Positions in some partitions of a topic, and the records from there on."""

    def __init__(self, client: Client, topic: str, *, committed_only: bool) -> None:
        self._client, self._topic, self._committed_only = client, topic, committed_only
        self._leaders = self._find_leaders()
        self._positions: dict[int, int] = {}
        self._moved: set[int] = set()
        self._troubled_since: float | None = None
        self.before_waiting: Callable[[], None] = lambda: None

    def partitions(self) -> list[int]:
        """The topic's partitions."""
        return sorted(self._leaders)

    def offsets(self, partitions: list[int], timestamp: int) -> dict[int, int]:
        """Offsets for a timestamp in ms (-1 latest, -2 earliest); CliError for no partition."""
        for index in partitions:
            if index not in self._leaders:
                raise CliError(f"topic {self._topic} has no partition {index}")
        found = self._client.offsets([(self._topic, i) for i in partitions], timestamp)
        return {index: offset for (_, index), offset in found.items()}

    def assign(self, positions: dict[int, int]) -> None:
        """Read from these offsets on, and from no other partition."""
        for index in positions:
            if index not in self._leaders:
                raise CliError(f"topic {self._topic} has no partition {index}")
        self._positions = dict(positions)
        self._moved = set()

    def ends(self) -> dict[int, int]:
        """Where the assigned partitions end now."""
        return self.offsets(list(self._positions), -1)

    def has_reached(self, ends: dict[int, int]) -> bool:
        """Whether every position is at its end or beyond."""
        return all(self._positions[index] >= end for index, end in ends.items())

    def moved(self) -> dict[int, int]:
        """Positions that have changed since the last call."""
        moved = {index: self._positions[index] for index in self._moved}
        self._moved = set()
        return moved

    def fetch(self, wait_s: float) -> Iterator[FetchedRecord]:
        """Fetch from all leaders, waiting for at most this time for a first record."""
        self.before_waiting()
        by_leader: dict[int, list[int]] = {}
        for index in self._positions:
            by_leader.setdefault(self._leaders[index], []).append(index)
        if not by_leader:
            time.sleep(wait_s)
        for leader, indexes in by_leader.items():
            terms = FetchLimits(self._committed_only, wait_ms=int(wait_s / len(by_leader) * 1000))
            positions = {index: self._positions[index] for index in indexes}
            request = fetch_request(self._topic, positions, terms)
            response = self._client.node(leader).send(request, FetchResponse, most=NAMED)
            check(response.error_code, f"fetch from {self._topic}")
            answers = [data for topic in response.responses for data in topic.partitions]
            for data in answers:
                yield from self._records(data)
        # Leaders fill responses in the order of partitions: rotate it, so that each is first.
        first = next(iter(self._positions), None)
        if first is not None:
            self._positions[first] = self._positions.pop(first)

    def _records(self, data: PartitionData) -> Iterator[FetchedRecord]:
        index = data.partition_index
        if data.error_code:
            self._recover(index, data.error_code)
            return
        self._troubled_since = None
        aborted = AbortedTransactions(data)
        records = data.records or b""
        for at, header in batches(records):
            batch = records[at : at + header.size_bytes]
            if not aborted.hides(batch, header):
                for record in decode_records(batch, header):
                    if record.offset >= self._positions[index]:
                        self._move(index, record.offset + 1)
                        yield self._fetched(index, record)
            self._move(index, max(header.end_offset, self._positions[index]))

    def _move(self, index: int, position: int) -> None:
        self._positions[index] = position
        self._moved.add(index)

    def _fetched(self, index: int, record: Record) -> FetchedRecord:
        return FetchedRecord(
            self._topic,
            index,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
        )

    def _recover(self, index: int, error_code: int) -> None:
        """Reset an offset below the log start, or retry retriable errors; else raise CliError."""
        if error_code == Error.OFFSET_OUT_OF_RANGE:
            earliest = self.offsets([index], _EARLIEST)[index]
            if self._positions[index] < earliest:
                self._positions[index] = earliest
                return
            where = f"{self._topic}-{index}: offset {self._positions[index]}"
            check(error_code, where, "beyond the end")
        now = time.monotonic()
        self._troubled_since = self._troubled_since or now
        if not Error(error_code).retriable or now - self._troubled_since > RETRY_FOR_S:
            check(error_code, f"{self._topic}-{index}")
        time.sleep(0.1)
        self._leaders = self._find_leaders()

    def _find_leaders(self) -> dict[int, int]:
        partitions = self._client.topic(self._topic).partitions
        return {partition.partition_index: partition.leader_id for partition in partitions}


def fetch_request(topic: str, positions: Mapping[int, int], terms: FetchLimits) -> FetchRequest:
    """A Fetch of some partitions of a topic, to be sent in version `NAMED` at most."""
    kind = FetchRequest.Topic
    return FetchRequest(
        max_wait_ms=terms.wait_ms,
        min_bytes=1,
        max_bytes=terms.max_bytes,
        isolation_level=int(terms.committed_only),
        topics=[
            kind(
                topic=topic,
                partitions=[
                    kind.Partition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=terms.partition_bytes,
                    )
                    for index, offset in positions.items()
                ],
            )
        ],
    )


class AbortedTransactions:
    """Finds the batches of a fetched partition that belong to aborted transactions.

    Call it for every batch, in order.
    """

    def __init__(self, data: PartitionData) -> None:
        self._starts = sorted(
            (transaction.first_offset, transaction.producer_id)
            for transaction in data.aborted_transactions or ()
        )
        self._open: set[int] = set()

    def hides(self, batch: bytes, header: BatchHeader) -> bool:
        """Whether a reader must not see the batch: a control batch, or an aborted one."""
        while self._starts and self._starts[0][0] < header.end_offset:
            self._open.add(self._starts.pop(0)[1])
        if header.is_control:
            kinds = {control_type(record) for record in decode_records(batch, header)}
            if ControlType.ABORT in kinds:
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open
