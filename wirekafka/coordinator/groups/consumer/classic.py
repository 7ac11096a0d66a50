"""Members of the classic protocol in a consumer group, while it migrates (KIP-848).

There is no joint rebalance: the broker assigns partitions, and each member gets its own through
JoinGroup and SyncGroup. The generation of a member is its member epoch.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import partial
from uuid import UUID

from wirekafka.codec.message import MalformedMessage
from wirekafka.coordinator.groups.commands import (
    Heartbeat,
    Join,
    Joined,
    JoinRefused,
    Leave,
    Leaver,
    Sync,
    Synced,
)
from wirekafka.coordinator.groups.consumer.commands import all_of
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupContext
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.heartbeat import (
    check_static,
    replace_static,
    unknown_member,
)
from wirekafka.coordinator.groups.consumer.leave import Departures
from wirekafka.coordinator.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    classic_metadata,
)
from wirekafka.coordinator.groups.consumer.migration import Migration
from wirekafka.coordinator.groups.consumer.protocol import pack_assignment, parse_subscription
from wirekafka.coordinator.groups.consumer.reconcile import Reported, reported_partitions
from wirekafka.coordinator.groups.consumer.steps import MemberSteps, RegexChange
from wirekafka.coordinator.groups.consumer.timers import (
    ConsumerJoinKey,
    ConsumerSessionKey,
    ConsumerSyncKey,
)
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription
from wirekafka.protocol.records.subscription import CONSUMER_PROTOCOL
from wirekafka.runtime.machine import Ticket


class ClassicMembers:
    """Processes JoinGroup, SyncGroup, Heartbeat and LeaveGroup to a consumer group."""

    def __init__(
        self,
        context: ConsumerGroupContext,
        steps: MemberSteps,
        departures: Departures,
        migration: Migration,
    ):
        self._context = context
        self._steps = steps
        self._departures = departures
        self._migration = migration
        self._awaited: set[ConsumerJoinKey] = set()

    def join(
        self, group: ConsumerGroup, command: Join, ticket: Ticket[Joined], turn: Turn
    ) -> Steps[None]:
        """Respond at once with the member epoch; SyncGroup returns the assignment."""
        member_id = command.member_id or _kafka_text(command.fresh_id)
        self._check_join(group, command, member_id)
        subscription = _subscription(command)
        member = self._member(group, command, member_id, turn)
        updated = _updated(member, command, subscription)
        before = group.static_member(command.instance_id)
        downgrades = before is not None and self._migration.downgrades_with(group, before)
        has_news = self._steps.store(group, member, updated, turn)
        regex = self._steps.follow_regex(group, member, updated, all_of, turn)
        has_news = has_news or regex is not RegexChange.NONE
        at = self._steps.enter_epoch(group, member, updated, turn, has_news)
        reported = self._reported(subscription)
        if downgrades and before is not None:
            updated = yield from self._downgrade(
                group,
                before,
                updated,
                reported,
                turn,
                is_stale=group.assignment_epoch < at.epoch,
                has_news=has_news,
            )
        else:
            goal = yield from self._steps.target(group, member, updated, at, turn)
            updated = self._steps.reconcile(
                group, updated, goal, reported, turn, has_new_subscription=has_news
            )
            turn.schedule(
                ConsumerSessionKey(group.group_id, member_id),
                turn.now_ms + command.session_timeout_ms,
            )
            turn.schedule(
                ConsumerSyncKey(group.group_id, member_id),
                turn.now_ms + command.rebalance_timeout_ms,
            )
        join_key = ConsumerJoinKey(group.group_id, member_id)
        turn.cancel(join_key)
        turn.then(partial(self._awaited.discard, join_key))
        turn.answer(
            ticket,
            Joined(
                member_id=member_id,
                generation_id=updated.epoch,
                protocol_type=CONSUMER_PROTOCOL,
                protocol_name=command.protocols[0].name,
                leader_id="",
            ),
        )

    def _check_join(self, group: ConsumerGroup, command: Join, member_id: str) -> None:
        config = self._context.config
        if config.migration_policy == "disabled":
            raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL)
        is_known = member_id in group.members or (
            command.instance_id is not None and command.instance_id in group.static_member_ids
        )
        if not is_known and len(group.members) >= config.max_size:
            raise KafkaError(Error.GROUP_MAX_SIZE_REACHED)
        if command.protocol_type != CONSUMER_PROTOCOL or not _agrees(group, command):
            raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if command.needs_known_member_id:
            raise JoinRefused(Error.MEMBER_ID_REQUIRED, member_id)

    def _member(
        self, group: ConsumerGroup, command: Join, member_id: str, turn: Turn
    ) -> ConsumerMember:
        if command.instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        member = group.static_member(command.instance_id)
        if command.member_id:
            return check_static(member, member_id, command.instance_id)
        if member is None:
            return ConsumerMember(member_id=member_id)
        return replace_static(group, member, member_id, turn)

    def _downgrade(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        updated: ConsumerMember,
        reported: Reported,
        turn: Turn,
        *,
        is_stale: bool,
        has_news: bool,
    ) -> Steps[ConsumerMember]:
        """Convert the group when its last consumer-protocol member rejoins as a classic one."""
        if not is_stale:
            updated = self._steps.reconcile(
                group,
                updated,
                self._steps.last_target(group, updated),
                reported,
                turn,
                has_new_subscription=has_news,
            )
        members = [
            group.members[member_id]
            for member_id in group.member_ids()
            if member_id != before.member_id
        ]
        yield from self._migration.convert(
            group,
            [*members, updated],
            turn,
            replaced={updated.member_id: before.member_id},
            rebalances=is_stale,
        )
        return updated

    def sync(self, group: ConsumerGroup, command: Sync, ticket: Ticket[Synced], turn: Turn) -> None:
        """Respond with the member's partitions; REBALANCE_IN_PROGRESS if it must rejoin."""
        member = self._classic(group, command.member_id, command.instance_id)
        assert member.classic is not None
        _check_generation(member, command.generation_id)
        name = member.classic.supported_protocols[0].name
        if command.protocol_type not in (None, CONSUMER_PROTOCOL) or command.protocol_name not in (
            None,
            name,
        ):
            raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if (
            group.assignment_epoch > member.epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            turn.refuse(ticket, Error.REBALANCE_IN_PROGRESS)
            self._await_join(group, member, turn)
            return
        turn.cancel(ConsumerSyncKey(group.group_id, member.member_id))
        self._restart_session(group, member, turn)
        turn.answer(
            ticket,
            Synced(
                command.protocol_type,
                command.protocol_name,
                pack_assignment(
                    [
                        (topic.name, list(partitions))
                        for topic_id, partitions in member.assigned.items()
                        if (topic := self._context.topics.by_id(topic_id)) is not None
                    ],
                    member.classic.supported_protocols[0].metadata,
                ),
            ),
        )

    def heartbeat(
        self, group: ConsumerGroup, command: Heartbeat, ticket: Ticket[None], turn: Turn
    ) -> None:
        """Renew the member's session; REBALANCE_IN_PROGRESS makes it rejoin."""
        member = self._classic(group, command.member_id, command.instance_id)
        _check_generation(member, command.generation_id)
        self._restart_session(group, member, turn)
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not _waits_for_partitions(group, member)
            )
        ):
            turn.refuse(ticket, Error.REBALANCE_IN_PROGRESS)
            self._await_join(group, member, turn)
        else:
            turn.answer(ticket, None)

    def leave(
        self, group: ConsumerGroup, command: Leave, ticket: Ticket[list[Error]], turn: Turn
    ) -> Steps[None] | None:
        """Remove members of either protocol; responds with one error per member."""
        errors = []
        leaving = {}
        for leaver in command.members:
            try:
                member = _leaver(group, leaver)
            except KafkaError as error:
                errors.append(error.error)
            else:
                errors.append(Error.NONE)
                leaving[member.member_id] = member
        turn.answer(ticket, errors)
        return self._departures.remove(group, list(leaving.values()), turn)

    # Helpers

    def _classic(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> ConsumerMember:
        if instance_id is not None:
            member = check_static(group.static_member(instance_id), member_id, instance_id)
        elif member_id in group.members:
            member = group.members[member_id]
        else:
            raise unknown_member(group.group_id, member_id)
        if member.classic is None:
            raise KafkaError(
                Error.UNKNOWN_MEMBER_ID, (f"Member {member_id} does not use the classic protocol.")
            )
        return member

    def _restart_session(self, group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
        assert member.classic is not None
        turn.schedule(
            ConsumerSessionKey(group.group_id, member.member_id),
            turn.now_ms + member.classic.session_timeout_ms,
        )

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
        """Start the rejoin timer with the first REBALANCE_IN_PROGRESS."""
        key = ConsumerJoinKey(group.group_id, member.member_id)
        if key not in self._awaited:
            turn.then(partial(self._awaited.add, key))
            turn.schedule(key, turn.now_ms + member.rebalance_timeout_ms)

    def _reported(self, subscription: ConsumerProtocolSubscription) -> Reported:
        topics = self._context.topics
        return reported_partitions(
            (topic.id, each.partitions)
            for each in subscription.owned_partitions
            if (topic := topics.by_name(each.topic)) is not None
        )


def _agrees(group: ConsumerGroup, command: Join) -> bool:
    """Whether all classic members of the group support one of the member's protocols."""
    if not group.members:
        return bool(command.protocols)
    return any(group.classics.all_support(name) for name, _ in command.protocols)


def _subscription(command: Join) -> ConsumerProtocolSubscription:
    try:
        return parse_subscription(command.protocols[0].metadata)
    except MalformedMessage:
        raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL) from None


def _updated(
    member: ConsumerMember, command: Join, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    return member._replace(
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        requested_topics=tuple(subscription.topics),
        regex="",
        client_id=command.client_id,
        client_host=command.client_host,
        classic=classic_metadata(command.session_timeout_ms, command.protocols),
    )


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.epoch:
        raise KafkaError(Error.ILLEGAL_GENERATION)


def _waits_for_partitions(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still owns a partition of this member's target."""
    return any(
        partition not in member.assigned.get(topic, {}) and partition in group.owner_epochs(topic)
        for topic, partitions in group.target(member.member_id).items()
        for partition in partitions
    )


def _leaver(group: ConsumerGroup, leaver: Leaver) -> ConsumerMember:
    if leaver.instance_id is not None:
        member = group.static_member(leaver.instance_id)
        return check_static(
            member,
            leaver.member_id or (member.member_id if member is not None else ""),
            leaver.instance_id,
        )
    if leaver.member_id not in group.members:
        raise unknown_member(group.group_id, leaver.member_id)
    return group.members[leaver.member_id]


def _kafka_text(fresh_id: str) -> str:
    """Return a UUID in Kafka's text form; any other text is returned unchanged."""
    try:
        return urlsafe_b64encode(UUID(fresh_id).bytes).decode().rstrip("=")
    except ValueError:
        return fresh_id
