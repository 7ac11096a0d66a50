"""AddPartitionsToTxn: adds topic partitions to a transaction (KIP-98)."""

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


class Topic(Part):
    name: String
    partitions: list[Int32]


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions: list[Transaction] = field("4+")
    v3_and_below_transactional_id: String = field("0-3")
    v3_and_below_producer_id: Int64 = field("0-3")
    v3_and_below_producer_epoch: Int16 = field("0-3")
    v3_and_below_topics: list[Topic] = field("0-3")

    class Transaction(Part):
        transactional_id: String
        producer_id: Int64
        producer_epoch: Int16
        verify_only: Bool
        topics: list[Topic]


class PartitionResult(Part):
    partition_index: Int32
    partition_error_code: Int16


class TopicResult(Part):
    name: String
    results_by_partition: list[PartitionResult]


class AddPartitionsToTxnResponse(Response, answers=AddPartitionsToTxnRequest):
    throttle_time_ms: Int32
    error_code: Int16 = field("4+")
    results_by_transaction: list[Result] = field("4+")
    results_by_topic_v3_and_below: list[TopicResult] = field("0-3")

    class Result(Part):
        transactional_id: String
        topic_results: list[TopicResult]
