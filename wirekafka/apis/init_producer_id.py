"""InitProducerId: assigns a producer its id and epoch, and aborts its open transaction (KIP-98).

v3: resumes an epoch (KIP-360), v4: PRODUCER_FENCED (KIP-588).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.fencing import fencing_error
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.coordinator.transactions.commands import ProducerIdentity, StartProducer
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirekafka.security.acl import CLUSTER, IDEMPOTENT_WRITE, TOPIC, TRANSACTIONAL_ID, WRITE

_FENCED_SINCE = 4


@api(InitProducerIdRequest, InitProducerIdResponse)
async def init_producer_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """Assign a new producer id, or the next epoch of a transactional id."""
    _authorize(request, call)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(Error.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(
            producer_id=await call.broker.producer_ids.next(), producer_epoch=0
        )
    if not request.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)
    expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    started = await call.broker.transactions.start_producer(
        StartProducer(
            request.transactional_id,
            request.transaction_timeout_ms,
            expected if request.producer_id != -1 else None,
        )
    )
    return InitProducerIdResponse(
        producer_id=started.producer_id, producer_epoch=started.producer_epoch
    )


def _authorize(request: InitProducerIdRequest, call: Call) -> None:
    if request.transactional_id is not None:
        call.authorize(WRITE, TRANSACTIONAL_ID, request.transactional_id)
    elif not call.may(IDEMPOTENT_WRITE, CLUSTER) and not call.may_on_some(WRITE, TOPIC):
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED)


@failure_of(init_producer_id)
def init_producer_id_failure(
    request: InitProducerIdRequest, error: KafkaError, call: Call
) -> InitProducerIdResponse:
    """Report the error, with no producer id and epoch."""
    code = fencing_error(error.error, call.version, fenced_since=_FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
