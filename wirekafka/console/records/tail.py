"""Follows the end of a topic: the records that are new since the last look, within limits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from wirekafka.codec.batch import BatchHeader
from wirekafka.console.records.search import Query, candidates
from wirekafka.console.topic_reads import (
    LATEST,
    LIST_BYTES,
    Chunk,
    Positions,
    RecordTransaction,
    Seen,
    TopicReads,
    problem_of,
    seen_of,
)
from wirekafka.errors import KafkaError

MOST_ROWS = 25
"""The records that one step returns at most: the newest."""
MOST_BEHIND = 5_000
"""Offsets in one partition; a tail that is further behind goes on at the end."""
MOST_FETCHED = 50
"""The partitions that one step reads."""
_STEP_BYTES = 1 << 20
_LEAST_BYTES = 16 << 10
_STEP_S = 0.05
"""How long records are examined in one step."""
_SHAPE_S = 10.0
_RATE_S = 5.0


@dataclass(slots=True)
class TailStep:
    """The new records of one step, and how many there were in all."""

    records: list[Seen] = field(default_factory=list)
    matching: int = 0
    """Records that pass the filter; more than `records` if there were too many to show."""
    skipped: int = 0
    """Offsets that were not read, because records come faster than they are examined."""
    failed: dict[int, str] = field(default_factory=dict)


class Tail:
    """The end of some partitions of a topic, from their present end or from given positions on."""

    def __init__(
        self,
        reads: TopicReads,
        chosen: tuple[int, ...],
        query: Query | None = None,
        positions: Positions | None = None,
        *,
        kept_bytes: int = LIST_BYTES,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without partitions in `chosen`, all of them are followed. Raises CliError."""
        self._reads, self._query = reads, query
        self._chosen, self._kept_bytes, self._now_s = chosen, kept_bytes, now_s
        self._shape_s = now_s()
        led = self._led()
        self.positions: Positions = reads.offsets(led, LATEST)
        """The next offset of each partition."""
        for index, at in (positions or {}).items():
            if index in self.positions:
                self.positions[index] = min(at, self.positions[index])
        self._ends = dict(self.positions)
        self._last_read = -1
        self._written: deque[tuple[float, int]] = deque([(self._shape_s, 0)])

    def step(self) -> TailStep:
        """Read once from each partition, but at most from MOST_FETCHED. Raises CliError."""
        now_s = self._now_s()
        if now_s - self._shape_s > _SHAPE_S:
            self._look_again()
        step = TailStep()
        newest: deque[Seen] = deque(maxlen=MOST_ROWS)
        before = sum(self._ends.values())
        wanted = self._wanted()
        if wanted:
            share = max(_STEP_BYTES // len(wanted), _LEAST_BYTES)
            until_s = self._now_s() + _STEP_S
            for chunk in self._reads.fetch(wanted, share):
                self._take(chunk, until_s, newest, step)
        self._note(now_s, sum(self._ends.values()) - before)
        step.records = sorted(newest, key=lambda each: each.timestamp)
        self._reads.decide(step.records)
        return step

    def records_per_s(self) -> float | None:
        """The offsets that were written per second, in the last seconds; None at the start."""
        first_s, last_s = self._written[0][0], self._written[-1][0]
        if last_s - first_s < 1:
            return None
        return sum(count for at_s, count in self._written if at_s > first_s) / (last_s - first_s)

    def _led(self) -> list[int]:
        return sorted(
            index
            for index in self._reads.shape.leaders
            if not self._chosen or index in self._chosen
        )

    def _look_again(self) -> None:
        """Find partitions that have been added or have another leader."""
        self._shape_s = self._now_s()
        self._reads.look_again()
        led = self._led()
        for index in self.positions.keys() - set(led):
            del self.positions[index], self._ends[index]
        for index in led:
            if index not in self.positions:
                self.positions[index] = self._ends[index] = 0

    def _wanted(self) -> Positions:
        """The positions to fetch from: of many partitions, only some with new records."""
        if len(self.positions) <= MOST_FETCHED:
            return self.positions
        # To list the ends costs less than to fetch from partitions without new records.
        self._ends |= self._reads.offsets(self.positions, LATEST)
        behind = [index for index, at in self.positions.items() if at < self._ends[index]]
        # Each gets its turn: the first are those behind the partition that was read last.
        start = next((n for n, index in enumerate(behind) if index > self._last_read), 0)
        turn = (behind[start:] + behind[:start])[:MOST_FETCHED]
        self._last_read = turn[-1] if turn else -1
        return {index: self.positions[index] for index in turn}

    def _note(self, now_s: float, count: int) -> None:
        self._written.append((now_s, count))
        while now_s - self._written[0][0] > _RATE_S and len(self._written) > 2:
            self._written.popleft()

    def _take(self, chunk: Chunk, until_s: float, newest: deque[Seen], step: TailStep) -> None:
        index = chunk.partition
        if chunk.error:
            step.failed[index] = chunk.error
            self._shape_s = float("-inf")
            if chunk.error == "OFFSET_OUT_OF_RANGE":  # Records were deleted, or the log truncated.
                self.positions |= self._reads.offsets([index], LATEST)
            return
        end = max(chunk.high_watermark, self._ends[index])
        self._ends[index] = end
        for part in chunk.batches(self.positions[index]):
            self.positions[index] = self._in_batch(index, part, until_s, newest, step)
            if self.positions[index] < part[0].end_offset:
                break
        if end - self.positions[index] > MOST_BEHIND:
            step.skipped += end - self.positions[index]
            self.positions[index] = end

    def _in_batch(
        self,
        index: int,
        part: tuple[BatchHeader, bytes, RecordTransaction],
        until_s: float,
        newest: deque[Seen],
        step: TailStep,
    ) -> int:
        """Add the matching records of a batch; returns the offset to go on from."""
        header, batch, state = part
        at = self.positions[index]
        if header.is_control:
            return header.end_offset
        try:
            for record in candidates(header, batch, self._query):
                if record.offset < at:
                    continue
                if record.offset > at and self._now_s() > until_s:
                    return record.offset
                if self._query is None or self._query.matches(record):
                    step.matching += 1
                    newest.append(seen_of(index, record, header, state, self._kept_bytes))
        except KafkaError as error:
            newest.append(problem_of(index, header, state, error))
        return header.end_offset
