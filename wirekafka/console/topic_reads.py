"""Reads a topic's records from all leaders, open and aborted transactions included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self, TypeAlias

from wirekafka.client.client import Client, CliError, ListedOffset, check, only
from wirekafka.client.fetcher import (
    NAMED,
    AbortedTransactions,
    FetchLimits,
    PartitionData,
    fetch_request,
)
from wirekafka.codec.batch import BatchHeader, batches
from wirekafka.codec.record import Record, decode_records, iterate_body, record_bytes
from wirekafka.console.excerpts import Excerpt, excerpt_of
from wirekafka.errors import Error, KafkaError, error_name
from wirekafka.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from wirekafka.protocol.fetch import FetchResponse
from wirekafka.protocol.records.control import ControlType, control_type

EARLIEST, LATEST = -2, -1
_MAX_TIMESTAMP = -3
LIST_BYTES = 2 << 10
"""How much of each key, value and header is kept for lists of records."""
INFLATED_BYTES = 64 << 20
"""Batches that inflate to more are not decoded."""
_PARTITION_BYTES = 64 << 10
_RESPONSE_BYTES = 8 << 20
_MOST_HEADERS, _LIST_HEADERS = 100, 10
_LOOK_AHEAD_BYTES = 4 << 20
_LOOK_AHEAD_FETCHES = 16

Positions: TypeAlias = dict[int, int]
"""Offsets by partition."""


class NoTopic(CliError):
    """There is no topic of this name."""


class RecordTransaction(StrEnum):
    """The state of a record's transaction; NONE if the record is in none."""

    NONE = ""
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    ENDED = "ended"
    """Committed or aborted: the marker is further on than was read."""
    UNDECIDED = "undecided"
    """Not determined yet; see `TopicReads.decide`."""


@dataclass(slots=True)
class Seen:
    """A record as it is displayed, or a batch that cannot be decoded, with the `problem`."""

    partition: int
    offset: int
    timestamp: int
    key: Excerpt | None
    value: Excerpt | None
    headers: tuple[tuple[str, Excerpt | None], ...]
    header_count: int
    batch: BatchHeader
    transaction: RecordTransaction = RecordTransaction.NONE
    control: str = ""
    """The kind of a control record, as "commit"."""
    problem: str = ""


@dataclass(slots=True)
class Chunk:
    """The result of one Fetch for a partition."""

    partition: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    data: PartitionData
    is_undecided: bool
    """Whether the chunk lies beyond the last stable offset."""
    records: bytes = b""
    error: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.records

    def batches(self, at: int) -> Iterator[tuple[BatchHeader, bytes, RecordTransaction]]:
        """Each batch that has offsets from `at` on, with the state of its transaction."""
        aborted = AbortedTransactions(self.data)
        for position, header in batches(self.records):
            batch = self.records[position : position + header.size_bytes]
            hidden = aborted.hides(batch, header)
            if header.end_offset <= at:
                continue
            state = RecordTransaction.NONE
            if header.is_transactional and not header.is_control:
                state = RecordTransaction.ABORTED if hidden else RecordTransaction.COMMITTED
                if self.is_undecided:
                    state = RecordTransaction.UNDECIDED
            yield header, batch, state


@dataclass(slots=True)
class TopicShape:
    """A topic's partitions, with their leaders where there is one."""

    leaders: dict[int, int] = field(default_factory=dict)
    leaderless: list[int] = field(default_factory=list)


