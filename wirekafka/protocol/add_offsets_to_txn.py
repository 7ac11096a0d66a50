"""AddOffsetsToTxn: adds the partition of a group's committed offsets to a transaction
(KIP-98).
"""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Request, Response, String


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Response, answers=AddOffsetsToTxnRequest):
    throttle_time_ms: Int32
    error_code: Int16
