"""Requests of group members for committed offsets, and what the responses contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.histories.history import Place
from tests.simulation.wire import Coordinator, Lost, Wire, check
from tests.simulation.world import World
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest


def fetch_request(group_id: str, places: Iterable[Place], **member: Any) -> OffsetFetchRequest:
    """Ask for stable offsets; `member` has the fields that name the group's member."""
    kind = OffsetFetchRequest.Group
    topics = [kind.Topics(name=name, partition_indexes=[index]) for name, index in places]
    return OffsetFetchRequest(
        require_stable=True, groups=[kind(group_id=group_id, topics=topics, **member)]
    )


async def fetch_offsets(
    world: World, wire: Wire, request: OffsetFetchRequest, version: int, coordinator: Coordinator
) -> Any:
    """The response of a group's coordinator. Raises Lost, also if it was deposed meanwhile.

    A broker that was paused serves requests before it learns that it was deposed, and so responds
    with offsets that were committed before the last ones, as Kafka's coordinator does.
    """
    address = await wire.find(coordinator)
    response = await wire.ask(request, version, coordinator)
    if world.is_deposed(address, coordinator.key):
        raise Lost
    return response


def fetched(response: Any) -> Iterator[tuple[Place, int]]:
    """The committed offsets, -1 where there is none. Raises Refused at the first error."""
    check(response.groups[0].error_code, "offset fetch")
    for topic in response.groups[0].topics:
        for partition in topic.partitions:
            check(partition.error_code, "offset fetch")
            yield (topic.name, partition.partition_index), partition.committed_offset


def commit_request(
    group_id: str, offsets: Mapping[Place, int], **member: Any
) -> OffsetCommitRequest:
    """Commit offsets; `member` has the fields that name the group's member."""
    kind = OffsetCommitRequest.Topic
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            kind(
                name=name,
                partitions=[kind.Partition(partition_index=index, committed_offset=offset)],
            )
            for (name, index), offset in offsets.items()
        ],
        **member,
    )
