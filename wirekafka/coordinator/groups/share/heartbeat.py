"""ShareGroupHeartbeat: members join, renew sessions and get their assignments (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from wirekafka.coordinator.groups.assignment import Assignment, same_assignment
from wirekafka.coordinator.groups.commands import QuietHeartbeat
from wirekafka.coordinator.groups.consumer.member import JOINING_EPOCH, MemberState
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.share.commands import ShareHeartbeat, ShareHeartbeatReply
from wirekafka.coordinator.groups.share.config import ShareGroupContext
from wirekafka.coordinator.groups.share.group import ShareGroup
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareMemberRecord,
    ShareTargetEpochRecord,
    ShareTopicsRecord,
    share_removal,
)
from wirekafka.coordinator.groups.share.target import ShareEpoch, compute_share_targets
from wirekafka.coordinator.groups.share.topics import StoredTopics, Topics
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.coordinator.java_order import sized_capacity, uuids_in_order
from wirekafka.coordinator.share_state.states import NO_OFFSET, ShareKey, StateInitialization
from wirekafka.coordinator.topics import topics_hash
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.renewal import Renewal


class ShareSessionKey(NamedTuple):
    """The timer of a member's session; `what` distinguishes it from other timers' keys."""

    group_id: str
    member_id: str
    what: str = "share session"


class _Epoch(NamedTuple):
    """The epoch that the group enters or is in.

    `subscribers` has the number of subscribers of each topic, out of `member_count`.
    """

    epoch: int
    is_new: bool
    subscribers: Mapping[str, int]
    member_count: int

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return all(count == self.member_count for count in self.subscribers.values())


class ShareHeartbeats:
    """Processes heartbeats, and the loss of members.

    Its soft state, by group id: `_refreshed`, the groups whose topics were checked since topics
    last changed; `_settled`, the groups whose share partitions all had a stored state then; and the
    time when the topics record of each group was last written.
    """

    def __init__(self, context: ShareGroupContext):
        self._context = context
        self._refreshed: set[str] = set()
        self._settled: set[str] = set()
        self._stored_ms: dict[str, int] = {}

    def forget_topics(self, group_id: str) -> None:
        """Make the next heartbeat check the topics of a group."""
        self._refreshed.discard(group_id)
        self._settled.discard(group_id)

    def forget(self, group_id: str) -> None:
        """Forget the soft state of a group that was removed."""
        self.forget_topics(group_id)
        self._stored_ms.pop(group_id, None)

    def heartbeat(
        self,
        group: ShareGroup,
        command: ShareHeartbeat,
        ticket: Ticket[ShareHeartbeatReply],
        turn: Turn,
    ) -> None:
        """Respond with the member epoch, and with the assignment if it changed.

        A group that does not exist yet is created by the records of its first member.
        """
        member = self._member(group, command)
        updated = _updated(member, command)
        at = self._enter_epoch(group, member, updated, turn)
        updated = self._reconcile(group, updated, at, turn)
        options = self._context.options(group.group_id)
        turn.schedule(
            ShareSessionKey(group.group_id, updated.member_id),
            turn.now_ms + options.session_timeout_ms,
        )
        has_news = (
            command.is_joining
            or command.topics is not None
            or not same_assignment(member.assigned, updated.assigned)
        )
        turn.answer(
            ticket,
            ShareHeartbeatReply(
                updated.member_id,
                updated.epoch,
                options.heartbeat_interval_ms,
                list(updated.assigned.items()) if has_news else None,
                self._initializations(group, at, turn),
            ),
        )

    def renew(
        self, group: ShareGroup, command: QuietHeartbeat[GroupTimes], now_ms: int
    ) -> Renewal[GroupTimes] | None:
        """Renew the session of a member to which nothing happens, as to most."""
        member = group.members.get(command.member_id)
        group_id = group.group_id
        if (
            member is None
            or not command.epoch == member.epoch == group.assignment_epoch == group.epoch
            or member.state is not MemberState.STABLE
            or command.client_id != member.client_id
            or command.client_host != member.client_host
            or group.lacks_initialized
            or group_id not in self._refreshed
            or group_id not in self._settled
        ):
            return None
        options = self._context.options(group_id)
        key = ShareSessionKey(group_id, member.member_id)
        return key, now_ms + options.session_timeout_ms, options

    def remove(self, group: ShareGroup, member_id: str, turn: Turn) -> None:
        """Remove a member and begin a new epoch, in which other members get its partitions."""
        member = group.members[member_id]
        turn.records.extend(share_removal(group.group_id, member_id))
        names = group.subscriptions.after(member, ShareMember(member_id=member_id))
        epoch = group.epoch + 1
        turn.write(
            ShareEpochRecord.of(group.group_id, epoch, topics_hash(names, self._context.topics))
        )
        if len(group.members) == 1:
            turn.write(ShareTargetEpochRecord.of(group.group_id, epoch, 0))
        turn.cancel(ShareSessionKey(group.group_id, member_id))

    def _member(self, group: ShareGroup, command: ShareHeartbeat) -> ShareMember:
        """Return the member that sent the heartbeat, or a new member; raises `KafkaError`."""
        member = group.members.get(command.member_id)
        if member is not None:
            _check_epoch(member, command.epoch)
            return member
        group.check_room(command.member_id, None, self._context.config.max_size)
        if not command.is_joining:
            raise unknown_share_member(group.group_id, command.member_id)
        return ShareMember(member_id=command.member_id)

    def _enter_epoch(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember, turn: Turn
    ) -> _Epoch:
        """Store the member if it changed; begin a new epoch if topics or partitions changed."""
        is_due = False
        if updated != member:
            turn.write(ShareMemberRecord.of(group.group_id, updated))
            is_due = updated.topics != member.topics
        if group.assignment_epoch >= group.epoch:
            is_due = is_due or group.lacks_initialized
        if not is_due and group.group_id in self._refreshed:
            return _Epoch(group.epoch, False, group.subscriptions.topics, len(group.members))
        after = group.subscriptions.after(member, updated)
        metadata_hash = topics_hash(after, self._context.topics)
        is_due = is_due or metadata_hash != group.metadata_hash
        epoch = group.epoch + is_due
        if is_due:
            turn.counts.share_rebalances += 1
            turn.write(ShareEpochRecord.of(group.group_id, epoch, metadata_hash))
        turn.then(partial(self._refreshed.add, group.group_id))
        count = len(group.members) + (updated.member_id not in group.members)
        return _Epoch(epoch, is_due, after, count)

    def _reconcile(
        self, group: ShareGroup, member: ShareMember, at: _Epoch, turn: Turn
    ) -> ShareMember:
        """Return the member with its target, after computing due targets."""
        epoch = group.assignment_epoch
        target = group.target(member.member_id)
        if epoch < at.epoch and self._may_assign(group, turn.now_ms):
            targets = compute_share_targets(
                group,
                member,
                ShareEpoch(at.epoch, at.is_homogeneous, turn.now_ms),
                self._context.topics,
            )
            turn.records.extend(targets.records)
            epoch, target = at.epoch, targets.own
        if not at.is_new and member.is_reconciled_to(epoch):
            return member
        updated = replace(member, assigned=self._subscribed(member, target))
        if epoch != member.epoch:
            updated = replace(
                updated, state=MemberState.STABLE, epoch=epoch, previous_epoch=member.epoch
            )
        if _is_same(updated, member):
            return member
        turn.write(ShareCurrentRecord.of(group.group_id, updated))
        return updated

    def _may_assign(self, group: ShareGroup, now_ms: int) -> bool:
        if group.group_id in self._context.held:
            return False
        return group.may_assign(
            self._context.options(group.group_id).assignment_interval_ms, now_ms
        )

    def _subscribed(self, member: ShareMember, target: Assignment) -> Assignment:
        """Return the part of the target with the topics that the member subscribes to."""
        topics = self._context.topics
        gone = {
            id
            for id in target
            if (topic := topics.by_id(id)) is None or topic.name not in member.topics
        }
        if not gone:
            return target
        order = uuids_in_order(target, sized_capacity(len(target)))
        return {id: target[id] for id in order if id not in gone}

    # States of share partitions

    def _initializations(
        self, group: ShareGroup, at: _Epoch, turn: Turn
    ) -> list[StateInitialization]:
        """Return the states to initialize, and write that this has begun."""
        group_id = group.group_id
        if group_id in self._settled and not at.is_new:
            return []
        stored = group.stored or StoredTopics()
        since_ms = self._stored_ms.get(group_id, turn.now_ms)
        retries = turn.now_ms - since_ms >= self._context.config.initialize_retry_interval_ms
        is_unchanged = at.subscribers is group.subscriptions.topics
        names = group.subscriptions.names() if is_unchanged else at.subscribers
        lacking = stored.lacking(names, self._context.topics, retries)
        if not lacking:
            if not stored.initializing:
                turn.then(partial(self._settled.add, group_id))
            return []
        self.begin(group, lacking, turn)
        return initializations_of(group_id, at.epoch, lacking, stored)

    def begin(self, group: ShareGroup, added: Topics, turn: Turn) -> None:
        """Write that the initialization of more partitions has begun."""
        known = group.stored
        self.store(
            group, StoredTopics(added) if known is None else known.with_initializing(added), turn
        )

    def store(self, group: ShareGroup, stored: StoredTopics, turn: Turn) -> None:
        """Write the progress of the stored states of the group's topics."""
        turn.write(ShareTopicsRecord.of(group.group_id, stored, self._context.topics))
        turn.then(partial(self.stored, group.group_id, turn.now_ms))

    def stored(self, group_id: str, now_ms: int) -> None:
        """Note when the topics record of a group was written, or loaded."""
        self._stored_ms[group_id] = now_ms
        self._settled.discard(group_id)