class TopicReads:
    """The partitions of one topic, read through a client that nobody else uses meanwhile."""

    def __init__(self, client: Client, topic: str):
        """Raises CliError for a topic that does not exist or may not be described."""
        self._client, self.topic = client, topic
        self.fetched_bytes = 0
        self.shape = self._find_shape()

    @classmethod
    def find(cls, client: Client, topic: str) -> Self | None:
        """A topic's reads; None if there is no such topic. Raises CliError."""
        try:
            return cls(client, topic)
        except NoTopic:
            return None

    def partitions(self) -> list[int]:
        """All partitions of the topic."""
        return sorted([*self.shape.leaders, *self.shape.leaderless])

    def look_again(self) -> None:
        """Read anew which partitions there are, and who leads them. Raises CliError."""
        self.shape = self._find_shape()

    def offsets(self, partitions: Iterable[int], timestamp: int) -> Positions:
        """Each partition's offset for a timestamp in ms, EARLIEST or LATEST; -1 for none."""
        return {index: found.offset for index, found in self._list(partitions, timestamp).items()}

    def newest_timestamps(self, partitions: Iterable[int]) -> dict[int, int]:
        """The greatest timestamp in each partition, in ms; -1 where there is none (KIP-734)."""
        listed = self._list(partitions, _MAX_TIMESTAMP)
        return {index: found.timestamp for index, found in listed.items()}

    def fetch(
        self, positions: Mapping[int, int], partition_bytes: int = _PARTITION_BYTES
    ) -> list[Chunk]:
        """Read some partitions once; partitions without room in the responses have empty chunks."""
        chunks: dict[int, Chunk] = {}
        self._fetch(positions, FetchLimits(True, 0, partition_bytes, _RESPONSE_BYTES), chunks)
        beyond = {
            index: at
            for index, at in positions.items()
            if (chunk := chunks.get(index)) is not None
            and not chunk.error
            and chunk.is_empty
            and chunk.last_stable_offset <= at < chunk.high_watermark
        }
        if beyond:
            self._fetch(beyond, FetchLimits(False, 0, partition_bytes, _RESPONSE_BYTES), chunks)
            for index, at in beyond.items():
                # The last stable offset may have advanced between the two requests.
                if chunks[index].last_stable_offset > at:
                    chunks[index].records = b""
        return list(chunks.values())

    def producers(
        self, index: int
    ) -> list[DescribeProducersResponse.TopicResponse.PartitionResponse.ProducerState]:
        """The active producers of a partition at its leader. Raises CliError."""
        request = DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=self.topic, partition_indexes=[index])
            ]
        )
        leader = self.shape.leaders.get(index)
        if leader is None:
            raise CliError(f"{self.topic}-{index} has no leader")
        response = self._client.node(leader).send(request, DescribeProducersResponse)
        [found] = response.topics[0].partitions
        check(found.error_code, f"{self.topic}-{index}", found.error_message)
        return found.active_producers

    def decide(self, seen: Iterable[Seen]) -> None:
        """Replace UNDECIDED in these records by the states of producers and markers.

        UNDECIDED stays where the leader does not support DescribeProducers.
        """
        by_partition: dict[int, list[Seen]] = {}
        for each in seen:
            if each.transaction is RecordTransaction.UNDECIDED:
                by_partition.setdefault(each.partition, []).append(each)
        for index, undecided in by_partition.items():
            self._decide(index, undecided)

    def spans(self, partitions: Iterable[int]) -> tuple[dict[int, range], dict[int, str]]:
        """The present offsets of partitions, and why others could not be listed. Raises CliError.

        A span is empty if the leader has answered an end before the start.
        """
        wanted = list(partitions)
        failed = {index: "it has no leader" for index in wanted if index not in self.shape.leaders}
        led = [index for index in wanted if index not in failed]
        starts, ends = self.offsets(led, EARLIEST), self.offsets(led, LATEST)
        spans = {
            index: range(starts[index], max(starts[index], ends[index]))
            for index in led
            if index in starts and index in ends
        }
        failed |= {index: "its leader has left it out" for index in led if index not in spans}
        return spans, failed

    def _list(self, partitions: Iterable[int], timestamp: int) -> dict[int, ListedOffset]:
        by_leader: dict[int, dict[str, list[int]]] = {}
        for index in partitions:
            leader = self.shape.leaders[index]
            by_leader.setdefault(leader, {}).setdefault(self.topic, []).append(index)
        found = self._client.list_offsets(by_leader, timestamp)
        return {index: listed for (_, index), listed in found.items()}

    def _decide(self, index: int, undecided: list[Seen]) -> None:
        try:
            producers = self.producers(index)
        except CliError:
            return  # The broker is older than KIP-664.
        began = {
            each.producer_id: each.current_txn_start_offset
            for each in producers
            if each.current_txn_start_offset >= 0
        }
        ended = []
        for each in undecided:
            start = began.get(each.batch.producer_id)
            if start is not None and start <= each.offset:
                each.transaction = RecordTransaction.OPEN
            else:
                ended.append(each)
        for producer_id, offset, state in self._markers(index, ended):
            for each in ended:
                is_its = each.batch.producer_id == producer_id and each.offset < offset
                if is_its and each.transaction is RecordTransaction.UNDECIDED:
                    each.transaction = state
        for each in ended:
            if each.transaction is RecordTransaction.UNDECIDED:
                each.transaction = RecordTransaction.ENDED

    def _markers(
        self, index: int, ended: list[Seen]
    ) -> Iterator[tuple[int, int, RecordTransaction]]:
        """Producer, offset and outcome of the markers that follow the first of some records."""
        if not ended:
            return
        at = min(each.offset for each in ended)
        last = max(each.offset for each in ended)
        missing = {each.batch.producer_id for each in ended}
        limit = self.fetched_bytes + _LOOK_AHEAD_BYTES
        for _ in range(_LOOK_AHEAD_FETCHES):
            chunks: dict[int, Chunk] = {}
            self._fetch({index: at}, FetchLimits(False, 0, 1 << 20, _RESPONSE_BYTES), chunks)
            chunk = chunks.get(index)
            if chunk is None or chunk.error or chunk.is_empty:
                return
            for header, batch, _ in chunk.batches(at):
                at = header.end_offset
                if header.is_control and (kind := marker_of(batch, header)) is not None:
                    yield header.producer_id, header.base_offset, kind
                    if header.base_offset > last:
                        missing.discard(header.producer_id)
            if not missing or self.fetched_bytes > limit:
                return

    def _fetch(
        self, positions: Mapping[int, int], terms: FetchLimits, into: dict[int, Chunk]
    ) -> None:
        by_leader: dict[int, Positions] = {}
        for index, at in positions.items():
            by_leader.setdefault(self.shape.leaders[index], {})[index] = at
        for leader, wanted in by_leader.items():
            request = fetch_request(self.topic, wanted, terms)
            response = self._client.node(leader).send(request, FetchResponse, most=NAMED)
            check(response.error_code, f"fetch from {self.topic}")
            for data in (each for topic in response.responses for each in topic.partitions):
                index = data.partition_index
                if index not in wanted:
                    raise CliError(f"the broker has answered for {self.topic}-{index} unasked")
                chunk = into[index] = _chunk_of(data, not terms.committed_only)
                self.fetched_bytes += len(chunk.records)

    def _find_shape(self) -> TopicShape:
        found = only(self._client.metadata([self.topic]).topics, f"topic {self.topic}")
        if found.error_code in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION):
            raise NoTopic(f"no topic {self.topic}")
        check(found.error_code, f"topic {self.topic}")
        shape = TopicShape()
        for each in found.partitions:
            if each.leader_id < 0:
                shape.leaderless.append(each.partition_index)
            else:
                shape.leaders[each.partition_index] = each.leader_id
        return shape


