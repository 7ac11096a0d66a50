"""WriteTxnMarkers: appends commit and abort markers for a transaction coordinator (KIP-98)."""

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
    field,
)


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker]

    class WritableTxnMarker(Part):
        producer_id: Int64
        producer_epoch: Int16
        transaction_result: Bool
        topics: list[WritableTxnMarkerTopic]
        coordinator_epoch: Int32
        transaction_version: Int8 = field("2+")

        class WritableTxnMarkerTopic(Part):
            name: String
            partition_indexes: list[Int32]


class WriteTxnMarkersResponse(Response, answers=WriteTxnMarkersRequest):
    markers: list[WritableTxnMarkerResult]

    class WritableTxnMarkerResult(Part):
        producer_id: Int64
        topics: list[WritableTxnMarkerTopicResult]

        class WritableTxnMarkerTopicResult(Part):
            name: String
            partitions: list[WritableTxnMarkerPartitionResult]

            class WritableTxnMarkerPartitionResult(Part):
                partition_index: Int32
                error_code: Int16
