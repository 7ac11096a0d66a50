"""Requests that leave out most of their last fields, which are then not read one by one."""

from __future__ import annotations

from typing import Any

import pytest

from wirekafka.codec.message import MalformedMessage, Request
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.streams_group_heartbeat import Endpoint, StreamsGroupHeartbeatRequest

CONSUMER = {"group_id": "g", "member_id": "m", "member_epoch": 3}
STREAMS = {**CONSUMER, "endpoint_information_epoch": 4}
OPTIONAL: dict[str, Any] = {
    "instance_id": "i",
    "rack_id": "r",
    "rebalance_timeout_ms": 7,
    "subscribed_topic_names": ["t"],
    "subscribed_topic_regex": "t.*",
    "server_assignor": "range",
    "topic_partitions": [],
    "topology": StreamsGroupHeartbeatRequest.Topology(epoch=1, subtopologies=[]),
    "active_tasks": [],
    "warmup_tasks": [],
    "process_id": "p",
    "user_endpoint": Endpoint(host="h", port=1),
    "client_tags": [],
    "task_end_offsets": [],
    "shutdown_application": True,
}
REQUESTS: list[Request] = []
for kind, values in (
    (ConsumerGroupHeartbeatRequest, CONSUMER),
    (StreamsGroupHeartbeatRequest, STREAMS),
):
    names = [each.name for each in kind.fields if each.name in OPTIONAL]
    REQUESTS.append(kind(**values))
    REQUESTS += [kind(**values, **{name: OPTIONAL[name]}) for name in names]
    REQUESTS += [kind(**values, instance_id="i", **{name: OPTIONAL[name]}) for name in names[1:]]


@pytest.mark.parametrize("before", [b"", b"before"])
@pytest.mark.parametrize("after", [b"", b"\0after"])
def test_every_field_is_read_wherever_the_message_lies(before: bytes, after: bytes) -> None:
    for request in REQUESTS:
        encoded = bytes(request.encode(1))
        start, end = len(before), len(before) + len(encoded)
        for buffer in (before + encoded + after, memoryview(before + encoded + after)):
            assert type(request).decoder(1)(buffer, start, end) == (request, end)


@pytest.mark.parametrize("kind", [ConsumerGroupHeartbeatRequest, StreamsGroupHeartbeatRequest])
def test_a_message_without_its_last_byte_is_refused(kind: type[Request]) -> None:
    values = CONSUMER if kind is ConsumerGroupHeartbeatRequest else STREAMS
    encoded = bytes(kind(**values).encode(1))
    with pytest.raises(MalformedMessage):
        kind.decode(encoded[:-1], 1)
