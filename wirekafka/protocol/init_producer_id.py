"""InitProducerId: assigns a producer its id and epoch, and aborts its open transaction
(KIP-98).
"""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Request, Response, String, field


class InitProducerIdRequest(Request, key=22, versions="0-5", flexible="2+"):
    transactional_id: String | None = field(default="")
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)


class InitProducerIdResponse(Response, answers=InitProducerIdRequest):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16
