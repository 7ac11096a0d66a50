"""ShareAcknowledge: reports how a share group's consumer has dealt with acquired records
(KIP-932).
"""

from __future__ import annotations

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
from wirekafka.protocol.node_endpoints import NodeEndpoint


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
