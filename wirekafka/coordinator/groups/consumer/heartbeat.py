"""ConsumerGroupHeartbeat: members join, renew sessions and get their assignments (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from wirekafka.coordinator.groups.commands import QuietHeartbeat
from wirekafka.coordinator.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatReply
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupContext
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup, partitions_of
from wirekafka.coordinator.groups.consumer.member import (
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
    is_as_replayed,
    same_owned,
)
from wirekafka.coordinator.groups.consumer.reconcile import Reported
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerCurrentRecord,
    ConsumerMemberRecord,
    ConsumerTargetRecord,
    removal,
)
from wirekafka.coordinator.groups.consumer.steps import MemberSteps, RegexChange
from wirekafka.coordinator.groups.consumer.timers import ConsumerSessionKey
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.renewal import Renewal

MemberChange: TypeAlias = tuple[ConsumerMember, ConsumerMember]
"""A member before and after a heartbeat."""


class ConsumerHeartbeats:
    """Processes heartbeats of members that do not leave."""

    def __init__(self, context: ConsumerGroupContext, steps: MemberSteps):
        self._context = context
        self._steps = steps

    def heartbeat(
        self,
        group: ConsumerGroup,
        command: ConsumerHeartbeat,
        ticket: Ticket[ConsumerHeartbeatReply],
        turn: Turn,
    ) -> Steps[None] | None:
        """Respond with the member epoch, and with the assignment if it changed.

        A group that does not exist yet is created by the records of its first member. Returns
        the steps of a heartbeat that may cause a new assignment.
        """
        if self._is_all_quiet(group, command):
            self._respond(group, group.members[command.member_id], None, ticket, turn)
            return None
        group.check_room(command.member_id, command.instance_id, self._context.config.max_size)
        member = self._member(group, command, turn)
        updated = _updated(member, command)
        steps = self._steps
        if (
            updated is not member
            or not self._is_unchanging(group)
            or steps.is_assignment_due(group, group.epoch, turn.now_ms)
        ):
            return self._advance(group, (member, updated), command, ticket, turn)
        # As most heartbeats during a rebalance: the member moves towards a known target.
        goal = steps.last_target(group, member)
        moved = steps.reconcile(
            group, member, goal, command.owned, turn, has_new_subscription=False
        )
        if len(turn.records) == 1 and is_as_replayed(member, moved):
            turn.replayed = partial(group.put_moved, moved)
        self._respond_with_change(group, (member, moved), command, ticket, turn)
        return None

    def _respond_with_change(
        self,
        group: ConsumerGroup,
        change: MemberChange,
        command: ConsumerHeartbeat,
        ticket: Ticket[ConsumerHeartbeatReply],
        turn: Turn,
    ) -> None:
        """Respond, with the assignment only if it changed or if the request has all fields."""
        before, after = change
        has_news = (
            command.is_joining or command.is_full or not same_owned(before.assigned, after.assigned)
        )
        assignment = partitions_of(after.assigned) if has_news else None
        self._respond(group, after, assignment, ticket, turn)

    def _respond(
        self,
        group: ConsumerGroup,
        updated: ConsumerMember,
        assignment: Sequence[tuple[bytes, Sequence[int]]] | None,
        ticket: Ticket[ConsumerHeartbeatReply],
        turn: Turn,
    ) -> None:
        options = self._context.options(group.group_id)
        turn.schedule(
            ConsumerSessionKey(group.group_id, updated.member_id),
            turn.now_ms + options.session_timeout_ms,
        )
        turn.answer(
            ticket,
            ConsumerHeartbeatReply(
                updated.member_id, updated.epoch, options.heartbeat_interval_ms, assignment
            ),
        )

    def renew(
        self, group: ConsumerGroup, command: QuietHeartbeat[GroupTimes], now_ms: int
    ) -> Renewal[GroupTimes] | None:
        """Renew the session of a member to which nothing happens, as to most."""
        member = group.members.get(command.member_id)
        if (
            member is None
            or not self._is_settled(group, member, command.epoch)
            or not _is_from(member, command)
        ):
            return None
        options = self._context.options(group.group_id)
        key = ConsumerSessionKey(group.group_id, member.member_id)
        return key, now_ms + options.session_timeout_ms, options

    def _is_all_quiet(self, group: ConsumerGroup, command: ConsumerHeartbeat) -> bool:
        """Whether nothing changed, as in most heartbeats, so that comparisons can be skipped."""
        member = group.members.get(command.member_id)
        return (
            member is not None
            and self._is_settled(group, member, command.epoch)
            and command.owned is None
            and _repeats(member, command)
        )

    def _is_settled(self, group: ConsumerGroup, member: ConsumerMember, epoch: int) -> bool:
        """Whether a member of this epoch has its whole assignment, and none is due."""
        return (
            epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state is MemberState.STABLE
            and self._is_unchanging(group)
        )

    def _is_unchanging(self, group: ConsumerGroup) -> bool:
        """Whether the group's epoch stays unless the heartbeat has new metadata of its member."""
        return (
            not group.subscriptions.regexes
            and group.assignors.is_unanimous
            and self._steps.is_refreshed(group.group_id)
        )

    def _advance(
        self,
        group: ConsumerGroup,
        change: MemberChange,
        command: ConsumerHeartbeat,
        ticket: Ticket[ConsumerHeartbeatReply],
        turn: Turn,
    ) -> Steps[None]:
        """Apply a heartbeat that may begin an epoch or cause a new assignment, and respond.

        `change` is the member as it is stored and with the fields of the heartbeat.
        """
        member, updated = change
        steps = self._steps
        has_new_names = steps.store(group, member, updated, turn)
        regex = steps.follow_regex(group, member, updated, command.visible, turn)
        is_due = (
            has_new_names
            or regex is RegexChange.KNOWN
            or self._prefers_another(group, member, updated)
        )
        at = steps.enter_epoch(group, member, updated, turn, is_due)
        goal = yield from steps.target(group, member, updated, at, turn)
        moved = steps.reconcile(
            group,
            updated,
            goal,
            command.owned,
            turn,
            has_new_subscription=has_new_names or regex is not RegexChange.NONE,
        )
        self._respond_with_change(group, (member, moved), command, ticket, turn)

    def _member(
        self, group: ConsumerGroup, command: ConsumerHeartbeat, turn: Turn
    ) -> ConsumerMember:
        """Return the member that sent the heartbeat, or a new member; raises `KafkaError`."""
        member_id = command.member_id or command.fresh_id
        if command.instance_id is not None:
            return self._static_member(group, member_id, command, turn)
        member = group.members.get(member_id)
        if member is None:
            if not command.is_joining:
                raise unknown_member(group.group_id, member_id)
            return ConsumerMember(member_id=member_id)
        check_epoch(member, command.epoch, command.owned)
        return member

    def _static_member(
        self, group: ConsumerGroup, member_id: str, command: ConsumerHeartbeat, turn: Turn
    ) -> ConsumerMember:
        instance_id = command.instance_id
        assert instance_id is not None
        member = group.static_member(instance_id)
        if not command.is_joining:
            member = check_static(member, member_id, instance_id)
            check_epoch(member, command.epoch, command.owned)
            return member
        if member is None:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        if member.classic is None and member.epoch != STATIC_LEAVING_EPOCH:
            raise KafkaError(
                Error.UNRELEASED_INSTANCE_ID,
                (
                    f"Static member {member_id} with instance id {instance_id} cannot join the "
                    f"group because the instance id is owned by {member.member_id} member."
                ),
            )
        return replace_static(group, member, member_id, turn)

    def _prefers_another(
        self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember
    ) -> bool:
        if updated is member and group.assignors.is_unanimous:
            return False
        default = self._context.config.assignors[0]
        before = group.assignors.preferred() or default
        return before != (group.assignors.preferred_after(member, updated) or default)


