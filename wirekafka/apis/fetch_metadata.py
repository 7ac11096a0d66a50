"""Fetch on a controller's listener: replicas of the metadata log fetch from its leader (KIP-595).

v12: topic names, v13: topic ids, v15: replica state, v16: the leader's address, v17: replica
directory ids (KIP-853), v18: the replica's high watermark (KIP-1166).
"""

from __future__ import annotations

from functools import partial

from wirekafka.apis.fetch import fetch
from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import at_controllers
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import METADATA_TOPIC_ID
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.node_endpoints import NodeEndpoint
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import (
    FetchAnswer,
    FetchPosition,
    LeaderAndEpoch,
    ReplicaKey,
)
from wirekafka.runtime.promise import Promise
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData
_SENT_FROM_FILE_BYTES = 1 << 15


@at_controllers(fetch)
async def fetch_metadata(request: FetchRequest, call: ControllerCall) -> FetchResponse:
    """Serve the metadata partition; without anything new, after at most `max_wait_ms`."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    controller = call.controller
    if request.cluster_id not in (None, controller.cluster_id):
        return FetchResponse(error_code=Error.INCONSISTENT_CLUSTER_ID)
    partition = _only_partition(request, call.version)
    if partition is None:
        return FetchResponse(error_code=Error.INVALID_REQUEST)
    numbers = partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch
    if min(request.max_wait_ms, *numbers) < 0:
        return _failed(Error.INVALID_REQUEST, controller.raft.leadership, call)
    position = FetchPosition(
        replica=ReplicaKey(
            max(request.replica_id, request.replica_state.replica_id),
            partition.replica_directory_id,
        ),
        leader_epoch=partition.current_leader_epoch,
        offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
    )
    max_bytes = min(request.max_bytes, controller.config.controller_quorum_fetch_max_bytes)
    deadline_ms = call.now_ms + request.max_wait_ms
    try:
        answer = controller.raft.fetched(position, max_bytes, call.now_ms)
        while not _is_news(answer, position) and call.now_ms < deadline_ms:
            await _change(call, deadline_ms)
            answer = controller.raft.fetched(position, max_bytes, call.now_ms)
    except KafkaError as error:
        return _failed(error.error, controller.raft.leadership, call)
    return _response(_served(answer), answer.leadership, call)


def _only_partition(request: FetchRequest, version: int) -> FetchRequest.Topic.Partition | None:
    """The requested partition, if it is the metadata's partition and the only one requested."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    is_metadata = (
        topic.topic_id == METADATA_TOPIC_ID if version >= 13 else topic.topic == METADATA_TOPIC
    )
    [partition] = topic.partitions
    return partition if is_metadata and partition.partition == 0 else None


def _is_news(answer: FetchAnswer, position: FetchPosition) -> bool:
    return (
        len(answer.records) > 0
        or answer.error is not Error.NONE
        or answer.diverging is not None
        or answer.snapshot is not None
        or answer.high_watermark > position.high_watermark
    )


async def _change(call: ControllerCall, deadline_ms: int) -> None:
    """Wait for an append, a rise of the high watermark or a change of leader, or the deadline."""
    changed: Promise[None] = Promise()
    unwatch = call.controller.raft.watch(partial(changed.set, None))
    try:
        await changed.within(call.controller.clock, deadline_ms - call.now_ms)
    finally:
        unwatch()


def _served(answer: FetchAnswer) -> _Partition:
    data = _Partition(
        partition_index=0,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=None,
    )
    records = answer.records
    if len(records):
        data.records = (records,) if len(records) >= _SENT_FROM_FILE_BYTES else records
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        data.diverging_epoch = _Partition.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if answer.snapshot is not None:
        data.snapshot_id = _Partition.SnapshotId(
            end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch
        )
    return data


def _failed(error: Error, leadership: LeaderAndEpoch, call: ControllerCall) -> FetchResponse:
    data = _Partition(
        partition_index=0, error_code=error, high_watermark=-1, aborted_transactions=None
    )
    return _response(data, leadership, call)


def _response(data: _Partition, leadership: LeaderAndEpoch, call: ControllerCall) -> FetchResponse:
    data.current_leader = _Partition.LeaderIdAndEpoch(
        leader_id=leadership.leader_id, leader_epoch=leadership.epoch
    )
    topic = (
        _Topic(topic_id=METADATA_TOPIC_ID, partitions=[data])
        if call.version >= 13
        else _Topic(topic=METADATA_TOPIC, partitions=[data])
    )
    return FetchResponse(
        responses=[topic],
        node_endpoints=[
            NodeEndpoint(node_id=leadership.leader_id, host=host, port=port)
            for name, host, port in leadership.endpoints
            if name == call.listener
        ],
    )
