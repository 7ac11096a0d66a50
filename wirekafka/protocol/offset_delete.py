"""OffsetDelete: deletes a group's committed offsets of topics that it does not read (KIP-496)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String


class OffsetDeleteRequest(Request, key=47, versions="0", flexible="none"):
    group_id: String
    topics: list[Topic]

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32


class OffsetDeleteResponse(Response, answers=OffsetDeleteRequest):
    error_code: Int16
    throttle_time_ms: Int32
    topics: list[Topic]

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            error_code: Int16
