"""ShareGroupDescribe: describes share groups and their members (KIP-932)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import describable
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.share_version import check_share_version
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.groups.share.commands import (
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroup,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from wirekafka.security.acl import DESCRIBE, GROUP, TOPIC

_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


_Group = ShareGroupDescribeResponse.DescribedGroup
_Member = _Group.Member
_Assignment = _Member.Assignment


@api(ShareGroupDescribeRequest, ShareGroupDescribeResponse)
async def share_group_describe(
    request: ShareGroupDescribeRequest, call: Call
) -> ShareGroupDescribeResponse:
    """Describe each group; an unknown group or a group of another kind has an error.

    Groups that the client may not describe come first in the response, then groups without an id.
    """
    check_share_version(call)
    turns = Turns()
    refused, allowed = await describable(request.group_ids, call, turns)
    groups = await turns.map(
        lambda id: _Group(group_id=id, error_code=Error.GROUP_AUTHORIZATION_FAILED), refused
    )
    for group_id in sorted(allowed, key=bool):
        group = await _describe(group_id, call)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.allowed_operations(GROUP, group_id)
        groups.append(group)
        await turns.step()
    return ShareGroupDescribeResponse(groups=groups)


@failure_of(share_group_describe)
def share_group_describe_failure(
    request: ShareGroupDescribeRequest, error: KafkaError, call: Call
) -> ShareGroupDescribeResponse:
    """Report the error for every group of the request."""
    return ShareGroupDescribeResponse(
        groups=[_Group(group_id=group_id, error_code=error.error) for group_id in request.group_ids]
    )


async def _describe(group_id: str, call: Call) -> ShareGroupDescribeResponse.DescribedGroup:
    if not group_id:
        return _Group(group_id=group_id, error_code=Error.INVALID_GROUP_ID)
    try:
        described: DescribedShareGroup = await call.broker.groups.submit(
            group_id, DescribeShareGroup(group_id)
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


def _sees_all_topics(described: DescribedShareGroup, call: Call) -> bool:
    """Whether the client may describe every topic that members are assigned."""
    names = {name for each in described.members for _, name, _ in each.assignment}
    may_describe = call.authorized(DESCRIBE, TOPIC, names)
    return all(name in may_describe for name in names)


def _member(described: DescribedShareMember) -> ShareGroupDescribeResponse.DescribedGroup.Member:
    member = described.member
    return _Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(described.topics),
        assignment=_Assignment(
            topic_partitions=[
                _Assignment.TopicPartitions(
                    topic_id=topic_id, topic_name=name, partitions=list(partitions)
                )
                for topic_id, name, partitions in described.assignment
            ]
        ),
    )
