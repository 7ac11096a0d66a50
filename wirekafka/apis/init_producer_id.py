"""InitProducerId: gives a producer its id and epoch, ending its open transaction;
v3: resumes an epoch (KIP-360), v4: PRODUCER_FENCED.
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Int64, Request, Response, String, field
from wirekafka.coordinator.transaction_commands import ProducerIdentity, StartProducer
from wirekafka.errors import Error, KafkaError


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


_FENCED_SINCE = 4


@api(InitProducerIdRequest, InitProducerIdResponse)
async def init_producer_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """Give a producer an id that nobody had before, or the next epoch of its transactional id."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(Error.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(
            producer_id=await call.broker.producer_ids.next(), producer_epoch=0)
    if not request.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)
    expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    started = await call.broker.transactions.start_producer(StartProducer(
        request.transactional_id, request.transaction_timeout_ms,
        expected if request.producer_id != -1 else None))
    return InitProducerIdResponse(producer_id=started.producer_id,
                                  producer_epoch=started.producer_epoch)


def init_producer_id_failure(request: InitProducerIdRequest, error: KafkaError,
                             call: Call) -> InitProducerIdResponse:
    """No id and no epoch."""
    code = error.error
    if code is Error.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        code = Error.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
