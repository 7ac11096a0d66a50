"""AllocateProducerIds: reserves a block of producer ids for one broker (KIP-730)."""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, controller_api
from wirekafka.codec.message import Int16, Int32, Int64, Request, Response, field
from wirekafka.metadata.producer_ids import AllocateProducerIds
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


class AllocateProducerIdsRequest(Request, key=67, versions="0", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)


class AllocateProducerIdsResponse(Response, answers=AllocateProducerIdsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32


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
