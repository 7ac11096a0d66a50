"""The commands of streams groups (KIP-1071) and their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wirekafka.coordinator.groups.streams.configure import ConfiguredTopology, InternalTopic
from wirekafka.coordinator.groups.streams.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ProcessEndpoint,
    StreamsMember,
)
from wirekafka.coordinator.groups.streams.status import Status
from wirekafka.coordinator.groups.streams.tasks import OwnedTasks, TaskId, Tasks
from wirekafka.coordinator.groups.streams.topology import Topology
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Command, command

_JAVA_SPACE = "".join(map(chr, range(0x21)))
"""The characters that Java's `String.trim` removes."""


@command
class StreamsHeartbeat(Command["StreamsHeartbeatReply"]):
    """StreamsGroupHeartbeat. The reply is a `StreamsHeartbeatReply`.

    None and -1 mean that the field is unchanged. `owned` are the tasks that the member has;
    `offsets` and `end_offsets` are the positions and ends of changelogs by task. `version` is the
    version of the request.
    """

    group_id: str
    member_id: str
    epoch: int
    endpoint_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: ProcessEndpoint | None = None
    tags: Mapping[str, str] | None = None
    offsets: Mapping[TaskId, int] | None = None
    end_offsets: Mapping[TaskId, int] | None = None
    wants_shutdown: bool = False
    client_id: str = ""
    client_host: str = ""
    version: int = 1

    @property
    def is_joining(self) -> bool:
        """Whether the member joins or rejoins (epoch 0)."""
        return self.epoch == JOINING_EPOCH

    @property
    def is_leaving(self) -> bool:
        """Whether the member leaves, permanently or until a static member rejoins."""
        return self.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


class EndpointPartitions(NamedTuple):
    """The partitions, by topic, that the process at an endpoint reads for its tasks."""

    endpoint: ProcessEndpoint
    active: Sequence[tuple[str, Sequence[int]]]
    standby: Sequence[tuple[str, Sequence[int]]]


class StreamsHeartbeatReply(NamedTuple):
    """The reply to `StreamsHeartbeat`.

    The tasks are None if they are unchanged, `endpoints` if the member knows the current ones.
    `missing` are internal topics to create.
    """

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    status: Sequence[Status] = ()
    tasks: OwnedTasks | None = None
    endpoint_epoch: int = 0
    endpoints: Sequence[EndpointPartitions] | None = None
    missing: Sequence[InternalTopic] = ()


@command
class DescribeStreamsGroup(Command["DescribedStreamsGroup"]):
    """StreamsGroupDescribe of one group.

    The reply is a `DescribedStreamsGroup`, or GROUP_ID_NOT_FOUND.
    """

    group_id: str


class DescribedStreamsMember(NamedTuple):
    """A member with its target, and the changelog positions it reported."""

    member: StreamsMember
    target: Tasks
    offsets: Mapping[TaskId, int]
    end_offsets: Mapping[TaskId, int]


class DescribedStreamsGroup(NamedTuple):
    """A group as StreamsGroupDescribe reports it; `configured` is None unless it is ready."""

    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    topology: Topology
    configured: ConfiguredTopology | None
    members: Sequence[DescribedStreamsMember]


def check_heartbeat(command: StreamsHeartbeat) -> None:
    """Raise INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY, with Kafka's messages."""
    topology = command.topology
    if topology is not None and any(
        subtopology.source_topic_regex for subtopology in topology.value.subtopologies
    ):
        raise _invalid("Regular expressions for source topics are not supported yet.")
    _check_text(command.member_id, "MemberId can't be empty.")
    _check_text(command.group_id, "GroupId can't be empty.")
    _check_text(command.instance_id, "InstanceId can't be empty.")
    _check_text(command.rack_id, "RackId can't be empty.")
    if command.is_joining:
        _check_join(command)
    elif command.epoch == STATIC_LEAVING_EPOCH and command.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif command.epoch < STATIC_LEAVING_EPOCH:
        raise _invalid(f"MemberEpoch is {command.epoch}, but must be greater than or equal to -2.")


def _check_join(command: StreamsHeartbeat) -> None:
    if command.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in zip(("Active", "Standby", "Warmup"), command.owned or (), strict=False):
        if tasks:
            raise _invalid(f"{name}Tasks must be empty when (re-)joining.")
    if command.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for subtopology in command.topology.value.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise KafkaError(
                    Error.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but "
                    f"it is set to {topic.partitions}.",
                )


def _check_text(text: str | None, complaint: str) -> None:
    if text is not None and not text.strip(_JAVA_SPACE):
        raise _invalid(complaint)


def _invalid(complaint: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, complaint)
