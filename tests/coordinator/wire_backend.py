"""A transcript's coordinator behind a socket: a running broker, wirekafka or Apache Kafka."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from wirekafka.apis.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wirekafka.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wirekafka.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.apis.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wirekafka.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from wirekafka.apis.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.message import Request, Response
from wirekafka.coordinator.group_commands import (
    CommitOffsets,
    DescribedGroup,
    DescribedMember,
    DescribeGroup,
    FetchAllOffsets,
    FetchedOffset,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    JoinedMember,
    JoinRefused,
    Leave,
    Sync,
    Synced,
)
from wirekafka.errors import Error, KafkaError

ANSWER_TIMEOUT_S = 20.0
SETTLE_S = 0.1


class Client:
    """One connection, which sends requests and reads responses one by one."""

    def __init__(self, host: str, port: int, client_id: str = "test"):
        self.client_id = client_id
        self.socket = socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent: list[tuple[type[Response], int]] = []
        self.correlation_id = 0

    def send(self, request: Request, response: type[Response], version: int) -> None:
        self.correlation_id += 1
        self.socket.sendall(encode_request(self.correlation_id, self.client_id, request, version))
        self.sent.append((response, version))

    def receive(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        self.socket.settimeout(timeout_s)
        (size,) = struct.unpack(">i", self._exactly(4))
        response, version = self.sent.pop(0)
        return decode_response(response, version, self._exactly(size))[1]

    def ask(self, request: Request, response: type[Response], version: int) -> Any:
        self.send(request, response, version)
        return self.receive()

    def readable(self) -> bool:
        return bool(select.select([self.socket], [], [], 0)[0])

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return bytes(data)


class WireBackend:
    """One connection per actor, since a join that waits blocks the requests after it.

    `restart_broker` restarts the broker at the same address, where a test supports it.
    """

    def __init__(self, host: str, port: int, restart_broker: Callable[[], None] | None = None):
        self.address = (host, port)
        self.restart_broker = restart_broker
        self.clients: dict[str, list[tuple[Client, Any]]] = defaultdict(list)
        self.idle: dict[str, Client] = {}
        self._prepare()

    def _prepare(self) -> None:
        client = Client(*self.address)
        topics = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=4, replication_factor=1)
            for name in ("t", "u")
        ]
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), CreateTopicsResponse, 5)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = client.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 1)
            if found.error_code == Error.NONE:
                break
        self.probe = client

    def close(self) -> None:
        for client in self.idle.values():
            client.close()
        for waiting in self.clients.values():
            for client, _ in waiting:
                client.close()
        self.probe.close()
        self.idle.clear()
        self.clients.clear()

    def send(self, actor: str, command: Any, version: int) -> None:
        client = self.idle.pop(actor, None) or self._connected(actor)
        request, response, version = request_of(command, version)
        client.send(request, response, version)
        self.clients[actor].append((client, command))
        # Requests of different connections are not ordered: let this one arrive first, also
        # where the broker is slow. It reads in rounds of its loop, and each answered probe is one
        # round.
        if not select.select([client.socket], [], [], SETTLE_S)[0]:
            for _ in range(4):
                self.probe.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 1)

    def _connected(self, actor: str) -> Client:
        """A connection that the broker has accepted and reads from."""
        client = Client(*self.address, client_id=actor)
        client.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 1)
        return client

    def next_reply(self, actor: str) -> Any:
        waiting = self.clients[actor]
        assert waiting, "but has asked nothing"
        until = time.monotonic() + ANSWER_TIMEOUT_S
        while time.monotonic() < until:
            sockets = [client.socket for client, _ in waiting]
            for ready in select.select(sockets, [], [], 0.05)[0]:
                return self._read(actor, next(pair for pair in waiting if pair[0].socket is ready))
        raise AssertionError("but no response came")

    def unread(self) -> list[tuple[str, Any]]:
        return [
            (actor, self._read(actor, pair))
            for actor, waiting in self.clients.items()
            for pair in list(waiting)
            if pair[0].readable()
        ]

    def pass_time(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def restart(self) -> None:
        assert self.restart_broker is not None
        self.close()
        self.restart_broker()
        self._prepare()

    def last_record(self) -> Any:
        return None

    def _read(self, actor: str, pair: tuple[Client, Any]) -> Any:
        client, command = pair
        self.clients[actor].remove(pair)
        answer = client.receive()
        if actor in self.idle:
            client.close()
        else:
            self.idle[actor] = client
        try:
            return reply_of(command, answer)
        except KafkaError as error:
            return error


def request_of(command: Any, version: int) -> tuple[Request, type[Response], int]:
    match command:
        case Join():
            return (
                JoinGroupRequest(
                    group_id=command.group_id,
                    session_timeout_ms=command.session_timeout_ms,
                    rebalance_timeout_ms=command.rebalance_timeout_ms,
                    member_id=command.member_id,
                    group_instance_id=command.instance_id,
                    protocol_type=command.protocol_type,
                    protocols=[
                        JoinGroupRequest.Protocol(name=name, metadata=metadata)
                        for name, metadata in command.protocols
                    ],
                ),
                JoinGroupResponse,
                version,
            )
        case Sync():
            return (
                SyncGroupRequest(
                    group_id=command.group_id,
                    generation_id=command.generation_id,
                    member_id=command.member_id,
                    group_instance_id=command.instance_id,
                    protocol_type=command.protocol_type,
                    protocol_name=command.protocol_name or "",
                    assignments=[
                        SyncGroupRequest.Assignment(member_id=name, assignment=part)
                        for name, part in command.assignments.items()
                    ],
                ),
                SyncGroupResponse,
                5,
            )
        case Heartbeat():
            return (
                HeartbeatRequest(
                    group_id=command.group_id,
                    generation_id=command.generation_id,
                    member_id=command.member_id,
                    group_instance_id=command.instance_id,
                ),
                HeartbeatResponse,
                4,
            )
        case Leave():
            identity = LeaveGroupRequest.MemberIdentity
            return (
                LeaveGroupRequest(
                    group_id=command.group_id,
                    members=[
                        identity(member_id=each.member_id, group_instance_id=each.instance_id)
                        for each in command.members
                    ],
                ),
                LeaveGroupResponse,
                5,
            )
        case DescribeGroup():
            return (DescribeGroupsRequest(groups=[command.group_id]), DescribeGroupsResponse, 5)
        case CommitOffsets():
            return _commit(command), OffsetCommitResponse, 9
        case FetchOffsets() | FetchAllOffsets():
            return _fetch(command), OffsetFetchResponse, 9
    raise NotImplementedError(command)


def _commit(command: CommitOffsets) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.Topic
    topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = defaultdict(list)
    for each in command.offsets:
        topics[each.topic].append(
            kind.Partition(
                partition_index=each.partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                committed_metadata=each.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=command.group_id,
        generation_id_or_member_epoch=command.generation_id,
        member_id=command.member_id,
        group_instance_id=command.instance_id,
        topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
    )


def _fetch(command: FetchOffsets | FetchAllOffsets) -> OffsetFetchRequest:
    group = OffsetFetchRequest.Group
    topics = None
    if isinstance(command, FetchOffsets):
        places: dict[str, list[int]] = defaultdict(list)
        for topic, index in command.partitions:
            places[topic].append(index)
        topics = [group.Topics(name=name, partition_indexes=each) for name, each in places.items()]
    return OffsetFetchRequest(
        groups=[group(group_id=command.group_id, topics=topics)],
        require_stable=command.require_stable,
    )


def reply_of(command: Any, answer: Any) -> Any:
    match answer:
        case JoinGroupResponse():
            if answer.error_code:
                raise JoinRefused(Error(answer.error_code), answer.member_id)
            return Joined(
                answer.member_id,
                answer.generation_id,
                answer.protocol_type,
                answer.protocol_name,
                answer.leader,
                [
                    JoinedMember(each.member_id, each.group_instance_id, each.metadata)
                    for each in answer.members
                ],
                answer.skip_assignment,
            )
        case SyncGroupResponse():
            _raise(answer.error_code)
            return Synced(answer.protocol_type, answer.protocol_name, answer.assignment)
        case HeartbeatResponse():
            return _raise(answer.error_code)
        case LeaveGroupResponse():
            _raise(answer.error_code)
            return [Error(each.error_code) for each in answer.members]
        case OffsetCommitResponse():
            errors = [
                Error(each.error_code) for topic in answer.topics for each in topic.partitions
            ]
            if set(errors) - {Error.NONE, Error.OFFSET_METADATA_TOO_LARGE}:
                raise KafkaError(errors[0])
            return errors
        case OffsetFetchResponse():
            return [
                FetchedOffset(
                    topic.name,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    error=Error(each.error_code),
                )
                for topic in answer.groups[0].topics
                for each in topic.partitions
            ]
        case DescribeGroupsResponse():
            group = answer.groups[0]
            _raise(group.error_code)
            return DescribedGroup(
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                [
                    DescribedMember(
                        each.member_id,
                        each.group_instance_id,
                        each.client_id,
                        each.client_host,
                        each.member_metadata,
                        each.member_assignment,
                    )
                    for each in group.members
                ],
            )
    raise NotImplementedError(answer)


def _raise(code: int) -> None:
    if code:
        raise KafkaError(Error(code))
