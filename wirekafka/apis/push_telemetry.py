"""PushTelemetry: receives the metrics of a client (KIP-714)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.telemetry_client import client_of
from wirekafka.protocol.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from wirekafka.telemetry.instances import Push, Receiver


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
