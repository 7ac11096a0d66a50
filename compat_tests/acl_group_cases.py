"""Requests of share and streams groups for the comparison of responses under ACLs.

The topic `t` and the groups in `GROUPS` are those on which users have permissions; on `u` only the
super user has any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.delete_share_group_state import DeleteShareGroupStateRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.initialize_share_group_state import InitializeShareGroupStateRequest
from wirekafka.protocol.read_share_group_state import ReadShareGroupStateRequest
from wirekafka.protocol.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest
from wirekafka.protocol.share_fetch import ShareFetchRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from wirekafka.protocol.write_share_group_state import WriteShareGroupStateRequest

SHARE_GROUPS = {"shared": ["t"], "shared-2": ["t", "u"], "shared-3": ["t", "nope"]}
"""Groups with one member each, and the topics to which it subscribes."""
STREAMS_GROUPS = {"streamed": "t", "streamed-2": "u"}
"""Groups with one member each, and the topic that it reads."""
OFFSETS = "shared-offsets"
"""A share group without members that has states of `t` and `u`."""
CREATING = ("creating-1", "creating-2")
"""Streams groups, one per version, that begin with a missing internal topic."""
GROUPS = (*SHARE_GROUPS, *STREAMS_GROUPS, OFFSETS, *CREATING)
CHANGELOGS = tuple(f"{group}-store-changelog" for group in CREATING)
"""Topics on which users have the permissions of `t`; they do not exist at first."""

_MEMBER = "6ZGGfVUxQGmvg2Hc4gKGXw"
_SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
_HOUR_MS = 3_600_000


class Stage(Protocol):
    """A broker with the ids of its topics."""

    users: Any
    ids: dict[str, bytes]


def prepare(stage: Stage) -> None:
    """Create the groups as the super user, and wait until their share partitions are loaded."""

    def ask(request: Request, version: int) -> Any:
        return stage.users.ask("admin", request, version)

    share_coordinator = FindCoordinatorRequest(key_type=2, coordinator_keys=[_SHARE_KEY])
    eventually(lambda: not ask(share_coordinator, 6).coordinators[0].error_code, timeout_s=60)
    for group, topics in SHARE_GROUPS.items():
        _succeed(ask(_share_heartbeat(group, topics, epoch=0), 1))
    for group, topic in STREAMS_GROUPS.items():
        _succeed(ask(_streams_heartbeat(group, [topic]), 1))
    _succeed(ask(_alter("t", "u"), 0))
    offsets = _describe_offsets(named=False)
    eventually(lambda: _has_topic(ask(offsets, 1), "shared"), timeout_s=60)
    for group, topics in SHARE_GROUPS.items():
        joining = _share_heartbeat(group, topics, epoch=0)
        eventually(partial(_is_assigned, partial(ask, joining, 1)), timeout_s=60)
    eventually(lambda: _has_loaded(ask(_share_fetch(stage), 2)), timeout_s=60)


def _has_topic(answer: Any, group_id: str) -> bool:
    """Whether the offsets of some topic of a group are described."""
    return any(group.topics for group in answer.groups if group.group_id == group_id)


def _is_assigned(heartbeat: Callable[[], Any]) -> bool:
    assignment = heartbeat().assignment
    return assignment is not None and bool(assignment.topic_partitions)


def _has_loaded(answer: Any) -> bool:
    """Whether a ShareFetch had access to the partition 0 of the group's topic."""
    return any(
        partition.partition_index == 0 and not partition.error_code
        for topic in answer.responses
        for partition in topic.partitions
    )


def _succeed(answer: Any) -> None:
    assert answer.error_code == 0, answer


def _share_heartbeat(group: str, topics: Sequence[str], epoch: int) -> Request:
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=_MEMBER, member_epoch=epoch, subscribed_topic_names=list(topics)
    )


def _streams_heartbeat(
    group: str, sources: Sequence[str], changelog: str | None = None, epoch: int = 0
) -> Request:
    changelogs = [] if changelog is None else [TopicInfo(name=changelog)]
    subtopology = StreamsGroupTopologyValue.Subtopology(
        subtopology_id="0", source_topics=list(sources), state_changelog_topics=changelogs
    )
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=_MEMBER,
        member_epoch=epoch,
        rebalance_timeout_ms=_HOUR_MS,
        process_id="process",
        topology=StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology])
        if epoch == 0
        else None,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def _share_fetch(stage: Stage, epoch: int = 0, acknowledges: bool = False) -> Request:
    kind = ShareFetchRequest.FetchTopic
    batches = [
        kind.FetchPartition.AcknowledgementBatch(
            first_offset=0, last_offset=0, acknowledge_types=[1]
        )
    ]
    part = kind.FetchPartition(
        partition_index=0, acknowledgement_batches=batches if acknowledges else []
    )
    missing = kind.FetchPartition(
        partition_index=99, acknowledgement_batches=batches if acknowledges else []
    )
    return ShareFetchRequest(
        group_id="shared",
        member_id=_MEMBER,
        share_session_epoch=epoch,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1000,
        max_records=10,
        batch_size=10,
        topics=[kind(topic_id=id, partitions=[part, missing]) for id in stage.ids.values()],
    )


def _acknowledge(stage: Stage) -> Request:
    kind = ShareAcknowledgeRequest.AcknowledgeTopic
    partition = kind.AcknowledgePartition
    batch = partition.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    backward = partition.AcknowledgementBatch(first_offset=2, last_offset=1, acknowledge_types=[1])
    partitions = [
        partition(partition_index=0, acknowledgement_batches=[batch]),
        partition(partition_index=1, acknowledgement_batches=[backward]),
        partition(partition_index=99, acknowledgement_batches=[batch]),
    ]
    return ShareAcknowledgeRequest(
        group_id="shared",
        member_id=_MEMBER,
        share_session_epoch=1,
        topics=[kind(topic_id=id, partitions=partitions) for id in stage.ids.values()],
    )


