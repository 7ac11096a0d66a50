"""BrokerRegistration: registers a started broker, fenced at first, with the controller
(KIP-631).
"""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    UInt16,
    Uuid,
    field,
)


class BrokerRegistrationRequest(Request, key=62, versions="0-4", flexible="0+"):
    broker_id: Int32
    cluster_id: String
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: String | None
    is_migrating_zk_broker: Bool = field("1+")
    log_dirs: list[Uuid] = field("2+")
    previous_broker_epoch: Int64 = field("3+", default=-1)

    class Listener(Part):
        name: String
        host: String
        port: UInt16
        security_protocol: Int16

    class Feature(Part):
        name: String
        min_supported_version: Int16
        max_supported_version: Int16


class BrokerRegistrationResponse(Response, answers=BrokerRegistrationRequest):
    throttle_time_ms: Int32
    error_code: Int16
    broker_epoch: Int64 = field(default=-1)
