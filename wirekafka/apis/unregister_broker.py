"""UnregisterBroker: removes the registration of a broker that does not return (KIP-500)."""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import api
from wirekafka.metadata.controller.registration import UnregisterBroker
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from wirekafka.security.acl import ALTER, CLUSTER


@api(UnregisterBrokerRequest, UnregisterBrokerResponse, forwarded=True)
async def unregister_broker(
    request: UnregisterBrokerRequest, call: ControllerCall
) -> UnregisterBrokerResponse:
    """Remove the broker's registration from the metadata."""
    call.authorize(ALTER, CLUSTER)
    await call.controller.submit(UnregisterBroker(request.broker_id))
    return UnregisterBrokerResponse()