def _in_session(stage: Stage, make: Callable[[Stage], Request]) -> Request:
    """The request, once the super user has begun a session of the member."""
    stage.users.ask("admin", _share_fetch(stage), 2)
    return make(stage)


def _describe_offsets(named: bool) -> Request:
    kind = DescribeShareGroupOffsetsRequest.Group
    topics = [kind.Topic(topic_name=name, partitions=[0, 1]) for name in ("u", "nope", "t")]
    return DescribeShareGroupOffsetsRequest(
        groups=[
            kind(group_id=group, topics=topics if named else None)
            for group in ("h", OFFSETS, "shared", "g")
        ]
    )


def _alter(*names: str, group: str = OFFSETS) -> Request:
    kind = AlterShareGroupOffsetsRequest.Topic
    partitions = [kind.Partition(partition_index=index, start_offset=0) for index in (0, 1)]
    return AlterShareGroupOffsetsRequest(
        group_id=group, topics=[kind(topic_name=name, partitions=partitions) for name in names]
    )


def _delete(stage: Stage, *names: str) -> Request:
    """A request to delete states, once the super user has made sure of them."""
    _succeed(stage.users.ask("admin", _alter("t", "u"), 0))
    kind = DeleteShareGroupOffsetsRequest.Topic
    return DeleteShareGroupOffsetsRequest(
        group_id=OFFSETS, topics=[kind(topic_name=name) for name in names]
    )


def _state(stage: Stage, request: type[Any], part: str, **fields: Any) -> Request:
    kind = getattr(request, part)
    made: Request = request(
        group_id="g",
        topics=[
            kind(topic_id=id, partitions=[kind.PartitionData(partition=0, **fields)])
            for id in [stage.ids["t"], stage.ids["u"]]
        ],
    )
    return made


CASES: dict[str, Callable[[Any], Request]] = {
    "share heartbeat": lambda _: _share_heartbeat("g", ["t"], epoch=1),
    "share heartbeat with another topic": lambda _: _share_heartbeat("g", ["t", "u"], epoch=1),
    "share heartbeat that is invalid": lambda _: _share_heartbeat("g", [], epoch=-5),
    "share heartbeat of a member": lambda _: _share_heartbeat("shared", ["t"], epoch=0),
    "describe share groups": lambda _: ShareGroupDescribeRequest(
        group_ids=["h", *SHARE_GROUPS, "", OFFSETS, "g"], include_authorized_operations=True
    ),
    "share fetch": _share_fetch,
    "share fetch with acknowledgements": lambda stage: _in_session(
        stage, lambda stage: _share_fetch(stage, epoch=1, acknowledges=True)
    ),
    "share fetch of nobody": lambda _: ShareFetchRequest(group_id="shared", member_id=""),
    "share acknowledge": lambda stage: _in_session(stage, _acknowledge),
    "share acknowledge of nobody": lambda _: ShareAcknowledgeRequest(
        group_id="shared", member_id=""
    ),
    "initialize share states": lambda stage: _state(
        stage, InitializeShareGroupStateRequest, "InitializeStateData", state_epoch=1
    ),
    "read share states": lambda stage: _state(stage, ReadShareGroupStateRequest, "ReadStateData"),
    "write share states": lambda stage: _state(
        stage, WriteShareGroupStateRequest, "WriteStateData", state_epoch=1
    ),
    "write no share states": lambda _: WriteShareGroupStateRequest(group_id="g"),
    "summarize share states": lambda stage: _state(
        stage, ReadShareGroupStateSummaryRequest, "ReadStateSummaryData"
    ),
    "delete share states": lambda stage: _state(
        stage, DeleteShareGroupStateRequest, "DeleteStateData"
    ),
    "find a share coordinator": lambda _: FindCoordinatorRequest(
        key=_SHARE_KEY, key_type=2, coordinator_keys=[_SHARE_KEY, "g"]
    ),
    "describe share offsets": lambda _: _describe_offsets(named=True),
    "describe all share offsets": lambda _: _describe_offsets(named=False),
    "alter share offsets": lambda _: _alter("u", "nope", "t"),
    "alter share offsets of members": lambda _: _alter("u", "nope", "t", group="shared"),
    "alter share offsets of no group": lambda _: _alter("t", group=""),
    "delete share offsets": lambda stage: _delete(stage, "u", "nope", "t"),
    "delete share offsets of another topic": lambda stage: _delete(stage, "u"),
    "delete share offsets of no topic": lambda stage: _delete(stage),
    "streams heartbeat": lambda _: _streams_heartbeat("g", [], epoch=1),
    "streams heartbeat of a member": lambda _: _streams_heartbeat("streamed", ["t"]),
    "streams heartbeat with another topic": lambda _: _streams_heartbeat("streamed", ["t", "u"]),
    "streams heartbeat with internal topics": lambda _: _streams_heartbeat(
        "streamed", ["t", "__consumer_offsets", "__share_group_state"]
    ),
    "streams heartbeat with an invalid topic": lambda _: _streams_heartbeat(
        "streamed", ["t", "no topic"]
    ),
    "describe streams groups": lambda _: StreamsGroupDescribeRequest(
        group_ids=["h", *STREAMS_GROUPS, "", "g"],
        include_authorized_operations=True,
        include_topology_description=True,
    ),
    "describe a topology": lambda _: StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="streamed", member_id=_MEMBER
    ),
}


def creating(number: int) -> Request:
    """A heartbeat of a group whose changelog is to be created."""
    return _streams_heartbeat(CREATING[number], ["t"], CHANGELOGS[number])