def initializations_of(
    group_id: str, epoch: int, lacking: Topics, stored: StoredTopics
) -> list[StateInitialization]:
    """Return the initializations of states, in the order of the topics.

    Consumers of a topic whose state is known start at the beginning of its new partitions.
    """
    known = stored.initialized.keys() | stored.initializing.keys()
    return [
        StateInitialization(
            ShareKey(group_id, id, partition), epoch, 0 if id in known else NO_OFFSET
        )
        for id, topic in lacking.items()
        for partition in topic.partitions
    ]


def unknown_share_member(group_id: str, member_id: str) -> KafkaError:
    """Return the UNKNOWN_MEMBER_ID error for a member id."""
    return KafkaError(
        Error.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's current or previous one."""
    known = f"member epoch ({epoch}) than the one known by the group coordinator ({member.epoch})"
    if epoch in (JOINING_EPOCH, member.epoch) or (
        epoch < member.epoch and epoch == member.previous_epoch
    ):
        return
    if epoch > member.epoch:
        complaint = f"The share group member has a greater {known}."
    else:
        complaint = (
            f"The share group member has a smaller {known}, and it does not match the previous "
            f"member epoch ({member.previous_epoch})."
        )
    raise KafkaError(
        Error.FENCED_MEMBER_EPOCH,
        f"{complaint} The member must abandon all its partitions and rejoin.",
    )


def _updated(member: ShareMember, command: ShareHeartbeat) -> ShareMember:
    """Return the member with the fields of the heartbeat."""
    rack_id = member.rack_id if command.rack_id is None else command.rack_id
    if (
        command.topics is None
        and rack_id == member.rack_id
        and command.client_id == member.client_id
        and command.client_host == member.client_host
    ):
        return member
    return replace(
        member,
        rack_id=rack_id,
        topics=member.topics if command.topics is None else frozenset(command.topics),
        listed_topics=member.listed_topics if command.topics is None else tuple(command.topics),
        client_id=command.client_id,
        client_host=command.client_host,
    )


def _is_same(one: ShareMember, other: ShareMember) -> bool:
    """Whether both are equal, regardless of the order of the assignment."""
    return same_assignment(one.assigned, other.assigned) and one == replace(
        other, assigned=one.assigned
    )
