"""A transcript's coordinator behind a socket: a running broker, wirekafka or Apache Kafka."""

from __future__ import annotations

import select
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.raw_client import RawClient
from wirekafka.codec.message import Request
from wirekafka.coordinator.groups.commands import (
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
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.protocol.sync_group import SyncGroupRequest, SyncGroupResponse

ANSWER_TIMEOUT_S = 20.0
SETTLE_S = 0.1


class Asked(NamedTuple):
    """A request without a response yet, and the command that it was made of."""

    client: RawClient
    command: Any
    request: type[Request]
    version: int


class WireBackend:
    """One connection per actor, since a join that waits blocks the requests after it.

    `restart_broker` restarts the broker at the same address, where a test supports it.
    """

    def __init__(self, host: str, port: int, restart_broker: Callable[[], None] | None = None):
        self.address = (host, port)
        self.restart_broker = restart_broker
        self.clients: dict[str, list[Asked]] = defaultdict(list)
        self.idle: dict[str, RawClient] = {}
        self._prepare()

    def _prepare(self) -> None:
        client = self._connected()
        topics = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=4, replication_factor=1)
            for name in ("t", "u")
        ]
        client.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 5)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = client.call(FindCoordinatorRequest(key="g"), 1)
            if found.error_code == Error.NONE:
                break
        self.probe = client

    def close(self) -> None:
        for client in self.idle.values():
            client.socket.close()
        for waiting in self.clients.values():
            for asked in waiting:
                asked.client.socket.close()
        self.probe.socket.close()
        self.idle.clear()
        self.clients.clear()

    def send(self, actor: str, command: Any, version: int) -> None:
        client = self.idle.pop(actor, None) or self._connected()
        request, version = request_of(command, version)
        client.send(request, version, actor)
        self.clients[actor].append(Asked(client, command, type(request), version))
        # Requests of different connections are not ordered: let this one arrive first, also
        # where the broker is slow. It reads in rounds of its loop, and each answered probe is one
        # round.
        if not select.select([client.socket], [], [], SETTLE_S)[0]:
            for _ in range(4):
                self.probe.call(FindCoordinatorRequest(key="g"), 1)

    def next_reply(self, actor: str) -> Any:
        waiting = self.clients[actor]
        assert waiting, "but has asked nothing"
        until = time.monotonic() + ANSWER_TIMEOUT_S
        while time.monotonic() < until:
            sockets = [asked.client.socket for asked in waiting]
            for ready in select.select(sockets, [], [], 0.05)[0]:
                return self._read(actor, next(a for a in waiting if a.client.socket is ready))
        raise AssertionError("but no response came")

    def unread(self) -> list[tuple[str, Any]]:
        return [
            (actor, self._read(actor, asked))
            for actor, waiting in self.clients.items()
            for asked in list(waiting)
            if select.select([asked.client.socket], [], [], 0)[0]
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

    def _connected(self) -> RawClient:
        """A connection that the broker has accepted and reads from."""
        host, port = self.address
        client = RawClient(port, host, ANSWER_TIMEOUT_S)
        client.call(FindCoordinatorRequest(key="g"), 1)
        return client

    def _read(self, actor: str, asked: Asked) -> Any:
        self.clients[actor].remove(asked)
        answer = asked.client.receive(asked.request, asked.version)
        if actor in self.idle:
            asked.client.socket.close()
        else:
            self.idle[actor] = asked.client
        try:
            return reply_of(asked.command, answer)
        except KafkaError as error:
            return error


def request_of(command: Any, version: int) -> tuple[Request, int]:
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
                5,
            )
        case DescribeGroup():
            return (DescribeGroupsRequest(groups=[command.group_id]), 5)
        case CommitOffsets():
            return _commit(command), 9
        case FetchOffsets() | FetchAllOffsets():
            return _fetch(command), 9
    raise AssertionError(f"no request stands for {command}")


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
    raise AssertionError(f"no reply stands for {answer}")


def _raise(code: int) -> None:
    if code:
        raise KafkaError(Error(code))
