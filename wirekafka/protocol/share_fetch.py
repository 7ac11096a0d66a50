"""ShareFetch: acquires records for a member of a share group, and acknowledges earlier ones."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Part,
    Records,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.protocol.node_endpoints import NodeEndpoint


class ShareFetchRequest(Request, key=78, versions="1-2", flexible="0+"):
    group_id: String | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=0x7FFFFFFF)
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field("2+", default=0)
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]

    class FetchTopic(Part):
        topic_id: Uuid
        partitions: list[FetchPartition]

        class FetchPartition(Part):
            partition_index: Int32
            acknowledgement_batches: list[AcknowledgementBatch]

            class AcknowledgementBatch(Part):
                first_offset: Int64
                last_offset: Int64
                acknowledge_types: list[Int8]

    class ForgottenTopic(Part):
        topic_id: Uuid
        partitions: list[Int32]


class ShareFetchResponse(Response, answers=ShareFetchRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]

    class ShareFetchableTopicResponse(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            acknowledge_error_code: Int16
            acknowledge_error_message: String | None = field(default=None)
            current_leader: LeaderIdAndEpoch
            records: Records | None = field(nullable="0", default=b"")
            acquired_records: list[AcquiredRecords]

            class LeaderIdAndEpoch(Part):
                leader_id: Int32
                leader_epoch: Int32

            class AcquiredRecords(Part):
                first_offset: Int64
                last_offset: Int64
                delivery_count: Int16
