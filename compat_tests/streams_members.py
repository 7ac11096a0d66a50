"""Members of streams groups for comparisons: their state, and the requests they send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compat_tests.consumer_members import OffsetRequests
from wirekafka.codec.message import Request
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
)
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

Roles = tuple[dict[str, list[int]], dict[str, list[int]], dict[str, list[int]]]
"""Active, standby and warm-up tasks by subtopology."""
NOTHING: Roles = ({}, {}, {})
REBALANCE_TIMEOUT_MS = 300_000


@dataclass
class Member:
    """A member's state; `given` are its last tasks, `owned` those it reports as its own."""

    member_id: str
    process_id: str
    topology: Any
    instance_id: str | None = None
    rack: str | None = None
    endpoint: tuple[str, int] | None = None
    tags: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    endpoint_epoch: int = 0
    given: Roles = NOTHING
    owned: Roles = NOTHING
    is_away: bool = False
    """Whether it has left temporarily, as only a static member can."""

    def take(self, answer: Any) -> None:
        """Take the member epoch and the tasks from a heartbeat response."""
        if answer.error_code or answer.member_epoch < 0:
            return
        self.epoch = answer.member_epoch
        self.endpoint_epoch = answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            self.given = tuple(  # type: ignore[assignment]
                {each.subtopology_id: list(each.partitions) for each in tasks}
                for tasks in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            )


class Requests(OffsetRequests):
    """The requests of one group's members."""

    def join(self, member: Member, **fields: Any) -> Request:
        return self.beat(
            member,
            **{
                "epoch": 0,
                "owned": NOTHING,
                "rack_id": member.rack,
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "topology": member.topology,
                "process_id": member.process_id,
                "endpoint": member.endpoint,
                "tags": member.tags,
            }
            | fields,
        )

    def beat(
        self,
        member: Member,
        *,
        epoch: int | None = None,
        owned: Roles | None = None,
        tags: dict[str, str] | None = None,
        endpoint: tuple[str, int] | None = None,
        offsets: dict[tuple[str, int], int] | None = None,
        **fields: Any,
    ) -> Request:
        active, standby, warmup = (None, None, None) if owned is None else map(_task_ids, owned)
        return StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            **(
                {
                    "member_id": member.member_id,
                    "member_epoch": member.epoch if epoch is None else epoch,
                    "endpoint_information_epoch": member.endpoint_epoch,
                    "instance_id": member.instance_id,
                    "active_tasks": active,
                    "standby_tasks": standby,
                    "warmup_tasks": warmup,
                    "user_endpoint": None
                    if endpoint is None
                    else Endpoint(host=endpoint[0], port=endpoint[1]),
                    "client_tags": None
                    if tags is None
                    else [KeyValue(key=key, value=value) for key, value in tags.items()],
                    "task_offsets": None
                    if offsets is None
                    else [
                        TaskOffset(subtopology_id=id, partition=partition, offset=offset)
                        for (id, partition), offset in offsets.items()
                    ],
                }
                | fields
            ),
        )

    def commit_in_transaction(
        self, member: Member | None, epoch: int, topic: str, partition: int
    ) -> TxnOffsetCommitRequest:
        """Offsets in the transaction of a member, or of a producer that names no member."""
        kind = TxnOffsetCommitRequest.Topic
        return TxnOffsetCommitRequest(
            transactional_id=f"transactions of {self.group_id}",
            group_id=self.group_id,
            generation_id_or_member_epoch=epoch,
            member_id="" if member is None else member.member_id,
            group_instance_id=None if member is None else member.instance_id,
            topics=[
                kind(
                    name=topic,
                    topic_id=self.topic_ids.get(topic, bytes(16)),
                    partitions=[kind.Partition(partition_index=partition, committed_offset=9)],
                )
            ],
        )

    def fetch_all(self) -> Request:
        """Every offset of the group, as an administrator fetches them."""
        kind = OffsetFetchRequest.Group
        return OffsetFetchRequest(groups=[kind(group_id=self.group_id, topics=None)])

    def describe(self, version: int) -> Request:
        return StreamsGroupDescribeRequest(
            group_ids=[self.group_id], include_topology_description=version > 0
        )

    def list(self) -> Request:
        return ListGroupsRequest(states_filter=[], types_filter=["streams"])


def _task_ids(tasks: dict[str, list[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=id, partitions=each) for id, each in tasks.items()]
