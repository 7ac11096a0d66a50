"""OffsetCommit: commits a group's offsets;
v7: static members (KIP-345), v9: new group protocol, v10: topic ids (KIP-848).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.coordinator.group_commands import CommitOffsets, OffsetToCommit
from wirekafka.errors import Error, KafkaError


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+"):
    group_id: String
    generation_id_or_member_epoch: Int32 = field(default=-1)
    member_id: String
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1)
    topics: list[Topic]

    class Topic(Part):
        name: String = field("2-9")
        topic_id: Uuid = field("10+")
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("6+", default=-1)
            committed_metadata: String | None = field(default="")


class OffsetCommitResponse(Response, answers=OffsetCommitRequest):
    throttle_time_ms: Int32 = field("3+")
    topics: list[Topic]

    class Topic(Part):
        name: String = field("2-9")
        topic_id: Uuid = field("10+")
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            error_code: Int16


_TOPIC_IDS_SINCE = 10


@api(OffsetCommitRequest, OffsetCommitResponse)
async def offset_commit(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Commit what can be; each partition has an error of its own."""
    topics, places, offsets = _sort_out(request, call)
    errors: list[Error] = []
    if offsets:
        try:
            errors = await call.broker.groups.submit(request.group_id, CommitOffsets(
                request.group_id,
                request.generation_id_or_member_epoch,
                request.member_id,
                offsets,
                request.group_instance_id,
                request.retention_time_ms,
                call.version,
            ))
        except KafkaError as error:
            errors = [error.error] * len(offsets)
    kind = OffsetCommitResponse.Topic.Partition
    for partitions, offset, error_code in zip(places, offsets, errors, strict=True):
        partitions.append(kind(partition_index=offset.partition, error_code=error_code))
    return OffsetCommitResponse(topics=[topic for topic in topics if topic.partitions])


def _sort_out(request: OffsetCommitRequest, call: Call) -> tuple[
    list[OffsetCommitResponse.Topic],
    list[list[OffsetCommitResponse.Topic.Partition]],
    list[OffsetToCommit],
]:
    """The answer with what cannot be committed, and for the rest where its answer goes."""
    kind = OffsetCommitResponse.Topic
    image = call.broker.image
    by_id = call.version >= _TOPIC_IDS_SINCE
    unknown = Error.UNKNOWN_TOPIC_ID if by_id else Error.UNKNOWN_TOPIC_OR_PARTITION
    topics, places, offsets = [], [], []
    for told in request.topics:
        known = (image.topics_by_id.get(told.topic_id) if by_id
                 else image.topics.get(told.name))
        answers: list[OffsetCommitResponse.Topic.Partition] = []
        topics.append(kind(name=told.name, topic_id=told.topic_id, partitions=answers))
        for each in told.partitions:
            index = each.partition_index
            if known is not None and index in known.partitions:
                places.append(answers)
                offsets.append(OffsetToCommit(
                    known.name, index, each.committed_offset, each.committed_leader_epoch,
                    each.committed_metadata or "", known.id))
            else:
                answers.append(kind.Partition(
                    partition_index=index,
                    error_code=unknown if known is None else Error.UNKNOWN_TOPIC_OR_PARTITION))
    return topics, places, offsets


def offset_commit_failure(request: OffsetCommitRequest, error: KafkaError,
                          call: Call) -> OffsetCommitResponse:
    """Every partition fails alike."""
    answered = OffsetCommitResponse.Topic
    return OffsetCommitResponse(topics=[
        answered(name=topic.name, topic_id=topic.topic_id, partitions=[
            answered.Partition(partition_index=each.partition_index, error_code=error.error)
            for each in topic.partitions])
        for topic in request.topics])
