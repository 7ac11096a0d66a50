"""ShareAcknowledge: reports how a share group's consumer has dealt with acquired records (KIP-932).

v2: renewal of acquisition locks (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.apis.node_endpoints import MOVED, CurrentLeaders, NodeEndpoint
from wirekafka.apis.registry import Call, api
from wirekafka.apis.share_acknowledgements import Acknowledging, checked_request
from wirekafka.apis.share_version import check_share_version
from wirekafka.codec.message import (
    Bool,
    Int8,
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
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.share.sessions import FINAL_EPOCH
from wirekafka.security.acl import GROUP, READ, TOPIC


class ShareAcknowledgeRequest(Request, key=79, versions="1-2", flexible="0+"):
    group_id: String | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[AcknowledgeTopic]

    class AcknowledgeTopic(Part):
        topic_id: Uuid
        partitions: list[AcknowledgePartition]

        class AcknowledgePartition(Part):
            partition_index: Int32
            acknowledgement_batches: list[AcknowledgementBatch]

            class AcknowledgementBatch(Part):
                first_offset: Int64
                last_offset: Int64
                acknowledge_types: list[Int8]


class ShareAcknowledgeResponse(Response, answers=ShareAcknowledgeRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field("2+")
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]

    class ShareAcknowledgeTopicResponse(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            current_leader: LeaderIdAndEpoch

            class LeaderIdAndEpoch(Part):
                leader_id: Int32
                leader_epoch: Int32


_TopicResponse = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_PartitionData = _TopicResponse.PartitionData


@api(ShareAcknowledgeRequest, ShareAcknowledgeResponse)
async def share_acknowledge(
    request: ShareAcknowledgeRequest, call: Call
) -> ShareAcknowledgeResponse:
    """Apply acknowledgements, and respond once they are stored."""
    broker = call.broker
    check_share_version(call)
    if request.group_id is None:
        raise KafkaError(Error.INVALID_REQUEST)
    if not call.is_authorized(READ, GROUP, request.group_id):
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED)
    checked = checked_request(broker, request, call.version)
    broker.shares.sessions.note_acknowledgement(checked.key, request.share_session_epoch)
    readable = call.authorized(READ, TOPIC, _topic_names(request, call))
    acknowledging = Acknowledging(checked, readable)
    acknowledging.begin(request.topics)
    results = await acknowledging.results()
    if request.share_session_epoch == FINAL_EPOCH:
        broker.shares.close_session(checked.key)
    topics: dict[bytes, _TopicResponse] = {}
    leaders = CurrentLeaders(call)
    for (topic_id, index), (error, message) in results.items():
        data = _PartitionData(partition_index=index, error_code=error, error_message=message)
        topics.setdefault(topic_id, _TopicResponse(topic_id=topic_id)).partitions.append(data)
        if error in MOVED:
            leader_id, leader_epoch = leaders.find(topic_id, index)
            data.current_leader = _PartitionData.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
    options = broker.shares.options(checked.key.group_id)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=options.limits.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=list(leaders.endpoints.values()),
    )


def _topic_names(request: ShareAcknowledgeRequest, call: Call) -> Iterator[str]:
    """Yield the name of the topic of each partition, as far as the topic exists."""
    topics = call.broker.image.topics_by_id
    for topic in request.topics:
        known = topics.get(topic.topic_id)
        if known is not None:
            for _ in topic.partitions:
                yield known.name
