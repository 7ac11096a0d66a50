"""How a classic group goes from one generation to the next: who is waited for, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.coordinator.classic_group import ClassicGroup, GroupState
from wirekafka.coordinator.classic_member import ClassicMember
from wirekafka.coordinator.group_commands import JoinRefused, Synced
from wirekafka.coordinator.group_config import GroupConfig
from wirekafka.coordinator.group_records import GroupRecord
from wirekafka.coordinator.timers import Timers
from wirekafka.coordinator.turn import Turn
from wirekafka.errors import Error


class SessionKey(NamedTuple):
    """The timer of a member that must be heard of."""

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
    """The transitions that joins, syncs, leaves and timeouts share."""

    def __init__(self, config: GroupConfig, timers: Timers):
        self._config = config
        self._timers = timers

    def begin_or_go_on(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin a rebalance; one that is under way may have all it waits for now."""
        if group.can_rebalance():
            self.begin(group, turn)
        else:
            self.go_on(group, turn)

    def begin(self, group: ClassicGroup, turn: Turn) -> None:
        """Have every member join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_assignment(group, Error.REBALANCE_IN_PROGRESS, turn)
        self._timers.cancel(SyncKey(group.group_id))
        group.pending_syncs.clear()
        is_initial = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE, turn.now_ms)
        if is_initial:
            # The group is new: give other members time to show up before partitions move.
            delay_ms = self._config.initial_rebalance_delay_ms
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            self._timers.schedule(JoinKey(group.group_id), turn.now_ms + delay_ms)
        elif group.all_joined():
            self.complete_join(group, turn)
        else:
            self._wait_for_joins(group, turn)

    def go_on(self, group: ClassicGroup, turn: Turn) -> None:
        """End the wait if nobody is missing; the initial delay is waited for in any case."""
        if (group.state is GroupState.PREPARING_REBALANCE
                and group.previous_state is not GroupState.EMPTY and group.all_joined()):
            self.complete_join(group, turn)

    def join_over(self, group: ClassicGroup, turn: Turn) -> None:
        """The time to join is up, unless it was the initial delay and members still pour in."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        is_initial = group.previous_state is GroupState.EMPTY
        if is_initial and group.new_member_added and group.initial_remaining_ms > 0:
            group.new_member_added = False
            past_ms = group.initial_delay_ms
            group.initial_delay_ms = min(
                self._config.initial_rebalance_delay_ms, group.initial_remaining_ms)
            group.initial_remaining_ms = max(group.initial_remaining_ms - past_ms, 0)
            self._timers.schedule(JoinKey(group.group_id), turn.now_ms + group.initial_delay_ms)
        else:
            self.complete_join(group, turn)

    def complete_join(self, group: ClassicGroup, turn: Turn) -> None:
        """Leave out who did not come, and begin the next generation."""
        self._timers.cancel(JoinKey(group.group_id))
        for member in list(group.members.values()):
            # A static member is only given up by its session: it may just be restarting.
            if member.join_ticket is None and member.instance_id is None:
                group.remove(member.member_id)
                self.forget_session(group, member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Nobody is there, but some may still come back: wait on, or for their sessions.
            self._wait_for_joins(group, turn)
            return
        group.begin_generation(turn.now_ms)
        if group.state is GroupState.EMPTY:
            self.store(group, {}, turn)
            return
        for member in group.members.values():
            turn.answer(group.take_join(member), group.joined(member.member_id))
            self.restart_session(group, member, turn.now_ms)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._timers.schedule(
            SyncKey(group.group_id), turn.now_ms + group.rebalance_timeout_ms())

    def sync_over(self, group: ClassicGroup, turn: Turn) -> None:
        """Members that joined but did not sync in time are gone."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        missing = list(group.pending_syncs)
        if not missing:
            return
        for member_id in missing:
            group.remove(member_id)
            self.forget_session(group, member_id)
        self.begin(group, turn)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member asked for its assignment."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._timers.cancel(SyncKey(group.group_id))

    def session_over(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        """A member was not heard of in time."""
        if member_id in group.pending_joins:
            group.remove(member_id)
            self.go_on(group, turn)
            return
        member = group.members.get(member_id)
        if member is not None and not member.heartbeat_satisfied():
            self.drop(group, member, turn)
            self.after_removal(group, turn)

    def drop(self, group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
        """Remove a member; a join of its own that still waits is told to start over."""
        turn.answer(group.take_join(member), JoinRefused(Error.UNKNOWN_MEMBER_ID))
        ticket, member.sync_ticket = member.sync_ticket, None
        turn.refuse(ticket, Error.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id)
        self.forget_session(group, member.member_id)

    def after_removal(self, group: ClassicGroup, turn: Turn) -> None:
        """Members are gone: their partitions must go to others."""
        if group.state is not GroupState.EMPTY:
            self.begin_or_go_on(group, turn)

    def fail_assignment(self, group: ClassicGroup, error: Error, turn: Turn) -> None:
        """This generation will not be: forget assignments, tell everybody who waits for one."""
        for member in group.members.values():
            member.assignment = b""
            if member.sync_ticket is not None:
                ticket, member.sync_ticket = member.sync_ticket, None
                turn.refuse(ticket, error)
                self.restart_session(group, member, turn.now_ms)

    def hand_out(self, group: ClassicGroup, assignments: dict[str, bytes], turn: Turn) -> None:
        """Tell everybody who waits its part."""
        for member in group.members.values():
            if member.sync_ticket is not None:
                ticket, member.sync_ticket = member.sync_ticket, None
                turn.answer(ticket, Synced(
                    group.protocol_type, group.protocol_name,
                    assignments.get(member.member_id, b""),
                ))
                self.restart_session(group, member, turn.now_ms)

    def store(self, group: ClassicGroup, assignments: dict[str, bytes], turn: Turn) -> None:
        """Write the group with these assignments."""
        turn.write(GroupRecord(group.group_id, group.to_record(turn.now_ms, assignments)))

    def restart_session(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        """The member was heard of."""
        self._timers.schedule(
            SessionKey(group.group_id, member.member_id), now_ms + member.session_timeout_ms)

    def await_pending(self, group: ClassicGroup, member_id: str, due_ms: int) -> None:
        """Give a member that was only told its id, or is new, until then."""
        self._timers.schedule(SessionKey(group.group_id, member_id), due_ms)

    def forget_session(self, group: ClassicGroup, member_id: str) -> None:
        """The member is gone."""
        self._timers.cancel(SessionKey(group.group_id, member_id))

    def _wait_for_joins(self, group: ClassicGroup, turn: Turn) -> None:
        self._timers.schedule(
            JoinKey(group.group_id), turn.now_ms + group.rebalance_timeout_ms())
