"""Changes of one partition: replicas, ISR, eligible leaders and leader are decided together.

Every command and every timer that changes a partition describes the wanted state as a `Goal`. The
consequences (an election, the end of a reassignment, the eligible leader replicas of KIP-966, a new
leader epoch) are the same whatever the reason for the change.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from wirekafka.metadata.image.image import PartitionImage
from wirekafka.protocol.records.metadata import PartitionChangeRecord
from wirekafka.replication.partition.replica import NO_LEADER

RECOVERED, RECOVERING = 0, 1
"""The leaderRecoveryState; RECOVERING marks a leader that was elected uncleanly (KIP-704)."""
DIRECTORIES_SINCE = 17
"""The metadata.version (3.7-IV2) from which records have the log directories of replicas."""

_UNCHANGED = -2
_SHRINK_KEEPS_EPOCH_SINCE = 12
"""The metadata.version (3.6-IV0) from which a smaller ISR keeps the leader epoch (KAFKA-15021)."""


class ElectionRule(Enum):
    """Which replica is elected if several may lead."""

    ONLINE = auto()
    """The present leader if it may lead, else the first replica that may."""
    PREFERRED = auto()
    """The first replica, if it may lead."""
    UNCLEAN = auto()
    """As ONLINE; if no replica in sync is alive, the first replica that is alive: records may be
    lost."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for all partitions of one topic, in one decision.

    `is_alive` says whether a replica is on an active broker, in a log directory that is in
    service. `default_directory` is the directory id of a new replica on a broker.
    """

    is_alive: Callable[[PartitionImage, int], bool]
    default_directory: Callable[[int], bytes]
    min_isr: int
    has_elr: bool
    metadata_version: int
    election: ElectionRule = ElectionRule.ONLINE


@dataclass(slots=True)
class Goal:
    """The wanted state of a partition; None is unchanged.

    `lost` are replicas that may lack records after an unclean shutdown, so that they are not
    eligible leaders. `directories` are ids of log directories by broker.
    """

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    recovery_state: int | None = None
    lost: Container[int] = ()
    directories: Mapping[int, bytes] | None = None
    election: ElectionRule | None = None
    """None is the topic's."""


def changed(
    topic_id: bytes, partition: PartitionImage, goal: Goal, rules: Rules
) -> PartitionChangeRecord | None:
    """Return the record of the change; None if nothing changes."""
    return _Change(partition, goal, rules).record(topic_id)


