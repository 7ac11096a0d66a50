"""StreamsGroupHeartbeat: members join, renew sessions and get their tasks (KIP-1071)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from wirekafka.coordinator.groups.commands import QuietHeartbeat
from wirekafka.coordinator.groups.group import Turn
from wirekafka.coordinator.groups.streams.commands import StreamsHeartbeat, StreamsHeartbeatReply
from wirekafka.coordinator.groups.streams.config import StreamsGroupContext, StreamsGroupOptions
from wirekafka.coordinator.groups.streams.configure import ConfiguredTopology, configure
from wirekafka.coordinator.groups.streams.endpoints import EndpointsUnknown, endpoints_of
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import StreamsMember, TaskState
from wirekafka.coordinator.groups.streams.membership import find_member, updated_member
from wirekafka.coordinator.groups.streams.reconcile import TaskAim, reconcile
from wirekafka.coordinator.groups.streams.records import (
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsMemberRecord,
    StreamsTopologyRecord,
)
from wirekafka.coordinator.groups.streams.soft import (
    NO_PROGRESS,
    NO_SOFT_STATE,
    SoftState,
    SoftStates,
)
from wirekafka.coordinator.groups.streams.status import Status, StatusCode
from wirekafka.coordinator.groups.streams.target import (
    StreamsTargetEpoch,
    compute_targets,
    targets_with,
)
from wirekafka.coordinator.groups.streams.tasks import NO_TASKS, Tasks
from wirekafka.coordinator.groups.streams.timers import (
    StreamsDelayKey,
    StreamsRebalanceKey,
    StreamsSessionKey,
)
from wirekafka.coordinator.groups.streams.topology import Topology
from wirekafka.coordinator.topics import topics_hash
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.renewal import Renewal

_REPORTS_MISSING_TAGS = 1
"""The StreamsGroupHeartbeat version whose clients know MISSING_CLIENT_TAGS."""


class _Goal(NamedTuple):
    """The epoch and target to reconcile a member with."""

    epoch: int
    target: Tasks


class _Turn:
    """A heartbeat while it is being processed: the changes, and the status to report."""

    def __init__(self, group: StreamsGroup, command: StreamsHeartbeat, turn: Turn, soft: SoftState):
        self.group = group
        self.command = command
        self.turn = turn
        self.soft = soft
        self.metadata_hash = group.version.metadata_hash
        self.status: list[Status] = []
        self.is_due = False
        """Whether a new group epoch begins."""

    def report(self, code: StatusCode, detail: str) -> None:
        self.status.append(Status(code, detail))


class StreamsHeartbeats:
    """Processes heartbeats of members that do not leave."""

    def __init__(self, context: StreamsGroupContext, soft: SoftStates):
        self._context = context
        self._soft = soft

    def heartbeat(
        self,
        group: StreamsGroup,
        command: StreamsHeartbeat,
        ticket: Ticket[StreamsHeartbeatReply],
        turn: Turn,
        *,
        is_new: bool,
        id_is_used: bool,
    ) -> None:
        """Respond with the member epoch and the status, and with the tasks if they changed.

        A group that `is_new` is created by the records of its first member; `id_is_used` says that
        it exists, or replaces a classic group.
        """
        options = self._context.options(group.group_id)
        soft = NO_SOFT_STATE if is_new else self._soft.get(group.group_id)
        turn.schedule(
            StreamsSessionKey(group.group_id, command.member_id),
            turn.now_ms + options.session_timeout_ms,
        )
        if self._is_all_quiet(group, command, soft, options):
            turn.answer(ticket, _unchanged(command, options, soft))
            return
        heartbeat = _Turn(group, command, turn, soft)
        try:
            reply = self._advance(heartbeat, options)
        except EndpointsUnknown as error:
            if is_new:
                raise
            self._keep_endpoint_epoch(heartbeat, ticket, error)
            return
        if not is_new:
            # Kafka loses what the first heartbeat finds out about the topics.
            turn.then(partial(self._soft.set, group.group_id, heartbeat.soft))
        # The first response of a group has no endpoint epoch.
        turn.answer(ticket, reply if id_is_used else reply._replace(endpoint_epoch=0))

    def renew(
        self, group: StreamsGroup, command: QuietHeartbeat[StreamsGroupOptions], now_ms: int
    ) -> Renewal[StreamsGroupOptions] | None:
        """Renew the session of a member to which nothing happens, as to most."""
        group_id = group.group_id
        options = self._context.options(group_id)
        if not _is_settled(group, command, self._soft.get(group_id), options):
            return None
        key = StreamsSessionKey(group_id, command.member_id)
        return key, now_ms + options.session_timeout_ms, options

    def _keep_endpoint_epoch(
        self, heartbeat: _Turn, ticket: Ticket[StreamsHeartbeatReply], error: KafkaError
    ) -> None:
        """Refuse the heartbeat, but renew the session and remember the topics, as Kafka does."""
        turn, group_id = heartbeat.turn, heartbeat.group.group_id
        turn.records.clear()
        turn.effects.clear()
        turn.then(partial(self._soft.set, group_id, heartbeat.soft))
        turn.answer(ticket, error)

    def _is_all_quiet(
        self,
        group: StreamsGroup,
        command: StreamsHeartbeat,
        soft: SoftState,
        options: StreamsGroupOptions,
    ) -> bool:
        """Whether nothing changed, as in most heartbeats, so that comparisons can be skipped."""
        return (
            _is_settled(group, command, soft, options)
            and command.owned is None
            and command.process_id is None
            and command.endpoint is None
            and command.tags is None
            and command.offsets is None
            and command.end_offsets is None
            and command.rack_id is None
            and command.rebalance_timeout_ms == -1
            and not command.wants_shutdown
        )

    def _advance(self, heartbeat: _Turn, options: StreamsGroupOptions) -> StreamsHeartbeatReply:
        """Apply the heartbeat; returns the response."""
        group, command, turn = heartbeat.group, heartbeat.command, heartbeat.turn
        if command.is_joining:
            group.check_room(command.member_id, command.instance_id, self._context.config.max_size)
        member, replaced = find_member(group, command, turn)
        updated = updated_member(member, command)
        _store(heartbeat, member, updated)
        topology = _topology(heartbeat, updated)
        configured = self._configure(heartbeat, topology)
        configs = options.assignment_configs
        heartbeat.is_due = heartbeat.is_due or configs != group.version.configs
        epoch = group.epoch
        if heartbeat.is_due:
            epoch += 1
            turn.counts.streams_rebalances += 1
            version = group.version._replace(
                epoch=epoch,
                metadata_hash=heartbeat.metadata_hash,
                validated_epoch=topology.epoch if configured.is_ready else -1,
                configs=configs,
            )
            turn.write(StreamsEpochRecord.of(group.group_id, version))
        at = StreamsTargetEpoch(epoch, configured, configs, heartbeat.soft.progress, turn.now_ms)
        goal = self._goal(heartbeat, updated, at, options)
        updated = _reconcile(heartbeat, updated, goal)
        heartbeat.soft = replace(heartbeat.soft, configured=configured, refreshed_epoch=epoch)
        return self._reply(heartbeat, member, updated, replaced, options)

    # Topics

    def _is_outdated(self, heartbeat: _Turn) -> bool:
        """Whether topics may have changed since the group last looked at them."""
        group, soft = heartbeat.group, heartbeat.soft
        return (
            group.topology is None or soft.configured is None or not soft.is_refreshed(group.epoch)
        )

    def _configure(self, heartbeat: _Turn, topology: Topology) -> ConfiguredTopology:
        """Match the topology with the topics again if they may have changed.

        Raises INVALID_REQUEST for tasks that the topology does not have.
        """
        group, command, soft = heartbeat.group, heartbeat.command, heartbeat.soft
        configured = soft.configured
        if self._is_outdated(heartbeat):
            heartbeat.metadata_hash = topics_hash(topology.topic_set, self._context.topics)
            has_new_hash = heartbeat.metadata_hash != group.version.metadata_hash
            heartbeat.is_due = heartbeat.is_due or has_new_hash
            if has_new_hash or configured is None or group.topology is None:
                configured = configure(topology, self._context.topics)
        assert configured is not None, "else it is outdated"
        if configured.is_ready and command.owned is not None:
            _check_tasks(command.owned, configured)
        if command.offsets is not None or command.end_offsets is not None:
            before = soft.progress.get(command.member_id, NO_PROGRESS)
            progress = before._replace(
                offsets=before.offsets if command.offsets is None else command.offsets,
                end_offsets=(
                    before.end_offsets if command.end_offsets is None else command.end_offsets
                ),
            )
            heartbeat.soft = replace(soft, progress={**soft.progress, command.member_id: progress})
        validated_epoch = topology.epoch if configured.is_ready else -1
        heartbeat.is_due = heartbeat.is_due or validated_epoch != group.version.validated_epoch
        return configured

    # Targets

    def _goal(
        self,
        heartbeat: _Turn,
        updated: StreamsMember,
        at: StreamsTargetEpoch,
        options: StreamsGroupOptions,
    ) -> _Goal:
        """Return the member's target for the epoch; computes targets if needed and due."""
        group = heartbeat.group
        if self._is_delayed(heartbeat, options):
            heartbeat.report(
                StatusCode.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            )
            return _Goal(group.assignment_epoch, NO_TASKS)
        targets = targets_with(group, updated)
        if group.assignment_epoch < at.epoch:
            if may_assign(group, self._context, at.now_ms):
                records, targets = compute_targets(group, updated, at)
                heartbeat.turn.records.extend(records)
                return _Goal(at.epoch, targets[updated.member_id])
            heartbeat.report(
                StatusCode.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured assignment interval.",
            )
        return _Goal(group.assignment_epoch, targets.get(updated.member_id, NO_TASKS))

    def _is_delayed(self, heartbeat: _Turn, options: StreamsGroupOptions) -> bool:
        """Whether an empty group waits for more members; starts the delay with the first member."""
        group, turn = heartbeat.group, heartbeat.turn
        if group.group_id in self._soft.delayed:
            return True
        if not group.is_empty or options.initial_rebalance_delay_ms <= 0:
            return False
        turn.schedule(
            StreamsDelayKey(group.group_id), turn.now_ms + options.initial_rebalance_delay_ms
        )
        turn.then(partial(self._soft.delayed.add, group.group_id))
        return True

    # Response

    def _reply(
        self,
        heartbeat: _Turn,
        member: StreamsMember,
        updated: StreamsMember,
        replaced: StreamsMember | None,
        options: StreamsGroupOptions,
    ) -> StreamsHeartbeatReply:
        command, group = heartbeat.command, heartbeat.group
        soft = heartbeat.soft
        configured = soft.configured
        assert configured is not None, "just configured"
        has_new_tasks = member.assigned != updated.assigned
        if member.endpoint != updated.endpoint or (has_new_tasks and updated.endpoint is not None):
            soft = replace(soft, endpoint_epoch=soft.endpoint_epoch + 1)
        if command.wants_shutdown and soft.shutdown_by is None:
            soft = replace(soft, shutdown_by=command.member_id)
        heartbeat.soft = soft
        endpoints = None
        if soft.endpoint_epoch != command.endpoint_epoch:
            endpoints = endpoints_of(
                group, updated, replaced, configured, topics=self._context.topics
            )
        _report_rest(heartbeat, updated, configured, options)
        return StreamsHeartbeatReply(
            updated.member_id,
            updated.epoch,
            options.heartbeat_interval_ms,
            options.task_offset_interval_ms,
            options.acceptable_recovery_lag,
            heartbeat.status,
            updated.assigned if command.is_joining or has_new_tasks else None,
            soft.endpoint_epoch,
            endpoints,
            configured.missing,
        )


