"""One log directory and its budget: how it fills, what goes, who is warned of what."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wirekafka.config.own import DiskLimit
from wirekafka.errors import KafkaError
from wirekafka.log import retention
from wirekafka.log.directories.disk_budget import (
    BudgetPartition,
    BudgetSegment,
    DeletionPlan,
    UnreadLoss,
    planning,
)
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.metrics.growth import SizeGrowth
from wirekafka.replication.partition.partition import Partition

logger = logging.getLogger(__name__)

_DAY_S, _HOUR_S = 86_400, 3_600
_LEVELS_S = (_DAY_S, _HOUR_S)
"""A directory that will be full sooner than this is warned of, once for each."""
_QUIET_MS = 600_000
"""Between two lines about deletions."""
_DELETED_PER_STEP = 5
"""Partitions, or segments of one."""
_MOST_DELETED = 1_000
"""Segments that go at one look: at the next one there may be groups that are new."""
_LOOK_AHEAD_MS = 10_000
_LOOK_AHEAD_PER_PARTITION_MS = 10
"""How often the next day is planned: planning takes longer for more partitions."""
_AHEAD = 2
"""As many times the bytes of the last second are kept free, so that the budget holds until the
next look."""
_MOST_AHEAD = 20
"""The part of the budget that is kept free for this at the most: a twentieth."""
_LITTLE_ROOM = 10
"""The part of the budget below which it is nearly full."""
_RELEASE = 50
"""The part of the budget that has to become free before appends are accepted again."""
_MOST_NAMES = 5
_Loser: TypeAlias = tuple[str | None, str, int]
"""A group, or None if it is not known, a topic and a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryStatus:
    """A log directory and its budget, as of the last look."""

    path: str
    budget_bytes: int
    used_bytes: int
    """Of all logs here, followers and internal topics included."""
    bytes_per_s: float
    """By how much this grows."""
    seconds_until_full: float | None
    """When the budget, or the disk if that is sooner, is used up; None without growth."""
    is_refusing: bool
    """Whether appends are refused."""
    outlook: DeletionPlan
    """What another day at this growth would delete; empty while it is not full sooner."""
    freed_bytes: int
    """What was deleted for the budget since the start."""
    lost_bytes: int
    """As much of this as some group had not read."""
    refused_appends: int
    """Since the start."""


