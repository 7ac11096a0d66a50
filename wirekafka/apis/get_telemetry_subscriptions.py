"""GetTelemetrySubscriptions: says which metrics a client is to push, and how often (KIP-714)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.apis.telemetry_client import client_of
from wirekafka.codec.message import Bool, Int8, Int16, Int32, Request, Response, String, Uuid
from wirekafka.telemetry.instances import ACCEPTED_CODECS


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


@api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, call: Call
) -> GetTelemetrySubscriptionsResponse:
    """Return the client's subscription, and give it an id if it has none; no ACL limits it."""
    broker = call.broker
    instance_id, subscription = broker.telemetry.ask(
        request.client_instance_id, client_of(call), call.now_ms
    )
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=subscription.metrics,
    )
