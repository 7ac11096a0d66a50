"""AddOffsetsToTxn: adds the partition of a group's committed offsets to a transaction (KIP-98).

v2: PRODUCER_FENCED (KIP-588), v4: TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.fencing import fencing_error
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.coordinator.transactions.commands import AddPartitions, ProducerIdentity
from wirekafka.coordinator.transactions.transaction import FIRST_TRANSACTIONS
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.security.acl import GROUP, READ, TRANSACTIONAL_ID, WRITE

_FENCED_SINCE = 2


@api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse)
async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, call: Call
) -> AddOffsetsToTxnResponse:
    """Add the partition of `__consumer_offsets` that holds the group's offsets."""
    call.authorize(WRITE, TRANSACTIONAL_ID, request.transactional_id)
    call.authorize(READ, GROUP, request.group_id)
    if not request.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)
    broker = call.broker
    await broker.ensure_internal_topic(OFFSETS_TOPIC)
    where = OFFSETS_TOPIC, broker.groups.partition_for(request.group_id)
    await broker.transactions.submit(
        request.transactional_id,
        AddPartitions(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            frozenset({where}),
            FIRST_TRANSACTIONS,
        ),
    )
    return AddOffsetsToTxnResponse()


@failure_of(add_offsets_to_txn)
def add_offsets_to_txn_failure(
    request: AddOffsetsToTxnRequest, error: KafkaError, call: Call
) -> AddOffsetsToTxnResponse:
    """Report the error, with a code that the request's version knows."""
    code = fencing_error(error.error, call.version, fenced_since=_FENCED_SINCE)
    return AddOffsetsToTxnResponse(error_code=code)
