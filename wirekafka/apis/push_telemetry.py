"""PushTelemetry: receives the metrics of a client (KIP-714)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.apis.telemetry_client import client_of
from wirekafka.codec.message import Bool, Bytes, Int8, Int16, Int32, Request, Response, Uuid
from wirekafka.telemetry.instances import Push, Receiver


class PushTelemetryRequest(Request, key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


class PushTelemetryResponse(Response, answers=PushTelemetryRequest):
    throttle_time_ms: Int32
    error_code: Int16


@api(PushTelemetryRequest, PushTelemetryResponse)
def push_telemetry(request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    """Take the metrics of a client that has a subscription; no ACL limits it."""
    broker = call.broker
    push = Push(
        instance_id=request.client_instance_id,
        subscription_id=request.subscription_id,
        is_terminating=request.terminating,
        codec=request.compression_type,
        metrics=request.metrics,
    )
    receiver = Receiver(
        broker.config.telemetry_max_bytes, broker.measures.telemetry if broker.measures else None
    )
    broker.telemetry.push(push, client_of(call), call.now_ms, receiver)
    return PushTelemetryResponse()
