"""ShareGroupHeartbeat: joins, stays in or leaves a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.share_version import check_share_version
from wirekafka.coordinator.groups.commands import QuietHeartbeat
from wirekafka.coordinator.groups.share.commands import ShareHeartbeat, check_share_heartbeat
from wirekafka.coordinator.groups.share.group import ShareGroup
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from wirekafka.security.acl import DESCRIBE, GROUP, READ, TOPIC

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
        quiet: QuietHeartbeat[GroupTimes] = QuietHeartbeat(
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
