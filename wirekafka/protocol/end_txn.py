"""EndTxn: commits or aborts a transaction (KIP-98)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Int64, Request, Response, String, field


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Response, answers=EndTxnRequest):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = field("5+", default=-1)
    producer_epoch: Int16 = field("5+", default=-1)