def may_assign(group: StreamsGroup, context: StreamsGroupContext, now_ms: int) -> bool:
    """Whether targets may be computed: not soon after the last targets, or if a test forbids it."""
    if group.group_id in context.held:
        return False
    return group.may_assign(context.options(group.group_id).assignment_interval_ms, now_ms)


def _is_settled(
    group: StreamsGroup,
    command: StreamsHeartbeat | QuietHeartbeat[StreamsGroupOptions],
    soft: SoftState,
    options: StreamsGroupOptions,
) -> bool:
    """Whether the member has its tasks and knows the endpoints, and nothing else is due."""
    member = group.members.get(command.member_id)
    version, configured = group.version, soft.configured
    return (
        member is not None
        and command.epoch == member.epoch == group.assignment_epoch == version.epoch
        and member.state is TaskState.STABLE
        and configured is not None
        and soft.is_refreshed(version.epoch)
        and configured.problem is None
        and member.topology_epoch == configured.epoch == version.validated_epoch
        and soft.shutdown_by is None
        and command.endpoint_epoch == soft.endpoint_epoch
        and (command.instance_id is None or command.instance_id == member.instance_id)
        and command.client_id == member.client_id
        and command.client_host == member.client_host
        and not options.rack_tags
        and version.configs == options.assignment_configs
    )


