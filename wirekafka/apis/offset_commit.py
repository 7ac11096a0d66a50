"""OffsetCommit: commits the offsets of a group.

v7: static members (KIP-345), v9: member epochs (KIP-848), v10: topic ids (KIP-848).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.topic_access import topics_by_id, topics_by_name
from wirekafka.coordinator.groups.commands import CommitOffsets, OffsetToCommit
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import TopicImage
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from wirekafka.security.acl import GROUP, READ

_TOPIC_IDS_SINCE = 10


@api(OffsetCommitRequest, OffsetCommitResponse)
async def offset_commit(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Commit the offsets of existing partitions; each partition has its own error."""
    call.authorize(READ, GROUP, request.group_id)
    topics, offsets, places = _resolve(request, call)
    errors: list[Error] = []
    if offsets:
        try:
            errors = await call.broker.groups.submit(
                request.group_id,
                CommitOffsets(
                    request.group_id,
                    request.generation_id_or_member_epoch,
                    request.member_id,
                    offsets,
                    request.group_instance_id,
                    request.retention_time_ms,
                    call.version,
                ),
            )
        except KafkaError as error:
            errors = [error.error] * len(offsets)
    kind = OffsetCommitResponse.Topic.Partition
    for partitions, offset, error_code in zip(places, offsets, errors, strict=True):
        partitions.append(kind(partition_index=offset.partition, error_code=error_code))
    return OffsetCommitResponse(topics=[topic for topic in topics if topic.partitions])


def _resolve(
    request: OffsetCommitRequest, call: Call
) -> tuple[
    list[OffsetCommitResponse.Topic],
    list[OffsetToCommit],
    list[list[OffsetCommitResponse.Topic.Partition]],
]:
    """Split the request into valid offsets and a response with the errors of invalid offsets.

    Returns the topics of the response, the offsets to commit, and, for each offset, the list of
    partitions to which its result belongs.
    """
    kind = OffsetCommitResponse.Topic
    by_id = call.version >= _TOPIC_IDS_SINCE
    found = (topics_by_id if by_id else topics_by_name)(request.topics, READ, call)
    topics, offsets, places = [], [], []
    for topic, known in zip(request.topics, found, strict=True):
        results: list[OffsetCommitResponse.Topic.Partition] = []
        topics.append(kind(name=topic.name, topic_id=topic.topic_id, partitions=results))
        for each in topic.partitions:
            index = each.partition_index
            if isinstance(known, TopicImage) and index in known.partitions:
                places.append(results)
                offsets.append(
                    OffsetToCommit(
                        known.name,
                        index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata or "",
                        known.id,
                    )
                )
            else:
                missing = Error.UNKNOWN_TOPIC_OR_PARTITION
                results.append(
                    kind.Partition(
                        partition_index=index,
                        error_code=known if isinstance(known, Error) else missing,
                    )
                )
    return topics, offsets, places


@failure_of(offset_commit)
def offset_commit_failure(
    request: OffsetCommitRequest, error: KafkaError, call: Call
) -> OffsetCommitResponse:
    """Report the error for every partition of the request."""
    answered = OffsetCommitResponse.Topic
    return OffsetCommitResponse(
        topics=[
            answered(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    answered.Partition(partition_index=each.partition_index, error_code=error.error)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
