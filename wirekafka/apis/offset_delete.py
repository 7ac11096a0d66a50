"""OffsetDelete: deletes a group's committed offsets of topics that it does not read (KIP-496)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import check_group_id
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.topic_access import topics_by_name
from wirekafka.coordinator.groups.commands import DeleteOffsets
from wirekafka.errors import Error
from wirekafka.protocol.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from wirekafka.security.acl import DELETE, GROUP, READ


@api(OffsetDeleteRequest, OffsetDeleteResponse)
async def offset_delete(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    """Delete the offsets of topics that no member of the group subscribes to."""
    call.authorize(DELETE, GROUP, request.group_id)
    check_group_id(request.group_id)
    kind = OffsetDeleteResponse.Topic
    topics, places, deleted = [], [], []
    for topic, known in zip(
        request.topics, topics_by_name(request.topics, READ, call), strict=True
    ):
        answer = kind(name=topic.name)
        topics.append(answer)
        for each in topic.partitions:
            index = each.partition_index
            if isinstance(known, Error):
                answer.partitions.append(kind.Partition(partition_index=index, error_code=known))
            elif index not in known.partitions:
                answer.partitions.append(
                    kind.Partition(
                        partition_index=index, error_code=Error.UNKNOWN_TOPIC_OR_PARTITION
                    )
                )
            else:
                places.append((topic.name, index))
                deleted.append((answer, index))
    errors: list[Error] = await call.broker.groups.submit(
        request.group_id, DeleteOffsets(request.group_id, places)
    )
    for (answer, index), error in zip(deleted, errors, strict=True):
        answer.partitions.append(kind.Partition(partition_index=index, error_code=error))
    return OffsetDeleteResponse(topics=[topic for topic in topics if topic.partitions])
