"""Removes members from consumer groups, whether they leave or are expelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wirekafka.coordinator.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatReply
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupContext
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.heartbeat import check_static, unknown_member
from wirekafka.coordinator.groups.consumer.member import (
    NOTHING_OWNED,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
)
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerCurrentRecord,
    ConsumerEpochRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    removal,
)
from wirekafka.coordinator.groups.consumer.timers import (
    ConsumerJoinKey,
    ConsumerRebalanceKey,
    ConsumerSessionKey,
    ConsumerSyncKey,
)
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.coordinator.topics import topics_hash
from wirekafka.runtime.machine import Ticket

Downgrade = Callable[[ConsumerGroup, Sequence[ConsumerMember], Turn], Steps[None] | None]
"""Returns the steps that convert a group without these members to classic; None if it stays."""


class Departures:
    """Processes the departure of members."""

    def __init__(self, context: ConsumerGroupContext, downgrade: Downgrade):
        self._context = context
        self._downgrade = downgrade

    def leave(
        self,
        group: ConsumerGroup,
        command: ConsumerHeartbeat,
        ticket: Ticket[ConsumerHeartbeatReply],
        turn: Turn,
    ) -> Steps[None] | None:
        """Process a heartbeat with epoch -1, or -2 from a static member that will rejoin."""
        member = self._leaver(group, command)
        turn.answer(ticket, ConsumerHeartbeatReply(command.member_id, command.epoch))
        if command.instance_id is not None and command.epoch == STATIC_LEAVING_EPOCH:
            # Its partitions stay assigned to it until its session expires.
            turn.write(
                ConsumerCurrentRecord.of(
                    group.group_id,
                    member._replace(
                        epoch=STATIC_LEAVING_EPOCH,
                        revoking=NOTHING_OWNED,
                        assigned={
                            topic: dict.fromkeys(partitions, 0)
                            for topic, partitions in member.assigned.items()
                        },
                    ),
                )
            )
            return None
        return self.remove(group, [member], turn)

    def _leaver(self, group: ConsumerGroup, command: ConsumerHeartbeat) -> ConsumerMember:
        if command.instance_id is not None:
            return check_static(
                group.static_member(command.instance_id), command.member_id, command.instance_id
            )
        member = group.members.get(command.member_id)
        if member is None:
            raise unknown_member(group.group_id, command.member_id)
        return member

    def remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], turn: Turn
    ) -> Steps[None] | None:
        """Remove members and begin a new epoch, in which other members get their partitions.

        Returns the remaining steps if this converts the group to a classic group.
        """
        if not members:
            return None
        for member in members:
            _cancel_timers(group.group_id, member.member_id, turn)
        downgrade = self._downgrade(group, members, turn)
        if downgrade is not None:
            return downgrade
        after = group.subscriptions.copy()
        for member in members:
            turn.records.extend(removal(group.group_id, member.member_id))
            after.change(member, None)
        for regex in group.subscriptions.regexes.keys() - after.regexes.keys():
            turn.write(ConsumerRegexRecord(group.group_id, regex, None))
            after.forget(regex)
        epoch = group.epoch + 1
        turn.write(
            ConsumerEpochRecord.of(
                group.group_id, epoch, topics_hash(after.topics, self._context.topics)
            )
        )
        if len(members) == len(group.members):
            turn.write(ConsumerTargetEpochRecord.of(group.group_id, epoch, 0))
        return None


def _cancel_timers(group_id: str, member_id: str, turn: Turn) -> None:
    for key in (ConsumerSessionKey, ConsumerRebalanceKey, ConsumerJoinKey, ConsumerSyncKey):
        turn.cancel(key(group_id, member_id))
