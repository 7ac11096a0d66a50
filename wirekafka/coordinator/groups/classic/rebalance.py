"""The transitions of a classic group from one generation to the next, with their timeouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.coordinator.groups.classic.group import ClassicGroup, GroupState
from wirekafka.coordinator.groups.classic.member import ClassicMember
from wirekafka.coordinator.groups.classic.records import GroupRecord
from wirekafka.coordinator.groups.commands import JoinRefused, Synced
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.group import Turn
from wirekafka.errors import Error


class SessionKey(NamedTuple):
    """The timer of a member's session."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinKey:
    """The timer of a rebalance that waits for members to join."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncKey:
    """The timer of a generation that waits for members to sync."""

    group_id: str


class Rebalances:
    """Moves classic groups through a rebalance; every group that is passed must be a draft."""

    def __init__(self, config: GroupConfig):
        self._config = config

    def begin_or_go_on(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin a rebalance, or complete the current one if it waits for no other member."""
        if group.can_rebalance():
            self.begin(group, turn)
        else:
            self.go_on(group, turn)

    def begin(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin a rebalance: all members must rejoin."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_assignment(group, Error.REBALANCE_IN_PROGRESS, turn)
        turn.cancel(SyncKey(group.group_id))
        group.pending_syncs.clear()
        is_initial = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE, turn.now_ms)
        if is_initial:
            # The group is new: give other members time to join before partitions are assigned.
            delay_ms = self._config.initial_rebalance_delay_ms
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            turn.schedule(JoinKey(group.group_id), turn.now_ms + delay_ms)
        elif group.all_joined():
            self.complete_join(group, turn)
        else:
            self._wait_for_joins(group, turn)

    def go_on(self, group: ClassicGroup, turn: Turn) -> None:
        """Complete the rebalance if all members joined, unless the initial delay is running."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.all_joined()
        ):
            self.complete_join(group, turn)

    def join_over(self, group: ClassicGroup, turn: Turn) -> None:
        """Complete a rebalance whose timeout has passed, or extend its initial delay."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        is_initial = group.previous_state is GroupState.EMPTY
        if is_initial and group.new_member_added and group.initial_remaining_ms > 0:
            group.new_member_added = False
            past_ms = group.initial_delay_ms
            group.initial_delay_ms = min(
                self._config.initial_rebalance_delay_ms, group.initial_remaining_ms
            )
            group.initial_remaining_ms = max(group.initial_remaining_ms - past_ms, 0)
            turn.schedule(JoinKey(group.group_id), turn.now_ms + group.initial_delay_ms)
        else:
            self.complete_join(group, turn)

    def complete_join(self, group: ClassicGroup, turn: Turn) -> None:
        """Remove the members that did not rejoin, and begin the next generation."""
        turn.cancel(JoinKey(group.group_id))
        for member in list(group.members.values()):
            # A static member is removed only when its session expires: it may be restarting.
            if member.join_ticket is None and member.instance_id is None:
                group.remove(member.member_id)
                self.forget_session(group, member.member_id, turn)
        if not group.elect_joined_leader() and group.members:
            # Static members may still rejoin: wait for them or for the end of their sessions.
            self._wait_for_joins(group, turn)
            return
        group.begin_generation(turn.now_ms)
        if group.state is GroupState.EMPTY:
            self.store(group, {}, turn)
            return
        for member_id, member in group.members.items():
            turn.answer(group.take_join(member), group.joined(member_id))
            self.restart_session(group, member, turn)
            group.change(group.members[member_id], is_new=False)
            group.pending_syncs.add(member_id)
        turn.schedule(SyncKey(group.group_id), turn.now_ms + group.rebalance_timeout_ms())

    def sync_over(self, group: ClassicGroup, turn: Turn) -> None:
        """Remove the members that sent no SyncGroup within the rebalance timeout."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        missing = list(group.pending_syncs)
        if not missing:
            return
        for member_id in missing:
            group.remove(member_id)
            self.forget_session(group, member_id, turn)
        self.begin(group, turn)

    def synced(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        """Note that a member sent SyncGroup."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            turn.cancel(SyncKey(group.group_id))

    def session_over(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        """Remove a member whose session expired."""
        if member_id in group.pending_joins:
            group.remove(member_id)
            self.go_on(group, turn)
            return
        member = group.members.get(member_id)
        if member is not None and not member.heartbeat_satisfied():
            self.drop(group, member, turn)
            self.after_removal(group, turn)

    def drop(self, group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
        """Remove a member; its parked requests get UNKNOWN_MEMBER_ID."""
        turn.answer(member.join_ticket, JoinRefused(Error.UNKNOWN_MEMBER_ID))
        turn.refuse(member.sync_ticket, Error.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id)
        self.forget_session(group, member.member_id, turn)

    def after_removal(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin or continue a rebalance after members were removed."""
        if group.state is not GroupState.EMPTY:
            self.begin_or_go_on(group, turn)

    def fail_assignment(self, group: ClassicGroup, error: Error, turn: Turn) -> None:
        """Clear all assignments and respond to parked SyncGroups with the error."""
        for member in group.members.values():
            group.change(member, assignment=b"", sync_ticket=None)
            if member.sync_ticket is not None:
                turn.refuse(member.sync_ticket, error)
                self.restart_session(group, member, turn)

    def hand_out(self, group: ClassicGroup, assignments: dict[str, bytes], turn: Turn) -> None:
        """Respond to all parked SyncGroups with the members' assignments."""
        for member in group.members.values():
            if member.sync_ticket is not None:
                turn.answer(
                    group.take_sync(member),
                    Synced(
                        group.protocol_type,
                        group.protocol_name,
                        assignments.get(member.member_id, b""),
                    ),
                )
                self.restart_session(group, member, turn)

    def store(self, group: ClassicGroup, assignments: dict[str, bytes], turn: Turn) -> None:
        """Write the group's record with these assignments."""
        turn.write(GroupRecord(group.group_id, group.to_record(turn.now_ms, assignments)))

    def restart_session(self, group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
        """Restart the session timer of a member."""
        turn.schedule(
            SessionKey(group.group_id, member.member_id), turn.now_ms + member.session_timeout_ms
        )

    def await_pending(
        self, group: ClassicGroup, member_id: str, timeout_ms: int, turn: Turn
    ) -> None:
        """Start the session timer of a pending or new member with this timeout."""
        turn.schedule(SessionKey(group.group_id, member_id), turn.now_ms + timeout_ms)

    def forget_session(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        """Cancel the session timer of a removed member."""
        turn.cancel(SessionKey(group.group_id, member_id))

    def _wait_for_joins(self, group: ClassicGroup, turn: Turn) -> None:
        turn.schedule(JoinKey(group.group_id), turn.now_ms + group.rebalance_timeout_ms())
