"""ControllerRegistration: a controller reports its listeners and features (KIP-919)."""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, controller_api
from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    UInt16,
    Uuid,
    field,
)
from wirekafka.metadata.registration import Endpoint, RegisterController
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


class ControllerRegistrationRequest(Request, key=70, versions="0", flexible="0+"):
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    listeners: list[Listener]
    features: list[Feature]

    class Listener(Part):
        name: String
        host: String
        port: UInt16
        security_protocol: Int16

    class Feature(Part):
        name: String
        min_supported_version: Int16
        max_supported_version: Int16


class ControllerRegistrationResponse(Response, answers=ControllerRegistrationRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")


@controller_api(ControllerRegistrationRequest, ControllerRegistrationResponse)
async def controller_registration(
    request: ControllerRegistrationRequest, call: ControllerCall
) -> ControllerRegistrationResponse:
    """Register a controller, which may be this one."""
    if not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    await call.controller.submit(
        RegisterController(
            id=request.controller_id,
            incarnation_id=request.incarnation_id,
            endpoints=[
                Endpoint(each.name, each.host, each.port, each.security_protocol)
                for each in request.listeners
            ],
            features={
                each.name: (each.min_supported_version, each.max_supported_version)
                for each in request.features
            },
        )
    )
    return ControllerRegistrationResponse()
