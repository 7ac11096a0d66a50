"""EndTxn: commits or aborts a transaction; v5: answers with the bumped producer epoch (KIP-890)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Bool, Int16, Int32, Int64, Request, Response, String, field
from wirekafka.coordinator.transaction import EPOCH_BUMPING_TRANSACTIONS, FIRST_TRANSACTIONS
from wirekafka.coordinator.transaction_commands import EndTransaction, ProducerIdentity
from wirekafka.errors import Error, KafkaError


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


_FENCED_SINCE = 2
_BUMPS_EPOCH_SINCE = 5


@api(EndTxnRequest, EndTxnResponse)
async def end_txn(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """Commit or abort; the answer says who the producer is in its next transaction."""
    if not request.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)
    producer = await call.broker.transactions.end(EndTransaction(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        request.committed,
        EPOCH_BUMPING_TRANSACTIONS if call.version >= _BUMPS_EPOCH_SINCE else FIRST_TRANSACTIONS,
    ))
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


def end_txn_failure(request: EndTxnRequest, error: KafkaError, call: Call) -> EndTxnResponse:
    """No identity."""
    code = error.error
    if code is Error.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        code = Error.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)
