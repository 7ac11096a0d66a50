"""EndTxn: commits or aborts a transaction (KIP-98).

v2: PRODUCER_FENCED (KIP-588), v5: the bumped producer epoch in the response (KIP-890).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.fencing import fencing_error
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.coordinator.transactions.commands import EndTransaction, ProducerIdentity
from wirekafka.coordinator.transactions.transaction import (
    EPOCH_BUMPING_TRANSACTIONS,
    FIRST_TRANSACTIONS,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.end_txn import EndTxnRequest, EndTxnResponse
from wirekafka.security.acl import TRANSACTIONAL_ID, WRITE

_FENCED_SINCE = 2
_BUMPS_EPOCH_SINCE = 5


@api(EndTxnRequest, EndTxnResponse)
async def end_txn(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """Commit or abort; the response has the producer id and epoch of the next transaction."""
    call.authorize(WRITE, TRANSACTIONAL_ID, request.transactional_id)
    if not request.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)
    producer = await call.broker.transactions.end(
        EndTransaction(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            request.committed,
            EPOCH_BUMPING_TRANSACTIONS
            if call.version >= _BUMPS_EPOCH_SINCE
            else FIRST_TRANSACTIONS,
        )
    )
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


@failure_of(end_txn)
def end_txn_failure(request: EndTxnRequest, error: KafkaError, call: Call) -> EndTxnResponse:
    """Report the error, with no producer id and epoch."""
    code = fencing_error(error.error, call.version, fenced_since=_FENCED_SINCE)
    return EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)
