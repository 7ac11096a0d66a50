"""Finds, adds and replaces members of streams groups (KIP-1071)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.streams.commands import StreamsHeartbeat, StreamsHeartbeatReply
from wirekafka.coordinator.groups.streams.commits import unknown_member
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import STATIC_LEAVING_EPOCH, StreamsMember
from wirekafka.coordinator.groups.streams.records import (
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsMemberRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    removal,
)
from wirekafka.coordinator.groups.streams.soft import SoftStates
from wirekafka.coordinator.groups.streams.tasks import NOTHING_OWNED
from wirekafka.coordinator.groups.streams.timers import StreamsRebalanceKey, StreamsSessionKey
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket


def find_member(
    group: StreamsGroup, command: StreamsHeartbeat, turn: Turn
) -> tuple[StreamsMember, StreamsMember | None]:
    """Return the heartbeat's sender, or a new member, and the static member that it replaces.

    Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID.
    """
    if command.instance_id is not None:
        return _static_member(group, command, command.instance_id, turn)
    member = group.members.get(command.member_id)
    if member is None:
        if not command.is_joining:
            raise unknown_member(group.group_id, command.member_id)
        return _new_member(command.member_id), None
    _check_epoch(member, command)
    return member, None


def static_member(group: StreamsGroup, member_id: str, instance_id: str) -> StreamsMember:
    """Return a static member; raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(Error.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            Error.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def updated_member(member: StreamsMember, command: StreamsHeartbeat) -> StreamsMember:
    """Return the member with the fields of the heartbeat."""
    topology = command.topology

    def changed(value: str | None, present: str | None) -> str | None:
        return present if value is None else value

    return replace(
        member,
        instance_id=changed(command.instance_id, member.instance_id),
        rack_id=changed(command.rack_id, member.rack_id),
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if command.rebalance_timeout_ms == -1
            else command.rebalance_timeout_ms
        ),
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        client_id=command.client_id,
        client_host=command.client_host,
        process_id=changed(command.process_id, member.process_id),
        tags=member.tags if command.tags is None else command.tags,
        # A process that starts again may have no endpoint any more.
        endpoint=command.endpoint
        if command.is_joining or command.endpoint is not None
        else member.endpoint,
    )


def _static_member(
    group: StreamsGroup, command: StreamsHeartbeat, instance_id: str, turn: Turn
) -> tuple[StreamsMember, StreamsMember | None]:
    if not command.is_joining:
        member = static_member(group, command.member_id, instance_id)
        _check_epoch(member, command)
        return member, None
    before = group.static_member(instance_id)
    if before is None:
        return group.members.get(command.member_id) or _new_member(command.member_id), None
    if before.epoch != STATIC_LEAVING_EPOCH:
        raise KafkaError(
            Error.UNRELEASED_INSTANCE_ID,
            f"Static member {command.member_id} with instance id {instance_id} cannot join the "
            f"group because the instance id is owned by {before.member_id} member.",
        )
    returned = replace(before, member_id=command.member_id, epoch=0, previous_epoch=0)
    turn.records.extend(removal(group.group_id, before.member_id))
    turn.write(StreamsMemberRecord.of(group.group_id, returned))
    turn.write(
        StreamsTargetRecord.of(group.group_id, returned.member_id, group.target(before.member_id))
    )
    turn.write(StreamsCurrentRecord.of(group.group_id, returned))
    return returned, None if before.member_id == returned.member_id else before


def _new_member(member_id: str) -> StreamsMember:
    return StreamsMember(member_id=member_id, process_id="")


def _check_epoch(member: StreamsMember, command: StreamsHeartbeat) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's current or previous one.

    The response with the current epoch may have been lost. The previous one is accepted as long as
    the member owns only tasks of its current assignment.
    """
    epoch = command.epoch
    if epoch in (0, member.epoch):
        return
    if epoch > member.epoch:
        size = "greater"
    elif (
        epoch == member.previous_epoch
        and command.owned is not None
        and member.assigned.includes(command.owned)
    ):
        return
    else:
        size = "smaller"
    raise KafkaError(
        Error.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


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
