"""Share groups (KIP-932) in their shard: commands, timers and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    FetchAllOffsets,
    FetchOffsets,
    QuietHeartbeat,
)
from wirekafka.coordinator.groups.consumer.subscriptions import topics_in_order
from wirekafka.coordinator.groups.group import Group, GroupKind, Turn
from wirekafka.coordinator.groups.share.commands import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DeleteShareStates,
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroup,
    ForgetShareTopics,
    ListInitialized,
    ShareHeartbeat,
    ShareHeartbeatReply,
    ShareOffsetsDeleted,
    StatesFailed,
    StatesInitialized,
)
from wirekafka.coordinator.groups.share.config import ShareGroupContext
from wirekafka.coordinator.groups.share.group import ShareGroup, not_a_consumer_group
from wirekafka.coordinator.groups.share.heartbeat import (
    ShareHeartbeats,
    ShareSessionKey,
    unknown_share_member,
)
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    ShareTopicsRecord,
)
from wirekafka.coordinator.groups.share.topics import (
    Partitions,
    StoredTopic,
    StoredTopics,
    as_computed,
    in_order,
)
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.coordinator.java_order import grown_capacity, integers_in_order
from wirekafka.coordinator.share_state.states import ShareKey, StateInitialization
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.renewal import Renewal

_SIMPLE = "simple"
"""The only assignor of share groups."""


class ShareGroupKind(GroupKind[ShareGroup]):
    """Processes the commands, timers and records of share groups."""

    group = ShareGroup

    def __init__(self, context: ShareGroupContext, groups: dict[str, Group]):
        super().__init__(groups)
        self._topics = context.topics
        self._options = context.options
        self._heartbeats = ShareHeartbeats(context)
        self.commands = {
            ShareHeartbeat: self.heartbeat,
            DescribeShareGroup: self.describe,
            StatesInitialized: self.states_initialized,
            StatesFailed: self.states_failed,
            ListInitialized: self.list_initialized,
            AlterShareOffsets: self.alter_offsets,
            DeleteShareOffsets: self.delete_offsets,
            ShareOffsetsDeleted: self.offsets_deleted,
            DeleteShareStates: self.delete_states,
            ForgetShareTopics: self.forget_topics,
        }
        self.timers = {ShareSessionKey: self._member_lost}
        self.records = {
            ShareMemberRecord: self._replay,
            ShareEpochRecord: self._replay_epoch,
            ShareTargetEpochRecord: self._replay,
            ShareTargetRecord: self._replay,
            ShareCurrentRecord: self._replay,
            ShareTopicsRecord: self._replay,
        }

    # Members

    def heartbeat(
        self, command: ShareHeartbeat, ticket: Ticket[ShareHeartbeatReply], turn: Turn
    ) -> None:
        """Process ShareGroupHeartbeat: join, renew or leave."""
        if command.epoch >= 0:
            group = self._joined(command.group_id, may_create=command.is_joining)
            self._heartbeats.heartbeat(group, command, ticket, turn)
            return
        group = self._known(command.group_id)
        if command.member_id not in group.members:
            raise unknown_share_member(command.group_id, command.member_id)
        self._heartbeats.remove(group, command.member_id, turn)
        turn.answer(ticket, ShareHeartbeatReply(command.member_id, command.epoch))

    def renew(
        self, group: ShareGroup, command: QuietHeartbeat[GroupTimes], now_ms: int
    ) -> Renewal[GroupTimes] | None:
        """Renew the session of a stable member."""
        return self._heartbeats.renew(group, command, now_ms)

    def describe(
        self, command: DescribeShareGroup, ticket: Ticket[DescribedShareGroup], turn: Turn
    ) -> None:
        """Respond to ShareGroupDescribe."""
        group = self._known(command.group_id)
        turn.answer(
            ticket,
            DescribedShareGroup(
                state=group.state,
                epoch=group.epoch,
                assignment_epoch=group.assignment_epoch,
                assignor=_SIMPLE,
                members=[
                    self._described(group.members[member_id]) for member_id in group.member_ids()
                ],
            ),
        )

    def _described(self, member: ShareMember) -> DescribedShareMember:
        return DescribedShareMember(
            member,
            topics_in_order(member.topics),
            [
                (id, topic.name, partitions)
                for id, partitions in member.assigned.items()
                if (topic := self._topics.by_id(id)) is not None
            ],
        )

    def _member_lost(self, key: ShareSessionKey, turn: Turn) -> None:
        """Remove a member whose session timed out."""
        group = self.groups.get(key.group_id)
        if isinstance(group, ShareGroup) and key.member_id in group.members:
            self._heartbeats.remove(group, key.member_id, turn)

    def _known(self, group_id: str) -> ShareGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise _not_a_share_group(group_id)
        return group

    def _joined(self, group_id: str, *, may_create: bool) -> ShareGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise _not_a_share_group(group_id)
        if not may_create:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    # States of share partitions

    def states_initialized(
        self, command: StatesInitialized, ticket: Ticket[None], turn: Turn
    ) -> None:
        """Record that states were initialized, if the group still exists."""
        group = self.groups.get(command.group_id)
        if isinstance(group, ShareGroup) and command.partitions:
            stored = group.stored or StoredTopics()
            self._heartbeats.store(
                group, stored.with_initialized(command.partitions, self._topics), turn
            )
        turn.answer(ticket, None)

    def states_failed(self, command: StatesFailed, ticket: Ticket[None], turn: Turn) -> None:
        """Record that states could not be initialized: the next heartbeat tries again."""
        group = self.groups.get(command.group_id)
        stored = group.stored if isinstance(group, ShareGroup) else None
        if stored is not None and stored.initializing and command.partitions:
            assert isinstance(group, ShareGroup)
            self._heartbeats.store(group, stored.without_initializing(command.partitions), turn)
        turn.answer(ticket, None)

    def list_initialized(
        self, command: ListInitialized, ticket: Ticket[Partitions], turn: Turn
    ) -> None:
        """Respond with the partitions whose state is initialized."""
        group = self.groups.get(command.group_id)
        stored = group.stored if isinstance(group, ShareGroup) else None
        topics = {} if stored is None else stored.initialized
        turn.answer(ticket, {id: topic.partitions for id, topic in topics.items()})

    # Offsets

    def alter_offsets(
        self, command: AlterShareOffsets, ticket: Ticket[Sequence[StateInitialization]], turn: Turn
    ) -> None:
        """Begin to initialize the states of partitions again; creates the group if needed."""
        group = self._joined(command.group_id, may_create=True)
        _check_empty(group)
        if command.named:
            named = (
                (id, StoredTopic(name, tuple(partitions)))
                for id, (name, partitions) in command.named.items()
            )
            self._heartbeats.begin(group, in_order(named), turn)
        turn.answer(
            ticket,
            [
                StateInitialization(ShareKey(command.group_id, id, partition), group.epoch, offset)
                for id in as_computed(id for id, each in command.offsets.items() for _ in each)
                for partition, offset in _offsets_in_order(command.offsets[id])
            ],
        )

    def delete_offsets(
        self, command: DeleteShareOffsets, ticket: Ticket[Partitions | None], turn: Turn
    ) -> None:
        """Begin to delete the states of topics; refused while there are members."""
        group = self._known(command.group_id)
        _check_empty(group)
        stored = group.stored
        if stored is None:
            turn.answer(ticket, None)
            return
        found = {
            id: stored.initialized[id].partitions if id in stored.initialized else range(count)
            for id, count in command.topics.items()
            if id in stored.initialized or id in stored.deleting
        }
        self._heartbeats.store(
            group, stored.with_deleting([id for id in found if id in stored.initialized]), turn
        )
        turn.answer(ticket, found)

    def offsets_deleted(
        self, command: ShareOffsetsDeleted, ticket: Ticket[None], turn: Turn
    ) -> None:
        """Record that the states of topics are deleted."""
        group = self.groups.get(command.group_id)
        if isinstance(group, ShareGroup) and group.stored is not None:
            self._heartbeats.store(group, group.stored.without_deleting(command.topic_ids), turn)
        turn.answer(ticket, None)

    def delete_states(
        self, command: DeleteShareStates, ticket: Ticket[Partitions], turn: Turn
    ) -> None:
        """Begin to delete all states of a group that is about to be deleted."""
        group = self.groups.get(command.group_id)
        if not isinstance(group, ShareGroup):
            turn.answer(ticket, {})
            return
        group.check_deletion()
        if group.stored is None:
            turn.answer(ticket, {})
            return
        stored, gone = group.stored.with_all_deleting(self._topics)
        self._heartbeats.store(group, stored, turn)
        turn.answer(ticket, {id: topic.partitions for id, topic in gone.items()})

    def forget_topics(self, command: ForgetShareTopics, ticket: Ticket[None], turn: Turn) -> None:
        """Forget the states of topics that do not exist any more."""
        group = self.groups.get(command.group_id)
        if isinstance(group, ShareGroup) and group.stored is not None:
            stored = group.stored.without(command.topic_ids)
            if stored is not None:
                self._heartbeats.store(group, stored, turn)
        turn.answer(ticket, None)

    def check_commit(self, group: ShareGroup, command: CommitOffsets, turn: Turn) -> None:
        """Raise GROUP_ID_NOT_FOUND: share groups have no committed offsets."""
        raise not_a_consumer_group(group.group_id)

    def check_transactional_commit(
        self, group: ShareGroup, command: CommitTransactionOffsets
    ) -> None:
        """Raise GROUP_ID_NOT_FOUND: share groups have no committed offsets."""
        raise not_a_consumer_group(group.group_id)

    def check_fetch(self, group: ShareGroup, command: FetchOffsets | FetchAllOffsets) -> None:
        """Permit every fetch: it finds no offsets."""

    # Metadata and loading

    def topics_changed(self, group: ShareGroup, topics: frozenset[str], turn: Turn) -> None:
        """Make the next heartbeat of any member check for changed topics."""
        turn.then(partial(self._heartbeats.forget_topics, group.group_id))

    def loaded(self, group: ShareGroup, turn: Turn) -> None:
        """Start new sessions: members could not send heartbeats while the group was loaded."""
        turn.then(partial(self._heartbeats.stored, group.group_id, turn.now_ms))
        session_ms = self._options(group.group_id).session_timeout_ms
        for member_id in group.members:
            turn.schedule(ShareSessionKey(group.group_id, member_id), turn.now_ms + session_ms)

    # Records

    def _replay_epoch(self, record: ShareEpochRecord) -> None:
        if record.value is not None:
            self._replay(record)
        elif isinstance(self.groups.get(record.group_id), ShareGroup):
            del self.groups[record.group_id]
            self._heartbeats.forget(record.group_id)

    def _replay(self, record: ShareGroupRecord) -> None:
        group = self.groups.get(record.group_id)
        if isinstance(group, ShareGroup):
            group.replay(record)
        elif record.value is not None:
            group = self.groups[record.group_id] = ShareGroup(record.group_id)
            group.replay(record)


def _not_a_share_group(group_id: str) -> KafkaError:
    return KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


def _offsets_in_order(offsets: Mapping[int, int]) -> list[tuple[int, int]]:
    order = integers_in_order(offsets, grown_capacity(len(offsets)))
    return [(partition, offsets[partition]) for partition in order]


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise KafkaError(Error.NON_EMPTY_GROUP, "The group is not empty.")
