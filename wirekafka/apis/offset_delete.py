"""OffsetDelete: deletes committed offsets of topics a group no longer reads (KIP-496)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String
from wirekafka.coordinator.group_commands import DeleteOffsets
from wirekafka.errors import Error


class OffsetDeleteRequest(Request, key=47, versions="0", flexible="none"):
    group_id: String
    topics: list[Topic]

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32


class OffsetDeleteResponse(Response, answers=OffsetDeleteRequest):
    error_code: Int16
    throttle_time_ms: Int32
    topics: list[Topic]

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            error_code: Int16


@api(OffsetDeleteRequest, OffsetDeleteResponse)
async def offset_delete(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    """Forget offsets of topics that nobody in the group subscribes to."""
    image = call.broker.image
    kind = OffsetDeleteResponse.Topic
    topics, places, deleted = [], [], []
    for topic in request.topics:
        answer = kind(name=topic.name)
        topics.append(answer)
        for each in topic.partitions:
            index = each.partition_index
            if image.partition(topic.name, index) is None:
                answer.partitions.append(kind.Partition(
                    partition_index=index, error_code=Error.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                places.append((topic.name, index))
                deleted.append((answer, index))
    errors: list[Error] = await call.broker.groups.submit(
        request.group_id, DeleteOffsets(request.group_id, places))
    for (answer, index), error in zip(deleted, errors, strict=True):
        answer.partitions.append(kind.Partition(partition_index=index, error_code=error))
    return OffsetDeleteResponse(topics=topics)
