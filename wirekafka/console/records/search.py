"""Searches a whole topic for a text, the value of a field in JSON, or conditions on fields."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from wirekafka.codec.batch import BatchHeader
from wirekafka.codec.record import Record, iterate_body, record_bytes
from wirekafka.console.records.conditions import FieldCondition
from wirekafka.console.topic_reads import (
    INFLATED_BYTES,
    LIST_BYTES,
    Chunk,
    Positions,
    RecordTransaction,
    Seen,
    TopicReads,
    problem_of,
    seen_of,
)
from wirekafka.console.value_decoder import ABSENT, ValueDecoder
from wirekafka.errors import KafkaError

MOST_MATCHES = 500
_AT_ONCE = 16
"""Partitions in one Fetch."""
_PARTITION_BYTES = 1 << 20
_LARGEST_JSON_BYTES = 4 << 20
_PAUSE_S = 0.001
_STEP_S = 0.7
"""How long records are examined before progress is reported, within a batch if need be."""
_MISSING = object()


class BadQuery(ValueError):
    """A query that cannot be used, with a message for the user."""


class Query(Protocol):
    """Decides which records are found."""

    def may_be_in(self, body: bytes) -> bool:
        """Whether any record of an uncompressed batch may match; False saves decoding it."""

    def matches(self, record: Record) -> bool:
        """Whether a record is found."""


def candidates(header: BatchHeader, batch: bytes, query: Query | None) -> Iterable[Record]:
    """The records of a batch, or none if the query rules out all of them. Raises KafkaError."""
    body = record_bytes(batch, header, limit_bytes=INFLATED_BYTES)
    return iterate_body(body, header) if query is None or query.may_be_in(body) else ()


class TextQuery:
    """A text anywhere in a key, a value, or the name or value of a header."""

    def __init__(self, text: str, ignores_case: bool = False):
        """Raises BadQuery. Only the case of ASCII letters can be ignored."""
        if not text:
            raise BadQuery("enter a text to search for")
        self._fold: Callable[[bytes], bytes] = bytes.lower if ignores_case else _unchanged
        self._needle = self._fold(text.encode(errors="surrogatepass"))

    def may_be_in(self, body: bytes) -> bool:
        """Whether the text is anywhere in the batch."""
        return self._needle in self._fold(body)

    def matches(self, record: Record) -> bool:
        """Whether the text is in one of the record's parts."""
        needle, fold = self._needle, self._fold
        return any(
            part is not None and needle in fold(part)
            for part in (record.key, record.value, *_header_parts(record))
        )


class FieldQuery:
    """A field of a JSON value, by its path as `user.addresses.0.city`, that equals something."""

    def __init__(self, path: str, value: str):
        """`value` is compared as JSON, and as a string. Raises BadQuery."""
        self._steps = [step for step in path.removeprefix("$").split(".") if step]
        if not self._steps:
            raise BadQuery("enter the path of a field, as user.name")
        self._last = self._steps[-1].encode()
        self._wanted: list[Any] = [value]
        with suppress(ValueError, RecursionError):
            self._wanted.append(json.loads(value))

    def may_be_in(self, body: bytes) -> bool:
        """Whether the last name of the path is in the batch, or may be as an escape."""
        return self._last.isdigit() or self._last in body or b"\\" in body

    def matches(self, record: Record) -> bool:
        """Whether the record's value is JSON with that field."""
        value = record.value
        if value is None or len(value) > _LARGEST_JSON_BYTES or not self.may_be_in(value):
            return False
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return False
        for step in self._steps:
            found = _inside(found, step)
        return any(_is_equal(found, wanted) for wanted in self._wanted)


class ConditionQuery:
    """Conditions on the fields of decoded keys and values, all of which must hold."""

    def __init__(self, conditions: Sequence[FieldCondition], decoder: ValueDecoder):
        self._sides = [
            (is_key, chosen)
            for is_key in (True, False)
            if (chosen := [each for each in conditions if each.is_key == is_key])
        ]
        self._decoder = decoder

    def may_be_in(self, body: bytes) -> bool:
        """Always: the bytes of a value differ from its text."""
        return True

    def matches(self, record: Record) -> bool:
        """Whether all conditions hold for a record."""
        for is_key, conditions in self._sides:
            found = self._decoder.plain(record, is_key=is_key)
            if found is ABSENT or not all(each.holds(found) for each in conditions):
                return False
        return True


class AllQueries:
    """Several queries, all of which must match; the cheapest first."""

    def __init__(self, queries: Sequence[Query]):
        self._queries = queries

    def may_be_in(self, body: bytes) -> bool:
        """Whether no query can be ruled out."""
        return all(each.may_be_in(body) for each in self._queries)

    def matches(self, record: Record) -> bool:
        """Whether all queries match."""
        return all(each.matches(record) for each in self._queries)


@dataclass(slots=True)
class SearchProgress:
    """The progress of a search, and its results since the previous progress."""

    done_offsets: int
    all_offsets: int
    read_records: int
    read_bytes: int
    matches: list[Seen] = field(default_factory=list)
    unreadable: int = 0
    """Batches that could not be decoded, so far."""
    failed: dict[int, str] = field(default_factory=dict)
    end: str = ""
    """In the last progress, why the search has ended: "complete", "cancelled" or "enough"."""

    @property
    def percent(self) -> float:
        """The share of the offsets that were read."""
        return 100.0 if not self.all_offsets else 100.0 * self.done_offsets / self.all_offsets


