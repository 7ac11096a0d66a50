"""What users with few permissions may do with share groups and streams groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.cases.security.permission_cases import (
    PermittedRequest,
    books_of,
    granted_group,
    other_group,
)
from wirekafka.conformance.cases.security.permissions_on_topics import topics_of
from wirekafka.conformance.stage import SHARE, PreparationFailed, Stage
from wirekafka.errors import Error
from wirekafka.log.checkpoints import uuid_text
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.delete_share_group_state import DeleteShareGroupStateRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.initialize_share_group_state import InitializeShareGroupStateRequest
from wirekafka.protocol.read_share_group_state import ReadShareGroupStateRequest
from wirekafka.protocol.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from wirekafka.protocol.write_share_group_state import WriteShareGroupStateRequest

_MEMBER = "6ZGGfVUxQGmvg2Hc4gKGXw"
_HOUR_MS = 3_600_000
_CLUSTER_ACTION = "cluster CLUSTER_ACTION, cluster ALTER, -cluster CLUSTER_ACTION"


def _share_heartbeat(stage: Stage, topics: Sequence[str], epoch: int = 0) -> Request:
    return ShareGroupHeartbeatRequest(
        group_id=granted_group(stage),
        member_id=_MEMBER,
        member_epoch=epoch,
        subscribed_topic_names=list(topics),
    )


def _join_share(stage: Stage) -> None:
    """The member, as the super user has it join, with its partitions."""

    def is_assigned() -> bool:
        answer = stage.do(_share_heartbeat(stage, [stage.topic]), 1)
        if answer.error_code:
            raise PreparationFailed(f"ShareGroupHeartbeat: {Error.of(answer.error_code).name}")
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    stage.until(is_assigned, "partitions of the member")


def _leave_share(stage: Stage) -> None:
    """The group without its member, so that it can be deleted."""
    stage.do(_share_heartbeat(stage, [], epoch=-1), 1)


def _share_fetch(stage: Stage, member: str = _MEMBER) -> Request:
    kind = ShareFetchRequest.FetchTopic
    # A partition that does not exist: whether records of others are there is a matter of time.
    part = kind.FetchPartition(partition_index=99, acknowledgement_batches=[])
    ids = [stage.id_of(name) for name in topics_of(stage, missing=False)]
    return ShareFetchRequest(
        group_id=granted_group(stage),
        member_id=member,
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1000,
        max_records=10,
        batch_size=10,
        topics=[kind(topic_id=id, partitions=[part]) for id in ids] if member else [],
    )


def _acknowledge(stage: Stage) -> Request:
    kind = ShareAcknowledgeRequest.AcknowledgeTopic
    partition = kind.AcknowledgePartition
    backward = partition.AcknowledgementBatch(first_offset=2, last_offset=1, acknowledge_types=[1])
    batch = partition.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    partitions = [
        partition(partition_index=1, acknowledgement_batches=[backward]),
        partition(partition_index=99, acknowledgement_batches=[batch]),
    ]
    ids = [stage.id_of(name) for name in topics_of(stage, missing=False)]
    return ShareAcknowledgeRequest(
        group_id=granted_group(stage),
        member_id=_MEMBER,
        share_session_epoch=1,
        topics=[kind(topic_id=id, partitions=partitions) for id in ids],
    )


def _describe_offsets(stage: Stage, is_named: bool) -> Request:
    kind = DescribeShareGroupOffsetsRequest.Group
    topics = [kind.Topic(topic_name=name, partitions=[0]) for name in topics_of(stage)]
    return DescribeShareGroupOffsetsRequest(
        groups=[
            kind(group_id=group, topics=topics if is_named else None)
            for group in (granted_group(stage), other_group(stage))
        ]
    )


def _alter(stage: Stage, *names: str) -> Request:
    kind = AlterShareGroupOffsetsRequest.Topic
    part = kind.Partition(partition_index=0, start_offset=0)
    return AlterShareGroupOffsetsRequest(
        group_id=granted_group(stage),
        topics=[kind(topic_name=name, partitions=[part]) for name in names],
    )


def _have_offsets(stage: Stage) -> None:
    """A share group with offsets of both topics."""
    answer = stage.do(_alter(stage, *topics_of(stage, missing=False)), 0)
    if answer.error_code:
        raise PreparationFailed(f"AlterShareGroupOffsets: {Error.of(answer.error_code).name}")


def _delete(stage: Stage, *names: str) -> Request:
    kind = DeleteShareGroupOffsetsRequest.Topic
    topics = [kind(topic_name=name) for name in names]
    return DeleteShareGroupOffsetsRequest(group_id=granted_group(stage), topics=topics)


def _state_key(stage: Stage) -> str:
    return f"{granted_group(stage)}:{uuid_text(stage.id_of(stage.topic))}:0"


def _of_state(stage: Stage) -> int:
    return stage.coordinator(SHARE, _state_key(stage))


def _state(stage: Stage, request: type[Any], part: str, **fields: Any) -> Request:
    kind = getattr(request, part)
    data = kind.PartitionData(partition=0, **fields)
    topics = [kind(topic_id=stage.id_of(stage.topic), partitions=[data])]
    made: Request = request(group_id=granted_group(stage), topics=topics)
    return made


def _find(stage: Stage) -> Request:
    keys = [_state_key(stage), granted_group(stage)]
    return FindCoordinatorRequest(key=keys[0], key_type=SHARE, coordinator_keys=keys)


def _codes(stage: Stage, answer: Any) -> object:
    found = getattr(answer, "coordinators", None) or [answer]
    return [Error.of(each.error_code).name for each in found]


def _streams_heartbeat(stage: Stage, *sources: str, epoch: int = 0, changelog: str = "") -> Request:
    changelogs = [TopicInfo(name=changelog)] if changelog else []
    subtopology = StreamsGroupTopologyValue.Subtopology(
        subtopology_id="0", source_topics=list(sources), state_changelog_topics=changelogs
    )
    topology = StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology])
    return StreamsGroupHeartbeatRequest(
        group_id=granted_group(stage),
        member_id=_MEMBER,
        member_epoch=epoch,
        rebalance_timeout_ms=_HOUR_MS,
        process_id="process",
        topology=topology if epoch == 0 else None,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def _leave_streams(stage: Stage) -> None:
    """The group without its member, so that it can be deleted."""
    stage.do(_streams_heartbeat(stage, epoch=-1), 1)


def _groups(stage: Stage) -> list[str]:
    return [granted_group(stage), other_group(stage)]


_SHARE_HEARTBEATS = {
    "of nobody": lambda s: _share_heartbeat(s, [s.topic], epoch=1),
    "with another topic": lambda s: _share_heartbeat(s, topics_of(s), epoch=1),
    "that is invalid": lambda s: _share_heartbeat(s, [], epoch=-5),
}
_STATES: dict[type[Any], tuple[str, dict[str, Any]]] = {
    InitializeShareGroupStateRequest: ("InitializeStateData", {"state_epoch": 1}),
    ReadShareGroupStateRequest: ("ReadStateData", {}),
    WriteShareGroupStateRequest: ("WriteStateData", {"state_epoch": 1}),
    ReadShareGroupStateSummaryRequest: ("ReadStateSummaryData", {}),
    DeleteShareGroupStateRequest: ("DeleteStateData", {}),
}

BOOKS = books_of(
    [
        *(
            PermittedRequest(
                title,
                ShareGroupHeartbeatRequest,
                make,
                "group READ, group DESCRIBE, topic DESCRIBE, -group READ, -topic DESCRIBE",
            )
            for title, make in _SHARE_HEARTBEATS.items()
        ),
        PermittedRequest(
            "",
            ShareGroupDescribeRequest,
            lambda s: ShareGroupDescribeRequest(
                group_ids=_groups(s), include_authorized_operations=True
            ),
            "group DESCRIBE, group READ, -group DESCRIBE",
            prepare=_have_offsets,
        ),
        PermittedRequest(
            "of a member",
            ShareFetchRequest,
            _share_fetch,
            "group READ, topic READ, -group READ, -topic READ",
            prepare=_join_share,
            finish=_leave_share,
        ),
        PermittedRequest(
            "of nobody",
            ShareFetchRequest,
            lambda stage: _share_fetch(stage, member=""),
            "group READ, -group READ",
        ),
        PermittedRequest(
            "without a session",
            ShareAcknowledgeRequest,
            _acknowledge,
            "group READ, topic READ, -group READ, -topic READ",
        ),
        *(
            PermittedRequest(
                "",
                request,
                lambda s, request=request, part=part, fields=fields: _state(  # type: ignore[misc]
                    s, request, part, **fields
                ),
                _CLUSTER_ACTION,
                at=_of_state,
            )
            for request, (part, fields) in _STATES.items()
        ),
        PermittedRequest(
            "without topics",
            WriteShareGroupStateRequest,
            lambda stage: WriteShareGroupStateRequest(group_id=granted_group(stage)),
            "cluster CLUSTER_ACTION",
            at=_of_state,
        ),
        PermittedRequest(
            "of share groups",
            FindCoordinatorRequest,
            _find,
            "cluster CLUSTER_ACTION, group DESCRIBE, -cluster CLUSTER_ACTION",
            first=6,
            show=_codes,
        ),
        PermittedRequest(
            "of topics",
            DescribeShareGroupOffsetsRequest,
            lambda stage: _describe_offsets(stage, is_named=True),
            "group DESCRIBE, topic DESCRIBE, group READ, -group DESCRIBE, -topic DESCRIBE",
            prepare=_have_offsets,
        ),
        PermittedRequest(
            "of all topics",
            DescribeShareGroupOffsetsRequest,
            lambda stage: _describe_offsets(stage, is_named=False),
            "group DESCRIBE, -topic DESCRIBE",
            prepare=_have_offsets,
        ),
        PermittedRequest(
            "",
            AlterShareGroupOffsetsRequest,
            lambda stage: _alter(stage, *topics_of(stage)),
            "group READ, topic READ, -group READ, -topic READ",
        ),
        PermittedRequest(
            "",
            DeleteShareGroupOffsetsRequest,
            lambda stage: _delete(stage, *topics_of(stage)),
            "group DELETE, topic READ, -group DELETE, -topic READ",
            prepare=_have_offsets,
        ),
        PermittedRequest(
            "of no topic",
            DeleteShareGroupOffsetsRequest,
            _delete,
            "group DELETE",
            prepare=_have_offsets,
        ),
        PermittedRequest(
            "of nobody",
            StreamsGroupHeartbeatRequest,
            lambda stage: _streams_heartbeat(stage, epoch=1),
            "group READ, -group READ",
        ),
        PermittedRequest(
            "that joins",
            StreamsGroupHeartbeatRequest,
            lambda stage: _streams_heartbeat(stage, stage.topic),
            "group READ, topic DESCRIBE, -topic DESCRIBE",
            finish=_leave_streams,
        ),
        PermittedRequest(
            "with another topic",
            StreamsGroupHeartbeatRequest,
            lambda stage: _streams_heartbeat(stage, stage.topic, stage.compacted),
            "group READ",
            finish=_leave_streams,
        ),
        PermittedRequest(
            "with internal topics",
            StreamsGroupHeartbeatRequest,
            lambda s: _streams_heartbeat(s, s.topic, "__consumer_offsets", "__share_group_state"),
            "",
            finish=_leave_streams,
        ),
        PermittedRequest(
            "with an invalid topic",
            StreamsGroupHeartbeatRequest,
            lambda stage: _streams_heartbeat(stage, stage.topic, "no topic"),
            "",
            finish=_leave_streams,
        ),
        PermittedRequest(
            "with a changelog to create",
            StreamsGroupHeartbeatRequest,
            lambda stage: _streams_heartbeat(
                stage, stage.topic, changelog=stage.name("store-changelog")
            ),
            "-cluster CREATE",
            finish=_leave_streams,
        ),
        PermittedRequest(
            "",
            StreamsGroupDescribeRequest,
            lambda s: StreamsGroupDescribeRequest(
                group_ids=_groups(s),
                include_authorized_operations=True,
                include_topology_description=True,
            ),
            "group DESCRIBE, group READ, -group DESCRIBE",
        ),
        PermittedRequest(
            "",
            StreamsGroupTopologyDescriptionUpdateRequest,
            lambda stage: StreamsGroupTopologyDescriptionUpdateRequest(
                group_id=granted_group(stage), member_id=_MEMBER
            ),
            "group READ, group DESCRIBE",
        ),
    ]
)
