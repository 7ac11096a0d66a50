"""FindCoordinator: finds the broker that coordinates a group, a transaction or a share partition.

v1: transactions (KIP-98), v4: several keys (KIP-699), v6: share groups (KIP-932).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.coordinator.share_state.states import coordinator_key, share_key_of
from wirekafka.errors import DEFAULT_MESSAGES, Error, KafkaError
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wirekafka.replication.partition.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from wirekafka.security.access import REFUSALS, refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION, DESCRIBE, GROUP, TRANSACTIONAL_ID

if TYPE_CHECKING:
    from wirekafka.broker import Broker


_BATCH_SINCE = 4
_SHARE_SINCE = 6
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_TOPICS = {_GROUP: OFFSETS_TOPIC, _TRANSACTION: TRANSACTIONS_TOPIC, _SHARE: SHARE_STATE_TOPIC}
_AUTHORIZED_AS = {_GROUP: GROUP, _TRANSACTION: TRANSACTIONAL_ID}

_Coordinator = FindCoordinatorResponse.Coordinator


@api(FindCoordinatorRequest, FindCoordinatorResponse)
async def find_coordinator(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    """Find the coordinator of each key; create the coordinator's internal topic if needed."""
    if call.version >= _BATCH_SINCE:
        turns = Turns()
        coordinators = []
        for key in request.coordinator_keys:
            coordinators.append(await _find(request.key_type, key, call))
            await turns.step()
        return FindCoordinatorResponse(coordinators=coordinators)
    found = await _find(request.key_type, request.key, call)
    error = Error(found.error_code)
    return FindCoordinatorResponse(
        error_code=error,
        error_message=DEFAULT_MESSAGES[error],
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


@failure_of(find_coordinator)
def find_coordinator_failure(
    request: FindCoordinatorRequest, error: KafkaError, call: Call
) -> FindCoordinatorResponse:
    """Report the error for every key of the request, in the words of the error, as Kafka does."""
    message = DEFAULT_MESSAGES.get(error.error, error.message)
    if call.version >= _BATCH_SINCE:
        return FindCoordinatorResponse(
            coordinators=[
                _nobody(key, error.error, message or "") for key in request.coordinator_keys
            ]
        )
    return FindCoordinatorResponse(
        error_code=error.error, error_message=message, node_id=-1, port=-1
    )


async def _find(key_type: int, key: str, call: Call) -> FindCoordinatorResponse.Coordinator:
    kind = _AUTHORIZED_AS.get(key_type)
    if kind is not None and not call.is_authorized(DESCRIBE, kind, key):
        return _nobody(key, REFUSALS[kind])
    is_share = key_type == _SHARE and call.version >= _SHARE_SINCE
    if is_share and not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    topic = _TOPICS.get(key_type)
    if topic is None:
        return _nobody(key, Error.INVALID_REQUEST, DEFAULT_MESSAGES[Error.INVALID_REQUEST])
    shard_key = key
    if key_type == _SHARE:
        share_key = share_key_of(key) if call.version >= _SHARE_SINCE else None
        if share_key is None:
            return _nobody(key, Error.INVALID_REQUEST)
        shard_key = coordinator_key(share_key)
    try:
        await call.broker.ensure_internal_topic(topic)
    except KafkaError:
        return _nobody(key, Error.COORDINATOR_NOT_AVAILABLE)
    known = call.broker.image.topics.get(topic)
    if known is None or not known.partitions:
        return _nobody(key, Error.COORDINATOR_NOT_AVAILABLE)
    partition = known.partitions[coordinator_partition(shard_key, len(known.partitions))]
    nodes = {node.id: node for node in call.broker.nodes(call.listener)}
    node = nodes.get(partition.leader)
    if node is None or not _may_respond(node.id, topic, partition.index, call.broker):
        return _nobody(key, Error.COORDINATOR_NOT_AVAILABLE)
    return _Coordinator(key=key, node_id=node.id, host=node.host, port=node.port)


def _may_respond(leader: int, topic: str, index: int, broker: Broker) -> bool:
    """Whether the coordinator on the partition's leader will respond with more than an error.

    False if it is this broker, which applies new metadata in steps and does not lead the partition
    yet. NOT_COORDINATOR, which Kafka's coordinator responds with meanwhile, ends programs that use
    an admin client of librdkafka (up to 2.15: a null pointer in ListConsumerGroupOffsets).
    """
    placed = broker.partitions.get((topic, index))
    return leader != broker.node_id or (placed is not None and placed.is_leader)


def _nobody(key: str, error: Error, message: str = "") -> FindCoordinatorResponse.Coordinator:
    return _Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )
