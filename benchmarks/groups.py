"""Groups whose partitions the broker assigns: joining, rebalances, and the cost of heartbeats.

The members are raw sockets that send heartbeats without pause, so that the coordinator is the
limit and not the interval of the clients. A class per type of group has the requests of a member.
"""

from __future__ import annotations

import base64
import secrets
import selectors
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.driver import Connection, RequestFailed, configure_group, create_topic
from benchmarks.measure import HEARTBEAT_RATE, JOINED, REBALANCED, Metrics
from benchmarks.peers import Target
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.protocol.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

MEMBERS, PARTITIONS = 100, 1_000
_SETTLED_S = 60.0
_DEPTH = 4
_HEARTBEAT_VERSION, _COORDINATOR_VERSION = 1, 4


class ConsumerMember:
    """A member of a consumer group (KIP-848) on a connection of its own."""

    def __init__(self, target: Target, group: str, topic: str):
        self.connection = Connection(target.host, target.port)
        self.partitions = 0
        self.epoch = 0
        self._group = group
        self._topic = topic
        self._id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        self._assigned: Sequence[Any] = []

    def send(self) -> None:
        """Send a heartbeat that reports the last assignment as owned; the first one joins."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=-1 if self.epoch else 60_000,
            subscribed_topic_names=None if self.epoch else [self._topic],
            topic_partitions=[
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    topic_id=each.topic_id, partitions=each.partitions
                )
                for each in self._assigned
            ],
        )
        self.connection.send(encode_request(1, "benchmark", request, _HEARTBEAT_VERSION))

    def receive(self) -> None:
        """Read the response. Raises RequestFailed for an error."""
        _, response = decode_response(
            ConsumerGroupHeartbeatResponse, _HEARTBEAT_VERSION, self.connection.response()
        )
        if response.error_code:
            raise RequestFailed(f"ConsumerGroupHeartbeat: error {response.error_code}")
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._assigned = response.assignment.topic_partitions
            self.partitions = sum(len(each.partitions) for each in self._assigned)

    def quiet_frame(self) -> bytes:
        """A heartbeat of a member to which nothing happens."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self._id, member_epoch=self.epoch
        )
        return encode_request(1, "benchmark", request, _HEARTBEAT_VERSION)

    def leave(self) -> None:
        """Leave the group and close the connection."""
        self.epoch, self._assigned = -1, []
        self.send()
        self.connection.response()
        self.connection.close()


def rebalances(target: Target, seconds: float, interval_ms: int | None = None) -> Metrics:
    """Let members join at once, settle, and one leave; how long the others take to settle.

    `interval_ms` is the least time between two assignments, if not the default of 1 s, which is
    most of what a group of this size needs on any broker.
    """
    members = _joined(target, interval_ms)
    start = time.perf_counter()
    _settle(members)
    joined_s = time.perf_counter() - start
    members.pop().leave()
    start = time.perf_counter()
    _settle(members)
    rebalanced_s = time.perf_counter() - start
    for member in members:
        member.leave()
    return {JOINED: joined_s * 1e3, REBALANCED: rebalanced_s * 1e3}


def heartbeats(target: Target, seconds: float) -> Metrics:
    """Heartbeats of a stable group per second of the broker's CPU time."""
    members = _joined(target)
    _settle(members)
    selector = selectors.DefaultSelector()
    frames = {}
    for member in members:
        selector.register(member.connection.socket, selectors.EVENT_READ, member)
        frames[member] = member.quiet_frame()
        member.connection.send(frames[member] * _DEPTH)
    cpu_s, done = target.cpu_s(), 0
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for key, _ in selector.select():
            count = key.data.connection.count()
            key.data.connection.send(frames[key.data] * count)
            done += count
    cpu_s = target.cpu_s() - cpu_s
    selector.close()
    for member in members:
        member.connection.close()
    return {HEARTBEAT_RATE: done / cpu_s} if cpu_s else {}


def _joined(target: Target, interval_ms: int | None = None) -> list[ConsumerMember]:
    """Members of a new group, which have not sent anything yet."""
    name = f"group-{secrets.token_hex(4)}"
    create_topic(target.host, target.port, name, PARTITIONS)
    if interval_ms is not None:
        connection = Connection(target.host, target.port)
        configure_group(connection, name, "consumer.assignment.interval.ms", str(interval_ms))
        connection.close()
    _await_coordinator(target, name)
    return [ConsumerMember(target, name, name) for _ in range(MEMBERS)]


def _await_coordinator(target: Target, group: str) -> None:
    """Wait until the broker coordinates a new group and knows its topic."""
    connection = Connection(target.host, target.port)
    request = FindCoordinatorRequest(coordinator_keys=[group])
    deadline = time.monotonic() + _SETTLED_S
    while True:
        answer = connection.ask(request, FindCoordinatorResponse, _COORDINATOR_VERSION)
        if not answer.coordinators[0].error_code:
            break
        if time.monotonic() > deadline:
            raise RequestFailed("FindCoordinator: no coordinator")
        time.sleep(0.05)
    connection.close()
    while True:
        probe = ConsumerMember(target, f"{group}-probe-{secrets.token_hex(4)}", group)
        try:
            probe.send()
            probe.receive()
        except RequestFailed:
            probe.connection.close()
        else:
            probe.leave()
            if probe.partitions == PARTITIONS:
                return
        if time.monotonic() > deadline:
            raise RequestFailed("ConsumerGroupHeartbeat: the coordinator does not know the topic")
        time.sleep(0.05)


def _settle(members: Sequence[ConsumerMember]) -> None:
    """Send rounds of heartbeats until all members have the same epoch and even shares."""
    deadline = time.monotonic() + _SETTLED_S
    while True:
        for member in members:
            member.send()
        for member in members:
            member.receive()
        shares = [member.partitions for member in members]
        if (
            len({member.epoch for member in members}) == 1
            and sum(shares) == PARTITIONS
            and max(shares) - min(shares) <= 1
        ):
            return
        if time.monotonic() > deadline:
            raise RequestFailed("ConsumerGroupHeartbeat: the group does not settle")
