"""OffsetForLeaderEpoch: returns the end offset of a leader epoch, to find divergence
(KIP-101).
"""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String, field


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    replica_id: Int32 = field("3+", default=-2)
    topics: list[OffsetForLeaderTopic]

    class OffsetForLeaderTopic(Part):
        topic: String
        partitions: list[OffsetForLeaderPartition]

        class OffsetForLeaderPartition(Part):
            partition: Int32
            current_leader_epoch: Int32 = field(default=-1)
            leader_epoch: Int32


class OffsetForLeaderEpochResponse(Response, answers=OffsetForLeaderEpochRequest):
    throttle_time_ms: Int32
    topics: list[OffsetForLeaderTopicResult]

    class OffsetForLeaderTopicResult(Part):
        topic: String
        partitions: list[EpochEndOffset]

        class EpochEndOffset(Part):
            error_code: Int16
            partition: Int32
            leader_epoch: Int32 = field(default=-1)
            end_offset: Int64 = field(default=-1)
