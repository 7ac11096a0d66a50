"""TxnOffsetCommit: commits the offsets of a group within a transaction (KIP-98)."""

from __future__ import annotations

from wirekafka.codec.message import (
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


class TxnOffsetCommitRequest(Request, key=28, versions="0-6", flexible="3+"):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Int32 = field("3+", default=-1)
    member_id: String = field("3+")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[Topic]

    class Topic(Part):
        name: String = field("0-5")
        topic_id: Uuid = field("6+")
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("2+", default=-1)
            committed_metadata: String | None = field(default="")


class TxnOffsetCommitResponse(Response, answers=TxnOffsetCommitRequest):
    throttle_time_ms: Int32
    topics: list[Topic]

    class Topic(Part):
        name: String = field("0-5")
        topic_id: Uuid = field("6+")
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            error_code: Int16
