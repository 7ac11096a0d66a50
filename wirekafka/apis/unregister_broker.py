"""UnregisterBroker: removes the registration of a broker that does not return (KIP-500)."""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, api
from wirekafka.codec.message import Int16, Int32, Request, Response, String, field
from wirekafka.metadata.registration import UnregisterBroker
from wirekafka.security.acl import ALTER, CLUSTER


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    broker_id: Int32


class UnregisterBrokerResponse(Response, answers=UnregisterBrokerRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")


@api(UnregisterBrokerRequest, UnregisterBrokerResponse, forwarded=True)
async def unregister_broker(
    request: UnregisterBrokerRequest, call: ControllerCall
) -> UnregisterBrokerResponse:
    """Remove the broker's registration from the metadata."""
    call.authorize(ALTER, CLUSTER)
    await call.controller.submit(UnregisterBroker(request.broker_id))
    return UnregisterBrokerResponse()
