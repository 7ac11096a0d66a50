"""The committed offsets of the groups of a shard, offsets in open transactions included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from wirekafka.coordinator.groups.commands import CommittedOffset, FetchedOffset, OffsetToCommit
from wirekafka.coordinator.groups.group import Group, Turn
from wirekafka.coordinator.groups.offset_record import OffsetRecord
from wirekafka.coordinator.java_order import (
    FIRST_SLOTS,
    timeline_hash_ordered,
    timeline_ordered,
    timeline_slots,
)
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.errors import Error
from wirekafka.runtime.machine import Producer

K = TypeVar("K")
V = TypeVar("V")

NO_EXPIRY = -1


class _Table(dict[K, V]):
    """A dict with the number of slots that Kafka's `TimelineHashMap` has after the same calls.

    It grows before any insertion or replacement, and never shrinks.
    """

    __slots__ = ("slots",)

    def __init__(self) -> None:
        super().__init__()
        self.slots = FIRST_SLOTS

    def put(self, key: K, value: V) -> None:
        """Insert a value, or replace it."""
        self.slots = timeline_slots(self.slots, len(self))
        self[key] = value


_GroupOffsets: TypeAlias = _Table[str, _Table[int, CommittedOffset]]
"""One group's offsets by topic and partition."""
_NO_OFFSETS: _GroupOffsets = _Table()
_NO_PARTITIONS: _Table[int, CommittedOffset] = _Table()


class _Pending(NamedTuple):
    """An offset in an open transaction and its write order; None if a later write replaced it."""

    offset: CommittedOffset | None
    written: int


