"""The steps of a member's heartbeat: subscription, group epoch, target, reconciliation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from wirekafka.coordinator.groups.assignment import NO_ASSIGNMENT, Assignment
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupContext
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.member import ConsumerMember, MemberState
from wirekafka.coordinator.groups.consumer.reconcile import (
    AssignmentAim,
    Reported,
    in_epoch_of_same_target,
    reconcile,
)
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerCurrentRecord,
    ConsumerEpochRecord,
    ConsumerMemberRecord,
    ConsumerRegexRecord,
    ConsumerTopicsRecord,
)
from wirekafka.coordinator.groups.consumer.regex import check_regex, matching_topics
from wirekafka.coordinator.groups.consumer.subscriptions import ResolvedRegex
from wirekafka.coordinator.groups.consumer.target import TargetEpoch, compute_targets
from wirekafka.coordinator.groups.consumer.timers import ConsumerRebalanceKey, ConsumerRegexKey
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order
from wirekafka.coordinator.topics import CoordinatedTopics, topics_hash

_REGEX_REST_MS = 10_000
"""The minimum time between two lookups of a group's regular expressions."""

Visible = Callable[[Iterable[str]], Iterable[str]]


class Lookup(NamedTuple):
    """A pending lookup of a group's regular expressions, with the requesting member's filter."""

    regexes: Sequence[str]
    visible: Visible


class RegexChange(Enum):
    """How a heartbeat affects regular expressions; the topics of a NEW one are unknown."""

    NONE = "unchanged"
    NEW = "to be looked up"
    KNOWN = "looked up before, or given up"


class GroupEpoch(NamedTuple):
    """A group's epoch, and whether all its members subscribe to the same topics in it."""

    epoch: int
    is_homogeneous: bool


class MemberTarget(NamedTuple):
    """The target assignment of a member, and the epoch for which it was computed."""

    epoch: int
    target: Assignment


