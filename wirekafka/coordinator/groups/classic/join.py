"""JoinGroup on a classic group: new members, members that rejoin, restarted static members."""

from __future__ import annotations

from wirekafka.coordinator.groups.classic.group import ClassicGroup, GroupState
from wirekafka.coordinator.groups.classic.member import ClassicMember
from wirekafka.coordinator.groups.classic.rebalance import Rebalances
from wirekafka.coordinator.groups.commands import Join, Joined, JoinRefused
from wirekafka.coordinator.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from wirekafka.coordinator.groups.group import Turn
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket


class Joins:
    """Processes JoinGroup requests to classic groups."""

    def __init__(self, config: GroupConfig, rebalances: Rebalances):
        self._config = config
        self._rebalances = rebalances

    def check(self, command: Join) -> None:
        """Raise `JoinRefused` for a request that is invalid for every group."""
        if not command.group_id:
            raise JoinRefused(Error.INVALID_GROUP_ID, command.member_id)
        bounds = (self._config.min_session_timeout_ms, self._config.max_session_timeout_ms)
        if not bounds[0] <= command.session_timeout_ms <= bounds[1]:
            raise JoinRefused(Error.INVALID_SESSION_TIMEOUT, command.member_id)

    def join(self, group: ClassicGroup, command: Join, ticket: Ticket[Joined], turn: Turn) -> None:
        """Respond to the request or park it; raises `JoinRefused`."""
        if not self._has_room(group, command.member_id):
            group.remove(command.member_id)
            raise JoinRefused(Error.GROUP_MAX_SIZE_REACHED)
        if not group.supports(command.protocol_type, command.protocols):
            raise JoinRefused(Error.INCONSISTENT_GROUP_PROTOCOL, command.member_id)
        if command.member_id:
            self._join_known(group, command, ticket, turn)
        elif command.instance_id is not None:
            self._join_static(group, command, ticket, turn)
        else:
            self._join_dynamic(group, command, ticket, turn)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._config.max_size
        member = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY:
                return True
            case GroupState.PREPARING_REBALANCE:
                # Members that have not rejoined may never do so: count only waiting members.
                waits = member is not None and member.join_ticket is not None
                return waits or group.awaiting_joins < limit
            case _:
                return member is not None or len(group.members) < limit

    def _join_dynamic(
        self, group: ClassicGroup, command: Join, ticket: Ticket[Joined], turn: Turn
    ) -> None:
        member_id = f"{command.client_id}-{command.fresh_id}"
        if not command.needs_known_member_id:
            self._add(group, member_id, command, ticket=ticket, turn=turn)
            return
        # If the response were lost, an unused member would remain: make the client send its
        # id in a second request (KIP-394).
        group.pending_joins.add(member_id)
        self._rebalances.await_pending(group, member_id, command.session_timeout_ms, turn)
        turn.answer(ticket, JoinRefused(Error.MEMBER_ID_REQUIRED, member_id))

    def _join_static(
        self, group: ClassicGroup, command: Join, ticket: Ticket[Joined], turn: Turn
    ) -> None:
        member_id = f"{command.instance_id}-{command.fresh_id}"
        if command.instance_id in group.static_member_ids:
            self._replace_static(group, member_id, command, ticket=ticket, turn=turn)
        else:
            self._add(group, member_id, command, ticket=ticket, turn=turn)

    def _join_known(
        self, group: ClassicGroup, command: Join, ticket: Ticket[Joined], turn: Turn
    ) -> None:
        member_id = command.member_id
        if member_id in group.pending_joins:
            if command.instance_id is not None:
                raise JoinRefused(Error.UNKNOWN_SERVER_ERROR, member_id)
            self._add(group, member_id, command, ticket=ticket, turn=turn)
            return
        try:
            member = group.validate_member(member_id, command.instance_id)
        except KafkaError as error:
            raise JoinRefused(error.error, member_id) from None
        if group.state is GroupState.EMPTY:
            raise JoinRefused(Error.UNKNOWN_MEMBER_ID, member_id)
        if _is_unchanged(group, member, command):
            turn.answer(ticket, group.joined(member_id))
            return
        self._update(group, member, command, ticket=ticket, turn=turn)
        self._rebalances.begin_or_go_on(group, turn)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        command: Join,
        *,
        ticket: Ticket[Joined],
        turn: Turn,
    ) -> None:
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is GroupState.EMPTY
        ):
            group.new_member_added = True
        group.add(
            ClassicMember(
                member_id=member_id,
                instance_id=command.instance_id,
                client_id=command.client_id,
                client_host=command.client_host,
                rebalance_timeout_ms=command.rebalance_timeout_ms,
                session_timeout_ms=command.session_timeout_ms,
                protocol_type=command.protocol_type,
                protocols=command.protocols,
                is_new=True,
                join_ticket=ticket,
            )
        )
        self._rebalances.await_pending(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, turn)
        self._rebalances.begin_or_go_on(group, turn)

    def _update(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        command: Join,
        *,
        ticket: Ticket[Joined],
        turn: Turn,
    ) -> None:
        member = group.change(
            group.set_protocols(member, command.protocols),
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            session_timeout_ms=command.session_timeout_ms,
        )
        # The client has given up on its earlier request, or it would not send another.
        turn.answer(
            group.park_join(member, ticket),
            JoinRefused(Error.REBALANCE_IN_PROGRESS, member.member_id),
        )

    def _replace_static(
        self,
        group: ClassicGroup,
        member_id: str,
        command: Join,
        *,
        ticket: Ticket[Joined],
        turn: Turn,
    ) -> None:
        assert command.instance_id is not None
        old_leader_id = group.leader_id
        old_id = group.static_member_ids[command.instance_id]
        member = group.rename_static(command.instance_id, member_id)
        self._rebalances.forget_session(group, old_id, turn)
        # Two processes with one instance id: the older one must be fenced.
        turn.answer(group.take_join(member), JoinRefused(Error.FENCED_INSTANCE_ID, old_id))
        turn.refuse(group.take_sync(group.members[member_id]), Error.FENCED_INSTANCE_ID)
        self._update(group, group.members[member_id], command, ticket=ticket, turn=turn)
        member = group.members[member_id]
        self._rebalances.restart_session(group, member, turn)
        match group.state:
            case GroupState.STABLE if group.select_protocol() == group.protocol_name:
                self._rebalances.store(
                    group,
                    {each.member_id: each.assignment for each in group.members.values()},
                    turn,
                )
                turn.answer(group.take_join(member), _kept(group, member, command, old_leader_id))
            case GroupState.PREPARING_REBALANCE:
                self._rebalances.go_on(group, turn)
            case _:
                # The leader was given the old member id, so its assignment would name that one.
                self._rebalances.begin(group, turn)


def _is_unchanged(group: ClassicGroup, member: ClassicMember, command: Join) -> bool:
    """Whether the member only needs the current generation's response again."""
    if member.protocols != command.protocols:
        return False
    match group.state:
        case GroupState.COMPLETING_REBALANCE:
            return True
        case GroupState.STABLE:
            # A leader rejoins when it wants a rebalance, such as for new partitions.
            return member.member_id != group.leader_id
        case _:
            return False


def _kept(
    group: ClassicGroup, member: ClassicMember, command: Join, old_leader_id: str | None
) -> Joined:
    """Return the response to a restarted static member, which keeps its assignment.

    The member must not compute a new assignment, even if it is the leader.
    """
    joined = group.joined(member.member_id)
    if command.can_skip_assignment:
        return joined._replace(skip_assignment=member.member_id == group.leader_id)
    return joined._replace(leader_id=old_leader_id or "", members=())
