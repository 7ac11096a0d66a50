"""Requests that several tests of the group APIs send."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.apis.group_broker import GroupBroker
from wirekafka.coordinator.groups.commands import AssignorChoice, Join, Joined
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

SUBSCRIBED_TO_T = bytes.fromhex("000000000001000174ffffffff")


def join_request(**fields: Any) -> JoinGroupRequest:
    given: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.Protocol(name="range", metadata=SUBSCRIBED_TO_T)],
    }
    return JoinGroupRequest(**(given | fields))


def join(broker: GroupBroker, group_id: str = "g", instance_id: str | None = None) -> Joined:
    """The response to a join that starts a generation; the member has no assignment yet."""

    async def joining() -> Joined:
        waiting = asyncio.ensure_future(
            broker.groups.submit(
                group_id,
                Join(
                    group_id=group_id,
                    client_id="client",
                    client_host="/127.0.0.1",
                    instance_id=instance_id,
                    protocol_type="consumer",
                    protocols=(AssignorChoice("range", SUBSCRIBED_TO_T),),
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=60_000,
                    fresh_id="1",
                ),
            )
        )
        await asyncio.sleep(0)
        broker.clock.advance(1)
        joined: Joined = await waiting
        return joined

    return asyncio.run(joining())


def join_and_sync(
    broker: GroupBroker, group_id: str = "g", instance_id: str | None = None
) -> Joined:
    """The join response of the only member of a stable group, which is assigned b"part"."""
    joined = join(broker, group_id, instance_id)
    answer = broker.ask(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"part")
            ],
        ),
        5,
    )
    assert (answer.error_code, answer.assignment) == (0, b"part")
    return joined


def commit_request(*places: tuple[str, int, int], **fields: Any) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.Topic
    topics = [
        kind(
            name=name,
            partitions=[
                kind.Partition(
                    partition_index=index, committed_offset=offset, committed_metadata="m"
                )
            ],
        )
        for name, index, offset in places
    ]
    given: dict[str, Any] = {"group_id": "g", "topics": topics}
    return OffsetCommitRequest(**(given | fields))


def refusal(answer: JoinGroupResponse) -> tuple[int, str]:
    return answer.error_code, answer.member_id
