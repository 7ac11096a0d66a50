"""SyncGroup, Heartbeat and LeaveGroup on a classic group."""

from __future__ import annotations

from typing import assert_never

from wirekafka.coordinator.classic_group import ClassicGroup, GroupState
from wirekafka.coordinator.group_commands import Heartbeat, Leave, Leaver, Sync
from wirekafka.coordinator.rebalance import Rebalances
from wirekafka.coordinator.turn import Turn
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Ticket


class Memberships:
    """What members do between joins."""

    def __init__(self, rebalances: Rebalances):
        self._rebalances = rebalances

    def sync(self, group: ClassicGroup, command: Sync, ticket: Ticket, turn: Turn) -> None:
        """Answer or park; the leader's sync releases everybody's."""
        member = group.validate_member(command.member_id, command.instance_id)
        if command.generation_id != group.generation_id:
            raise KafkaError(Error.ILLEGAL_GENERATION)
        if (_differs(command.protocol_type, group.protocol_type)
                or _differs(command.protocol_name, group.protocol_name)):
            raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL)
        match group.state:
            case GroupState.EMPTY:
                raise KafkaError(Error.UNKNOWN_MEMBER_ID)
            case GroupState.PREPARING_REBALANCE:
                raise KafkaError(Error.REBALANCE_IN_PROGRESS)
            case GroupState.COMPLETING_REBALANCE:
                earlier, member.sync_ticket = member.sync_ticket, ticket
                turn.refuse(earlier, Error.REBALANCE_IN_PROGRESS)
                self._rebalances.synced(group, member.member_id)
                if group.leader_id == member.member_id:
                    self._rebalances.store(group, command.assignments, turn)
                    self._rebalances.hand_out(group, command.assignments, turn)
            case GroupState.STABLE:
                self._rebalances.synced(group, member.member_id)
                turn.answer(ticket, group.synced(member))
            case _:
                assert_never(group.state)

    def heartbeat(self, group: ClassicGroup, command: Heartbeat, turn: Turn) -> None:
        """Keep the member; raises what it should know."""
        member = group.validate_member(command.member_id, command.instance_id)
        if command.generation_id != group.generation_id:
            raise KafkaError(Error.ILLEGAL_GENERATION)
        if group.state is GroupState.EMPTY:
            raise KafkaError(Error.UNKNOWN_MEMBER_ID)
        self._rebalances.restart_session(group, member, turn.now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(Error.REBALANCE_IN_PROGRESS)

    def leave(self, group: ClassicGroup, command: Leave, turn: Turn) -> list[Error]:
        """Remove members, rebalancing once for all of them; one error each."""
        errors = [self._leave_one(group, leaver, turn) for leaver in command.members]
        if Error.NONE in errors:
            self._rebalances.after_removal(group, turn)
        return errors

    def _leave_one(self, group: ClassicGroup, leaver: Leaver, turn: Turn) -> Error:
        member_id = leaver.member_id
        if not member_id:
            # An administrator removes a static member by its instance id alone.
            static_id = group.static_member_ids.get(leaver.instance_id or "")
            if leaver.instance_id is None or static_id is None:
                return Error.UNKNOWN_MEMBER_ID
            self._rebalances.drop(group, group.members[static_id], turn)
            return Error.NONE
        if member_id in group.pending_joins:
            group.remove(member_id)
            self._rebalances.forget_session(group, member_id)
            return Error.NONE
        try:
            member = group.validate_member(member_id, leaver.instance_id)
        except KafkaError as error:
            return error.error
        self._rebalances.drop(group, member, turn)
        return Error.NONE


def _differs(told: str | None, agreed: str | None) -> bool:
    return told is not None and agreed is not None and told != agreed