def records_of(chunk: Chunk, at: int, kept_bytes: int = LIST_BYTES) -> Iterator[Seen]:
    """The records of a chunk from an offset on, each shortened to `kept_bytes`.

    A batch that is broken, or inflates to too much, is one `Seen` with a problem.
    """
    for header, batch, state in chunk.batches(at):
        try:
            for record in bounded_records(batch, header):
                if record.offset >= at:
                    yield seen_of(chunk.partition, record, header, state, kept_bytes)
        except KafkaError as error:
            yield problem_of(chunk.partition, header, state, error)


def bounded_records(batch: bytes, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch. Raises KafkaError for a batch that is broken or too large."""
    return iterate_body(record_bytes(batch, header, limit_bytes=INFLATED_BYTES), header)


def seen_of(
    partition: int, record: Record, header: BatchHeader, state: RecordTransaction, kept_bytes: int
) -> Seen:
    """A record as it is displayed, with its first headers."""
    most_headers = _MOST_HEADERS if kept_bytes > LIST_BYTES else _LIST_HEADERS
    return Seen(
        partition,
        record.offset,
        record.timestamp,
        excerpt_of(record.key, kept_bytes),
        excerpt_of(record.value, kept_bytes),
        tuple(
            (name[:kept_bytes], excerpt_of(value, kept_bytes))
            for name, value in record.headers[:most_headers]
        ),
        len(record.headers),
        header,
        state,
        _control_name(record) if header.is_control else "",
    )


def problem_of(
    partition: int, header: BatchHeader, state: RecordTransaction, error: KafkaError
) -> Seen:
    """The placeholder of a batch that cannot be decoded, at its first offset."""
    found = Seen(
        partition, header.base_offset, header.max_timestamp, None, None, (), 0, header, state
    )
    last = header.end_offset - 1
    where = f"offsets {header.base_offset} to {last}" if header.count != 1 else f"offset {last}"
    found.problem = f"The batch of {where} cannot be shown: {error.message or error.error.name}"
    return found


def marker_of(batch: bytes, header: BatchHeader) -> RecordTransaction | None:
    """How a control batch ends a transaction; None if it does not."""
    for record in decode_records(batch, header):
        kind = control_type(record)
        if kind == ControlType.COMMIT:
            return RecordTransaction.COMMITTED
        if kind == ControlType.ABORT:
            return RecordTransaction.ABORTED
    return None


def _control_name(record: Record) -> str:
    kind = control_type(record)
    known = kind in ControlType._value2member_map_
    return ControlType(kind).name.lower().replace("_", " ") if known else f"control type {kind}"


def _chunk_of(data: PartitionData, is_undecided: bool) -> Chunk:
    chunk = Chunk(
        data.partition_index,
        data.log_start_offset,
        data.high_watermark,
        data.last_stable_offset,
        data,
        is_undecided,
        bytes(data.records or b""),
    )
    if data.error_code:
        chunk.error = error_name(data.error_code)
    return chunk
