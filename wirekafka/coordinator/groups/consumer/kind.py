"""Consumer groups (KIP-848) in their shard: commands, timers, records, offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from wirekafka.coordinator.groups.assignment import Assignment
from wirekafka.coordinator.groups.classic.group import ClassicGroup
from wirekafka.coordinator.groups.classic.join import Joins
from wirekafka.coordinator.groups.classic.kind import ClassicKind
from wirekafka.coordinator.groups.classic.rebalance import Rebalances
from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    FetchAllOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leave,
    QuietHeartbeat,
    Sync,
)
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.consumer.classic import ClassicMembers
from wirekafka.coordinator.groups.consumer.commands import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from wirekafka.coordinator.groups.consumer.commits import check_commit, check_fetch
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupContext
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.heartbeat import ConsumerHeartbeats
from wirekafka.coordinator.groups.consumer.leave import Departures
from wirekafka.coordinator.groups.consumer.member import ConsumerMember, MemberState
from wirekafka.coordinator.groups.consumer.migration import Migration, replayed_in_steps
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerCurrentRecord,
    ConsumerEpochRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetRecord,
    ConsumerTopicsRecord,
)
from wirekafka.coordinator.groups.consumer.steps import MemberSteps, write_lookup
from wirekafka.coordinator.groups.consumer.subscriptions import topics_in_order
from wirekafka.coordinator.groups.consumer.timers import (
    ConsumerJoinKey,
    ConsumerRebalanceKey,
    ConsumerRegexKey,
    ConsumerSessionKey,
    ConsumerSyncKey,
)
from wirekafka.coordinator.groups.group import Group, GroupKind, Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.coordinator.java_order import HashOrder, uuid_hash_code
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.renewal import Renewal

C = TypeVar("C", Join, Sync, Heartbeat, Leave)
R = TypeVar("R")
_NamedPartitions = list[tuple[bytes, str, Sequence[int]]]


class ConsumerKind(GroupKind[ConsumerGroup]):
    """Processes the commands, timers and records of consumer groups."""

    group = ConsumerGroup

    def __init__(
        self, context: ConsumerGroupContext, config: GroupConfig, groups: dict[str, Group]
    ):
        super().__init__(groups)
        self._context = context
        self._steps = MemberSteps(context)
        self._heartbeats = ConsumerHeartbeats(context, self._steps)
        self._migration = Migration(context, config)
        self._departures = Departures(context, self._migration.downgrade)
        self._classics = ClassicMembers(context, self._steps, self._departures, self._migration)
        self._classic_groups = ClassicKind(config, groups)
        self._joins = Joins(config, Rebalances(config))
        self.commands = {
            ConsumerHeartbeat: self.heartbeat,
            DescribeConsumerGroup: self.describe,
            Join: self.join,
            Sync: partial(self._serve_classic, self._classics.sync),
            Heartbeat: partial(self._serve_classic, self._classics.heartbeat),
            Leave: partial(self._serve_classic, self._classics.leave),
        }
        self.timers = {
            ConsumerSessionKey: self._member_lost,
            ConsumerRebalanceKey: self._revocation_over,
            ConsumerJoinKey: self._member_lost,
            ConsumerSyncKey: self._member_lost,
            ConsumerRegexKey: self._look_up,
        }
        self.records = {
            ConsumerEpochRecord: self._replay_epoch,
            ConsumerTopicsRecord: self._replay,
            ConsumerMemberRecord: self._replay,
            ConsumerTargetEpochRecord: self._replay,
            ConsumerTargetRecord: self._replay,
            ConsumerCurrentRecord: self._replay,
            ConsumerRegexRecord: self._replay,
        }

    # Commands

    def heartbeat(
        self, command: ConsumerHeartbeat, ticket: Ticket[ConsumerHeartbeatReply], turn: Turn
    ) -> Steps[None] | None:
        """Process ConsumerGroupHeartbeat: join, renew or leave."""
        if command.is_leaving:
            group = self._known(command.group_id)
            return self._departures.leave(group, command, ticket, turn)
        known = self.groups.get(command.group_id)
        if isinstance(known, ClassicGroup) and command.is_joining and not known.is_empty:
            return self._upgrade_and_join(known, command, ticket, turn)
        return self._heartbeats.heartbeat(self._joined(command, turn), command, ticket, turn)

    def renew(
        self, group: ConsumerGroup, command: QuietHeartbeat[GroupTimes], now_ms: int
    ) -> Renewal[GroupTimes] | None:
        """Renew the session of a stable member."""
        return self._heartbeats.renew(group, command, now_ms)

    def _upgrade_and_join(
        self,
        group: ClassicGroup,
        command: ConsumerHeartbeat,
        ticket: Ticket[ConsumerHeartbeatReply],
        turn: Turn,
    ) -> Steps[None]:
        upgraded = yield from self._migration.upgrade(group, turn)
        steps = self._heartbeats.heartbeat(upgraded, command, ticket, turn)
        if steps is not None:
            yield from steps
        # All records must be in one batch, whose replay would block the event loop.
        after = yield from replayed_in_steps(command.group_id, turn.records)
        turn.put_replayed(after)

    def join(self, command: Join, ticket: Ticket[Joined], turn: Turn) -> Steps[None] | None:
        """Process JoinGroup; an empty group is replaced by a classic one."""
        self._joins.check(command)
        group = self.groups[command.group_id]
        if group.is_empty:
            self._classic_groups.join(command, ticket, turn)
            return None
        return self._serve_classic(self._classics.join, command, ticket, turn)

    def _serve_classic(
        self,
        serve: Callable[[ConsumerGroup, C, Ticket[R], Turn], Steps[None] | None],
        command: C,
        ticket: Ticket[R],
        turn: Turn,
    ) -> Steps[None] | None:
        group = self.groups[command.group_id]
        assert isinstance(group, ConsumerGroup), "commands go to the kind of their group"
        return serve(group, command, ticket, turn)

    def describe(
        self, command: DescribeConsumerGroup, ticket: Ticket[DescribedConsumerGroup], turn: Turn
    ) -> None:
        """Respond to ConsumerGroupDescribe."""
        group = self._known(command.group_id)
        turn.answer(
            ticket,
            DescribedConsumerGroup(
                state=group.state.value,
                epoch=group.epoch,
                assignment_epoch=group.assignment_epoch,
                assignor=group.assignors.preferred() or self._context.config.assignors[0],
                members=[
                    self._described(group, group.members[member_id])
                    for member_id in group.member_ids()
                ],
            ),
        )

    def _described(self, group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumerMember:
        order = HashOrder(uuid_hash_code)
        owned: dict[bytes, list[int]] = {}
        for topic, partitions in (*member.assigned.items(), *member.revoking.items()):
            order.compute(topic)
            owned.setdefault(topic, []).extend(partitions)
        return DescribedConsumerMember(
            member,
            topics_in_order(member.topics),
            self._named({topic: owned[topic] for topic in order.walk()}),
            self._named(group.target(member.member_id)),
        )

    def _named(self, assignment: Assignment) -> _NamedPartitions:
        """Add topic names; deleted topics are left out."""
        topics = self._context.topics
        return [
            (topic_id, topic.name, partitions)
            for topic_id, partitions in assignment.items()
            if (topic := topics.by_id(topic_id)) is not None
        ]

    def _known(self, group_id: str) -> ConsumerGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(group_id)
        return group

    def _joined(self, command: ConsumerHeartbeat, turn: Turn) -> ConsumerGroup:
        """Return the member's group, or a new group, which may replace an empty classic group."""
        group = self.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not command.is_joining:
            raise (
                _not_a_consumer_group(command.group_id)
                if group is not None
                else KafkaError(
                    Error.GROUP_ID_NOT_FOUND, f"Consumer group {command.group_id} not found."
                )
            )
        if group is None:
            return ConsumerGroup(command.group_id)
        if isinstance(group, ClassicGroup) and group.is_empty:
            turn.records.extend(group.tombstones())
            return ConsumerGroup(command.group_id)
        raise _not_a_consumer_group(command.group_id)

    # Timers

    def _member_lost(
        self, key: ConsumerSessionKey | ConsumerJoinKey | ConsumerSyncKey, turn: Turn
    ) -> Steps[None] | None:
        """Remove a member whose session, rejoin or sync timed out."""
        group = self.groups.get(key.group_id)
        if isinstance(group, ConsumerGroup) and key.member_id in group.members:
            return self._departures.remove(group, [group.members[key.member_id]], turn)
        return None

    def _revocation_over(self, key: ConsumerRebalanceKey, turn: Turn) -> Steps[None] | None:
        """Remove a member that did not revoke its partitions in time."""
        group = self.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            return None
        member = group.members.get(key.member_id)
        if (
            member is not None
            and member.epoch > 0
            and member.state is MemberState.UNREVOKED_PARTITIONS
        ):
            return self._departures.remove(group, [member], turn)
        return None

    def _look_up(self, key: ConsumerRegexKey, turn: Turn) -> Steps[None] | None:
        lookup = self._steps.lookups.get(key.group_id)
        group = self.groups.get(key.group_id)
        turn.then(partial(self._steps.end_lookup, key.group_id))
        if lookup is None or not isinstance(group, ConsumerGroup):
            return None
        return write_lookup(group, self._context.topics, lookup, turn)

    # Metadata and loading

    def topics_changed(self, group: ConsumerGroup, topics: frozenset[str], turn: Turn) -> None:
        """Make the next heartbeat of any member check for changed topics."""
        turn.then(partial(self._steps.forget_topics, group.group_id))

    def loaded(self, group: ConsumerGroup, turn: Turn) -> None:
        """Start new sessions: members could not send heartbeats while the group was loaded."""
        session_ms = self._context.options(group.group_id).session_timeout_ms
        for member in group.members.values():
            turn.schedule(
                ConsumerSessionKey(group.group_id, member.member_id), turn.now_ms + session_ms
            )
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                turn.schedule(
                    ConsumerRebalanceKey(group.group_id, member.member_id),
                    turn.now_ms + member.rebalance_timeout_ms,
                )

    # Offsets

    def check_commit(self, group: ConsumerGroup, command: CommitOffsets, turn: Turn) -> None:
        """Check the member epoch (KIP-1251 permits older epochs for owned partitions)."""
        check_commit(group, command)

    def check_transactional_commit(
        self, group: ConsumerGroup, command: CommitTransactionOffsets
    ) -> None:
        """Check the member epoch if the producer names a member (since KIP-447)."""
        check_commit(group, command)

    def check_fetch(self, group: ConsumerGroup, command: FetchOffsets | FetchAllOffsets) -> None:
        """Check the member epoch if the client sends one."""
        check_fetch(group, command)

    # Records

    def _replay_epoch(self, record: ConsumerEpochRecord) -> None:
        if record.value is not None:
            self._replay(record)
        elif isinstance(self.groups.get(record.group_id), ConsumerGroup):
            del self.groups[record.group_id]
            self._steps.forget_topics(record.group_id)

    def _replay(self, record: ConsumerRecord) -> None:
        group = self.groups.get(record.group_id)
        if isinstance(group, ConsumerGroup):
            group.replay(record)
        elif record.value is not None:
            # An offset committed by a non-member may have created an empty classic group.
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
            group.replay(record)


def _not_a_consumer_group(group_id: str) -> KafkaError:
    return KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
