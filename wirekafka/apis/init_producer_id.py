"""InitProducerId: """

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Int64, Request, Response, String, field


class InitProducerIdRequest(Request, key=22, versions="0-6", flexible="2+"):
    transactional_id: String | None = field(default="")
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+")
    keep_prepared_txn: Bool = field("6+")


class InitProducerIdResponse(Response, answers=InitProducerIdRequest):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
