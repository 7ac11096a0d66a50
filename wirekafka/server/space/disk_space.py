"""The space of this broker's log directories: unread records that are kept, and budgets."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence

from wirekafka.broker import Broker
from wirekafka.config.own import DiskLimit
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.log.directories.disk_budget import BudgetPartition
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.space.directory_space import DirectorySpace, DirectoryStatus, budget_partition
from wirekafka.server.space.group_positions import GroupPositions
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC

logger = logging.getLogger(__name__)

_PAUSE_MS = 5
_PER_STEP = 200
_SEGMENTS_PER_STEP = 500
_LOG = 5
"""A log takes as long as so many of its segments."""
_UNKNOWN, _NOTHING_UNREAD = -1, (1 << 63) - 1
_READ_EVERY_MS = 5_000
"""How often positions are read while nothing is deleted for a budget."""
_FORGOTTEN_MS = 30_000
"""What was known about groups so long ago says nothing about now."""
_PATIENCE_MS = 60_000
"""For how long a budget is exceeded rather than deleting without knowledge of the groups."""
_INTERNAL = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}


class DiskSpace:
    """Keeps unread records and budgets; `work` is called once in a second.

    Only partitions led here are deleted from: their followers delete with them.
    """

    def __init__(self, broker: Broker, limit: DiskLimit | None, reserve_bytes: int = 0):
        """`reserve_bytes` of each disk stay free in any case; without a limit nothing else goes."""
        self._broker = broker
        self._reserve_bytes = reserve_bytes
        self._positions = GroupPositions(broker)
        self._steps: Iterator[None] | None = None
        self._led: dict[TopicPartition, Partition] = {}
        """The partitions of clients' topics that this broker leads."""
        self._due_ms = 0
        """When positions are read next while nothing is deleted."""
        self._read_ms = -_FORGOTTEN_MS
        """When the last reading has ended."""
        self._unknown_since_ms: int | None = None
        self._spaces: list[DirectorySpace] = []
        if limit is not None:
            self._spaces = [DirectorySpace(each, limit) for each in broker.directories]

    def statuses(self) -> list[DirectoryStatus]:
        """Each directory with a budget, as of the last look."""
        return [each.status() for each in self._spaces]

    def work(self) -> int | None:
        """Go on for a few milliseconds; returns the pause in ms, None at the end of a look."""
        steps, self._steps = self._steps, None  # Forgotten if it fails.
        for _ in steps if steps is not None else (steps := self._look()):
            self._steps = steps
            return _PAUSE_MS
        return None

    def hold(self) -> Iterator[None]:
        """Note for retention from where on groups have not read, in steps."""
        keeping = yield from self._find_led()
        if keeping:
            yield from self._read(keeping)

    def _look(self) -> Iterator[None]:
        now_ms = self._broker.clock.now_ms()
        keeping = yield from self._find_led()
        for space in self._spaces:
            yield from self._measure(space)
        working = [each for each in self._spaces if each.directory.failure is None]
        needing = [each for each in working if each.needs_positions(now_ms)]
        is_of_use = keeping or any(each.is_nearly_full for each in working)
        # Not so far ahead if the clock was set back.
        is_due = not 0 < self._due_ms - now_ms <= _READ_EVERY_MS
        if needing or (is_of_use and is_due):
            self._due_ms = now_ms + _READ_EVERY_MS
            yield from self._read(keeping)
        for space in working:
            if space in needing:
                yield from self._act(space)
            else:
                space.rest()
            space.report(now_ms)

    def _read(self, keeping: Sequence[Partition]) -> Iterator[None]:
        """Read how far groups are, and note it for retention."""
        # The same partitions each time, or positions in others would be unknown for a while.
        keys = self._led if self._spaces else [(each.topic, each.index) for each in keeping]
        is_forgotten = not 0 <= self._broker.clock.now_ms() - self._read_ms < _FORGOTTEN_MS
        yield from self._positions.read(frozenset(keys))
        now_ms = self._read_ms = self._broker.clock.now_ms()
        if self._positions.is_known:
            self._unknown_since_ms = None
        elif self._unknown_since_ms is None or is_forgotten:
            self._unknown_since_ms = now_ms
        for partition in keeping:
            positions = self._positions.of((partition.topic, partition.index))
            if positions is None:
                partition.log.unread_from = _UNKNOWN
            else:
                partition.log.unread_from = min(positions.values(), default=_NOTHING_UNREAD)

    def _find_led(self) -> Generator[None, None, list[Partition]]:
        """Find the partitions led here; returns the partitions that keep unread records."""
        led: dict[TopicPartition, Partition] = {}
        keeping: list[Partition] = []
        for number, (key, partition) in enumerate(list(self._broker.partitions.items())):
            if number % _PER_STEP == _PER_STEP - 1:
                yield
            if key[0] in _INTERNAL:
                continue
            if not partition.is_leader:
                # A follower deletes what is below the leader's log start offset only.
                partition.log.unread_from = _UNKNOWN
                continue
            led[key] = partition
            if partition.log.config.wirekafka_retention_keep_unread:
                keeping.append(partition)
            else:
                partition.log.unread_from = _UNKNOWN
        self._led = led
        return keeping

    def _measure(self, space: DirectorySpace) -> Iterator[None]:
        directory, broker = space.directory, self._broker
        if directory.failure is not None:
            return
        used_bytes = seen = 0
        for log in list(directory.all_logs()):
            used_bytes += log.size_bytes
            seen += _LOG + len(log.segments)
            if seen >= _SEGMENTS_PER_STEP:
                seen = 0
                yield
        try:
            free_bytes = broker.disk.free_bytes(directory.path) - self._reserve_bytes
        except OSError as error:
            directory.note(error)
            return
        space.measure(broker.clock.now_ms(), used_bytes, free_bytes)

    def _act(self, space: DirectorySpace) -> Iterator[None]:
        partitions: list[BudgetPartition] = []
        if not self._is_waiting():
            partitions = yield from self._partitions_in(space.directory)
        if self._is_waiting():  # Also if a search for retention has read in vain meanwhile.
            space.wait(self._led_in(space.directory))
            return
        yield from space.look_ahead(partitions, self._broker.clock.now_ms())
        disk = self._broker.disk
        if disk.holds:  # A snapshot is taken: nothing may go.
            space.wait(self._led_in(space.directory))
            return
        for _ in space.keep_within(partitions, self._led_in(space.directory)):
            yield
            if disk.holds:
                return

    def _is_waiting(self) -> bool:
        """Whether the offsets of groups may soon be known: they are not just after a start."""
        since_ms = self._unknown_since_ms
        return since_ms is not None and self._broker.clock.now_ms() - since_ms < _PATIENCE_MS

    def _led_in(self, directory: LogDirectory) -> dict[TopicPartition, Partition]:
        return {
            key: partition
            for key, partition in self._led.items()
            if directory.logs.get(key) is partition.log and partition.is_leader
        }

    def _partitions_in(
        self, directory: LogDirectory
    ) -> Generator[None, None, list[BudgetPartition]]:
        found: list[BudgetPartition] = []
        seen = 0
        for key, partition in self._led_in(directory).items():
            seen += _LOG + len(partition.log.segments)
            if seen >= _SEGMENTS_PER_STEP:
                seen = 0
                yield
            positions = self._positions.of(key)
            # Unless none is known for long: the positions in a new partition are known soon.
            is_kept = positions is None and self._positions.is_known
            try:
                each = budget_partition(partition, positions, is_kept=is_kept)
            except OSError as error:
                directory.note(error)
                continue  # Of the others still go those first that are read.
            if each is not None:
                found.append(each)
        return found