class MemberSteps:
    """Writes the records of each step; `lookups` has the groups with a pending lookup."""

    def __init__(self, context: ConsumerGroupContext):
        self._context = context
        self._refreshed: set[str] = set()
        self._changes = 0
        self.lookups: dict[str, Lookup] = {}

    # Soft state: the groups whose topics were checked since the last change

    def forget_topics(self, group_id: str) -> None:
        """Make the next heartbeat check the topics of a group."""
        self._refreshed.discard(group_id)
        self._changes += 1

    def is_refreshed(self, group_id: str) -> bool:
        """Whether the group's hash was checked since topics last changed."""
        return group_id in self._refreshed

    def _refresh(self, group_id: str, changes: int) -> None:
        """Note that a group's hash was checked, unless topics have changed since `changes`."""
        if changes == self._changes:
            self._refreshed.add(group_id)

    def end_lookup(self, group_id: str) -> None:
        """Forget the pending lookup of a group."""
        self.lookups.pop(group_id, None)

    # Steps

    def store(
        self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, turn: Turn
    ) -> bool:
        """Write the member if it changed; returns whether it subscribes to other names."""
        if updated is member or updated.is_stored_as(member):
            return False
        turn.write(ConsumerMemberRecord.of(group.group_id, updated))
        return updated.topics != member.topics

    def follow_regex(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        visible: Visible,
        turn: Turn,
    ) -> RegexChange:
        """Start a lookup of regular expressions if one is new or topics may have changed.

        Raises INVALID_REGULAR_EXPRESSION.
        """
        change, is_new = RegexChange.NONE, False
        subscriptions = group.subscriptions
        if member.regex != updated.regex:
            change = RegexChange.NEW
            if member.regex and subscriptions.regexes.get(member.regex) == 1:
                turn.write(ConsumerRegexRecord(group.group_id, member.regex, None))
            if updated.regex:
                if updated.regex not in subscriptions.regexes:
                    check_regex(updated.regex)
                    is_new = True
                elif updated.regex in subscriptions.resolved:
                    change = RegexChange.KNOWN
            elif member.regex:
                change = RegexChange.KNOWN
        if (is_new or subscriptions.regexes) and self._is_lookup_due(
            group, member, updated, is_new, turn.now_ms
        ):
            lookup = Lookup(subscriptions.regexes_after(member, updated), visible)
            turn.then(partial(self.lookups.__setitem__, group.group_id, lookup))
            turn.schedule(ConsumerRegexKey(group.group_id), turn.now_ms)
        return change

    def _is_lookup_due(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        is_new: bool,
        now_ms: int,
    ) -> bool:
        if group.group_id in self.lookups:
            return False
        used = group.subscriptions.regexes_after(member, updated)
        last = next(iter(group.subscriptions.resolved.values()), None)
        if last is None:
            return bool(used)
        if now_ms <= last.timestamp_ms + _REGEX_REST_MS or not used:
            return False
        return (
            is_new
            or len(used) != len(group.subscriptions.resolved)
            or last.version < self._context.topics.creation_version
            or now_ms > last.timestamp_ms + self._context.config.regex_refresh_interval_ms
        )

    def enter_epoch(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        turn: Turn,
        is_due: bool,
    ) -> GroupEpoch:
        """Begin a new epoch if it `is_due` or if the subscribed topics changed."""
        if not is_due and self.is_refreshed(group.group_id):
            return GroupEpoch(group.epoch, group.is_homogeneous)
        after = group.subscriptions.after(member, updated)
        metadata_hash = topics_hash(after.topics, self._context.topics)
        is_member = updated.member_id in group.members or (
            updated.instance_id is not None and updated.instance_id in group.static_member_ids
        )
        epoch = group.epoch
        if is_due or metadata_hash != group.metadata_hash:
            epoch += 1
            turn.counts.consumer_rebalances += 1
            turn.write(ConsumerEpochRecord.of(group.group_id, epoch, metadata_hash))
        turn.then(partial(self._refresh, group.group_id, self._changes))
        if group.has_topics_record:
            turn.write(ConsumerTopicsRecord(group.group_id))
        return GroupEpoch(epoch, after.are_alike(len(group.members) + (not is_member)))

    def target(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        at: GroupEpoch,
        turn: Turn,
    ) -> Steps[MemberTarget]:
        """Return the member's target for the epoch; computes targets if needed and due."""
        if not self.is_assignment_due(group, at.epoch, turn.now_ms):
            return self.last_target(group, updated)
        assignor = group.assignors.preferred_after(member, updated)
        targets = yield from compute_targets(
            group,
            updated,
            TargetEpoch(
                at.epoch,
                assignor or self._context.config.assignors[0],
                at.is_homogeneous,
                turn.now_ms,
            ),
            self._context.topics,
        )
        turn.records.extend(targets.records)
        return MemberTarget(at.epoch, targets.own)

    def is_assignment_due(self, group: ConsumerGroup, epoch: int, now_ms: int) -> bool:
        """Whether targets have to be computed for the epoch, and may be by now."""
        return group.assignment_epoch < epoch and self._may_assign(group, now_ms)

    def last_target(self, group: ConsumerGroup, member: ConsumerMember) -> MemberTarget:
        """Return the target computed last; a static member's belongs to its instance id."""
        if member.instance_id is None:
            return MemberTarget(group.assignment_epoch, group.target(member.member_id))
        before = group.static_member_ids.get(member.instance_id)
        return MemberTarget(
            group.assignment_epoch, NO_ASSIGNMENT if before is None else group.target(before)
        )

    def _may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        if group.group_id in self._context.held:
            return False
        return group.may_assign(
            self._context.options(group.group_id).assignment_interval_ms, now_ms
        )

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        goal: MemberTarget,
        reported: Reported,
        turn: Turn,
        *,
        has_new_subscription: bool,
    ) -> ConsumerMember:
        """Return the member after its next step, and write that step."""
        if not has_new_subscription:
            if member.is_reconciled_to(goal.epoch):
                return member
            if (kept := self._with_same_target(member, goal)) is not None:
                return self._write_moved(group, member, kept, turn)
        names = group.subscriptions.topics_of(member)
        topics = self._context.topics
        topic_ids = {topic.id for name in names if (topic := topics.by_name(name)) is not None}
        updated = reconcile(
            member,
            AssignmentAim(
                goal.epoch,
                goal.target,
                topic_ids,
                group.owner_epochs,
                bool(names),
                has_new_subscription,
            ),
            reported,
        )
        if updated == member:
            return member
        return self._write_moved(group, member, updated, turn)

    def _with_same_target(
        self, member: ConsumerMember, goal: MemberTarget
    ) -> ConsumerMember | None:
        """Return a member that owns its target already in the target's epoch; None for others.

        Most members own their target when another has left. The result equals `reconcile`'s.
        """
        if len(goal.target) != 1 or member.regex or member.requested_topics is not None:
            return None
        [(topic_id, _)] = goal.target.items()
        topic = self._context.topics.by_id(topic_id)
        if topic is None or topic.name not in member.topics:
            return None
        return in_epoch_of_same_target(member, goal.epoch, goal.target)

    def _write_moved(
        self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, turn: Turn
    ) -> ConsumerMember:
        turn.write(ConsumerCurrentRecord.of(group.group_id, updated))
        if updated.classic is None:
            key = ConsumerRebalanceKey(group.group_id, member.member_id)
            if updated.state is MemberState.UNREVOKED_PARTITIONS:
                turn.schedule(key, turn.now_ms + updated.rebalance_timeout_ms)
            else:
                turn.cancel(key)
        return updated


def write_lookup(
    group: ConsumerGroup, topics: CoordinatedTopics, lookup: Lookup, turn: Turn
) -> Steps[None]:
    """Write the topics that match each expression, in steps; a change begins a new epoch."""
    regexes = [regex for regex in lookup.regexes if regex in group.subscriptions.regexes]
    if not regexes:
        return
    # Topics that change while this goes on have a later version, for which there is a new lookup.
    version = topics.version
    matching = yield from matching_topics(regexes, topics.names(), lookup.visible)
    after = group.subscriptions.copy()
    is_new = False
    for regex in strings_in_order(regexes, grown_capacity(len(lookup.regexes), 1)):
        before = group.subscriptions.resolved.get(regex)
        resolved = ResolvedRegex(matching[regex], version, turn.now_ms)
        is_new = is_new or (before.topics if before is not None else frozenset()) != (
            resolved.topics
        )
        after.resolve(regex, resolved, len(group.members))
        turn.write(ConsumerRegexRecord.of(group.group_id, regex, resolved))
    metadata_hash = topics_hash(after.topics, topics)
    if is_new or metadata_hash != group.metadata_hash:
        turn.counts.consumer_rebalances += 1
        turn.write(ConsumerEpochRecord.of(group.group_id, group.epoch + 1, metadata_hash))