class DirectorySpace:
    """The budget of one log directory: measured, planned, carried out and reported."""

    def __init__(self, directory: LogDirectory, limit: DiskLimit):
        self.directory = directory
        self._limit = limit
        self._growth = SizeGrowth()
        self._used_bytes = 0
        self._kept_free_bytes = 0
        """What is to stay free, so that the budget holds until the next look."""
        self._room_bytes = limit.budget_bytes
        self._level = 0
        """How many of the levels have been reached, and reported."""
        self._refusing: Mapping[tuple[str, int], Partition] = {}
        """The partitions whose appends are refused."""
        self._present = self._outlook = DeletionPlan(excess_bytes=0)
        self._freed_bytes = self._lost_bytes = self._refused_appends = 0
        self._refused_before = 0
        self._freed: dict[str, int] = {}
        """The bytes by topic that were deleted since the last line about them."""
        self._lost: dict[_Loser, int] = {}
        """The unread records among them."""
        self._freed_ms = self._lost_ms = self._failed_ms = -_QUIET_MS
        """When there was a line about them."""
        self._look_ahead_ms = 0
        """When the next day is planned next."""

    def needs_positions(self, now_ms: int) -> bool:
        """Whether it matters now what groups have read."""
        if self._excess_bytes > 0:
            return True
        reached = self._reached()
        return reached > self._level or (reached > 0 and now_ms >= self._look_ahead_ms)

    @property
    def is_nearly_full(self) -> bool:
        """Whether it may matter soon what groups have read."""
        return self._room_bytes < self._limit.budget_bytes // _LITTLE_ROOM

    def status(self) -> DirectoryStatus:
        """The directory as of the last look."""
        return DirectoryStatus(
            path=self.directory.path,
            budget_bytes=self._limit.budget_bytes,
            used_bytes=self._used_bytes,
            bytes_per_s=self._growth.bytes_per_s,
            seconds_until_full=self._growth.seconds_until(self._room_bytes),
            is_refusing=self._is_refusing,
            outlook=self._outlook,
            freed_bytes=self._freed_bytes,
            lost_bytes=self._lost_bytes,
            refused_appends=self._refused_appends,
        )

    def measure(self, now_ms: int, used_bytes: int, free_bytes: int) -> None:
        """Note the size of the logs, and how many more bytes the disk has room for."""
        budget_bytes = self._limit.budget_bytes
        if self._is_refusing:
            # The burst that has filled the budget is over, and may not come again.
            least_bytes = budget_bytes // _RELEASE
            self._kept_free_bytes = max(self._kept_free_bytes * 9 // 10, least_bytes)
        else:
            added_bytes = used_bytes - self._used_bytes if self._used_bytes else 0
            kept_free_bytes = min(added_bytes * _AHEAD, budget_bytes // _MOST_AHEAD)
            self._kept_free_bytes = max(kept_free_bytes, 0)
        if now_ms < self._growth.latest_ms:  # The clock was set back.
            self._look_ahead_ms = self._freed_ms = self._lost_ms = now_ms - _QUIET_MS
        self._used_bytes = used_bytes
        self._room_bytes = min(budget_bytes - used_bytes, free_bytes)
        self._growth.note(now_ms, used_bytes)

    def look_ahead(self, partitions: Collection[BudgetPartition], now_ms: int) -> Iterator[None]:
        """Plan for another day at the present growth, if due, and warn if that is too much."""
        reached = self._reached()
        if reached <= self._level and now_ms < self._look_ahead_ms:
            return
        self._look_ahead_ms = now_ms + _LOOK_AHEAD_MS
        self._look_ahead_ms += _LOOK_AHEAD_PER_PARTITION_MS * len(partitions)
        excess_bytes = self._used_bytes - self._limit.budget_bytes
        excess_bytes += round(self._growth.bytes_per_s * _DAY_S)
        self._outlook = yield from planning(partitions, excess_bytes, self._limit)
        if reached > self._level:
            self._level = reached
            if self._room_bytes > 0:
                self._warn_ahead(
                    keeps_unread=not self._limit.deletes_unread
                    or any(each.keeps_unread for each in partitions)
                )

    def rest(self) -> None:
        """Nothing has to go: forget the plans that are no longer needed, and refuse nothing."""
        self._present = DeletionPlan(excess_bytes=0)
        if not self._reached():
            self._outlook = self._present
        if self._has_passed():
            self._level = self._reached()
        self._refuse({})

    def wait(self, led: Mapping[tuple[str, int], Partition]) -> None:
        """More may go later: go on refusing, but not what is led elsewhere by now."""
        refused = {key: led[key] for key in self._refusing if key in led}
        self._refuse({key: each for key, each in refused.items() if self._still_has(each)})

    def keep_within(
        self, partitions: Collection[BudgetPartition], led: Mapping[tuple[str, int], Partition]
    ) -> Iterator[None]:
        """Delete what exceeds the budget, in steps, and refuse appends while that is too little."""
        excess_bytes = self._excess_bytes
        self._present = yield from planning(partitions, excess_bytes, self._limit, _MOST_DELETED)
        freed_bytes = yield from self._delete(led)
        self._used_bytes -= freed_bytes
        self._freed_bytes += freed_bytes
        if freed_bytes:
            self._lost_bytes += self._present.lost_bytes
        if self._present.is_partial:
            self.wait(led)
            return
        refused = led if excess_bytes > freed_bytes else {}
        self._refuse({key: each for key, each in refused.items() if self._still_has(each)})

    def report(self, now_ms: int) -> None:
        """Log what was deleted: at once when it begins, then in ten minutes' sums."""
        path = self.directory.path
        if self._freed and now_ms - self._freed_ms >= _QUIET_MS:
            logger.info(
                "Segments in %s were deleted ahead of their retention, to keep its budget of %s"
                " bytes: %s",
                path,
                f"{self._limit.budget_bytes:,}",
                _topics(self._freed),
            )
            self._freed, self._freed_ms = {}, now_ms
        if self._lost and now_ms - self._lost_ms >= _QUIET_MS:
            logger.warning(
                "Unread records in %s were deleted, because it has no others to delete: %s",
                path,
                _losers(self._lost),
            )
            self._lost, self._lost_ms = {}, now_ms

    @property
    def _is_refusing(self) -> bool:
        return bool(self._refusing)

    @property
    def _excess_bytes(self) -> int:
        return self._used_bytes - self._limit.budget_bytes + self._kept_free_bytes

    def _reached(self) -> int:
        seconds = self._growth.seconds_until(self._room_bytes)
        return 0 if seconds is None else sum(seconds < level_s for level_s in _LEVELS_S)

    def _has_passed(self) -> bool:
        """Whether it is so far from the level that was reported that it may be reported again."""
        if not self._level or self.is_nearly_full:
            return False
        seconds = self._growth.seconds_until(self._room_bytes)
        return seconds is None or seconds > 2 * _LEVELS_S[self._level - 1]

    def _warn_ahead(self, *, keeps_unread: bool) -> None:
        seconds = self._growth.seconds_until(self._room_bytes) or 0
        what = f"another day deletes {_topics(self._outlook.freed_by_topic())}"
        if losses := self._outlook.losses:
            what += f"; unread among that: {_losers(_lost_by(losses))}"
        if keeps_unread and self._outlook.shortfall_bytes:
            what += "; unread records are kept, so that appends will be refused"
        logger.warning(
            "%s has %s of %s bytes and is full in %s at its present growth of %s bytes an hour: %s",
            self.directory.path,
            f"{self._used_bytes:,}",
            f"{self._limit.budget_bytes:,}",
            _duration(seconds),
            f"{round(self._growth.bytes_per_s * _HOUR_S):,}",
            what,
        )

    def _delete(self, led: Mapping[tuple[str, int], Partition]) -> Generator[None, None, int]:
        """Carry out the plan; returns how many bytes went."""
        freed_bytes = 0
        now_ms = self._growth.latest_ms
        for number, each in enumerate(self._present.deletions, 1):
            key = each.topic, each.partition
            partition = led.get(key)
            if number % _DELETED_PER_STEP == 0:
                yield
            while partition is not None and self._still_has(partition):
                log = partition.log
                last = min(_DELETED_PER_STEP, len(log.segments)) - 1
                end_offset = retention.end_of(log.segments, last, log.end_offset)
                before_bytes = log.size_bytes
                try:
                    count = log.delete_spare_segments(
                        min(end_offset, each.end_offset), now_ms, partition.high_watermark
                    )
                except KafkaError as error:
                    if not 0 <= now_ms - self._failed_ms < _QUIET_MS:
                        self._failed_ms = now_ms
                        logger.error("%s could not be shortened: %s", log.name, error)
                    break
                freed_bytes += before_bytes - log.size_bytes
                if count:
                    partition.wake()
                if not count or end_offset >= each.end_offset:
                    break
                yield
        if freed_bytes:
            for topic, size_bytes in self._present.freed_by_topic().items():
                self._freed[topic] = self._freed.get(topic, 0) + size_bytes
            for loser, records in _lost_by(self._present.losses).items():
                self._lost[loser] = self._lost.get(loser, 0) + records
        return freed_bytes

    def _still_has(self, partition: Partition) -> bool:
        """Whether it was neither moved nor deleted meanwhile, and is still led here."""
        key = partition.topic, partition.index
        return partition.is_leader and self.directory.logs.get(key) is partition.log

    def _refuse(self, led: Mapping[tuple[str, int], Partition]) -> None:
        """Refuse appends to these partitions alone; the begin and the end are logged."""
        self.directory.refuse_over_budget(frozenset(led))
        refused = _refused(self._refusing)
        self._refused_appends += max(refused - self._refused_before, 0)
        was_refusing = self._is_refusing
        self._refusing, self._refused_before = led, _refused(led)
        if was_refusing == self._is_refusing:
            return
        path = self.directory.path
        if self._is_refusing:
            # More than it took to refuse, or a little space would be filled again at once.
            self._kept_free_bytes += self._limit.budget_bytes // _RELEASE
            logger.error(
                "Appends are refused, reads are served: %s has %s bytes, its budget is %s, and"
                " nothing more may be deleted",
                path,
                f"{self._used_bytes:,}",
                f"{self._limit.budget_bytes:,}",
            )
        else:
            logger.info("%s has room in its budget again: appends are accepted", path)


def budget_partition(
    partition: Partition, positions: Mapping[str, int] | None, *, is_kept: bool
) -> BudgetPartition | None:
    """What the budget may delete of a partition led here; None for a topic that is spared.

    With `is_kept` nothing unread may go whatever the topic's options are. Raises OSError.
    """
    log = partition.log
    config = log.config
    limits = retention.local_limits(config)
    if config.is_compacted or not config.is_deleted or limits == (-1, -1):
        return None
    found = log.spare_segments(partition.high_watermark)
    last = len(log.segments) - 1
    segments = [
        BudgetSegment(
            retention.end_of(log.segments, number, log.end_offset),
            segment.size_bytes,
            retention.age_from_ms(segment),
            is_active=number == last,
        )
        for number, segment in enumerate(found)
    ]
    return BudgetPartition(
        topic=partition.topic,
        partition=partition.index,
        start_offset=log.start_offset,
        segments=segments,
        positions=positions,
        keeps_unread=is_kept or config.wirekafka_retention_keep_unread,
        is_remote=log.remote is not None,
    )


def _refused(partitions: Mapping[tuple[str, int], Partition]) -> int:
    return sum(each.log.refused_appends for each in partitions.values())


def _lost_by(losses: Sequence[UnreadLoss]) -> dict[_Loser, int]:
    return {(each.group, each.topic, each.partition): each.records for each in losses}


def _topics(sizes: Mapping[str, int]) -> str:
    largest = sorted(sizes, key=lambda topic: (-sizes[topic], topic))
    return _some([f"{sizes[topic]:,} bytes of {topic}" for topic in largest]) or "nothing"


def _losers(records: Mapping[_Loser, int]) -> str:
    return _some(
        [
            f"{count:,} records of {topic}-{partition} for "
            + ("groups that are not known" if group is None else f"group {group}")
            for (group, topic, partition), count in records.items()
        ]
    )


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_NAMES
    return ", ".join(texts[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _duration(seconds: float) -> str:
    if seconds >= _HOUR_S:
        return f"{seconds / _HOUR_S:.1f} h"
    return f"{seconds / 60:.0f} min"