@dataclass(slots=True, frozen=True)
class SearchWish:
    """Where to search, and for how many matches."""

    partitions: tuple[int, ...]
    starts: Positions = field(default_factory=dict)
    most: int = MOST_MATCHES
    kept_bytes: int = LIST_BYTES


class Search:
    """One search from the present start of some partitions to their present end."""

    def __init__(self, reads: TopicReads, query: Query, wish: SearchWish):
        self._reads, self._query, self._wish = reads, query, wish
        self._is_cancelled = False
        self._began_bytes = reads.fetched_bytes
        self._found = 0
        self._done = 0
        self._records = 0
        self._unreadable = 0
        self._failed: dict[int, str] = {}
        self._until_s = math.inf
        self.positions: Positions = {}
        """Where another search would go on."""

    def cancel(self) -> None:
        """End the search after the current fetch; may be called from any thread."""
        self._is_cancelled = True

    def run(self) -> Iterator[SearchProgress]:
        """Search, and report after each fetch. Raises CliError."""
        spans, self._failed = self._reads.spans(self._wish.partitions)
        starts = {index: span.start for index, span in spans.items()}
        ends = {index: span.stop for index, span in spans.items()}
        for index, at in self._wish.starts.items():
            if index in starts:
                starts[index] = min(max(starts[index], at), ends[index])
        total = sum(ends[index] - at for index, at in starts.items())
        positions = {index: at for index, at in starts.items() if at < ends[index]}
        self.positions = dict(starts)
        end = "complete"
        while positions and end == "complete":
            some = dict(list(positions.items())[:_AT_ONCE])
            matches: list[Seen] = []
            for index, at in self._step(some, ends, matches).items():
                self._done += min(at, ends[index]) - positions.pop(index)
                self.positions[index] = min(at, ends[index])
                if at < ends[index]:
                    positions[index] = at  # At the end of the line: each gets its turn.
            self._found += len(matches)
            if self._found >= self._wish.most:
                end = "enough"
            elif self._is_cancelled:
                end = "cancelled"
            if positions and end == "complete":
                yield self._progress(total, matches)
                time.sleep(_PAUSE_S)  # A broker in this process serves its clients meanwhile.
            else:
                yield self._progress(total, matches, end)
                return
        yield self._progress(total, [], end)

    def _step(self, positions: Positions, ends: Positions, matches: list[Seen]) -> Positions:
        """Fetch once and add matches; returns the next offset of each partition."""
        behind: Positions = dict(positions)
        self._until_s = math.inf
        for chunk in self._reads.fetch(positions, _PARTITION_BYTES):
            index = chunk.partition
            if chunk.error:
                self._failed[index] = chunk.error
                behind[index] = ends[index]
                continue
            span = range(positions[index], ends[index])
            for header, batch, state in chunk.batches(span.start):
                behind[index] = self._in_batch(chunk, (header, batch, state), span, matches)
                if behind[index] < header.end_offset:
                    break
        if behind == positions and not matches:
            self._failed |= dict.fromkeys(positions, "nothing could be read before the end")
            behind = {index: ends[index] for index in positions}
        self._reads.decide(matches)
        return behind

    def _in_batch(
        self,
        chunk: Chunk,
        part: tuple[BatchHeader, bytes, RecordTransaction],
        span: range,
        matches: list[Seen],
    ) -> int:
        """Add a batch's matches within a span of offsets; returns the offset to go on from."""
        header, batch, state = part
        if header.is_control:
            return header.end_offset
        kept = self._wish.kept_bytes
        try:
            records = candidates(header, batch, self._query)
            if span.start <= header.base_offset:
                self._records += max(header.count, 0)
            for record in records:
                if record.offset not in span:
                    continue
                if self._has_enough(matches):
                    return record.offset
                if self._query.matches(record):
                    matches.append(seen_of(chunk.partition, record, header, state, kept))
        except KafkaError as error:
            self._unreadable += 1
            if self._unreadable == 1 and header.base_offset in span:
                matches.append(problem_of(chunk.partition, header, state, error))
        return header.end_offset

    def _has_enough(self, matches: list[Seen]) -> bool:
        """Whether a step ends before the next record; it examines one at least."""
        now_s = time.monotonic()
        if self._until_s == math.inf:
            # From the first record on: to inflate a batch once more takes time, too.
            self._until_s = now_s + _STEP_S
        return now_s > self._until_s or self._found + len(matches) >= self._wish.most

    def _progress(self, total: int, matches: list[Seen], end: str = "") -> SearchProgress:
        return SearchProgress(
            done_offsets=self._done,
            all_offsets=total,
            read_records=self._records,
            read_bytes=self._reads.fetched_bytes - self._began_bytes,
            matches=matches,
            unreadable=self._unreadable,
            failed=dict(self._failed),
            end=end,
        )


def _unchanged(data: bytes) -> bytes:
    return data


def _header_parts(record: Record) -> Iterable[bytes | None]:
    for name, value in record.headers:
        yield name.encode(errors="replace")
        yield value


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step, _MISSING)
    if isinstance(value, list) and step.isdigit() and len(step) < 10 and int(step) < len(value):
        return value[int(step)]
    return _MISSING


def _is_equal(found: Any, wanted: Any) -> bool:
    # In Python, True equals 1.
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)
