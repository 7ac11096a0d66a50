"""StreamsGroupDescribe: describes groups of streams applications (KIP-1071).

v1: the description of the topology (KIP-1331) and the assignor (KIP-1357).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import describable
from wirekafka.apis.shared.group_protocols import check_streams_protocol
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.groups.streams.commands import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribeStreamsGroup,
)
from wirekafka.coordinator.groups.streams.configure import ConfiguredSubtopology, InternalTopic
from wirekafka.coordinator.groups.streams.tasks import TaskId, in_record_order
from wirekafka.coordinator.groups.streams.topology import hash_order
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue
from wirekafka.protocol.records.streams_groups import TopicInfo as SentTopic
from wirekafka.protocol.streams_group_describe import (
    Assignment,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskIds,
    TaskOffset,
    TopicInfo,
)
from wirekafka.security.acl import DESCRIBE, GROUP, TOPIC

_HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."
_NOT_REQUESTED, _NOT_STORED = 0, 1
"""States of topology descriptions; none is ever stored, as that takes a plugin."""


_Group = StreamsGroupDescribeResponse.DescribedGroup
_Topology = _Group.Topology


@api(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse)
async def streams_group_describe(
    request: StreamsGroupDescribeRequest, call: Call
) -> StreamsGroupDescribeResponse:
    """Describe each group; an unknown group or one of another kind has an error."""
    check_streams_protocol(call)
    turns = Turns()
    refused, allowed = await describable(request.group_ids, call, turns)
    groups = await turns.map(
        lambda id: _Group(group_id=id, error_code=Error.GROUP_AUTHORIZATION_FAILED), refused
    )
    for group_id in sorted(allowed, key=bool):  # Those without an id first.
        group = await _describe(group_id, call)
        if not group.error_code:
            if request.include_authorized_operations:
                group.authorized_operations = call.allowed_operations(GROUP, group_id)
            if request.include_topology_description:
                group.topology_description_status = _NOT_STORED
        groups.append(group)
        await turns.step()
    return StreamsGroupDescribeResponse(groups=groups)


@failure_of(streams_group_describe)
def streams_group_describe_failure(
    request: StreamsGroupDescribeRequest, error: KafkaError, call: Call
) -> StreamsGroupDescribeResponse:
    """Report the error for every group of the request."""
    return StreamsGroupDescribeResponse(
        groups=[
            _Group(group_id=group_id, error_code=error.error, error_message=error.message)
            for group_id in request.group_ids
        ]
    )


async def _describe(group_id: str, call: Call) -> StreamsGroupDescribeResponse.DescribedGroup:
    if not group_id:
        return _Group(group_id=group_id, error_code=Error.INVALID_GROUP_ID)
    try:
        described: DescribedStreamsGroup = await call.broker.groups.submit(
            group_id, DescribeStreamsGroup(group_id)
        )
    except KafkaError as error:
        return _Group(group_id=group_id, error_code=error.error, error_message=error.message)
    topology = _topology(described)
    if not _sees_all_topics(topology, call):
        return _Group(
            group_id=group_id,
            error_code=Error.TOPIC_AUTHORIZATION_FAILED,
            error_message=_HIDDEN_TOPICS,
        )
    return _Group(
        group_id=group_id,
        group_state=described.state,
        group_epoch=described.epoch,
        assignment_epoch=described.assignment_epoch,
        topology=topology,
        members=[_member(each) for each in described.members],
        assignor_name=described.assignor,
    )


def _sees_all_topics(
    topology: StreamsGroupDescribeResponse.DescribedGroup.Topology, call: Call
) -> bool:
    """Whether the client may describe every topic of the topology."""
    names = {
        name
        for each in topology.subtopologies or ()
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }
    may_describe = call.authorized(DESCRIBE, TOPIC, names)
    return all(name in may_describe for name in names)


def _topology(
    described: DescribedStreamsGroup,
) -> StreamsGroupDescribeResponse.DescribedGroup.Topology:
    configured = described.configured
    if configured is None or configured.subtopologies is None:
        subtopologies = described.topology.subtopologies
        return _Topology(
            epoch=described.topology.epoch,
            subtopologies=[_sent(subtopologies[id]) for id in sorted(subtopologies)],
        )
    return _Topology(
        epoch=configured.epoch,
        subtopologies=[_configured(id, each) for id, each in configured.subtopologies.items()],
    )


def _sent(
    subtopology: StreamsGroupTopologyValue.Subtopology,
) -> StreamsGroupDescribeResponse.DescribedGroup.Topology.Subtopology:
    """Return a subtopology as the members sent it."""
    return _Topology.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_sent_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_sent_topics(subtopology.repartition_source_topics),
    )


def _sent_topics(topics: Iterable[SentTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                KeyValue(key=each.key, value=each.value) for each in topic.topic_configs
            ],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _configured(
    id: str, subtopology: ConfiguredSubtopology
) -> StreamsGroupDescribeResponse.DescribedGroup.Topology.Subtopology:
    """Return a subtopology with the partitions of its internal topics."""
    return _Topology.Subtopology(
        subtopology_id=id,
        source_topics=sorted(set(subtopology.source_topics)),
        repartition_sink_topics=sorted(set(subtopology.repartition_sinks)),
        state_changelog_topics=_topics(subtopology.changelogs),
        repartition_source_topics=_topics(subtopology.repartition_sources),
    )


def _topics(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=name,
            partitions=topics[name].partition_count,
            replication_factor=topics[name].replication_factor,
            topic_configs=_key_values(topics[name].configs),
        )
        for name in sorted(topics)
    ]


def _member(
    described: DescribedStreamsMember,
) -> StreamsGroupDescribeResponse.DescribedGroup.Member:
    member = described.member
    endpoint = member.endpoint
    return _Group.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id or "",
        user_endpoint=None
        if endpoint is None
        else _Group.Member.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_key_values({key: member.tags[key] for key in hash_order(member.tags)}),
        task_offsets=_offsets(described.offsets),
        task_end_offsets=_offsets(described.end_offsets),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(described.target),
    )


def _key_values(values: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in values.items()]


def _offsets(offsets: Mapping[TaskId, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=task[0], partition=task[1], offset=offsets[task])
        for task in sorted(offsets)
    ]


def _assignment(roles: Iterable[Mapping[str, Iterable[int]]]) -> Assignment:
    active, standby, warmup = (
        [
            TaskIds(subtopology_id=id, partitions=partitions)
            for id, partitions in in_record_order(tasks)
        ]
        for tasks in roles
    )
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
