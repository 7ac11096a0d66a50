"""UnregisterBroker: forgets a broker that is gone for good (KIP-500)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Request, Response, String, field
from wirekafka.metadata.registration import UnregisterBroker


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    broker_id: Int32


class UnregisterBrokerResponse(Response, answers=UnregisterBrokerRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")


@api(UnregisterBrokerRequest, UnregisterBrokerResponse)
async def unregister_broker(
        request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
    """Take a broker's registration out of the metadata."""
    await call.broker.controller.submit(UnregisterBroker(request.broker_id))
    return UnregisterBrokerResponse()