def replace_static(
    group: ConsumerGroup, member: ConsumerMember, new_id: str, turn: Turn
) -> ConsumerMember:
    """Give a static member that rejoins a new id; it keeps its assignment."""
    returned = member._replace(member_id=new_id, epoch=0, previous_epoch=0)
    turn.records.extend(removal(group.group_id, member.member_id))
    turn.write(ConsumerMemberRecord.of(group.group_id, returned))
    turn.write(ConsumerTargetRecord.of(group.group_id, new_id, group.target(member.member_id)))
    turn.write(ConsumerCurrentRecord.of(group.group_id, returned))
    return returned


def check_static(member: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the static member; raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if member is None:
        raise KafkaError(Error.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            Error.FENCED_INSTANCE_ID,
            (
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{member.member_id}."
            ),
        )
    return member


def check_epoch(member: ConsumerMember, epoch: int, owned: Reported) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's current or previous one.

    The response with the current epoch may have been lost. The previous one is accepted as long as
    the member owns only partitions of its current assignment.
    """
    if epoch == 0 or epoch == member.epoch:
        return
    if epoch > member.epoch:
        size = "greater"
    elif epoch != member.previous_epoch or not _is_part(owned, member.assigned):
        size = "smaller"
    else:
        return
    raise KafkaError(
        Error.FENCED_MEMBER_EPOCH,
        (
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by "
            f"the group coordinator ({member.epoch}). The member must abandon all its partitions "
            "and rejoin."
        ),
    )


def unknown_member(group_id: str, member_id: str) -> KafkaError:
    """Return the UNKNOWN_MEMBER_ID error for a member id."""
    return KafkaError(
        Error.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def _is_part(owned: Reported, assigned: OwnedPartitions) -> bool:
    return owned is not None and all(
        topic in assigned and assigned[topic].keys() >= set(partitions)
        for topic, partitions in owned.items()
    )


def _updated(member: ConsumerMember, command: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with the fields of the heartbeat; itself if they are as before."""
    if _repeats(member, command):
        return member
    return member._replace(
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if command.rebalance_timeout_ms == -1
            else command.rebalance_timeout_ms
        ),
        assignor=member.assignor if command.assignor is None else command.assignor,
        topics=member.topics if command.topics is None else frozenset(command.topics),
        requested_topics=None if command.topics is None else tuple(command.topics),
        regex=member.regex if command.regex is None else command.regex,
        client_id=command.client_id,
        client_host=command.client_host,
        classic=None,
    )


def _repeats(member: ConsumerMember, command: ConsumerHeartbeat) -> bool:
    """Whether a heartbeat has no new metadata of its member, as most have not."""
    return (
        command.topics is None
        and command.regex is None
        and command.rack_id is None
        and command.assignor is None
        and command.rebalance_timeout_ms == -1
        and _is_from(member, command)
    )


def _is_from(
    member: ConsumerMember, command: ConsumerHeartbeat | QuietHeartbeat[GroupTimes]
) -> bool:
    """Whether the sender of a heartbeat is stored as it is, as a member of this protocol."""
    return (
        (command.instance_id is None or command.instance_id == member.instance_id)
        and command.client_id == member.client_id
        and command.client_host == member.client_host
        and member.requested_topics is None
        and member.classic is None
    )
