"""ShareAcknowledge: reports how a share group's consumer has dealt with acquired records (KIP-932).

v2: renewal of acquisition locks (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.node_endpoints import MOVED, CurrentLeaders
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.share_acknowledgements import Acknowledging, checked_request
from wirekafka.apis.shared.share_version import check_share_version
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from wirekafka.replication.share.sessions import FINAL_EPOCH
from wirekafka.security.acl import GROUP, READ, TOPIC

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
