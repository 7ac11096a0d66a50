"""Streams groups (KIP-1071) in their shard: commands, timers, records, offsets."""

from __future__ import annotations

from functools import partial

from wirekafka.coordinator.groups.classic.group import ClassicGroup
from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    FetchAllOffsets,
    FetchOffsets,
    QuietHeartbeat,
)
from wirekafka.coordinator.groups.group import Group, GroupKind, Turn
from wirekafka.coordinator.groups.streams.commands import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribeStreamsGroup,
    StreamsHeartbeat,
    StreamsHeartbeatReply,
)
from wirekafka.coordinator.groups.streams.commits import check_commit, check_fetch
from wirekafka.coordinator.groups.streams.config import StreamsGroupContext, StreamsGroupOptions
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.heartbeat import StreamsHeartbeats, may_assign
from wirekafka.coordinator.groups.streams.member import StreamsMember, TaskState
from wirekafka.coordinator.groups.streams.membership import leave, remove
from wirekafka.coordinator.groups.streams.records import (
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
)
from wirekafka.coordinator.groups.streams.soft import NO_PROGRESS, SoftStates
from wirekafka.coordinator.groups.streams.target import StreamsTargetEpoch, compute_targets
from wirekafka.coordinator.groups.streams.timers import (
    StreamsDelayKey,
    StreamsRebalanceKey,
    StreamsSessionKey,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.renewal import Renewal


class StreamsKind(GroupKind[StreamsGroup]):
    """Processes the commands, timers and records of streams groups."""

    group = StreamsGroup

    def __init__(self, context: StreamsGroupContext, groups: dict[str, Group]):
        super().__init__(groups)
        self._context = context
        self._soft = SoftStates()
        self._heartbeats = StreamsHeartbeats(context, self._soft)
        self.commands = {StreamsHeartbeat: self.heartbeat, DescribeStreamsGroup: self.describe}
        self.timers = {
            StreamsSessionKey: self._member_lost,
            StreamsRebalanceKey: self._revocation_over,
            StreamsDelayKey: self._delay_over,
        }
        self.records = {
            StreamsEpochRecord: self._replay_epoch,
            StreamsMemberRecord: self._replay_member,
            StreamsTargetEpochRecord: self._replay,
            StreamsTargetRecord: self._replay,
            StreamsCurrentRecord: self._replay,
            StreamsTopologyRecord: self._replay,
        }

    # Commands

    def heartbeat(
        self, command: StreamsHeartbeat, ticket: Ticket[StreamsHeartbeatReply], turn: Turn
    ) -> None:
        """Process StreamsGroupHeartbeat: join, renew or leave."""
        if command.is_leaving:
            leave(self._known(command.group_id), command, ticket, turn, self._soft)
            return
        group = self._joined(command, turn)
        is_new = self.groups.get(command.group_id) is not group
        self._heartbeats.heartbeat(
            group, command, ticket, turn, is_new=is_new, id_is_used=command.group_id in self.groups
        )

    def renew(
        self, group: StreamsGroup, command: QuietHeartbeat[StreamsGroupOptions], now_ms: int
    ) -> Renewal[StreamsGroupOptions] | None:
        """Renew the session of a stable member."""
        return self._heartbeats.renew(group, command, now_ms)

    def describe(
        self, command: DescribeStreamsGroup, ticket: Ticket[DescribedStreamsGroup], turn: Turn
    ) -> None:
        """Respond to StreamsGroupDescribe."""
        group = self._known(command.group_id)
        if group.topology is None:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
        progress = self._soft.get(group.group_id).progress
        configured = self._soft.described(group.group_id)
        turn.answer(
            ticket,
            DescribedStreamsGroup(
                state=group.state.value,
                epoch=group.epoch,
                assignment_epoch=group.assignment_epoch,
                assignor=self._context.config.assignors[0],
                topology=group.topology,
                configured=configured if configured is not None and configured.is_ready else None,
                members=[
                    DescribedStreamsMember(
                        group.members[id], group.target(id), *progress.get(id, NO_PROGRESS)
                    )
                    for id in group.member_ids()
                ],
            ),
        )

    def _known(self, group_id: str) -> StreamsGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise _not_a_streams_group(group_id)
        return group

    def _joined(self, command: StreamsHeartbeat, turn: Turn) -> StreamsGroup:
        """Return the member's group, or a new group, which may replace an empty classic group."""
        group = self.groups.get(command.group_id)
        if isinstance(group, StreamsGroup):
            return group
        if group is None:
            if command.is_joining:
                return StreamsGroup(command.group_id)
            raise KafkaError(
                Error.GROUP_ID_NOT_FOUND, f"Streams group {command.group_id} not found."
            )
        if command.is_joining and isinstance(group, ClassicGroup) and group.is_empty:
            turn.records.extend(group.tombstones())
            return StreamsGroup(command.group_id)
        raise _not_a_streams_group(command.group_id)

    # Timers

    def _member_lost(self, key: StreamsSessionKey, turn: Turn) -> None:
        """Remove a member whose session timed out."""
        found = self._find(key)
        if found is not None:
            remove(*found, turn)

    def _revocation_over(self, key: StreamsRebalanceKey, turn: Turn) -> None:
        """Remove a member that did not revoke its tasks in time."""
        found = self._find(key)
        if found is None:
            return
        group, member = found
        if member.epoch > 0 and member.state is TaskState.UNREVOKED_TASKS:
            remove(group, member, turn)

    def _find(
        self, key: StreamsSessionKey | StreamsRebalanceKey
    ) -> tuple[StreamsGroup, StreamsMember] | None:
        group = self.groups.get(key.group_id)
        if not isinstance(group, StreamsGroup) or key.member_id not in group.members:
            return None
        return group, group.members[key.member_id]

    def _delay_over(self, key: StreamsDelayKey, turn: Turn) -> None:
        """Compute the first targets of a group after its initial rebalance delay."""
        turn.then(partial(self._soft.delayed.discard, key.group_id))
        group = self.groups.get(key.group_id)
        if (
            key.group_id not in self._soft.delayed
            or not isinstance(group, StreamsGroup)
            or group.is_empty
            or group.epoch <= group.assignment_epoch
            or not may_assign(group, self._context, turn.now_ms)
        ):
            return
        soft = self._soft.get(key.group_id)
        if soft.configured is None:
            # The next heartbeat configures the topology and computes the targets.
            return
        at = StreamsTargetEpoch(
            group.epoch, soft.configured, group.version.configs, soft.progress, turn.now_ms
        )
        records, _ = compute_targets(group, None, at)
        turn.records.extend(records)

    # Metadata and loading

    def topics_changed(self, group: StreamsGroup, topics: frozenset[str], turn: Turn) -> None:
        """Make the next heartbeat of any member check for changed topics."""
        turn.then(partial(self._soft.forget_topics, group.group_id))

    def loaded(self, group: StreamsGroup, turn: Turn) -> None:
        """Start new sessions: members could not send heartbeats while the group was loaded."""
        session_ms = self._context.options(group.group_id).session_timeout_ms
        for member in group.members.values():
            turn.schedule(
                StreamsSessionKey(group.group_id, member.member_id), turn.now_ms + session_ms
            )
            if member.state is TaskState.UNREVOKED_TASKS:
                turn.schedule(
                    StreamsRebalanceKey(group.group_id, member.member_id),
                    turn.now_ms + member.rebalance_timeout_ms,
                )

    # Offsets

    def check_commit(self, group: StreamsGroup, command: CommitOffsets, turn: Turn) -> None:
        """Check the member epoch; older epochs are permitted for tasks owned since then."""
        check_commit(group, command)

    def check_transactional_commit(
        self, group: StreamsGroup, command: CommitTransactionOffsets
    ) -> None:
        """Check the member epoch if the producer names a member (since KIP-447)."""
        check_commit(group, command)

    def check_fetch(self, group: StreamsGroup, command: FetchOffsets | FetchAllOffsets) -> None:
        """Check the member epoch if the client sends one."""
        check_fetch(group, command)

    # Records

    def _replay_epoch(self, record: StreamsEpochRecord) -> None:
        if record.value is not None:
            self._replay(record)
            return
        self._soft.wrote()
        # A classic group may already be in its place: it writes these tombstones.
        self._soft.forget(record.group_id)
        if isinstance(self.groups.get(record.group_id), StreamsGroup):
            del self.groups[record.group_id]

    def _replay_member(self, record: StreamsMemberRecord) -> None:
        self._replay(record)
        group = self.groups.get(record.group_id)
        if record.value is None and isinstance(group, StreamsGroup):
            self._soft.member_left(group.group_id, record.member_id, was_last=group.is_empty)

    def _replay(self, record: StreamsRecord) -> None:
        self._soft.wrote()
        group = self.groups.get(record.group_id)
        if isinstance(group, StreamsGroup):
            group.replay(record)
        elif record.value is not None:
            # An offset committed by a non-member may have created an empty classic group.
            group = self.groups[record.group_id] = StreamsGroup(record.group_id)
            group.replay(record)


def _not_a_streams_group(group_id: str) -> KafkaError:
    return KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
