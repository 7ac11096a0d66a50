"""Fetch: reads record batches from partitions and waits for new ones, for consumers and
followers.
"""

from __future__ import annotations

from wirekafka.codec.message import (
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


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    cluster_id: String | None = field("12+", default=None, tag=0)
    replica_id: Int32 = field("4-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=2147483647)
    isolation_level: Int8
    session_id: Int32 = field("7+")
    session_epoch: Int32 = field("7+", default=-1)
    topics: list[Topic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: String = field("11+")

    class ReplicaState(Part):
        replica_id: Int32 = field(default=-1)
        replica_epoch: Int64 = field(default=-1)

    class Topic(Part):
        topic: String = field("4-12")
        topic_id: Uuid = field("13+")
        partitions: list[Partition]

        class Partition(Part):
            partition: Int32
            current_leader_epoch: Int32 = field("9+", default=-1)
            fetch_offset: Int64
            last_fetched_epoch: Int32 = field("12+", default=-1)
            log_start_offset: Int64 = field("5+", default=-1)
            partition_max_bytes: Int32
            replica_directory_id: Uuid = field("17+", tag=0)
            high_watermark: Int64 = field("18+", default=9223372036854775807, tag=1)

    class ForgottenTopic(Part):
        topic: String = field("7-12")
        topic_id: Uuid = field("13+")
        partitions: list[Int32]


class FetchResponse(Response, answers=FetchRequest):
    throttle_time_ms: Int32
    error_code: Int16 = field("7+")
    session_id: Int32 = field("7+")
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)

    class FetchableTopicResponse(Part):
        topic: String = field("4-12")
        topic_id: Uuid = field("13+")
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            error_code: Int16
            high_watermark: Int64
            last_stable_offset: Int64 = field(default=-1)
            log_start_offset: Int64 = field("5+", default=-1)
            diverging_epoch: EpochEndOffset = field("12+", tag=0)
            current_leader: LeaderIdAndEpoch = field("12+", tag=1)
            snapshot_id: SnapshotId = field("12+", tag=2)
            aborted_transactions: list[AbortedTransaction] | None = field(default=[])
            preferred_read_replica: Int32 = field("11+", default=-1)
            records: Records | None = field(default=b"")

            class EpochEndOffset(Part):
                epoch: Int32 = field(default=-1)
                end_offset: Int64 = field(default=-1)

            class LeaderIdAndEpoch(Part):
                leader_id: Int32 = field(default=-1)
                leader_epoch: Int32 = field(default=-1)

            class SnapshotId(Part):
                end_offset: Int64 = field(default=-1)
                epoch: Int32 = field(default=-1)

            class AbortedTransaction(Part):
                producer_id: Int64
                first_offset: Int64
