"""UnregisterController: removes the registration of a controller that does not return."""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import api
from wirekafka.metadata.controller.registration import UnregisterController
from wirekafka.protocol.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from wirekafka.security.acl import ALTER, CLUSTER


@api(UnregisterControllerRequest, UnregisterControllerResponse, forwarded=True)
async def unregister_controller(
    request: UnregisterControllerRequest, call: ControllerCall
) -> UnregisterControllerResponse:
    """Remove the controller's registration from the metadata."""
    call.authorize(ALTER, CLUSTER)
    await call.controller.submit(UnregisterController(request.controller_id))
    return UnregisterControllerResponse()
