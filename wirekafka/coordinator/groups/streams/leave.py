"""Removes members from streams groups, whether they leave or are expelled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.streams.commands import StreamsHeartbeat, StreamsHeartbeatReply
from wirekafka.coordinator.groups.streams.commits import unknown_member
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import STATIC_LEAVING_EPOCH, StreamsMember
from wirekafka.coordinator.groups.streams.membership import static_member
from wirekafka.coordinator.groups.streams.records import (
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsTargetEpochRecord,
    removal,
)
from wirekafka.coordinator.groups.streams.soft import SoftStates
from wirekafka.coordinator.groups.streams.tasks import NOTHING_OWNED
from wirekafka.coordinator.groups.streams.timers import StreamsRebalanceKey, StreamsSessionKey
from wirekafka.errors import KafkaError
from wirekafka.runtime.machine import Ticket


def leave(
    group: StreamsGroup,
    command: StreamsHeartbeat,
    ticket: Ticket[StreamsHeartbeatReply],
    turn: Turn,
    soft: SoftStates,
) -> None:
    """Process a heartbeat with epoch -1, or -2 from a static member that will rejoin.

    A request to shut the application down counts even from an unknown member.
    """
    if command.wants_shutdown:
        turn.then(partial(soft.ask_for_shutdown, group.group_id, command.member_id))
    try:
        member = _leaver(group, command)
    except KafkaError as error:
        turn.answer(ticket, error)
        return
    turn.answer(ticket, StreamsHeartbeatReply(command.member_id, command.epoch))
    if command.instance_id is None or command.epoch != STATIC_LEAVING_EPOCH:
        remove(group, member, turn)
        return
    # Its tasks stay assigned to it until its session expires.
    away = replace(
        member,
        epoch=STATIC_LEAVING_EPOCH,
        revoking=NOTHING_OWNED,
        assigned=member.assigned.with_epochs_reset(),
    )
    turn.write(StreamsCurrentRecord.of(group.group_id, away))


def remove(group: StreamsGroup, member: StreamsMember, turn: Turn) -> None:
    """Remove a member and begin a new epoch, in which other members get its tasks."""
    turn.cancel(StreamsSessionKey(group.group_id, member.member_id))
    turn.cancel(StreamsRebalanceKey(group.group_id, member.member_id))
    turn.records.extend(removal(group.group_id, member.member_id))
    version = group.version._replace(epoch=group.epoch + 1)
    turn.write(StreamsEpochRecord.of(group.group_id, version))
    if len(group.members) == 1:
        turn.write(StreamsTargetEpochRecord.of(group.group_id, version.epoch, 0))


def _leaver(group: StreamsGroup, command: StreamsHeartbeat) -> StreamsMember:
    if command.instance_id is not None:
        return static_member(group, command.member_id, command.instance_id)
    member = group.members.get(command.member_id)
    if member is None:
        raise unknown_member(group.group_id, command.member_id)
    return member
