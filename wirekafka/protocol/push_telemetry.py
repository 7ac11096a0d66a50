"""PushTelemetry: receives the metrics of a client (KIP-714)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Bytes, Int8, Int16, Int32, Request, Response, Uuid


class PushTelemetryRequest(Request, key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


class PushTelemetryResponse(Response, answers=PushTelemetryRequest):
    throttle_time_ms: Int32
    error_code: Int16
