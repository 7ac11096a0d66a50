"""DescribeLogDirs: lists the log directories of a broker and the replicas in them (KIP-113)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)


class DescribeLogDirsRequest(Request, key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = field(default=[])

    class DescribableLogDirTopic(Part):
        topic: String
        partitions: list[Int32]


class DescribeLogDirsResponse(Response, answers=DescribeLogDirsRequest):
    throttle_time_ms: Int32
    error_code: Int16 = field("3+")
    results: list[Result]

    class Result(Part):
        error_code: Int16
        log_dir: String
        topics: list[Topic]
        total_bytes: Int64 = field("4+", default=-1)
        usable_bytes: Int64 = field("4+", default=-1)
        is_cordoned: Bool = field("5+")

        class Topic(Part):
            name: String
            partitions: list[Partition]

            class Partition(Part):
                partition_index: Int32
                partition_size: Int64
                offset_lag: Int64
                is_future_key: Bool
