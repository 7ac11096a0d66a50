"""Logs as Arrow record batches: what is committed, by offsets or by time, from any source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, get_args

import numpy as np

from wirekafka.errors import KafkaError
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.checkpoints import uuid_from
from wirekafka.log.files import RealDisk
from wirekafka.reader.bounds import Bound, timestamp_ms
from wirekafka.reader.directory_source import DirectorySource
from wirekafka.reader.joined_source import JoinedSource, metadata_records
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError, UnknownLog
from wirekafka.reader.source import Isolation, LogSource, OffsetRange, Split, overlapping
from wirekafka.reader.tier_source import TierSource
from wirekafka.tables.rows import Rows, schema
from wirekafka.tables.scan import Batches, DamagedBatch, Flags
from wirekafka.tiered.store import ObjectStore, Store

if TYPE_CHECKING:
    import pyarrow as pa

OnError = Literal["raise", "skip"]
End = Literal["safe", "log"]

DEFAULT_ROWS = 1 << 16
_SPLIT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChoice:
    """What is read of the records of a range, and what happens where they are damaged or lost.

    Raises ValueError for values that mean nothing: with a misspelled isolation level, aborted
    records would be read.
    """

    columns: Sequence[str] | None = None
    headers: bool = False
    isolation: Isolation = "read_committed"
    on_error: OnError = "raise"
    max_rows: int = DEFAULT_ROWS

    def __post_init__(self) -> None:
        schema(self.columns, headers=self.headers)
        for name, known in (("isolation", get_args(Isolation)), ("on_error", get_args(OnError))):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name}={value!r}: {' or '.join(known)}")
        if self.max_rows < 1:
            raise ValueError(f"max_rows={self.max_rows}: at least 1")


class LogReader:
    """The topics of one source, as Arrow record batches. A context manager. Raises ReaderError."""

    def __init__(self, source: LogSource):
        self._source = source

    @classmethod
    def open(
        cls,
        source: str | Path | Sequence[str | Path],
        *,
        tier: str | None = None,
        end: End = "safe",
        key_prefix: str = "",
        topic_ids: Mapping[str, str] | None = None,
    ) -> Self:
        """Open log directories, or the object store of a tier by its URL.

        `source` is one directory or the several directories of a broker (`log.dirs`), or a URL:
        `file://`, `s3://`, `gs://` or `az://`. `tier` is the URL of the store that has the older
        segments of the directories' topics, with Aiven's `key_prefix`. Where topics were created
        again under their names, `topic_ids` chooses. `end="log"` also reads what no high watermark
        covers: for directories whose broker does not run, and has no other replicas.
        Raises UnknownLog where there is no such place, and ReaderError.
        """
        paths = [source] if isinstance(source, str | Path) else list(source)
        names = [str(path) for path in paths]
        if len(names) == 1 and "://" in names[0]:
            if tier is not None:
                raise UnknownLog(f"{names[0]} is a tier itself: name the directory and the tier")
            ids = {topic: _id(text) for topic, text in (topic_ids or {}).items()}
            store = _store(names[0])
            return cls(TierSource(store, key_prefix=key_prefix, topic_ids=ids))
        local = DirectorySource(RealDisk(), names, reads_uncommitted_tail=end == "log")
        if tier is None:
            return cls(local)
        records = partial(metadata_records, local)
        found = TierSource(_store(tier), key_prefix=key_prefix, records=records)
        return cls(JoinedSource(local, found))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release files and connections."""
        self._source.close()

    def topics(self) -> list[str]:
        """The names of all topics, in order, internal ones included."""
        return self._source.topics()

    def partitions(self, topic: str) -> list[int]:
        """The partitions that are there, in order. Raises UnknownLog."""
        return self._source.partitions(topic)

    def offsets(
        self, topic: str, partition: int, *, isolation: Isolation = "read_committed"
    ) -> OffsetRange:
        """Where the log begins, and its safe end. Raises UnknownLog, DamagedLog, DataLost."""
        return self._source.offsets(topic, partition, isolation)

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The offset of the first record with this timestamp or a later one; None: there is none.

        As in Kafka, it may be the offset of a record that `read_committed` leaves out.
        """
        return self._source.offset_for_time(topic, partition, timestamp_ms)

    def splits(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int,
        *,
        target_bytes: int = _SPLIT_BYTES,
        isolation: Isolation = "read_committed",
    ) -> list[Split]:
        """Parts of a range of offsets, of about `target_bytes` each as they are stored.

        Tasks read them one by one with `read`. Raises UnknownLog, DamagedLog, DataLost.
        """
        offsets = OffsetRange(start_offset, end_offset)
        if start_offset >= end_offset:
            return []
        aborted = None
        if isolation == "read_committed":
            aborted = self._source.aborted(topic, partition, offsets)
        points = self._source.split_points(topic, partition, offsets, target_bytes)
        ends = [*(point.offset for point in points[1:]), end_offset]
        return [
            Split(
                topic,
                partition,
                point.offset,
                end,
                point.size_bytes,
                None
                if aborted is None
                else tuple(overlapping(aborted, OffsetRange(point.offset, end))),
            )
            for point, end in zip(points, ends, strict=True)
        ]

    def batches(
        self,
        topic: str,
        partitions: Iterable[int] | None = None,
        *,
        start: Bound = None,
        end: Bound = None,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_committed",
        on_error: OnError = "raise",
        max_rows: int = DEFAULT_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The records of a topic, partition by partition, each in order of its offsets.

        `start` and `end` are offsets by partition, `{0: 5}`, or a time for all of them, a
        `datetime` or `Timestamp`; `end` is not included, and never beyond the safe end, which is
        looked up when this is called. With `on_error="skip"`, damaged batches and lost records
        are left out; otherwise DamagedLog or DataLost is raised in their place. A record batch
        has at most `max_rows` rows. Raises ValueError at once for arguments that mean nothing.
        """
        choice = RowChoice(
            columns=columns,
            headers=headers,
            isolation=isolation,
            on_error=on_error,
            max_rows=max_rows,
        )
        chosen = self.partitions(topic) if partitions is None else list(partitions)
        ranges = [
            (partition, self._range(topic, partition, start, end, isolation))
            for partition in chosen
        ]
        return self._all(topic, ranges, choice)

    def read(
        self,
        split: Split,
        *,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_committed",
        on_error: OnError = "raise",
        max_rows: int = DEFAULT_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The records of a part of a partition; the other arguments are as in `batches`."""
        choice = RowChoice(
            columns=columns,
            headers=headers,
            isolation=isolation,
            on_error=on_error,
            max_rows=max_rows,
        )
        return self._read(split, choice)

    def _all(
        self, topic: str, ranges: Iterable[tuple[int, OffsetRange]], choice: RowChoice
    ) -> Iterator[pa.RecordBatch]:
        for partition, offsets in ranges:
            yield from self._read(Split(topic, partition, *offsets), choice)

    def _range(
        self, topic: str, partition: int, start: Bound, end: Bound, isolation: Isolation
    ) -> OffsetRange:
        offsets = self.offsets(topic, partition, isolation=isolation)
        first = self._resolved(topic, partition, start, offsets.start_offset, offsets.end_offset)
        last = self._resolved(topic, partition, end, offsets.end_offset, offsets.end_offset)
        return OffsetRange(first, min(last, offsets.end_offset))

    def _resolved(self, topic: str, partition: int, bound: Bound, unlimited: int, late: int) -> int:
        """The offset of a bound; `late` where all records are older than the time."""
        match bound:
            case None:
                return unlimited
            case int() | str():
                raise ReaderError(
                    f"{bound!r} is neither offsets by partition, such as {{0: 5}}, nor a time"
                )
            case dict():
                return int(bound.get(partition, unlimited))
            case _:
                moment = timestamp_ms(bound)  # type: ignore[arg-type]
                found = self.offset_for_time(topic, partition, moment)
                return late if found is None else found

    def _read(self, split: Split, choice: RowChoice) -> Iterator[pa.RecordBatch]:
        aborted: Sequence[AbortedTransaction] = ()
        offsets = OffsetRange(split.start_offset, split.end_offset)
        if offsets.start_offset >= offsets.end_offset:
            return
        if choice.isolation == "read_committed":
            if split.aborted is not None:
                aborted = split.aborted
            else:
                aborted = self._source.aborted(split.topic, split.partition, offsets)
        rows = Rows(
            split.topic,
            split.partition,
            columns=choice.columns,
            headers=choice.headers,
            limit_rows=choice.max_rows,
        )
        for found in self._source.read(split.topic, split.partition, offsets):
            if found.problem is not None:
                if choice.on_error == "raise" or not isinstance(
                    found.problem, DamagedLog | DataLost
                ):
                    yield from _sliced(rows, choice.max_rows)
                    raise found.problem
                continue
            batches = found.batches.where(_visible(found.batches, aborted))
            first = 0
            while first < len(batches):
                try:
                    first = rows.add(batches, *offsets, first=first)
                except DamagedBatch as damage:
                    if choice.on_error == "raise":
                        yield from _sliced(rows, choice.max_rows)
                        raise DamagedLog(
                            found.file, found.position + damage.position, damage.reason
                        ) from damage
                    first = _after(batches, damage.position)
                if rows.is_full:
                    yield from _sliced(rows, choice.max_rows)
        yield from _sliced(rows, choice.max_rows)


def _store(url: str) -> Store:
    try:
        return ObjectStore.of_existing(url)
    except KafkaError as error:
        raise UnknownLog(error.message or str(error)) from error


def _id(text: str) -> bytes:
    try:
        return uuid_from(text)
    except ValueError as error:
        raise ReaderError(str(error)) from None


def _sliced(rows: Rows, max_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows so far, in record batches of the size that was asked for."""
    if not rows.count:
        return
    taken = rows.take()
    for first in range(0, taken.num_rows, max_rows):
        yield taken.slice(first, max_rows)


def _visible(batches: Batches, aborted: Sequence[AbortedTransaction]) -> Flags:
    """Which batches belong to no aborted transaction."""
    hidden = np.zeros(len(batches), np.bool_)
    if not aborted:
        return ~hidden
    base_offsets, producer_ids = batches["base_offset"], batches["producer_id"]
    first, last = int(base_offsets[0]), int(base_offsets[-1])
    for each in aborted:
        if each.first_offset <= last and each.last_offset >= first:
            hidden |= (
                (producer_ids == each.producer_id)
                & (base_offsets >= each.first_offset)
                & (base_offsets <= each.last_offset)
            )
    return ~(hidden & batches.transactional)


def _after(batches: Batches, position: int) -> int:
    """The index of the batch after the batch that begins at a position of the buffer."""
    return int(np.searchsorted(batches["position"], position, side="right"))
