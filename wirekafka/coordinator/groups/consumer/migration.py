"""Converts classic groups to consumer groups and back while members stay (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wirekafka.codec.message import MalformedMessage
from wirekafka.coordinator.groups.classic.group import ClassicGroup
from wirekafka.coordinator.groups.classic.member import ClassicMember
from wirekafka.coordinator.groups.classic.rebalance import JoinKey, Rebalances, SessionKey, SyncKey
from wirekafka.coordinator.groups.classic.records import GroupRecord
from wirekafka.coordinator.groups.commands import AssignorChoice
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupContext
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.member import (
    ConsumerMember,
    OwnedPartitions,
    classic_metadata,
    owned_in_order,
)
from wirekafka.coordinator.groups.consumer.protocol import (
    pack_assignment,
    parse_assignment,
    parse_subscription,
)
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerCurrentRecord,
    ConsumerEpochRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetRecord,
    removal,
)
from wirekafka.coordinator.groups.consumer.timers import ConsumerSessionKey
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.coordinator.java_order import copied_capacity, integers_in_order
from wirekafka.coordinator.topics import topics_hash
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.subscription import CONSUMER_PROTOCOL


class Migration:
    """Converts groups in both directions, as `group.consumer.migration.policy` allows."""

    def __init__(self, context: ConsumerGroupContext, config: GroupConfig):
        self._context = context
        self._config = config
        self._rebalances = Rebalances(config)

    # From classic

    def upgrade(self, group: ClassicGroup, turn: Turn) -> Steps[ConsumerGroup]:
        """Return a consumer group with the members of a classic one, and write its records.

        Raises GROUP_ID_NOT_FOUND if the group may not or cannot be converted.
        """
        self._check_upgrade(group)
        upgraded = yield from self._upgraded(group)
        for member in group.members.values():
            turn.refuse(member.join_ticket, Error.REBALANCE_IN_PROGRESS)
            turn.refuse(member.sync_ticket, Error.REBALANCE_IN_PROGRESS)
            turn.cancel(SessionKey(group.group_id, member.member_id))
            turn.schedule(
                ConsumerSessionKey(group.group_id, member.member_id),
                turn.now_ms + member.session_timeout_ms,
            )
            yield
        turn.cancel(JoinKey(group.group_id))
        turn.cancel(SyncKey(group.group_id))
        turn.is_atomic = True
        turn.records.extend(group.tombstones())
        for record in _records(upgraded):
            turn.records.append(record)
            yield
        return upgraded

    def _check_upgrade(self, group: ClassicGroup) -> None:
        refusal = f"Cannot upgrade classic group {group.group_id} to consumer group because "
        if not self._context.config.may_upgrade:
            raise _not_found(refusal + "online upgrade is disabled.")
        if not group.is_consumers():
            raise _not_found(refusal + "the group does not use the consumer embedded protocol.")
        if len(group.members) > self._context.config.max_size:
            raise _not_found(refusal + "the group size exceeds the consumer group maximum size.")

    def _upgraded(self, group: ClassicGroup) -> Steps[ConsumerGroup]:
        upgraded = ConsumerGroup(group.group_id)
        name = group.protocol_name or group.select_protocol() or ""
        try:
            for member in group.members.values():
                for record in self._member_records(group, member, name):
                    upgraded.replay(record)
                    yield
        except MalformedMessage:
            raise _not_found(
                f"Cannot upgrade classic group {group.group_id} to consumer group because the "
                "embedded consumer protocol is malformed."
            ) from None
        upgraded.replay(ConsumerTargetEpochRecord.of(group.group_id, group.generation_id, 0))
        upgraded.replay(
            ConsumerEpochRecord.of(
                group.group_id,
                group.generation_id,
                topics_hash(upgraded.subscriptions.topics, self._context.topics),
            )
        )
        return upgraded

    def _member_records(
        self, group: ClassicGroup, member: ClassicMember, protocol_name: str
    ) -> Sequence[ConsumerRecord]:
        subscription = parse_subscription(member.metadata(protocol_name))
        assigned = self._assigned(group, member)
        new = ConsumerMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=classic_metadata(member.session_timeout_ms, member.protocols),
            epoch=group.generation_id,
            previous_epoch=group.generation_id,
            assigned=assigned,
        )
        target = {topic: list(partitions) for topic, partitions in assigned.items()}
        return (
            ConsumerMemberRecord.of(group.group_id, new),
            ConsumerTargetRecord.of(group.group_id, new.member_id, target),
            ConsumerCurrentRecord.of(group.group_id, new),
        )

    def _assigned(self, group: ClassicGroup, member: ClassicMember) -> OwnedPartitions:
        assignment = parse_assignment(member.assignment)
        if assignment.user_data:
            raise _not_found(
                f"Cannot upgrade classic group {group.group_id} to consumer group because an "
                "unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade."
            )
        assigned = {}
        for each in assignment.assigned_partitions:
            topic = self._context.topics.by_name(each.topic)
            if topic is not None:
                partitions = dict.fromkeys(each.partitions)
                assigned[topic.id] = dict.fromkeys(
                    integers_in_order(partitions, copied_capacity(len(partitions))),
                    group.generation_id,
                )
        return owned_in_order(assigned)

    # To classic

    def downgrades_with(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether the group becomes classic when this static member rejoins as a classic one."""
        return member.classic is None and self._may_be_classic(
            [each for each in group.members.values() if each is not member],
            count=len(group.members),
        )

    def _may_be_classic(self, others: Sequence[ConsumerMember], count: int) -> bool:
        return (
            all(member.classic is not None for member in others)
            and self._context.config.may_downgrade
            and count <= self._config.max_size
        )

    def downgrade(
        self, group: ConsumerGroup, without: Sequence[ConsumerMember], turn: Turn
    ) -> Steps[None] | None:
        """Return the steps that convert the group to classic if only classic members remain."""
        left_classic = group.classics.count - sum(each.classic is not None for each in without)
        if left_classic < len(group.members) - len(without):
            return None
        gone = {member.member_id for member in without}
        left = [
            group.members[member_id] for member_id in group.member_ids() if member_id not in gone
        ]
        if not left or not self._may_be_classic(left, len(left)):
            return None
        return self.convert(group, left, turn, replaced={}, rebalances=True)

    def convert(
        self,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        turn: Turn,
        *,
        replaced: dict[str, str],
        rebalances: bool,
    ) -> Steps[None]:
        """Replace the consumer group by a classic group of these members.

        `replaced` maps the id of a static member that rejoined to its previous id.
        """
        turn.is_atomic = True
        yield from _write_tombstones(group, {old: new for new, old in replaced.items()}, turn)
        joined = ClassicGroup(group.group_id)
        joined.generation_id = group.epoch
        for each in members:
            joined.add(_classic_member(each))
            yield
        joined.protocol_name = joined.select_protocol()
        assignments = {}
        for member in joined.members.values():
            assignments[member.member_id] = self._packed(group, joined, member, replaced)
            yield
        value = joined.to_record(turn.now_ms, assignments)
        classic = yield from ClassicGroup.load_in_steps(group.group_id, value)
        turn.write(GroupRecord(group.group_id, value))
        for member_id, member in joined.members.items():
            # The record has only the metadata of the selected protocol.
            changed = classic.set_protocols(classic.members[member_id], member.protocols)
            turn.cancel(ConsumerSessionKey(group.group_id, member_id))
            self._rebalances.restart_session(classic, changed, turn)
            yield
        if rebalances:
            self._rebalances.begin(classic, turn)
        turn.put_replayed(classic)

    def _packed(
        self,
        group: ConsumerGroup,
        classic: ClassicGroup,
        member: ClassicMember,
        replaced: dict[str, str],
    ) -> bytes:
        target = group.target(replaced.get(member.member_id, member.member_id))
        return pack_assignment(
            [
                (topic.name, partitions)
                for topic_id, partitions in target.items()
                if (topic := self._context.topics.by_id(topic_id)) is not None
            ],
            member.metadata(classic.protocol_name or ""),
        )


