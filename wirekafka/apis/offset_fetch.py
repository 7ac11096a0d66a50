"""OffsetFetch: reads committed offsets;
v7: RequireStable (KIP-447), v8: several groups (KIP-709), v10: topic ids (KIP-848).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.coordinator.group_commands import FetchAllOffsets, FetchedOffset, FetchOffsets
from wirekafka.errors import Error, KafkaError


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+"):
    group_id: String = field("1-7")
    topics: list[Topic] | None = field("1-7", nullable="2-7", default=[])
    groups: list[Group] = field("8+")
    require_stable: Bool = field("7+")

    class Topic(Part):
        name: String
        partition_indexes: list[Int32]

    class Group(Part):
        group_id: String
        member_id: String | None = field("9+", default=None)
        member_epoch: Int32 = field("9+", default=-1)
        topics: list[Topics] | None = field(default=[])

        class Topics(Part):
            name: String = field("8-9")
            topic_id: Uuid = field("10+")
            partition_indexes: list[Int32]


class OffsetFetchResponse(Response, answers=OffsetFetchRequest):
    throttle_time_ms: Int32 = field("3+")
    topics: list[Topic] = field("1-7")
    error_code: Int16 = field("2-7")
    groups: list[Group] = field("8+")

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("5-7", default=-1)
            metadata: String | None = field(default="")
            error_code: Int16

    class Group(Part):
        group_id: String
        topics: list[Topics]
        error_code: Int16

        class Topics(Part):
            name: String = field("8-9")
            topic_id: Uuid = field("10+")
            partitions: list[Partitions]

            class Partitions(Part):
                partition_index: Int32
                committed_offset: Int64
                committed_leader_epoch: Int32 = field(default=-1)
                metadata: String | None = field(default="")
                error_code: Int16


_NULL_TOPICS_SINCE = 2
_GROUPS_SINCE = 8
_TOPIC_IDS_SINCE = 10
_NO_TOPIC_ID = bytes(16)
_OF_PARTITIONS = frozenset({
    Error.UNSTABLE_OFFSET_COMMIT, Error.TOPIC_AUTHORIZATION_FAILED, Error.UNKNOWN_TOPIC_ID,
    Error.UNKNOWN_TOPIC_OR_PARTITION})

_Group = OffsetFetchResponse.Group
_Topics = OffsetFetchResponse.Group.Topics
_Partitions = OffsetFetchResponse.Group.Topics.Partitions


@api(OffsetFetchRequest, OffsetFetchResponse)
async def offset_fetch(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """Tell committed offsets: of some partitions, or of all the group has."""
    if call.version >= _GROUPS_SINCE:
        return OffsetFetchResponse(groups=[
            await _fetch(group, request.require_stable, call) for group in request.groups])
    return _as_one_group(
        await _fetch(_only_group(request), request.require_stable, call), request, call)


def offset_fetch_failure(request: OffsetFetchRequest, error: KafkaError,
                         call: Call) -> OffsetFetchResponse:
    """Each group fails as a whole, or each of its partitions where that is what clients expect."""
    if call.version >= _GROUPS_SINCE:
        return OffsetFetchResponse(groups=[
            _failed(group, error.error) for group in request.groups])
    return _as_one_group(_failed(_only_group(request), error.error), request, call)


def _failed(group: OffsetFetchRequest.Group, error: Error) -> OffsetFetchResponse.Group:
    if error not in _OF_PARTITIONS or group.topics is None:
        return _Group(group_id=group.group_id, error_code=error)
    return _Group(group_id=group.group_id, topics=[
        _Topics(name=topic.name, topic_id=topic.topic_id, partitions=[
            _partition(FetchedOffset("", index, error=error), topic.topic_id)
            for index in topic.partition_indexes])
        for topic in group.topics])


async def _fetch(
    asked: OffsetFetchRequest.Group, require_stable: bool, call: Call
) -> OffsetFetchResponse.Group:
    groups = call.broker.groups
    try:
        if asked.topics is None:
            found = await groups.submit(
                asked.group_id, FetchAllOffsets(asked.group_id, require_stable))
            return _Group(group_id=asked.group_id, topics=_all_topics(found, call))
        named, unknown = _named(asked.topics, call)
        places = [(topic.name, index) for topic in named for index in topic.partition_indexes]
        found = iter(await groups.submit(
            asked.group_id, FetchOffsets(asked.group_id, places, require_stable)))
    except KafkaError as error:
        return _Group(group_id=asked.group_id, error_code=error.error)
    return _Group(group_id=asked.group_id, topics=[
        _Topics(name=topic.name, topic_id=topic.topic_id, partitions=[
            _partition(next(found), topic.topic_id) for _ in topic.partition_indexes])
        for topic in named
    ] + unknown)


def _named(
    topics: list[OffsetFetchRequest.Group.Topics], call: Call
) -> tuple[list[OffsetFetchRequest.Group.Topics], list[OffsetFetchResponse.Group.Topics]]:
    """The topics with their names, which version 10 does not send, and answers for the rest."""
    if call.version < _TOPIC_IDS_SINCE:
        return topics, []
    named, unknown = [], []
    for topic in topics:
        known = call.broker.image.topics_by_id.get(topic.topic_id)
        if known is not None:
            topic.name = known.name
            named.append(topic)
            continue
        unknown.append(_Topics(topic_id=topic.topic_id, partitions=[
            _partition(FetchedOffset("", index, error=Error.UNKNOWN_TOPIC_ID), topic.topic_id)
            for index in topic.partition_indexes
        ]))
    return named, unknown


def _all_topics(
    found: list[FetchedOffset], call: Call
) -> list[OffsetFetchResponse.Group.Topics]:
    by_name: dict[str, OffsetFetchResponse.Group.Topics] = {}
    for offset in found:
        topic = by_name.get(offset.topic)
        if topic is None:
            known = call.broker.image.topics.get(offset.topic)
            topic = by_name[offset.topic] = _Topics(
                name=offset.topic, topic_id=known.id if known else offset.topic_id, partitions=[])
        topic.partitions.append(_partition(offset, topic.topic_id))
    if call.version < _TOPIC_IDS_SINCE:
        return list(by_name.values())
    return [topic for topic in by_name.values() if topic.topic_id != _NO_TOPIC_ID]


def _partition(
    offset: FetchedOffset, topic_id: bytes
) -> OffsetFetchResponse.Group.Topics.Partitions:
    if _NO_TOPIC_ID != offset.topic_id != topic_id != _NO_TOPIC_ID:
        # It was committed for a topic of that name that is no more.
        offset = FetchedOffset(offset.topic, offset.partition)
    return _Partitions(
        partition_index=offset.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=offset.error,
    )


# Before version 8 there is one group, told at the top level.


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequest.Group:
    kind = OffsetFetchRequest.Group
    return kind(group_id=request.group_id, topics=None if request.topics is None else [
        kind.Topics(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in request.topics
    ])


def _as_one_group(
    group: OffsetFetchResponse.Group, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponse:
    if group.error_code and call.version < _NULL_TOPICS_SINCE:
        # There is no error for the whole: each partition has it.
        group.topics = [
            _Topics(name=topic.name, partitions=[
                _partition(FetchedOffset("", index, error=Error(group.error_code)), _NO_TOPIC_ID)
                for index in topic.partition_indexes
            ])
            for topic in request.topics or ()
        ]
    kind = OffsetFetchResponse.Topic
    return OffsetFetchResponse(error_code=group.error_code, topics=[
        kind(name=topic.name, partitions=[
            kind.Partition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ])
        for topic in group.topics
    ])
