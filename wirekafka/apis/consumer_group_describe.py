"""ConsumerGroupDescribe: describes groups with server-side assignment (KIP-848).

v1: the protocol of each member (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import describable
from wirekafka.apis.shared.group_protocols import check_consumer_protocol
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.groups.consumer.commands import (
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from wirekafka.security.acl import DESCRIBE, GROUP, TOPIC

_CLASSIC, _CONSUMER = 0, 1


_Group = ConsumerGroupDescribeResponse.DescribedGroup

_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


@api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    """Describe each group; an unknown group or one of another kind has an error."""
    check_consumer_protocol(call)
    turns = Turns()
    refused, allowed = await describable(request.group_ids, call, turns)
    groups = await turns.map(
        lambda id: _Group(group_id=id, error_code=Error.GROUP_AUTHORIZATION_FAILED), refused
    )
    for group_id in sorted(allowed, key=bool):  # Those without an id first.
        group = await _describe(group_id, call)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.allowed_operations(GROUP, group_id)
        groups.append(group)
        await turns.step()
    return ConsumerGroupDescribeResponse(groups=groups)


@failure_of(consumer_group_describe)
def consumer_group_describe_failure(
    request: ConsumerGroupDescribeRequest, error: KafkaError, call: Call
) -> ConsumerGroupDescribeResponse:
    """Report the error for every group of the request."""
    return ConsumerGroupDescribeResponse(
        groups=[
            _Group(group_id=group_id, error_code=error.error, error_message=error.message)
            for group_id in request.group_ids
        ]
    )


async def _describe(group_id: str, call: Call) -> ConsumerGroupDescribeResponse.DescribedGroup:
    if not group_id:
        return _Group(group_id=group_id, error_code=Error.INVALID_GROUP_ID)
    try:
        described: DescribedConsumerGroup = await call.broker.groups.submit(
            group_id, DescribeConsumerGroup(group_id)
        )
    except KafkaError as error:
        return _Group(group_id=group_id, error_code=error.error, error_message=error.message)
    if not _sees_all_topics(described, call):
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
        assignor_name=described.assignor,
        members=[_member(each) for each in described.members],
    )


def _sees_all_topics(described: DescribedConsumerGroup, call: Call) -> bool:
    """Whether the client may describe every topic that members subscribe to or have."""
    names = {name for each in described.members for name in each.topics}
    for each in described.members:
        names.update(name for _, name, _ in (*each.assignment, *each.target))
    may_describe = call.authorized(DESCRIBE, TOPIC, names)
    return all(name in may_describe for name in names)


def _member(
    described: DescribedConsumerMember,
) -> ConsumerGroupDescribeResponse.DescribedGroup.Member:
    member = described.member
    return _Group.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=described.topics,
        subscribed_topic_regex=member.regex,
        assignment=_assignment(described.assignment),
        target_assignment=_assignment(described.target),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(topics: Sequence[tuple[bytes, str, Sequence[int]]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            Assignment.TopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=list(partitions)
            )
            for topic_id, name, partitions in topics
        ]
    )
