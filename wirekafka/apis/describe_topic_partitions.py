"""DescribeTopicPartitions: describes topics and their partitions in pages (KIP-966).

It also reports eligible leader replicas.
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topic_names import check_name
from wirekafka.metadata.image.image import MetadataImage, TopicImage
from wirekafka.metadata.image.view import View
from wirekafka.protocol.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS
from wirekafka.security.acl import DESCRIBE, TOPIC

_Topic = DescribeTopicPartitionsResponse.Topic
_Partition = _Topic.Partition
_Cursor = DescribeTopicPartitionsResponse.Cursor


@api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse)
async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    """Describe topics in the order of their names, one page of partitions per request."""
    image = call.broker.image
    wanted = [topic.name for topic in request.topics] or list(image.topics)
    names = sorted(set(wanted))
    first_partition = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        _check_cursor(request.cursor, wanted if request.topics else None)
        first_partition = request.cursor.partition_index
    most = call.broker.config.max_request_partition_size_limit
    room = max(min(request.response_partition_limit, most), 1)
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    view = View(image, call.listener)
    turns = Turns()
    described_names, hidden = await _split(names, call, turns)
    for name in described_names:
        if not room:
            response.next_cursor = _Cursor(topic_name=name, partition_index=0)
            break
        start = first_partition if request.cursor and name == request.cursor.topic_name else 0
        described = _describe(name, range(start, start + room), image, view)
        described.topic_authorized_operations = call.allowed_operations(TOPIC, name)
        response.topics.append(described)
        await turns.step(1 + len(described.partitions))
        room -= len(described.partitions)
        end = start + len(described.partitions)
        if name in image.topics and end < len(image.topics[name].partitions):
            response.next_cursor = _Cursor(topic_name=name, partition_index=end)
            break
    if request.topics:
        response.topics += [
            _Topic(error_code=Error.TOPIC_AUTHORIZATION_FAILED, name=name) for name in hidden
        ]
    return response


async def _split(names: list[str], call: Call, turns: Turns) -> tuple[list[str], list[str]]:
    """The names of topics that the client may describe, and the hidden names."""
    allowed, hidden = list[str](), list[str]()
    for name in names:
        (allowed if call.is_authorized(DESCRIBE, TOPIC, name) else hidden).append(name)
        await turns.step()
    return allowed, hidden


def _check_cursor(cursor: DescribeTopicPartitionsRequest.Cursor, wanted: list[str] | None) -> None:
    if cursor.partition_index < 0:
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}",
        )
    if wanted is not None and cursor.topic_name not in wanted:
        raise KafkaError(
            Error.INVALID_REQUEST,
            "DescribeTopicPartitionsRequest topic list should "
            f"contain the cursor topic: {cursor.topic_name}",
        )


def _describe(name: str, indexes: range, image: MetadataImage, view: View) -> _Topic:
    topic = image.topics.get(name)
    if topic is None:
        return _Topic(error_code=_why_unknown(name), name=name, is_internal=name in INTERNAL_TOPICS)
    return _Topic(
        name=name,
        topic_id=topic.id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[
            _partition(topic, index, view) for index in indexes if index in topic.partitions
        ],
    )


def _why_unknown(name: str) -> Error:
    try:
        check_name(name)
    except KafkaError as error:
        return error.error
    return Error.UNKNOWN_TOPIC_OR_PARTITION


def _partition(topic: TopicImage, index: int, view: View) -> _Partition:
    partition = topic.partitions[index]
    seen = view.partition(partition)
    return _Partition(
        error_code=seen.error,
        partition_index=index,
        leader_id=seen.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=seen.offline,
    )


@failure_of(describe_topic_partitions)
def describe_topic_partitions_failure(
    request: DescribeTopicPartitionsRequest, error: KafkaError, call: Call
) -> DescribeTopicPartitionsResponse:
    """Report the error for every topic of the request."""
    return DescribeTopicPartitionsResponse(
        topics=[_Topic(error_code=error.error, name=topic.name) for topic in request.topics],
        next_cursor=None,
    )
