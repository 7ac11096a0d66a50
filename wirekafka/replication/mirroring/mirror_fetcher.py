"""Plans a mirror's fetches from one broker of the source, and appends what they return."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from wirekafka.codec.batch import (
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    SIZE,
    read_header,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.fetching.fetcher import FetchedPartition
from wirekafka.replication.fetching.fetcher_session import (
    FetcherSession,
    FollowedKey,
    PartitionFetch,
    Plan,
)
from wirekafka.replication.mirroring.topic_plan import Key
from wirekafka.replication.partition.follower import PartitionResponse
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import NO_EPOCH
from wirekafka.runtime.replicated_log import Buffer

logger = logging.getLogger(__name__)

_RETRY_MS = 500
_PIECE_BYTES = 1 << 20
"""How much is appended before other requests are served: one or two milliseconds of work."""
_MOVED = frozenset(
    {
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.LEADER_NOT_AVAILABLE,
        Error.REPLICA_NOT_AVAILABLE,
        Error.KAFKA_STORAGE_ERROR,
        Error.OFFSET_NOT_AVAILABLE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The leader may have changed: the source's metadata says where it is now."""


class CopyState(Enum):
    """Whether a partition is copied."""

    COPYING = "copying"
    WAITING = "waiting"
    """After an error; it is tried again."""
    STOPPED = "stopped"
    """Only an operator can decide how to go on."""


@dataclass(slots=True, eq=False)
class CopiedPartition:
    """A mirrored partition, and how far it is behind its source."""

    partition: Partition
    begins_at_ms: int | None = None
    """The timestamp from which an empty log is copied; None for the source's start."""
    state: CopyState = CopyState.COPYING
    reason: str | None = None
    """Why it is not copied."""
    retry_ms: int = 0
    source_start: int | None = None
    source_end: int | None = None
    """The source's high watermark; None before the first response."""
    is_at_end: bool = False
    """Whether the source had no further batch, as of the last response."""
    goal: int | None = None
    """The offset at which a copy that is made once is complete."""
    epoch: int = NO_EPOCH
    """The leader epoch of a batch that waits until the epoch here is above it."""
    skipped: int = 0
    """How many offsets the source had deleted before they were copied."""
    copied_bytes: int = 0

    @property
    def key(self) -> Key:
        """The topic's name and the partition's index."""
        return self.partition.topic, self.partition.index

    @property
    def lag(self) -> int | None:
        """From the end of the copy to the source's high watermark; None before it is known."""
        if self.source_end is None:
            return None
        return 0 if self.is_at_end else max(self.source_end - self.partition.log.end_offset, 0)

    @property
    def is_complete(self) -> bool:
        """Whether the goal is reached."""
        goal = self.goal
        return goal is not None and (
            self.partition.log.end_offset >= goal
            or (self.is_at_end and self.source_end is not None and self.source_end >= goal)
        )

    def note(self, state: CopyState, reason: str | None) -> None:
        """Take over a state, and log it if it has changed."""
        if (state, reason) == (self.state, self.reason):
            return
        name = self.partition.log.name
        if state is CopyState.STOPPED:
            logger.error("%s is not mirrored any more: %s", name, reason)
        elif state is CopyState.WAITING:
            logger.warning("%s cannot be mirrored: %s", name, reason)
        else:
            logger.info("%s is mirrored again", name)
        self.state, self.reason = state, reason