class Offsets:
    """Committed offsets by group: hard state, which only replayed records change."""

    def __init__(self) -> None:
        self._committed: dict[str, _GroupOffsets] = {}
        self._pending: dict[int, dict[str, dict[TopicPartition, _Pending]]] = {}
        self._written = 0
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}

    # Replay

    def replay(self, record: OffsetRecord) -> None:
        """Apply a commit, or a tombstone, which deletes the offset."""
        group_id, topic, partition, committed = record
        if committed is None:
            self._forget(group_id, topic, partition)
            return
        if group_id in self._open:
            self._supersede(group_id, (topic, partition), self._written)
        self._put(group_id, topic, partition, committed)

    def replay_pending(self, record: OffsetRecord, producer: Producer) -> None:
        """Apply a commit inside a transaction that is still open."""
        group_id, topic, partition, committed = record
        place = (topic, partition)
        self._written += 1
        self._pending.setdefault(producer.id, {}).setdefault(group_id, {})[place] = _Pending(
            committed, self._written
        )
        self._open.setdefault(group_id, {}).setdefault(place, set()).add(producer.id)

    def replay_end_marker(self, producer: Producer, committed: bool) -> None:
        """End the producer's transaction: its offsets become committed, or are dropped."""
        for group_id, offsets in self._pending.pop(producer.id, {}).items():
            for place, pending in offsets.items():
                self._close(group_id, place, producer.id)
                if committed and pending.offset is not None:
                    self._supersede(group_id, place, pending.written)
                    topic, partition = place
                    self._put(group_id, topic, partition, pending.offset)

    # Queries

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """One committed offset."""
        return self._committed.get(group_id, _NO_OFFSETS).get(topic, _NO_PARTITIONS).get(partition)

    def committed(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All committed offsets of a group: (topic, partition, offset)."""
        for topic, partitions in self._committed.get(group_id, _NO_OFFSETS).items():
            for partition, offset in partitions.items():
                yield topic, partition, offset

    def has_open(self, group_id: str) -> bool:
        """Whether an open transaction has offsets of the group."""
        return group_id in self._open

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change the offset (KIP-447)."""
        return (topic, partition) in self._open.get(group_id, ())

    def fetch(
        self, group_id: str, partitions: Iterable[TopicPartition], require_stable: bool
    ) -> list[FetchedOffset]:
        """Fetch offsets; -1 where there is none.

        With `require_stable`, UNSTABLE_OFFSET_COMMIT where an open transaction may change one.
        """
        topics = self._committed.get(group_id, _NO_OFFSETS)
        unstable = self._open.get(group_id, {}) if require_stable else {}
        fetched = []
        for place in partitions:
            topic, partition = place
            committed = topics[topic].get(partition) if topic in topics else None
            if place in unstable:
                fetched.append(FetchedOffset(topic, partition, error=Error.UNSTABLE_OFFSET_COMMIT))
            elif committed is None:
                fetched.append(FetchedOffset(topic, partition))
            else:
                fetched.append(
                    FetchedOffset(
                        topic,
                        partition,
                        committed.offset,
                        committed.leader_epoch,
                        committed.metadata,
                        committed.topic_id,
                    )
                )
        return fetched

    def fetch_all(self, group_id: str, require_stable: bool) -> list[FetchedOffset]:
        """Every offset of the group."""
        return self.fetch(group_id, self.places(group_id), require_stable)

    def places(self, group_id: str) -> list[TopicPartition]:
        """The partitions with offsets of the group, in the order in which Kafka lists them."""
        topics = self._committed.get(group_id, _NO_OFFSETS)
        return [
            (topic, partition)
            for topic in timeline_ordered(topics, topics.slots)
            for partition in timeline_hash_ordered(topics[topic], int, topics[topic].slots)
        ]

    # Records to be written

    def tombstones(self, group_id: str) -> Iterator[OffsetRecord]:
        """Tombstones for all offsets of a group, offsets in open transactions included."""
        places = dict.fromkeys(self.places(group_id))
        places.update(dict.fromkeys(self._open.get(group_id, ())))
        for topic, partition in places:
            yield OffsetRecord(group_id, topic, partition, None)

    def tombstones_of(
        self, group_id: str, partitions: Mapping[str, frozenset[int]]
    ) -> Iterator[OffsetRecord]:
        """Tombstones for the offsets of a group in these partitions, given by topic."""
        topics = self._committed.get(group_id, _NO_OFFSETS)
        places = dict.fromkeys(
            (topic, partition)
            for topic in sorted(topics.keys() & partitions.keys())
            for partition in topics[topic]
            if partition in partitions[topic]
        )
        places.update(
            dict.fromkeys(
                place
                for place in self._open.get(group_id, ())
                if place[1] in partitions.get(place[0], ())
            )
        )
        for topic, partition in places:
            yield OffsetRecord(group_id, topic, partition, None)

    def has_any_of(
        self, group_ids: Iterable[str], partitions: Mapping[str, frozenset[int]]
    ) -> bool:
        """Whether one of these groups has an offset in these partitions."""
        return any(True for group_id in group_ids for _ in self.tombstones_of(group_id, partitions))

    def group_ids(self) -> list[str]:
        """The groups that have an offset, or one in an open transaction."""
        return [*self._committed, *(each for each in self._open if each not in self._committed)]

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is an offset, committed or in an open transaction."""
        return partition in self._committed.get(group_id, _NO_OFFSETS).get(
            topic, _NO_PARTITIONS
        ) or self.is_unstable(group_id, topic, partition)

    def expired(
        self, group_id: str, is_expired: Callable[[str, CommittedOffset], bool]
    ) -> list[OffsetRecord]:
        """Tombstones for the expired offsets of a group, except offsets in open transactions."""
        found = {
            (topic, partition)
            for topic, partitions in self._committed.get(group_id, _NO_OFFSETS).items()
            for partition, committed in partitions.items()
            if is_expired(topic, committed) and not self.is_unstable(group_id, topic, partition)
        }
        places = self.places(group_id) if len(found) > 1 else found
        return [OffsetRecord(group_id, *place, None) for place in places if place in found]

    def count(self, group_id: str) -> int:
        """How many offsets the group has."""
        return sum(map(len, self._committed.get(group_id, _NO_OFFSETS).values()))

    def snapshot(self) -> Iterator[OffsetRecord]:
        """Records that rebuild the committed offsets."""
        for group_id, topics in self._committed.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield OffsetRecord(group_id, topic, partition, committed)

    def _put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        topics = self._committed.get(group_id)
        if topics is None:
            topics = self._committed[group_id] = _Table()
        partitions = topics.get(topic)
        if partitions is None:
            partitions = _Table()
            topics.put(topic, partitions)
        partitions.put(partition, committed)

    def _supersede(self, group_id: str, place: TopicPartition, written: int) -> None:
        """Mark offsets that open transactions wrote up to `written` as replaced."""
        for producer_id in self._open.get(group_id, {}).get(place, ()):
            offsets = self._pending[producer_id][group_id]
            if offsets[place].written <= written:
                offsets[place] = _Pending(None, written)

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        place = (topic, partition)
        for producer_id in list(self._open.get(group_id, {}).get(place, ())):
            del self._pending[producer_id][group_id][place]
            self._close(group_id, place, producer_id)
        topics = self._committed.get(group_id)
        if topics is None or partition not in topics.get(topic, ()):
            return
        del topics[topic][partition]
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._committed[group_id]

    def _close(self, group_id: str, place: TopicPartition, producer_id: int) -> None:
        places = self._open[group_id]
        places[place].discard(producer_id)
        if not places[place]:
            del places[place]
        if not places:
            del self._open[group_id]


def write_commit(
    turn: Turn,
    group_id: str,
    offsets: Sequence[OffsetToCommit],
    *,
    max_metadata: int,
    expire_ms: int = NO_EXPIRY,
) -> list[Error]:
    """Write the valid offsets of a commit; returns one error per offset, in order."""
    now_ms = turn.now_ms
    errors = []
    for topic, partition, offset, leader_epoch, metadata, topic_id in offsets:
        if _is_longer(metadata, max_metadata):
            errors.append(Error.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(Error.NONE)
        turn.records.append(
            OffsetRecord(
                group_id,
                topic,
                partition,
                CommittedOffset(offset, leader_epoch, metadata, now_ms, expire_ms, topic_id),
            )
        )
    turn.counts.commits += errors.count(Error.NONE)
    return errors


def expired_records(
    group: Group, offsets: Offsets, now_ms: int, retention_ms: int
) -> list[OffsetRecord]:
    """Return tombstones for the group's offsets that have expired (see `Expiry`)."""
    expiry = group.offset_expiry()
    if expiry is None:
        return []
    since_ms = expiry.since_ms

    def is_expired(topic: str, committed: CommittedOffset) -> bool:
        if group.is_subscribed_to(topic):
            return False
        if committed.expire_ms != NO_EXPIRY:
            return now_ms >= committed.expire_ms
        return now_ms - (committed.commit_ms if since_ms is None else since_ms) >= retention_ms

    return offsets.expired(group.group_id, is_expired)


def _is_longer(metadata: str, limit: int) -> bool:
    """Whether the text has more UTF-16 code units, as Java counts, than the limit."""
    if len(metadata) * 2 <= limit:
        return False
    return len(metadata) > limit or len(metadata.encode("utf-16-be", "surrogatepass")) > 2 * limit
