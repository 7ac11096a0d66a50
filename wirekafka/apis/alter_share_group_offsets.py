"""AlterShareGroupOffsets: sets the start offsets of share partitions (KIP-932)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.share_version import UNSUPPORTED, check_share_version
from wirekafka.coordinator.groups.share.commands import AlterShareOffsets
from wirekafka.coordinator.java_order import grown_capacity, integers_in_order
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import GROUP, READ, TOPIC

_NO_TOPIC_ID = bytes(16)


_Topic = AlterShareGroupOffsetsResponse.Topic
_UNKNOWN = KafkaError(
    Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)


@api(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse)
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, call: Call
) -> AlterShareGroupOffsetsResponse:
    """Set the start offsets in a group without members, which is created if it does not exist.

    Topics that do not exist, or that the client may not read, come first in the response.
    """
    check_share_version(call, UNSUPPORTED)
    call.authorize(READ, GROUP, request.group_id)
    if not request.group_id:
        raise KafkaError(Error.INVALID_GROUP_ID, "The group id is invalid.")
    topics = call.broker.image.topics
    responses: dict[str, AlterShareGroupOffsetsResponse.Topic] = {}
    existing = []
    readable = call.authorized(READ, TOPIC, [topic.topic_name for topic in request.topics])
    for topic in request.topics:
        known = topics.get(topic.topic_name)
        if known is not None and topic.topic_name in readable:
            existing.append(topic)
            continue
        refused = _UNKNOWN if topic.topic_name in readable else refusal(TOPIC)
        topic_id = known.id if known is not None else _NO_TOPIC_ID
        for partition in topic.partitions:
            _report(responses, topic.topic_name, topic_id, partition.partition_index, refused)
    errors = await call.broker.share_groups.alter_offsets(
        _command(request.group_id, existing, call)
    )
    for topic in existing:
        known = topics[topic.topic_name]
        for partition in topic.partitions:
            index = partition.partition_index
            error = errors.get((known.id, index))
            if index >= len(known.partitions):
                error = _UNKNOWN
            _report(responses, topic.topic_name, known.id, index, error)
        responses.setdefault(
            topic.topic_name, _Topic(topic_name=topic.topic_name, topic_id=known.id, partitions=[])
        )
    return AlterShareGroupOffsetsResponse(responses=list(responses.values()))


def _command(
    group_id: str, topics: list[AlterShareGroupOffsetsRequest.Topic], call: Call
) -> AlterShareOffsets:
    offsets: dict[bytes, dict[int, int]] = {}
    named: dict[bytes, tuple[str, list[int]]] = {}
    for topic in topics:
        known = call.broker.image.topics[topic.topic_name]
        existing = {
            each.partition_index: each.start_offset
            for each in topic.partitions
            if each.partition_index < len(known.partitions)
        }
        named[known.id] = (
            topic.topic_name,
            integers_in_order(existing, grown_capacity(len(existing))),
        )
        if existing:
            offsets.setdefault(known.id, {}).update(existing)
    return AlterShareOffsets(group_id, offsets, named)


def _report(
    responses: dict[str, AlterShareGroupOffsetsResponse.Topic],
    name: str,
    topic_id: bytes,
    index: int,
    error: KafkaError | None,
) -> None:
    topic = responses.get(name)
    if topic is None:
        topic = responses[name] = _Topic(topic_name=name, topic_id=topic_id, partitions=[])
    topic.partitions.append(
        _Topic.Partition(
            partition_index=index,
            error_code=Error.NONE if error is None else error.error,
            error_message=None if error is None else error.message,
        )
    )
