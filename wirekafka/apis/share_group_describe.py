"""ShareGroupDescribe: describes share groups and their members (KIP-932)."""

from __future__ import annotations

from wirekafka.apis.group_access import describable
from wirekafka.apis.registry import Call, api, failure_of
from wirekafka.apis.share_version import check_share_version
from wirekafka.codec.message import Bool, Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.coordinator.share.commands import (
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroup,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import DESCRIBE, GROUP, TOPIC

_NOT_ASKED_FOR = -2147483648
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class ShareGroupDescribeRequest(Request, key=77, versions="1", flexible="0+"):
    group_ids: list[String]
    include_authorized_operations: Bool


class ShareGroupDescribeResponse(Response, answers=ShareGroupDescribeRequest):
    throttle_time_ms: Int32
    groups: list[DescribedGroup]

    class DescribedGroup(Part):
        error_code: Int16
        error_message: String | None = field(default=None)
        group_id: String
        group_state: String
        group_epoch: Int32
        assignment_epoch: Int32
        assignor_name: String
        members: list[Member]
        authorized_operations: Int32 = field(default=_NOT_ASKED_FOR)

        class Member(Part):
            member_id: String
            rack_id: String | None = field(default=None)
            member_epoch: Int32
            client_id: String
            client_host: String
            subscribed_topic_names: list[String]
            assignment: Assignment

            class Assignment(Part):
                topic_partitions: list[TopicPartitions]

                class TopicPartitions(Part):
                    topic_id: Uuid
                    topic_name: String
                    partitions: list[Int32]


_Group = ShareGroupDescribeResponse.DescribedGroup
_Member = _Group.Member
_Assignment = _Member.Assignment


@api(ShareGroupDescribeRequest, ShareGroupDescribeResponse)
async def share_group_describe(
    request: ShareGroupDescribeRequest, call: Call
) -> ShareGroupDescribeResponse:
    """Describe each group; an unknown group or one of another kind has an error.

    Groups that the client may not describe come first in the response, then those without an id.
    """
    check_share_version(call)
    refused, allowed = describable(request.group_ids, call)
    groups = [_Group(group_id=id, error_code=Error.GROUP_AUTHORIZATION_FAILED) for id in refused]
    for group_id in sorted(allowed, key=bool):
        group = await _describe(group_id, call)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.allowed_operations(GROUP, group_id)
        groups.append(group)
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