def replayed_in_steps(group_id: str, records: Sequence[Any]) -> Steps[ConsumerGroup]:
    """Return the consumer group that the records of a conversion create."""
    group = ConsumerGroup(group_id)
    for record in records:
        if not isinstance(record, GroupRecord):  # The tombstone of the classic group.
            group.replay(record)
        yield
    return group


def _records(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Yield the records that store a converted group, in Kafka's order."""
    members = [group.members[member_id] for member_id in group.member_ids()]
    for member in members:
        yield ConsumerMemberRecord.of(group.group_id, member)
    yield ConsumerEpochRecord.of(group.group_id, group.epoch, group.metadata_hash)
    for member in members:
        target = group.target(member.member_id)
        yield ConsumerTargetRecord.of(group.group_id, member.member_id, target)
    yield ConsumerTargetEpochRecord.of(
        group.group_id, group.assignment_epoch, group.assignment_timestamp_ms
    )
    for member in members:
        yield ConsumerCurrentRecord.of(group.group_id, member)


def _write_tombstones(group: ConsumerGroup, renamed: dict[str, str], turn: Turn) -> Steps[None]:
    """Write the tombstones of the group, with the current ids of replaced static members."""
    current, targets, members = [], [], []
    for member_id in group.member_ids():
        first, second, third = removal(group.group_id, renamed.get(member_id, member_id))
        current.append(first)
        targets.append(second)
        members.append(third)
        yield
    rest = ConsumerGroup(group.group_id)
    rest.subscriptions = group.subscriptions
    target_epoch, *others = rest.tombstones()
    turn.records.extend((*current, *targets, target_epoch, *members, *others))


def _classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "the others are gone"
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL,
        protocols=tuple(
            AssignorChoice(protocol.name, protocol.metadata)
            for protocol in member.classic.supported_protocols
        ),
    )


def _not_found(why: str) -> KafkaError:
    return KafkaError(Error.GROUP_ID_NOT_FOUND, why)
