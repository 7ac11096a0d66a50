"""A consumer group (KIP-848): the state that its records add up to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import assert_never

from wirekafka.coordinator.groups.assigned_group import FIRST_EPOCH, AssignedGroup
from wirekafka.coordinator.groups.assignment import NO_ASSIGNMENT, Assignment, read_assignment
from wirekafka.coordinator.groups.commands import ListedGroup
from wirekafka.coordinator.groups.consumer.member import ConsumerMember, OwnedPartitions
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerCurrentRecord,
    ConsumerEpochRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetRecord,
    ConsumerTopicsRecord,
    removal,
)
from wirekafka.coordinator.groups.consumer.subscriptions import (
    AssignorVotes,
    ClassicProtocols,
    ResolvedRegex,
    Subscriptions,
)
from wirekafka.coordinator.groups.group import Expiry
from wirekafka.protocol.records.subscription import CONSUMER_PROTOCOL

_NO_ASSIGNMENT_EPOCH = -1
_NO_OWNERS: Mapping[int, int] = {}


class ConsumerGroupState(Enum):
    """The states of a consumer group, with the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(AssignedGroup[ConsumerMember]):
    """A consumer group. All state follows from records; only the `replay` methods change it."""

    type_name = "consumer"

    def __init__(self, group_id: str):
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.has_topics_record = False
        self.targets: dict[str, Assignment] = {}
        self.target_owners: dict[bytes, dict[int, str]] = {}
        self.target_ends: dict[bytes, int] = {}
        """By topic id, a number above all partitions that were in a target since none was."""
        self.subscriptions = Subscriptions()
        self.assignors = AssignorVotes()
        self.classics = ClassicProtocols()
        self._owner_epochs: dict[bytes, dict[int, int]] = {}
        self._state: ConsumerGroupState | None = ConsumerGroupState.EMPTY

    # The methods of `Group`

    def listed(self) -> ListedGroup:
        """Return the group for ListGroups."""
        return ListedGroup(self.group_id, CONSUMER_PROTOCOL, self.state.value, self.type_name)

    def check_offset_deletion(self) -> None:
        """Permit deletion at any time, except for subscribed topics."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by regular expression."""
        return topic in self.subscriptions.topics

    def offset_expiry(self) -> Expiry:
        """Let each offset expire from its own commit."""
        return Expiry(since_ms=None)

    def is_affected_by(self, topics: frozenset[str]) -> bool:
        """Whether these topics may change the assignment or match a regular expression."""
        return bool(self.subscriptions.regexes) or not topics.isdisjoint(self.subscriptions.topics)

    # Queries

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group, computed when needed after a change."""
        if self._state is None:
            self._state = self._current_state()
        return self._state

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return self.subscriptions.is_homogeneous(len(self.members))

    def target(self, member_id: str) -> Assignment:
        """Return a member's target assignment."""
        return self.targets.get(member_id, NO_ASSIGNMENT)

    def owner_epochs(self, topic_id: bytes) -> Mapping[int, int]:
        """Return the epoch of its owner for each partition of a topic that has one."""
        return self._owner_epochs.get(topic_id, _NO_OWNERS)

    # Records

    def snapshot(self) -> Iterator[ConsumerRecord]:
        """Yield the records that rebuild the group."""
        for member in self.members.values():
            yield ConsumerMemberRecord.of(self.group_id, member)
        for regex, resolved in self.subscriptions.resolved.items():
            yield ConsumerRegexRecord.of(self.group_id, regex, resolved)
        yield ConsumerEpochRecord.of(self.group_id, self.epoch, self.metadata_hash)
        for member_id, target in self.targets.items():
            yield ConsumerTargetRecord.of(self.group_id, member_id, target)
        yield ConsumerTargetEpochRecord.of(
            self.group_id, self.assignment_epoch, self.assignment_timestamp_ms
        )
        for member in self.members.values():
            yield ConsumerCurrentRecord.of(self.group_id, member)

    def tombstones(self) -> Iterator[ConsumerRecord]:
        """Yield the records that delete the group."""
        member_ids = self.member_ids()
        current, target, metadata = (
            zip(*(removal(self.group_id, member_id) for member_id in member_ids), strict=True)
            if (member_ids)
            else ((), (), ())
        )
        yield from current
        yield from target
        yield ConsumerTargetEpochRecord(self.group_id, None)
        yield from metadata
        for regex in self.subscriptions.resolved:
            yield ConsumerRegexRecord(self.group_id, regex, None)
        yield ConsumerTopicsRecord(self.group_id)
        yield ConsumerEpochRecord(self.group_id, None)

    # Replay

    def replay(self, record: ConsumerRecord) -> None:
        """Apply any record except the tombstone that removes the group."""
        match record:  # The most frequent ones first.
            case ConsumerTargetRecord():
                self.replay_target(record)
            case ConsumerCurrentRecord():
                self.replay_current(record)
            case ConsumerEpochRecord():
                self.replay_epoch(record)
            case ConsumerTopicsRecord():
                self.replay_topics(record)
            case ConsumerMemberRecord():
                self.replay_member(record)
            case ConsumerTargetEpochRecord():
                self.replay_target_epoch(record)
            case ConsumerRegexRecord():
                self.replay_regex(record)
            case _:
                assert_never(record)

    def replay_epoch(self, record: ConsumerEpochRecord) -> None:
        """Apply a new group epoch."""
        assert record.value is not None, "the tombstone removes the group"
        self.epoch = record.value.epoch
        self.metadata_hash = record.value.metadata_hash
        self._state = None

    def replay_topics(self, record: ConsumerTopicsRecord) -> None:
        """Note whether the topics record of Kafka 4.0 exists."""
        self.has_topics_record = record.value is not None

    def replay_member(self, record: ConsumerMemberRecord) -> None:
        """Add, change or remove a member."""
        member_id, value = record.member_id, record.value
        old = self.members.get(member_id)
        if value is not None:
            self._put((old or ConsumerMember(member_id=member_id)).with_metadata(value))
        elif old is not None:
            self._remove(old)

    def replay_target_epoch(self, record: ConsumerTargetEpochRecord) -> None:
        """Apply the epoch for which targets were computed, or its tombstone."""
        value = record.value
        self.assignment_epoch = _NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
        self._state = None

    def replay_target(self, record: ConsumerTargetRecord) -> None:
        """Apply a member's new target assignment, or its tombstone."""
        member_id, value = record.member_id, record.value
        new = (
            NO_ASSIGNMENT
            if value is None
            else read_assignment(
                (topic.topic_id, topic.partitions) for topic in value.topic_partitions
            )
        )
        self._own_target(member_id, self.targets.get(member_id, NO_ASSIGNMENT), new)
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = new

    def replay_current(self, record: ConsumerCurrentRecord) -> None:
        """Apply a member's new current assignment, or its tombstone."""
        member_id, value = record.member_id, record.value
        old = self.members.get(member_id)
        if value is not None:
            self._put((old or ConsumerMember(member_id=member_id)).with_assignment(value))
        elif old is not None:
            self._put(old.without_assignment())

    def put_moved(self, moved: ConsumerMember) -> None:
        """Apply this member's current-assignment record; the result equals the record's replay."""
        self._put(moved)

    def replay_regex(self, record: ConsumerRegexRecord) -> None:
        """Apply the topics that match a regular expression, or their tombstone."""
        value = record.value
        if value is None:
            self.subscriptions.forget(record.regex, len(self.members))
        else:
            self.subscriptions.resolve(
                record.regex,
                ResolvedRegex(frozenset(value.topics), value.version, value.timestamp),
                len(self.members),
            )

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        self.add_member(member.member_id, member)
        self.subscriptions.change(old, member)
        self.assignors.change(old, member)
        self.classics.change(old, member)
        if old is not None and old.instance_id is not None:
            self.static_member_ids.pop(old.instance_id, None)
        if member.instance_id is not None:
            self.static_member_ids[member.instance_id] = member.member_id
        self._state = None
        if old is not None:
            if old.assigned is member.assigned and self._keeps_owned(old, member):
                return
            self._disown(old)
        self._own(member)

    def _remove(self, member: ConsumerMember) -> None:
        del self.members[member.member_id]
        self.subscriptions.change(member, None)
        self.assignors.change(member, None)
        self.classics.change(member, None)
        self._disown(member)
        if member.instance_id is not None:
            self.static_member_ids.pop(member.instance_id, None)
        self._state = None

    def _own(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.revoking):
            for topic, partitions in owned.items():
                epochs = self._owner_epochs.setdefault(topic, {})
                if epochs.keys().isdisjoint(partitions):
                    epochs.update(dict.fromkeys(partitions, member.epoch))
                    continue
                for partition in partitions:
                    epochs[partition] = max(epochs.get(partition, member.epoch), member.epoch)

    def _keeps_owned(self, old: ConsumerMember, member: ConsumerMember) -> bool:
        """Enter the new epoch of the only owner of all that a member has; False if it is not."""
        if old.revoking or member.revoking or len(old.assigned) != 1:
            return False
        [(topic, partitions)] = old.assigned.items()
        epochs = self._owner_epochs.get(topic, {})
        if [*map(epochs.get, partitions)].count(old.epoch) != len(partitions):
            return False
        epochs.update(dict.fromkeys(partitions, member.epoch))
        return True

    def _disown(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.revoking):
            for topic, partitions in owned.items():
                self._release(topic, partitions, member.epoch)

    def _release(self, topic: bytes, partitions: Mapping[int, int], epoch: int) -> None:
        epochs = self._owner_epochs.get(topic, {})
        for partition in partitions:
            # In a compacted log the record of the next owner may precede this one.
            if epochs.get(partition) == epoch:
                del epochs[partition]
        if not epochs:
            self._owner_epochs.pop(topic, None)

    def _own_target(self, member_id: str, old: Assignment, new: Assignment) -> None:
        for topic in {*old, *new}:
            owners = self.target_owners.setdefault(topic, {})
            before, after = old.get(topic, ()), new.get(topic, ())
            gained: Collection[int] = ()
            if before[: len(after)] == after:
                # As most often, the member only loses some to members that join.
                lost: Iterable[int] = before[len(after) :]
            else:
                lost, gained = set(before).difference(after), set(after).difference(before)
            for partition in lost:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if gained:
                owners.update(dict.fromkeys(gained, member_id))
                ends = self.target_ends
                ends[topic] = max(ends.get(topic, 0), *(partition + 1 for partition in gained))
            if not owners:
                del self.target_owners[topic]
                self.target_ends.pop(topic, None)

    def _current_state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING


def partitions_of(owned: OwnedPartitions) -> list[tuple[bytes, list[int]]]:
    """Return owned partitions by topic, without their epochs."""
    return [(topic, list(partitions)) for topic, partitions in owned.items()]
