"""GetTelemetrySubscriptions: says which metrics a client is to push, and how often (KIP-714)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int8, Int16, Int32, Request, Response, String, Uuid


class GetTelemetrySubscriptionsRequest(Request, key=71, versions="0", flexible="0+"):
    client_instance_id: Uuid


class GetTelemetrySubscriptionsResponse(Response, answers=GetTelemetrySubscriptionsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: list[String]
