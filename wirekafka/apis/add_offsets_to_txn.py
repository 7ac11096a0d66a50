"""AddOffsetsToTxn: brings a group's offsets partition into a transaction;
v2: PRODUCER_FENCED, v4: TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Int64, Request, Response, String
from wirekafka.coordinator.groups import OFFSETS_TOPIC
from wirekafka.coordinator.transaction import FIRST_TRANSACTIONS
from wirekafka.coordinator.transaction_commands import AddPartitions, ProducerIdentity
from wirekafka.errors import Error, KafkaError


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Response, answers=AddOffsetsToTxnRequest):
    throttle_time_ms: Int32
    error_code: Int16


_FENCED_SINCE = 2


@api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest,
                             call: Call) -> AddOffsetsToTxnResponse:
    """Add the partition that holds the group's offsets."""
    if not request.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)
    broker = call.broker
    await broker.ensure_internal_topic(OFFSETS_TOPIC)
    where = OFFSETS_TOPIC, broker.groups.partition_for(request.group_id)
    await broker.transactions.submit(request.transactional_id, AddPartitions(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        frozenset({where}), FIRST_TRANSACTIONS))
    return AddOffsetsToTxnResponse()


def add_offsets_to_txn_failure(request: AddOffsetsToTxnRequest, error: KafkaError,
                               call: Call) -> AddOffsetsToTxnResponse:
    """The error, as the version knows it."""
    code = error.error
    if code is Error.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        code = Error.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
