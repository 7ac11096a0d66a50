"""ShareGroupHeartbeat: joins, stays in or leaves a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from wirekafka.apis.registry import Call, api
from wirekafka.apis.share_version import check_share_version
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.coordinator.group_commands import QuietHeartbeat
from wirekafka.coordinator.share.commands import ShareHeartbeat, check_share_heartbeat
from wirekafka.coordinator.share_group import ShareGroup
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import DESCRIBE, GROUP, READ, TOPIC


class ShareGroupHeartbeatRequest(Request, key=76, versions="1", flexible="0+"):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = field(default=None)
    subscribed_topic_names: list[String] | None = field(default=None)


class ShareGroupHeartbeatResponse(Response, answers=ShareGroupHeartbeatRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(default=None)

    class Assignment(Part):
        topic_partitions: list[TopicPartitions]

        class TopicPartitions(Part):
            topic_id: Uuid
            partitions: list[Int32]


_Assignment = ShareGroupHeartbeatResponse.Assignment


@api(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse)
def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, call: Call
) -> ShareGroupHeartbeatResponse | Coroutine[Any, Any, ShareGroupHeartbeatResponse]:
    """Renew the session of a stable member at once; process any other heartbeat."""
    check_share_version(call)
    if not call.is_authorized(READ, GROUP, request.group_id):
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED)
    if request.subscribed_topic_names is None and request.rack_id is None:
        quiet = QuietHeartbeat(
            ShareGroup,
            request.group_id,
            request.member_id,
            request.member_epoch,
            None,
            call.client_id or "",
            call.client_host,
        )
        options = call.broker.groups.renew(quiet)
        if options is not None:
            return ShareGroupHeartbeatResponse(
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                heartbeat_interval_ms=options.heartbeat_interval_ms,
            )
    return _process(request, call)


async def _process(request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    """Respond with the assignment only if it changed."""
    names = dict.fromkeys(request.subscribed_topic_names or ())
    may_describe = call.authorized(DESCRIBE, TOPIC, names)
    if any(name not in may_describe for name in names):
        raise KafkaError(Error.TOPIC_AUTHORIZATION_FAILED)
    heartbeat = ShareHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=request.subscribed_topic_names,
        client_id=call.client_id or "",
        client_host=call.client_host,
    )
    check_share_heartbeat(heartbeat)
    reply = await call.broker.share_groups.heartbeat(heartbeat)
    return ShareGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None
        if reply.assignment is None
        else _Assignment(
            topic_partitions=[
                _Assignment.TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in reply.assignment
            ]
        ),
    )