class MirrorFetcher:
    """Plans the requests for the partitions that one broker of the source leads.

    The order of calls is `plan`, then `accept` and `take` for the response, or `refuse` or
    `interrupt`; then `plan` again. `follow` and `forget` may be called at any time.
    """

    def __init__(self) -> None:
        self._session = FetcherSession()
        self._copied: dict[FollowedKey, CopiedPartition] = {}
        self._changed: dict[FollowedKey, None] = {}
        """Partitions whose position may differ from the position in the last request."""
        self._out_of_range: dict[FollowedKey, None] = {}
        self.on_ready: Callable[[], None] = _ignore
        """Called when a partition can be fetched that could not be fetched before."""
        self.on_moved: Callable[[], None] = _ignore
        """Called when the source's metadata may have changed."""

    def __len__(self) -> int:
        return len(self._copied)

    def copied(self) -> list[CopiedPartition]:
        """The partitions."""
        return list(self._copied.values())

    # The partitions.

    def follow(self, copied: CopiedPartition) -> None:
        """Begin to fetch a partition; no effect if it is fetched already."""
        key = wire_key(copied.key)
        if self._copied.get(key) is not copied:
            self._copied[key] = copied
            self._changed[key] = None
            self._out_of_range.pop(key, None)
            self.on_ready()

    def forget(self, copied: CopiedPartition) -> None:
        """Stop fetching a partition; ignored if it is not fetched."""
        key = wire_key(copied.key)
        if self._copied.get(key) is copied:
            del self._copied[key]
            self._changed[key] = None
            self._out_of_range.pop(key, None)

    def unbegun(self) -> list[CopiedPartition]:
        """The empty partitions that are to be copied from some time on."""
        return [each for each in self._copied.values() if _is_unbegun(each)]

    def begin(self, copied: CopiedPartition, offset: int, now_ms: int) -> None:
        """Begin an empty log at an offset of the source. Raises KafkaError."""
        mirror = copied.partition.mirror
        if mirror is None or not _is_unbegun(copied):
            return
        copied.begins_at_ms = None
        if offset > copied.partition.log.end_offset:
            mirror.return_to_range(offset, offset, now_ms)
        self._changed[wire_key(copied.key)] = None

    # Requests.

    def plan(self, now_ms: int) -> Plan | None:
        """Return the next Fetch request; None while no partition can be fetched."""
        candidates, self._changed = self._changed, {}
        is_full = self._session.is_full
        if is_full:
            candidates = dict.fromkeys(self._copied) | candidates
        wanted: dict[FollowedKey, PartitionFetch] = {}
        unwanted = []
        for key in candidates:
            copied = self._copied.get(key)
            if copied is not None and self._is_fetchable(key, copied, now_ms):
                log = copied.partition.log
                wanted[key] = PartitionFetch(NO_EPOCH, log.end_offset, log.epochs.latest, NO_EPOCH)
                continue
            unwanted.append(key)
            if copied is not None:
                self._changed[key] = None
        if is_full:
            return self._session.full(wanted)
        return self._session.incremental(wanted, unwanted)

    def next_retry_ms(self) -> int | None:
        """The earliest time, in ms, at which a partition can be fetched again; None: never."""
        due_ms = [
            copied.retry_ms for copied in self._copied.values() if copied.state is CopyState.WAITING
        ]
        return min(due_ms, default=None)

    # Responses.

    def accept(self, session_id: int) -> None:
        """Begin to process a response without a top-level error."""
        self._session.accept(session_id)

    def refuse(self, error: int) -> None:
        """Process a response that has only a top-level error."""
        self._session.refuse(error)

    def interrupt(self) -> None:
        """Note that a request has failed, or got no response."""
        self._session.interrupt()

    def take(
        self, key: FollowedKey, fetched: FetchedPartition, now_ms: int
    ) -> Iterator[CopiedPartition]:
        """Append a response's records of one partition, in steps.

        Errors are noted in the partition, which is fetched again later, or stops for good.
        """
        copied, position = self._copied.get(key), self._session.requested.get(key)
        if copied is None or position is None:
            return
        log = copied.partition.log
        if position.fetch_offset != log.end_offset or copied.state is CopyState.STOPPED:
            self._changed[key] = None
            return
        if fetched.error:
            self._failed(key, copied, KafkaError.of(fetched.error), now_ms)
        elif fetched.diverging is not None:
            epoch, end_offset = fetched.diverging
            self._stop(key, copied, f"its leader epoch {epoch} ends at offset {end_offset}")
        else:
            yield from self._append(key, copied, fetched, now_ms)

    def settle(self, *, has_records: bool) -> None:
        """Note the end of a response: without any records, the source had no further batch.

        The end of the last batch may be below the high watermark, where compaction has removed
        what was last.
        """
        if has_records:
            return
        for key, position in self._session.requested.items():
            copied = self._copied.get(key)
            if copied is not None and key not in self._out_of_range:
                copied.is_at_end = (
                    copied.state is CopyState.COPYING
                    and copied.source_end is not None
                    and position.fetch_offset == copied.partition.log.end_offset
                )

    def out_of_range(self) -> list[CopiedPartition]:
        """The partitions whose offset is out of the source's range; each is returned once.

        They are fetched again after `found_range` or `fail`.
        """
        keys, self._out_of_range = self._out_of_range, {}
        return [self._copied[key] for key in keys if key in self._copied]

    def found_range(
        self, copied: CopiedPartition, start_offset: int, end_offset: int, now_ms: int
    ) -> None:
        """Go on after OFFSET_OUT_OF_RANGE, given the start and end offset of the source's log."""
        key, partition = wire_key(copied.key), copied.partition
        mirror, log = partition.mirror, partition.log
        if mirror is None or self._copied.get(key) is not copied:
            return
        is_empty = log.start_offset == log.end_offset
        if end_offset < log.end_offset and not is_empty:
            self._stop(key, copied, f"it ends at offset {end_offset}")
            return
        if start_offset <= log.end_offset <= end_offset:
            self._failed(key, copied, KafkaError(Error.OFFSET_OUT_OF_RANGE, "in range"), now_ms)
            return
        try:
            self._skip(copied, start_offset)
            copied.is_at_end = False
            mirror.return_to_range(start_offset, end_offset, now_ms)
        except KafkaError as error:
            self._failed(key, copied, error, now_ms)
        self._changed[key] = None

    def fail(self, copied: CopiedPartition, error: KafkaError, now_ms: int) -> None:
        """Note an error of a partition, which is fetched again after a delay."""
        key = wire_key(copied.key)
        if self._copied.get(key) is copied:
            self._failed(key, copied, error, now_ms)

    def _is_fetchable(self, key: FollowedKey, copied: CopiedPartition, now_ms: int) -> bool:
        partition = copied.partition
        return (
            partition.mirror is not None
            and copied.state is not CopyState.STOPPED
            and now_ms >= copied.retry_ms
            and copied.epoch < partition.leader_epoch
            and key not in self._out_of_range
            and not _is_unbegun(copied)
        )

    def _append(
        self, key: FollowedKey, copied: CopiedPartition, fetched: FetchedPartition, now_ms: int
    ) -> Iterator[CopiedPartition]:
        partition, records = copied.partition, fetched.records
        log, size_bytes = partition.log, len(records)
        copied.source_start, copied.source_end = fetched.start_offset, fetched.high_watermark
        if size_bytes or fetched.start_offset > log.start_offset:
            self._changed[key] = None
        try:
            for piece in _pieces(memoryview(records)):
                mirror, end_offset = partition.mirror, log.end_offset
                if mirror is None:
                    return  # It has been promoted meanwhile.
                mirror.append_mirrored(
                    PartitionResponse(
                        records=piece,
                        high_watermark=fetched.high_watermark,
                        start_offset=fetched.start_offset,
                    ),
                    now_ms,
                )
                if size_bytes:
                    copied.is_at_end = False
                if len(piece) >= HEADER_BYTES and log.end_offset == end_offset:
                    self._look_at_refused(key, copied, piece)
                    return
                copied.copied_bytes += len(piece)
                yield copied
        except KafkaError as error:
            self._failed(key, copied, error, now_ms)
            return
        copied.note(CopyState.COPYING, None)

    def _look_at_refused(self, key: FollowedKey, copied: CopiedPartition, piece: Buffer) -> None:
        """Note why the first batch was left out."""
        if piece[MAGIC_AT] != MAGIC:
            reason = (
                f"message format {piece[MAGIC_AT]} is not supported; the source keeps the topic"
            )
            self._set_stopped(key, copied, f"{reason} with an old message.format.version")
            return
        epoch = read_header(piece).leader_epoch
        if epoch >= copied.partition.leader_epoch:
            copied.epoch = epoch
            self.on_moved()

    def _failed(
        self, key: FollowedKey, copied: CopiedPartition, error: KafkaError, now_ms: int
    ) -> None:
        self._changed[key] = None
        if error.error == Error.OFFSET_OUT_OF_RANGE and error.message is None:
            self._out_of_range[key] = None
            return
        copied.retry_ms = now_ms + _RETRY_MS
        copied.note(CopyState.WAITING, str(error))
        if error.error in _MOVED:
            self.on_moved()

    def _skip(self, copied: CopiedPartition, start_offset: int) -> None:
        """Note offsets that the source has deleted too early."""
        log = copied.partition.log
        if log.end_offset == 0 and log.start_offset == 0:
            return  # Nothing was copied yet: the copy begins where the source does.
        count = start_offset - log.end_offset
        copied.skipped += max(count, 0)
        logger.warning(
            "%s goes on at offset %d: the source has deleted %d offsets before they were copied",
            log.name,
            start_offset,
            count,
        )

    def _stop(self, key: FollowedKey, copied: CopiedPartition, where: str) -> None:
        """Stop copying a partition of which the source has lost records that were copied."""
        reason = (
            f"the source has lost records: {where}, and the copy at"
            f" {copied.partition.log.end_offset}; promote the topic to keep the copy, or delete it"
            " here to copy it again"
        )
        self._set_stopped(key, copied, reason)

    def _set_stopped(self, key: FollowedKey, copied: CopiedPartition, reason: str) -> None:
        self._changed[key] = None
        copied.note(CopyState.STOPPED, reason)


def wire_key(key: Key) -> FollowedKey:
    """A partition's key in the session: the source may have no topic ids."""
    return key[0].encode(), key[1]


def _is_unbegun(copied: CopiedPartition) -> bool:
    return copied.begins_at_ms is not None and copied.partition.log.end_offset == 0


def _pieces(records: memoryview) -> Iterator[memoryview]:
    """Whole batches in pieces of about `_PIECE_BYTES`; an incomplete batch ends the last piece."""
    at, begin, end = 0, 0, len(records)
    while end - at >= HEADER_BYTES:
        (length,) = SIZE.unpack_from(records, LENGTH_AT + at)
        stop = at + length + LOG_OVERHEAD_BYTES
        if length <= 0 or stop > end:
            break
        if stop - begin > _PIECE_BYTES and at > begin:
            yield records[begin:at]
            begin = at
        at = stop
    yield records[begin:]


def _ignore() -> None:
    """The default of `on_ready` and `on_moved`."""
