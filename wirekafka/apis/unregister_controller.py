"""UnregisterController: removes the registration of a controller that does not return."""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, api
from wirekafka.codec.message import Int16, Int32, Request, Response, String, field
from wirekafka.metadata.registration import UnregisterController
from wirekafka.security.acl import ALTER, CLUSTER


class UnregisterControllerRequest(Request, key=94, versions="0", flexible="0+"):
    controller_id: Int32


class UnregisterControllerResponse(Response, answers=UnregisterControllerRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")


@api(UnregisterControllerRequest, UnregisterControllerResponse, forwarded=True)
async def unregister_controller(
    request: UnregisterControllerRequest, call: ControllerCall
) -> UnregisterControllerResponse:
    """Remove the controller's registration from the metadata."""
    call.authorize(ALTER, CLUSTER)
    await call.controller.submit(UnregisterController(request.controller_id))
    return UnregisterControllerResponse()
