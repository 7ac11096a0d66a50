"""OffsetFetch: reads the committed offsets of groups.

v7: RequireStable (KIP-447), v8: several groups (KIP-709), v9: member epochs (KIP-848),
v10: topic ids (KIP-848).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.topic_access import topics_by_id
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.groups.commands import FetchAllOffsets, FetchedOffset, FetchOffsets
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.security.acl import DESCRIBE, GROUP, TOPIC

_NULL_TOPICS_SINCE = 2
_GROUPS_SINCE = 8
_TOPIC_IDS_SINCE = 10
_NO_TOPIC_ID = bytes(16)
_OF_PARTITIONS = frozenset(
    {
        Error.UNSTABLE_OFFSET_COMMIT,
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.UNKNOWN_TOPIC_ID,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

_Group = OffsetFetchResponse.Group
_Topics = OffsetFetchResponse.Group.Topics
_Partitions = OffsetFetchResponse.Group.Topics.Partitions


@api(OffsetFetchRequest, OffsetFetchResponse)
async def offset_fetch(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """Read the committed offsets of the given partitions, or of all that the group has."""
    if call.version >= _GROUPS_SINCE:
        turns = Turns()
        groups = []
        for group in request.groups:
            groups.append(await _fetch(group, request.require_stable, call, turns))
            await turns.step()
        return OffsetFetchResponse(groups=groups)
    return _as_one_group(
        await _fetch(_only_group(request), request.require_stable, call, Turns()), request, call
    )


@failure_of(offset_fetch)
def offset_fetch_failure(
    request: OffsetFetchRequest, error: KafkaError, call: Call
) -> OffsetFetchResponse:
    """Report the error for each group, or for its partitions in the versions where Kafka does."""
    if call.version >= _GROUPS_SINCE:
        return OffsetFetchResponse(groups=[_failed(group, error.error) for group in request.groups])
    return _as_one_group(_failed(_only_group(request), error.error), request, call)


def _failed(group: OffsetFetchRequest.Group, error: Error) -> OffsetFetchResponse.Group:
    if error not in _OF_PARTITIONS or group.topics is None:
        return _Group(group_id=group.group_id, error_code=error)
    return _Group(
        group_id=group.group_id, topics=[_failed_topic(topic, error) for topic in group.topics]
    )


async def _fetch(
    group: OffsetFetchRequest.Group, require_stable: bool, call: Call, turns: Turns
) -> OffsetFetchResponse.Group:
    groups = call.broker.groups
    if not call.is_authorized(DESCRIBE, GROUP, group.group_id):
        return _Group(group_id=group.group_id, error_code=Error.GROUP_AUTHORIZATION_FAILED)
    try:
        if group.topics is None:
            offsets = await groups.submit(
                group.group_id,
                FetchAllOffsets(
                    group.group_id, require_stable, group.member_id, group.member_epoch
                ),
            )
            may_describe = call.authorized(DESCRIBE, TOPIC, {each.topic for each in offsets})
            offsets = [each for each in offsets if each.topic in may_describe]
            return _Group(group_id=group.group_id, topics=_all_topics(offsets, call))
        named, unknown = await _named(group.topics, call, turns)
        places = [(topic.name, index) for topic in named for index in topic.partition_indexes]
        fetched = iter(
            await groups.submit(
                group.group_id,
                FetchOffsets(
                    group.group_id, places, require_stable, group.member_id, group.member_epoch
                ),
            )
        )
    except KafkaError as error:
        return _Group(group_id=group.group_id, error_code=error.error)
    return _Group(
        group_id=group.group_id,
        topics=[
            _Topics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _partition(next(fetched), topic.topic_id) for _ in topic.partition_indexes
                ],
            )
            for topic in named
        ]
        + unknown,
    )


async def _named(
    topics: list[OffsetFetchRequest.Group.Topics], call: Call, turns: Turns
) -> tuple[list[OffsetFetchRequest.Group.Topics], list[OffsetFetchResponse.Group.Topics]]:
    """Return topics with their names, which v10 does not send, and errors of unknown topics.

    Topics given by name need not exist.
    """
    if call.version < _TOPIC_IDS_SINCE:
        names = (topic.name for topic in topics)
        may_describe = await turns.authorized(call, DESCRIBE, TOPIC, names)
        refused = Error.TOPIC_AUTHORIZATION_FAILED
        return (
            [topic for topic in topics if topic.name in may_describe],
            [_failed_topic(topic, refused) for topic in topics if topic.name not in may_describe],
        )
    named, failed = [], []
    found = topics_by_id(topics, DESCRIBE, call)
    for topic, known in zip(topics, found, strict=True):
        if isinstance(known, Error):
            failed.append(_failed_topic(topic, known))
        else:
            topic.name = known.name
            named.append(topic)
    return named, failed


def _failed_topic(
    topic: OffsetFetchRequest.Group.Topics, error: Error
) -> OffsetFetchResponse.Group.Topics:
    return _Topics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            _partition(FetchedOffset("", index, error=error), topic.topic_id)
            for index in topic.partition_indexes
        ],
    )


def _all_topics(offsets: list[FetchedOffset], call: Call) -> list[OffsetFetchResponse.Group.Topics]:
    by_name: dict[str, OffsetFetchResponse.Group.Topics] = {}
    for offset in offsets:
        topic = by_name.get(offset.topic)
        if topic is None:
            known = call.broker.image.topics.get(offset.topic)
            topic = by_name[offset.topic] = _Topics(
                name=offset.topic, topic_id=known.id if known else offset.topic_id, partitions=[]
            )
        topic.partitions.append(_partition(offset, topic.topic_id))
    if call.version < _TOPIC_IDS_SINCE:
        return list(by_name.values())
    return [topic for topic in by_name.values() if topic.topic_id != _NO_TOPIC_ID]


def _partition(
    offset: FetchedOffset, topic_id: bytes
) -> OffsetFetchResponse.Group.Topics.Partitions:
    if _NO_TOPIC_ID != offset.topic_id != topic_id != _NO_TOPIC_ID:
        # The offset was committed for a deleted topic of the same name.
        offset = FetchedOffset(offset.topic, offset.partition)
    return _Partitions(
        partition_index=offset.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=offset.error,
    )


# Before version 8 a request has one group, in the top-level fields.


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequest.Group:
    kind = OffsetFetchRequest.Group
    return kind(
        group_id=request.group_id,
        topics=None
        if request.topics is None
        else [
            kind.Topics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ],
    )


def _as_one_group(
    group: OffsetFetchResponse.Group, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponse:
    if group.error_code and call.version < _NULL_TOPICS_SINCE:
        # There is no top-level error: each partition has it.
        group.topics = [
            _Topics(
                name=topic.name,
                partitions=[
                    _partition(
                        FetchedOffset("", index, error=Error(group.error_code)), _NO_TOPIC_ID
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    kind = OffsetFetchResponse.Topic
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            kind(
                name=topic.name,
                partitions=[
                    kind.Partition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
