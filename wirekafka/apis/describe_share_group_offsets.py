"""DescribeShareGroupOffsets: the start offsets of share partitions (KIP-932).

v1: the lag (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.share_version import check_share_version
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.groups.share.groups import ShareOffset
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import DESCRIBE, GROUP, TOPIC

_NO_TOPIC_ID = bytes(16)
_NO_OFFSET = -1


_Group = DescribeShareGroupOffsetsResponse.Group
_Topic = _Group.Topic
_Partition = _Topic.Partition


@api(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse)
async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, call: Call
) -> DescribeShareGroupOffsetsResponse:
    """Report the named partitions of each group, or all that have an initialized state."""
    check_share_version(call)
    turns = Turns()
    groups = []
    for group in request.groups:
        groups.append(await _describe(group, call, turns))
        await turns.step()
    return DescribeShareGroupOffsetsResponse(groups=groups)


@failure_of(describe_share_group_offsets)
def describe_share_group_offsets_failure(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError, call: Call
) -> DescribeShareGroupOffsetsResponse:
    """Report the error for every group of the request."""
    return DescribeShareGroupOffsetsResponse(
        groups=[
            _Group(group_id=group.group_id, error_code=error.error, error_message=error.message)
            for group in request.groups
        ]
    )


async def _describe(
    group: DescribeShareGroupOffsetsRequest.Group, call: Call, turns: Turns
) -> DescribeShareGroupOffsetsResponse.Group:
    topics_by_id, share_groups = call.broker.image.topics_by_id, call.broker.share_groups
    if not call.is_authorized(DESCRIBE, GROUP, group.group_id):
        return _Group(group_id=group.group_id, error_code=Error.GROUP_AUTHORIZATION_FAILED)
    try:
        named, others = await _named(group, call, turns)
        if group.topics is None:
            named = await share_groups.initialized(group.group_id)
        found = await share_groups.describe_offsets(group.group_id, named)
    except KafkaError as error:
        return _Group(group_id=group.group_id, error_code=error.error, error_message=error.message)
    known = [topics_by_id[id].name for id in found if id in topics_by_id]
    may_describe = call.authorized(DESCRIBE, TOPIC, known) if group.topics is None else set(known)
    topics = [
        _Topic(
            topic_name=topics_by_id[id].name,
            topic_id=id,
            partitions=[_partition(each) for each in offsets],
        )
        for id, offsets in found.items()
        if id in topics_by_id and topics_by_id[id].name in may_describe
    ]
    return _Group(group_id=group.group_id, topics=[*topics, *others])


async def _named(
    group: DescribeShareGroupOffsetsRequest.Group, call: Call, turns: Turns
) -> tuple[Mapping[bytes, Sequence[int]], list[DescribeShareGroupOffsetsResponse.Group.Topic]]:
    """Return the partitions of existing topics by topic id, and the report of other topics.

    Topics that the client may not describe come last.
    """
    named: dict[bytes, list[int]] = {}
    unknown, refused = [], []
    topics = group.topics or ()
    names = (topic.topic_name for topic in topics)
    may_describe = await turns.authorized(call, DESCRIBE, TOPIC, names)
    for topic in topics:
        known = call.broker.image.topics.get(topic.topic_name)
        if topic.topic_name not in may_describe:
            refused.append(_refused(topic))
        elif known is None:
            unknown.append(_unknown(topic))
        else:
            named.setdefault(known.id, []).extend(topic.partitions)
        await turns.step()
    return named, unknown + refused


def _unknown(
    topic: DescribeShareGroupOffsetsRequest.Group.Topic,
) -> DescribeShareGroupOffsetsResponse.Group.Topic:
    """Report no offsets for a topic that does not exist; as in Kafka this is not an error."""
    return _Topic(
        topic_name=topic.topic_name,
        topic_id=_NO_TOPIC_ID,
        partitions=[_partition(ShareOffset(index)) for index in topic.partitions],
    )


def _refused(
    topic: DescribeShareGroupOffsetsRequest.Group.Topic,
) -> DescribeShareGroupOffsetsResponse.Group.Topic:
    error = refusal(TOPIC)
    partitions = [
        _Partition(
            partition_index=index,
            start_offset=_NO_OFFSET,
            error_code=error.error,
            error_message=error.message,
        )
        for index in topic.partitions
    ]
    return _Topic(topic_name=topic.topic_name, topic_id=_NO_TOPIC_ID, partitions=partitions)


def _partition(offset: ShareOffset) -> DescribeShareGroupOffsetsResponse.Group.Topic.Partition:
    return _Partition(
        partition_index=offset.partition,
        start_offset=offset.start_offset,
        leader_epoch=offset.leader_epoch,
        lag=offset.lag,
        error_code=offset.error,
        error_message=None if offset.error is Error.NONE else KafkaError(offset.error).message,
    )