def _unchanged(
    command: StreamsHeartbeat, options: StreamsGroupOptions, soft: SoftState
) -> StreamsHeartbeatReply:
    return StreamsHeartbeatReply(
        command.member_id,
        command.epoch,
        options.heartbeat_interval_ms,
        options.task_offset_interval_ms,
        options.acceptable_recovery_lag,
        endpoint_epoch=soft.endpoint_epoch,
    )


def _store(heartbeat: _Turn, member: StreamsMember, updated: StreamsMember) -> None:
    """Write the member if it changed; static members begin a new epoch only if it matters."""
    if updated == member:
        return
    heartbeat.turn.write(StreamsMemberRecord.of(heartbeat.group.group_id, updated))
    heartbeat.is_due = heartbeat.command.instance_id is None or (
        (member.topology_epoch, member.rack_id, member.tags, member.process_id)
        != (updated.topology_epoch, updated.rack_id, updated.tags, updated.process_id)
    )


def _topology(heartbeat: _Turn, updated: StreamsMember) -> Topology:
    """Return the group's topology, which the first member sets.

    Raises INVALID_REQUEST for another topology than the group's.
    """
    sent, known = heartbeat.command.topology, heartbeat.group.topology
    if known is None:
        if sent is None:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
        heartbeat.turn.write(StreamsTopologyRecord(heartbeat.group.group_id, sent.value))
        return sent
    if sent is not None and sent.epoch >= known.epoch and not known.is_same(sent):
        raise KafkaError(Error.INVALID_REQUEST, "Topology updates are not supported yet.")
    if updated.topology_epoch < known.epoch:
        heartbeat.report(
            StatusCode.STALE_TOPOLOGY,
            f"The member's topology epoch {updated.topology_epoch} is behind the group's topology "
            f"epoch {known.epoch}.",
        )
    return known


