"""DescribeTransactions: describes the state of transactions at their coordinator (KIP-664)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    transactional_ids: list[String]


class DescribeTransactionsResponse(Response, answers=DescribeTransactionsRequest):
    throttle_time_ms: Int32
    transaction_states: list[TransactionState]

    class TransactionState(Part):
        error_code: Int16
        transactional_id: String
        transaction_state: String
        transaction_timeout_ms: Int32
        transaction_start_time_ms: Int64
        producer_id: Int64
        producer_epoch: Int16
        topics: list[TopicData]

        class TopicData(Part):
            topic: String
            partitions: list[Int32]
