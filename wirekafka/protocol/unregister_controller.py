"""UnregisterController: removes the registration of a controller that does not return."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Request, Response, String, field


class UnregisterControllerRequest(Request, key=94, versions="0", flexible="0+"):
    controller_id: Int32


class UnregisterControllerResponse(Response, answers=UnregisterControllerRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
