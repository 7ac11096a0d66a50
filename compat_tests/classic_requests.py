"""Requests of members of classic groups."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.message import Request
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

# version 0 of the consumer protocol: no topics, no user data.
SUBSCRIPTION = bytes.fromhex("0000 00000000 ffffffff".replace(" ", ""))


def join(group: str, member: str = "", instance: str | None = None, **options: Any) -> Request:
    """Options: protocols (names), kind (protocol type), session_ms, rebalance_ms, metadata."""
    protocols = [
        JoinGroupRequest.Protocol(name=name, metadata=options.get("metadata", SUBSCRIPTION))
        for name in options.get("protocols", ["range"])
    ]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=options.get("session_ms", 30_000),
        rebalance_timeout_ms=options.get("rebalance_ms", 1000),
        member_id=member,
        group_instance_id=instance,
        protocol_type=options.get("kind", "consumer"),
        protocols=protocols,
    )


def sync(
    group: str, generation: int, member: str, *assign: tuple[str, bytes], **options: Any
) -> Request:
    assignments = [
        SyncGroupRequest.Assignment(member_id=each, assignment=data) for each, data in assign
    ]
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=options.get("instance"),
        protocol_type=options.get("kind", "consumer"),
        protocol_name=options.get("protocol", "range"),
        assignments=assignments,
    )


def beat(group: str, generation: int, member: str, instance: str | None = None) -> Request:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )


def leave(group: str, member: str, instance: str | None = None) -> Request:
    identity = LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=instance)
    return LeaveGroupRequest(group_id=group, member_id=member, members=[identity])