class _Change:
    """One partition on its way to a goal."""

    __slots__ = (
        "_adding",
        "_eligible",
        "_goal",
        "_is_unclean",
        "_isr",
        "_leader",
        "_partition",
        "_removing",
        "_replicas",
        "_rules",
    )

    def __init__(self, partition: PartitionImage, goal: Goal, rules: Rules):
        self._partition, self._goal, self._rules = partition, goal, rules
        self._isr = _list(goal.isr, partition.isr)
        self._replicas = _list(goal.replicas, partition.replicas)
        self._adding = _list(goal.adding, partition.adding_replicas)
        self._removing = _list(goal.removing, partition.removing_replicas)
        self._is_unclean = False
        self._end_reassignment()
        self._eligible = self._eligible_leaders()
        self._leader = self._elected()

    def record(self, topic_id: bytes) -> PartitionChangeRecord | None:
        present = self._partition
        record = PartitionChangeRecord(partition_id=present.index, topic_id=topic_id)
        if self._leader != present.leader:
            self._take_office(record)
        elif not set(present.replicas) <= set(self._replicas):
            # Removed replicas do not belong to the leader epoch that follows.
            record.leader = present.leader
        if self._eligible != present.eligible_leader_replicas:
            record.eligible_leader_replicas = self._eligible
        # Without ELR the last replica stays in the ISR: no other may be elected cleanly.
        if self._isr != present.isr and (self._isr or self._rules.has_elr):
            record.isr = self._isr
            if (
                record.leader == _UNCHANGED
                and self._rules.metadata_version < _SHRINK_KEEPS_EPOCH_SINCE
                and not set(present.isr) <= set(self._isr)
            ):
                record.leader = present.leader
        if self._rules.has_elr:
            self._note_last_leader(record)
        self._assign(record)
        wanted = self._goal.recovery_state
        if wanted is not None and wanted != present.leader_recovery_state:
            record.leader_recovery_state = wanted
        return None if _is_empty(record) else record

    def _end_reassignment(self) -> None:
        if not self._adding and not self._removing:
            return
        target = [each for each in self._replicas if each not in self._removing]
        if _may_end(target, self._isr, adding=self._adding, removing=self._removing):
            self._replicas = target
            self._isr = [each for each in self._isr if each not in self._removing]
            self._adding, self._removing = [], []

    def _eligible_leaders(self) -> list[int]:
        """Replicas that left the ISR while it was smaller than the minimum (KIP-966).

        Apache Kafka 4.4 keeps replicas that a reassignment has removed. A removed replica that is
        added again is empty, and as an eligible leader it loses the records of all other replicas.
        """
        if not self._rules.has_elr or len(self._isr) >= self._rules.min_isr:
            return []
        present, lost = self._partition, self._goal.lost
        had = {*present.eligible_leader_replicas, *present.isr}
        stayed = had.intersection(present.replicas, self._replicas)
        return sorted(each for each in stayed.difference(self._isr) if each not in lost)

    def _elected(self) -> int:
        present = self._partition
        kind = self._goal.election or self._rules.election
        candidates = [present.leader, *self._replicas]
        if kind is ElectionRule.PREFERRED:
            candidates.insert(0, self._replicas[0])
        eligible = self._isr or self._eligible
        is_alive = self._rules.is_alive
        for each in candidates:
            if each in eligible and is_alive(present, each):
                return each
        self._is_unclean = True
        last = present.last_known_elr
        if self._rules.has_elr and not eligible and len(last) == 1 and is_alive(present, last[0]):
            return last[0]
        if kind is ElectionRule.UNCLEAN:
            for each in self._replicas:
                if is_alive(present, each):
                    return each
        self._is_unclean = False
        return NO_LEADER

    def _take_office(self, record: PartitionChangeRecord) -> None:
        record.leader = self._leader
        if self._is_unclean:
            # Its records are the partition's from now on, whatever others had.
            self._isr, self._eligible = [self._leader], []
            if self._partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
        elif self._leader in self._eligible:
            self._isr = [self._leader]
            self._eligible = [each for each in self._eligible if each != self._leader]

    def _note_last_leader(self, record: PartitionChangeRecord) -> None:
        """Keep the last leader of a partition that has none: the best choice without any ELR."""
        present = self._partition
        if record.leader == NO_LEADER and not present.last_known_elr:
            record.last_known_elr = [present.leader]
        elif record.leader >= 0 and present.last_known_elr:
            record.last_known_elr = []

    def _assign(self, record: PartitionChangeRecord) -> None:
        present, goal = self._partition, self._goal
        if self._replicas is not present.replicas or goal.directories is not None:
            if self._rules.metadata_version >= DIRECTORIES_SINCE:
                directories = self._directories()
                record.directories = directories if directories != present.directories else None
            record.replicas = _unless(present.replicas, self._replicas)
        record.adding_replicas = _unless(present.adding_replicas, self._adding)
        record.removing_replicas = _unless(present.removing_replicas, self._removing)

    def _directories(self) -> list[bytes]:
        present = self._partition
        places = dict(zip(present.replicas, present.directories, strict=False))
        places.update(self._goal.directories or {})
        default = self._rules.default_directory
        return [places[each] if each in places else default(each) for each in self._replicas]


def _may_end(
    target: Sequence[int], isr: Sequence[int], *, adding: Sequence[int], removing: Sequence[int]
) -> bool:
    """Whether a reassignment to `target`, which adds and removes these replicas, is complete.

    All added replicas must be in sync, and at least one of `target`; if the replication factor
    decreases, all of `target`.
    """
    in_sync = set(isr).difference(removing)
    if not in_sync.intersection(target) or not in_sync.issuperset(adding):
        return False
    return len(adding) >= len(removing) or in_sync.issuperset(target)


def _list(wanted: Sequence[int] | None, present: list[int]) -> list[int]:
    return present if wanted is None else list(wanted)


def _unless(present: list[int], wanted: list[int]) -> list[int] | None:
    return None if wanted == present else wanted


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == _UNCHANGED
        and record.leader_recovery_state == -1
        and record.isr is None
        and record.replicas is None
        and record.adding_replicas is None
        and record.removing_replicas is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.directories is None
    )
