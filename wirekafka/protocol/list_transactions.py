"""ListTransactions: lists a coordinator's transactions (KIP-664)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String, field


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None)


class ListTransactionsResponse(Response, answers=ListTransactionsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]

    class TransactionState(Part):
        transactional_id: String
        producer_id: Int64
        transaction_state: String
