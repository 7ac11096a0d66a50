"""ConsumerGroupHeartbeat: joins, stays in or leaves a group with server-side assignment (KIP-848).

v1: regular expressions, and member ids made by clients (KIP-1082).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_protocols import check_consumer_protocol
from wirekafka.apis.shared.registry import api
from wirekafka.coordinator.groups.commands import QuietHeartbeat
from wirekafka.coordinator.groups.consumer.commands import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    all_of,
    check_heartbeat,
)
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.reconcile import reported_partitions
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from wirekafka.security.acl import DESCRIBE, GROUP, READ, TOPIC

_Assignment = ConsumerGroupHeartbeatResponse.Assignment


@api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
    """Renew the session of a stable member at once; process any other heartbeat."""
    check_consumer_protocol(call)
    if not call.is_authorized(READ, GROUP, request.group_id):
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED)
    if (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
    ):
        quiet: QuietHeartbeat[GroupTimes] = QuietHeartbeat(
            ConsumerGroup,
            request.group_id,
            request.member_id,
            request.member_epoch,
            request.instance_id,
            call.client_id or "",
            call.client_host,
        )
        options = call.broker.groups.renew(quiet)
        if options is not None:
            return ConsumerGroupHeartbeatResponse(
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                heartbeat_interval_ms=options.heartbeat_interval_ms,
            )
    return _process(request, call)


def _process(
    request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
    """Respond with the assignment only if it changed: at once, unless the reply has to wait."""
    if request.subscribed_topic_names:
        names = dict.fromkeys(request.subscribed_topic_names)
        may_describe = call.authorized(DESCRIBE, TOPIC, names)
        if any(name not in may_describe for name in names):
            raise KafkaError(Error.TOPIC_AUTHORIZATION_FAILED)
    heartbeat = ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=request.subscribed_topic_names,
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if request.topic_partitions is None
        else reported_partitions(
            (topic.topic_id, topic.partitions) for topic in request.topic_partitions
        ),
        client_id=call.client_id or "",
        client_host=call.client_host,
        visible=_describable(call),
        fresh_id="" if request.member_id else _text_id(call.broker.new_id()),
    )
    check_heartbeat(heartbeat, call.version, call.broker.groups.assignors)
    reply = call.broker.groups.start(request.group_id, heartbeat)
    if isinstance(reply, ConsumerHeartbeatReply):
        return _response(reply)
    return _respond_later(reply)


async def _respond_later(
    reply: Coroutine[Any, Any, ConsumerHeartbeatReply],
) -> ConsumerGroupHeartbeatResponse:
    return _response(await reply)


def _response(reply: ConsumerHeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None
        if reply.assignment is None
        else _Assignment(
            topic_partitions=[
                _Assignment.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in reply.assignment
            ]
        ),
    )


def _describable(call: Call) -> Callable[[Iterable[str]], Iterable[str]]:
    """A filter for the topics that a regular expression matches."""
    if call.authorizer is None:
        return all_of
    return lambda names: [name for name in names if call.may(DESCRIBE, TOPIC, name)]


def _text_id(id: bytes) -> str:
    """Return a UUID in Kafka's text form."""
    return urlsafe_b64encode(id).decode().rstrip("=")
