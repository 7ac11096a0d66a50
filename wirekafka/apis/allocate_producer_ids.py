"""AllocateProducerIds: reserves a block of producer ids for one broker (KIP-730)."""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import controller_api
from wirekafka.metadata.controller.producer_ids import AllocateProducerIds
from wirekafka.protocol.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


@controller_api(AllocateProducerIdsRequest, AllocateProducerIdsResponse)
async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, call: ControllerCall
) -> AllocateProducerIdsResponse:
    """Reserve the next block for the broker if it is registered with this epoch."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    block = await call.controller.submit(
        AllocateProducerIds(request.broker_id, request.broker_epoch)
    )
    return AllocateProducerIdsResponse(
        producer_id_start=block.first, producer_id_len=block.end - block.first
    )
