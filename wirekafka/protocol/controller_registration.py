"""ControllerRegistration: a controller reports its listeners and features (KIP-919)."""

from __future__ import annotations

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
