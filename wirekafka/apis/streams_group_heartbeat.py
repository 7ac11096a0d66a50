"""StreamsGroupHeartbeat: joins, stays in or leaves a group of a streams application (KIP-1071).

v1: MISSING_CLIENT_TAGS, and whether a topology description is wanted (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_protocols import check_streams_protocol
from wirekafka.apis.shared.registry import api
from wirekafka.coordinator.groups.commands import QuietHeartbeat
from wirekafka.coordinator.groups.streams.commands import (
    EndpointPartitions,
    StreamsHeartbeat,
    StreamsHeartbeatReply,
    check_heartbeat,
)
from wirekafka.coordinator.groups.streams.config import StreamsGroupOptions
from wirekafka.coordinator.groups.streams.configure import InternalTopic
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import ProcessEndpoint as MemberEndpoint
from wirekafka.coordinator.groups.streams.status import Status, StatusCode
from wirekafka.coordinator.groups.streams.tasks import TaskId, Tasks, read_tasks
from wirekafka.coordinator.groups.streams.topology import Topology as GroupTopology
from wirekafka.coordinator.groups.streams.topology import hash_order
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topic_names import check_name
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue
from wirekafka.protocol.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicPartition,
)
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS
from wirekafka.security.acl import CLUSTER, CREATE, DESCRIBE, GROUP, READ, TOPIC


@api(StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse)
def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, call: Call
) -> StreamsGroupHeartbeatResponse | Coroutine[Any, Any, StreamsGroupHeartbeatResponse]:
    """Renew the session of a stable member at once; process any other heartbeat."""
    check_streams_protocol(call)
    if not call.is_authorized(READ, GROUP, request.group_id):
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED)
    if (
        request.active_tasks is None
        and request.standby_tasks is None
        and request.warmup_tasks is None
        and request.task_offsets is None
        and request.task_end_offsets is None
        and request.topology is None
        and request.process_id is None
        and request.user_endpoint is None
        and request.client_tags is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
        and not request.shutdown_application
    ):
        quiet: QuietHeartbeat[StreamsGroupOptions] = QuietHeartbeat(
            StreamsGroup,
            request.group_id,
            request.member_id,
            request.member_epoch,
            request.instance_id,
            call.client_id or "",
            call.client_host,
            request.endpoint_information_epoch,
        )
        options = call.broker.groups.renew(quiet)
        if options is not None:
            return StreamsGroupHeartbeatResponse(
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                heartbeat_interval_ms=options.heartbeat_interval_ms,
                task_offset_interval_ms=options.task_offset_interval_ms,
                acceptable_recovery_lag=options.acceptable_recovery_lag,
                status=[],
                endpoint_information_epoch=request.endpoint_information_epoch,
            )
    return _process(request, call)


async def _process(
    request: StreamsGroupHeartbeatRequest, call: Call
) -> StreamsGroupHeartbeatResponse:
    """Respond with the tasks only if they changed.

    Missing internal topics are created before the response is sent.
    """
    if request.topology is not None:
        names = list(dict.fromkeys(_topic_names(request.topology.subtopologies)))
        _check_topic_names(names)
        may_describe = call.authorized(DESCRIBE, TOPIC, names)
        if any(name not in may_describe for name in names):
            raise KafkaError(Error.TOPIC_AUTHORIZATION_FAILED)
    heartbeat = _heartbeat(request, call)
    check_heartbeat(heartbeat)
    _check_fields(request)
    reply: StreamsHeartbeatReply = await call.broker.groups.submit(request.group_id, heartbeat)
    status = reply.status
    if reply.missing:
        status = await _create(reply, call)
    return _response(reply, status)


def _topic_names(subtopologies: Iterable[Subtopology]) -> list[str]:
    return [
        name
        for each in subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    ]


def _check_topic_names(names: Iterable[str]) -> None:
    """Raise STREAMS_INVALID_TOPOLOGY for topics that no application may use."""
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        raise KafkaError(
            Error.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is "
            "prohibited.",
        )
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        raise KafkaError(
            Error.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(invalid)} are not valid topic names.",
        )


def _is_valid(topic: str) -> bool:
    try:
        check_name(topic)
    except KafkaError:
        return False
    return True


def _heartbeat(request: StreamsGroupHeartbeatRequest, call: Call) -> StreamsHeartbeat:
    endpoint, topology = request.user_endpoint, request.topology
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    return StreamsHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=None
        if topology is None
        else GroupTopology(
            StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=topology.subtopologies)
        ),
        owned=None
        if all(each is None for each in tasks)
        else Tasks(*(read_tasks(each or ()) for each in tasks)),
        process_id=request.process_id,
        endpoint=None if endpoint is None else MemberEndpoint(endpoint.host, endpoint.port),
        tags=None
        if request.client_tags is None
        else {tag.key: tag.value for tag in request.client_tags},
        offsets=_offsets(request.task_offsets),
        end_offsets=_offsets(request.task_end_offsets),
        wants_shutdown=request.shutdown_application,
        client_id=call.client_id or "",
        client_host=call.client_host,
        version=call.version,
    )


def _offsets(offsets: Sequence[TaskOffset] | None) -> Mapping[TaskId, int] | None:
    """Return offsets by task; raises INVALID_REQUEST for a task that is listed twice."""
    if offsets is None:
        return None
    by_task: dict[TaskId, int] = {}
    for each in offsets:
        task = (each.subtopology_id, each.partition)
        if task in by_task:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"Task offsets contain a duplicate entry for subtopology {task[0]} and partition "
                f"{task[1]}.",
            )
        by_task[task] = each.offset
    return by_task


def _check_fields(request: StreamsGroupHeartbeatRequest) -> None:
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == 0:
        for name, each in zip(("Active", "Standby", "Warmup"), tasks, strict=True):
            if each is None:
                raise KafkaError(
                    Error.INVALID_REQUEST, f"{name}Tasks must be empty when (re-)joining."
                )
    if any(each is None for each in tasks) and any(each is not None for each in tasks):
        raise KafkaError(
            Error.INVALID_REQUEST, "If one task-type is non-null, all must be non-null."
        )
    if request.member_epoch != 0 and request.topology is not None:
        raise KafkaError(Error.INVALID_REQUEST, "Topology can only be provided when (re-)joining.")


async def _create(reply: StreamsHeartbeatReply, call: Call) -> Sequence[Status]:
    """Create missing topics; returns the status with the errors of earlier attempts.

    If the client may not create some of the topics, none is created, and the status lists the
    refused topics.
    """
    refused = _not_creatable([topic.name for topic in reply.missing], call)
    if refused:
        return _with_detail(
            reply.status, f"; Unauthorized to CREATE on topics {', '.join(refused)}."
        )
    creation = call.broker.auto_creation
    failures = creation.recent_failures((topic.name for topic in reply.missing), call.now_ms)
    topics = [_new_topic(topic) for topic in reply.missing]
    await creation.create_internal(topics, call.now_ms, 2 * reply.heartbeat_interval_ms, call)
    if not failures:
        return reply.status
    shown = [f"{topic} ({failures[topic]})" for topic in hash_order(failures)]
    detail = ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
    return _with_detail(reply.status, f"; Creation failed: {detail}.")


def _not_creatable(names: list[str], call: Call) -> list[str]:
    if call.may(CREATE, CLUSTER):
        return []
    creatable = call.authorized(CREATE, TOPIC, names)
    return [name for name in names if name not in creatable]


def _with_detail(status: Sequence[Status], detail: str) -> list[Status]:
    """Return the status where the entry on missing internal topics has a further detail."""
    return [
        each._replace(detail=each.detail + detail)
        if each.code is StatusCode.MISSING_INTERNAL_TOPICS
        else each
        for each in status
    ]


def _new_topic(topic: InternalTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or -1,
        configs=dict(topic.configs),
    )


def _response(
    reply: StreamsHeartbeatReply, status: Sequence[Status]
) -> StreamsGroupHeartbeatResponse:
    kind = StreamsGroupHeartbeatResponse
    tasks = reply.tasks
    return kind(
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        task_offset_interval_ms=reply.task_offset_interval_ms,
        acceptable_recovery_lag=reply.acceptable_recovery_lag,
        status=[
            kind.GroupStatus(status_code=each.code, status_detail=each.detail) for each in status
        ],
        active_tasks=None if tasks is None else _task_ids(tasks.active),
        standby_tasks=None if tasks is None else _task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(tasks.warmup),
        endpoint_information_epoch=reply.endpoint_epoch,
        partitions_by_user_endpoint=None
        if reply.endpoints is None
        else [_endpoint(each) for each in reply.endpoints],
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=id, partitions=sorted(tasks[id])) for id in hash_order(sorted(tasks))
    ]


def _endpoint(entry: EndpointPartitions) -> StreamsGroupHeartbeatResponse.EndpointToPartitions:
    return StreamsGroupHeartbeatResponse.EndpointToPartitions(
        user_endpoint=Endpoint(host=entry.endpoint.host, port=entry.endpoint.port),
        active_partitions=_partitions(entry.active),
        standby_partitions=_partitions(entry.standby),
    )


def _partitions(topics: Iterable[tuple[str, Sequence[int]]]) -> list[TopicPartition]:
    return [TopicPartition(topic=topic, partitions=list(each)) for topic, each in topics]