def _check_tasks(owned: Tasks, configured: ConfiguredTopology) -> None:
    assert configured.subtopologies is not None, "it is ready"
    for tasks in owned:
        for id, partitions in tasks.items():
            subtopology = configured.subtopologies.get(id)
            if subtopology is None:
                raise KafkaError(
                    Error.INVALID_REQUEST, f"Subtopology {id} does not exist in the topology."
                )
            for partition in partitions:
                if not 0 <= partition < subtopology.task_count:
                    raise KafkaError(
                        Error.INVALID_REQUEST,
                        f"Task {partition} for subtopology {id} is invalid. Number of tasks for "
                        f"this subtopology: {subtopology.task_count}",
                    )


def _reconcile(heartbeat: _Turn, member: StreamsMember, goal: _Goal) -> StreamsMember:
    """Return the member after its next step, and write that step."""
    group, turn = heartbeat.group, heartbeat.turn
    if member.is_reconciled_to(goal.epoch):
        return member
    aim = TaskAim(goal.epoch, goal.target, group.owners)
    updated = reconcile(member, aim, heartbeat.command.owned)
    if updated == member:
        return member
    turn.write(StreamsCurrentRecord.of(group.group_id, updated))
    key = StreamsRebalanceKey(group.group_id, member.member_id)
    if updated.state is TaskState.UNREVOKED_TASKS:
        turn.schedule(key, turn.now_ms + updated.rebalance_timeout_ms)
    else:
        turn.cancel(key)
    return updated


def _report_rest(
    heartbeat: _Turn,
    member: StreamsMember,
    configured: ConfiguredTopology,
    options: StreamsGroupOptions,
) -> None:
    """Report topics that do not fit, a shutdown, and missing tags."""
    if configured.problem is not None:
        heartbeat.status.append(configured.problem)
    if heartbeat.soft.shutdown_by is not None:
        heartbeat.report(
            StatusCode.SHUTDOWN_APPLICATION,
            f"Streams group member {heartbeat.soft.shutdown_by} encountered a fatal error and "
            "requested a shutdown for the entire application.",
        )
    missing: Sequence[str] = [tag for tag in options.rack_tags if tag not in member.tags]
    if missing and heartbeat.command.version >= _REPORTS_MISSING_TAGS:
        heartbeat.report(
            StatusCode.MISSING_CLIENT_TAGS,
            "Missing required client tags for rack-aware standby assignment: "
            f"[{', '.join(missing)}]. Configure them via 'client.tag.<tagKey>' in your Streams "
            "config.",
        )
