"""A member of a classic consumer group: joins, assigns by range, heartbeats, commits, leaves."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TypeVar

from wirekafka.client.classic_membership import REJOIN, ClassicMembership
from wirekafka.client.client import Client, check, only
from wirekafka.codec.message import Message
from wirekafka.errors import Error
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.protocol.records.groups_and_transactions import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

_VERSION = Struct(">h")
# From version 10 on, requests name topics by id; below 8, they name one group only.
_NAMED = 9

TopicPartition = tuple[str, int]
M = TypeVar("M", bound=Message)


class GroupMembership:
    """A membership in a group, subscribed to one topic."""

    def __init__(self, client: Client, group: str, topic: str) -> None:
        self._client, self._group, self._topic = client, group, topic
        self._member = ClassicMembership(client, group, RangeProtocol(client, topic))

    def join(self) -> list[int]:
        """Join or rejoin the group; returns the assigned partitions."""
        return [i for topic, i in decode_assignment(self._member.join()) if topic == self._topic]

    def must_rejoin(self) -> bool:
        """Send a heartbeat if one is due; returns whether the group rebalances."""
        return self._member.must_rejoin()

    def committed(self, partitions: list[int]) -> dict[int, int]:
        """The group's committed offsets; partitions without one are left out."""
        return {
            index: offset
            for (_, index), offset in fetch_offsets(
                self._client, self._group, {self._topic: partitions}
            ).items()
        }

    def commit(self, offsets: dict[int, int]) -> None:
        """Commit the next offset of each partition; a commit of an old generation is dropped."""
        if not offsets:
            return
        error = commit_offsets(
            self._client,
            self._group,
            {(self._topic, i): o for i, o in offsets.items()},
            (self._member.member_id, self._member.generation),
        )
        if error and error not in REJOIN:
            check(error, f"group {self._group}")

    def leave(self) -> None:
        """Leave the group, so that other members need not wait for the session timeout."""
        self._member.leave()


class RangeProtocol:
    """The consumer protocol with Kafka's range assignor, for one topic."""

    protocol_type = "consumer"
    name = "range"

    def __init__(self, client: Client, topic: str) -> None:
        self._client, self._topic = client, topic

    def metadata(self) -> bytes:
        """The subscription."""
        return _VERSION.pack(1) + ConsumerProtocolSubscription(topics=[self._topic]).encode(1)

    def assign(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """Assign consecutive partitions to each subscriber."""
        subscribers = sorted(
            member
            for member, metadata in members.items()
            if self._topic in _decoded(ConsumerProtocolSubscription, metadata).topics
        )
        count = len(self._client.topic(self._topic).partitions)
        size, extra = divmod(count, len(subscribers))
        shares: dict[str, list[int]] = {member: [] for member in members}
        start = 0
        for rank, member in enumerate(subscribers):
            end = start + size + (rank < extra)
            shares[member], start = list(range(start, end)), end
        return {member: self._assignment(share) for member, share in shares.items()}

    def _assignment(self, partitions: list[int]) -> bytes:
        part = ConsumerProtocolAssignment.TopicPartition(topic=self._topic, partitions=partitions)
        assignment = ConsumerProtocolAssignment(assigned_partitions=[part] if partitions else [])
        return _VERSION.pack(1) + assignment.encode(1)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in an assignment of the consumer protocol; none if it is empty."""
    if not data:
        return []
    assignment = _decoded(ConsumerProtocolAssignment, data)
    return [(part.topic, i) for part in assignment.assigned_partitions for i in part.partitions]


def _decoded(kind: type[M], data: bytes) -> M:
    """Decode a consumer-protocol message after its version; newer versions may have more fields."""
    [version] = _VERSION.unpack_from(data)
    decode = kind.decoder(min(version, kind.versions.last))
    return decode(data, _VERSION.size, len(data))[0]


def fetch_offsets(
    client: Client, group: str, topics: dict[str, list[int]] | None
) -> dict[TopicPartition, int]:
    """Committed offsets of a group (None: all it has); partitions without one are left out."""
    asked = OffsetFetchRequest.Group
    wanted = asked(
        group_id=group,
        topics=None
        if topics is None
        else [
            asked.Topics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
    )
    response = client.coordinator(group).send(
        OffsetFetchRequest(groups=[wanted]), OffsetFetchResponse, most=_NAMED
    )
    found = only(response.groups, f"group {group}")
    check(found.error_code, f"group {group}")
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def commit_offsets(
    client: Client,
    group: str,
    offsets: dict[TopicPartition, int],
    member: tuple[str, int] = ("", -1),
) -> Error:
    """Commit offsets as a member (id, generation), or for an empty group; the first error."""
    kind = OffsetCommitRequest.Topic
    topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = {}
    for (name, index), offset in offsets.items():
        topics.setdefault(name, []).append(
            kind.Partition(partition_index=index, committed_offset=offset)
        )
    response = client.coordinator(group).send(
        OffsetCommitRequest(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
        ),
        OffsetCommitResponse,
        most=_NAMED,
    )
    codes = [p.error_code for topic in response.topics for p in topic.partitions]
    return Error(next((code for code in codes if code), 0))
